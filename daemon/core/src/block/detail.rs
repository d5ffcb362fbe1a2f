//! A block explained: both notions of throughput, bounds of each part, what each instruction does
//! in the steady state, and the cycles of the first iterations.

use iced_x86::Instruction;
use mcad_report::block::{Delivered, Detail, InstructionDetail, TimelineUop};

use super::bottleneck;
use super::dependencies::longest_chain;
use super::graph;
use super::simulator::Simulator;
use super::trace::{Event, Trace};
use super::{ALIGNMENTS, Block, Mode, Options};
use crate::pipeline::inorder::slots::Cause;
use crate::pipeline::inst::Source;
use crate::pipeline::observer::{Delivery, UopStamps};
use mcad_isa::llvm::{self, build::class_of};
use mcad_isa::machine::Instructions;
use mcad_isa::machine::table::LatencyKind;
use mcad_isa::program::{Instr, flag};
use mcad_isa::x86::build::Described;

/// µops in a timeline at most.
const MAX_TIMELINE: usize = 20_000;

impl Block {
    /// Explains the block; `timeline` iterations get a timeline, and `print` disassembles.
    #[must_use]
    pub fn explain(
        &self,
        options: Options,
        timeline: u32,
        print: &dyn Fn(&Instruction) -> String,
    ) -> Detail {
        let mut simulator = Simulator::new(&self.model);
        let mut cycles_of = |mode| {
            let options = Options { mode, ..options };
            simulator.predict(self, options).cycles
        };
        let (unrolled, looped) = (cycles_of(Mode::Unrolled), cycles_of(Mode::Loop));
        let mode = match options.mode {
            Mode::Auto => self.natural_mode(),
            mode => mode,
        };
        let cycles = if mode == Mode::Loop { looped } else { unrolled };
        let trace = Trace::of(self, mode, options);
        let steady = Steady::new(self, &trace);
        let eliminated: Vec<bool> = steady
            .instructions
            .iter()
            .map(|i| i.eliminated * 2.0 > 1.0)
            .collect();
        // Latencies of the base's table say nothing of an in-order core.
        let chain = longest_chain(self, options.init, &eliminated)
            .filter(|_| self.model.core.in_order.is_none());
        let edges = graph::edges(self, options.init, chain.as_ref());
        let mut limits = bottleneck::limits(self, mode, steady.delivery(), chain.as_ref());
        bottleneck::hold_to(&mut limits, cycles);
        let (bottlenecks, explained) = bottleneck::bottlenecks(&limits, cycles);
        Detail {
            cpu: self.model.name.clone(),
            cpu_full_name: self.model.full_name.clone(),
            unrolled,
            looped,
            mode: if mode == Mode::Loop {
                "loop"
            } else {
                "unrolled"
            },
            cycles,
            bottlenecks,
            explained,
            limits,
            chain,
            edges,
            alignment: self.alignment as u8,
            alignments: Vec::new(),
            approximated: self.approximated(),
            in_order: self.model.core.in_order.is_some(),
            ports: self.model.core.port_names().len(),
            port_names: self.model.core.port_names(),
            instructions: self.instructions(&steady, mode, print),
            timeline: timeline_of(&trace, timeline),
        }
    }

    /// Cycles per iteration at each address modulo [`ALIGNMENTS`].
    #[must_use]
    pub fn over_alignments(self, options: Options) -> Vec<f64> {
        let mut simulator = Simulator::new(&self.model);
        let mut block = self;
        (0..ALIGNMENTS)
            .map(|at| {
                block.alignment = at.into();
                simulator.predict(&block, options).cycles
            })
            .collect()
    }

    fn instructions(
        &self,
        steady: &Steady,
        mode: Mode,
        print: &dyn Fn(&Instruction) -> String,
    ) -> Vec<InstructionDetail> {
        let mut offset = 0;
        let mut all = Vec::with_capacity(self.decoded.len());
        for (n, (decoded, described)) in self.decoded.iter().zip(&self.described).enumerate() {
            let Some(instr) = self.program.instrs.get(n) else {
                break;
            };
            let counts = steady.instructions.get(n).cloned().unwrap_or_default();
            // Latencies and dividers of the base's table say nothing of an in-order core.
            let own = !described.fused_previous && self.model.core.in_order.is_none();
            let notes = self.notes(n, instr, described, offset, mode, &counts);
            all.push(InstructionDetail {
                offset,
                bytes: hex(&decoded.bytes),
                text: print(&decoded.instruction),
                form: (described.form.filter(|_| !described.fused_previous))
                    .map(|f| f.name.to_string()),
                delivered: counts.delivered,
                issued: counts.issued,
                executed: counts.executed,
                port_uops: counts.ports,
                eliminated: counts.eliminated,
                latency: if own { latency(described) } else { None },
                divider: if own { described.perf.div_cycles } else { 0 },
                notes,
            });
            offset += decoded.bytes.len();
        }
        self.other_instructions(steady, &mut all);
        all
    }

    /// The same of AArch64 and RISC-V code.
    fn other_instructions(&self, steady: &Steady, all: &mut Vec<InstructionDetail>) {
        let mut printer = llvm::Printer::default();
        for (n, instruction) in self.others.iter().enumerate() {
            let counts = steady.instructions.get(n).cloned().unwrap_or_default();
            let bytes = instruction.encoded.to_le_bytes();
            let class = match &self.model.instructions {
                Instructions::Llvm { cpu, .. } => class_of(instruction, cpu),
                Instructions::X86(_) => None,
            };
            // Those of the base's table say nothing of an in-order core with classes of its own.
            let in_order = self.model.core.in_order.as_ref();
            let class = class.filter(|_| in_order.is_none_or(|core| core.scheduled));
            let latencies = class.map_or(&[][..], |class| &class.latencies);
            let cycles = || latencies.iter().filter_map(|(c, _)| u16::try_from(*c).ok());
            let doubt = self.borrowed.iter().find(|doubt| doubt.place == n);
            let like = doubt.and_then(|doubt| doubt.borrowed_from.as_ref());
            let notes = held(&counts)
                .chain(like.map(|like| format!("figures of {like}")))
                .collect();
            all.push(InstructionDetail {
                offset: instruction.address as usize,
                bytes: hex(bytes.get(..instruction.len()).unwrap_or(&bytes)),
                text: printer.text(instruction),
                form: Some(instruction.opcode().name.clone()),
                delivered: counts.delivered,
                issued: counts.issued,
                executed: counts.executed,
                port_uops: counts.ports,
                eliminated: 0.0,
                latency: cycles().min().zip(cycles().max()),
                divider: 0,
                notes,
            });
        }
    }

    fn notes(
        &self,
        n: usize,
        instr: &Instr,
        described: &Described,
        offset: usize,
        mode: Mode,
        counts: &Counts,
    ) -> Vec<String> {
        let (eliminated, executed) = (counts.eliminated, counts.executed);
        if let Some(core) = &self.model.core.in_order {
            let like = described.form.and_then(|f| f.approximated_from.as_deref());
            let like = like.filter(|_| core.scheduled);
            return held(counts)
                .chain(like.map(|like| format!("figures of {like}")))
                .collect();
        }
        let mut notes = Vec::new();
        let mut note = |on: bool, text: &str| {
            if on {
                notes.push(text.to_owned());
            }
        };
        note(
            instr.is(flag::FUSED_NEXT | flag::TAKES_NEXT),
            "macro-fused with the next",
        );
        if instr.is(flag::FUSED_PREVIOUS) {
            note(true, "macro-fused with the one before");
            return notes;
        }
        note(
            eliminated > 0.0,
            &if instr.is(flag::ADD_IMMEDIATE) {
                format!("added at rename {:.0} %", eliminated * 100.0)
            } else {
                format!("eliminated {:.0} %", eliminated * 100.0)
            },
        );
        note(
            executed < 0.005 && instr.is(flag::NO_UOPS) && !instr.is(flag::ELIMINABLE),
            "needs no port",
        );
        let last = n + 1 == self.decoded.len();
        note(
            instr.is(flag::BRANCH | flag::FUSED_NEXT) && !last && !self.ends_at(n + 1),
            "counts as not taken",
        );
        note(instr.is(flag::LCP), "length-changing prefix");
        note(instr.microcoded, "microcoded");
        note(
            instr.is(flag::COMPLEX) && !instr.microcoded,
            "first decoder only",
        );
        note(instr.is(flag::EXTRA_SLOT), "two µop-cache entries");
        note(instr.is(flag::SERIALIZING), "serialising");
        let offset = offset + self.alignment as usize;
        let pair = self.decoded.get(n + 1).map_or(0, |d| d.bytes.len());
        let own = self.decoded.get(n).map_or(0, |d| d.bytes.len());
        let end = offset + own + if instr.is(flag::FUSED_NEXT) { pair } else { 0 };
        note(
            mode == Mode::Loop
                && self.model.core.frontend.jcc_erratum
                && instr.is(flag::BRANCH | flag::FUSED_NEXT)
                && offset >> 5 != end >> 5,
            "JCC erratum: not in the µop cache",
        );
        if let Some(like) = described.form.and_then(|f| f.approximated_from.as_deref()) {
            note(true, &format!("figures of {like}"));
        }
        notes
    }
}

impl Block {
    /// Whether the instruction is the second half of a pair, and the last one.
    fn ends_at(&self, n: usize) -> bool {
        let instr = self.program.instrs.get(n);
        n + 1 == self.decoded.len() && instr.is_some_and(|i| i.is(flag::FUSED_PREVIOUS))
    }
}

/// What an instruction of an in-order core waits for, and for how long.
fn held(counts: &Counts) -> impl Iterator<Item = String> {
    let causes = Cause::ALL.iter().map(|cause| cause.name());
    let waits = causes
        .zip(counts.held)
        .chain([("issue width", counts.in_turn)]);
    let waits = waits.filter(|(_, cycles)| *cycles >= 0.005);
    waits.map(|(cause, cycles)| format!("{cause}: {cycles:.2} cycles"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn latency(described: &Described) -> Option<(u16, u16)> {
    let all = || {
        let of_values = |l: &&mcad_isa::machine::table::Latency| l.kind != LatencyKind::Index;
        described.perf.latencies.iter().filter(of_values)
    };
    let least = all().map(|l| l.cycles).min()?;
    let most = all().map(|l| l.cycles).max()?;
    Some((least, most))
}

#[derive(Clone, Debug, Default)]
struct Counts {
    delivered: Delivered,
    issued: f64,
    executed: f64,
    ports: Vec<f64>,
    eliminated: f64,
    /// In order: cycles that it kept all behind it waiting, by cause.
    held: [f64; Cause::ALL.len()],
    /// In order: cycles that it began, all slots of the one before being taken.
    in_turn: f64,
}

/// Averages over the iterations that the throughput is taken from.
struct Steady {
    instructions: Vec<Counts>,
}

impl Steady {
    fn new(block: &Block, trace: &Trace) -> Self {
        let (first, last) = trace.rounds.window().unwrap_or((0, 0));
        // Iterations behind the first up to the last; one when there is no more.
        let (from, to) = if last > first {
            (first as u32 + 1, last as u32)
        } else {
            (first as u32, first as u32)
        };
        let share = 1.0 / f64::from(to - from + 1);
        let ports = block.model.core.port_names().len();
        let empty = Counts {
            ports: vec![0.0; ports],
            ..Counts::default()
        };
        let mut instructions = vec![empty; block.count()];
        let in_window = |e: &&Event| (from..=to).contains(&e.round);
        for event in trace.events.iter().filter(in_window) {
            let Some(counts) = instructions.get_mut(event.instruction as usize) else {
                continue;
            };
            let instr = block.program.instrs.get(event.instruction as usize);
            let uop = block.program.uops.get(event.stamps.uop as usize);
            // An in-order core tells of the first µop only.
            let whole = block.model.core.in_order.is_some();
            let fused = whole || uop.is_none_or(|u| u.ends_fused);
            if fused {
                let d = &mut counts.delivered;
                let place = match event.stamps.source {
                    Delivery::Of(Source::Decoders) => &mut d.decoders,
                    Delivery::Of(Source::UopCache) => &mut d.uop_cache,
                    Delivery::Of(Source::LoopStream) => &mut d.loop_stream,
                    Delivery::Microcode => &mut d.microcode,
                    Delivery::Inserted => &mut d.inserted,
                };
                *place += share;
                counts.issued += share;
            }
            if whole {
                let waited = share * (event.stamps.dispatched - event.stamps.delivered) as f64;
                match event.stamps.held {
                    Some(cause) => counts.held[cause as usize] += waited,
                    None => counts.in_turn += waited,
                }
            }
            match counts.ports.get_mut(usize::from(event.stamps.port)) {
                Some(port) => {
                    *port += share;
                    counts.executed += share;
                }
                None if whole => counts.executed += share,
                None if instr.is_some_and(|i| i.is(flag::ELIMINABLE | flag::ADD_IMMEDIATE)) => {
                    counts.eliminated += share;
                }
                None => {}
            }
        }
        Self { instructions }
    }

    fn delivery(&self) -> bottleneck::Delivery {
        let any =
            |of: fn(&Delivered) -> f64| self.instructions.iter().any(|i| of(&i.delivered) > 0.0);
        bottleneck::Delivery {
            decoders: any(|d| d.decoders),
            uop_cache: any(|d| d.uop_cache),
            loop_stream: any(|d| d.loop_stream),
        }
    }
}

fn timeline_of(trace: &Trace, iterations: u32) -> Vec<TimelineUop> {
    let start = trace.events.first().map_or(0, |e| e.stamps.delivered);
    let uops = trace.events.iter().filter(|e| e.round < iterations);
    uops.take(MAX_TIMELINE)
        .map(|e| {
            let s = e.stamps;
            TimelineUop {
                iteration: e.round,
                instruction: e.instruction,
                inserted: matches!(s.uop, UopStamps::SYNC | UopStamps::MERGE),
                port: (s.port != 0xff).then_some(s.port),
                delivered: s.delivered.saturating_sub(start),
                issued: s.issued.saturating_sub(start),
                ready: s.ready.saturating_sub(start),
                dispatched: s.dispatched.saturating_sub(start),
                executed: s.executed.saturating_sub(start),
                retired: s.retired.saturating_sub(start),
                held: s.held,
            }
        })
        .collect()
}
