//! The processes of one program and the classes of their threads.
//!
//! Invariants
//! - A process belongs to the family if it is the first one, or if its parent is of the family when
//!   it is looked at first; it is known by pid and start time. This process is never taken in.
//! - What a table says of a thread counts only for a thread that /proc lists in that process.

use std::collections::{HashMap, HashSet};

use heddle_record::{Kind, Reader, State};

use super::proc::{self, Stat};
use super::world::Attributes;

/// One process.
#[derive(Debug)]
pub struct Member {
    /// When it started.
    started: u64,
    reader: Option<Reader>,
    /// What its table says of its threads, by tid; those of which it says nothing special are
    /// not in it.
    classes: HashMap<i32, Attributes>,
}

/// All of them.
#[derive(Debug)]
pub struct Family {
    members: HashMap<i32, Member>,
    /// Processes that were looked at and are not of the family.
    strangers: HashSet<i32>,
}

impl Family {
    /// The first process and its descendants; `None` if there is none by this number.
    pub fn of(pid: i32) -> Option<Family> {
        // We may be asked for a process that started us.
        let own = std::process::id() as i32;
        let mut family = Family { members: HashMap::new(), strangers: HashSet::from([own]) };
        family.add(pid, Stat::of(pid)?.started);
        family.refresh();
        Some(family)
    }

    fn add(&mut self, pid: i32, started: u64) {
        let reader = Reader::open(pid).ok();
        self.members.insert(pid, Member { started, reader, classes: HashMap::new() });
    }

    /// The processes.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.members.keys().copied()
    }

    /// Takes in who was born, lets go who died. Whether anything changed.
    pub fn refresh(&mut self) -> bool {
        let before = self.members.len();
        self.members.retain(|pid, member| {
            Stat::of(*pid).is_some_and(|stat| stat.started == member.started && !stat.is_over())
        });
        let mut changed = self.members.len() != before;
        let all = proc::processes();
        let mut unknown: Vec<(i32, Stat)> = all
            .iter()
            .copied()
            .filter(|pid| !self.strangers.contains(pid) && !self.members.contains_key(pid))
            .filter_map(|pid| Some((pid, Stat::of(pid)?)))
            .filter(|(_, stat)| !stat.is_over())
            .collect();
        // Grandchildren may have a lower number than their parents: once more if there was one.
        loop {
            let count = unknown.len();
            unknown.retain(|(pid, stat)| {
                let ours = self.members.contains_key(&stat.parent);
                if ours {
                    self.add(*pid, stat.started);
                    changed = true;
                }
                !ours
            });
            if unknown.len() == count || unknown.is_empty() {
                break;
            }
        }
        self.strangers.extend(unknown.into_iter().map(|(pid, _)| pid));
        let alive: HashSet<i32> = all.into_iter().collect();
        self.strangers.retain(|pid| alive.contains(pid));
        changed
    }

    /// Opens tables that were made meanwhile.
    pub fn open_tables(&mut self) {
        for (pid, member) in &mut self.members {
            let made = || std::path::Path::new(&format!("/dev/shm/heddle.{pid}")).exists();
            if member.reader.is_none() && made() {
                member.reader = Reader::open(*pid).ok();
            }
        }
    }

    /// Reads what the tables say. Whether any thread's class or group changed.
    pub fn read_classes(&mut self) -> bool {
        let mut changed = false;
        for member in self.members.values_mut() {
            let Some(reader) = &member.reader else { continue };
            let mut classes = HashMap::new();
            let result = reader.visit(|_, record| {
                let Ok(fields) = record else { return };
                let attributes = Attributes {
                    class: fields.class,
                    priority: fields.priority,
                    group: fields.group,
                };
                let living = !matches!(fields.state, State::Free | State::Finished);
                let kernel = fields.kind == Kind::KernelThread && fields.tid > 0;
                if kernel && living && attributes != Attributes::default() {
                    classes.insert(fields.tid, attributes);
                }
            });
            if result.is_ok() && classes != member.classes {
                member.classes = classes;
                changed = true;
            }
        }
        changed
    }

    /// What the table of its process says of a thread.
    pub fn attributes(&self, pid: i32, tid: i32) -> Option<Attributes> {
        self.members.get(&pid)?.classes.get(&tid).copied()
    }
}
