//! The access log as it lands in its file.

mod common;

use common::{Site, eventually};
use heddle_ice::AccessLog;

#[test]
fn every_answer_has_its_line() {
    let path = std::env::temp_dir().join(format!("ice-log-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let target = AccessLog::File(path.clone());
    let mut site = Site::with(|config| config.access_log = target);
    site.file("a", "hello");
    let lines = "User-Agent: test \"quoted\"\r\nReferer: /from\r\n";
    for _ in 0..3 {
        assert_eq!(site.get_with("/a?q", lines).status, 200);
    }
    assert_eq!(site.get("/missing").status, 404);
    assert_eq!(site.refused("nonsense\r\n\r\n"), 400);
    eventually("lines in the file", || {
        std::fs::read_to_string(&path).unwrap().lines().count() == 5
    });
    let renamed = path.with_extension("1");
    std::fs::rename(&path, &renamed).unwrap();
    site.handle.reopen_log().unwrap();
    site.get("/a");
    site.stop();
    let old = std::fs::read_to_string(&renamed).unwrap();
    let new = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&renamed).unwrap();
    assert_eq!(new.lines().count(), 1, "{new}");
    let end = "\"GET /a?q HTTP/1.1\" 200 5 \"/from\" \"test \\\"quoted\\\"\"";
    assert_eq!(old.lines().filter(|l| l.ends_with(end)).count(), 3, "{old}");
    assert_eq!(old.matches("\"GET /missing HTTP/1.1\" 404 ").count(), 1, "{old}");
    assert_eq!(old.matches("] \"-\" 400 ").count(), 1, "{old}");
    assert!(old.lines().all(|l| l.starts_with("127.0.0.1 - - [")), "{old}");
}
