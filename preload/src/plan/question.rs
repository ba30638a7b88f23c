//! What a process asks `heddle run` before it becomes a program, or starts one.
//!
//! Invariant: nothing in a question is trusted: one of another form is an error.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::layout::{QUESTION_BYTES_MAX, QUESTION_SIZE, RawQuestion};

/// About one program. The numbers of limits are the kernel's: `u64::MAX` is none.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Question {
    /// Its absolute path.
    pub path: PathBuf,
    /// Device and inode of the file, as the process sees it.
    pub file: (u64, u64),
    /// RLIMIT_AS of the process.
    pub address_space: u64,
    /// RLIMIT_DATA.
    pub data: u64,
    /// RLIMIT_STACK.
    pub stack: u64,
    /// LD_PRELOAD of the environment that it gets.
    pub preload: OsString,
    /// LD_LIBRARY_PATH.
    pub library_path: OsString,
}

impl Question {
    /// Takes one from a connection.
    ///
    /// # Errors
    /// As reading, and for what is no question.
    pub fn read(from: &mut impl Read) -> io::Result<Question> {
        let mut header = [0; QUESTION_SIZE];
        from.read_exact(&mut header)?;
        let number = |offset: usize| {
            let bytes = header[offset..offset + 8].try_into().expect("8 bytes");
            u64::from_le_bytes(bytes)
        };
        // The number and the unused one beside it: a little-endian machine's.
        let bytes = number(offset_of!(RawQuestion, bytes)) as u32 as usize;
        let nonsense = || io::Error::from(io::ErrorKind::InvalidData);
        if bytes > QUESTION_BYTES_MAX {
            return Err(nonsense());
        }
        let mut texts = vec![0; bytes];
        from.read_exact(&mut texts)?;
        let texts = texts.strip_suffix(&[0]).ok_or_else(nonsense)?;
        let texts: Vec<&[u8]> = texts.split(|byte| *byte == 0).collect();
        let [path, preload, library_path] = texts[..] else { return Err(nonsense()) };
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        Ok(Question {
            path: text(path).into(),
            file: (number(offset_of!(RawQuestion, device)), number(offset_of!(RawQuestion, inode))),
            address_space: number(offset_of!(RawQuestion, address_space)),
            data: number(offset_of!(RawQuestion, data)),
            stack: number(offset_of!(RawQuestion, stack)),
            preload: text(preload),
            library_path: text(library_path),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(texts: &[u8]) -> Vec<u8> {
        let header = [texts.len() as u64, 1, 2, 3, 4, u64::MAX];
        header.iter().flat_map(|it| it.to_le_bytes()).chain(texts.iter().copied()).collect()
    }

    #[test]
    fn a_question_is_read() {
        let read = Question::read(&mut &bytes(b"/bin/sh\0a.so\0\0")[..]).expect("a question");
        let expected = Question {
            path: "/bin/sh".into(),
            file: (1, 2),
            address_space: 3,
            data: 4,
            stack: u64::MAX,
            preload: "a.so".into(),
            library_path: OsString::new(),
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_none_is_refused() {
        let many = vec![0; QUESTION_BYTES_MAX + 1];
        for texts in [&b"/bin/sh\0\0"[..], b"/bin/sh\0\0\0\0", b"/bin/sh\0\0.", b"", &many] {
            assert!(Question::read(&mut &bytes(texts)[..]).is_err(), "{texts:?}");
        }
        let cut = bytes(b"/bin/sh\0\0\0");
        assert!(Question::read(&mut &cut[..cut.len() - 1]).is_err());
    }
}
