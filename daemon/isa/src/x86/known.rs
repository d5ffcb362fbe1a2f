//! Instructions that were made before: what follows from a [`Pattern`] is found once for all
//! instructions that have it, in all blocks of a batch or of a program.
//!
//! Of the place of an instruction matters whether its block has 512-bit operations (part of the key),
//! and what fusion makes of it and its neighbours ([`Fused`]: the few ways in which one can be made).
//! The builder fills in what depends on constants and addresses. Instructions that the table lacks are
//! told apart by all their bytes, since all sorts of things are asked about them. What is kept is
//! bounded, and forgotten all at once.

use std::sync::Arc;

use iced_x86::InstructionInfoFactory;
use rustc_hash::FxHashMap;

use super::build::{Common, Decoded};
use super::facts::Facts;
use super::figures::{Prepared, prepare};
use super::fusion::Fused;
use super::pattern::Pattern;
use crate::machine::CpuModel;
use crate::program::piece::Piece;

/// Instructions that are kept at most when a block begins; each takes one or two KiB.
const MOST: usize = 8192;
/// Ways in which one of them is kept at most.
const MOST_WAYS: usize = 8;

/// An instruction as part of a program, in one of its ways.
pub(super) struct Made {
    /// What a program gets.
    pub(super) piece: Piece,
    /// [`Prepared::addressed`].
    pub(super) addressed: u128,
    /// What it is, but for its constants.
    pub(super) facts: Facts,
    /// What else was found out.
    pub(super) common: Arc<Common>,
}

/// How an instruction was made: how it is fused, and with which operation if it is with one.
type Way = (Fused, Option<u32>);

/// All of one instruction.
struct Entry {
    prepared: Prepared,
    made: Vec<(Way, Made)>,
}

/// The instructions of one CPU model.
pub(super) struct Known {
    factory: InstructionInfoFactory,
    /// Places in `entries`, by pattern and whether there are 512-bit operations beside.
    places: FxHashMap<(Pattern, bool), u32>,
    entries: Vec<Entry>,
    /// The instructions of the current block.
    block: Vec<u32>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            factory: InstructionInfoFactory::new(),
            places: FxHashMap::default(),
            entries: Vec::new(),
            block: Vec::new(),
        }
    }
}

impl Known {
    /// Begins a block, which has 512-bit operations if `zmm`.
    pub(super) fn prepare(&mut self, model: &CpuModel, block: &[Decoded], zmm: bool) {
        if self.entries.len() >= MOST {
            self.places.clear();
            self.entries.clear();
        }
        self.block.clear();
        for decoded in block {
            let place = self.place(model, decoded, (decoded.pattern, zmm));
            let lacks = |place: u32| self.entries[place as usize].prepared.form.is_none();
            let place = match lacks(place) {
                true => self.place(model, decoded, (Pattern::exact(&decoded.bytes), zmm)),
                false => place,
            };
            self.block.push(place);
        }
    }

    /// Where an instruction of this pattern is, with its figures.
    fn place(&mut self, model: &CpuModel, decoded: &Decoded, key: (Pattern, bool)) -> u32 {
        let (entries, factory) = (&mut self.entries, &mut self.factory);
        *self.places.entry(key).or_insert_with(|| {
            entries.push(Entry {
                prepared: prepare(model, factory, decoded, key.1),
                made: Vec::new(),
            });
            entries.len() as u32 - 1
        })
    }

    /// The figures of the block's n-th instruction.
    #[inline]
    pub(super) fn prepared(&self, n: usize) -> &Prepared {
        &self.entries[self.block[n] as usize].prepared
    }

    /// The block's n-th instruction, which is fused like this; `make` makes it, given its figures and
    /// those of the operation that it is fused with, where it was not made before.
    pub(super) fn made(
        &mut self,
        n: usize,
        fused: Fused,
        make: impl FnOnce(&Prepared, Option<&Prepared>) -> Made,
    ) -> &Made {
        let place = self.block[n] as usize;
        let operation = match fused {
            Fused::WithOperation => self.block.get(n + 1).copied(),
            _ => None,
        };
        let way = (fused, operation);
        let ways = &self.entries[place].made;
        let known = ways.iter().position(|(known, _)| *known == way);
        let at = known.unwrap_or_else(|| {
            let operation = operation.map(|place| &self.entries[place as usize].prepared);
            let made = make(&self.entries[place].prepared, operation);
            let ways = &mut self.entries[place].made;
            if ways.len() >= MOST_WAYS {
                ways.clear();
            }
            ways.push((way, made));
            ways.len() - 1
        });
        &self.entries[place].made[at].1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::build::{Builder, decode};
    use super::*;
    use crate::program::Program;

    /// Ones that differ in constants, that fuse with what is behind or before them, whose addresses
    /// are relative, that make others take other ports, that move the stack, that no table has.
    const CODE: [&[u8]; 27] = [
        // add rcx, 5; add rcx, -7; add rcx, 0; add rcx, rdx
        &[0x48, 0x83, 0xc1, 5],
        &[0x48, 0x83, 0xc1, 0xf9],
        &[0x48, 0x83, 0xc1, 0],
        &[0x48, 0x01, 0xd1],
        // mov rax, [rcx + 8]; mov rax, [rcx - 8]; mov rax, [rip + 8]; mov [rip + 16], rax
        &[0x48, 0x8b, 0x41, 8],
        &[0x48, 0x8b, 0x41, 0xf8],
        &[0x48, 0x8b, 0x05, 8, 0, 0, 0],
        &[0x48, 0x89, 0x05, 16, 0, 0, 0],
        // mov rax, [rcx + rdx]; mov rax, [rcx + rdx + 8]; mov rax, [rcx + 4 * rdx + 8]
        &[0x48, 0x8b, 0x04, 0x11],
        &[0x48, 0x8b, 0x44, 0x11, 8],
        &[0x48, 0x8b, 0x44, 0x91, 8],
        // mov rcx, rdx; mov ecx, edx; shl rcx, 3; shl rcx, 4
        &[0x48, 0x89, 0xd1],
        &[0x89, 0xd1],
        &[0x48, 0xc1, 0xe1, 3],
        &[0x48, 0xc1, 0xe1, 4],
        // cmp rcx, 9; jne forwards; jne back; jmp to address 0 of its block, where it is the first
        &[0x48, 0x83, 0xf9, 9],
        &[0x75, 0x10],
        &[0x75, 0xf0],
        &[0xeb, 0xfe],
        // vaddps ymm0, ymm1, [rdi]; vaddps zmm0, zmm1, zmm2; lea rax, [rcx + 4]; lea rax, [rcx + 64]
        &[0xc5, 0xf4, 0x58, 0x07],
        &[0x62, 0xf1, 0x74, 0x48, 0x58, 0xc2],
        &[0x48, 0x8d, 0x41, 4],
        &[0x48, 0x8d, 0x41, 64],
        // push rax; ret 8; mov rax, 2^40; rsm
        &[0x50],
        &[0xc2, 8, 0],
        &[0x48, 0xb8, 0, 0, 0, 0, 0, 1, 0, 0],
        &[0x0f, 0xaa],
    ];

    /// Everything that is said of the instructions of a block.
    fn told(builder: &mut Builder, block: &[Decoded]) -> String {
        let mut program = Program::default();
        let described = builder.append(&mut program, block);
        let all = described.iter().map(|d| {
            let o = &d.operands;
            let memories: Vec<_> = (o.in_mems.iter().chain(&o.out_mems))
                .map(|v| {
                    d.memory(v)
                        .map(|m| (m.base, m.index, m.scale, m.displacement))
                })
                .collect();
            let values = (
                &o.in_regs,
                &o.in_flags,
                &o.out_regs,
                &o.out_flags,
                &o.addresses,
            );
            let form = d.form.map(|form| &form.name);
            format!(
                "{form:?} {:?} {:?} {memories:?} {values:?}",
                d.perf, d.facts
            )
        });
        format!("{program:?} {:?}", all.collect::<Vec<_>>())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn what_is_known_is_as_if_it_were_made_anew(
            blocks in prop::collection::vec(
                (prop::collection::vec(0..CODE.len(), 1..9), 0u64..256),
                1..12,
            ),
            cpu in prop::sample::select(&["snb", "skl", "glc", "zen1", "zen5"][..]),
        ) {
            let model = crate::machine::cpu(cpu).unwrap();
            let mut builder = Builder::new(&model);
            for (parts, address) in blocks {
                let code: Vec<u8> = parts.iter().flat_map(|n| CODE[*n]).copied().collect();
                let block = decode(&code, address).0;
                let anew = told(&mut Builder::new(&model), &block);
                prop_assert_eq!(told(&mut builder, &block), anew);
            }
        }
    }
}
