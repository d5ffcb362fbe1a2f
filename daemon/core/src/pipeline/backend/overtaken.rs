//! Older loads and stores that younger ones start ahead of.
//!
//! On Zen 4 a µop that waits for nothing and whose address is anything but a register and a displacement (by the stack
//! pointer, by the instruction's own address, with an index) has its address unit for itself in the first cycle in which it may start.
//! One whose address is a register and a displacement, and that was waiting for that register, starts a cycle later for it, however old it
//! is (docs/ZEN4.md, "Address units").
//!
//! What issues in time to be in its way is not known when an older µop is scheduled. So it is taken to be what issued in the
//! [`WINDOW`] cycles before, and a µop is late as often as those would have made it, on average. Which unit
//! they are given is the emptiest one's, seldom that of a µop that waits: see [`MEETS`].

use super::ports::Ports;
use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{Core, PortSet};
use mcad_isa::program::{FIRST_INPUTS, Uop};
use mcad_isa::regs::RegId;

/// Issue cycles that are looked back on.
const WINDOW: u32 = u64::BITS;

/// Of six older µops, how many more are met in a cycle with a first, a second and a third younger one: one of six loads
/// that follow each other met a single one, two two, all of them three (docs/ZEN4.md).
const MEETS: [u32; 3] = [1, 1, 4];

/// Sixths of cycles of the window.
const WHOLE: u32 = 6 * WINDOW;

/// Most cycles that one µop is late.
const MOST: u64 = 4;

/// Words of 64 cycles behind the issue cycle in which µops may be late.
const LEFT_WORDS: usize = 8;

/// Who is late for others.
pub struct Overtaken {
    /// [`PortLayout::overtaken`](mcad_isa::machine::params::PortLayout::overtaken).
    on: PortSet,
    /// The cycle of the last µop that issued here.
    cycle: u64,
    /// One bit for an issue cycle, the youngest lowest: whether one µop issued in it that has a unit for itself, a second,
    /// and a third.
    issued: [u64; MEETS.len()],
    /// By port, up to the last one.
    units: Box<[Unit]>,
}

/// One address unit.
#[derive(Clone, Copy, Default, PartialEq)]
struct Unit {
    /// Cycles that older µops leave to younger ones, one bit each, in a ring of words.
    left: [u64; LEFT_WORDS],
    /// Parts of a cycle, [`WHOLE`] to one, that µops should have been late and were not yet.
    owed: u32,
}

impl Overtaken {
    /// Nothing has issued.
    #[must_use]
    pub fn new(core: &Core) -> Self {
        let units = core.ports.overtaken.iter().last();
        let units = units.map_or(0, |last| usize::from(last) + 1);
        Self {
            on: core.ports.overtaken,
            cycle: 0,
            issued: [0; MEETS.len()],
            units: vec![Unit::default(); units].into(),
        }
    }

    /// A load or store's address issues that is to start on `port` from `ready` on, and could have from `first` on if it waited for
    /// nothing; returns from when on it may.
    #[inline(always)]
    pub fn start(
        &mut self,
        ports: &Ports,
        (uop, port): (&Uop, u8),
        (issued, first, ready): (u64, u64, u64),
    ) -> u64 {
        if !self.on.has(port) {
            return ready;
        }
        match (is_by_register(&uop.first_inputs), ready > first) {
            (true, true) => self.late(ports, port, issued, ready),
            (false, false) => {
                self.pass_to(issued);
                let mut others = self
                    .issued
                    .iter_mut()
                    .skip_while(|cycles| **cycles & 1 != 0);
                if let Some(cycles) = others.next() {
                    *cycles |= 1;
                }
                ready
            }
            _ => ready,
        }
    }

    #[inline(always)]
    fn pass_to(&mut self, issued: u64) {
        if issued != self.cycle {
            self.pass(issued);
        }
    }

    #[inline(never)]
    fn pass(&mut self, issued: u64) {
        let passed = u32::try_from(issued - self.cycle).unwrap_or(WINDOW);
        for cycles in &mut self.issued {
            *cycles = cycles.checked_shl(passed).unwrap_or(0);
        }
        let (from, to) = (self.cycle / 64, issued / 64);
        for word in from..to.min(from + LEFT_WORDS as u64) {
            for unit in &mut *self.units {
                unit.left[word as usize % LEFT_WORDS] = 0;
            }
        }
        self.cycle = issued;
    }

    #[inline(never)]
    fn late(&mut self, ports: &Ports, port: u8, issued: u64, ready: u64) -> u64 {
        self.pass_to(issued);
        let often = (self.issued.iter().zip(MEETS)).map(|(cycles, n)| n * cycles.count_ones());
        let often = often.sum();
        match self.units.get_mut(usize::from(port)) {
            Some(unit) => unit.late(often, (issued, ready), |at| ports.first_free(port, at)),
            None => ready,
        }
    }
}

impl Unit {
    /// When a µop starts that could from `ready` on, of which `often` of [`WHOLE`] are met, and which finds its unit free in the first
    /// cycle that `free` says.
    fn late(&mut self, often: u32, (issued, ready): (u64, u64), free: impl Fn(u64) -> u64) -> u64 {
        let end = issued / 64 + LEFT_WORDS as u64;
        let mut late = 0;
        let mut at = free(ready);
        self.owed += often;
        // What is too far away is not followed.
        while at / 64 < end {
            let left = &mut self.left[(at / 64) as usize % LEFT_WORDS];
            if *left >> (at & 63) & 1 == 0 {
                if self.owed < WHOLE || late == MOST {
                    break;
                }
                // The next cycle may be another's, too.
                self.owed = self.owed - WHOLE + often;
                late += 1;
                *left |= 1 << (at & 63);
            }
            at = free(at + 1);
        }
        self.owed = self.owed.min(WHOLE);
        at
    }
}

/// Whether an address is made of one register, which is not the stack pointer.
#[inline(always)]
fn is_by_register(inputs: &[RegId; FIRST_INPUTS]) -> bool {
    let [first, second, ..] = *inputs;
    first.is_gpr() && first != RegId::RSP && second == RegId::NONE
}

impl Part for Overtaken {
    fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.units, Unit::default());
    }

    fn reset(&mut self, _: &Moment) {
        let Self {
            on: _,
            cycle,
            issued,
            units,
        } = self;
        *cycle = 0;
        issued.fill(0);
        units.fill(Unit::default());
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            on,
            cycle,
            issued,
            units,
        } = self;
        if on.is_empty() {
            return;
        }
        let passed = u32::try_from(at.issue.saturating_sub(*cycle)).unwrap_or(WINDOW);
        for cycles in issued {
            h.add(cycles.checked_shl(passed).unwrap_or(0));
        }
        let now = at.issue.max(*cycle);
        let end = *cycle / 64 + LEFT_WORDS as u64;
        for unit in &**units {
            h.add(unit.owed.into());
            for at in now / 64..end {
                let past = if at == now / 64 { now & 63 } else { 0 };
                let left = unit.left[at as usize % LEFT_WORDS] >> past << past;
                if left != 0 {
                    h.add(at * 64 + u64::from(left.trailing_zeros()) - now);
                    h.add(left.rotate_right(now as u32 & 63));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is met once in four cycles is late by 1/4 + 1/16 + … = 1/3 of a cycle.
    #[test]
    fn on_average_as_late_as_units_are_taken() {
        let mut unit = Unit::default();
        let late = |n: u64| {
            let (issued, ready) = (10 * n, 10 * n + 20);
            // Passed by.
            unit.left[(issued / 64 + 7) as usize % LEFT_WORDS] = 0;
            unit.late(WHOLE / 4, (issued, ready), |at| at) - ready
        };
        let all: u64 = (0..3000).map(late).sum();
        assert!(all.abs_diff(1000) <= 1, "{all}");
    }

    /// The cycle that one leaves is not taken by the one behind it, and that of neither by a third.
    #[test]
    fn what_one_leaves_others_leave() {
        let mut unit = Unit {
            owed: WHOLE,
            ..Unit::default()
        };
        let taken = std::cell::RefCell::new(vec![]);
        let free = |at: u64| (at..).find(|at| !taken.borrow().contains(at)).unwrap();
        for expected in [71, 72, 73] {
            let at = unit.late(0, (60, 70), free);
            assert_eq!(at, expected);
            taken.borrow_mut().push(at);
        }
        assert_eq!(unit.late(0, (60, 40), free), 40);
    }

    #[test]
    fn addresses_of_one_register_wait() {
        let of = |inputs: &[RegId]| {
            is_by_register(&std::array::from_fn(|n| {
                inputs.get(n).copied().unwrap_or(RegId::NONE)
            }))
        };
        assert!(of(&[RegId::RBP]));
        for inputs in [&[][..], &[RegId::RSP], &[RegId::RBP, RegId::RSP]] {
            assert!(!of(inputs));
        }
    }
}
