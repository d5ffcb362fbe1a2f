//! What bounds a program, a function or a block, in a word: what most of its lost issue slots went
//! to. Code that loses few is bound by the width of issue.

use mcad_report::{CpuReport, SlotStack, TopDown};

/// Code that issues in so many slots of a hundred is bound by nothing else.
const RETIRING: f64 = 60.0;

/// What bounds a piece of code, and its share of the slots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// The part, for people.
    pub(crate) part: &'static str,
    /// Slots of a hundred.
    pub(crate) share: f64,
}

impl Verdict {
    /// `memory 81 %`.
    pub(crate) fn text(self) -> String {
        match self.part {
            "" => String::new(),
            part => format!("{part} {:.0} %", self.share),
        }
    }
}

/// The kinds of top-down, with their slots.
pub(crate) fn kinds(s: &SlotStack) -> [(&'static str, u64); 6] {
    let sum = |slots: &[u64]| slots.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
    [
        ("retiring", s.retiring),
        ("bad speculation", s.bad_speculation),
        ("front end", s.frontend),
        (
            "memory",
            sum(&[s.l1, s.l2, s.l3, s.dram, s.translation, s.stores, s.faults]),
        ),
        (
            "core",
            sum(&[s.dependencies, s.latency, s.ports, s.divider]),
        ),
        ("other", s.other),
    ]
}

/// Of a piece of code.
pub(crate) fn of(slots: &SlotStack) -> Verdict {
    verdict(kinds(slots), slots.sum())
}

/// Of a whole program on a CPU, for people: nothing where what is not modelled may bound it.
pub(crate) fn of_cpu(cpu: &CpuReport) -> String {
    let verdict = of_program(&cpu.topdown).text();
    match cpu.doubts.is_empty() || verdict.is_empty() {
        true => verdict,
        false => "not known".to_owned(),
    }
}

/// Of a whole program.
pub(crate) fn of_program(t: &TopDown) -> Verdict {
    verdict(kinds_of_program(t), t.slots)
}

/// The kinds of top-down of a whole program, with their slots.
pub(crate) fn kinds_of_program(t: &TopDown) -> [(&'static str, u64); 6] {
    [
        ("retiring", t.retiring),
        ("bad speculation", t.bad_speculation),
        ("front end", t.frontend),
        ("memory", t.backend_memory),
        ("core", t.backend_core),
        ("other", t.other),
    ]
}

fn verdict([retiring, lost @ ..]: [(&'static str, u64); 6], all: u64) -> Verdict {
    let share = |slots: u64| 100.0 * slots as f64 / all.max(1) as f64;
    if all == 0 {
        return Verdict {
            part: "",
            share: 0.0,
        };
    }
    // Of equal ones the first.
    let most = lost.iter().rev().max_by_key(|(_, slots)| *slots);
    match most {
        Some((part, slots)) if share(retiring.1) < RETIRING && *slots > 0 => Verdict {
            part,
            share: share(*slots),
        },
        _ => Verdict {
            part: retiring.0,
            share: share(retiring.1),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_all_slots_and_the_largest_loss_is_the_verdict() {
        let slots = SlotStack {
            retiring: 40,
            bad_speculation: 2,
            frontend: 3,
            l1: 1,
            l2: 8,
            l3: 9,
            dram: 10,
            translation: 11,
            stores: 9,
            faults: 3,
            dependencies: 4,
            latency: 5,
            ports: 6,
            divider: 7,
            other: 14,
        };
        let sum: u64 = kinds(&slots).iter().map(|(_, slots)| slots).sum();
        assert_eq!(sum, slots.sum());
        assert_eq!(of(&slots).text(), "memory 39 %");
        let busy = SlotStack {
            retiring: 900,
            ..slots
        };
        assert_eq!(of(&busy).part, "retiring");
        assert_eq!(of(&SlotStack::default()).text(), "");
    }
}
