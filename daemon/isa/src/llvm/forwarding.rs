//! Results that some operands can take sooner than others (LLVM's ReadAdvance): an accumulator that
//! is forwarded within its unit, an address that is needed late.
//!
//! An operand's advance depends on the kind of result that it reads. Kinds that no operand tells
//! apart are one here, so a byte says of a register all that readers ask. A result cannot be taken
//! before its instruction issues (`lib/MCA/Instruction.cpp` cuts what is left of a latency at 0), so
//! results of short latency are kinds of their own.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::wire::{Class, Cpu};

/// What an operand says of kinds of results: LLVM's kind (0: any) and the cycles of its advance; the
/// first that fits counts.
type Said = Vec<(u16, i16)>;

/// The kinds of results of a CPU, and what operands say of them.
#[derive(Clone, Debug, Default)]
pub struct Forwarding {
    /// Number of LLVM's kind at a latency; what is not here is kind 0, which has no advance.
    numbers: FxHashMap<(u16, i16), u8>,
    /// By what operands say, the kinds that are there at another time, with the cycles by which
    /// they are sooner.
    sooner: BTreeMap<Said, Vec<(u8, i8)>>,
}

impl Forwarding {
    /// Of a CPU.
    ///
    /// # Errors
    /// A text when it has more kinds than there are numbers.
    pub fn new(cpu: &Cpu) -> Result<Self, String> {
        let mut sooner: BTreeMap<Said, Vec<(u8, i8)>> = BTreeMap::new();
        let mut results: Vec<(u16, i16)> = Vec::new();
        for class in &cpu.classes {
            for (index, ..) in &class.advances {
                sooner.entry(said(class, *index)).or_default();
            }
            for &(latency, kind) in &class.latencies {
                // A result that the class does not list has no kind and its longest latency.
                results.extend([(kind, latency), (0, latency)]);
            }
        }
        results.sort_unstable();
        results.dedup();
        let mut alike: BTreeMap<Vec<i8>, u8> = BTreeMap::new();
        let mut numbers = FxHashMap::default();
        for (kind, latency) in results {
            let of = |said: &Said| {
                let found = said.iter().find(|(of, _)| *of == 0 || *of == kind);
                let cycles = found.map_or(0, |(_, cycles)| (*cycles).min(latency.max(0)));
                cycles.clamp(i8::MIN.into(), i8::MAX.into()) as i8
            };
            let all: Vec<i8> = sooner.keys().map(of).collect();
            if all.iter().all(|cycles| *cycles == 0) {
                continue;
            }
            let next = u8::try_from(alike.len() + 1)
                .map_err(|_| format!("{} has more than 255 kinds of results", cpu.name))?;
            let number = *alike.entry(all.clone()).or_insert(next);
            numbers.insert((kind, latency), number);
            if number == next {
                for (kinds, cycles) in sooner.values_mut().zip(all) {
                    if cycles != 0 {
                        kinds.push((number, cycles));
                    }
                }
            }
        }
        Ok(Self { numbers, sooner })
    }

    /// The number of a result's kind.
    #[must_use]
    pub fn kind(&self, kind: u16, latency: i16) -> u8 {
        self.numbers.get(&(kind, latency)).copied().unwrap_or(0)
    }

    /// Kinds that an operand can take at another time, with the cycles by which they are sooner.
    #[must_use]
    pub fn advances(&self, class: &Class, index: u8) -> &[(u8, i8)] {
        let said = said(class, index.into());
        self.sooner.get(&said).map_or(&[], Vec::as_slice)
    }
}

/// What an operand of a class says.
fn said(class: &Class, index: u16) -> Said {
    let mine = class.advances.iter().filter(|(of, ..)| *of == index);
    mine.map(|&(_, kind, cycles)| (kind, cycles)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;
    use mcad_proto::event::Arch;

    #[test]
    fn a_result_is_not_there_before_it_is_begun() {
        // Results of kind 7 at latencies 4 and 1; an operand takes them 3 cycles sooner.
        let class = |latency, advances: &[(u16, u16, i16)]| Class {
            latencies: vec![(latency, 7)],
            advances: advances.into(),
            ..Class::default()
        };
        let reader = class(4, &[(2, 7, 3)]);
        let cpu = Cpu {
            classes: vec![reader.clone(), class(1, &[])],
            ..Cpu::default()
        };
        let forwarding = Forwarding::new(&cpu).unwrap();
        let (long, short) = (forwarding.kind(7, 4), forwarding.kind(7, 1));
        let mut advances = forwarding.advances(&reader, 2).to_vec();
        advances.sort_by_key(|(_, cycles)| *cycles);
        assert_eq!(advances, [(short, 1), (long, 3)]);
        assert!(forwarding.advances(&reader, 1).is_empty());
        assert_eq!(forwarding.kind(8, 4), 0);
    }

    #[test]
    fn every_cpus_kinds_have_numbers() {
        for arch in [Arch::AArch64, Arch::RiscV64] {
            for cpu in &table::of(arch).unwrap().unwrap().file.cpus {
                let forwarding = Forwarding::new(cpu);
                assert!(forwarding.is_ok(), "{}: {forwarding:?}", cpu.name);
            }
        }
    }
}
