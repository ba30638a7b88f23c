//! A table from its writer's hand to a reader's eye.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use heddle_record::{
    Class, Error, Fields, Kind, Options, Place, Reader, State, Table, Zone, table_pids,
};

fn memfd_table(capacity: u32) -> Table {
    let table = Options::new().capacity(capacity).place(Place::Memfd).create().expect("a table");
    assert_eq!(table.report().place, Place::Memfd);
    table
}

fn light(state: State) -> Fields {
    Fields { kind: Kind::Light, state, ..Fields::default() }
}

#[test]
fn a_thread_comes_back_with_its_texts() {
    let table = memfd_table(1024);
    table.set_high_water(3).expect("room");
    let fields = Fields {
        generation: 5,
        class: Class::TimeCritical,
        priority: 80,
        role: table.intern_role("gas detection"),
        start: table.intern_start("main::detect"),
        name: table.intern("détecteur"),
        stack_size: 65536,
        stack_peak: 2000,
        zone: Zone::of(2000, 65536),
        created_ns: 17,
        cpu_ns: 18,
        switches: 19,
        ..light(State::Parked)
    };
    table.record(2).publish(&fields);

    let snapshot = table.reader().expect("a reader").snapshot().expect("a snapshot");
    assert_eq!(snapshot.faults, []);
    assert!(snapshot.alive);
    let [thread] = &snapshot.threads[..] else { panic!("{:?}", snapshot.threads) };
    assert_eq!(thread.id.to_string(), "2.5");
    assert_eq!(thread.fields, fields);
    assert_eq!(thread.role.as_deref(), Some("gas detection"));
    assert_eq!(thread.start.as_deref(), Some("main::detect"));
    assert_eq!(thread.name.as_deref(), Some("détecteur"));
    assert_eq!(thread.worker(), None);
}

#[test]
fn running_comes_from_the_workers() {
    let table = memfd_table(1024);
    table.set_high_water(4).expect("room");
    table.record(1).publish(&light(State::Ready));
    table.record(2).publish(&light(State::Ready));
    table.record(3).publish(&light(State::Parked));
    let worker = Fields { kind: Kind::Worker, worker: 6, tid: 77, ..light(State::Ready) };
    table.record(0).publish(&worker);
    table.record(0).set_running(Some(2));

    let reader = table.reader().expect("a reader");
    let snapshot = reader.snapshot().expect("a snapshot");
    let states: Vec<_> = snapshot.threads.iter().map(|thread| thread.fields.state).collect();
    assert_eq!(states, [State::Ready, State::Running, State::Parked]);
    assert_eq!(snapshot.threads[1].worker(), Some(6));
    assert_eq!(snapshot.threads[1].fields.tid, 77);
    assert_eq!(snapshot.workers.len(), 1);
    assert_eq!(snapshot.workers[0].runs, Some(2));

    table.record(0).set_running(None);
    let snapshot = reader.snapshot().expect("a snapshot");
    assert_eq!(snapshot.threads[1].fields.state, State::Ready);
    assert_eq!(snapshot.workers[0].runs, None);
}

#[test]
fn a_visit_shows_the_used_records_as_they_are() {
    let table = memfd_table(4096);
    table.set_high_water(3000).expect("room");
    for slot in [5, 1024, 2999] {
        table.record(slot).publish(&Fields { switches: slot, ..light(State::Ready) });
    }
    table.record(7).publish(&light(State::Parked));
    table.record(7).clear();
    let mut seen = Vec::new();
    let reader = table.reader().expect("a reader");
    reader.visit(|slot, record| seen.push((slot, record.expect("whole").switches))).expect("it");
    assert_eq!(seen, [(5, 5), (1024, 1024), (2999, 2999)]);
}

#[test]
fn the_living_are_those_that_have_not_ended() {
    let table = memfd_table(4096);
    table.set_high_water(10).expect("room");
    for (slot, generation, state) in
        [(1, 3, State::Parked), (2, 1, State::Finished), (3, 9, State::Ready), (4, 1, State::New)]
    {
        table.record(slot).publish(&Fields { generation, ..light(state) });
    }
    table.record(5).publish(&light(State::Ready));
    table.record(5).clear();
    let living = table.reader().expect("a reader").living().expect("a table");
    let mut ids: Vec<_> = living.into_iter().map(|id| (id.slot, id.generation)).collect();
    ids.sort_unstable();
    assert_eq!(ids, [(1, 3), (3, 9), (4, 1)]);
}

#[test]
fn the_kernel_knows_whether_a_kernel_thread_runs() {
    let table = memfd_table(256);
    table.set_high_water(3).expect("room");
    let tid = || rustix::thread::gettid().as_raw_nonzero().get();
    let kernel = |tid| Fields { kind: Kind::KernelThread, tid, ..light(State::Ready) };
    table.record(0).publish(&kernel(tid()));
    table.record(1).publish(&kernel(i32::MAX));
    let (send, receive) = std::sync::mpsc::channel();
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let sleeper = std::thread::spawn(move || {
        send.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("sent");
        let _ = wait.recv();
    });
    table.record(2).publish(&kernel(receive.recv().expect("a tid")));
    let look = || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut snapshot = table.reader().expect("a reader").snapshot().expect("a snapshot");
        snapshot.ask_kernel();
        snapshot
    };
    // On a busy machine it may still be on its way into the wait.
    let mut snapshot = look();
    for _ in 0..1000 {
        if snapshot.threads[2].fields.state != State::Running {
            break;
        }
        snapshot = look();
    }
    let states: Vec<_> = snapshot.threads.iter().map(|thread| thread.fields.state).collect();
    assert_eq!(states, [State::Running, State::Ready, State::Parked]);
    assert!(snapshot.threads[0].fields.cpu_ns > 0);
    drop(end);
    sleeper.join().expect("it ends");
}

#[test]
fn texts_are_kept_once_and_limits_hold() {
    let table = memfd_table(256);
    assert_eq!(table.intern(""), 0);
    assert_eq!(table.intern_role(""), 0);
    let name = table.intern("connection");
    assert_ne!(name, 0);
    assert_eq!(table.intern("connection"), name);
    let role = table.intern_role("connection");
    for other in ["cannection", "connectioN", "connection ", "connectio", "accept", ""] {
        assert_ne!(table.intern_role(other), role, "{other}");
        assert_eq!(table.intern_role("connection"), role);
    }
    let long = "x".repeat(5000);
    assert_eq!(table.intern_role(&long), table.intern_role(&long[..1024]));
    assert_eq!(table.intern_start("connection"), name);
    let seventh = table.intern_role("role 7");
    for number in 1..66_000 {
        table.intern_role(&format!("role {number}"));
    }
    assert_eq!(table.intern_role("one too many"), 0);
    assert_eq!(table.intern_role("role 7"), seventh, "the old ones stay");
    assert!(table.reader().expect("a reader").snapshot().expect("a snapshot").texts_full);
}

#[test]
fn the_writer_finds_its_own_texts_without_a_lock() {
    let table = memfd_table(256);
    let (name, role) = (table.intern("client 7"), table.intern_role("gas detection"));
    let long = "ä".repeat(2000);
    let clipped = table.intern(&long);
    let mut buffer = [0; 1024];
    assert_eq!(table.text(name, &mut buffer), Some("client 7"));
    assert_eq!(table.role(role, &mut buffer), Some("gas detection"));
    assert_eq!(table.text(clipped, &mut buffer), Some(&long[..1024]));
    for id in [0, clipped + 1000, u32::MAX] {
        assert_eq!(table.text(id, &mut buffer), None);
    }
    assert_eq!(table.role(0, &mut buffer), None);
    assert_eq!(table.role(role + 1, &mut buffer), None);
}

#[test]
fn slots_end_at_the_capacity() {
    let table = memfd_table(3000);
    assert_eq!(table.capacity(), 3000);
    table.set_high_water(3000).expect("room");
    table.record(2999).publish(&light(State::New));
    assert!(matches!(table.set_high_water(3001), Err(Error::Full { capacity: 3000 })));
    let snapshot = table.reader().expect("a reader").snapshot().expect("a snapshot");
    assert_eq!(snapshot.threads[0].id.slot, 2999);
}

#[test]
#[should_panic(expected = "beyond the high water")]
fn a_slot_without_memory_is_not_given() {
    memfd_table(1 << 20).record(500_000);
}

#[test]
fn the_shared_file_is_found_by_pid_and_goes_with_the_table() {
    let pid = std::process::id() as i32;
    let table = Table::create(1 << 24).expect("a table");
    if table.report().place != Place::Shared {
        eprintln!("skip: {:?}", table.report());
        return;
    }
    let path = table.path().expect("a path");
    let mode = std::os::unix::fs::MetadataExt::mode(&path.metadata().expect("the file"));
    assert_eq!(mode & 0o777, 0o600);
    assert!(matches!(Table::create(256), Err(Error::Exists)), "one named table per process");

    table.set_high_water(1).expect("room");
    table.record(0).publish(&light(State::New));
    assert!(table_pids().expect("a list").contains(&pid));
    let snapshot = Reader::open(pid).expect("a reader").snapshot().expect("a snapshot");
    assert_eq!((snapshot.pid, snapshot.threads.len()), (pid, 1));

    table.unlink();
    assert!(!path.exists());
    table.record(0).set_state(State::Parked);
    drop(table);
    // A stale file by our number is replaced.
    std::fs::write(&path, "left behind").expect("a file");
    let table = Table::create(256).expect("a table");
    assert_eq!(table.report().place, Place::Shared);
    assert!(Reader::open(pid).is_ok());
}

#[test]
fn a_reader_never_sees_half_a_publish() {
    let table = memfd_table(256);
    table.set_high_water(1).expect("room");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0_u32;
            while !stop.load(Relaxed) {
                count = count.wrapping_add(1);
                let (cpu_ns, switches, generation) = (u64::from(count), count, count);
                let fields = light(State::Parked);
                table.record(0).publish(&Fields { generation, cpu_ns, switches, ..fields });
            }
        });
        let reader = table.reader().expect("a reader");
        let mut seen = 0;
        for _ in 0..20_000 {
            let near = table.record(0).read();
            let far = reader.snapshot().expect("a snapshot");
            let far = far.threads.first().map(|thread| thread.fields);
            for fields in [near, far].into_iter().flatten() {
                seen += 1;
                assert_eq!(fields.generation, fields.switches);
                assert_eq!(u64::from(fields.switches), fields.cpu_ns);
            }
        }
        stop.store(true, Relaxed);
        assert!(seen > 1000, "{seen} whole records in 20000 looks");
    });
}
