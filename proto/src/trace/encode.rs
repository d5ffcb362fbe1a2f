//! Record words to columns.
//!
//! `control`: one byte per surprise: how many words before it had the expected kind (5 bits), and
//! what came instead ([`Token`], 3 bits). `address`: per access, how far its address is from the
//! expected one. `detail`: block numbers, access kinds and raw words, as the tokens need them.

use super::column::{put_varint, zigzag};
use super::predict::{NONE, Position, Predictor, difference};
use crate::word::{TAG_ACCESS, TAG_BLOCK, TAG_SHIFT, tag_of};

/// What ends a run of expected words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Token {
    /// An access of another kind than expected, or where a block was; `detail`: bits 48..61.
    Access = 0,
    /// The block that followed last, earlier than expected.
    Next = 1,
    /// The block that followed last but one.
    Other = 2,
    /// A block of this chunk; `detail`: its local number.
    Known = 3,
    /// A block that is new in this chunk; `detail`: its id.
    New = 4,
    /// A word that fits nowhere; `detail`: its 8 bytes.
    Raw = 5,
    /// Nothing: the run goes on, or the records end here.
    None = 7,
}

/// Longest run in one control byte.
const MAX_RUN: u8 = 31;

const KIND_SHIFT: u32 = 48;
/// Bits of the access kind: index, store, size.
const KIND_BITS: u64 = 0x1fff;

/// The columns of a chunk and what it takes to fill them.
#[derive(Default)]
pub(super) struct Encoder {
    pub control: Vec<u8>,
    pub address: Vec<u8>,
    pub detail: Vec<u8>,
    predictor: Predictor,
    /// Local number of each defined block id, with the chunk's epoch: no clearing per chunk.
    locals: Vec<Local>,
    epoch: u32,
    run: u8,
    streams: Vec<(u32, Position)>,
    /// Ids of the blocks that the chunk names.
    pub used: Vec<u32>,
    pub counts: Counts,
}

#[derive(Clone, Copy)]
struct Local {
    epoch: u32,
    local: u32,
    instructions: u16,
}

/// Totals of what was encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub words: u64,
    pub blocks: u64,
    pub accesses: u64,
    pub instructions: u64,
}

impl Encoder {
    /// Makes a block id known and returns true; ids are defined in order, others are written as
    /// raw words.
    pub fn define(&mut self, id: u32, instructions: u16) -> bool {
        let in_order = id as usize == self.locals.len();
        if in_order {
            self.locals.push(Local {
                epoch: self.epoch.wrapping_sub(1),
                local: 0,
                instructions,
            });
        }
        in_order
    }

    /// Starts a new chunk.
    pub fn clear(&mut self) {
        self.control.clear();
        self.address.clear();
        self.detail.clear();
        self.predictor.clear();
        self.streams.clear();
        self.used.clear();
        self.epoch = self.epoch.wrapping_add(1);
        self.run = 0;
    }

    /// Bytes of the columns.
    pub fn len(&self) -> usize {
        self.control.len() + self.address.len() + self.detail.len()
    }

    /// Encodes words of one stream.
    pub fn words(&mut self, stream: u32, words: &[u64]) {
        let slot = match self.streams.iter().position(|(s, _)| *s == stream) {
            Some(slot) => slot,
            None => {
                self.streams.push((stream, Position::START));
                self.streams.len() - 1
            }
        };
        let mut at = self.streams[slot].1;
        for &word in words {
            self.word(&mut at, word);
        }
        if self.run > 0 {
            self.token(Token::None);
        }
        self.streams[slot].1 = at;
        self.counts.words += words.len() as u64;
    }

    #[inline]
    fn word(&mut self, at: &mut Position, word: u64) {
        match tag_of(word) {
            TAG_ACCESS => self.access(at, word),
            TAG_BLOCK => self.block(at, word),
            _ => self.raw(word),
        }
    }

    #[inline]
    fn access(&mut self, at: &mut Position, word: u64) {
        self.counts.accesses += 1;
        if let Some(slot) = self.predictor.expected_access(*at)
            && (slot.word ^ word) >> KIND_SHIFT == 0
        {
            let miss = difference(word, slot.expected());
            slot.update(word);
            put_varint(&mut self.address, zigzag(miss));
            self.expected();
        } else if at.block == NONE {
            self.raw(word);
            return;
        } else {
            self.token(Token::Access);
            put_varint(&mut self.detail, (word >> KIND_SHIFT) & KIND_BITS);
            if let Some(slot) = self.predictor.surprise(*at) {
                let miss = difference(word, slot.expected());
                slot.update(word);
                put_varint(&mut self.address, zigzag(miss));
            }
        }
        self.predictor.accessed(word);
        at.accesses += 1;
    }

    #[inline]
    fn block(&mut self, at: &mut Position, word: u64) {
        let id = word & !(7 << TAG_SHIFT);
        let Some(known) = self.locals.get_mut(id as usize) else {
            self.raw(word);
            return;
        };
        self.counts.blocks += 1;
        self.counts.instructions += u64::from(known.instructions);
        let new = known.epoch != self.epoch;
        if new {
            known.epoch = self.epoch;
            known.local = self.predictor.add(word);
            self.used.push(id as u32);
        }
        let local = known.local;
        let next = self.predictor.next(*at);
        if next[0] == local && self.predictor.expected_access(*at).is_none() {
            self.expected();
        } else {
            self.other_block(new, local, id, next);
            self.predictor.followed(*at, local);
        }
        *at = Position {
            block: local,
            accesses: 0,
        };
    }

    fn other_block(&mut self, new: bool, local: u32, id: u64, next: [u32; 2]) {
        if new {
            self.token(Token::New);
            put_varint(&mut self.detail, id);
        } else if next[0] == local {
            self.token(Token::Next);
        } else if next[1] == local {
            self.token(Token::Other);
        } else {
            self.token(Token::Known);
            put_varint(&mut self.detail, local.into());
        }
    }

    fn raw(&mut self, word: u64) {
        self.token(Token::Raw);
        self.detail.extend_from_slice(&word.to_le_bytes());
    }

    #[inline]
    fn expected(&mut self) {
        self.run += 1;
        if self.run == MAX_RUN {
            self.token(Token::None);
        }
    }

    #[inline]
    fn token(&mut self, token: Token) {
        self.control.push(self.run << 3 | token as u8);
        self.run = 0;
    }
}
