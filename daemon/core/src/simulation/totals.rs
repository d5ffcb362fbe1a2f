//! What a pipeline counts, as sums over threads and intervals of threads.

use crate::memory::counts::Counts;
use crate::pipeline::Pipeline;
use crate::pipeline::observer::Observer;
use mcad_isa::machine::params::MAX_PORTS;
use mcad_report::TopDown;

/// What a pipeline counts, and a model sums over its threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Cycles until the last retirement.
    pub cycles: u64,
    /// Slots.
    pub topdown: TopDown,
    /// Fused µops.
    pub uops: u64,
    /// µops by port.
    pub port_uops: [u64; MAX_PORTS],
    /// What loads, stores and fetches found.
    pub memory: Counts,
    /// Dispatches cut to the window of the port calendar.
    pub clamped: u64,
}

impl Totals {
    pub(super) fn of<O: Observer>(pipeline: &Pipeline<O>) -> Self {
        Self {
            cycles: pipeline.cycles(),
            topdown: pipeline.topdown(),
            uops: pipeline.uops(),
            port_uops: pipeline.port_uops(),
            memory: pipeline.found(),
            clamped: pipeline.clamped(),
        }
    }

    /// Adds what was counted from `begin` to `end`. Slots that were empty when the interval began
    /// may have been counted by the one before, so that a single count, not a sum, may be
    /// negative; it wraps, and the sum is right.
    pub(super) fn add(&mut self, begin: &Self, end: &Self) {
        let add = |sum: &mut u64, begin: u64, end: u64| {
            *sum = sum.wrapping_add(end).wrapping_sub(begin);
        };
        add(&mut self.cycles, begin.cycles, end.cycles);
        add(&mut self.uops, begin.uops, end.uops);
        add(&mut self.clamped, begin.clamped, end.clamped);
        let ports = begin.port_uops.iter().zip(&end.port_uops);
        for (sum, (begin, end)) in self.port_uops.iter_mut().zip(ports) {
            add(sum, *begin, *end);
        }
        self.memory.add_between(&begin.memory, &end.memory);
        let (t, b, e) = (&mut self.topdown, &begin.topdown, &end.topdown);
        add(&mut t.slots, b.slots, e.slots);
        add(&mut t.retiring, b.retiring, e.retiring);
        add(&mut t.bad_speculation, b.bad_speculation, e.bad_speculation);
        add(&mut t.frontend, b.frontend, e.frontend);
        add(&mut t.backend_memory, b.backend_memory, e.backend_memory);
        let (m, b, e) = (&mut t.memory_levels, &b.memory_levels, &e.memory_levels);
        add(&mut m.l1, b.l1, e.l1);
        add(&mut m.l2, b.l2, e.l2);
        add(&mut m.l3, b.l3, e.l3);
        add(&mut m.dram, b.dram, e.dram);
        add(&mut m.translation, b.translation, e.translation);
        add(&mut m.stores, b.stores, e.stores);
        add(&mut m.faults, b.faults, e.faults);
        let (b, e) = (&begin.topdown, &end.topdown);
        add(&mut t.backend_core, b.backend_core, e.backend_core);
        add(&mut t.other, b.other, e.other);
    }
}
