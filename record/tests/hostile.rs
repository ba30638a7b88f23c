//! Tables that lie: no byte of a table can make a reader do more than refuse it.

#[path = "support/image.rs"]
mod image;

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use heddle_record::layout::{PLACE_SIZE, RECORD_SIZE, USE_SIZE};
use heddle_record::{Error, Fault, Fields, Kind, Reader, State};
use image::{PLACES, RECORDS_AT, ROLES, RUN, TEXTS, USES, USES_AT, check, honest};

/// Bytes of the header that say something.
const HEADER: usize = 120;
use proptest::prelude::*;

#[test]
fn the_honest_image_is_believed() {
    let snapshot = check(&honest()).expect("a snapshot");
    assert_eq!(snapshot.faults, []);
    assert_eq!((snapshot.threads.len(), snapshot.workers.len()), (19, 1));
    assert_eq!(snapshot.workers[0].runs, Some(3));
    assert_eq!(snapshot.threads[0].role.as_deref(), Some("http connection"));
    assert_eq!(snapshot.threads[1].name.as_deref(), Some("accept"));
    assert_eq!(snapshot.threads[0].start.as_deref(), Some("main::serve"));
    assert_eq!((snapshot.run, snapshot.preload, snapshot.ended), (RUN, true, false));
}

#[test]
fn places_and_uses_are_believed() {
    let snapshot = check(&honest()).expect("a snapshot");
    assert_eq!((snapshot.uses.len(), snapshot.use_faults.len()), (2, 0));
    let [first, second] = &snapshot.uses[..] else { unreachable!() };
    assert_eq!((first.is_main(), first.is_explicit()), (true, false));
    assert_eq!((second.is_main(), second.is_explicit()), (false, true));
    assert_eq!(first.start.as_deref(), Some("main::serve"));
    assert_eq!(first.site.as_deref(), Some("accept"));
    assert_eq!(
        (first.name.as_deref(), first.role.as_deref()),
        (Some("http connection"), first.name.as_deref())
    );
    assert_eq!((first.created, first.failed, first.ended), (10, 1, 9));
    assert_eq!((first.stack_asked, first.stack_given), (8 << 20, 64 << 10));
    assert_eq!((first.peak, first.resident, first.cpu_ns), (5000, 8192, 1 << 40));
    assert_eq!((first.reserved, first.reserved_peak), (64 << 10, 640 << 10));

    assert_eq!(snapshot.workers[0].stack, None);
    let thread = &snapshot.threads[0];
    let stack = thread.stack.expect("a place");
    assert_eq!((stack.high - stack.low, stack.entry - stack.low), (0x1_0000, 0xff00));
    assert_eq!(snapshot.use_of(thread), Some(first));
    assert_eq!(snapshot.use_of(&snapshot.threads[1]), Some(second));
    assert_eq!(snapshot.use_of(&snapshot.threads[2]), None);
}

#[test]
fn tables_without_places_and_uses_are_tables_too() {
    let mut image = honest();
    image[88..HEADER].fill(0);
    let snapshot = check(&image).expect("a snapshot");
    assert!(snapshot.uses.is_empty() && snapshot.run == 0);
    assert!(snapshot.threads.iter().all(|thread| thread.stack.is_none()));
    image.truncate(PLACES);
    assert_eq!(check(&image).expect("a snapshot").threads.len(), 19);
}

/// The image with four bytes replaced.
fn with(offset: usize, value: u32) -> Vec<u8> {
    let mut image = honest();
    image[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    image
}

#[test]
fn each_lie_of_the_header_is_named() {
    let field = |offset, value| match check(&with(offset, value)) {
        Err(Error::Header { field, .. }) => field,
        Err(Error::Truncated { .. }) => "truncated",
        other => panic!("{offset}: {other:?}"),
    };
    assert!(matches!(check(&with(0, 7)), Err(Error::NotATable { .. })));
    assert!(matches!(check(&with(4, 0x3939_454c)), Err(Error::Version { version: [b'9', b'9'] })));
    assert!(matches!(check(b"HEDDLE01"), Err(Error::Truncated { .. })));
    assert_eq!(field(8, 64), "header_size");
    assert_eq!(field(12, 32), "record_size");
    assert_eq!(field(16, 0), "capacity");
    assert_eq!(field(16, u32::MAX), "capacity");
    assert_eq!(field(16, 1 << 20), "truncated");
    assert_eq!(field(20, 25), "high_water");
    assert_eq!(field(24, 17), "records_offset");
    assert_eq!(field(24, 64), "records_offset");
    assert_eq!(field(28, u32::MAX), "truncated");
    assert_eq!(field(32, 12), "text_offset");
    assert_eq!(field(36, 1), "truncated");
    assert_eq!(field(40, 1 << 30), "text_size");
    assert_eq!(field(44, 257), "text_used");
    assert_eq!(field(48, 4098), "roles_offset");
    assert_eq!(field(56, 65537), "roles_capacity");
    assert_eq!(field(60, 17), "roles_used");
    assert_eq!(field(64, 0), "pid");
    assert_eq!(field(64, 1 << 31), "pid");
    assert_eq!(field(88, 32), "places_offset");
    assert_eq!(field(88, PLACES as u32 + 8), "places_offset");
    assert_eq!(field(88, (USES_AT - PLACE_SIZE) as u32), "truncated");
    assert_eq!(field(92, u32::MAX), "truncated");
    assert_eq!(field(96, 64), "uses_offset");
    assert_eq!(field(96, USES_AT as u32 + 64), "uses_offset");
    assert_eq!(field(96, (USES_AT + USE_SIZE) as u32), "truncated");
    assert_eq!(field(96, 0), "uses_capacity");
    assert_eq!(field(104, 65537), "uses_capacity");
    assert_eq!(field(104, USES as u32 + 1), "truncated");
    assert_eq!(field(108, USES as u32 + 1), "uses_used");
}

#[test]
fn a_lie_of_a_place_costs_the_place_alone() {
    let at = |offset: usize| PLACES + 5 * PLACE_SIZE + offset;
    let fault = |offset, value| {
        let snapshot = check(&with(offset, value)).expect("a snapshot");
        let [fault] = snapshot.faults[..] else { panic!("{:?}", snapshot.faults) };
        let thread = snapshot.threads.iter().find(|thread| thread.id.slot == 5).expect("shown");
        assert_eq!((fault.slot, thread.stack), (5, None));
        fault.fault
    };
    assert!(matches!(fault(at(4), 1), Fault::Address { field: "stack_high", .. }));
    assert!(matches!(fault(at(8), 1), Fault::Address { field: "stack_high", raw: 1 }));
    assert!(matches!(fault(at(16), 1), Fault::Address { field: "entry", raw: 1 }));
    assert!(matches!(fault(at(20), 1), Fault::Address { field: "entry", .. }));
    assert_eq!(fault(at(24), USES as u32 + 1), Fault::Id { field: "use", raw: 5 });
}

#[test]
fn a_lie_of_a_use_costs_that_use_alone() {
    let look = |offset: usize, value| {
        let snapshot = check(&with(USES_AT + offset, value)).expect("a snapshot");
        assert_eq!((snapshot.faults.len(), snapshot.threads.len()), (0, 19));
        let [fault] = snapshot.use_faults[..] else { panic!("{:?}", snapshot.use_faults) };
        assert_eq!(fault.index, 0);
        (snapshot.uses.len(), fault.fault)
    };
    assert_eq!(look(0, 3), (1, Fault::Torn));
    assert_eq!(look(20, 0x0002_0001), (1, Fault::Word { field: "class", raw: 2 }));
    assert_eq!(look(24, 4), (1, Fault::Word { field: "group", raw: 4 }));
    assert_eq!(look(24, 0x0500), (1, Fault::Word { field: "category", raw: 5 }));
    assert_eq!(look(8, 12), (2, Fault::Id { field: "start", raw: 12 }));
    assert_eq!(look(12, 12), (2, Fault::Id { field: "site", raw: 12 }));
    assert_eq!(look(16, u32::MAX), (2, Fault::Id { field: "name", raw: u32::MAX }));
    assert_eq!(look(20, 3), (2, Fault::Id { field: "role", raw: 3 }));
}

#[test]
fn a_lie_of_a_record_costs_that_record_alone() {
    let at = |slot: usize, offset: usize| RECORDS_AT + slot * RECORD_SIZE + offset;
    let fault = |offset, value| {
        let snapshot = check(&with(offset, value)).expect("a snapshot");
        assert_eq!(snapshot.threads.len() + snapshot.workers.len() + snapshot.faults.len(), 20);
        let [fault] = snapshot.faults[..] else { panic!("{:?}", snapshot.faults) };
        assert_eq!(fault.slot, 5);
        fault.fault
    };
    assert_eq!(fault(at(5, 0), 7), Fault::Torn);
    assert_eq!(fault(at(5, 12), 0x0109_0000), Fault::Word { field: "state", raw: 9 });
    assert_eq!(fault(at(5, 12), 0x0902_0000), Fault::Word { field: "kind", raw: 9 });
    assert_eq!(fault(at(5, 16), 2), Fault::Word { field: "class", raw: 2 });
    assert_eq!(fault(at(5, 16), 0x0004_0000), Fault::Word { field: "group", raw: 4 });
    assert_eq!(fault(at(5, 16), 0x0501_0000), Fault::Word { field: "category", raw: 5 });
    assert_eq!(fault(at(5, 20), 0x0400), Fault::Word { field: "zone", raw: 4 });
}

#[test]
fn ids_that_point_to_nothing_are_faults() {
    let at = |offset: usize| RECORDS_AT + 5 * RECORD_SIZE + offset;
    let fault = |offset, value| {
        let snapshot = check(&with(offset, value)).expect("a snapshot");
        assert_eq!(snapshot.threads.len(), 19, "the thread itself is still shown");
        snapshot.faults[0].fault
    };
    assert_eq!(fault(at(20), 3 << 16), Fault::Id { field: "role", raw: 3 });
    assert_eq!(fault(at(24), 12), Fault::Id { field: "start", raw: 12 });
    assert_eq!(fault(at(60), u32::MAX), Fault::Id { field: "name", raw: u32::MAX });
    assert_eq!(fault(RECORDS_AT + 24, u32::MAX), Fault::Id { field: "start", raw: u32::MAX });
    assert_eq!(fault(ROLES + 8, 0), Fault::Id { field: "role", raw: 2 });
    assert_eq!(fault(TEXTS + 48, 2000), Fault::Id { field: "start", raw: 6 });
    assert_eq!(fault(TEXTS + 52, u32::MAX), Fault::Text { field: "start" });
}

/// A generator of numbers whose sequence is the same on each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// One lie: a byte, a telling number, a cut, or an exchange of two stretches.
fn mutate(image: &mut Vec<u8>, numbers: &mut Numbers) {
    const TELLING: [u64; 9] = [0, 1, 63, 64, 4096, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, u64::MAX];
    // A sixth of the lies go where they hurt most: into the header.
    let reach = if numbers.next().is_multiple_of(6) { HEADER } else { image.len() };
    let offset = numbers.below(reach.min(image.len()));
    match numbers.below(8) {
        0..3 => image[offset] = numbers.next() as u8,
        3..5 => {
            let value = TELLING[numbers.below(TELLING.len())].to_le_bytes();
            let width = [1, 2, 4, 8][numbers.below(4)].min(image.len() - offset);
            image[offset..offset + width].copy_from_slice(&value[..width]);
        }
        5 => image[offset] ^= 1 << numbers.below(8),
        6 => {
            let (length, other) = (numbers.below(64), numbers.below(image.len()));
            let length = length.min(image.len() - offset.max(other));
            image.copy_within(other..other + length, offset);
        }
        _ if numbers.below(8) == 0 => image.truncate(offset.max(1)),
        _ => {}
    }
}

#[test]
fn thousands_of_mutated_tables_are_survived() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut refused, mut faulty, mut believed) = (0, 0, 0);
    let mut reasons = BTreeSet::new();
    for _ in 0..20_000 {
        let mut image = honest();
        for _ in 0..=numbers.below(6) {
            mutate(&mut image, &mut numbers);
        }
        match check(&image) {
            Ok(snapshot) if snapshot.faults.is_empty() && snapshot.use_faults.is_empty() => {
                believed += 1;
            }
            Ok(_) => faulty += 1,
            Err(error) => {
                refused += 1;
                reasons.insert(error.to_string().chars().take(30).collect::<String>());
            }
        }
    }
    // The lies reached every layer of the defence.
    assert!(refused > 1000 && faulty > 1000 && believed > 100, "{refused} {faulty} {believed}");
    assert!(reasons.len() > 10, "{reasons:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_behind_a_good_magic_are_survived(
        header in proptest::collection::vec(any::<u8>(), HEADER - 8),
        body in proptest::collection::vec(any::<u8>(), 0..8192),
    ) {
        let mut image = honest();
        image[8..HEADER].copy_from_slice(&header);
        image.truncate(HEADER);
        image.extend(body);
        let _ = check(&image);
    }

    #[test]
    fn random_records_are_survived(bytes in proptest::collection::vec(any::<u8>(), 20 * 64)) {
        let mut image = honest();
        image[RECORDS_AT..RECORDS_AT + bytes.len()].copy_from_slice(&bytes);
        let snapshot = check(&image).expect("the header is honest");
        prop_assert!(snapshot.threads.len() + snapshot.workers.len() <= 20);
    }

    #[test]
    fn random_places_and_uses_are_survived(
        places in proptest::collection::vec(any::<u8>(), 20 * PLACE_SIZE),
        uses in proptest::collection::vec(any::<u8>(), USES * USE_SIZE),
        used in 0..=USES as u8,
    ) {
        let mut image = honest();
        image[PLACES..PLACES + places.len()].copy_from_slice(&places);
        image[USES_AT..].copy_from_slice(&uses);
        image[108] = used;
        let snapshot = check(&image).expect("the header is honest");
        prop_assert_eq!(snapshot.threads.len(), 19);
        prop_assert!(snapshot.uses.len() <= usize::from(used));
    }

    #[test]
    fn what_is_published_is_what_is_read(
        numbers in any::<[u32; 7]>(), long in any::<[u64; 2]>(), short in any::<[u8; 6]>(),
        tid in any::<i32>(), worker in any::<u16>(), role in any::<u16>(),
    ) {
        fn pick<T: Copy>(all: &[T], number: u8) -> T { all[usize::from(number) % all.len()] }
        let [generation, start, stack_size, stack_peak, stack_resident, switches, name] = numbers;
        let fields = Fields {
            generation, tid, worker, role, start, stack_size, stack_peak, stack_resident, switches,
            name,
            state: pick(State::ALL, short[0]),
            kind: pick(Kind::ALL, short[1]),
            group: pick(heddle_record::Group::ALL, short[2]),
            zone: pick(heddle_record::Zone::ALL, short[3]),
            category: pick(heddle_record::Category::ALL, short[4]),
            class: pick(heddle_record::Class::ALL, short[5]),
            priority: short[0],
            policy: short[1],
            created_ns: long[0],
            cpu_ns: long[1],
        };
        let record = heddle_record::Record::default();
        record.publish(&fields);
        prop_assert_eq!(record.read(), Some(fields));
        // SAFETY: a record is 64 bytes without padding, and nobody writes it now.
        let bytes: [u8; RECORD_SIZE] = unsafe { std::mem::transmute(record) };
        prop_assert_eq!(Fields::from_bytes(&bytes), Ok(fields));
    }
}

/// A file with the image in it.
fn image_file() -> File {
    let fd = rustix::fs::memfd_create("image", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd");
    let file = File::from(fd);
    file.write_all_at(&honest(), 0).expect("room");
    file
}

#[test]
fn a_file_that_shrinks_is_an_error_not_a_signal() {
    let file = image_file();
    let reader = Reader::from_file(file.try_clone().expect("an fd")).expect("a reader");
    assert_eq!(reader.snapshot().expect("a snapshot").threads.len(), 19);
    file.set_len(RECORDS_AT as u64 + 100).expect("cut");
    assert!(matches!(reader.snapshot(), Err(Error::Truncated { .. })));
    file.set_len(0).expect("cut");
    assert!(matches!(reader.snapshot(), Err(Error::Truncated { .. })));
}

#[test]
fn a_file_that_changes_under_the_reader_is_survived() {
    let file = image_file();
    let full = honest().len() as u64;
    let stop = AtomicBool::new(false);
    let mut outcomes = [0; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut numbers = Numbers(1);
            while !stop.load(Relaxed) {
                file.set_len(numbers.next() % full).expect("cut");
                let offset = numbers.next() % full;
                file.write_all_at(&numbers.next().to_le_bytes(), offset).expect("a lie");
                file.write_all_at(&honest(), 0).expect("the truth");
            }
        });
        for _ in 0..5_000 {
            let reader = Reader::from_file(file.try_clone().expect("an fd"));
            let result = reader.and_then(|reader| reader.snapshot());
            outcomes[usize::from(result.is_ok())] += 1;
        }
        stop.store(true, Relaxed);
    });
    eprintln!("{} refused, {} believed", outcomes[0], outcomes[1]);
    assert_eq!(outcomes[0] + outcomes[1], 5_000);
}

#[test]
fn a_writer_that_died_while_writing_costs_one_record() {
    let mut image = honest();
    image[RECORDS_AT + 4 * RECORD_SIZE] |= 1;
    let snapshot = check(&image).expect("a snapshot");
    assert_eq!(snapshot.faults.len(), 1);
    assert_eq!(snapshot.faults[0].fault, Fault::Torn);
}
