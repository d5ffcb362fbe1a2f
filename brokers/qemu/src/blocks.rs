//! The session's blocks: what the processes' own block ids mean.
//!
//! Each ring has ids of its own. The same code at the same place of the same file and at the same
//! address is one block of the session, whichever process translated it: processes that run the
//! same program share its blocks, and ids stay few however many processes come and go.

use std::collections::HashMap;
use std::ops::Range;

use mcad_proto::word::{TAG_BLOCK, tag_of};

/// A file that code is from, in a process; code without a file has none.
#[derive(Clone, Debug)]
struct Module {
    path: u32,
    range: Range<u64>,
    file_offset: u64,
}

/// What tells blocks apart.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    /// Number of the file's path and offset in it.
    place: Option<(u32, u64)>,
    address: u64,
    instructions: u16,
    code: Box<[u8]>,
}

/// Blocks of the session.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    ids: HashMap<Key, u32>,
    paths: HashMap<String, u32>,
}

/// Most modules of one process that are looked through; those that came first are forgotten.
const MAX_MODULES: usize = 1 << 14;

/// What one process knows: its modules, and the session's id of each of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    modules: Vec<Module>,
    ids: Vec<u32>,
    /// Somewhere an id is not the session's.
    differ: bool,
}

impl Known {
    /// What a process that begins as a copy has: everything, and the first `blocks` ids. `None` when
    /// there are not so many.
    pub(crate) fn fork(&self, blocks: u32) -> Option<Self> {
        let ids = self.ids.get(..blocks as usize)?;
        Some(Self {
            modules: self.modules.clone(),
            ids: ids.to_vec(),
            // Its later ids need not be its parent's.
            differ: true,
        })
    }

    /// The id that the process must give to its next block.
    pub(crate) fn next(&self) -> u32 {
        self.ids.len() as u32
    }

    /// A file is mapped, over what was there.
    pub(crate) fn map(
        &mut self,
        blocks: &mut Blocks,
        path: &str,
        range: Range<u64>,
        file_offset: u64,
    ) {
        let next = blocks.paths.len() as u32;
        let path = match blocks.paths.get(path) {
            Some(path) => *path,
            None => *blocks.paths.entry(path.to_owned()).or_insert(next),
        };
        if self.modules.len() >= MAX_MODULES {
            self.modules.drain(..MAX_MODULES / 2);
        }
        self.modules.push(Module {
            path,
            range,
            file_offset,
        });
    }

    /// Passes over a definition whose block is never named.
    pub(crate) fn pass(&mut self) {
        self.ids.push(0);
    }

    /// The process defines its next block. Gives the session's id, and whether it is new.
    pub(crate) fn define(
        &mut self,
        blocks: &mut Blocks,
        address: u64,
        instructions: u16,
        code: &[u8],
    ) -> (u32, bool) {
        let here = |module: &&Module| module.range.contains(&address);
        let module = self.modules.iter().rev().find(here);
        let key = Key {
            place: module.map(|module| {
                let offset = module
                    .file_offset
                    .wrapping_add(address - module.range.start);
                (module.path, offset)
            }),
            address,
            instructions,
            code: code.into(),
        };
        let next = blocks.ids.len() as u32;
        let id = *blocks.ids.entry(key).or_insert(next);
        self.differ |= id != self.next();
        self.ids.push(id);
        (id, id == next)
    }

    /// Makes the session's words of the process's. False for a block that it never defined.
    pub(crate) fn translate(&self, words: &mut [u64]) -> bool {
        if !self.differ {
            return true;
        }
        for word in words {
            if tag_of(*word) == TAG_BLOCK {
                let Some(id) = self.ids.get(*word as u32 as usize) else {
                    return false;
                };
                *word = *word & !u64::from(u32::MAX) | u64::from(*id);
            }
        }
        true
    }
}
