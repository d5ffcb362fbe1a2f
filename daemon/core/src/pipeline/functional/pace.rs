//! About how fast a core goes, without simulating it.
//!
//! *Interval analysis* (Eyerman, Eeckhout, Karkhanis & Smith, "A mechanistic performance model for
//! superscalar out-of-order processors", ACM TOCS 2009): µops are issued at the core's width, except
//! for what a wrong prediction takes, and for the wait behind a miss that lasts longer than the
//! re-order buffer can hide. Nothing here is a result: the pace only says which misses are on their
//! way together, and which stores have not been written when a load comes.

use std::collections::VecDeque;

use crate::memory::Answer;
use crate::pipeline::access::{Access, Address};
use crate::pipeline::frontend::predict::Steer;
use mcad_isa::machine::params::Core;

/// Parts of a cycle.
const PARTS: u64 = 64;
/// Misses that are waited for at most.
const WAITS: usize = 64;

/// A clock.
pub struct Pace {
    /// Parts of a cycle so far.
    at: u64,
    instructions: u64,
    /// Parts of a cycle for a µop.
    uop: u64,
    reorder_buffer: u64,
    redirect: u64,
    decode_redirect: u64,
    decode_redirect_conditional: u64,
    fault: u64,
    /// Instructions that cannot be issued before a cycle.
    waits: VecDeque<(u64, u64)>,
}

/// Cycles from the issue of a branch to its execution, at least.
const RESOLVE: u64 = 8;

impl Pace {
    /// At rest.
    #[must_use]
    pub fn new(core: &Core) -> Self {
        let branch = core.branch.as_ref();
        Self {
            at: 0,
            instructions: 0,
            uop: (PARTS / u64::from(core.rename.issue_width.max(1))).max(1),
            reorder_buffer: u64::from(core.retire.reorder_buffer),
            redirect: branch.map_or(0, |b| b.redirect + RESOLVE),
            decode_redirect: branch.map_or(0, |b| b.decode_redirect),
            decode_redirect_conditional: branch.map_or(0, |b| b.decode_redirect_conditional),
            fault: core.tlb.map_or(0, |tlb| tlb.fault),
            waits: VecDeque::with_capacity(WAITS),
        }
    }

    /// The cycle.
    #[inline]
    #[must_use]
    pub fn cycle(&self) -> u64 {
        self.at / PARTS
    }

    /// Instructions were issued.
    #[inline]
    pub fn pass(&mut self, instructions: u64, uops: u64) {
        self.instructions += instructions;
        self.at += uops * self.uop;
        while let Some(&(number, cycle)) = self.waits.front()
            && number <= self.instructions
        {
            self.waits.pop_front();
            self.at = self.at.max(cycle * PARTS);
        }
    }

    /// A branch was predicted.
    #[inline]
    pub fn steer(&mut self, steer: Steer) {
        let cycles = match steer {
            Steer::Straight
            | Steer::Passed
            | Steer::Taken(_)
            | Steer::Always(_)
            | Steer::Chosen(_)
            | Steer::Led(_)
            | Steer::Overridden(_)
            | Steer::OverriddenStraight
            | Steer::Held => 0,
            Steer::Decoded => self.decode_redirect,
            Steer::DecodedConditional => self.decode_redirect + self.decode_redirect_conditional,
            Steer::WrongDirection | Steer::WrongTarget => self.redirect,
        };
        self.at += cycles * PARTS;
    }

    /// A line of code came late: what follows waits for it.
    #[inline]
    pub fn fetched(&mut self, answer: &Answer) {
        self.at += answer.late * PARTS;
    }

    /// An access faulted: everything waits for it.
    pub fn fault(&mut self, answer: &Answer) {
        self.at += (answer.late + self.fault) * PARTS;
    }

    /// Data came late: the re-order buffer fills meanwhile.
    #[inline]
    pub fn late(&mut self, answer: &Answer) {
        if self.waits.len() < WAITS {
            let until = self.cycle() + answer.late;
            (self.waits).push_back((self.instructions + self.reorder_buffer, until));
        }
    }
}

/// Places of stores, a power of two.
const STORES: usize = 256;
/// Cycles from the issue of a store to its being written, in which loads are served by it.
const WRITTEN: u64 = 24;

/// Stores on their way: by eight bytes, when the last one came.
pub struct Stores {
    last: Box<[(u64, u64); STORES]>,
}

impl Default for Stores {
    fn default() -> Self {
        Self {
            last: Box::new([(u64::MAX, 0); STORES]),
        }
    }
}

impl Stores {
    #[inline]
    fn place(access: &Access) -> Option<(usize, u64)> {
        match access.address {
            Address::Known(address) => Some(((address >> 3) as usize % STORES, address >> 3)),
            Address::Symbolic(_) => None,
        }
    }

    /// A store in a cycle.
    #[inline]
    pub fn add(&mut self, access: &Access, cycle: u64) {
        if let Some((place, bytes)) = Self::place(access) {
            self.last[place] = (bytes, cycle);
        }
    }

    /// Whether a load in a cycle gets its data from one.
    #[inline]
    #[must_use]
    pub fn serve(&self, access: &Access, cycle: u64) -> bool {
        Self::place(access).is_some_and(|(place, bytes)| {
            let (last, at) = self.last[place];
            last == bytes && cycle <= at + WRITTEN
        })
    }
}
