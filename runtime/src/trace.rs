//! Chrome-trace export: `HEDDLE_TRACE=file` writes each run of each thread as an event that
//! chrome://tracing and Perfetto show, one row per worker.
//!
//! While tracing, every switch goes through the scheduler context, which takes the times; without
//! it the switch has no test for it. The file is a JSON array without its closing bracket, which
//! the format allows, so that a crash leaves a readable trace.

use core::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, OnceLock};

use crate::control::Control;
use crate::sys::descriptor::{self, raised};

/// Bytes of events that a worker collects before it writes them.
const BUFFER_BYTES: usize = 64 << 10;

/// Events are never kept for longer: what a process that ends leaves unwritten is not more.
const KEPT_NS_MAX: u64 = 50_000_000;

static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();

/// Creates the file that `HEDDLE_TRACE` names; without the variable tracing stays off.
pub(crate) fn open() -> io::Result<()> {
    let Some(path) = std::env::var_os("HEDDLE_TRACE").filter(|path| !path.is_empty()) else {
        let _ = FILE.set(None);
        return Ok(());
    };
    let made = raised(|| File::create(&path).map(OwnedFd::from));
    let mut file = made.map(File::from).map_err(|error| {
        io::Error::new(error.kind(), format!("HEDDLE_TRACE={}: {error}", path.display()))
    })?;
    file.write_all(b"[\n")?;
    descriptor::mark(file.as_raw_fd());
    let _ = FILE.set(Some(Mutex::new(file)));
    Ok(())
}

/// The events of one worker that are not written yet.
pub(crate) struct Trace {
    worker: u32,
    buffer: RefCell<Vec<u8>>,
    /// When the buffer was written last, ns.
    written: Cell<u64>,
}

impl Trace {
    /// The worker's trace, if tracing is on.
    pub fn new(worker: u32) -> Option<Self> {
        FILE.get()?.as_ref()?;
        let buffer = RefCell::new(Vec::with_capacity(BUFFER_BYTES));
        Some(Trace { worker, buffer, written: Cell::new(0) })
    }

    /// Notes that the thread of `slot` ran from `start` to `end` (ns).
    pub fn ran(&self, thread: &'static Control, start: u64, end: u64) {
        let fields = thread.record().read();
        let name = fields
            .and_then(|f| crate::table::role_name(f.role).or_else(|| crate::table::text(f.name)));
        let generation = fields.map_or(0, |f| f.generation);
        let mut buffer = self.buffer.borrow_mut();
        let _ = writeln!(
            buffer,
            "{{\"name\":\"{}\",\"ph\":\"X\",\"ts\":{}.{:03},\"dur\":{}.{:03},\"pid\":{},\
             \"tid\":{},\"args\":{{\"thread\":\"{}.{generation}\"}}}},",
            escaped(name.as_deref().unwrap_or("thread")),
            start / 1000,
            start % 1000,
            (end - start) / 1000,
            (end - start) % 1000,
            std::process::id(),
            self.worker,
            thread.slot(),
        );
        if buffer.len() >= BUFFER_BYTES || end - self.written.get() > KEPT_NS_MAX {
            write_out(&mut buffer);
            self.written.set(end);
        }
    }

    /// Writes what has collected; the worker calls it before it sleeps.
    pub fn flush(&self) {
        write_out(&mut self.buffer.borrow_mut());
    }
}

fn write_out(buffer: &mut Vec<u8>) {
    if let Some(Some(file)) = FILE.get() {
        let mut file = file.lock().unwrap_or_else(|poison| poison.into_inner());
        // A full disk ends the trace, not the program.
        let _ = file.write_all(buffer);
    }
    buffer.clear();
}

/// The text as the inside of a JSON string.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn quotes_and_control_characters_are_escaped() {
        assert_eq!(super::escaped("a\"b\\c\n"), "a\\\"b\\\\c\\u000a");
    }
}
