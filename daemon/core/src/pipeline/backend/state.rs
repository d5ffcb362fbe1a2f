//! What the back end's future depends on, and how it is brought to rest.

use super::Backend;
use super::moves::Moves;
use super::schedule::Constraints;
use super::topdown::SlotCount;
use crate::pipeline::state::Fingerprint;
use mcad_isa::regs::RegId;

impl Backend {
    /// Empties the back end.
    pub fn reset(&mut self) {
        self.ports.reset(self.retirement.last());
        self.retirement.reset();
        self.stores.reset();
        self.store_buffer.reset();
        self.moves = Moves::new(&self.rename);
        self.constraints = Constraints::default();
        self.cycle = 0;
        self.slots = 0;
        self.closed = true;
        self.blocked_until = 0;
        self.ready = [0; RegId::COUNT];
        self.chase = [0; RegId::COUNT];
        self.added = [0; 16];
        self.late_flags = 0;
        self.renamed_at = [0; 2];
        self.high8_dirty = 0;
        self.deferred.clear();
        self.idq.reset();
        self.slot_count = SlotCount::default();
        self.first_retired = 0;
        self.last_retired = (0, 0);
    }

    /// Adds what later µops depend on; the front end is at `clock`.
    pub fn fingerprint(&self, clock: u64, h: &mut Fingerprint) {
        let now = self.cycle;
        h.add(
            u64::from(self.late_flags == now) << 40
                | u64::from(self.slots) << 9
                | u64::from(self.closed) << 8
                | u64::from(self.high8_dirty),
        );
        h.add_future(self.blocked_until, now);
        for (n, ready) in self.ready.iter().enumerate() {
            if *ready > now {
                h.add((ready - now) << 8 | n as u64);
            }
        }
        let (eights, _) = self.chase.as_chunks();
        for eight in eights {
            h.add(u64::from_le_bytes(*eight));
        }
        if self.rename.add_immediate_range > 0 {
            for added in &self.added {
                h.add(*added as u64);
            }
        }
        // Issue cycles are not before the clock, which may be ahead of the last issue.
        let waiting = self.idq.iter().filter(|issue| **issue > clock);
        h.add_distances(waiting.map(|issue| issue - clock));
        let waiting = self.retirement.fingerprint(now, h);
        self.ports.fingerprint(self.retirement.last(), h);
        self.stores.fingerprint(now, waiting, h);
        self.store_buffer.fingerprint(now, h);
        self.constraints.fingerprint(now, h);
        self.moves.fingerprint(h);
    }
}
