//! The traced processes of a session: who begot whom, what each runs, and which of its files it has
//! entered.
//!
//! A process is known by the id that the stream gives it, which depends on who was quicker. Reports
//! number them by descent ([`Processes::by_descent`]), which does not: the first process, then its
//! first child with all of that one's descendants, then its second.

use std::ops::Range;

use mcad_proto::event::EndReason;
use mcad_proto::word::{BlockId, ProcessId, StreamId};
use mcad_report::ProcessReport;
use rustc_hash::FxHashMap;

use super::files::Announced;

/// Most processes of one session.
pub(super) const MAX_PROCESSES: usize = 1 << 16;

/// Most files of a process that its children inherit.
const MAX_FILES: usize = 4096;

/// A process as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Process {
    parent: ProcessId,
    /// Of its parent's children, which it is.
    nth: u32,
    children: u32,
    command: Vec<String>,
    end: Option<EndReason>,
    /// Files whose code has not run.
    waiting: Announced,
    /// All files, for its children.
    files: Vec<Range<u64>>,
    /// Blocks that it has executed, one bit each, from the first file that waited on.
    executed: Vec<u64>,
    /// The stream of its first thread.
    main: Option<StreamId>,
    /// That thread goes on with a new program.
    goes_on: bool,
    instructions: u64,
    threads: u32,
}

/// All processes of a session; the first is always there.
#[derive(Debug)]
pub(super) struct Processes {
    all: Vec<Process>,
    /// The one that events without a process belong to.
    entered: ProcessId,
    /// Processes of the threads that live.
    homes: FxHashMap<StreamId, ProcessId>,
    /// Streams of threads that went on with a new program, each with the first one of its thread.
    later: FxHashMap<StreamId, StreamId>,
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            all: vec![Process::default()],
            entered: ProcessId::FIRST,
            homes: FxHashMap::default(),
            later: FxHashMap::default(),
        }
    }
}

impl Processes {
    /// A process that must exist: damage may have taken the event that made it.
    fn get(&mut self, id: ProcessId) -> Option<&mut Process> {
        let place = id.0 as usize;
        if place >= MAX_PROCESSES {
            return None;
        }
        while self.all.len() <= place {
            self.begin(self.all.len(), ProcessId::FIRST);
        }
        self.all.get_mut(place)
    }

    fn begin(&mut self, place: usize, parent: ProcessId) {
        let mut process = Process {
            parent,
            ..Process::default()
        };
        if let Some(parent) = self.all.get_mut(parent.0 as usize) {
            process.nth = parent.children;
            parent.children += 1;
            process.command.clone_from(&parent.command);
            process.files.clone_from(&parent.files);
            for file in &process.files {
                // Too many to wait for count as mapped when their data is touched.
                process.waiting.announce(file.clone());
            }
        }
        match self.all.get_mut(place) {
            Some(old) => *old = process,
            None => self.all.push(process),
        }
    }

    /// A process begins as a copy of another. False when that cannot be.
    pub(super) fn fork(&mut self, id: ProcessId, parent: ProcessId) -> bool {
        // Only what was begotten before can beget.
        if parent >= id || self.get(parent).is_none() {
            return false;
        }
        let place = id.0 as usize;
        if place >= MAX_PROCESSES {
            return false;
        }
        if place < self.all.len() {
            // Damage took what came before, and something later named it.
            return true;
        }
        self.get(ProcessId(id.0 - 1));
        self.begin(place, parent);
        true
    }

    /// What follows is of this process. False when there are too many.
    pub(super) fn enter(&mut self, id: ProcessId) -> bool {
        let known = self.get(id).is_some();
        if known {
            self.entered = id;
        }
        known
    }

    /// A process runs another program from here on.
    pub(super) fn replace(&mut self, id: ProcessId, command: &[String]) -> bool {
        let Some(process) = self.get(id) else {
            return false;
        };
        process.command = command.to_vec();
        process.waiting = Announced::default();
        process.files.clear();
        process.executed.clear();
        process.goes_on = process.main.is_some();
        true
    }

    /// A process is over.
    pub(super) fn end(&mut self, id: ProcessId, end: &EndReason) -> bool {
        let Some(process) = self.get(id) else {
            return false;
        };
        process.end = Some(end.clone());
        process.waiting = Announced::default();
        process.files = Vec::new();
        process.executed = Vec::new();
        true
    }

    /// A thread of the process that was entered begins. Gives the process, and whether it is a new
    /// thread and not one that goes on in a new program.
    pub(super) fn begin_thread(&mut self, stream: StreamId) -> (ProcessId, bool) {
        let entered = self.entered;
        self.homes.insert(stream, entered);
        let Some(process) = self.get(entered) else {
            return (entered, true);
        };
        let goes_on = std::mem::take(&mut process.goes_on);
        process.threads += u32::from(!goes_on);
        let main = *process.main.get_or_insert(stream);
        if goes_on {
            self.later.insert(stream, main);
        }
        (entered, !goes_on)
    }

    /// The first stream of the thread that a stream is of.
    pub(super) fn thread(&self, stream: StreamId) -> StreamId {
        self.later.get(&stream).copied().unwrap_or(stream)
    }

    /// The process of a thread.
    #[inline]
    pub(super) fn of(&self, stream: StreamId) -> ProcessId {
        match self.are_many() {
            true => self.homes.get(&stream).copied().unwrap_or_default(),
            false => ProcessId::FIRST,
        }
    }

    /// A thread ended after so many instructions.
    pub(super) fn end_thread(&mut self, stream: StreamId, instructions: u64) {
        let id = self.homes.remove(&stream).unwrap_or_default();
        if let Some(process) = self.get(id) {
            process.instructions += instructions;
        }
    }

    /// The process that was entered has, or will have, a file at these addresses. If too many wait,
    /// the one that waited longest is given back.
    pub(super) fn announce(&mut self, addresses: Range<u64>) -> Option<(ProcessId, Range<u64>)> {
        let entered = self.entered;
        let process = self.get(entered)?;
        if process.files.len() < MAX_FILES && !process.files.contains(&addresses) {
            process.files.push(addresses.clone());
        }
        Some((entered, process.waiting.announce(addresses)?))
    }

    /// A process executes a block: a file that waited for its code to run.
    #[inline]
    pub(super) fn executes(
        &mut self,
        id: ProcessId,
        block: BlockId,
        address: u64,
    ) -> Option<Range<u64>> {
        let process = self.all.get_mut(id.0 as usize)?;
        if process.waiting.is_empty() {
            return None;
        }
        let (word, bit) = (block.0 as usize / 64, 1 << (block.0 % 64));
        if process.executed.len() <= word {
            process.executed.resize(word + 1, 0);
        }
        if process.executed[word] & bit != 0 {
            return None;
        }
        process.executed[word] |= bit;
        process.waiting.entered(address)
    }

    /// The number of each process in a report, by id.
    pub(super) fn by_descent(&self) -> Vec<u32> {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.all.len()];
        for (id, process) in self.all.iter().enumerate().skip(1) {
            // A parent's id is smaller than its children's.
            children[process.parent.0 as usize].push(id);
        }
        let mut numbers = vec![0; self.all.len()];
        let mut to_do = vec![0];
        let mut next = 0;
        while let Some(id) = to_do.pop() {
            numbers[id] = next;
            next += 1;
            let mut born = std::mem::take(&mut children[id]);
            born.sort_by_key(|child| std::cmp::Reverse(self.all[*child].nth));
            to_do.extend(born);
        }
        numbers
    }

    /// Whether there is more than the first.
    #[inline]
    pub(super) fn are_many(&self) -> bool {
        self.all.len() > 1
    }

    /// What a report says of them, in the order of their numbers. `command` and `end` are the
    /// session's.
    pub(super) fn report(
        &self,
        command: &[String],
        end: &str,
        text: impl Fn(&EndReason) -> String,
    ) -> Vec<ProcessReport> {
        let numbers = self.by_descent();
        let mut report: Vec<ProcessReport> = self
            .all
            .iter()
            .enumerate()
            .map(|(id, process)| ProcessReport {
                process: numbers[id],
                parent: (id > 0).then(|| numbers[process.parent.0 as usize]),
                command: match process.command.is_empty() {
                    true => command.to_vec(),
                    false => process.command.clone(),
                },
                end: match &process.end {
                    _ if id == 0 => end.to_owned(),
                    Some(end) => text(end),
                    None => "still running".to_owned(),
                },
                instructions: process.instructions,
                threads: process.threads,
            })
            .collect();
        report.sort_by_key(|process| process.process);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_descent_whoever_was_first() {
        // 0 begets 1 and 3; 1 begets 2 and 4; 3 begets 5.
        let parents = [0, 1, 0, 1, 3];
        let mut processes = Processes::default();
        for (n, parent) in parents.iter().enumerate() {
            assert!(processes.fork(ProcessId(n as u32 + 1), ProcessId(*parent)));
        }
        assert_eq!(processes.by_descent(), [0, 1, 2, 4, 3, 5]);
        assert!(processes.fork(ProcessId(5), ProcessId(0)), "known already");
        assert_eq!(processes.by_descent(), [0, 1, 2, 4, 3, 5]);
        assert!(!processes.fork(ProcessId(7), ProcessId(7)), "its own child");
        assert!(!processes.fork(ProcessId(MAX_PROCESSES as u32), ProcessId(0)));
        assert!(!processes.enter(ProcessId(MAX_PROCESSES as u32)));
    }

    #[test]
    fn a_child_has_its_parents_files_and_enters_them_itself() {
        let (first, child) = (ProcessId::FIRST, ProcessId(1));
        let mut processes = Processes::default();
        assert_eq!(processes.announce(0x1000..0x2000), None);
        let file = Some(0x1000..0x2000);
        assert_eq!(processes.executes(first, BlockId(0), 0x1800), file);
        assert!(processes.fork(child, first));
        assert!(processes.enter(child));
        // What its parent maps from now on is not its.
        assert!(processes.enter(first));
        processes.announce(0x8000..0x9000);
        assert_eq!(processes.executes(child, BlockId(1), 0x8000), None);
        assert_eq!(processes.executes(child, BlockId(0), 0x1800), file);
        assert_eq!(processes.executes(child, BlockId(2), 0x1800), None);
        assert!(processes.replace(child, &["new".into()]));
        assert_eq!(processes.executes(child, BlockId(0), 0x1800), None);
    }
}
