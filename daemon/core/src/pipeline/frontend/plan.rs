//! What the front end knows of a block before it is executed: [`Plan`], and executions that follow
//! it.
//!
//! Most executions of a block run all of its instructions. What does not depend on the execution
//! (addresses, how instructions lie in the predecoder's blocks, where 64-byte lines end, whose cycles
//! are counted) is then copied in one piece; what does (accesses, and where the µops come from) is
//! filled in. Everything else takes the general way, one instruction after the other, with the same
//! result.

use super::predict::stream::{CodePlace, Site};
use crate::pipeline::access::{Access, Span};
use crate::pipeline::inst::Inst;
use mcad_isa::program::{Program, flag};

/// A block, made ready to be executed.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Its instructions.
    insts: Box<[Inst]>,
    /// Instructions in each 64-byte line; those of the last one are left out.
    lines: Box<[u16]>,
    /// Those that a predictor of branches must see: the first one, branches, what follows one, and what
    /// begins a line.
    starts: Box<[Start]>,
    /// Address behind its last byte.
    end: u64,
}

/// An instruction that a predictor of branches must see.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Its place in the block.
    pub place: u16,
    /// Where it is.
    pub at: CodePlace,
    /// The branch, if it is one.
    pub branch: Option<Site>,
}

impl Plan {
    /// The plan of the instructions `first..first + addresses.len()` of the program, where the
    /// cycles up to the last one with µops of its own are counted for `tag`; `None` when how it is
    /// executed says more than which accesses there were.
    #[must_use]
    pub fn new(
        program: &Program,
        first: u32,
        addresses: &[u64],
        tag: u32,
        predecode_block_bytes: u32,
    ) -> Option<Self> {
        let from = first as usize;
        let instrs = program.instrs.get(from..from + addresses.len())?;
        if instrs.is_empty() || instrs.iter().any(|i| i.is(flag::REP) || i.calls_kernel) {
            return None;
        }
        let mut insts: Box<[Inst]> = (first..)
            .zip(instrs)
            .zip(addresses)
            .map(|((n, instr), address)| {
                Inst::new(n, *address).laid_out(instr, predecode_block_bytes)
            })
            .collect();
        let tagged = last_with_uops(instrs, 0);
        insts.get_mut(tagged)?.tag = tag;
        let in_shared_object = instrs.iter().any(|instr| instr.in_shared_object);
        let start = |place: u16, inst: &Inst| Start {
            place,
            at: CodePlace {
                address: inst.address,
                in_shared_object,
            },
            branch: Site::of(program, inst),
        };
        let (mut lines, mut starts) = (Vec::new(), vec![start(0, insts.first()?)]);
        let mut begun = 0;
        for ((place, pair), two) in (1u16..).zip(insts.windows(2)).zip(instrs.windows(2)) {
            let ([here, next], [instr, following]) = (pair, two) else {
                return None;
            };
            if here.address.wrapping_add(u64::from(instr.len)) != next.address {
                return None;
            }
            let other_line = here.line() != next.line();
            if other_line {
                lines.push(place - begun);
                begun = place;
            }
            if other_line || instr.branch.is_some() || following.branch.is_some() {
                starts.push(start(place, next));
            }
        }
        let (last, instr) = (insts.last()?, instrs.last()?);
        Some(Self {
            end: last.address.wrapping_add(u64::from(instr.len)),
            insts,
            lines: lines.into(),
            starts: starts.into(),
        })
    }

    /// Gives all of its instructions this tag.
    pub fn tag_all(&mut self, tag: u32) {
        self.insts.iter_mut().for_each(|inst| inst.tag = tag);
    }

    /// Its instructions.
    #[inline]
    #[must_use]
    pub fn insts(&self) -> &[Inst] {
        &self.insts
    }

    /// Instructions in each of its 64-byte lines but the last.
    #[inline]
    #[must_use]
    pub fn lines(&self) -> &[u16] {
        &self.lines
    }

    /// Those that a predictor of branches must see, first to last.
    #[inline]
    #[must_use]
    pub fn starts(&self) -> &[Start] {
        &self.starts
    }

    /// Address behind its last byte.
    #[inline]
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }
}

/// Place of the last instruction from `first` on that has µops of its own: where a block's cycles
/// are read off.
#[must_use]
pub fn last_with_uops(instrs: &[mcad_isa::program::Instr], first: usize) -> usize {
    let last = instrs.len().saturating_sub(1);
    let fused = instrs.get(last).is_some_and(|i| i.is(flag::FUSED_PREVIOUS));
    if fused && last > first {
        last - 1
    } else {
        last
    }
}

/// One execution of all instructions of a block.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The block.
    pub plan: &'a Plan,
    /// Which of its instructions have accesses, in order.
    pub spans: &'a [Span],
    /// These accesses, in order.
    pub accesses: &'a [Access],
}

impl<'a> Run<'a> {
    /// Its instructions with their accesses.
    pub fn one_by_one(self) -> impl Iterator<Item = (Inst, &'a [Access])> {
        let mut accesses = self.accesses;
        let mut spans = self.spans.iter().peekable();
        (self.plan.insts().iter().enumerate()).map(move |(n, inst)| {
            let mut inst = *inst;
            if let Some(span) = spans.next_if(|s| usize::from(s.index) == n) {
                (inst.loads, inst.stores) = (span.loads, span.stores);
            }
            let count = usize::from(inst.loads) + usize::from(inst.stores);
            let (own, rest) = accesses.split_at(count.min(accesses.len()));
            accesses = rest;
            (inst, own)
        })
    }
}
