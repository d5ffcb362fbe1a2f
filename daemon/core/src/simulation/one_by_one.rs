//! Executions that no plan covers go to the pipeline one instruction after the other.

use super::dictionary::TranslatedBlock;
use super::execution::Execution;
use super::places::Place;
use crate::lists::part;
use crate::pipeline::Pipeline;
use crate::pipeline::access::{Access, Span};
use crate::pipeline::frontend::plan::last_with_uops;
use crate::pipeline::inst::Inst;
use crate::pipeline::observer::Observer;
use mcad_isa::machine::params::Execute;
use mcad_isa::program::{Instr, Program, flag};

/// Executions that no plan covers: of a part of a block, with repeated string instructions, or with
/// accesses in an order that no plan knows.
pub(super) struct OneByOne<'a> {
    pub(super) program: &'a Program,
    pub(super) p: &'a Execute,
    pub(super) place: &'a Place,
    pub(super) block: &'a TranslatedBlock,
    pub(super) execution: &'a Execution<'a>,
    pub(super) memory: bool,
}

impl OneByOne<'_> {
    pub(super) fn push<O: Observer>(&self, pipeline: &mut Pipeline<O>) {
        let execution = self.execution;
        let from = self.place.first as usize;
        let end = execution.end.min(self.place.len as usize);
        let instrs = part(&self.program.instrs, from..from + end);
        // The cycles of a block are read off at its last instruction with µops of its own.
        let tagged = last_with_uops(instrs, execution.first);
        let mut spans = execution.spans.iter().peekable();
        for (n, instr) in instrs.iter().enumerate().skip(execution.first) {
            let mut inst = Inst::new((from + n) as u32, self.block.address_of(n));
            if n == tagged {
                inst.tag = execution.block.0 + 1;
            }
            let mut accesses: &[Access] = &[];
            while spans.peek().is_some_and(|s| usize::from(s.index) < n) {
                spans.next();
            }
            if let Some(span) = spans.next_if(|s| usize::from(s.index) == n) {
                if self.memory {
                    (inst.loads, inst.stores) = (span.loads, span.stores);
                    let start = span.start as usize;
                    let count = usize::from(span.loads) + usize::from(span.stores);
                    accesses = part(execution.accesses, start..start + count);
                }
                if instr.is(flag::REP) {
                    inst.extra_cycles = repeated(self.p, instr, span, execution, n + 1 == end);
                    let reach = execution.reaches.iter().find(|r| usize::from(r.index) == n);
                    if let Some(reach) = reach.filter(|_| self.memory) {
                        inst.reaches = pipeline.reach(reach.loads.clone(), reach.stores.clone());
                    }
                }
            }
            let kernel_ran = n + 1 == self.block.len() && !execution.kernel.is_empty();
            if self.memory && kernel_ran {
                inst.reaches = pipeline.enter_kernel(execution.kernel);
            }
            pipeline.push(self.program, inst, accesses);
            if kernel_ran {
                pipeline.kernel_ran();
            }
        }
    }
}

/// Cycles that a repeated string instruction takes more than its first iteration; `last`: it is the last that is executed
/// of its block.
pub(super) fn repeated(
    p: &Execute,
    instr: &Instr,
    span: &Span,
    execution: &Execution<'_>,
    last: bool,
) -> u32 {
    let repeats = if last { execution.repeats } else { 0 };
    let iterations = repeats.max(u64::from(span.loads.max(span.stores)));
    let cycles = if instr.is(flag::REP_COMPARE) {
        iterations * p.rep_compare_cycles
    } else if iterations + 1 < p.rep_single_elements {
        // The first one is its last µop's.
        iterations
    } else {
        let element = span.bytes / iterations.max(1);
        let predicted = span.bytes <= p.rep_predicted(span.loads > 0, element);
        let bytes = if predicted { 0 } else { span.bytes };
        let bursts = !p.rep_burst_of_stores || span.loads == 0;
        let burst = if bursts {
            bytes.min(p.rep_burst_bytes)
        } else {
            0
        };
        let [moves, stores] = p.rep_bytes_begin;
        let begin = if span.loads > 0 { moves } else { stores };
        begin
            + burst / p.rep_burst_bytes_per_cycle.max(1)
            + (bytes - burst) / p.rep_bytes_per_cycle.max(1)
    };
    cycles.min(u64::from(u32::MAX)) as u32
}
