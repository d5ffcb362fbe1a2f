//! Throughput of one basic block: the pipeline fed with the block again and again.
//!
//! Two notions (Abel & Reineke, ICS 2022): *unrolled*, the block end to end in memory, so that all
//! µops come through the decoders; and *loop*, the block ending in a branch to its start, in a
//! steady state where the µop cache or the loop stream detector deliver. The result is the rate
//! of retirement over the second half of at least ten iterations and 500 cycles, uiCA's window.

pub mod alias;
pub mod bottleneck;
pub mod dependencies;
pub mod detail;
mod exact;
mod feeding;
mod graph;
mod live;
mod rate;
pub mod rounds;
mod settled;
mod simulator;
mod steps;
mod trace;
mod values;
mod written;

use std::sync::Arc;

use crate::pipeline::inst::{Inst, Source};
pub use alias::Init;
use mcad_isa::build::{Builder, Doubt};
use mcad_isa::code::Code;
use mcad_isa::llvm;
use mcad_isa::machine::CpuModel;
use mcad_isa::program::{Program, Uop, flag};
use mcad_isa::x86::build::{Decoded, Described, decode};
use mcad_proto::event::Arch;
pub use simulator::Simulator;

/// Which notion of throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Loop if the block ends in a branch, else unrolled.
    Auto,
    /// End to end in memory.
    Unrolled,
    /// A loop.
    Loop,
}

/// What may end a simulation before all its cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EarlyEnd {
    /// Nothing.
    Never,
    /// The core's state recurs: the result is the same to the last bit.
    Recurring,
    /// The state recurs, or iterations have settled: the result is nearly always the same.
    Settled,
}

/// How to predict.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Notion of throughput.
    pub mode: Mode,
    /// Assumption about register values at the start.
    pub init: Init,
    /// What may end the simulation early.
    pub early_end: EarlyEnd,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            init: Init::Distinct,
            early_end: EarlyEnd::Settled,
        }
    }
}

/// Why a block cannot be predicted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// No bytes.
    #[error("the block is empty")]
    Empty,
    /// Bytes that are no instruction.
    #[error("no {kind} instruction at byte {offset} ({bytes})")]
    Undecodable {
        /// What it should be: 64-bit, for x86-64, or the instruction set.
        kind: String,
        /// Offset in the block.
        offset: usize,
        /// The bytes there.
        bytes: String,
    },
    /// The table of the CPU lacks an instruction.
    #[error("{cpu} has no figures for '{instruction}'")]
    Unsupported {
        /// CPU model.
        cpu: String,
        /// The instruction.
        instruction: String,
    },
    /// Too long to simulate.
    #[error("the block has {0} instructions; at most {MAX_INSTRUCTIONS} are simulated")]
    TooLong(usize),
}

/// Bytes that are no instruction.
fn undecodable(kind: String, bytes: &[u8], offset: usize) -> BlockError {
    let rest = bytes.get(offset..).unwrap_or(&[]);
    let shown: String = rest.iter().take(15).map(|b| format!("{b:02x}")).collect();
    BlockError::Undecodable {
        kind,
        offset,
        bytes: shown,
    }
}

/// Longest block.
pub const MAX_INSTRUCTIONS: usize = 20_000;

/// Addresses modulo which a block's place can matter: those of a cache line.
pub const ALIGNMENTS: u8 = 64;

/// A prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Cycles per iteration in the steady state.
    pub cycles: f64,
    /// Notion used: [`Mode::Unrolled`] or [`Mode::Loop`].
    pub mode: Mode,
    /// Instructions for which figures of a similar form were used.
    pub approximated: usize,
}

/// A block made ready for one CPU.
pub struct Block {
    model: Arc<CpuModel>,
    program: Program,
    /// Bytes.
    length: u64,
    /// Address of its first byte in the 64 bytes that it begins in.
    alignment: u64,
    /// What is known of each instruction.
    pub described: Vec<Described>,
    /// The instructions; of x86-64.
    pub decoded: Vec<Decoded>,
    /// The instructions, of others.
    pub others: Vec<llvm::Instruction>,
    /// Of these, the ones with figures of something else, and whose.
    borrowed: Vec<Doubt>,
}

impl Block {
    /// Decodes `bytes` and looks their figures up.
    ///
    /// # Errors
    /// [`BlockError`] for bytes that are no block that this CPU can execute.
    pub fn new(model: &Arc<CpuModel>, bytes: &[u8]) -> Result<Self, BlockError> {
        Self::made(&mut Builder::new(model), bytes)
    }

    /// The same by a builder that goes on to other blocks: what they have in common is made once.
    ///
    /// # Errors
    /// As [`Block::new`].
    pub fn made(builder: &mut Builder, bytes: &[u8]) -> Result<Self, BlockError> {
        let model = Arc::clone(builder.model());
        if model.arch() != Arch::X86_64 {
            return Self::of_others(builder, bytes);
        }
        let (decoded, bad) = decode(bytes, 0);
        if let Some(offset) = bad {
            return Err(undecodable("64-bit".into(), bytes, offset));
        }
        if decoded.is_empty() {
            return Err(BlockError::Empty);
        }
        if decoded.len() > MAX_INSTRUCTIONS {
            return Err(BlockError::TooLong(decoded.len()));
        }
        let mut program = Program::default();
        let described = builder.x86().append(&mut program, &decoded);
        if let Some(n) = described
            .iter()
            .position(|d| d.form.is_none() && !d.fused_previous)
        {
            let instruction = decoded
                .get(n)
                .map_or(String::new(), |d| d.instruction.to_string());
            return Err(BlockError::Unsupported {
                cpu: model.name.clone(),
                instruction,
            });
        }
        Ok(Self {
            model,
            program,
            length: bytes.len() as u64,
            alignment: 0,
            described,
            decoded,
            others: Vec::new(),
            borrowed: Vec::new(),
        })
    }

    /// A block of AArch64 or RISC-V code.
    fn of_others(builder: &mut Builder, bytes: &[u8]) -> Result<Self, BlockError> {
        let model = Arc::clone(builder.model());
        let arch = model.arch();
        let (others, bad) = llvm::decode(arch, bytes, 0);
        if let Some(offset) = bad {
            return Err(undecodable(arch.to_string(), bytes, offset));
        }
        if others.is_empty() {
            return Err(BlockError::Empty);
        }
        if others.len() > MAX_INSTRUCTIONS {
            return Err(BlockError::TooLong(others.len()));
        }
        let code: Vec<Code> = others.iter().copied().map(Code::Llvm).collect();
        let mut program = Program::default();
        let borrowed = builder.append(&mut program, &code);
        if let Some(doubt) = borrowed.iter().find(|doubt| doubt.borrowed_from.is_none()) {
            return Err(BlockError::Unsupported {
                cpu: model.name.clone(),
                instruction: doubt.name.clone(),
            });
        }
        Ok(Self {
            model,
            program,
            length: bytes.len() as u64,
            alignment: 0,
            described: Vec::new(),
            decoded: Vec::new(),
            others,
            borrowed,
        })
    }

    /// The same block at an address that is this, modulo 64 ([`ALIGNMENTS`]): where it lies in the
    /// blocks of bytes that are predecoded and kept in the µop cache.
    #[must_use]
    pub const fn aligned(mut self, alignment: u8) -> Self {
        self.alignment = alignment as u64 % ALIGNMENTS as u64;
        self
    }

    /// Its instructions.
    fn count(&self) -> usize {
        self.program.instrs.len()
    }

    /// Fused µops of one iteration.
    #[must_use]
    pub fn fused_uops(&self) -> u64 {
        self.program.instrs.iter().map(|i| u64::from(i.fused)).sum()
    }

    /// The µops that need a port, each with the place of its instruction in [`Block::decoded`].
    pub fn port_uops(&self) -> impl Iterator<Item = (usize, &Uop)> {
        let instrs = self.program.instrs.iter().enumerate();
        instrs.flat_map(|(n, instr)| {
            let uops = dependencies::uops_of(self, instr).iter();
            uops.filter(|u| !u.ports.is_empty()).map(move |u| (n, u))
        })
    }

    /// The notion that [`Mode::Auto`] stands for.
    #[must_use]
    pub fn natural_mode(&self) -> Mode {
        match self.program.instrs.last() {
            Some(last) if last.is(flag::BRANCH) => Mode::Loop,
            _ => Mode::Unrolled,
        }
    }

    /// Predicts the block's throughput; for many blocks a [`Simulator`] is faster.
    #[must_use]
    pub fn predict(&self, options: Options) -> Prediction {
        Simulator::new(&self.model).predict(self, options)
    }

    /// Instructions for which figures of a similar form are used.
    #[must_use]
    pub fn approximated(&self) -> usize {
        let approximated = |d: &&Described| d.form.is_some_and(|f| f.approximated_from.is_some());
        self.described.iter().filter(approximated).count() + self.borrowed.len()
    }

    fn decoded_only(&self) -> impl Iterator<Item = u32> + '_ {
        self.program
            .instrs
            .iter()
            .enumerate()
            .filter(|(_, i)| !i.is(flag::FUSED_PREVIOUS))
            .map(|(n, _)| n as u32)
    }

    /// Whether the µop cache holds as much straight code of the block as measurements run.
    fn straight_is_cached(&self) -> bool {
        let p = &self.model.core.frontend;
        let block_bytes = u64::from(p.uop_cache_block_bytes.max(1));
        if p.uop_cache_straight_bytes == 0 || self.length == 0 {
            return false;
        }
        // After so many copies they lie as at the start.
        let copies = block_bytes
            >> self
                .length
                .trailing_zeros()
                .min(block_bytes.trailing_zeros());
        let (mut address, mut lines, mut left, mut room) = (self.alignment, 0, 0, 0);
        let mut code_block = u64::MAX;
        for _ in 0..copies {
            for instr in &self.program.instrs {
                if address / block_bytes != code_block && !p.uop_cache_lines_flow {
                    code_block = address / block_bytes;
                    (left, room) = (0, 0);
                }
                address += u64::from(instr.len);
                if instr.is(flag::FUSED_PREVIOUS) {
                    continue;
                }
                let entries = match p.uop_cache_whole_instructions {
                    true => 1,
                    false => u64::from(instr.uops_mite.max(1)),
                };
                let constants = match p.uop_cache_constants {
                    0 => 0,
                    _ => u32::from(instr.constants),
                };
                let taken_room = p.constants_taken(left as i32 - entries as i32);
                if entries > left || constants + taken_room > room {
                    lines += 1;
                    left = u64::from(p.uop_cache_line_entries);
                    room = p.uop_cache_constants;
                }
                room = room.saturating_sub(constants);
                left = left.saturating_sub(entries);
            }
        }
        let all = lines * u64::from(p.uop_cache_straight_bytes) / (copies * self.length);
        all <= u64::from(p.uop_cache_sets) * u64::from(p.uop_cache_ways)
    }

    /// Copies per refill when the loop stream detector can take the block as a loop.
    fn loop_stream_copies(&self) -> Option<u32> {
        let p = &self.model.core.frontend;
        let uops: u32 = self
            .program
            .instrs
            .iter()
            .map(|i| u32::from(i.laminated_len))
            .sum();
        if !p.loop_stream
            || uops > p.idq
            || !self.program.instrs.iter().all(|i| i.is(flag::LOOP_STREAM))
        {
            return None;
        }
        let mut queue = crate::pipeline::frontend::fetch::FetchQueue::new(&self.model, true);
        for _ in 0..2 {
            let mut address = self.alignment;
            for (n, instr) in self.program.instrs.iter().enumerate() {
                queue.push(&self.program, Inst::new(n as u32, address), &[]);
                address += u64::from(instr.len);
            }
        }
        let cacheable = (0..self.count() as u64)
            .all(|n| queue.get(n).is_some_and(|i| i.source == Source::UopCache));
        cacheable.then(|| p.loop_stream_copies(uops))
    }
}
