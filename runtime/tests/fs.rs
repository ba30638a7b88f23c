//! Files: positions, offsets, concurrent readers, directories, errors.

use heddle::fs::{self, File, OpenOptions};
use heddle::thread;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of the test's own, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("heddle-fs-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Directory(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs `body` on a user-level thread (on the native backend a kernel thread).
fn on_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    thread::spawn(body).join().unwrap()
}

#[test]
fn what_is_written_is_read() {
    let directory = Directory::new();
    let path = directory.file("a");
    on_thread(move || {
        let content: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        fs::write(&path, &content).unwrap();
        assert!(fs::read(&path).unwrap() == content);
        fs::write(&path, "short").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
        assert_eq!(fs::metadata(&path).unwrap().len(), 5);
    });
}

#[test]
fn the_position_moves_as_the_kernels() {
    let directory = Directory::new();
    let path = directory.file("a");
    on_thread(move || {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .unwrap();
        file.write_all(b"0123456789").unwrap();
        assert_eq!(file.stream_position().unwrap(), 10);
        file.seek(SeekFrom::Start(3)).unwrap();
        let mut two = [0; 2];
        file.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"34");
        // A clone shares the position; an offset does not move it.
        let mut clone = file.try_clone().unwrap();
        file.read_exact_at(&mut two, 8).unwrap();
        assert_eq!(&two, b"89");
        clone.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"56");
        file.write_all_at(b"xy", 0).unwrap();
        assert_eq!(file.stream_position().unwrap(), 7);
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "789");
        assert_eq!(file.read(&mut two).unwrap(), 0);
        file.rewind().unwrap();
        rest.clear();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "xy23456789");
        assert_eq!(
            file.read_exact_at(&mut two, 9).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert!(file.read_at(&mut two, u64::MAX).is_err());
    });
}

#[test]
fn appended_pieces_do_not_mix() {
    let directory = Directory::new();
    let path = directory.file("log");
    fs::write(&path, "").unwrap();
    let file = Arc::new(OpenOptions::new().append(true).open(&path).unwrap());
    let threads: Vec<_> = (0..20)
        .map(|number| {
            let file = file.clone();
            thread::spawn(move || {
                for _ in 0..20 {
                    (&*file).write_all(format!("{number:04}\n").as_bytes()).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 400);
    assert!(text.lines().all(|line| line.len() == 4));
}

#[test]
fn many_threads_read_one_file() {
    let directory = Directory::new();
    let path = directory.file("a");
    let content: Vec<u8> = (0..100_000u32).map(|i| (i / 400) as u8).collect();
    fs::write(&path, &content).unwrap();
    let file = Arc::new(File::open(&path).unwrap());
    // Most of the pages have to come from the disk again.
    file.sync_all().unwrap();
    let threads: Vec<_> = (0..100usize)
        .map(|number| {
            let file = file.clone();
            thread::spawn(move || {
                let mut bytes = [0; 1000];
                file.read_exact_at(&mut bytes, number as u64 * 1000).unwrap();
                let first = number * 1000;
                assert!((0..1000).all(|i| bytes[i] == ((first + i) / 400) as u8));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_hibernating_thread_reads_and_writes() {
    let directory = Directory::new();
    let path = directory.file("a");
    // SAFETY: nobody borrows from its stack but heddle's own calls.
    unsafe { thread::Builder::new().hibernate(true) }
        .spawn(move || {
            fs::write(&path, "kept").unwrap();
            let file = File::open(&path).unwrap();
            file.sync_data().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        })
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn directories() {
    let directory = Directory::new();
    let top = directory.0.clone();
    on_thread(move || {
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        fs::write(top.join("a/file"), "1").unwrap();
        fs::rename(top.join("a/file"), top.join("a/other")).unwrap();
        fs::hard_link(top.join("a/other"), top.join("a/link")).unwrap();
        fs::copy(top.join("a/other"), top.join("a/copy")).unwrap();
        let mut names: Vec<_> = fs::read_dir(top.join("a"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["b", "copy", "link", "other"]);
        let entry = fs::read_dir(top.join("a/b")).unwrap().next().unwrap().unwrap();
        assert!(entry.file_type().unwrap().is_dir() && entry.metadata().unwrap().is_dir());
        fs::remove_dir(entry.path()).unwrap();
        fs::remove_file(top.join("a/link")).unwrap();
        assert!(!fs::exists(top.join("a/link")).unwrap());
        fs::remove_dir_all(top.join("a")).unwrap();
    });
}

#[test]
fn errors_are_the_kernels() {
    let directory = Directory::new();
    let top = directory.0.clone();
    on_thread(move || {
        let kind = |error: io::Error| error.kind();
        assert_eq!(kind(File::open(top.join("none")).unwrap_err()), io::ErrorKind::NotFound);
        fs::write(top.join("a"), "1").unwrap();
        let error = File::create_new(top.join("a")).unwrap_err();
        assert_eq!(kind(error), io::ErrorKind::AlreadyExists);
        let mut file = File::open(top.join("a")).unwrap();
        assert_eq!(file.write(b"x").unwrap_err().raw_os_error(), Some(9));
        let mut directory = File::open(&top).unwrap();
        assert_eq!(kind(directory.read(&mut [0; 4]).unwrap_err()), io::ErrorKind::IsADirectory);
    });
}

#[test]
fn files_without_positions_are_read_too() {
    on_thread(|| {
        let text = fs::read_to_string("/proc/self/comm").unwrap();
        assert!(text.ends_with('\n'));
        let mut bytes = [1; 16];
        File::open("/dev/zero").unwrap().read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [0; 16]);
        let mut null = OpenOptions::new().write(true).open("/dev/null").unwrap();
        null.write_all(b"gone").unwrap();
    });
}

#[test]
fn set_len_and_modes() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new();
    let path = directory.file("a");
    on_thread(move || {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    });
}
