//! Keeps the event stream consistent behind damage.
//!
//! A lost chunk takes block definitions and starts of streams with it. Behind it, definitions come
//! from the chunks' recall columns, ids are made dense again, streams whose start was lost are
//! started, and records that belong to nothing known (the rest of a block execution that began in
//! the lost chunk) are dropped and counted: consumers see a stream that keeps its promises.

use std::collections::HashMap;

use crate::word::{StreamId, TAG_ACCESS, TAG_BLOCK, tag_of};

/// What was delivered so far, and what the ids of the file mean in the delivered stream.
#[derive(Default)]
pub(super) struct Mender {
    /// Whether there was damage; before, nothing needs to change.
    damaged: bool,
    /// Delivered id of each id of the file; filled from the start, used after damage. A map, since
    /// a damaged or made-up file may name any ids.
    ids: HashMap<u32, u32>,
    defined: u32,
    streams: Vec<Stream>,
    /// Words dropped since the last [`Mender::take_dropped`].
    dropped: u64,
}

struct Stream {
    id: StreamId,
    /// The stream's accesses belong to a block that was lost.
    dropping: bool,
}

impl Mender {
    /// Notes damage: what follows may refer to what was lost.
    pub fn damage(&mut self) {
        self.damaged = true;
        for stream in &mut self.streams {
            stream.dropping = true;
        }
    }

    /// The id to deliver for a definition.
    pub fn define(&mut self, id: u32) -> u32 {
        let dense = if self.damaged { self.defined } else { id };
        self.defined = self.defined.max(dense.saturating_add(1));
        self.ids.insert(id, dense);
        dense
    }

    /// Whether there was damage.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Whether a definition that a chunk repeats is needed: its own was lost.
    pub fn needs_block(&self, id: u32) -> bool {
        self.damaged && !self.ids.contains_key(&id)
    }

    pub fn start(&mut self, id: StreamId) {
        if !self.streams.iter().any(|s| s.id == id) {
            self.streams.push(Stream {
                id,
                dropping: self.damaged,
            });
        }
    }

    /// Whether a stream has records though its start was not seen; only after damage.
    pub fn needs_start(&self, id: StreamId) -> bool {
        self.damaged && !self.streams.iter().any(|s| s.id == id)
    }

    /// Whether to deliver a stream's end: not when its start was lost and it had no records.
    pub fn ends(&self, id: StreamId) -> bool {
        !self.needs_start(id)
    }

    /// Makes the words of one stream consistent.
    pub fn words(&mut self, id: StreamId, words: &mut Vec<u64>) {
        if !self.damaged {
            return;
        }
        let Some(stream) = self.streams.iter_mut().find(|s| s.id == id) else {
            return;
        };
        let before = words.len();
        let ids = &self.ids;
        words.retain_mut(|word| match tag_of(*word) {
            TAG_BLOCK => {
                let known = ids.get(&(*word as u32));
                stream.dropping = known.is_none();
                if let Some(id) = known {
                    *word = *word & !u64::from(u32::MAX) | u64::from(*id);
                }
                !stream.dropping
            }
            TAG_ACCESS => !stream.dropping,
            // Words of no meaning are the consumer's business, damage or not.
            _ => true,
        });
        self.dropped += (before - words.len()) as u64;
    }

    /// Words dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}
