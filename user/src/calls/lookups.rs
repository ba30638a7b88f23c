//! Look-ups of names but `getaddrinfo` (`names.rs`): each is made on a kernel thread of the
//! blocking pool while handlers run, and a cancellation is acted on when it is done.
//!
//! A handler may jump, or end the thread, and what the caller has lent may be gone then. So what a
//! call reads and writes is a copy of its own. What a thread has set in its `_res` is not that
//! kernel thread's. Addresses as texts take no server, as in `names.rs`, and no kernel thread.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::slice;

use libc::{hostent, sockaddr, sockaddr_storage, socklen_t};

use super::names::is_address;
use super::{away_answering, exported};
use crate::threads::cancel;

/// A buffer is as aligned as the caller's: so what needs more room there does here.
const ALIGN: usize = 16;
const ADDRESS_BYTES: usize = size_of::<sockaddr_storage>();

/// A copy of what the caller has for the result.
struct Room {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Room {
    fn like(place: *const c_char, bytes: usize) -> Room {
        let memory = vec![0; bytes + ALIGN];
        let start = place.addr().wrapping_sub(memory.as_ptr().addr()) % ALIGN;
        Room { memory, start, bytes }
    }

    fn place(&mut self) -> *mut c_char {
        self.memory[self.start..].as_mut_ptr().cast()
    }

    /// # Safety
    /// 1. `place` has as many bytes as this.
    unsafe fn copy_to(&self, place: *mut c_char) {
        // SAFETY: by 1.
        unsafe { self.copy_some_to(place, self.bytes) }
    }

    /// # Safety
    /// 1. As `copy_to`, and a text is here, unless there is no room.
    unsafe fn copy_text_to(&self, place: *mut c_char) {
        let text = CStr::from_bytes_until_nul(&self.memory[self.start..]);
        let bytes = text.map_or(0, |text| text.count_bytes() + 1);
        // SAFETY: by 1.
        unsafe { self.copy_some_to(place, bytes.min(self.bytes)) }
    }

    /// # Safety
    /// 1. `place` has so many bytes, and this no fewer.
    unsafe fn copy_some_to(&self, place: *mut c_char, bytes: usize) {
        let own = self.memory[self.start..].as_ptr();
        // SAFETY: by 1.
        unsafe { ptr::copy_nonoverlapping(own, place.cast(), bytes) }
    }

    /// Where `pointer` leads to when all is at `place`.
    fn moved<T>(&self, pointer: *mut T, place: *mut c_char) -> *mut T {
        let offset = pointer.addr().wrapping_sub(self.memory[self.start..].as_ptr().addr());
        if offset < self.bytes { place.wrapping_add(offset).cast() } else { pointer }
    }
}

/// The bytes of what is asked for, with room for the largest address: the C library reads no more
/// of it, however long it is said to be.
///
/// # Safety
/// 1. There are so many at `place`, or as many as an address has, or it is null.
unsafe fn copied(place: *const c_void, bytes: socklen_t) -> [u8; ADDRESS_BYTES] {
    let mut copy = [0; ADDRESS_BYTES];
    if !place.is_null() {
        let bytes = ADDRESS_BYTES.min(bytes as usize);
        // SAFETY: by 1.
        copy[..bytes].copy_from_slice(unsafe { slice::from_raw_parts(place.cast(), bytes) });
    }
    copy
}

/// Makes a look-up, a point of cancellation.
fn answered(look_up: impl FnOnce() -> c_int) -> c_int {
    cancel::test();
    let code = look_up();
    cancel::test();
    code
}

/// Where the caller of one of `gethostbyname_r` and its like has the result.
#[derive(Clone, Copy)]
struct Places {
    entry: *mut hostent,
    buffer: *mut c_char,
    room: usize,
    result: *mut *mut hostent,
    error: *mut c_int,
}

/// What such a call has told.
struct Told {
    code: c_int,
    error: c_int,
    found: Option<hostent>,
    room: Room,
}

impl Places {
    /// Asks by a call that is given places of its own. `None` in a child that a handler has forked.
    ///
    /// # Safety
    /// 1. These are valid, and `ask` makes such a call.
    unsafe fn fill(self, ask: impl FnOnce(Places) -> c_int + 'static) -> Option<c_int> {
        // SAFETY: by 1.
        let error = unsafe { *self.error };
        let room = Room::like(self.buffer, self.room);
        let told = away_answering(false, move || Told::by(ask, room, error))?;
        // SAFETY: by 1.
        unsafe {
            *self.error = told.error;
            *self.result = ptr::null_mut();
            if let Some(found) = told.found {
                told.room.copy_to(self.buffer);
                *self.entry = found;
                self.adjust(&told.room);
                *self.result = self.entry;
            }
        }
        Some(told.code)
    }

    /// The entry was copied from that room, and leads there yet. For an address as a text the C
    /// library aligns no list.
    ///
    /// # Safety
    /// 1. It and the buffer are valid.
    unsafe fn adjust(self, from: &Room) {
        // SAFETY: by 1; lists end with null, and those in the buffer are the caller's.
        unsafe {
            let entry = &mut *self.entry;
            entry.h_name = from.moved(entry.h_name, self.buffer);
            for list in [&mut entry.h_aliases, &mut entry.h_addr_list] {
                let before = *list;
                *list = from.moved(before, self.buffer);
                let mut place = *list;
                while *list != before && !place.read_unaligned().is_null() {
                    place.write_unaligned(from.moved(place.read_unaligned(), self.buffer));
                    place = place.add(1);
                }
            }
        }
    }
}

impl Told {
    fn by(ask: impl FnOnce(Places) -> c_int, mut room: Room, mut error: c_int) -> Told {
        // SAFETY: all zero bytes are an entry.
        let mut entry: hostent = unsafe { core::mem::zeroed() };
        let mut result = ptr::null_mut();
        let (buffer, bytes) = (room.place(), room.bytes);
        let (entry_place, result_place) = (&raw mut entry, &raw mut result);
        let code = ask(Places {
            entry: entry_place,
            buffer,
            room: bytes,
            result: result_place,
            error: &raw mut error,
        });
        Told { code, error, found: (!result.is_null()).then_some(entry), room }
    }
}

// SAFETY: the C library's functions, by its headers.
unsafe extern "C-unwind" {
    fn getnameinfo(
        address: *const sockaddr,
        length: socklen_t,
        host: *mut c_char,
        host_room: socklen_t,
        service: *mut c_char,
        service_room: socklen_t,
        flags: c_int,
    ) -> c_int;
    fn gethostbyname_r(
        name: *const c_char,
        entry: *mut hostent,
        buffer: *mut c_char,
        room: usize,
        result: *mut *mut hostent,
        error: *mut c_int,
    ) -> c_int;
    fn gethostbyname2_r(
        name: *const c_char,
        family: c_int,
        entry: *mut hostent,
        buffer: *mut c_char,
        room: usize,
        result: *mut *mut hostent,
        error: *mut c_int,
    ) -> c_int;
    fn gethostbyaddr_r(
        address: *const c_void,
        length: socklen_t,
        family: c_int,
        entry: *mut hostent,
        buffer: *mut c_char,
        room: usize,
        result: *mut *mut hostent,
        error: *mut c_int,
    ) -> c_int;
}

exported! {
    (heddle_user_getnameinfo) (
        address: *const sockaddr, length: socklen_t, host: *mut c_char, host_room: socklen_t,
        service: *mut c_char, service_room: socklen_t, flags: c_int
    ) -> c_int {
        // SAFETY: the caller's places, or copies of them; null where the caller's are.
        answered(|| unsafe {
            let is_none = |place: *mut c_char, flag| place.is_null() || flags & flag != 0;
            if is_none(host, libc::NI_NUMERICHOST) && is_none(service, libc::NI_NUMERICSERV) {
                return getnameinfo(
                    address, length, host, host_room, service, service_room, flags,
                );
            }
            let asked = copied(address.cast(), length);
            let is_host = !host.is_null();
            let is_service = !service.is_null();
            let mut rooms = (
                Room::like(host, if is_host { host_room as usize } else { 0 }),
                Room::like(service, if is_service { service_room as usize } else { 0 }),
            );
            let told = away_answering(false, move || {
                let host = if is_host { rooms.0.place() } else { ptr::null_mut() };
                let service = if is_service { rooms.1.place() } else { ptr::null_mut() };
                let address = asked.as_ptr().cast();
                let code = getnameinfo(
                    address, length, host, host_room, service, service_room, flags,
                );
                (code, rooms)
            });
            let Some((code, rooms)) = told else {
                return getnameinfo(
                    address, length, host, host_room, service, service_room, flags,
                );
            };
            if code == 0 {
                rooms.0.copy_text_to(host);
                rooms.1.copy_text_to(service);
            }
            code
        })
    }

    (heddle_user_gethostbyname_r) (
        name: *const c_char, entry: *mut hostent, buffer: *mut c_char, room: usize,
        result: *mut *mut hostent, error: *mut c_int
    ) -> c_int {
        // SAFETY: the caller's places, or copies of them.
        answered(|| unsafe {
            if is_address(CStr::from_ptr(name)) {
                return gethostbyname_r(name, entry, buffer, room, result, error);
            }
            let asked = CStr::from_ptr(name).to_owned();
            let ask = move |at: Places| {
                gethostbyname_r(asked.as_ptr(), at.entry, at.buffer, at.room, at.result, at.error)
            };
            Places { entry, buffer, room, result, error }
                .fill(ask)
                .unwrap_or_else(|| gethostbyname_r(name, entry, buffer, room, result, error))
        })
    }

    (heddle_user_gethostbyname2_r) (
        name: *const c_char, family: c_int, entry: *mut hostent, buffer: *mut c_char, room: usize,
        result: *mut *mut hostent, error: *mut c_int
    ) -> c_int {
        // SAFETY: as above.
        answered(|| unsafe {
            if is_address(CStr::from_ptr(name)) {
                return gethostbyname2_r(name, family, entry, buffer, room, result, error);
            }
            let asked = CStr::from_ptr(name).to_owned();
            let ask = move |at: Places| {
                let Places { entry, buffer, room, result, error } = at;
                gethostbyname2_r(asked.as_ptr(), family, entry, buffer, room, result, error)
            };
            Places { entry, buffer, room, result, error }.fill(ask).unwrap_or_else(|| {
                gethostbyname2_r(name, family, entry, buffer, room, result, error)
            })
        })
    }

    (heddle_user_gethostbyaddr_r) (
        address: *const c_void, length: socklen_t, family: c_int, entry: *mut hostent,
        buffer: *mut c_char, room: usize, result: *mut *mut hostent, error: *mut c_int
    ) -> c_int {
        // SAFETY: as above.
        answered(|| unsafe {
            let asked = copied(address, length);
            let ask = move |at: Places| {
                let Places { entry, buffer, room, result, error } = at;
                let address = asked.as_ptr().cast();
                gethostbyaddr_r(address, length, family, entry, buffer, room, result, error)
            };
            Places { entry, buffer, room, result, error }.fill(ask).unwrap_or_else(|| {
                gethostbyaddr_r(address, length, family, entry, buffer, room, result, error)
            })
        })
    }
}
