//! MariaDB with many clients: what was committed is there, and nothing else, also after kill -9.
//!
//! Each call of the procedure `work` is a transaction that takes the next number, writes a row
//! that follows from it and adds it to one of a few sums that all clients want. So what the tables
//! must hold follows from the number of calls alone, whoever made them, and one thread of the
//! server can write it down anew for comparison.
//!
//! Invariant: the data lies in the test's folder and the server listens on a socket there; a
//! server of the machine's own is neither asked nor disturbed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::drawn::{many, said};
use crate::common::{Ended, TIME_LIMIT, can_run, folder, output, output_within, run, text};
use crate::is_nightly;

const PROGRAMS: [&str; 4] = ["mariadbd", "mariadb-install-db", "mariadb-slap", "mariadb"];
/// Clients whose server is killed.
const CLIENTS_KILLED: usize = 8;
/// More than one load takes where others want the processors, too.
const LOAD_LIMIT: Duration = Duration::from_secs(900);
const TABLES: &str = "
    CREATE DATABASE heddle CHARACTER SET utf8mb4;
    USE heddle;
    CREATE TABLE numbers (number INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB;
    CREATE TABLE rows_of (number INT PRIMARY KEY, digest CHAR(32), square BIGINT) ENGINE=InnoDB;
    CREATE TABLE sums (id INT PRIMARY KEY, sum BIGINT) ENGINE=InnoDB;
    INSERT INTO sums SELECT seq, 0 FROM seq_0_to_9;
    DELIMITER //
    CREATE PROCEDURE work()
    BEGIN
        DECLARE mine INT;
        START TRANSACTION;
        INSERT INTO numbers VALUES ();
        SET mine = LAST_INSERT_ID();
        INSERT INTO rows_of VALUES (mine, MD5(mine), mine * mine);
        UPDATE sums SET sum = sum + mine WHERE id = mine MOD 10;
        COMMIT;
        SELECT mine;
    END //
";
/// Zero where each sum is that of its rows: no transaction is there by half.
const HALVES: &str = "SELECT COUNT(*) FROM sums WHERE sum <> \
    (SELECT COALESCE(SUM(number), 0) FROM rows_of WHERE number MOD 10 = id)";
/// Zero where each row is what follows from its number.
const WRONG: &str =
    "SELECT COUNT(*) FROM rows_of WHERE digest <> MD5(number) OR square <> number * number";

/// A place for data, and the server's socket.
struct Data(PathBuf);

impl Data {
    fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }

    fn words(&self) -> Vec<String> {
        let mut words = vec![format!("--datadir={}", self.0.join("data").display())];
        // SAFETY: no memory is involved.
        if unsafe { libc::geteuid() } == 0 {
            // Root has to say that it means it.
            words.push("--user=root".to_owned());
        }
        words
    }

    fn make(name: &str) -> Data {
        let data = Data(folder(name));
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--skip-test-db"]);
        install.arg("--auth-root-authentication-method=normal").args(data.words());
        succeed(output(install));
        data
    }

    /// A server on this data that takes connections.
    fn serve(&self, is_native: bool) -> Ended {
        let mut command = if is_native { plain("mariadbd") } else { run(&["mariadbd"]) };
        command.args(["--no-defaults", "--skip-networking", "--innodb-buffer-pool-size=64M"]);
        command.args(["--max-connections=1200", "--thread-cache-size=0"]);
        command.args(self.words()).arg(format!("--socket={}", self.socket().display()));
        let errors = fs::File::create(self.0.join("errors")).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let mut server = Ended(command.spawn().expect("the command starts"));
        let end = Instant::now() + TIME_LIMIT;
        while UnixStream::connect(self.socket()).is_err() {
            let is_gone = server.0.try_wait().expect("a child").is_some();
            assert!(!is_gone && Instant::now() < end, "no server: {}", self.errors());
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.0.join("errors")).unwrap_or_default()
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(["--no-defaults", "-u", "root"]);
        command.arg(format!("--socket={}", self.socket().display()));
        command
    }

    /// What the server answers.
    fn ask(&self, question: &str) -> String {
        let mut client = self.client("mariadb");
        client.args(["-N", "-D", "heddle", "-e", question]);
        succeed(output_within(client, LOAD_LIMIT))
    }

    fn prepare(&self) {
        let mut client = self.client("mariadb");
        let mut child = client.stdin(Stdio::piped()).spawn().expect("a client");
        child.stdin.take().unwrap().write_all(TABLES.as_bytes()).expect("taken");
        assert!(child.wait().expect("a child").success());
    }

    /// `clients` at once, until `time` is over but once at least; how many calls that were.
    fn load(&self, clients: usize, time: Duration) -> usize {
        let (end, calls) = (Instant::now() + time, clients * 4);
        let mut made = 0;
        while made == 0 || Instant::now() < end {
            let mut slap = self.client("mariadb-slap");
            slap.args(["--create-schema=heddle", "--no-drop", "--query=CALL work()"]);
            slap.arg(format!("--concurrency={clients}"));
            slap.arg(format!("--number-of-queries={calls}"));
            succeed(output_within(slap, LOAD_LIMIT));
            made += calls;
        }
        made
    }

    /// The tables hold what so many calls leave.
    fn check(&self, calls: usize) {
        self.ask(&format!(
            "CREATE OR REPLACE TABLE wanted LIKE rows_of; \
             INSERT INTO wanted SELECT seq, MD5(seq), seq * seq FROM seq_1_to_{calls}"
        ));
        let sums = self.ask("CHECKSUM TABLE rows_of, wanted EXTENDED");
        let mut sums = sums.lines().filter_map(|line| line.split_once('\t')).map(|pair| pair.1);
        let (have, want) = (sums.next(), sums.next());
        assert!(have.is_some() && have == want, "after {calls} calls: {have:?}, not {want:?}");
        self.check_whole();
    }

    /// No transaction is there by half, and no table is broken.
    fn check_whole(&self) {
        assert_eq!(self.ask(HALVES).trim(), "0", "transactions by half");
        assert_eq!(self.ask(WRONG).trim(), "0", "rows that nobody wrote so");
        let said = self.ask("CHECK TABLE numbers, rows_of, sums EXTENDED");
        assert_eq!(said.matches("\tstatus\tOK").count(), 3, "{said}");
    }

    fn end(self, mut server: Ended) {
        // SAFETY: no memory is involved; the child is ours and not yet waited for.
        unsafe { libc::kill(server.0.id() as i32, libc::SIGTERM) };
        let end = Instant::now() + TIME_LIMIT;
        let status = loop {
            if let Some(status) = server.0.try_wait().expect("a child") {
                break status;
            }
            assert!(Instant::now() < end, "the server does not end: {}", self.errors());
            std::thread::sleep(Duration::from_millis(20));
        };
        let said = self.errors();
        assert!(status.success() && !said.contains("threads are kernel threads"), "{said}");
        fs::remove_dir_all(self.0).expect("ours");
    }
}

fn plain(program: &str) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(program);
    command.process_group(0);
    command
}

fn succeed(output: std::process::Output) -> String {
    let said = text(&output.stderr);
    assert!(output.status.success(), "{}: {said}{}", output.status, text(&output.stdout));
    text(&output.stdout)
}

/// A client that calls without end, and tells of each call that was committed.
fn caller(data: &Data, answers: &Path) -> Child {
    let mut client = data.client("mariadb");
    client.args(["-N", "--unbuffered", "-D", "heddle"]);
    client.stdout(fs::File::create(answers).expect("a file")).stderr(Stdio::null());
    let mut child = client.stdin(Stdio::piped()).spawn().expect("a client");
    let mut stdin = child.stdin.take().unwrap();
    // It ends when the client does.
    std::thread::spawn(move || while stdin.write_all(b"CALL work();\n").is_ok() {});
    child
}

/// The numbers of the calls that were committed before the server was killed.
fn committed(data: &Data, time: Duration, server: Ended) -> BTreeSet<u64> {
    let answers: Vec<PathBuf> =
        (0..CLIENTS_KILLED).map(|client| data.0.join(format!("answers-{client}"))).collect();
    let mut clients: Vec<Child> = answers.iter().map(|it| caller(data, it)).collect();
    std::thread::sleep(time);
    // kill -9.
    drop(server);
    clients.iter_mut().for_each(|client| drop(client.wait()));
    let lines = answers.iter().map(|it| fs::read_to_string(it).expect("answers"));
    // A line that has no end was not told whole.
    let whole = lines.flat_map(|said| {
        let lines = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.filter_map(|line| line.trim().parse().ok()).collect::<Vec<u64>>()
    });
    whole.collect()
}

fn kill_and_recover(data: &Data, mut server: Ended, rounds: usize) -> Ended {
    for round in 0..rounds {
        let told = committed(data, Duration::from_millis(1500 + 300 * round as u64), server);
        assert!(!told.is_empty(), "not one call was committed: {}", data.errors());
        let _ = fs::remove_file(data.socket());
        server = data.serve(false);
        let have: BTreeSet<u64> = data
            .ask("SELECT number FROM rows_of")
            .lines()
            .map_while(|line| line.parse().ok())
            .collect();
        let lost: Vec<_> = told.difference(&have).take(10).collect();
        assert!(lost.is_empty(), "committed, and gone after recovery: {lost:?}");
        data.check_whole();
        println!("killed after {} calls; recovered", told.len());
    }
    server
}

#[test]
fn mariadb_keeps_what_was_committed() {
    if !can_run(&PROGRAMS) {
        return;
    }
    let native = Data::make("mariadb-native");
    let server = native.serve(true);
    native.prepare();
    let calls = native.load(50, Duration::ZERO);
    native.check(calls);
    native.end(server);
    many("mariadb", on_heddle);
}

fn on_heddle() {
    let (time, rounds) = match is_nightly() {
        true if said().is_empty() => (60, 5),
        // One of many turns.
        true => (5, 1),
        false => (0, 1),
    };
    let time = Duration::from_secs(time);
    let data = Data::make("mariadb");
    let server = data.serve(false);
    data.prepare();
    let mut calls = 0;
    let crowds: &[usize] = if is_nightly() { &[200, 1000] } else { &[50] };
    for &clients in crowds {
        let made = data.load(clients, time);
        calls += made;
        println!("{clients} clients: {made} calls");
        data.check(calls);
    }
    let server = kill_and_recover(&data, server, rounds);
    data.end(server);
}
