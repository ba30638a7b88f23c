//! What the thread record costs: prints the ns of one read and one write.
//!
//! Records are taken in turn from a real table in shared memory, 4096 of them (256 KiB), since one
//! record alone would stay in the nearest cache. Each figure is the least of several runs:
//! disturbance only adds. A write is the whole record with its sequence number, a read is a copy
//! that was checked to be of one moment.

use std::hint::black_box;

use heddle_bench::measure::cpu_ns;
use heddle_record::{Fields, Kind, Options, Place, State};

const SLOTS: u32 = 4096;
const OPS: u32 = 1_000_000;
const RUNS: usize = 15;

fn least(mut call: impl FnMut(u32)) -> f64 {
    let once = |call: &mut dyn FnMut(u32)| {
        let begin = cpu_ns();
        for op in 0..OPS {
            call(op % SLOTS);
        }
        (cpu_ns() - begin) as f64 / f64::from(OPS)
    };
    (0..RUNS).map(|_| once(&mut call)).fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), heddle_record::Error> {
    let table = Options::new().capacity(SLOTS).place(Place::Memfd).create()?;
    table.set_high_water(SLOTS)?;
    let role = table.intern_role("gas detection");
    let fields = Fields { kind: Kind::Light, state: State::Ready, role, ..Fields::default() };
    let write = least(|slot| table.record(slot).publish(black_box(&fields)));
    let read = least(|slot| {
        black_box(table.record(slot).read());
    });
    println!("record_write_ns {write:.3}");
    println!("record_read_ns {read:.3}");
    Ok(())
}
