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

use mcad_proto::event::{EndReason, Event};

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
    own: Own,
    /// The system's id.
    pid: u32,
    /// What it ran last, untraced.
    replaced: Option<String>,
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
        for Gone { mut own, .. } in std::mem::take(&mut self.gone) {
            let how = "it ended, and nobody asked how";
            own.end(
                &mut self.common,
                Some(EndReason::ProducerDied(how.to_owned())),
            );
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
        if !known {
            self.gone.push(Gone { own, pid, replaced });
        }
        if !lives {
            memory.reset();
        }
    }

    /// Looks whether somebody has told how those ended of which it was not known.
    pub(crate) fn hear(&mut self) {
        if self.gone.is_empty() || self.common.statuses.is_empty() {
            return;
        }
        for mut gone in std::mem::take(&mut self.gone) {
            match self.common.statuses.remove(&gone.pid) {
                Some(status) => {
                    let reason = ended(status, gone.replaced.is_some());
                    gone.own.end(&mut self.common, Some(reason));
                }
                None => self.gone.push(gone),
            }
        }
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
