//! What of a `struct pthread` that was kept is made zero for the next thread.
//!
//! glibc itself makes little of it zero where it gives a cached stack again, so most of what is
//! written here is caution. But a line that is written has to be fetched, and where many threads
//! come and go that is most of what making one costs. So three parts are left as they are:
//!
//! - The values of keys, and the pointers to their blocks, if the thread never set one: the library
//!   sets a flag with the first.
//! - The resolver's state if its first words are zero: it was never used.
//! - What is between the header and the link in the list of threads, if that was zero in both
//!   threads that were looked at.
//!
//! Invariant: what is left was not written by the thread before, or is wiped after all.

use std::ops::Range;

/// `sizeof(struct __res_state)`, part of the library's binary interface.
const RESOLVER_BYTES: usize = 568;
/// Of these the settings and the number of servers: zero until it is used.
const RESOLVER_WORDS: usize = 3;
/// Four ranges at most are left: five are between them.
const PARTS: usize = 5;

/// Offsets into the structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Part {
    begin: usize,
    end: usize,
}

impl Part {
    /// # Safety
    /// 1. The part lies inside what `pthread` names.
    unsafe fn wipe(self, pthread: *mut u8) {
        // SAFETY: by 1.
        unsafe { pthread.add(self.begin).write_bytes(0, self.end - self.begin) };
    }
}

/// What is known of the structure's fields.
pub(super) struct Known {
    /// The flag and the two fields that it is about.
    pub keys: Option<(usize, [Range<usize>; 2])>,
    /// The resolver's state.
    pub resolver: Option<usize>,
    /// What is zero in all threads.
    pub unused: Range<usize>,
}

/// See the file's head; offsets into the structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wipe {
    always: [Part; PARTS],
    /// The flag, and what it is about.
    keys: Option<(usize, [Part; 2])>,
    resolver: Option<Part>,
}

impl Wipe {
    /// All of so many bytes.
    pub fn all(bytes: usize) -> Wipe {
        Wipe::new(bytes, &Known { keys: None, resolver: None, unused: 0..0 })
    }

    /// For a structure of so many bytes. A part that does not lie inside it, or overlaps another,
    /// is always wiped.
    pub fn new(bytes: usize, known: &Known) -> Wipe {
        let mut left: Vec<Part> = Vec::new();
        let mut leave = |range: &Range<usize>| {
            let part = Part { begin: range.start, end: range.end };
            let is_apart = |it: &Part| it.end <= part.begin || part.end <= it.begin;
            let fits = part.begin < part.end && part.end <= bytes && left.iter().all(is_apart);
            fits.then(|| left.push(part)).map(|()| part)
        };
        let keys = known.keys.as_ref().and_then(|(flag, [values, blocks])| {
            // Both or none: the one without the other would be useless.
            let is_outside = |range: &Range<usize>| !range.contains(flag) && range.end <= bytes;
            let are_apart = values.end <= blocks.start || blocks.end <= values.start;
            if !is_outside(values) || !is_outside(blocks) || !are_apart || *flag >= bytes {
                return None;
            }
            Some((*flag, [leave(values)?, leave(blocks)?]))
        });
        let resolver = known.resolver.and_then(|at| leave(&(at..at + RESOLVER_BYTES)));
        leave(&known.unused);
        left.sort_by_key(|part| part.begin);
        let mut always = [Part::default(); PARTS];
        let mut begin = 0;
        for (index, part) in left.iter().enumerate() {
            always[index] = Part { begin, end: part.begin };
            begin = part.end;
        }
        always[left.len()] = Part { begin, end: bytes };
        Wipe { always, keys, resolver }
    }

    /// Makes the structure of an ended thread as good as zero.
    ///
    /// # Safety
    /// 1. `pthread` is the structure, and nobody uses it.
    pub unsafe fn wipe(&self, pthread: *mut u8) {
        // SAFETY: by 1; all parts were checked to lie inside it.
        unsafe {
            if let Some((flag, parts)) = self.keys
                && pthread.add(flag).read() != 0
            {
                parts.into_iter().for_each(|part| part.wipe(pthread));
            }
            if let Some(part) = self.resolver
                && pthread.add(part.begin).cast::<[usize; RESOLVER_WORDS]>().read()
                    != [0; RESOLVER_WORDS]
            {
                part.wipe(pthread);
            }
            self.always.into_iter().for_each(|part| part.wipe(pthread));
        }
    }

    /// What is wiped whatever the thread did.
    pub fn always(&self) -> impl Iterator<Item = Range<usize>> {
        self.always.into_iter().map(|part| part.begin..part.end)
    }

    /// Whether the thread of this structure may have set a value of a key.
    ///
    /// # Safety
    /// 1. `pthread` is the structure.
    pub unsafe fn may_have_values(&self, pthread: *mut u8) -> bool {
        // SAFETY: by 1; the flag was checked to lie inside it.
        self.keys.is_none_or(|(flag, _)| unsafe { pthread.add(flag).read() } != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 2304;

    fn known() -> Known {
        Known { keys: Some((1552, [784..1296, 1296..1552])), resolver: Some(1712), unused: 80..704 }
    }

    /// Bytes that are left of a structure full of ones, but for `zeros`.
    fn left(wipe: &Wipe, zeros: Range<usize>) -> Vec<usize> {
        let mut bytes = vec![1_u8; BYTES];
        bytes[zeros].fill(0);
        // SAFETY: of that size.
        unsafe { wipe.wipe(bytes.as_mut_ptr()) };
        (0..BYTES).filter(|&at| bytes[at] != 0).collect()
    }

    #[test]
    fn only_what_was_not_used_is_left() {
        let wipe = Wipe::new(BYTES, &known());
        assert_eq!(left(&wipe, 0..0), (80..704).collect::<Vec<_>>());
        let keys: Vec<_> = (80..704).chain(784..1552).collect();
        assert_eq!(left(&wipe, 1552..1553), keys);
        // The resolver's first words alone, and one of them.
        let resolver: Vec<_> = (80..704).chain(1736..2280).collect();
        assert_eq!(left(&wipe, 1712..1736), resolver);
        assert_eq!(left(&wipe, 1712..1735), (80..704).collect::<Vec<_>>());
    }

    #[test]
    fn what_makes_no_sense_is_wiped() {
        let nothing: Vec<usize> = Vec::new();
        let odd = [
            Known { keys: None, resolver: None, unused: 0..0 },
            // Outside, the flag in what it is about, one over the other.
            Known { keys: None, resolver: Some(BYTES - 8), unused: 704..704 },
            Known { keys: Some((800, [784..1296, 1296..1552])), resolver: None, unused: 0..0 },
            Known { keys: Some((8, [784..1296, 1000..1552])), resolver: None, unused: 0..0 },
            Known { keys: Some((8, [784..1296, 2200..2456])), resolver: None, unused: 0..0 },
            Known { keys: Some((BYTES, [784..1296, 1296..1552])), resolver: None, unused: 0..0 },
        ];
        for known in odd {
            let wipe = Wipe::new(BYTES, &known);
            assert_eq!(left(&wipe, 8..9), nothing);
        }
        // The part that was there first is left.
        let known = Known { unused: 700..800, ..known() };
        assert_eq!(left(&Wipe::new(BYTES, &known), 0..0), nothing);
    }
}
