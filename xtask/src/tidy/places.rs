//! Rules `asm-place`, `syscall-place`: machine code and raw system calls each have one folder.
//!
//! Invariant: machine code stands only in runtime/src/arch, one file per processor, and numbers of
//! system calls are used only in the `sys` folders of runtime, preload and user, so that a port and
//! the simulation each replace one folder. The preload's C, which links nothing but libc, is one
//! such place for both. Calls by std, rustix or libc's own wrappers are no raw system calls. Tests
//! and the peers that bench measures stand outside the product and are not looked at.

use super::lex::{Language, has_word};
use super::{Finding, Source};

const ASM_HOMES: [&str; 2] = ["runtime/src/arch/", "preload/c/"];
const SYSCALL_HOMES: [&str; 4] =
    ["runtime/src/sys/", "preload/src/sys/", "preload/c/", "user/src/sys/"];

const ASM_RUST: [&str; 3] = ["asm", "global_asm", "naked_asm"];
const ASM_C: [&str; 2] = ["asm", "__asm__"];

pub fn check(source: &Source) -> Vec<Finding> {
    let path = &source.file.path;
    if path.contains("/tests/") || path.starts_with("bench/peers/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in source.lines.iter().enumerate() {
        let in_any = |homes: &[&str]| homes.iter().any(|home| path.starts_with(home));
        if has_asm(&line.code, source.language) && !in_any(&ASM_HOMES) {
            let text = format!("inline assembly lies only in {}", ASM_HOMES.join(", "));
            findings.push(Finding::new(path, number + 1, "asm-place", text));
        }
        if has_raw_call(&line.code) && !in_any(&SYSCALL_HOMES) {
            let text = format!("raw system calls lie only in {}", SYSCALL_HOMES.join(", "));
            findings.push(Finding::new(path, number + 1, "syscall-place", text));
        }
    }
    findings
}

fn has_asm(code: &str, language: Language) -> bool {
    match language {
        Language::Rust => ASM_RUST.iter().any(|name| {
            let call = format!("{name}!");
            code.match_indices(&call)
                .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        }),
        Language::C => ASM_C.iter().any(|name| has_word(code, name)),
    }
}

fn has_raw_call(code: &str) -> bool {
    let called = |name: &str| code.contains(&format!("{name}(")) && has_word(code, name);
    called("syscall")
        || ["libc::SYS_", "__NR_", "io_uring_enter"].iter().any(|mark| code.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_free() {
        let asm = "core::arch::asm!(\"nop\");\n";
        assert!(Source::check("runtime/src/arch/x86_64.rs", asm, check).is_empty());
        let call = "libc::syscall(libc::SYS_gettid);\n";
        assert!(Source::check("runtime/src/sys/linux.rs", call, check).is_empty());
        let c = "__asm__(\"nop\"); syscall(SYS_gettid);\n";
        assert!(Source::check("preload/c/create.c", c, check).is_empty());
        assert!(Source::check("capi/tests/kill.c", "syscall(SYS_tkill);\n", check).is_empty());
    }

    #[test]
    fn elsewhere_is_found() {
        assert_eq!(Source::check("runtime/src/lib.rs", "\nasm!(\"nop\");\n", check), [2]);
        assert_eq!(Source::check("record/src/lib.rs", "global_asm!(\"\");\n", check), [1]);
        assert_eq!(Source::check("runtime/src/a.rs", "libc::syscall(1);\n", check), [1]);
        assert_eq!(Source::check("ice/src/a.rs", "let n = libc::SYS_openat2;\n", check), [1]);
        assert_eq!(Source::check("capi/src/a.c", "__asm__(\"nop\");\n", check), [1]);
    }

    #[test]
    fn names_alone_are_no_use() {
        let text = "// asm!(\"nop\")\nlet plasma = \"syscall(\"; fn no_syscall() {}\n";
        assert!(Source::check("runtime/src/a.rs", text, check).is_empty());
    }
}
