//! Stacks: guards, measurement, and the memory rules of this system.

use super::{Area, Check, Verdict, read};
use crate::sys::probe;

const AREA: Area = Area::Stacks;

pub(super) fn checks() -> Vec<Check> {
    vec![
        guards(),
        guard_batches(),
        mappings(),
        peaks(),
        page_scan(),
        populate(),
        page(),
        overcommit(),
    ]
}

fn mappings_max() -> u64 {
    read("/proc/sys/vm/max_map_count").and_then(|text| text.parse().ok()).unwrap_or(65530)
}

fn guards() -> Check {
    let fallback = format!(
        "guards are mappings, two per stack: about {} guarded threads (vm.max_map_count)",
        mappings_max() / 2
    );
    Check::tried(
        AREA,
        "guard pages (MADV_GUARD_INSTALL)",
        probe::guard_install(),
        "a guard needs no mapping: millions of guarded threads",
        &fallback,
    )
}

fn guard_batches() -> Check {
    Check::tried(
        AREA,
        "guard batches (process_madvise)",
        probe::guard_batch(),
        "1024 guards per system call",
        "one system call per guard",
    )
}

fn mappings() -> Check {
    let most = mappings_max();
    let enough = probe::guard_install().is_ok() || most > 1_000_000;
    let (verdict, consequence) = if enough {
        (Verdict::Good, "stacks of a size class share a few mappings")
    } else {
        (Verdict::Fallback, "limits guarded threads; raise it by sysctl vm.max_map_count")
    };
    Check::new(AREA, "vm.max_map_count", verdict, most.to_string(), consequence)
}

fn peaks() -> Check {
    let name = "stack peaks (pagemap)";
    match std::fs::File::open("/proc/self/pagemap") {
        Ok(_) => {
            let consequence = "peaks are measured, sizes are learned per role";
            Check::new(AREA, name, Verdict::Good, "yes", consequence)
        }
        Err(error) => {
            let consequence = "peaks are unknown, sizes are not learned, zones read as unknown";
            Check::new(AREA, name, Verdict::Missing, format!("no ({error})"), consequence)
        }
    }
}

fn page_scan() -> Check {
    Check::tried(
        AREA,
        "page scan (PAGEMAP_SCAN)",
        probe::pagemap_scan(),
        "the kernel can find a stack's touched pages by one call",
        "touched pages are read from pagemap, 64 at a time",
    )
}

fn populate() -> Check {
    Check::tried(
        AREA,
        "mapping ahead (MADV_POPULATE_WRITE)",
        probe::populate(),
        "memory for records is mapped in steps, without a fault per page",
        "one page fault per 64 new threads",
    )
}

fn page() -> Check {
    let bytes = rustix::param::page_size();
    let (verdict, consequence) = if bytes == 4096 {
        (Verdict::Good, "a parked thread can be as small as one page of stack")
    } else {
        (Verdict::Missing, "heddle's stacks are laid out for pages of 4096 bytes")
    };
    Check::new(AREA, "page size", verdict, bytes.to_string(), consequence)
}

fn overcommit() -> Check {
    let mode = read("/proc/sys/vm/overcommit_memory").unwrap_or_else(|| "unknown".into());
    let (verdict, consequence) = match mode.as_str() {
        "2" => {
            (Verdict::Fallback, "strict: stacks are charged when reserved for use, not when used")
        }
        _ => (Verdict::Good, "stacks are charged page by page, when used"),
    };
    Check::new(AREA, "vm.overcommit_memory", verdict, mode, consequence)
}
