//! What a load that no store serves asks: where its line is, and how late that makes it.
//!
//! [`Lines`] is what one thread has for itself, [`SharedLines`] what all threads of a session have
//! together; that one belongs to the simulation, which lends it to the thread at work
//! ([`super::Memory::lend`]). Caches, translation and what is in flight between them belong here. As
//! long as none is modelled, every line is in the first level.

use crate::pipeline::access::Access;
use crate::pipeline::state::{Fingerprint, Moment, Part};

/// A load that asks for its line.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    /// What it loads; only known addresses mean something here.
    pub access: Access,
    /// Address of the instruction, for who learns patterns.
    pub by: u64,
    /// Cycle in which it was sent.
    pub at: u64,
}

/// Lines that threads share.
#[derive(Debug, Default)]
pub struct SharedLines {}

/// Lines of one thread.
#[derive(Debug, Default)]
pub struct Lines {}

impl Lines {
    /// Cycles by which the load's data comes later than from the first level of cache.
    #[inline]
    pub fn load(&mut self, _: &mut SharedLines, _: &Lookup) -> u64 {
        0
    }
}

impl Part for Lines {
    fn reset(&mut self, _: &Moment) {
        let Self {} = self;
    }

    fn fingerprint(&self, _: &Moment, _: &mut Fingerprint) {
        let Self {} = self;
    }
}
