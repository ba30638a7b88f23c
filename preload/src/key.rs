//! Keys: what tells one kind of thread from another, in every run of the same program file.
//!
//! Invariant: a key names places in modules, never addresses of a process; two keys are equal if
//! and only if their texts are.
//!
//! As text: `BUILDIDHEX+0xOFFSET`, or two of them joined by `~` where one trampoline starts many
//! kinds and a word of its argument tells them apart. A module without a build-id is known by its
//! path: `-` and the sixteen digits of the path's hash stand for the id.

use std::fmt;
use std::str::FromStr;

use heddle_record::{CodePlace, Use};

/// Most bytes of a build-id that a plan can hold.
pub const BUILD_ID_MAX: usize = 32;

/// A kind of thread.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key {
    /// The start function.
    pub start: Where,
    /// What the start function's argument points at, where that refines the kind.
    pub refine: Option<Where>,
}

/// A place in a module.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Where {
    /// The program or library.
    pub module: Module,
    /// Bytes from the module's load address, as in its symbol table.
    pub offset: u64,
}

/// A program or library file.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Module {
    /// Known by its build-id.
    BuildId(BuildId),
    /// Without a build-id: the FNV-1a hash of its path, 64 bits.
    Path(u64),
}

/// A build-id of 1 to 32 bytes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BuildId {
    bytes: [u8; BUILD_ID_MAX],
    length: u8,
}

impl BuildId {
    /// The id with these bytes; `None` if they are none or more than 32.
    pub fn new(bytes: &[u8]) -> Option<BuildId> {
        let mut id = BuildId { bytes: [0; BUILD_ID_MAX], length: u8::try_from(bytes.len()).ok()? };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (!bytes.is_empty()).then_some(id)
    }

    /// Reads hexadecimal digits, two for each byte.
    pub fn parse(hex: &str) -> Option<BuildId> {
        if !hex.is_ascii() || !hex.len().is_multiple_of(2) || hex.len() > 2 * BUILD_ID_MAX {
            return None;
        }
        let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
        let pairs = hex.as_bytes().chunks_exact(2);
        let bytes: Option<Vec<u8>> =
            pairs.map(|pair| Some(digit(&pair[0])? << 4 | digit(&pair[1])?)).collect();
        BuildId::new(&bytes?)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Module {
    /// The module with this build-id in hexadecimal, or this path if it has none.
    pub fn new(build_id: Option<&str>, path: &str) -> Module {
        let id = build_id.and_then(BuildId::parse);
        id.map_or_else(|| Module::Path(path_hash(path)), Module::BuildId)
    }
}

/// FNV-1a, 64 bits, of a module's path, as libheddle-preload computes it.
pub fn path_hash(path: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    path.bytes().fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

impl From<&CodePlace> for Where {
    fn from(place: &CodePlace) -> Where {
        let module = Module::new(place.build_id.as_deref(), &place.path);
        Where { module, offset: place.offset }
    }
}

impl Key {
    /// The kind of thread that a process's account is about; `None` if the process did not say
    /// what starts it.
    pub fn of_use(kind: &Use) -> Option<Key> {
        let (start, refine) = kind.places();
        Some(Key { start: Where::from(&start?), refine: refine.as_ref().map(Where::from) })
    }

    /// Whether a rule for this key is about threads of the kind `other`: the same kind, or the
    /// same start function where this key names no refining word.
    pub fn covers(&self, other: &Key) -> bool {
        self.start == other.start && self.refine.is_none_or(|word| other.refine == Some(word))
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.module {
            Module::BuildId(id) => write!(f, "{id}+{:#x}", self.offset),
            Module::Path(hash) => write!(f, "-{hash:016x}+{:#x}", self.offset),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.refine {
            Some(refine) => write!(f, "{}~{refine}", self.start),
            None => write!(f, "{}", self.start),
        }
    }
}

/// The text is no key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoKey;

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no key of a kind of thread: expected BUILDIDHEX+0xOFFSET, or two joined by ~")
    }
}

impl std::error::Error for NoKey {}

impl FromStr for Where {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Where, NoKey> {
        let (module, offset) = text.split_once('+').ok_or(NoKey)?;
        let module = match module.strip_prefix('-') {
            Some(hash) if hash.len() == 16 => Module::Path(hex(hash)?),
            Some(_) => return Err(NoKey),
            None => Module::BuildId(BuildId::parse(module).ok_or(NoKey)?),
        };
        Ok(Where { module, offset: hex(offset.strip_prefix("0x").ok_or(NoKey)?)? })
    }
}

/// Hexadecimal digits only: the standard parser would take a sign.
fn hex(digits: &str) -> Result<u64, NoKey> {
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(NoKey);
    }
    u64::from_str_radix(digits, 16).map_err(|_| NoKey)
}

impl FromStr for Key {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Key, NoKey> {
        let (start, refine) = match text.split_once('~') {
            Some((start, refine)) => (start, Some(refine.parse()?)),
            None => (text, None),
        };
        Ok(Key { start: start.parse()?, refine })
    }
}

impl serde::Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_from_their_texts() {
        for text in ["ab12+0x0", "ab+0xffffffffffffffff~0123+0x10", "-00000000000000ff+0x1"] {
            assert_eq!(text.parse::<Key>().expect(text).to_string(), text);
        }
        let long = format!("{}+0x1", "ab".repeat(32));
        assert_eq!(long.parse::<Key>().expect("the longest").to_string(), long);
    }

    #[test]
    fn other_texts_are_no_keys() {
        let long = format!("{}+0x1", "ab".repeat(33));
        for text in [
            "",
            "~",
            "+0x1",
            "ab",
            "ab+1",
            "ab+0x",
            "ab+0x+1",
            "abc+0x1",
            "xy+0x1",
            "ab+0x1~",
            "-1+0x1",
            "-+0x1",
            "ab+0x1~ab+0x1~ab+0x1",
            "é+0x1",
            "ab+0x11111111111111111",
            &long,
        ] {
            assert_eq!(text.parse::<Key>(), Err(NoKey), "{text}");
        }
    }

    #[test]
    fn a_use_has_the_key_of_its_texts() {
        let of = |start: &str| Key::of_use(&Use { start: Some(start.into()), ..Use::default() });
        assert_eq!(of("ab+1f /usr/bin/x").expect("a key").to_string(), "ab+0x1f");
        let key = of("ab+1f /x\n-+20 a").expect("a key");
        // The hash of "a" is in every table of FNV-1a's test values.
        assert_eq!(key.to_string(), "ab+0x1f~-af63dc4c8601ec8c+0x20");
        assert_eq!(Key::of_use(&Use::default()), None);
        let plain = of("ab+1f /x").expect("a key");
        assert!(plain.covers(&key) && plain.covers(&plain) && !key.covers(&plain));
    }
}
