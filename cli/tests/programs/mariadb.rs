//! MariaDB with a hundred clients, observed and then tuned.
//!
//! Invariant: the data lies in the test's folder and the server listens on a socket there; a
//! server of the machine's own is neither asked nor disturbed.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::report::{Report, check_tuned};
use crate::support::{Folder, find, is_root, skip};

const PROGRAMS: [&str; 4] = ["mariadbd", "mariadb-install-db", "mariadb-slap", "mariadb"];
const CLIENTS: u64 = 100;

#[test]
fn mariadb_with_a_hundred_clients() {
    if let Some(missing) = PROGRAMS.iter().find(|program| find(program).is_none()) {
        skip!("{missing} is not installed and could not be");
    }
    let folder = Folder::new("mariadb");
    install(&folder);
    let observed = load(&folder, &[]);
    observed.check();
    let tuned = load(&folder, &["--stacks", "auto"]);
    tuned.check();
    // A thread per connection has MariaDB's own size, and a client keeps its own.
    let clients = observed.kinds().into_iter().map(|kind| kind.number("created")).max();
    assert!(clients >= Some(CLIENTS), "{}", observed.0);
    assert!(observed.kinds().iter().any(|kind| kind.is("explicit")), "{}", observed.0);
    check_tuned(&observed, &tuned, 20);
}

fn succeed(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let (text, errors) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {errors}{}", String::from_utf8_lossy(text));
    String::from_utf8_lossy(text).into_owned()
}

fn install(folder: &Folder) {
    let mut command = folder.plain("mariadb-install-db");
    command.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]);
    command.arg(format!("--datadir={}", folder.path("data").display()));
    if is_root() {
        command.arg("--user=root");
    }
    succeed(&mut command);
}

fn load(folder: &Folder, flags: &[&str]) -> Report {
    let socket = folder.path("sock");
    let mut command = folder.under(flags, "mariadbd");
    command.args(["--no-defaults", "--skip-networking", "--innodb-buffer-pool-size=64M"]);
    command.args(["--max-connections=200", "--thread-cache-size=0"]);
    // Durability is not what is tested here, and flushing is most of the time.
    command.args(["--innodb-flush-log-at-trx-commit=0", "--innodb-fast-shutdown=2"]);
    command.arg(format!("--datadir={}", folder.path("data").display()));
    command.arg(format!("--socket={}", socket.display()));
    if is_root() {
        command.arg("--user=root");
    }
    let mut server = folder.start(command);
    server.until("a connection", || UnixStream::connect(&socket).is_ok());
    let mut slap = client(&folder.path("sock"), "mariadb-slap");
    slap.args(["--auto-generate-sql", "--number-of-queries=1000"]);
    succeed(slap.arg(format!("--concurrency={CLIENTS}")));
    let mut sql = client(&socket, "mariadb");
    sql.args(["-D", "mysql"]);
    sql.args(["-N", "-e", "SELECT SUM(seq * seq) FROM seq_1_to_1000; SELECT REPEAT('ab', 3)"]);
    assert_eq!(succeed(&mut sql), "333833500\nababab\n");
    server.signal(Signal::TERM);
    let ended = server.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.errors);
    folder.report()
}

fn client(socket: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--no-defaults", "-u", "root"]);
    command.arg(format!("--socket={}", socket.display()));
    command
}
