//! The loop stream detector ("LSD"): replays a small loop from the decode queue.
//!
//! It refills the queue only when that has run empty, with several copies of a small loop; so the
//! first µop of a refill never issues together with the last one before it.

use super::target::Target;
use crate::pipeline::access::Access;
use crate::pipeline::inst::{Inst, Source};
use crate::pipeline::observer::{Delivery, Observer};
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::Frontend;
use mcad_isa::program::{Instr, Program, flag};

/// What one iteration looked like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Body {
    /// Static instruction that it starts with.
    head: u32,
    /// Hash over its static instructions.
    hash: u64,
    instructions: u32,
    uops: u32,
}

/// Finds loops in the executed instructions and tells which iterations are replayed.
///
/// An iteration is what lies between two taken backward branches. While a loop is replayed, an
/// iteration is held back until it is complete, since it may turn out to leave the loop.
pub struct Detector {
    /// The CPU has one.
    there: bool,
    on: bool,
    idq: u32,
    now: Body,
    /// Taken branches of the iteration so far.
    branches: u32,
    fits: bool,
    last: Body,
    alike: u32,
    /// Taken branches of the iterations that were alike.
    alike_branches: u32,
    /// Copies per refill while a loop is replayed.
    copies: Option<u32>,
    done: u32,
    held: Vec<Inst>,
    held_accesses: Vec<Access>,
}

/// What to do with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Deliver it as usual.
    Pass,
    /// It is held back.
    Held,
    /// It is held back and completes an iteration: all that is held is replayed.
    Complete {
        /// It also ends a refill.
        refill: bool,
    },
}

impl Detector {
    /// Looks at nothing unless the CPU has a detector and `wanted`.
    #[must_use]
    pub fn new(p: &Frontend, wanted: bool) -> Self {
        Self {
            there: p.loop_stream,
            on: p.loop_stream && wanted,
            idq: p.idq,
            now: Body::default(),
            branches: 0,
            fits: false,
            last: Body::default(),
            alike: 0,
            alike_branches: 0,
            copies: None,
            done: 0,
            held: Vec::new(),
            held_accesses: Vec::new(),
        }
    }

    /// Says whether it looks for loops.
    pub fn want(&mut self, wanted: bool) {
        self.on = self.there && wanted;
    }

    /// Instructions that are held back.
    #[inline]
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.len() as u64
    }

    /// Whether a loop is being replayed.
    #[inline]
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.copies.is_some()
    }

    /// An instruction was passed on.
    #[inline]
    pub fn passed(&mut self, number: u32, instr: &Instr) {
        if self.on {
            self.count(number, instr);
        }
    }

    /// Instructions were passed on.
    #[inline]
    pub fn passed_all(&mut self, program: &Program, insts: &[Inst]) {
        if self.on {
            for inst in insts {
                if let Some(instr) = program.instrs.get(inst.instr as usize) {
                    self.count(inst.instr, instr);
                }
            }
        }
    }

    fn count(&mut self, number: u32, instr: &Instr) {
        if self.now.instructions == 0 {
            self.now.head = number;
        }
        self.now.hash = (self.now.hash ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.now.instructions += 1;
        self.now.uops += u32::from(instr.laminated_len);
        self.fits &= instr.is(flag::LOOP_STREAM);
    }

    /// A taken branch went on in the same iteration.
    #[inline]
    pub fn jumped(&mut self) {
        self.branches += u32::from(self.on);
    }

    /// A taken branch went back: an iteration is complete. `cached`: it came from the µop cache.
    pub fn back_edge(&mut self, p: &Frontend, cached: bool) {
        if !self.on {
            return;
        }
        let body = std::mem::take(&mut self.now);
        let branches = std::mem::take(&mut self.branches);
        let short = p.loop_stream_branches == 0 || branches < p.loop_stream_branches;
        let fits =
            std::mem::replace(&mut self.fits, true) && cached && short && body.uops <= self.idq;
        if body == self.last && fits {
            self.alike += 1;
            self.alike_branches = self.alike_branches.saturating_add(branches + 1);
        } else {
            (self.alike, self.alike_branches) = (0, 0);
        }
        self.last = body;
        let long = match p.loop_stream_taken_branches {
            0 => self.alike >= p.loop_stream_turns,
            most => self.alike_branches >= most,
        };
        if long {
            self.copies = Some(p.loop_stream_copies(body.uops));
            self.done = 0;
        }
    }

    /// The next instruction while a loop is replayed. [`Step::Pass`] means that the iteration left
    /// the loop; the instruction is held with the others.
    pub fn step(&mut self, inst: Inst, accesses: &[Access], instr: &Instr) -> Step {
        let Some(copies) = self.copies else {
            return Step::Pass;
        };
        self.held.push(inst);
        self.held_accesses.extend_from_slice(accesses);
        self.count(inst.instr, instr);
        let complete = self.now.instructions == self.last.instructions;
        if complete && self.now == self.last {
            self.now = Body::default();
            self.done += 1;
            let refill = self.done == copies;
            if refill {
                self.done = 0;
            }
            return Step::Complete { refill };
        }
        if complete || (self.now.instructions == 1 && self.now.head != self.last.head) {
            return Step::Pass;
        }
        Step::Held
    }

    /// Takes what is held.
    pub fn take(&mut self) -> (Vec<Inst>, Vec<Access>) {
        (
            std::mem::take(&mut self.held),
            std::mem::take(&mut self.held_accesses),
        )
    }

    /// The loop is left.
    pub fn stop(&mut self) {
        self.copies = None;
        (self.alike, self.alike_branches) = (0, 0);
        self.done = 0;
        self.last = Body::default();
        self.now = Body::default();
        self.branches = 0;
        self.fits = false;
    }
}

impl Part for Detector {
    fn reset(&mut self, _: &Moment) {
        let Self {
            there: _,
            on: _,
            idq: _,
            now,
            branches,
            fits,
            last,
            alike,
            alike_branches,
            copies,
            done,
            held,
            held_accesses,
        } = self;
        (*branches, *alike_branches) = (0, 0);
        (*now, *last) = (Body::default(), Body::default());
        (*fits, *alike, *copies, *done) = (false, 0, None, 0);
        held.clear();
        held_accesses.clear();
    }

    /// Who compares states says itself what is replayed.
    fn fingerprint(&self, _: &Moment, _: &mut Fingerprint) {
        let Self {
            there: _,
            on: _,
            idq: _,
            now: _,
            branches: _,
            fits: _,
            last: _,
            alike: _,
            alike_branches: _,
            copies: _,
            done: _,
            held: _,
            held_accesses: _,
        } = self;
    }
}

/// Delivers one refill.
pub fn cycle<O: Observer>(t: &mut Target<'_, O>) {
    while let Some(inst) = t.queue.front().copied() {
        if inst.source != Source::LoopStream || t.queue.head() >= t.queue.fetchable() {
            break;
        }
        let Some(instr) = t.program.instrs.get(inst.instr as usize) else {
            break;
        };
        if instr.is(flag::FUSED_PREVIOUS) {
            t.queue.pop();
        } else {
            let number = t.queue.head();
            for n in 0..instr.laminated_len {
                t.deliver_one(number, n, Delivery::Of(Source::LoopStream));
            }
        }
        if inst.stream_end {
            break;
        }
    }
}
