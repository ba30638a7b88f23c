//! Bytes that nobody vouches for: a file that another process may change or cut at any moment,
//! or an image of one.
//!
//! Invariant: reading beyond the end is an error, never a signal: files are read by system
//! calls, not through a mapping.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::Error;

/// Where a reader gets a table's bytes.
pub(crate) trait Source {
    /// Bytes in the source at the moment.
    fn size(&self) -> Result<u64, Error>;

    /// Fills `buffer` from `offset`.
    fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error>;
}

impl Source for File {
    fn size(&self) -> Result<u64, Error> {
        Ok(self.metadata().map_err(Error::std_io("look at the thread table"))?.len())
    }

    fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                let need = offset.saturating_add(buffer.len() as u64);
                Error::Truncated { need, have: self.size().unwrap_or(0) }
            }
            _ => Error::Io { doing: "read the thread table", source: error },
        })
    }
}

impl Source for [u8] {
    fn size(&self) -> Result<u64, Error> {
        Ok(self.len() as u64)
    }

    fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let need = offset.saturating_add(buffer.len() as u64);
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..)?.get(..buffer.len()))
            .ok_or(Error::Truncated { need, have: self.len() as u64 })?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}
