//! A basic block explained: what `mcad block` shows. Figures are cycles and µops per iteration in
//! the steady state unless said otherwise.

use serde::Serialize;

use crate::Cause;

/// Everything about one block on one CPU.
#[derive(Clone, Debug, Serialize)]
pub struct Detail {
    /// Short name of the CPU.
    pub cpu: String,
    /// Full name of the CPU.
    pub cpu_full_name: String,
    /// Cycles per iteration end to end in memory.
    pub unrolled: f64,
    /// Cycles per iteration as a loop.
    #[serde(rename = "loop")]
    pub looped: f64,
    /// The notion that the rest is about: `unrolled` or `loop`.
    pub mode: &'static str,
    /// Cycles per iteration in that notion.
    pub cycles: f64,
    /// Parts that bound the block.
    pub bottlenecks: Vec<Part>,
    /// Whether their bounds explain the cycles; else they are only the nearest.
    pub explained: bool,
    /// The bound of every part.
    pub limits: Vec<Limit>,
    /// The longest loop-carried chain; absent for blocks too large to look for it.
    pub chain: Option<Chain>,
    /// Which instruction depends on which; empty for blocks too large to look at.
    pub edges: Vec<Edge>,
    /// The block's address, modulo 64.
    pub alignment: u8,
    /// Cycles per iteration in the notion of `mode` at each address modulo 64, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alignments: Vec<f64>,
    /// Instructions for which figures of a similar form were used.
    pub approximated: usize,
    /// The core issues in order.
    #[serde(default)]
    pub in_order: bool,
    /// Number of ports of the CPU.
    pub ports: usize,
    /// Their names.
    pub port_names: Vec<String>,
    /// The instructions.
    pub instructions: Vec<InstructionDetail>,
    /// µops of the first iterations.
    pub timeline: Vec<TimelineUop>,
}

/// µops per iteration of one instruction by where they were delivered from, fused domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Delivered {
    /// Decoders.
    pub decoders: f64,
    /// µop cache.
    pub uop_cache: f64,
    /// Loop stream detector.
    pub loop_stream: f64,
    /// Microcode sequencer.
    pub microcode: f64,
    /// Put in by the stack engine or to merge registers.
    pub inserted: f64,
}

/// One instruction in the steady state; all figures are averages per iteration.
#[derive(Clone, Debug, Serialize)]
pub struct InstructionDetail {
    /// Offset in the block.
    pub offset: usize,
    /// Its bytes in hexadecimal.
    pub bytes: String,
    /// Disassembly.
    pub text: String,
    /// uops.info's name of the form; absent for the second half of a macro-fused pair.
    pub form: Option<String>,
    /// Where its µops came from.
    pub delivered: Delivered,
    /// Fused µops issued.
    pub issued: f64,
    /// µops executed on ports.
    pub executed: f64,
    /// µops executed per port.
    pub port_uops: Vec<f64>,
    /// Share of executions in which rename did all of it: a move, or an addition of an immediate.
    pub eliminated: f64,
    /// Least and largest latency between operands, from the table.
    pub latency: Option<(u16, u16)>,
    /// Cycles for which it keeps the divider.
    pub divider: u16,
    /// What is special about it.
    pub notes: Vec<String>,
}

/// One µop of the timeline. Cycles count from the first delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimelineUop {
    /// Iteration, from 0.
    pub iteration: u32,
    /// Instruction of the block, from 0.
    pub instruction: u32,
    /// Not the instruction's own: put in before it.
    pub inserted: bool,
    /// Port, absent when none was needed.
    pub port: Option<u8>,
    /// Added to the instruction decode queue.
    pub delivered: u64,
    /// Renamed and allocated.
    pub issued: u64,
    /// All inputs there.
    pub ready: u64,
    /// Sent to its port.
    pub dispatched: u64,
    /// Done.
    pub executed: u64,
    /// Left the re-order buffer.
    pub retired: u64,
    /// In order: what kept it from issuing behind the one before, if anything did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Cause>,
}

/// The bound that one part sets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// The part.
    pub part: Part,
    /// Cycles per iteration if it were the only one.
    pub cycles: f64,
    /// The block's way through the core leads through this part.
    pub used: bool,
    /// Where the figure comes from.
    pub evidence: String,
    /// Instructions of the block that make up the bound, where it is not all of them.
    pub instructions: Vec<u32>,
}

/// A part of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Finding instruction boundaries.
    Predecoder,
    /// Decoders.
    Decoders,
    /// Delivery from the µop cache.
    UopCache,
    /// Replay by the loop stream detector.
    LoopStream,
    /// Rename and allocation.
    Issue,
    /// Execution ports.
    Ports,
    /// The unit for divisions and square roots, and forms that do not overlap.
    Divider,
    /// An instruction that does not overlap with itself.
    Throughput,
    /// The longest loop-carried chain.
    Dependencies,
    /// Retirement.
    Retirement,
}

/// The longest chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chain {
    /// Cycles per iteration; 0 when nothing is carried from iteration to iteration.
    pub cycles: f64,
    /// Iterations that the chain spans before it closes.
    pub iterations: u32,
    /// The instructions on it, in order of execution.
    pub steps: Vec<ChainStep>,
}

/// An instruction on the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainStep {
    /// Instruction of the block, from 0.
    pub instruction: u32,
    /// Cycles that it adds.
    pub cycles: u64,
}

/// What an instruction needs of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// The instruction whose result it is, from 0.
    pub from: u32,
    /// The instruction that needs it.
    pub to: u32,
    /// Iterations between the two: 0 for the same one.
    pub carried: u32,
    /// Registers and flags; `memory` for what is stored and loaded.
    pub through: Vec<String>,
    /// On the longest chain.
    pub critical: bool,
}
