//! What a load that no store serves asks: where its line is, and how late that makes it.
//!
//! [`Lines`] is what one thread has for itself, [`SharedLines`] what all threads of a session have
//! together; that one belongs to the simulation, which lends it to the thread at work
//! ([`super::Memory::lend`]). Behind both are the caches of [`crate::memory`], for whole programs.
//! In a single block, and on a core whose caches are not modelled, every line is in the first
//! level.

use crate::memory::counts::Counts;
use crate::memory::{Answer, Level, Memory, Request, Shared};
use crate::pipeline::access::{Access, Address};
use crate::pipeline::fold::Folding;
use crate::pipeline::functional::Warm;
use crate::pipeline::state::{Fingerprint, Moment, Part, Remember};
use mcad_isa::machine::params::Core;

/// A load or store that asks for its line.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    /// What it accesses; only known addresses mean something here.
    pub access: Access,
    /// Address of the instruction, for who learns patterns.
    pub by: u64,
    /// The instruction in its program.
    pub instr: u32,
    /// Cycle in which it was sent.
    pub at: u64,
}

/// What held an access up, as far as it came late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// Nothing behind the first level.
    #[default]
    No,
    /// Its line came from there.
    From(Level),
    /// Its address was translated, for longer than anything else took.
    Translation,
}

/// Lines that threads share.
#[derive(Default)]
pub struct SharedLines {
    shared: Option<Box<Shared>>,
}

impl SharedLines {
    /// What the threads of a program share on such a core.
    #[must_use]
    pub fn of_program(core: &Core) -> Self {
        Self {
            shared: core.cache.is_some().then(|| Shared::new(core)),
        }
    }

    /// Exchanges the caches' part with what a thread's has.
    #[inline]
    pub fn lend(&mut self, memory: &mut Memory) {
        if let Some(shared) = &mut self.shared {
            memory.lend(shared);
        }
    }

    /// The caches' part, where they are modelled.
    pub fn get(&mut self) -> Option<&mut Shared> {
        self.shared.as_deref_mut()
    }
}

/// Lines of one thread.
#[derive(Default)]
pub struct Lines {
    memory: Option<Box<Memory>>,
}

impl Lines {
    /// Lines of a program's thread on such a core.
    #[must_use]
    pub fn of_program(core: &Core) -> Self {
        Self {
            memory: Memory::new(core),
        }
    }

    /// Whether a line can be anywhere but in the first level.
    #[inline]
    #[must_use]
    pub fn are_modelled(&self) -> bool {
        self.memory.is_some()
    }

    /// The caches, where they are modelled.
    #[inline]
    pub fn memory(&mut self) -> Option<&mut Memory> {
        self.memory.as_deref_mut()
    }

    /// What accesses found so far.
    #[must_use]
    pub fn found(&self) -> Counts {
        (self.memory.as_ref()).map_or_else(Counts::default, |memory| memory.counts)
    }

    /// Hands over or takes back what is shared.
    #[inline]
    pub fn lend(&mut self, shared: &mut SharedLines) {
        if let Some(memory) = &mut self.memory {
            shared.lend(memory);
        }
    }

    /// Whether a load, or store, to a known address finds its line in the first level at once; it
    /// has asked for it then.
    #[inline(always)]
    pub fn hits(&mut self, lookup: &Lookup, write: bool) -> bool {
        match (&mut self.memory, lookup.access.address) {
            (Some(memory), Address::Known(address)) => {
                memory.hits_at_once((lookup.by, address), lookup.access.size, lookup.at, write)
            }
            _ => false,
        }
    }

    /// Cycles in which no store was written since this was asked last.
    #[inline]
    pub fn held_up_stores(&mut self) -> u64 {
        (self.memory.as_mut()).map_or(0, |memory| memory.held_up_stores())
    }

    /// When lines came or will come into the first level that hold up loads, of those since this was asked last.
    #[inline]
    pub fn take_arrivals(&mut self, into: &mut Vec<u64>) {
        if let Some(memory) = &mut self.memory {
            memory.take_arrivals(into);
        }
    }

    /// A load that does not hit so.
    #[inline]
    pub fn load_beyond(&mut self, lookup: &Lookup) -> Answer {
        match (&mut self.memory, request(lookup)) {
            (Some(memory), Some(request)) => memory.load_beyond(request),
            _ => Answer::default(),
        }
    }

    /// A store that does not hit so.
    #[inline]
    pub fn store_beyond(&mut self, lookup: &Lookup) -> Answer {
        match (&mut self.memory, request(lookup)) {
            (Some(memory), Some(request)) => memory.store_beyond(request),
            _ => Answer::default(),
        }
    }

    /// A load.
    #[inline]
    pub fn load(&mut self, lookup: &Lookup) -> Answer {
        match (&mut self.memory, request(lookup)) {
            (Some(memory), Some(request)) => memory.load(request),
            _ => Answer::default(),
        }
    }

    /// A load on a wrong path.
    pub fn load_on_wrong_path(&mut self, lookup: &Lookup) -> Option<u64> {
        match (&mut self.memory, request(lookup)) {
            (Some(memory), Some(request)) => memory.load_on_wrong_path(request),
            _ => Some(0),
        }
    }

    /// A store asks for its line, to write it.
    #[inline]
    pub fn store(&mut self, lookup: &Lookup) -> Answer {
        match (&mut self.memory, request(lookup)) {
            (Some(memory), Some(request)) => memory.store(request),
            _ => Answer::default(),
        }
    }
}

#[inline]
fn request(lookup: &Lookup) -> Option<Request> {
    match lookup.access.address {
        Address::Known(address) => Some(Request {
            instr: lookup.instr,
            pc: lookup.by,
            address,
            size: lookup.access.size,
            at: lookup.at,
        }),
        Address::Symbolic(_) => None,
    }
}

impl Late {
    /// What made such an answer late.
    #[inline]
    #[must_use]
    pub fn of(answer: &Answer) -> Self {
        if answer.late == 0 {
            Self::No
        } else if 2 * answer.translation > answer.late {
            Self::Translation
        } else {
            Self::From(answer.from)
        }
    }
}

impl Remember for Lines {
    fn resume(&mut self, warm: &mut Warm) {
        let Self { memory } = self;
        if let Some(warm) = warm.memory.take() {
            *memory = Some(warm);
        }
    }
}

impl Part for Lines {
    fn fold(&mut self, folding: &mut Folding) {
        if let Some(memory) = &mut self.memory {
            memory.fold(folding);
        }
    }

    /// Only blocks are brought to rest, and they have no caches.
    fn reset(&mut self, _: &Moment) {
        let Self { memory } = self;
        *memory = None;
    }

    /// Only blocks are compared.
    fn fingerprint(&self, _: &Moment, _: &mut Fingerprint) {
        let Self { memory: _ } = self;
    }
}
