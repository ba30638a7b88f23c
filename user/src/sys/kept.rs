//! What the kernel keeps for each kernel thread: identities, namespaces, filters on system calls.
//!
//! A full thread has no kernel thread of its own. What it changed there would hold for whoever its
//! worker runs next, and no longer for itself when it has moved: with identities, a hole. So such a
//! change is refused, as the kernel refuses it to those who may not, and a line says which and why.
//! What only advises the kernel (where memory should lie) is accepted, and acts on nothing; what
//! its scheduler is told is in `scheduling.rs`. The main thread makes these changes as ever, and so
//! does a child.
//!
//! A thread inherits all that from its maker. Workers have what the first one's maker had by then:
//! once a kernel thread has changed it, the threads that such make are kernel threads.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_int, c_long, c_uint, c_ulong};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Once, OnceLock};

use heddle::raw;
use libc::{gid_t, uid_t};

use super::syscall::by_number;
use super::{filter, own_memory, robust};
use crate::threads::fork;
use crate::threads::signals::actions;
use crate::{errno, me, threads};

// Of the kernel's headers; GET and IS only ask.
const SET_MODE_STRICT: usize = 0;
const SET_MODE_FILTER: usize = 1;
const GET_ACTION_AVAIL: usize = 2;
const TSYNC: usize = 1;
const GET_NOTIF_SIZES: usize = 3;
const GET_PERSONALITY: u32 = u32::MAX;
const PR_CAP_AMBIENT_IS_SET: usize = 1;
const KEYCTL_JOIN_SESSION_KEYRING: usize = 1;
const PR_GET_TID_ADDRESS: c_int = 40;
const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;
const PR_SET_IO_FLUSHER: c_int = 57;
#[cfg(target_arch = "x86_64")]
const ARCH_SET_GS: usize = 0x1001;
#[cfg(target_arch = "x86_64")]
const ARCH_SET_FS: usize = 0x1002;
#[cfg(target_arch = "x86_64")]
const ARCH_SET_CPUID: usize = 0x1012;
/// Above the numbers of system calls.
const LAST: c_long = 448;

/// Whether the caller has no kernel thread of its own.
pub fn has_none() -> bool {
    me().is_some() && !actions::is_in_vfork()
}

/// What kernel threads have changed of these since there are full threads, as bits.
static CHANGED: AtomicU32 = AtomicU32::new(0);
/// `PR_SET_NO_NEW_PRIVS`, which a filter for all threads may set for them later.
const NO_NEW_PRIVILEGES: u32 = 1;
const OTHER: u32 = 2;
const SET_NO_NEW_PRIVILEGES: &str = "prctl(PR_SET_NO_NEW_PRIVS)";
/// The first of the others.
static WHY: OnceLock<&str> = OnceLock::new();

/// Whether workers may lack what a thread would inherit from the caller, a kernel thread; says so
/// once.
pub fn is_to_inherit() -> bool {
    static SAID: Once = Once::new();
    let changed = CHANGED.load(Relaxed);
    if changed != 0 {
        let why = WHY.get().filter(|_| changed & OTHER != 0).unwrap_or(&SET_NO_NEW_PRIVILEGES);
        SAID.call_once(|| {
            raw::say::line(format_args!(
                "heddle: {why}: what kernel threads make from now on are kernel threads, which \
                 inherit it"
            ));
        });
    }
    changed != 0
}

/// A kernel thread has made this call, which holds for the threads that it makes, too.
fn is_inherited(name: &'static str) {
    if !fork::has_full() || actions::is_in_vfork() {
        return;
    }
    if name == SET_NO_NEW_PRIVILEGES {
        CHANGED.fetch_or(NO_NEW_PRIVILEGES, Relaxed);
    } else {
        let _ = WHY.set(name);
        CHANGED.fetch_or(OTHER, Relaxed);
    }
}

/// Says once for each call of these why it fails, and fails.
fn refuse(call: c_long, name: &str) -> c_int {
    static SAID: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
    let (word, bit) = ((call as usize / 64) % SAID.len(), 1 << (call % 64));
    if SAID[word].fetch_or(bit, Relaxed) & bit == 0 {
        raw::say::line(format_args!(
            "heddle: {name} refused: the kernel keeps that for kernel threads, and a user-level \
             thread has none; the main thread may, or run without --threads user"
        ));
    }
    errno::set(libc::EPERM);
    -1
}

/// What becomes of a system call of a full thread.
enum Fate {
    Refused(&'static str),
    /// Accepted; it acts on nothing.
    Accepted,
    /// As where the kernel has no such call.
    Unknown,
    EndWord,
    RobustList,
    User,
    Group,
}

/// `None`: it is the kernel's to answer, whoever asks.
fn fate(number: c_long, [a, b, c, ..]: [usize; 6]) -> Option<Fate> {
    let none = |id: usize| id as u32 == u32::MAX;
    let fate = match number {
        libc::SYS_set_tid_address => Fate::EndWord,
        libc::SYS_get_robust_list if a == 0 || a == threads::number() as usize => Fate::RobustList,
        libc::SYS_set_robust_list | libc::SYS_get_robust_list => Fate::Unknown,
        libc::SYS_set_mempolicy => Fate::Accepted,
        libc::SYS_setuid => Fate::Refused("setuid by syscall()"),
        libc::SYS_setgid => Fate::Refused("setgid by syscall()"),
        libc::SYS_setreuid if !(none(a) && none(b)) => Fate::Refused("setreuid by syscall()"),
        libc::SYS_setregid if !(none(a) && none(b)) => Fate::Refused("setregid by syscall()"),
        libc::SYS_setresuid if ![a, b, c].into_iter().all(none) => {
            Fate::Refused("setresuid by syscall()")
        }
        libc::SYS_setresgid if ![a, b, c].into_iter().all(none) => {
            Fate::Refused("setresgid by syscall()")
        }
        libc::SYS_setgroups => Fate::Refused("setgroups by syscall()"),
        libc::SYS_setfsuid => Fate::User,
        libc::SYS_setfsgid => Fate::Group,
        libc::SYS_capset => Fate::Refused("capset"),
        libc::SYS_unshare if a != 0 => Fate::Refused("unshare"),
        libc::SYS_setns => Fate::Refused("setns"),
        // Who asks what there is calls with what the kernel refuses.
        libc::SYS_seccomp => match (a, b, c) {
            (GET_ACTION_AVAIL | GET_NOTIF_SIZES, ..) | (SET_MODE_FILTER, _, 0) => return None,
            (SET_MODE_STRICT, flags, place) if (flags, place) != (0, 0) => return None,
            _ => Fate::Refused("seccomp"),
        },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_arch_prctl => Fate::Refused(match a {
            ARCH_SET_GS => "arch_prctl(ARCH_SET_GS)",
            ARCH_SET_FS => "arch_prctl(ARCH_SET_FS)",
            ARCH_SET_CPUID => "arch_prctl(ARCH_SET_CPUID)",
            _ => return None,
        }),
        libc::SYS_landlock_restrict_self => Fate::Refused("landlock_restrict_self"),
        libc::SYS_ptrace if a != libc::PTRACE_TRACEME as usize => Fate::Refused("ptrace"),
        libc::SYS_personality if a as u32 != GET_PERSONALITY => Fate::Refused("personality"),
        libc::SYS_keyctl if a == KEYCTL_JOIN_SESSION_KEYRING => {
            Fate::Refused("keyctl(KEYCTL_JOIN_SESSION_KEYRING)")
        }
        _ => return None,
    };
    Some(fate)
}

/// A thread is about to make this call. A filter holds for other kernel threads than the caller's
/// only if it is asked to; full threads are refused it; who asks what there is sets none.
pub fn before(number: c_long, [operation, flags, address, ..]: [usize; 6]) {
    if number == libc::SYS_seccomp && operation == SET_MODE_FILTER && address != 0 && !has_none() {
        errno::kept(|| filter::before(address));
        if flags & TSYNC != 0 {
            raw::before_filter();
        }
    }
}

/// A kernel thread has made this call, with this result.
pub fn after(number: c_long, arguments: [usize; 6], result: c_long) {
    if result < 0 || number == libc::SYS_ptrace {
        return;
    }
    // A number is a thread's that could not follow, or a descriptor.
    let is_set = result == 0 || arguments[1] & TSYNC == 0;
    if number == libc::SYS_seccomp && arguments[0] == SET_MODE_FILTER && is_set {
        filter::after();
    }
    if number == libc::SYS_seccomp && arguments[1] & TSYNC != 0 {
        // It sets that for all threads, too.
        if result == 0 && arguments[0] == SET_MODE_FILTER {
            CHANGED.fetch_and(!NO_NEW_PRIVILEGES, Relaxed);
        }
        return;
    }
    if number == libc::SYS_personality && result == arguments[0] as c_long {
        return;
    }
    match fate(number, arguments) {
        Some(Fate::Refused(name)) => is_inherited(name),
        // They return what it was.
        Some(Fate::User | Fate::Group) if result != arguments[0] as c_long => {
            is_inherited("setfsuid or setfsgid");
        }
        _ => {}
    }
}

/// What a full thread gets for a system call by number; `None`: it is the kernel's to answer.
pub fn answer(number: c_long, arguments: [usize; 6]) -> Option<c_long> {
    let fate = fate(number, arguments)?;
    let a = arguments[0];
    let me = threads::this().filter(|_| has_none())?;
    Some(match fate {
        Fate::Refused(name) => c_long::from(refuse(number, name)),
        Fate::Accepted => 0,
        Fate::Unknown => {
            errno::set(libc::ENOSYS);
            -1
        }
        Fate::EndWord => {
            me.set_end_word(a as *mut u32);
            c_long::from(threads::number())
        }
        Fate::RobustList => match tell_robust_list(arguments) {
            Ok(()) => 0,
            Err(number) => {
                errno::set(number);
                -1
            }
        },
        Fate::User => c_long::from(heddle_user_setfsuid(a as uid_t)),
        Fate::Group => c_long::from(heddle_user_setfsgid(a as gid_t)),
    })
}

/// Where the calling thread has its robust mutexes.
fn tell_robust_list([_, head, bytes, ..]: [usize; 6]) -> Result<(), c_int> {
    let own = robust::head().ok_or(libc::ENOSYS)?;
    own_memory::write(bytes as *mut usize, robust::BYTES)?;
    own_memory::write(head as *mut usize, own)
}

/// What the kernel does at the end of a thread that has called `set_tid_address` with `word`. Of
/// one that is not there any more it takes no notice.
pub fn clear(word: *mut u32) {
    if word.is_null() || own_memory::write(word, 0).is_err() {
        return;
    }
    // As the program's own call: whoever waits may wait in the kernel.
    by_number(libc::SYS_futex, [word.addr(), libc::FUTEX_WAKE as usize, 1, 0, 0, 0]);
}

/// `prctl` by a kernel thread.
pub fn option_of_kernel(option: c_int, argument: usize, call: impl FnOnce() -> c_int) -> c_int {
    // What it keeps over a change of identity is for that alone.
    let name = name_of(option, argument).filter(|_| option != libc::PR_SET_KEEPCAPS);
    let result = call();
    if let Some(name) = name.filter(|name| result == 0 && !name.is_empty()) {
        errno::kept(|| is_inherited(name));
    }
    result
}

fn has_no_new_privileges() -> bool {
    // SAFETY: no pointers.
    errno::kept(|| unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) }) == 1
}

/// The options of `prctl` that a full thread is not to set; or, without a name, to ask for.
fn name_of(option: c_int, argument: usize) -> Option<&'static str> {
    Some(match option {
        PR_GET_TID_ADDRESS => "",
        libc::PR_SET_NO_NEW_PRIVS if has_no_new_privileges() => return None,
        libc::PR_SET_SECCOMP => "prctl(PR_SET_SECCOMP)",
        libc::PR_SET_NO_NEW_PRIVS => SET_NO_NEW_PRIVILEGES,
        libc::PR_CAPBSET_DROP => "prctl(PR_CAPBSET_DROP)",
        libc::PR_CAP_AMBIENT if argument != PR_CAP_AMBIENT_IS_SET => "prctl(PR_CAP_AMBIENT)",
        libc::PR_SET_SECUREBITS => "prctl(PR_SET_SECUREBITS)",
        libc::PR_SET_KEEPCAPS => "prctl(PR_SET_KEEPCAPS)",
        libc::PR_MCE_KILL => "prctl(PR_MCE_KILL)",
        PR_SET_IO_FLUSHER => "prctl(PR_SET_IO_FLUSHER)",
        libc::PR_SET_TSC => "prctl(PR_SET_TSC)",
        libc::PR_SET_SPECULATION_CTRL => "prctl(PR_SET_SPECULATION_CTRL)",
        PR_SET_SYSCALL_USER_DISPATCH => "prctl(PR_SET_SYSCALL_USER_DISPATCH)",
        _ => return None,
    })
}

/// What a full thread gets for these options of `prctl`; `None`: it is the kernel's to answer.
pub fn option(option: c_int, argument: usize) -> Option<c_int> {
    let name = name_of(option, argument)?;
    let me = threads::this().filter(|_| has_none())?;
    if option == PR_GET_TID_ADDRESS {
        let word = if me.end_word().is_null() { NOBODYS.as_ptr() } else { me.end_word() };
        // SAFETY: the caller's place for an address.
        unsafe { (argument as *mut *mut u32).write(word) };
        return Some(0);
    }
    Some(refuse(LAST + c_long::from(option), name))
}

/// The word of a thread that has given none: who asks for it gives it back.
static NOBODYS: AtomicU32 = AtomicU32::new(0);

#[unsafe(no_mangle)]
extern "C" fn heddle_user_unshare(flags: c_int) -> c_int {
    if flags != 0 && has_none() {
        return refuse(libc::SYS_unshare, "unshare");
    }
    // SAFETY: no pointers.
    let result = unsafe { libc::unshare(flags) };
    if result == 0 && flags != 0 {
        errno::kept(|| is_inherited("unshare"));
    }
    result
}

/// Bases of segments, and whether CPUID faults; what else it asks for is the process's.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
extern "C" fn heddle_user_arch_prctl(operation: c_int, address: c_ulong) -> c_int {
    let (operation, address) = (operation as usize, address as usize);
    by_number(libc::SYS_arch_prctl, [operation, address, 0, 0, 0, 0]) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn heddle_user_setns(file: c_int, kind: c_int) -> c_int {
    if has_none() {
        return refuse(libc::SYS_setns, "setns");
    }
    // SAFETY: no pointers.
    let result = unsafe { libc::setns(file, kind) };
    if result == 0 {
        errno::kept(|| is_inherited("setns"));
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_capset(header: *mut u8, data: *const u8) -> c_int {
    if has_none() {
        return refuse(libc::SYS_capset, "capset");
    }
    // SAFETY: the caller's places.
    let result = unsafe { libc::syscall(libc::SYS_capset, header, data) as c_int };
    if result == 0 {
        errno::kept(|| is_inherited("capset"));
    }
    result
}

/// As the C library's, whose further arguments are where these are.
#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_ptrace(
    request: c_uint,
    process: libc::pid_t,
    address: usize,
    data: usize,
) -> c_long {
    if request != libc::PTRACE_TRACEME && has_none() {
        return c_long::from(refuse(libc::SYS_ptrace, "ptrace"));
    }
    // SAFETY: the caller's arguments.
    unsafe { libc::ptrace(request, process, address, data) }
}

#[unsafe(no_mangle)]
extern "C" fn heddle_user_personality(wanted: c_ulong) -> c_int {
    let asks = wanted as u32 == GET_PERSONALITY;
    if !asks && has_none() {
        return refuse(libc::SYS_personality, "personality");
    }
    // SAFETY: no pointers.
    let before = unsafe { libc::personality(wanted) };
    if !asks && before >= 0 && before as u32 != wanted as u32 {
        errno::kept(|| is_inherited("personality"));
    }
    before
}

/// Both ids of files: what it was before is told; who asks again finds that it has not changed.
fn id_of_files(call: c_long, name: &'static str, real: fn(u32) -> c_int, wanted: u32) -> c_int {
    if !has_none() {
        let before = real(wanted);
        if before as u32 != wanted && wanted != u32::MAX {
            errno::kept(|| is_inherited(name));
        }
        return before;
    }
    // -1 changes nothing.
    let now = real(u32::MAX);
    if now as u32 != wanted && wanted != u32::MAX {
        refuse(call, name);
    }
    now
}

#[unsafe(no_mangle)]
extern "C" fn heddle_user_setfsuid(wanted: uid_t) -> c_int {
    // SAFETY: no pointers.
    let real = |id| unsafe { libc::setfsuid(id) };
    id_of_files(libc::SYS_setfsuid, "setfsuid", real, wanted)
}

#[unsafe(no_mangle)]
extern "C" fn heddle_user_setfsgid(wanted: gid_t) -> c_int {
    // SAFETY: no pointers.
    let real = |id| unsafe { libc::setfsgid(id) };
    id_of_files(libc::SYS_setfsgid, "setfsgid", real, wanted)
}
