//! Columns to record words: the mirror image of [`super::encode`].

use super::column::{Bad, Cursor, unzigzag};
use super::encode::Token;
use super::predict::{ADDRESS, NONE, Position, Predictor};
use crate::word::{BlockId, TAG_ACCESS, TAG_SHIFT, block_word};

const MAX_KIND: u64 = 0x1fff;

/// State of a chunk that is being read.
#[derive(Default)]
pub(super) struct Decoder {
    pub control: Cursor,
    pub address: Cursor,
    pub detail: Cursor,
    predictor: Predictor,
    /// Expected words still to come before `token`.
    run: u8,
    /// What comes after the run.
    token: u8,
    streams: Vec<(u32, Position)>,
}

impl Decoder {
    /// Starts a chunk whose columns are these.
    pub fn start(&mut self, control: Cursor, address: Cursor, detail: Cursor) {
        self.control = control;
        self.address = address;
        self.detail = detail;
        self.predictor.clear();
        self.run = 0;
        self.token = Token::None as u8;
        self.streams.clear();
    }

    /// Whether everything was used.
    pub fn is_done(&self) -> bool {
        self.control.is_empty()
            && self.address.is_empty()
            && self.detail.is_empty()
            && self.run == 0
            && self.token == Token::None as u8
    }

    /// Appends exactly `count` words of a stream to `out`.
    pub fn words(
        &mut self,
        data: &[u8],
        stream: u32,
        count: usize,
        out: &mut Vec<u64>,
    ) -> Result<(), Bad> {
        let slot = match self.streams.iter().position(|(s, _)| *s == stream) {
            Some(slot) => slot,
            None => {
                self.streams.push((stream, Position::START));
                self.streams.len() - 1
            }
        };
        let mut at = self.streams[slot].1;
        let mut left = count;
        while left > 0 {
            if self.run > 0 {
                let run = usize::from(self.run).min(left);
                for _ in 0..run {
                    let word = self.expected(data, &mut at)?;
                    out.push(word);
                }
                self.run -= run as u8;
                left -= run;
            } else if self.token == Token::None as u8 {
                let control = self.control.byte(data)?;
                self.run = control >> 3;
                self.token = control & 7;
            } else {
                let token = std::mem::replace(&mut self.token, Token::None as u8);
                let word = self.surprise(data, token, &mut at)?;
                out.push(word);
                left -= 1;
            }
        }
        self.streams[slot].1 = at;
        Ok(())
    }

    #[inline]
    fn expected(&mut self, data: &[u8], at: &mut Position) -> Result<u64, Bad> {
        if let Some(slot) = self.predictor.expected_access(*at) {
            let miss = unzigzag(self.address.varint(data)?);
            let address = slot.expected().wrapping_add(miss as u64) & ADDRESS;
            let word = slot.word & !ADDRESS | address;
            slot.update(word);
            self.predictor.accessed(word);
            at.accesses += 1;
            return Ok(word);
        }
        let [next, _] = self.predictor.next(*at);
        self.enter(next, at)
    }

    #[inline]
    fn enter(&mut self, local: u32, at: &mut Position) -> Result<u64, Bad> {
        let Some(word) = self.predictor.word(local) else {
            return Err(Bad("a block that the chunk does not name"));
        };
        *at = Position {
            block: local,
            accesses: 0,
        };
        Ok(word)
    }

    fn surprise(&mut self, data: &[u8], token: u8, at: &mut Position) -> Result<u64, Bad> {
        let next = self.predictor.next(*at);
        let local = match token {
            t if t == Token::Access as u8 => return self.surprising_access(data, at),
            t if t == Token::Next as u8 => next[0],
            t if t == Token::Other as u8 => next[1],
            t if t == Token::Known as u8 => {
                u32::try_from(self.detail.varint(data)?).unwrap_or(NONE)
            }
            t if t == Token::New as u8 => {
                let id = u32::try_from(self.detail.varint(data)?)
                    .map_err(|_| Bad("a block id is too large"))?;
                self.predictor.add(block_word(BlockId(id)))
            }
            t if t == Token::Raw as u8 => {
                let bytes = self.detail.bytes(data, 8)?;
                let mut word = [0; 8];
                word.copy_from_slice(bytes);
                return Ok(u64::from_le_bytes(word));
            }
            _ => return Err(Bad("an unknown token")),
        };
        let from = *at;
        let word = self.enter(local, at)?;
        self.predictor.followed(from, local);
        Ok(word)
    }

    fn surprising_access(&mut self, data: &[u8], at: &mut Position) -> Result<u64, Bad> {
        let kind = self.detail.varint(data)?;
        if kind > MAX_KIND {
            return Err(Bad("an unknown kind of access"));
        }
        let miss = unzigzag(self.address.varint(data)?);
        let Some(slot) = self.predictor.surprise(*at) else {
            return Err(Bad("an access outside of a block"));
        };
        let address = slot.expected().wrapping_add(miss as u64) & ADDRESS;
        let word = TAG_ACCESS << TAG_SHIFT | kind << 48 | address;
        slot.update(word);
        self.predictor.accessed(word);
        at.accesses += 1;
        Ok(word)
    }
}
