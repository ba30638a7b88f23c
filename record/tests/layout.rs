//! The Rust mirror against `record.h`: both are compiled, every number is compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use heddle_record::layout::{
    self, FieldPlace, PLACE_FIELDS, RECORD_FIELDS, RawPlace, RawUse, Record, TABLE_FIELDS,
    TableHeader, USE_FIELDS,
};
use heddle_record::{Category, Class, Fields, Group, Kind, State, Zone};

fn include_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// Compiles a program, or says why not; `None` if there is no such compiler.
fn compile(compiler: &str, flags: &[&str], name: &str, source: &str) -> Option<PathBuf> {
    if Command::new(compiler).arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skip: no {compiler} on this machine");
        return None;
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (input, output) = (dir.join(name), dir.join(format!("{name}.out")));
    std::fs::write(&input, source).expect("a writable target directory");
    let mut command = Command::new(compiler);
    command.args(flags).arg("-I").arg(include_dir()).arg(&input).arg("-o").arg(&output);
    let result = command.output().expect("the compiler runs");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    Some(output)
}

fn run(program: &Path) -> Vec<u8> {
    let result = Command::new(program).output().expect("the program runs");
    assert!(result.status.success());
    result.stdout
}

const PREAMBLE: &str = "#include <stddef.h>\n#include <stdio.h>\n#include <heddle/record.h>\n";

const STRUCTURES: [(&str, &[FieldPlace]); 4] = [
    ("heddle_record", RECORD_FIELDS),
    ("heddle_table", TABLE_FIELDS),
    ("heddle_place", PLACE_FIELDS),
    ("heddle_use", USE_FIELDS),
];

/// A program that prints `name number` for every field and constant.
fn printer(constants: &[(&str, u64)]) -> String {
    let mut source = format!("{PREAMBLE}int main(void) {{\n");
    let mut print = |name: &str, value: &str| {
        writeln!(source, "printf(\"{name} %llu\\n\", (unsigned long long)({value}));").unwrap();
    };
    for (structure, fields) in STRUCTURES {
        print(structure, &format!("sizeof(struct {structure})"));
        for (field, ..) in fields {
            let path = format!("struct {structure}, {field}");
            print(&format!("{structure}.{field}"), &format!("offsetof({path})"));
            let member = format!("sizeof(((struct {structure} *)0)->{field})");
            print(&format!("{structure}.{field}.size"), &member);
        }
    }
    print("alignment", "_Alignof(struct heddle_record)");
    print("place_alignment", "_Alignof(struct heddle_place)");
    print("use_alignment", "_Alignof(struct heddle_use)");
    for (name, _) in constants {
        print(name, name);
    }
    source + "return 0; }\n"
}

/// Every constant of the header and what Rust has for it.
fn constants() -> Vec<(&'static str, u64)> {
    vec![
        ("HEDDLE_RECORD_SIZE", layout::RECORD_SIZE as u64),
        ("HEDDLE_TABLE_MAGIC", layout::MAGIC),
        ("HEDDLE_TABLE_HEADER_SIZE", layout::HEADER_SIZE as u64),
        ("HEDDLE_ROLES_OFFSET", layout::ROLES_OFFSET as u64),
        ("HEDDLE_RECORDS_MAX", u64::from(layout::RECORDS_MAX)),
        ("HEDDLE_ROLES_MAX", u64::from(layout::ROLES_MAX)),
        ("HEDDLE_TEXT_BYTES_MAX", u64::from(layout::TEXT_BYTES_MAX)),
        ("HEDDLE_TEXT_AREA_MAX", u64::from(layout::TEXT_AREA_MAX)),
        ("HEDDLE_TEXT_ALIGN", u64::from(layout::TEXT_ALIGN)),
        ("HEDDLE_WORKER_NONE", u64::from(layout::WORKER_NONE)),
        ("HEDDLE_TABLE_TEXTS_FULL", u64::from(layout::FLAG_TEXTS_FULL)),
        ("HEDDLE_TABLE_PARTIAL", u64::from(layout::FLAG_PARTIAL)),
        ("HEDDLE_TABLE_NATIVE", u64::from(layout::FLAG_NATIVE)),
        ("HEDDLE_TABLE_PRELOAD", u64::from(layout::FLAG_PRELOAD)),
        ("HEDDLE_TABLE_ENDED", u64::from(layout::FLAG_ENDED)),
        ("HEDDLE_USES_MAX", u64::from(layout::USES_MAX)),
        ("HEDDLE_PLACE_SIZE", layout::PLACE_SIZE as u64),
        ("HEDDLE_USE_SIZE", layout::USE_SIZE as u64),
        ("HEDDLE_PLACE_MAIN", u64::from(layout::PLACE_MAIN)),
        ("HEDDLE_PLACE_USER_STACK", u64::from(layout::PLACE_USER_STACK)),
        ("HEDDLE_PLACE_TUNED", u64::from(layout::PLACE_TUNED)),
        ("HEDDLE_USE_MAIN", u64::from(layout::USE_MAIN)),
        ("HEDDLE_USE_EXPLICIT", u64::from(layout::USE_EXPLICIT)),
        ("HEDDLE_USE_USER_STACK", u64::from(layout::USE_USER_STACK)),
        ("HEDDLE_USE_TUNED", u64::from(layout::USE_TUNED)),
        ("HEDDLE_USE_OVERFLOWED", u64::from(layout::USE_OVERFLOWED)),
        ("HEDDLE_USE_TRIPPED", u64::from(layout::USE_TRIPPED)),
        ("HEDDLE_STATE_FREE", State::Free as u64),
        ("HEDDLE_STATE_NEW", State::New as u64),
        ("HEDDLE_STATE_READY", State::Ready as u64),
        ("HEDDLE_STATE_RUNNING", State::Running as u64),
        ("HEDDLE_STATE_PARKED", State::Parked as u64),
        ("HEDDLE_STATE_EV_WAIT", State::EvWait as u64),
        ("HEDDLE_STATE_FINISHED", State::Finished as u64),
        ("HEDDLE_KIND_FREE", Kind::Free as u64),
        ("HEDDLE_KIND_LIGHT", Kind::Light as u64),
        ("HEDDLE_KIND_FULL", Kind::Full as u64),
        ("HEDDLE_KIND_KERNEL_THREAD", Kind::KernelThread as u64),
        ("HEDDLE_KIND_WORKER", Kind::Worker as u64),
        ("HEDDLE_CLASS_LAZY", Class::Lazy as u64),
        ("HEDDLE_CLASS_TIME_CRITICAL", Class::TimeCritical as u64),
        ("HEDDLE_GROUP_URGENT", Group::Urgent as u64),
        ("HEDDLE_GROUP_NORMAL", Group::Normal as u64),
        ("HEDDLE_GROUP_SERVICE", Group::Service as u64),
        ("HEDDLE_GROUP_BACKGROUND", Group::Background as u64),
        ("HEDDLE_CATEGORY_NONE", Category::None as u64),
        ("HEDDLE_CATEGORY_EVENT", Category::Event as u64),
        ("HEDDLE_CATEGORY_DRAWING", Category::Drawing as u64),
        ("HEDDLE_CATEGORY_FOREGROUND", Category::Foreground as u64),
        ("HEDDLE_CATEGORY_BACKGROUND", Category::Background as u64),
        ("HEDDLE_ZONE_UNKNOWN", Zone::Unknown as u64),
        ("HEDDLE_ZONE_LOW", Zone::Low as u64),
        ("HEDDLE_ZONE_NORMAL", Zone::Normal as u64),
        ("HEDDLE_ZONE_HIGH", Zone::High as u64),
    ]
}

#[test]
fn the_header_and_the_mirror_agree() {
    agree("layout.c", &["-std=c11", "-Wall", "-Wextra", "-Werror"]);
}

#[test]
fn thirty_two_bit_programs_write_the_same() {
    let probe = "int main(void) { return 0; }";
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut cc = Command::new("cc");
    cc.args(["-m32", "-x", "c", "-", "-o"]).arg(dir.join("probe32")).stdin(Stdio::piped());
    let works = cc.stderr(Stdio::null()).spawn().and_then(|mut child| {
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), probe.as_bytes())?;
        child.wait()
    });
    if !works.is_ok_and(|status| status.success()) {
        eprintln!("skip: no compiler here makes 32-bit programs");
        return;
    }
    // The kernel's headers are the same for both, and may be installed for 64 bit only.
    let idirafter = ["-idirafter", "/usr/include/x86_64-linux-gnu"];
    let flags = ["-m32", "-std=c11", "-Wall", "-Wextra", "-Werror", idirafter[0], idirafter[1]];
    agree("layout32.c", &flags);
}

/// Demands that a C compiler with these flags and this crate see the same numbers.
fn agree(name: &str, flags: &[&str]) {
    let constants = constants();
    let Some(program) = compile("cc", flags, name, &printer(&constants)) else { return };
    let printed = String::from_utf8(run(&program)).expect("numbers");
    let c: BTreeMap<_, _> = printed.lines().filter_map(|line| line.split_once(' ')).collect();
    let check = |name: &str, rust: u64| assert_eq!(c[name], rust.to_string(), "{name}");

    check("heddle_record", size_of::<Record>() as u64);
    check("heddle_table", size_of::<TableHeader>() as u64);
    check("heddle_place", size_of::<RawPlace>() as u64);
    check("heddle_use", size_of::<RawUse>() as u64);
    check("alignment", align_of::<Record>() as u64);
    check("place_alignment", align_of::<RawPlace>() as u64);
    check("use_alignment", align_of::<RawUse>() as u64);
    let fields = |structure: &str, fields: &[FieldPlace]| {
        for (field, offset, bytes) in fields {
            check(&format!("{structure}.{field}"), *offset as u64);
            check(&format!("{structure}.{field}.size"), *bytes as u64);
        }
        // No field of the header is missing in the mirror: the sizes add up.
        let sum: usize = fields.iter().map(|(_, _, bytes)| bytes).sum();
        check(structure, sum as u64);
    };
    for (structure, its_fields) in STRUCTURES {
        fields(structure, its_fields);
    }
    for (name, rust) in constants {
        check(name, rust);
    }
}

#[test]
fn every_constant_of_the_header_is_compared() {
    let header = std::fs::read_to_string(include_dir().join("heddle/record.h")).expect("it");
    let known = constants();
    let words = header.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    for word in words.filter(|word| word.starts_with("HEDDLE_") && *word != "HEDDLE_RECORD_H") {
        assert!(known.iter().any(|(name, _)| *name == word), "{word} is not compared");
    }
}

#[test]
fn the_header_is_cxx_and_bpf_too() {
    let cxx = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-x", "c++"];
    let program = format!("{PREAMBLE}int main() {{ return 0; }}\n");
    compile("c++", &cxx, "layout.cc", &program);
    let multiarch = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let bpf = ["-target", "bpf", "-Wall", "-Werror", "-c", "-idirafter", &multiarch];
    let program = "#include <heddle/record.h>\nstruct heddle_record one;\n";
    let _ = ["clang", "clang-22", "clang-19"]
        .into_iter()
        .find_map(|clang| compile(clang, &bpf, "layout_bpf.c", program));
}

#[test]
fn a_record_written_by_c_is_read_by_rust() {
    let source = format!(
        "{PREAMBLE}int main(void) {{
            static struct heddle_record record;
            __u32 odd = heddle_record_begin(&record);
            record.generation = 9;
            record.tid = -4;
            record.worker = HEDDLE_WORKER_NONE;
            record.kind = HEDDLE_KIND_FULL;
            record.state = HEDDLE_STATE_EV_WAIT;
            record.group = HEDDLE_GROUP_SERVICE;
            record.cpu_ns = 1ULL << 40;
            record.name = 77;
            heddle_record_end(&record, odd);
            return fwrite(&record, sizeof record, 1, stdout) != 1;
        }}"
    );
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Werror"];
    let Some(program) = compile("cc", &flags, "writer.c", &source) else { return };
    let bytes: [u8; layout::RECORD_SIZE] = run(&program).try_into().expect("64 bytes");
    assert_eq!(bytes[..4], [2, 0, 0, 0], "the sequence is even again");
    let expected = Fields {
        generation: 9,
        tid: -4,
        kind: Kind::Full,
        state: State::EvWait,
        group: Group::Service,
        cpu_ns: 1 << 40,
        name: 77,
        ..Fields::default()
    };
    assert_eq!(Fields::from_bytes(&bytes), Ok(expected));
}
