//! The definitions so far, so that a chunk can repeat those that it needs.
//!
//! A chunk's recall column defines again every block that its records name and that an earlier
//! chunk defined. A reader needs it only behind damage, or to begin in the middle of a file.

use std::ops::Range;

use super::CHUNK_BYTES;
use super::small::{self, Previous};
use crate::event::{BlockDef, Event};
use crate::word::{BlockId, GuestAddr};

#[derive(Default)]
pub(super) struct Library {
    /// By id.
    blocks: Vec<Kept>,
    code: Vec<u8>,
    /// First id that the current chunk defined.
    fresh: u32,
    column: Vec<u8>,
}

struct Kept {
    address: GuestAddr,
    instructions: u16,
    code: Range<usize>,
}

impl Library {
    /// Keeps a definition; ids come in order.
    pub fn add(&mut self, block: &BlockDef<'_>) {
        let from = self.code.len();
        self.code.extend_from_slice(block.bytes);
        self.blocks.push(Kept {
            address: block.address,
            instructions: block.instructions,
            code: from..self.code.len(),
        });
    }

    /// The recall column of a chunk that names these blocks; the next chunk begins then.
    pub fn recall(&mut self, used: &mut [u32]) -> &[u8] {
        self.column.clear();
        // In order, ids and addresses are close to each other.
        used.sort_unstable();
        let mut previous = Previous::default();
        for id in used.iter().copied().filter(|id| *id < self.fresh) {
            if self.column.len() > CHUNK_BYTES {
                // Beyond any real program; the rest is only redundancy.
                break;
            }
            if let Some(kept) = self.blocks.get(id as usize) {
                let block = Event::Block(BlockDef {
                    id: BlockId(id),
                    address: kept.address,
                    instructions: kept.instructions,
                    bytes: &self.code[kept.code.clone()],
                });
                small::put_event(&block, &mut previous, &mut self.column);
            }
        }
        self.fresh = self.blocks.len() as u32;
        &self.column
    }
}
