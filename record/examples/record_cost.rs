//! What a record costs: prints the ns of a read, a publish and the single stores.
//!
//! Run with `cargo run --release -p heddle-record --example record_cost`. Records are taken from
//! a real table, first one that is warm in the cache, then 4096 in turn (256 KiB).

use std::hint::black_box;
use std::time::Instant;

use heddle_record::{Fields, Kind, Options, Place, State};

const ROUNDS: u32 = 2_000_000;
const SLOTS: u32 = 4096;

/// The best of five runs, in ns per call: the others met the rest of the machine.
fn measure(name: &str, slots: u32, mut call: impl FnMut(u32)) {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for round in 0..ROUNDS {
            call(round % slots);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    println!("{name:<28} {best:6.1} ns");
}

fn main() -> Result<(), heddle_record::Error> {
    let table = Options::new().capacity(SLOTS).place(Place::Memfd).create()?;
    table.set_high_water(SLOTS)?;
    let role = table.intern_role("gas detection");
    let fields = Fields { kind: Kind::Light, state: State::Ready, role, ..Fields::default() };
    for slots in [1, SLOTS] {
        println!("{slots} record(s)");
        measure("publish", slots, |slot| table.record(slot).publish(black_box(&fields)));
        measure("read", slots, |slot| {
            black_box(table.record(slot).read());
        });
        measure("set_state", slots, |slot| table.record(slot).set_state(black_box(State::Parked)));
        measure("add_switches", slots, |slot| table.record(slot).add_switches(black_box(1)));
    }
    measure("set_high_water, nothing new", 1, |_| {
        let _ = black_box(table.set_high_water(black_box(SLOTS)));
    });
    measure("intern, known text", 1, |_| {
        black_box(table.intern(black_box("gas detection")));
    });
    measure("intern_role, known role", 1, |_| {
        black_box(table.intern_role(black_box("gas detection")));
    });
    let start = Instant::now();
    let snapshot = table.reader()?.snapshot()?;
    let ns = start.elapsed().as_nanos() as usize / snapshot.threads.len();
    println!("snapshot of {} threads: {ns} ns each", snapshot.threads.len());
    Ok(())
}
