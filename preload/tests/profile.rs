//! Profiles on disk: merged by many at once, and distrusted when they are not what was written.

use std::path::{Path, PathBuf};

use heddle_preload::key::{BuildId, Key, Module, Where};
use heddle_preload::profile::{
    Content, Executable, Loaded, Observation, Profile, ROWS_MAX, Row, Sort, Store, text,
};
use heddle_record::Use;
use heddle_record::layout::{USE_EXPLICIT, USE_MAIN, USE_OVERFLOWED};
use proptest::prelude::*;

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("profile-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

fn profile(dir: &Path) -> Profile {
    Store::at(dir).for_executable(&Executable::new(Path::new("/usr/bin/some prog"), Some("ABcd")))
}

/// A kind of thread that starts at `offset`.
fn kind(offset: u64, peak: u32) -> Use {
    Use {
        start: Some(format!("abcd+{offset:x} /usr/bin/some prog").into()),
        created: 2,
        stack_asked: 8 << 20,
        stack_given: 8 << 20,
        peak,
        ..Use::default()
    }
}

fn merge(profile: &Profile, kinds: &[Use]) -> Loaded {
    let seen: Vec<_> = kinds.iter().map(|kind| Observation { kind, name: Some("work") }).collect();
    profile.merge(&seen).expect("merged")
}

#[test]
fn runs_add_up() {
    let profile = profile(&folder("runs"));
    assert_eq!(profile.load().expect("nothing yet"), Loaded::default());
    // Two processes of one run, then another run.
    merge(&profile, &[kind(0x10, 5000), kind(0x10, 7000), kind(0x20, 0), Use::default()]);
    let loaded = merge(&profile, &[Use { flags: USE_EXPLICIT, ..kind(0x10, 6000) }]);
    assert_eq!(loaded.trouble, None);
    let rows = profile.rows();
    let [first, second] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(first.key, "abcd+0x10".parse().expect("a key"));
    assert_eq!((first.threads, first.runs, first.peak), (6, 2, 7000));
    assert_eq!((first.sort, first.name.as_deref()), (Sort::Explicit, Some("work")));
    assert_eq!((first.size_for(), second.size_for()), (Some(64 << 10), None));
    assert_eq!((second.threads, second.runs), (2, 1));
    assert_eq!(profile.path().file_name().expect("it"), "some_prog-abcd.stacks");
}

#[test]
fn an_overflow_is_corrected() {
    let profile = profile(&folder("overflow"));
    merge(&profile, &[kind(0x10, 5000)]);
    let given = profile.rows()[0].size_for().expect("history");
    let overflow = Use { flags: USE_OVERFLOWED, stack_given: given, ..kind(0x10, given) };
    merge(&profile, &[overflow]);
    let next = profile.rows()[0].size_for().expect("history");
    assert!(next >= 2 * given, "{next} after {given}");
    merge(&profile, &[kind(0x10, 5000)]);
    assert_eq!(profile.rows()[0].size_for(), Some(next), "never smaller again");
}

#[test]
fn the_first_thread_is_remembered_and_never_sized() {
    let profile = profile(&folder("main"));
    merge(&profile, &[Use { flags: USE_MAIN, ..kind(0, 90_000) }]);
    assert_eq!((profile.rows()[0].sort, profile.rows()[0].size_for()), (Sort::Main, None));
}

#[test]
fn no_merge_is_lost_among_many() {
    let profile = profile(&folder("many"));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let profile = &profile;
            scope.spawn(move || {
                for round in 0..25 {
                    merge(profile, &[kind(0x10, round), kind(0x1000 + thread, 1)]);
                    assert!(profile.load().expect("whole").trouble.is_none());
                }
            });
        }
    });
    let rows = profile.rows();
    assert_eq!(rows.len(), 9);
    assert_eq!((rows[0].runs, rows[0].threads, rows[0].peak), (200, 400, 24));
}

#[test]
fn what_cannot_be_believed_is_kept_aside() {
    let good = "heddle stacks 1\nexecutable\t/x\nbuild-id\t-\nend\t0\n";
    let bad: &[(&[u8], &str)] = &[
        (b"", "does not end with a line"),
        (b"hello\n", "no profile of stacks"),
        (b"heddle stacks 2\nnew things\n", "its version is 2, expected 1"),
        (b"heddle stacks 1\n", "cut off"),
        (b"heddle stacks 1\nexecutable\t%\nbuild-id\t-\nend\t0\n", "line 2"),
        (b"heddle stacks 1\nexecutable\t/x\nbuild-id\tAB\nend\t0\n", "line 3"),
        (b"heddle stacks 1\nexecutable\t/x\nbuild-id\t-\nrow\nend\t1\n", "line 4 is no row"),
        (b"heddle stacks 1\nexecutable\t/x\nbuild-id\t-\nend\t1\n", "not as many"),
        (b"heddle stacks 1\nexecutable\t/x\nbuild-id\t-\nend\t0\nmore\n", "line 5"),
        (b"\xff\xfe\n", "no text"),
    ];
    let dir = folder("corrupt");
    let profile = profile(&dir);
    merge(&profile, &[]);
    std::fs::write(profile.path(), good).expect("written");
    assert_eq!(profile.load().expect("good"), Loaded::default());
    for (bytes, message) in bad {
        std::fs::write(profile.path(), bytes).expect("written");
        let trouble = profile.load().expect("readable").trouble.expect("trouble");
        assert!(
            trouble.contains(message) && trouble.contains("is ignored and kept as"),
            "{trouble}"
        );
        assert!(!profile.path().exists());
        let aside = dir.join("some_prog-abcd.stacks.corrupt");
        assert_eq!(std::fs::read(aside).expect("kept"), *bytes);
    }
    // A merge goes on as if there was no history, and says so.
    std::fs::write(profile.path(), "nonsense").expect("written");
    let loaded = merge(&profile, &[kind(1, 1)]);
    assert_eq!((loaded.rows.len(), loaded.trouble.is_some()), (1, true));
    assert_eq!(profile.load().expect("good").rows, loaded.rows);
    assert_eq!(Store::at(&dir).reset().expect("removed"), 1);
    assert_eq!(std::fs::read_dir(&dir).expect("it").count(), 1, "the lock stays");
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_with_its_name() {
    let dir = folder("unwritable");
    std::fs::create_dir_all(dir.parent().expect("one")).expect("made");
    std::fs::write(&dir, "a file, not a folder").expect("written");
    let profile = profile(&dir.join("heddle/stacks"));
    let error = profile.merge(&[]).expect_err("no folder").to_string();
    assert!(error.starts_with("cannot make ") && error.contains("profile-unwritable"), "{error}");
    assert!(profile.rows().is_empty());
    std::fs::remove_file(&dir).expect("removed");
    let below = Store::at(Path::new("/proc/heddle"));
    let profile = below.for_executable(&Executable::default());
    assert!(profile.merge(&[]).expect_err("no folder").to_string().contains("/proc/heddle"));
    assert_eq!(below.profiles().expect("none").len(), 0);
    assert_eq!(below.reset().expect("none"), 0);
}

#[test]
fn one_kind_can_be_forgotten() {
    let dir = folder("forget");
    let profile = profile(&dir);
    assert!(!profile.reset(None).expect("nothing"));
    merge(&profile, &[kind(1, 1), kind(2, 2)]);
    let key: Key = "abcd+0x1".parse().expect("a key");
    assert!(profile.reset(Some(&key)).expect("forgotten"));
    assert!(!profile.reset(Some(&key)).expect("not there"));
    assert_eq!(profile.rows().len(), 1);
    let found = Store::at(&dir).profiles().expect("a list");
    assert_eq!((found.len(), found[0].executable()), (1, profile.executable()));
    let export = profile.export().expect("it");
    assert_eq!((export.rows.len(), export.rows[0].size_bytes), (1, Some(64 << 10)));
    assert!(profile.reset(None).expect("forgotten"));
    assert!(profile.rows().is_empty());
}

#[test]
fn a_profile_does_not_grow_without_end() {
    let profile = profile(&folder("bounded"));
    let kinds: Vec<_> = (0..ROWS_MAX as u64 + 100).map(|offset| kind(offset, 1)).collect();
    assert_eq!(merge(&profile, &kinds).rows.len(), ROWS_MAX);
    assert_eq!(profile.rows().len(), ROWS_MAX);
}

#[test]
fn names_of_files_are_harmless() {
    let name = |path: &str, id: Option<&str>| {
        let executable = Executable::new(Path::new(path), id);
        let profile = Store::at(Path::new("/s")).for_executable(&executable);
        profile.path().to_str().expect("text").to_owned()
    };
    assert_eq!(name("/a/../..", Some("00")), "/s/-00.stacks");
    assert_eq!(name("/a/.hidden\n;x", Some("00")), "/s/hidden__x-00.stacks");
    let long = name(&format!("/{}", "ü".repeat(200)), None);
    assert!(long.starts_with("/s/____") && long.len() < 120, "{long}");
    assert_ne!(name("/no/a", None), name("/no/b", None));
}

fn any_where() -> impl Strategy<Value = Where> {
    let id = proptest::collection::vec(any::<u8>(), 1..=32);
    let id = id.prop_map(|bytes| Module::BuildId(BuildId::new(&bytes).expect("an id")));
    let module = prop_oneof![id, any::<u64>().prop_map(Module::Path)];
    (module, any::<u64>()).prop_map(|(module, offset)| Where { module, offset })
}

fn any_row() -> impl Strategy<Value = Row> {
    let key = (any_where(), proptest::option::of(any_where()));
    let sizes = any::<[u32; 6]>();
    let texts = ("(?s).{0,40}", "(?s).{1,40}");
    (key, sizes, any::<[u64; 3]>(), texts, 0..4_usize).prop_map(
        |(key, sizes, long, texts, sort)| {
            let [runs, peak, resident, asked, given, overflowed] = sizes;
            let [threads, first_seen, last_seen] = long;
            let (start, refine) = key;
            Row {
                threads,
                runs,
                peak,
                resident,
                asked,
                given,
                overflowed,
                first_seen,
                last_seen,
                module: texts.0,
                name: Some(texts.1),
                sort: Sort::ALL[sort],
                ..Row::new(Key { start, refine }, 0)
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_what_is_read(
        rows in proptest::collection::vec(any_row(), 0..20), path in "(?s).{0,60}",
        id in proptest::option::of("[0-9a-f]{8}"),
    ) {
        let executable = Executable::new(Path::new(&path), id.as_deref());
        let content = Content { executable, rows };
        prop_assert_eq!(text::parse(&text::render(&content)), Ok(content));
    }

    #[test]
    fn what_is_cut_is_refused(
        rows in proptest::collection::vec(any_row(), 0..5), share in 0.0..1.0,
    ) {
        let text = text::render(&Content { rows, ..Content::default() });
        let mut cut = (text.len() as f64 * share) as usize;
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        prop_assert!(text::parse(&text[..cut]).is_err());
    }

    #[test]
    fn any_text_is_survived(text in "(?s).{0,300}") {
        let _ = text::parse(&text);
        let head = "heddle stacks 1\nexecutable\t\nbuild-id\t-";
        let _ = text::parse(&format!("{head}\n{text}\nend\t1\n"));
    }
}
