//! The store buffer: stores wait in it until they have retired and memory is free.
//!
//! It drains in order, one entry a cycle, into a memory of banks, in a cycle in which no access
//! reads the same bank. A store is held at issue when the entries that are taken, with one for
//! each access on its way to memory, leave too few. Source: `lsu_stbuf.sv` and `lsu_dccm_ctl.sv`
//! of VeeR EH1.

use std::collections::VecDeque;

use mcad_isa::machine::inorder::StoreBuffer as Params;

/// State of a store buffer.
#[derive(Clone, Debug)]
pub struct StoreBuffer {
    p: Params,
    /// Stores that have not drained: cycle of issue and bank, in order.
    stores: VecDeque<(u64, u32)>,
    /// Reads of memory: cycle and bank, in order.
    reads: VecDeque<(u64, u32)>,
    /// Accesses by cycle of issue, the last ones.
    accesses: VecDeque<u64>,
    /// Next cycle in which it may drain.
    drained: u64,
}

impl StoreBuffer {
    /// An empty buffer.
    #[must_use]
    pub fn new(p: &Params) -> Self {
        Self {
            p: p.clone(),
            stores: VecDeque::new(),
            reads: VecDeque::new(),
            accesses: VecDeque::new(),
            drained: 0,
        }
    }

    /// Empties it.
    pub fn reset(&mut self) {
        self.stores.clear();
        self.reads.clear();
        self.accesses.clear();
        self.drained = 0;
    }

    fn bank(&self, address: u64) -> u32 {
        (address / u64::from(self.p.bank_bytes)) as u32 & (self.p.banks - 1)
    }

    /// The first cycle from `cycle` on in which a store may issue.
    pub fn room(&mut self, cycle: u64) -> u64 {
        let mut at = cycle;
        // Each round either ends or moves on by a cycle in which the buffer can only drain.
        for _ in 0..64 * u64::from(self.p.entries) {
            self.drain(at);
            let enter = u64::from(self.p.enter);
            let inside = self.stores.iter().filter(|s| s.0 + enter <= at).count();
            let on_way = self
                .accesses
                .iter()
                .filter(|&&a| a + enter > at && a < at)
                .count();
            if inside + on_way <= (self.p.entries - self.p.reserve) as usize {
                break;
            }
            at += 1;
        }
        at
    }

    /// Lets entries go whose place is free again in `cycle`.
    fn drain(&mut self, cycle: u64) {
        while let Some(&(issued, bank)) = self.stores.front() {
            let mut at = (issued + u64::from(self.p.drain)).max(self.drained);
            while self.reads.front().is_some_and(|r| r.0 < at) {
                self.reads.pop_front();
            }
            for read in &self.reads {
                if read.0 > at {
                    break;
                }
                if *read == (at, bank) {
                    at += 1;
                }
            }
            // Only cycles before this one are decided.
            if at >= cycle {
                return;
            }
            self.stores.pop_front();
            self.drained = at + 1;
        }
    }

    /// An access issues.
    pub fn access(&mut self, cycle: u64, address: u64, size: u32, store: bool) {
        let bank = self.bank(address);
        let words = u64::from(self.p.bank_bytes);
        if !store || u64::from(size) < words || !address.is_multiple_of(words) {
            let last = self.bank(address.wrapping_add(u64::from(size.max(1)) - 1));
            let at = cycle + u64::from(self.p.read);
            self.reads.push_back((at, bank));
            if last != bank {
                self.reads.push_back((at, last));
            }
        }
        self.accesses.push_back(cycle);
        while self
            .accesses
            .front()
            .is_some_and(|&a| a + u64::from(self.p.enter) < cycle)
        {
            self.accesses.pop_front();
        }
        if store {
            self.stores.push_back((cycle, bank));
        }
        // What is long past cannot matter; without stores nobody else looks.
        self.drain(cycle);
        if self.stores.is_empty() {
            while self.reads.front().is_some_and(|r| r.0 < cycle) {
                self.reads.pop_front();
            }
        }
    }
}
