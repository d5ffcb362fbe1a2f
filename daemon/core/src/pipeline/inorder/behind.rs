//! What lies behind loads, stores and fetches of an in-order core: the caches of [`crate::memory`], asked when
//! an instruction issues.
//!
//! A load's value comes later by what it misses; who needs it waits, and everything behind. Where as many lines as
//! there are buffers are on their way, a load that misses waits for one, and everything behind it. Stores leave in
//! order, one a cycle at most, each when its line is there; a store issues when it has an entry of the
//! store buffer, which it keeps until then. Of a repeated string instruction the accesses that are listed ask, the
//! first ones.

use super::slots::Cause;
use super::{Around, Executed, Missed};
use crate::memory::{Answer, Level, Memory, Request};
use crate::pipeline::access::{Access, Address};

/// Accesses of the instructions that have not issued yet: of one that is held and of the next, each no
/// more than 64.
const ASKED: usize = 256;

/// Accesses of an instruction in [`Queue`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Count of the first one.
    first: u32,
    /// Loads, and behind them stores.
    loads: u8,
    stores: u8,
}

/// Accesses on their way to memory.
#[derive(Debug)]
pub struct Queue {
    asked: Box<[(u64, u16); ASKED]>,
    count: u32,
    /// When each entry of the store buffer is free again, in turns.
    stores: Box<[u64]>,
    next_store: usize,
    /// When the last store left.
    left: u64,
}

impl Queue {
    /// Nothing is on its way; so many stores may be.
    #[must_use]
    pub fn new(store_buffer: u32) -> Self {
        Self {
            asked: Box::new([(0, 0); ASKED]),
            count: 0,
            stores: vec![0; store_buffer.max(1) as usize].into(),
            next_store: 0,
            left: 0,
        }
    }

    /// Takes the accesses of the next instruction, its loads first.
    #[inline]
    pub fn ask(&mut self, accesses: &[Access], loads: u8, stores: u8) -> Asked {
        let first = self.count;
        for access in accesses {
            if let Address::Known(address) = access.address {
                self.asked[self.count as usize % ASKED] = (address, access.size);
            }
            self.count = self.count.wrapping_add(1);
        }
        Asked {
            first,
            loads,
            stores,
        }
    }
}

/// Memory, and what is on its way there.
pub struct Behind<'a> {
    /// Memory.
    pub memory: &'a mut Memory,
    /// What is on its way.
    pub queue: &'a mut Queue,
}

impl Behind<'_> {
    fn request(&self, executed: &Executed, n: u32, at: u64) -> Request {
        let place = executed.asked.first.wrapping_add(n) as usize % ASKED;
        let (address, size) = self.queue.asked[place];
        Request {
            instr: executed.instr,
            pc: executed.address,
            address,
            size,
            at,
        }
    }

    #[inline(never)]
    fn store(&mut self, request: Request) {
        let at = request.at;
        let answer = self.memory.store(request);
        let queue = &mut *self.queue;
        queue.left = (queue.left + 1).max(at + answer.late);
        queue.stores[queue.next_store] = queue.left;
        queue.next_store = (queue.next_store + 1) % queue.stores.len();
    }
}

/// What to hold responsible for waiting for a load.
fn cause(answer: &Answer) -> Cause {
    if 2 * answer.translation > answer.late {
        Cause::Translation
    } else {
        match answer.from {
            Level::L1 => Cause::Load,
            Level::L2 => Cause::SecondLevel,
            Level::L3 => Cause::ThirdLevel,
            Level::Dram => Cause::Memory,
        }
    }
}

impl Around for Behind<'_> {
    #[inline]
    fn fetch(&mut self, address: u64, at: u64) -> u64 {
        self.memory.fetch(address, at).late
    }

    #[inline]
    fn room(&mut self, executed: &Executed) -> u64 {
        match executed.asked.stores {
            0 => 0,
            _ => self.queue.stores[self.queue.next_store],
        }
    }

    #[inline]
    fn access(&mut self, executed: &Executed, at: u64) -> Missed {
        let Asked { loads, stores, .. } = executed.asked;
        let mut latest = Missed::default();
        for n in 0..u32::from(loads) {
            let request = self.request(executed, n, at);
            let hit =
                (self.memory).hits_at_once((request.pc, request.address), request.size, at, false);
            if !hit {
                let buffer = self.memory.buffer_is_free(at);
                let answer = self.memory.load_beyond(request);
                let short = |cycles: u64| cycles.min(u64::from(u32::MAX)) as u32;
                if answer.from != Level::L1 {
                    latest.held = latest.held.max(short(buffer - at));
                }
                if answer.late > u64::from(latest.late) {
                    latest.late = short(answer.late);
                    latest.cause = cause(&answer);
                }
            }
        }
        for n in u32::from(loads)..u32::from(loads) + u32::from(stores) {
            let request = self.request(executed, n, at);
            self.store(request);
        }
        latest
    }
}
