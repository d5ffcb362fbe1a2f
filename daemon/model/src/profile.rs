//! What one pass over an execution collects.
//!
//! A *path* is a run of executed blocks: the last one, and before it as many as make
//! [`CONTEXT`] instructions, which is as far back as an in-order core of [`MAX_WIDTH`] looks. The
//! profile counts how often each path was taken; what depends on neighbouring instructions follows
//! from that exactly, at the cost of a look-up for each block and not for each instruction.
//!
//! What depends on more than neighbours (misses of caches and branch predictors) is counted at the
//! instruction that it befalls, for all sizes and predictors at once ([`events`](crate::events)).
//!
//! [`MAX_WIDTH`]: crate::machine::MAX_WIDTH

use std::io::{Read, Write};

use mcad_isa::llvm;
use serde::{Deserialize, Serialize};

use crate::events::Site;
use crate::kind::Kind;
use crate::stretches::Stretch;

/// Instructions before a block that a path holds at least, unless it has [`MAX_BLOCKS`].
pub const CONTEXT: usize = 24;

/// Most blocks of a path.
pub const MAX_BLOCKS: usize = 8;

/// What the files begin with.
const MAGIC: &[u8; 8] = b"mcadprof";

/// The format's version.
const VERSION: u32 = 4;

/// Largest size of a profile, uncompressed.
const MAX_BYTES: u64 = 1 << 30;

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inst {
    /// Its kind.
    pub kind: Kind,
    /// Registers that it reads.
    pub reads: Vec<u8>,
    /// Registers that it writes.
    pub writes: Vec<u8>,
}

impl Inst {
    /// An instruction of A64 or RISC-V, by what LLVM says of it.
    #[must_use]
    pub fn of_llvm(instruction: &llvm::Instruction) -> Self {
        let registers = |writes: bool| {
            let all = llvm::build::registers_of(instruction, writes);
            all.into_iter().map(|register| register.0).collect()
        };
        Self {
            kind: llvm::kind::kind(instruction),
            reads: registers(false),
            writes: registers(true),
        }
    }
}

/// Bytes of instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes(#[serde(with = "hex::serde")] pub Vec<u8>);

/// How often a path was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// Its blocks; the last one is what is counted.
    pub blocks: Vec<u32>,
    /// How often.
    pub count: u64,
}

/// A profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Where it is from.
    pub source: String,
    /// Instructions executed.
    pub instructions: u64,
    /// Name of the instruction set of [`Profile::code`]; none where that is not kept.
    pub arch: Option<String>,
    /// Blocks of code.
    pub blocks: Vec<Vec<Inst>>,
    /// Their bytes; none where there is no instruction set.
    pub code: Vec<Bytes>,
    /// How often each was executed.
    pub executions: Vec<u64>,
    /// Instructions that something befell.
    pub sites: Vec<Site>,
    /// Paths, the most frequent first.
    pub paths: Vec<Path>,
    /// Stretches of the execution.
    pub stretches: Vec<Stretch>,
}

/// Why a profile cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file is none.
    #[error("not a profile of `mcad model profile`")]
    Magic,
    /// The file is of another version.
    #[error("a profile of version {0}, and this program reads version {VERSION}: profile anew")]
    Version(u32),
    /// The file names a block that it does not have, or counts that do not add up.
    #[error("the profile contradicts itself: {0}")]
    Broken(String),
    /// Its content is damaged.
    #[error("damaged profile: {0}")]
    Content(#[from] serde_json::Error),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Profile {
    /// Writes a profile.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write(&self, mut out: impl Write) -> Result<(), ProfileError> {
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        let encoder = zstd::Encoder::new(out, 3)?;
        let mut buffered = std::io::BufWriter::new(encoder);
        serde_json::to_writer(&mut buffered, self)?;
        let encoder = buffered.into_inner().map_err(|e| e.into_error())?;
        encoder.finish()?.flush()?;
        Ok(())
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// When it is none, damaged or of another version.
    pub fn read(mut from: impl Read) -> Result<Self, ProfileError> {
        let mut head = [0; 12];
        from.read_exact(&mut head)
            .map_err(|_| ProfileError::Magic)?;
        let (magic, version) = head.split_at(8);
        if magic != MAGIC {
            return Err(ProfileError::Magic);
        }
        let version = u32::from_le_bytes(version.try_into().unwrap_or_default());
        if version != VERSION {
            return Err(ProfileError::Version(version));
        }
        let decoder = zstd::Decoder::new(from)?.take(MAX_BYTES);
        let profile: Self = serde_json::from_reader(std::io::BufReader::new(decoder))?;
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), ProfileError> {
        let broken = |what: &str| Err(ProfileError::Broken(what.to_owned()));
        let mut instructions = 0u64;
        for path in &self.paths {
            let mut last = None;
            for &block in &path.blocks {
                last = self.blocks.get(block as usize);
                if last.is_none() {
                    return broken("a path has a block that is not there");
                }
            }
            let Some(last) = last else {
                return broken("a path has no block");
            };
            let of_path = path.count.checked_mul(last.len() as u64);
            match of_path.and_then(|n| instructions.checked_add(n)) {
                Some(sum) => instructions = sum,
                None => return broken("counts overflow"),
            }
        }
        if instructions != self.instructions {
            return broken("its paths have not as many instructions as it says");
        }
        if self.arch.is_some() && self.code.len() != self.blocks.len() {
            return broken("it has not the bytes of each block");
        }
        if self.executions.len() != self.blocks.len() {
            return broken("it has not one count of executions for each block");
        }
        for site in &self.sites {
            let block = self.blocks.get(site.block as usize);
            if block.is_none_or(|b| b.len() <= site.instruction as usize) {
                return broken("something befell an instruction that is not there");
            }
        }
        for Stretch { order, .. } in &self.stretches {
            if order
                .pieces
                .iter()
                .any(|&p| p as usize >= self.blocks.len())
            {
                return broken("a stretch has a block that is not there");
            }
            let executions = order.events.iter().map(|e| e.execution);
            if !executions.is_sorted() {
                return broken("what befell a stretch is not in order");
            }
        }
        Ok(())
    }
}
