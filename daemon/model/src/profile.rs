//! What one pass over an execution collects.
//!
//! A *path* is a run of executed blocks: the last one, and before it as many as make
//! [`CONTEXT`] instructions, which is as far back as an in-order core of [`MAX_WIDTH`] looks. The
//! profile counts how often each path was taken; what depends on neighbouring instructions follows
//! from that exactly, at the cost of a look-up for each block and not for each instruction.
//!
//! [`MAX_WIDTH`]: crate::machine::MAX_WIDTH

use std::io::{Read, Write};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::kind::Kind;

/// Instructions before a block that a path holds at least, unless it has [`MAX_BLOCKS`].
pub const CONTEXT: usize = 24;

/// Most blocks of a path.
pub const MAX_BLOCKS: usize = 8;

/// What the files begin with.
const MAGIC: &[u8; 8] = b"mcadprof";

/// The format's version.
const VERSION: u32 = 1;

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
    /// Blocks of code.
    pub blocks: Vec<Vec<Inst>>,
    /// Paths, the most frequent first.
    pub paths: Vec<Path>,
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
        let mut encoder = zstd::Encoder::new(out, 3)?;
        serde_json::to_writer(&mut encoder, self)?;
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
        Ok(())
    }
}

/// A run of executed code without a jump in it, as far as it was executed.
type Piece = (u32, u32, u32);

/// Collects a profile.
#[derive(Debug, Default)]
pub struct Collector {
    blocks: Vec<Vec<Inst>>,
    /// By place of the block in its session, first and last instruction executed.
    pieces: FxHashMap<Piece, u32>,
    /// The last piece and its number: most often the next one is the same.
    recent: Vec<u32>,
    recent_instructions: usize,
    counts: FxHashMap<[u32; MAX_BLOCKS], u64>,
    instructions: u64,
}

/// No block.
const NONE: u32 = u32::MAX;

impl Collector {
    /// Takes an executed block: instructions `first` to `end` of block `id` of its session;
    /// `make` gives them when they are new. Gives the number of that piece of code.
    pub fn execute(
        &mut self,
        id: u32,
        first: u32,
        end: u32,
        make: impl FnOnce() -> Vec<Inst>,
    ) -> u32 {
        let number = match self.pieces.get(&(id, first, end)) {
            Some(&number) => number,
            None => {
                let number = self.blocks.len() as u32;
                self.blocks.push(make());
                self.pieces.insert((id, first, end), number);
                number
            }
        };
        let len = |number: u32| self.blocks.get(number as usize).map_or(0, Vec::len);
        self.instructions += len(number) as u64;
        // Drop what is not needed as context of this block.
        while let Some(&oldest) = self.recent.first()
            && (self.recent_instructions - len(oldest) >= CONTEXT
                || self.recent.len() >= MAX_BLOCKS)
        {
            self.recent_instructions -= len(oldest);
            self.recent.remove(0);
        }
        self.recent.push(number);
        self.recent_instructions += len(number);
        let mut key = [NONE; MAX_BLOCKS];
        for (place, &block) in key.iter_mut().rev().zip(self.recent.iter().rev()) {
            *place = block;
        }
        *self.counts.entry(key).or_insert(0) += 1;
        number
    }

    /// Another thread goes on.
    pub fn switch(&mut self) {
        self.recent.clear();
        self.recent_instructions = 0;
    }

    /// Ends the execution.
    #[must_use]
    pub fn finish(self, source: String) -> Profile {
        let mut paths: Vec<Path> = self
            .counts
            .into_iter()
            .map(|(key, count)| Path {
                blocks: key.into_iter().filter(|&b| b != NONE).collect(),
                count,
            })
            .collect();
        paths.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.blocks.cmp(&b.blocks)));
        Profile {
            source,
            instructions: self.instructions,
            blocks: self.blocks,
            paths,
        }
    }
}
