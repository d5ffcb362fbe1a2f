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
        ("front end", sum(&[s.frontend, s.icache])),
        (
            "memory",
            sum(&[
                s.l1,
                s.l2,
                s.l3,
                s.dram,
                s.translation,
                s.stores,
                s.faults,
                s.load_use,
            ]),
        ),
        (
            "core",
            sum(&[
                s.dependencies,
                s.latency,
                s.ports,
                s.divider,
                s.pairing,
                s.serialization,
                s.write_back,
            ]),
        ),
        ("other", s.other),
    ]
}

/// Of a piece of code.
pub(crate) fn of(slots: &SlotStack) -> Verdict {
    verdict(kinds(slots), slots.sum())
}

/// Of a whole program on a CPU, for people. Where what is not modelled may bound it that is not known;
/// an in-order core, which has one cause for every lost slot, then says which is the largest of those that
/// it has.
pub(crate) fn of_cpu(cpu: &CpuReport) -> String {
    let verdict = of_program(&cpu.topdown).text();
    if cpu.doubts.is_empty() || verdict.is_empty() {
        return verdict;
    }
    let cause = cpu.slots.as_ref().filter(|_| cpu.in_order);
    match cause.and_then(largest_loss).map(Verdict::text) {
        Some(cause) => format!("not known; of what is modelled {cause}"),
        None => "not known".to_owned(),
    }
}

/// The cause that most slots are lost for.
fn largest_loss(s: &SlotStack) -> Option<Verdict> {
    let lost = s.ranked().into_iter().find(|(part, _)| *part != "retiring");
    lost.map(|(part, slots)| Verdict {
        part,
        share: 100.0 * slots as f64 / s.sum().max(1) as f64,
    })
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
            load_use: 1,
            icache: 1,
            pairing: 1,
            serialization: 1,
            write_back: 1,
            other: 14,
        };
        let sum: u64 = kinds(&slots).iter().map(|(_, slots)| slots).sum();
        assert_eq!(sum, slots.sum());
        assert_eq!(of(&slots).text(), "memory 38 %");
        let busy = SlotStack {
            retiring: 900,
            ..slots
        };
        assert_eq!(of(&busy).part, "retiring");
        assert_eq!(of(&SlotStack::default()).text(), "");
        assert_eq!(largest_loss(&busy).unwrap().text(), "other 1 %");
        assert_eq!(largest_loss(&SlotStack::default()), None);
    }
}
