//! The in-order core, a sibling of the out-of-order one, by time stamps.
//!
//! Instructions come in program order, and each gets the cycle in which the front end has it
//! ready ([`fetch`], [`icache`], [`predict`]) and the cycle in which it issues: as many a cycle as
//! the core is wide, when operands, units and rules of pairing allow. An older instruction is
//! never delayed by a younger one, but for one rule ([`mcad_isa::machine::inorder::Late`]) that
//! looks at the next instruction; hence the core holds one back. Since everything is in order,
//! stamps are what a cycle-by-cycle model gives.

pub use mcad_isa::inorder as code;
pub mod behind;
pub mod fetch;
pub mod gshare;
pub mod hart;
pub mod icache;
pub mod issue;
pub mod predict;
pub mod scheduled;
pub mod slots;
pub mod store_buffer;
pub mod stream;

use mcad_isa::llvm::sched::Machine;
use mcad_isa::machine::inorder::{InOrder, Predictor};

use crate::pipeline::frontend::predict::stream::Counts;
use behind::Asked;
use code::{Code, Control, Static};
use fetch::{FrontEnd, Placed};
use gshare::{Foreseen, Gshare};
use issue::{Issue, Issued};
use predict::{Outcome, Prediction};
use slots::{Cause, Ledger, Slots};

/// An executed instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Executed {
    /// Its static instruction in [`Code::instrs`].
    pub instr: u32,
    /// Its address.
    pub address: u64,
    /// Address and bytes of its access, where it has one.
    pub access: Option<(u64, u32)>,
    /// Cycles to retirement where they depend on its operands; 0: as [`Static::cycles`] says.
    pub cycles: u32,
    /// Cycles by which its results come later than its class says: what it loads was missing.
    pub missed: u32,
    /// Cycles without issue between the instruction before and this one, which then begins a group, and
    /// their cause: where misses and mispredictions are known beforehand and not found out by a front
    /// end.
    pub gap: Option<(u32, Cause)>,
    /// Its accesses, where memory is modelled.
    pub asked: Asked,
    /// Tag of the caller.
    pub tag: u32,
}

/// The stamps of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// First cycle in which it could have issued.
    pub ready: u64,
    /// Cycle of issue.
    pub issued: u64,
    /// Cycle of retirement.
    pub retired: u64,
    /// It executed late.
    pub late: bool,
    /// What kept it from issuing sooner, at last.
    pub cause: Cause,
    /// Fetch had gone elsewhere behind it.
    pub mispredicted: bool,
    /// When its results are there.
    pub done: u64,
    /// The unit that it takes, as views number them.
    pub port: Option<u8>,
}

/// Receives instructions with their stamps, in program order.
pub trait Observer {
    /// Whether it looks at what was lost for each instruction ([`Core::ledger`]).
    const LOSSES: bool = false;

    /// An instruction has all its stamps.
    fn retired(&mut self, executed: &Executed, stamps: &Stamps);
}

impl<F: FnMut(&Executed, &Stamps)> Observer for F {
    fn retired(&mut self, executed: &Executed, stamps: &Stamps) {
        self(executed, stamps);
    }
}

/// By how much what an instruction loads comes later than from the first level.
#[derive(Clone, Copy, Debug, Default)]
pub struct Missed {
    /// Cycles.
    pub late: u32,
    /// Cycles of these in which it keeps what follows from issuing: no line more may be on its way.
    pub held: u32,
    /// What to hold responsible.
    pub cause: Cause,
}

/// What an in-order core asks of the world around it: where code and data come from, and what instructions
/// would do that are issued behind a mispredicted branch and called back.
pub trait Around {
    /// Fetch of the line at an address starts in cycle `at`; cycles by which it comes later than from the first
    /// level.
    #[inline]
    fn fetch(&mut self, address: u64, at: u64) -> u64 {
        let _ = (address, at);
        0
    }

    /// The cycle from which on there is room for what an instruction stores.
    #[inline]
    fn room(&mut self, executed: &Executed) -> u64 {
        let _ = executed;
        0
    }

    /// An instruction issues, and asks for its data.
    #[inline]
    fn access(&mut self, executed: &Executed, at: u64) -> Missed {
        let _ = at;
        Missed {
            late: executed.missed,
            held: 0,
            cause: Cause::Load,
        }
    }

    /// Behind the last instruction that was pushed before.
    fn begin(&mut self) {}

    /// Where control goes after the next of them; `None` if it is not known.
    fn step(&mut self, instr: u32, address: u64) -> Option<u64> {
        let _ = (instr, address);
        None
    }
}

impl Around for () {}

/// Bytes of an instruction of code that is not known.
const UNKNOWN_BYTES: u8 = 4;

/// An instruction that waits for the next one to be known.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    executed: Executed,
    placed: Placed,
}

/// Whether nothing about an instruction rests on the one after it: all are there when they could issue, none
/// executes late, and fetch never goes elsewhere. Then none is held back.
fn issues_at_once(core: &InOrder) -> bool {
    core.fetch.ideal && core.predictor.is_none() && core.late.is_none()
}

/// An in-order core that executes one thread.
pub struct Core<O> {
    p: InOrder,
    front: FrontEnd,
    /// Predicts branches one by one, in the place of the front end's predictor.
    gshare: Option<Box<Gshare>>,
    issue: Issue,
    redirect: u64,
    redirect_late: u64,
    update: u64,
    /// The instruction that is held, and the place of the next one, in turns.
    held: [Held; 2],
    /// Which of them is the next one's.
    next: usize,
    /// Whether one is held.
    holds: bool,
    /// See [`issues_at_once`].
    at_once: bool,
    last: u64,
    /// Receives what happens.
    pub observer: O,
}

impl<O: Observer> Core<O> {
    /// A core at rest.
    #[must_use]
    pub fn new(core: &InOrder, observer: O) -> Self {
        Self::with_units(core, None, observer)
    }

    /// The same, which issues by a scheduling model with these units if there are any.
    #[must_use]
    pub fn with_units(core: &InOrder, machine: Option<&Machine>, observer: O) -> Self {
        Self {
            p: core.clone(),
            front: FrontEnd::new(core),
            gshare: match &core.predictor {
                Some(Predictor::Gshare(p)) => Some(Box::new(Gshare::new(p))),
                _ => None,
            },
            issue: Issue::new(core, machine),
            redirect: u64::from(core.branch.redirect),
            redirect_late: u64::from(core.branch.redirect_late),
            update: u64::from(core.branch.update),
            held: <[Held; 2]>::default(),
            next: 0,
            holds: false,
            at_once: issues_at_once(core),
            last: 0,
            observer,
        }
    }

    /// Brings the core to rest again, its observer as it is.
    pub fn reset(&mut self) {
        // An ideal front end has no state.
        if !self.p.fetch.ideal {
            self.front = FrontEnd::new(&self.p);
        }
        self.issue.reset();
        self.holds = false;
        self.last = 0;
    }

    /// Takes the next instruction of the executed program.
    #[inline]
    pub fn push(&mut self, code: &Code, executed: Executed) {
        if self.at_once {
            self.push_at_once(code, &executed, &mut ());
        } else {
            self.push_with(code, executed, &mut ());
        }
    }

    /// The same, where nothing rests on the next instruction.
    #[inline]
    fn push_at_once(&mut self, code: &Code, executed: &Executed, around: &mut impl Around) {
        let issue = &mut self.issue;
        let fetched = (1, Cause::Fetch);
        let issued = match O::LOSSES {
            true => issue.issue::<true>(code, executed, fetched, None, around),
            false => issue.issue::<false>(code, executed, fetched, None, around),
        };
        let stamps = self.stamps(&issued, 1, false);
        self.observer.retired(executed, &stamps);
    }

    /// The same, where it is known what would be executed behind a mispredicted branch. That the
    /// program goes on with `executed` must not be known to `around` yet.
    pub fn push_with(&mut self, code: &Code, executed: Executed, around: &mut impl Around) {
        *self.upcoming() = executed;
        self.push_next(code, around);
    }

    /// Where the next instruction is put for [`Core::push_next`], field by field: it stays there until it
    /// issues.
    #[inline]
    pub fn upcoming(&mut self) -> &mut Executed {
        &mut self.held[self.next & 1].executed
    }

    /// Takes the instruction in [`Core::upcoming`].
    #[inline]
    pub fn push_next(&mut self, code: &Code, around: &mut impl Around) {
        if self.at_once {
            let executed = *self.upcoming();
            self.push_at_once(code, &executed, around);
        } else {
            self.hold_next(code, around);
        }
    }

    fn hold_next(&mut self, code: &Code, around: &mut impl Around) {
        let Executed { instr, address, .. } = *self.upcoming();
        let Some(static_instr) = code.instrs.get(instr as usize) else {
            return;
        };
        if !self.holds {
            // The first: fetch starts here.
            self.holds = true;
            self.front.restart(address, 1);
            self.hold(static_instr, around);
            return;
        }
        let Held { executed, placed } = &self.held[!self.next & 1];
        let before = code.instrs.get(executed.instr as usize);
        let control = before.map_or(Control::None, |i| i.control);
        let wrong = self.front.predictor.is_some() && placed.next != address && {
            // A block of straight code that is executed again begins anew without a branch.
            let len = before.map_or(0, |i| u64::from(i.len));
            control != Control::None || placed.next != executed.address.wrapping_add(len)
        };
        let mut wrong = wrong || control == Control::Unpredicted;
        if let Some(gshare) = &mut self.gshare
            && control != Control::None
            && let Some(before) = before
        {
            match gshare.branch(executed.instr, before, executed.address, address) {
                Foreseen::Right => {}
                Foreseen::Decoded => self.front.found_by_decode(gshare.decode_bubble),
                Foreseen::Wrong => wrong = true,
            }
        }
        if wrong {
            self.push_behind_wrong(code, static_instr, around);
            return;
        }
        let next = &mut self.held[self.next & 1];
        self.front
            .place(address, static_instr.len, &mut next.placed, around);
        let ready = next.placed.ready;
        let issued = self.issue_held(code, Some((instr, ready)), false, around);
        self.front.issued(1, issued.cycle);
        if control != Control::None && self.front.predictor.is_some() {
            let prediction = self.front.prediction(self.held().placed.number);
            self.resolve(code, prediction, address, &issued, false);
        }
        self.next ^= 1;
    }

    /// The instruction that is held.
    #[inline]
    fn held(&self) -> &Held {
        &self.held[!self.next & 1]
    }

    /// Places the next instruction, which waits for the one behind it.
    fn hold(&mut self, instr: &Static, around: &mut impl Around) {
        let next = &mut self.held[self.next & 1];
        let address = next.executed.address;
        (self.front).place(address, instr.len, &mut next.placed, around);
        self.next ^= 1;
    }

    /// Takes the next instruction, which fetch had not foreseen behind the one that is held.
    #[inline(never)]
    fn push_behind_wrong(&mut self, code: &Code, instr: &Static, around: &mut impl Around) {
        let held = *self.held();
        let next = self.upcoming().address;
        let before = code.instrs.get(held.executed.instr as usize);
        let unpredicted = before.is_some_and(|i| i.control == Control::Unpredicted);
        let prediction = self.front.prediction(held.placed.number);
        let issued = self.issue_held(code, None, true, around);
        let after = if issued.late {
            self.redirect_late
        } else {
            self.redirect
        };
        let back = issued.cycle + after;
        self.go_astray(code, (&held, prediction.as_ref()), &issued, back, around);
        self.resolve(code, prediction, next, &issued, !unpredicted);
        self.front.restart(next, back);
        self.hold(instr, around);
    }

    /// What is fetched and issued behind a mispredicted branch until fetch is called back: it
    /// moves the return stack and the instruction cache, and branches that are found to be
    /// mispredicted in their turn move the predictor. If something serialises, what comes in its
    /// stead waits.
    fn go_astray(
        &mut self,
        code: &Code,
        (held, prediction): (&Held, Option<&Prediction>),
        branch: &Issued,
        back: u64,
        around: &mut impl Around,
    ) {
        let Some(predictor) = &mut self.front.predictor else {
            return;
        };
        let history = predictor.history();
        if branch.late
            && let Some(prediction) = prediction
        {
            predictor.pass(prediction, held.placed.lane);
        }
        around.begin();
        let mut issue = self.issue.clone();
        let mut address = held.placed.next;
        loop {
            let known = code.at(address);
            let known = known.and_then(|n| code.instrs.get(n as usize).map(|instr| (n, instr)));
            let len = known.map_or(UNKNOWN_BYTES, |(_, instr)| instr.len);
            let Some(placed) = self.front.place_astray(address, len, back) else {
                break;
            };
            let Some((number, instr)) = known else {
                self.front.issued(0, placed.ready);
                if placed.ready > back {
                    break;
                }
                address = placed.next;
                continue;
            };
            let executed = Executed {
                instr: number,
                address,
                ..Executed::default()
            };
            let fetched = (placed.ready, placed.cause);
            let issued = issue.issue::<false>(code, &executed, fetched, None, &mut ());
            self.front.issued(0, issued.cycle);
            if issued.cycle > back {
                // It is called back before it issues; what is fetched meanwhile goes on.
                if placed.ready > back {
                    break;
                }
                address = placed.next;
                continue;
            }
            let after = issue.after(instr);
            if after > 0 && !branch.late {
                self.issue.serialised_astray(branch.cycle, after);
            }
            let next = around.step(number, address).unwrap_or(placed.next);
            let redirected = issued.cycle + self.redirect;
            let wrong = !issued.late && next != placed.next && redirected < back;
            let stray = Held { executed, placed };
            if let Some(outcome) = self.outcome(instr, &stray, next, &issued, wrong)
                && let Some(prediction) = &self.front.prediction(placed.number)
                && let Some(predictor) = &mut self.front.predictor
            {
                if issued.late {
                    predictor.pass(prediction, placed.lane);
                } else {
                    predictor.resolve_astray(prediction, &outcome);
                }
            }
            if wrong {
                self.front.restart(next, redirected);
            }
            address = if wrong { next } else { placed.next };
        }
        self.front.go_astray(back);
        if let Some(predictor) = &mut self.front.predictor {
            predictor.set_history(history);
        }
    }

    /// Ends the program.
    pub fn flush(&mut self, code: &Code) {
        self.flush_with(code, &mut ());
    }

    /// The same, with the world around it.
    pub fn flush_with(&mut self, code: &Code, around: &mut impl Around) {
        if std::mem::take(&mut self.holds) {
            self.issue_held(code, None, false, around);
        }
    }

    /// Issues the instruction that is held; `next` is the one behind it.
    #[inline(always)]
    fn issue_held(
        &mut self,
        code: &Code,
        next: Option<(u32, u64)>,
        mispredicted: bool,
        around: &mut impl Around,
    ) -> Issued {
        let Held { executed, placed } = &self.held[!self.next & 1];
        let (ready, cause) = (placed.ready, placed.cause);
        let (issue, fetched) = (&mut self.issue, (ready, cause));
        let issued = match O::LOSSES {
            true => issue.issue::<true>(code, executed, fetched, next, around),
            false => issue.issue::<false>(code, executed, fetched, next, around),
        };
        if next.is_none() {
            self.front.issued(0, issued.cycle);
        }
        let stamps = self.stamps(&issued, ready, mispredicted);
        (self.observer).retired(&self.held[!self.next & 1].executed, &stamps);
        issued
    }

    /// An instruction has issued.
    #[inline(always)]
    fn stamps(&mut self, issued: &Issued, ready: u64, mispredicted: bool) -> Stamps {
        self.last = self.last.max(issued.retired);
        Stamps {
            ready,
            issued: issued.cycle,
            retired: issued.retired,
            late: issued.late,
            cause: issued.cause,
            mispredicted,
            done: issued.done,
            port: issued.port,
        }
    }

    /// Tells the predictor how a branch went.
    fn resolve(
        &mut self,
        code: &Code,
        prediction: Option<Prediction>,
        next: u64,
        issued: &Issued,
        mispredicted: bool,
    ) {
        let held = self.held();
        let Some(instr) = code.instrs.get(held.executed.instr as usize) else {
            return;
        };
        if let Some(outcome) = self.outcome(instr, held, next, issued, mispredicted)
            && let Some(prediction) = &prediction
            && let Some(predictor) = &mut self.front.predictor
        {
            predictor.resolve(prediction, &outcome);
        }
    }

    /// How a branch went; `None` when it is none that can be predicted.
    fn outcome(
        &self,
        instr: &Static,
        held: &Held,
        next: u64,
        issued: &Issued,
        mispredicted: bool,
    ) -> Option<Outcome> {
        if matches!(instr.control, Control::None | Control::Unpredicted) {
            return None;
        }
        let after = held.executed.address.wrapping_add(u64::from(instr.len));
        let cycle = match (mispredicted, issued.late) {
            (true, false) => self.redirect,
            (true, true) => self.redirect_late,
            (false, _) => self.update,
        };
        let always = instr.control != Control::Conditional;
        Some(Outcome {
            group: held.placed.group,
            lane: held.placed.lane,
            taken: always || next != after,
            target: next,
            after,
            call: instr.control == Control::Call,
            ret: instr.control == Control::Return,
            always,
            mispredicted,
            cycle: issued.cycle + cycle,
        })
    }

    /// What became of its branches, where they are predicted one by one.
    #[must_use]
    pub fn branches(&self) -> Option<&Counts> {
        self.gshare.as_ref().map(|gshare| &gshare.counts)
    }

    /// Counts branches from here on; what the predictor has learned stays.
    pub fn forget_branches(&mut self) {
        if let Some(gshare) = &mut self.gshare {
            gshare.counts = Counts::default();
        }
    }

    /// Cycle of the last retirement so far.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.last
    }

    /// The same, with what was lost for the instruction that was told last.
    #[inline]
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.issue.ledger()
    }

    /// What became of the issue slots, from the first to the last issue.
    #[must_use]
    pub fn slots(&self) -> Slots {
        self.issue.slots()
    }
}
