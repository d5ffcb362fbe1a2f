//! The traced processes of a session: the first, and those that it and its descendants make.
//!
//! Each has a ring, whose reader tells what it finds to a [`Translator`]. A member begins with the
//! message of its parent that announces the fork, so every parent comes before its children, and
//! siblings in the order in which their parent made them. Its ring is free again when the process
//! is gone and everything was taken.
//!
//! Who made a process learns how it ended, not we: the plugin writes down the status that a program
//! asks for, and the status that a parent waited for.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mcad_proto::event::{EndReason, Event, ProcessEvent};
use mcad_proto::word::ProcessId;

use crate::pack::{Life, Pack};
use crate::queue::Queue;
use crate::ring::RingError;
use crate::ring::layout::{EXEC_TRIED, Header, SLOT_FAILED};
use crate::ring::memory::Memory;
use crate::ring::reader::Reader;
use crate::translator::{Birth, Common, Own, Translator};

/// A traced process.
#[derive(Debug)]
struct Member {
    own: Own,
    memory: Arc<Memory>,
    reader: Reader,
    life: Life,
}

impl Member {
    fn new(own: Own, memory: Arc<Memory>) -> Self {
        Self {
            own,
            reader: Reader::new(Arc::clone(&memory)),
            memory,
            life: Life::Expected,
        }
    }

    /// Takes one finished chunk, and what the control log says.
    fn step(&mut self, common: &mut Common) -> Result<bool, RingError> {
        let own = &mut self.own;
        let mut translator = Translator { own, common };
        let came = self.reader.step(&mut translator)?;
        if !came {
            // The process may wait for one that only its log tells of.
            self.reader.drain_control(&mut translator)?;
        }
        Ok(came)
    }

    fn salvage(&mut self, common: &mut Common) -> Result<(), RingError> {
        let own = &mut self.own;
        self.reader.salvage(&mut Translator { own, common })
    }
}

/// One that is gone, and nobody has told how.
#[derive(Debug)]
struct Gone {
    id: ProcessId,
    /// The system's id.
    pid: u32,
    /// What it ran last ran untraced.
    replaced: bool,
}

/// The traced processes.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) common: Common,
    first: Member,
    /// By ring, from 1.
    others: BTreeMap<usize, Member>,
    rings: Vec<Arc<Memory>>,
    /// Rings that nobody may use again: what they hold was damaged.
    spoilt: HashSet<usize>,
    gone: Vec<Gone>,
    pack: Pack,
}

impl Family {
    /// The first process alone, with the rings for others; at most `most` are told of.
    pub(crate) fn new(first: Arc<Memory>, rings: Vec<Arc<Memory>>, pack: Pack, most: u32) -> Self {
        Self {
            common: Common::new(most),
            first: Member::new(Own::default(), first),
            others: BTreeMap::new(),
            rings,
            spoilt: HashSet::new(),
            gone: Vec::new(),
            pack,
        }
    }

    pub(crate) fn queue(&mut self) -> &mut Queue {
        &mut self.common.queue
    }

    /// How many processes beside the first are not known to be gone.
    pub(crate) fn others(&self) -> usize {
        self.others.len()
    }

    /// Takes a finished chunk of each process; false when there was none.
    ///
    /// # Errors
    /// [`RingError::Damaged`] in the first process's ring. Another one's damage ends what is
    /// recorded of it.
    pub(crate) fn step(&mut self) -> Result<bool, RingError> {
        let mut came = self.first.step(&mut self.common)?;
        self.welcome();
        let mut damaged = Vec::new();
        for (slot, member) in &mut self.others {
            match member.step(&mut self.common) {
                Ok(more) => came |= more,
                Err(error) => damaged.push((*slot, error)),
            }
        }
        for (slot, error) in damaged {
            self.give_up(slot, &error);
            came = true;
        }
        self.welcome();
        Ok(came)
    }

    /// Takes what is left of the first process, which is gone.
    ///
    /// # Errors
    /// [`RingError::Damaged`].
    pub(crate) fn salvage_first(&mut self) -> Result<(), RingError> {
        let salvaged = self.first.salvage(&mut self.common);
        self.welcome();
        salvaged
    }

    /// Ends those that are gone. To be called when there was nothing to take; true when there is
    /// more to take now.
    pub(crate) fn bury(&mut self) -> bool {
        let mut over = Vec::new();
        for (slot, member) in &mut self.others {
            let header = member.memory.header();
            let failed = header.claim.load(Ordering::Acquire) == SLOT_FAILED;
            if failed || member.life.is_over(header, &self.pack) {
                over.push(*slot);
            }
        }
        for slot in &over {
            self.end(*slot, false);
        }
        self.welcome();
        !over.is_empty()
    }

    /// Ends all that are left, which go on by themselves. Gives their number.
    pub(crate) fn part(&mut self) -> usize {
        let left: Vec<usize> = self.others.keys().copied().collect();
        for slot in &left {
            self.end(*slot, true);
        }
        for Gone { id, .. } in std::mem::take(&mut self.gone) {
            let how = "it ended, and nobody asked how";
            let reason = EndReason::ProducerDied(how.to_owned());
            let ended = ProcessEvent::Ended(reason);
            self.common.queue.push_process(id, ended);
        }
        left.len()
    }

    /// Begins the processes that were announced.
    fn welcome(&mut self) {
        for Birth { slot, mut own } in std::mem::take(&mut self.common.born) {
            let ring = self.rings.get(slot.wrapping_sub(1));
            match ring.filter(|_| !self.others.contains_key(&slot) && !self.spoilt.contains(&slot))
            {
                Some(ring) => {
                    self.others.insert(slot, Member::new(own, Arc::clone(ring)));
                }
                None => {
                    let what = format!("ring {slot} is not its own");
                    own.end(&mut self.common, Some(EndReason::Truncated(what)));
                }
            }
        }
    }

    /// A process is gone, or is left alone: takes what there is of it.
    fn end(&mut self, slot: usize, lives: bool) {
        let Some(mut member) = self.others.remove(&slot) else {
            return;
        };
        if let Err(error) = member.salvage(&mut self.common) {
            self.lose(&mut member, &error);
        }
        let header = member.memory.header();
        let pid = member.life.pid();
        let status = self.common.statuses.remove(&pid);
        let replaced = header.exec_state.load(Ordering::Acquire) == EXEC_TRIED;
        let replaced = replaced.then(|| exec_path(header));
        let failed = header.claim.load(Ordering::Acquire) == SLOT_FAILED;
        let reason = if failed {
            Some(EndReason::Truncated("the fork failed".into()))
        } else if lives {
            Some(EndReason::Truncated("it outlived the first process".into()))
        } else if header.ended.load(Ordering::Acquire) != 0 && replaced.is_none() {
            let status = header.exit_status.load(Ordering::Relaxed);
            Some(EndReason::Exited(status as i32 & 0xff))
        } else {
            status.map(|status| ended(status, replaced.is_some()))
        };
        if let Some(path) = &replaced
            && !lives
        {
            let notice = format!("a process replaced itself by {path}, which ran untraced");
            self.common.queue.push(&Event::Notice(notice));
        }
        let Member {
            mut own, memory, ..
        } = member;
        let known = reason.is_some();
        own.end(&mut self.common, reason);
        if !known && own.is_told() {
            self.gone.push(Gone {
                id: own.id,
                pid,
                replaced: replaced.is_some(),
            });
        }
        if !lives {
            memory.reset();
        }
    }

    /// Looks whether somebody has told how those ended of which it was not known. To be called when
    /// there was nothing to take: how others ended than those that are still here is forgotten, since
    /// the system gives their ids again.
    pub(crate) fn hear(&mut self) {
        let Common {
            statuses, queue, ..
        } = &mut self.common;
        if statuses.is_empty() {
            return;
        }
        self.gone.retain(|gone| {
            let status = statuses.remove(&gone.pid);
            if let Some(status) = status {
                let reason = ended(status, gone.replaced);
                queue.push_process(gone.id, ProcessEvent::Ended(reason));
            }
            status.is_none()
        });
        let is_here = |pid: u32| self.others.values().any(|member| member.life.pid() == pid);
        statuses.retain(|pid, _| is_here(*pid));
    }

    /// A process's ring is damaged: nothing more is taken from it.
    fn give_up(&mut self, slot: usize, error: &RingError) {
        let Some(mut member) = self.others.remove(&slot) else {
            return;
        };
        self.lose(&mut member, error);
        let reason = EndReason::Truncated(error.to_string());
        member.own.end(&mut self.common, Some(reason));
        // Its writers may still be at work.
        self.spoilt.insert(slot);
        member.memory.header().deaf.store(1, Ordering::Release);
    }

    fn lose(&mut self, member: &mut Member, error: &RingError) {
        let reason = format!("process {}: {error}", member.own.id.0);
        let lost = Event::Lost { count: 1, reason };
        self.common.queue.push_of(member.own.id, &lost);
    }
}

/// A status as `wait` gives it.
fn ended(status: u32, replaced: bool) -> EndReason {
    let status = ExitStatus::from_raw(status as i32);
    match (status.code(), status.signal()) {
        (Some(code), _) if replaced => EndReason::Exec(code),
        (_, Some(signal)) if replaced => EndReason::Exec(128 + signal),
        (Some(code), _) => EndReason::Exited(code),
        (None, Some(signal)) => EndReason::Signaled(signal),
        (None, None) => EndReason::ProducerDied(status.to_string()),
    }
}

/// What the last `execve` named.
pub(crate) fn exec_path(header: &Header) -> String {
    let path: Vec<u8> = header
        .exec_path
        .iter()
        .map(|byte| byte.load(Ordering::Relaxed))
        .take_while(|&byte| byte != 0)
        .collect();
    let path = String::from_utf8_lossy(&path).into_owned();
    match header.exec_sets_id.load(Ordering::Relaxed) {
        0 => path,
        _ => format!("{path} (set-user-id or set-group-id)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::control::Message;
    use crate::ring::reader::Sink;

    /// A message of the first process.
    fn tell(family: &mut Family, message: Message<'_>) {
        let own = &mut family.first.own;
        let common = &mut family.common;
        Translator { own, common }.message(message).unwrap();
        family.welcome();
    }

    fn ends(family: &mut Family) -> Vec<(ProcessId, EndReason)> {
        let mut ends = Vec::new();
        while let Some(event) = family.queue().pop() {
            if let Event::Process {
                id,
                what: ProcessEvent::Ended(reason),
            } = event
            {
                ends.push((id, reason));
            }
        }
        ends
    }

    #[test]
    fn statuses_of_processes_that_are_not_told_of_are_forgotten() {
        let ring = Memory::create(1, 0, 2).unwrap();
        let mut family = Family::new(Arc::new(ring.memory), ring.slots, Pack::default(), 8);
        for pid in 1..=20_000 {
            tell(&mut family, Message::Waited { pid, status: 9 });
            if pid % 1000 == 0 {
                family.hear();
            }
        }
        assert!(family.common.statuses.is_empty());
        // One whose status comes before it is seen to be gone, and one that is gone before.
        for (slot, pid) in [(1, 700), (2, 800)] {
            tell(&mut family, Message::Fork { slot, blocks: 0 });
            family.others.get_mut(&(slot as usize)).unwrap().life = Life::Over { pid };
            if pid == 700 {
                tell(
                    &mut family,
                    Message::Waited {
                        pid,
                        status: 7 << 8,
                    },
                );
            }
            family.hear();
        }
        assert!(family.bury());
        let exited = |id, status| (ProcessId(id), EndReason::Exited(status));
        assert_eq!(ends(&mut family), [exited(1, 7)]);
        let (pid, status) = (800, 3 << 8);
        tell(&mut family, Message::Waited { pid, status });
        family.hear();
        assert_eq!(ends(&mut family), [exited(2, 3)]);
        assert!(family.gone.is_empty() && family.common.statuses.is_empty());
    }
}
