//! The words of a record: what its byte-sized fields may say, and how they are printed.
//!
//! Invariant: every number matches the enumerator of the same name in `record.h`; a byte that
//! names none of them is a fault (`from_raw` gives `None`), never a default.

/// Defines one enumeration with its C numbers and its printed words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident default $default:ident
     { $($(#[$variant_doc:meta])* $variant:ident = $raw:literal $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_doc])* $variant = $raw,)* }

        impl $name {
            /// Every value, in the order of its numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The value that a record's byte stands for; `None` if it stands for nothing.
            #[inline]
            pub const fn from_raw(raw: u8) -> Option<$name> {
                match raw { $($raw => Some($name::$variant),)* _ => None }
            }

            /// The word that people read.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl Default for $name {
            fn default() -> Self { $name::$default }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

words! {
    /// What a thread is doing.
    State default Free {
        /// The slot holds no thread.
        Free = 0 "free",
        /// Created, not started yet.
        New = 1 "new",
        /// Waiting for a worker. A runtime writes this for running threads too: two stores per
        /// switch would cost more than a reader's look at the workers.
        Ready = 2 "ready",
        /// On a worker now. Derived by readers.
        Running = 3 "running",
        /// Waiting for something.
        Parked = 4 "parked",
        /// Parked for an event of the event stream.
        EvWait = 5 "EV_WAIT",
        /// Over, not joined yet.
        Finished = 6 "finished",
    }
}

words! {
    /// What kind of thread a record describes.
    Kind default Free {
        /// None: the slot is free.
        Free = 0 "free",
        /// Uses its worker's thread-local storage and stays on that worker once started.
        Light = 1 "light",
        /// Has thread-local storage of its own, may migrate and be preempted.
        Full = 2 "full",
        /// What the kernel schedules.
        KernelThread = 3 "kernel thread",
        /// A kernel thread that runs threads.
        Worker = 4 "worker",
    }
}

words! {
    /// How urgent a thread is.
    Class default Lazy {
        /// Runs when no time-critical thread can.
        Lazy = 0 "lazy",
        /// Runs in the Fast region, by priority 1..99.
        TimeCritical = 1 "time-critical",
    }
}

words! {
    /// TEK's four scheduling groups of the Lazy region.
    Group default Normal {
        /// The largest share.
        Urgent = 0 "urgent",
        /// Where threads are unless they say otherwise.
        Normal = 1 "normal",
        /// Threads that serve others.
        Service = 2 "service",
        /// The smallest share.
        Background = 3 "background",
    }
}

words! {
    /// What a thread does in a GUI (guiS).
    Category default None {
        /// Nothing, or not said.
        None = 0 "none",
        /// Handles input.
        Event = 1 "event",
        /// Draws.
        Drawing = 2 "drawing",
        /// Works for what the user sees.
        Foreground = 3 "foreground",
        /// Works whether anyone looks or not.
        Background = 4 "background",
    }
}

words! {
    /// Where a thread's peak stack use lies in its stack (TEK's stack zones).
    Zone default Unknown {
        /// Not measured yet.
        Unknown = 0 "unknown",
        /// Most of the stack was never touched: it can shrink.
        Low = 1 "low",
        /// The size fits.
        Normal = 2 "normal",
        /// Close to overflow: it should grow.
        High = 3 "high",
    }
}

impl Zone {
    /// The zone of a stack of `size` bytes whose deepest use so far was `peak` bytes.
    ///
    /// Below a quarter is Low, from three quarters on is High. A peak of 0 was never measured.
    pub const fn of(peak: u32, size: u32) -> Zone {
        if peak == 0 || size == 0 {
            Zone::Unknown
        } else if (peak as u64) * 4 < size as u64 {
            Zone::Low
        } else if (peak as u64) * 4 < size as u64 * 3 {
            Zone::Normal
        } else {
            Zone::High
        }
    }
}

/// The name of a kernel scheduling policy (`SCHED_*`), "?" if Linux has no such number.
pub const fn policy_name(policy: u8) -> &'static str {
    match policy {
        0 => "other",
        1 => "fifo",
        2 => "rr",
        3 => "batch",
        5 => "idle",
        6 => "deadline",
        7 => "ext",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_numbers_round_trip_and_others_are_refused() {
        for state in State::ALL {
            assert_eq!(State::from_raw(*state as u8), Some(*state));
        }
        assert_eq!(State::from_raw(7), None);
        assert_eq!(Kind::from_raw(5), None);
        assert_eq!(Class::from_raw(2), None);
        assert_eq!(Group::from_raw(4), None);
        assert_eq!(Category::from_raw(5), None);
        assert_eq!(Zone::from_raw(4), None);
    }

    #[test]
    fn zones_split_at_the_quarters() {
        assert_eq!(Zone::of(0, 100), Zone::Unknown);
        assert_eq!(Zone::of(24, 100), Zone::Low);
        assert_eq!(Zone::of(25, 100), Zone::Normal);
        assert_eq!(Zone::of(74, 100), Zone::Normal);
        assert_eq!(Zone::of(75, 100), Zone::High);
        assert_eq!(Zone::of(u32::MAX, u32::MAX), Zone::High);
    }

    #[test]
    fn words_obey_width() {
        extern crate std;
        assert_eq!(std::format!("{:>6}", State::New), "   new");
        assert_eq!(std::format!("{}", State::EvWait), "EV_WAIT");
    }
}
