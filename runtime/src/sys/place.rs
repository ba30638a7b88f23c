//! What an address belongs to, in words: the file that is mapped there, and how far it is from its
//! beginning. By /proc, not by the loader: its lock may be held by a thread that waits for ever.

use core::cell::OnceCell;
use core::fmt;

use super::descriptor::read_all;

/// An address that is written as `0x55d0c0a04040 (program+0x4040)`; the number alone where no file
/// is known.
pub struct Place(pub usize);

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.0)?;
        match find(&maps(), self.0) {
            Some((file, offset)) => write!(out, " ({file}+{offset:#x})"),
            None => Ok(()),
        }
    }
}

/// The mappings of this process, as they are when they are first asked for.
#[derive(Default)]
pub(crate) struct Maps(OnceCell<String>);

impl Maps {
    /// Whether no other process sees what this one writes to `address`, and it may.
    pub fn is_private(&self, address: usize) -> bool {
        is_private_in(self.0.get_or_init(maps), address)
    }
}

fn maps() -> String {
    let maps = read_all(c"/proc/self/maps").unwrap_or_default();
    String::from_utf8_lossy(&maps).into_owned()
}

/// The first address of a mapping, and the one behind its last.
fn bounds(word: &str) -> Option<(usize, usize)> {
    let (low, high) = word.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(low)?, number(high)?))
}

fn is_private_in(maps: &str, address: usize) -> bool {
    let holds = |line: &&str| {
        let (low, high) = line.split(' ').next().and_then(bounds).unwrap_or_default();
        (low..high).contains(&address)
    };
    let mapping = maps.lines().find(holds);
    mapping
        .and_then(|line| line.split(' ').nth(1))
        .is_some_and(|it| it.starts_with("rw") && it.ends_with('p'))
}

/// The name of the file that `address` belongs to, and where there. What follows a file's mapping
/// without a gap and has no name is what the file has of zeros.
fn find(maps: &str, address: usize) -> Option<(&str, usize)> {
    let (mut path, mut begin, mut end) = ("", 0, 0);
    for line in maps.lines() {
        let mut words = line.splitn(6, ' ');
        let (low, high) = bounds(words.next()?)?;
        let here = words.nth(4).unwrap_or("").trim_start();
        if !(here == path || here.is_empty() && low == end) {
            (path, begin) = (here, low);
        }
        end = high;
        if (low..high).contains(&address) {
            let name = path.rsplit('/').next().filter(|_| path.starts_with('/'))?;
            return Some((name, address - begin));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
1000-2000 r--p 00000000 08:01 1234                     /usr/bin/a program
2000-3000 rw-p 00001000 08:01 1234                     /usr/bin/a program
3000-4000 rw-p 00000000 00:00 0 
5000-6000 rw-s 00000000 00:00 0 
6000-7000 rw-p 00000000 00:00 0                        [heap]
8000-9000 r--p 00000000 08:01 5678                     /lib/x.so
";

    #[test]
    fn a_files_mappings_and_its_zeros_are_told() {
        assert_eq!(find(MAPS, 0x2010), Some(("a program", 0x1010)));
        assert_eq!(find(MAPS, 0x3ff8), Some(("a program", 0x2ff8)));
        assert_eq!(find(MAPS, 0x8000), Some(("x.so", 0)));
        for nowhere in [0x10, 0x4000, 0x5010, 0x6010, 0x9000] {
            assert_eq!(find(MAPS, nowhere), None, "{nowhere:#x}");
        }
    }

    #[test]
    fn what_others_may_write_is_not_private() {
        for (address, is_private) in
            [(0x2010, true), (0x5010, false), (0x6000, true), (0x10, false), (0x1000, false)]
        {
            assert_eq!(is_private_in(MAPS, address), is_private, "{address:#x}");
        }
    }

    #[test]
    fn a_variable_is_in_this_program() {
        static VARIABLE: u32 = 7;
        let told = Place((&raw const VARIABLE).addr()).to_string();
        let file = std::env::current_exe().unwrap();
        let file = file.file_name().unwrap().to_str().unwrap();
        assert!(told.contains(&format!("({file}+0x")), "{told}");
    }
}
