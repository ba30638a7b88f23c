//! Builds `libheddle-preload.so` from `c/`, for this machine and, where the compiler can, for its
//! 32-bit programs, and lists what came of it for `src/library.rs` to embed.
//!
//! Invariant: the library links nothing but libc, and a compiler that cannot build for 32 bits is
//! no failure: the reason goes into the list.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-plt",
    // Threads are cancelled and exceptions pass through the start function.
    "-funwind-tables",
    // Its reference would bind the library to one libc; and it looks at no foreign buffer's end.
    "-fno-stack-protector",
    // Programs do pass null where a header promises that nobody will.
    "-fno-delete-null-pointer-checks",
    "-Wno-nonnull-compare",
    // clang does not know that one; gcc does not mind those that it does not know.
    "-Wno-unknown-warning-option",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-shared",
    "-Wl,-soname,libheddle-preload.so",
    "-Wl,-z,noexecstack",
    "-Wl,-z,relro",
    "-Wl,-z,now",
    "-Wl,--build-id",
    // The borders of the section that c/real.c walks.
    "-Wl,-z,start-stop-visibility=hidden",
    // Names the version that c/destructors.c needs.
    "-Wl,--version-script=c/preload.map",
];

/// For 32 bits. The stack pointer stands still at calls only if arguments are not pushed; and
/// where only Debian's gcc-12-multilib is installed, <asm/...> lies in the 64-bit folder.
const FLAGS_I386: &[&str] =
    &["-m32", "-maccumulate-outgoing-args", "-idirafter", "/usr/include/x86_64-linux-gnu"];

fn main() {
    println!("cargo:rerun-if-changed=c");
    println!("cargo:rerun-if-changed=include");
    println!("cargo:rerun-if-changed=../record/include");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");

    let mut list = String::new();
    let native = out.join("libheddle-preload.so");
    if let Err(reason) = build(&native, &[]) {
        panic!("libheddle-preload.so cannot be built: {reason}");
    }
    let mut version = VERSION_OF_NOTHING;
    entry(&mut list, &mut version, &arch, &native);
    let small = out.join("libheddle-preload-i386.so");
    let missing = match arch.as_str() {
        "x86_64" => build(&small, FLAGS_I386).err(),
        _ => Some("this machine has no 32-bit programs".to_owned()),
    };
    if missing.is_none() {
        entry(&mut list, &mut version, "x86", &small);
    }
    let code = format!(
        "/// What was built.\npub const EMBEDDED: &[Embedded] = &[\n{list}];\n\
         /// Why there is none for 32-bit programs, if there is none.\n\
         pub const MISSING_32: Option<&str> = {missing:?};\n\
         /// A folder name that no other build of the libraries has: FNV-1a of all their bytes.\n\
         pub const VERSION: &str = \"{version:016x}\";\n"
    );
    fs::write(out.join("embedded.rs"), code).expect("OUT_DIR is writable");
}

/// FNV-1a begins so.
const VERSION_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

fn entry(list: &mut String, version: &mut u64, arch: &str, file: &Path) {
    for byte in fs::read(file).expect("it was just built") {
        *version = (*version ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    writeln!(list, "    Embedded {{ arch: {arch:?}, bytes: include_bytes!({file:?}) }},")
        .expect("a String takes everything");
}

/// Compiles and links in one go; the reason if that fails.
fn build(file: &Path, more: &[&str]) -> Result<(), String> {
    let compiler = cc::Build::new().opt_level(2).warnings(false).get_compiler();
    let mut command = Command::new(compiler.path());
    command.args(FLAGS).args(more);
    command.args(["-I", "include", "-I", "../record/include"]);
    command.args(sources()).arg("-o").arg(file);
    let output =
        command.output().map_err(|error| format!("{}: {error}", compiler.path().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    if more.is_empty() {
        return Err(text.into_owned());
    }
    // One line says enough: it is shown to users.
    let line = text.lines().find(|line| line.contains("rror")).unwrap_or("the compiler failed");
    Err(format!("the compiler that built heddle has no 32-bit support ({})", line.trim()))
}

fn sources() -> Vec<PathBuf> {
    let folder = fs::read_dir("c").expect("preload/c is there");
    let paths = folder.map(|entry| entry.expect("it can be listed").path());
    let mut sources: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "c")).collect();
    sources.sort();
    sources
}
