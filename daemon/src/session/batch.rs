//! Events on their way from the feeder to the simulation thread: bounded, so that a queue of n
//! batches is bounded in bytes.

use mcad_proto::batch::EventBatch;
use mcad_proto::event::Event;
use mcad_proto::word::StreamId;

/// Record words in one batch at most (512 KiB).
pub(super) const MAX_WORDS: usize = 1 << 16;
/// Bytes of code in one batch; the last block may go beyond by its own size.
const MAX_CODE: usize = 1 << 18;
/// Events in one batch.
const MAX_ITEMS: usize = 1 << 12;
/// Bytes of text in one batch; the last event may go beyond by its own.
const MAX_TEXT: usize = 1 << 18;

/// A bounded number of events in order.
#[derive(Debug, Default)]
pub(super) struct Batch(EventBatch);

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that the batch carries.
    pub(super) fn bytes(&self) -> usize {
        let items = self.0.len() * EventBatch::ITEM_BYTES;
        self.0.words() * 8 + self.0.code() + items + self.0.text()
    }

    /// Makes room for the next events; keeps the memory.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether it should be sent before anything is added.
    pub(super) fn is_full(&self) -> bool {
        self.0.words() >= MAX_WORDS
            || self.0.code() >= MAX_CODE
            || self.0.len() >= MAX_ITEMS
            || self.0.text() >= MAX_TEXT
    }

    /// Appends as many of these words as fit and returns the rest.
    pub(super) fn push_records<'w>(&mut self, stream: StreamId, words: &'w [u64]) -> &'w [u64] {
        let room = MAX_WORDS.saturating_sub(self.0.words());
        let (now, later) = words.split_at(words.len().min(room));
        if !now.is_empty() {
            let words = now;
            self.0.push(&Event::Records { stream, words });
        }
        later
    }

    /// Appends an event other than records.
    pub(super) fn push(&mut self, event: &Event<'_>) {
        self.0.push(event);
    }

    /// The events, as they were pushed.
    pub(super) fn events(&self) -> impl Iterator<Item = Event<'_>> {
        self.0.events()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_fill_a_batch() {
        let mut batch = Batch::default();
        let pushed = (0..MAX_ITEMS)
            .take_while(|_| {
                let full = batch.is_full();
                batch.push(&Event::Notice("x".repeat(1 << 14)));
                !full
            })
            .count();
        assert_eq!(pushed, MAX_TEXT >> 14);
        assert!(batch.bytes() >= MAX_TEXT);
        batch.clear();
        assert_eq!(batch.bytes(), 0);
    }

    #[test]
    fn records_beyond_the_bound_wait_for_the_next_batch() {
        let words = vec![7; MAX_WORDS + 5];
        let mut batch = Batch::default();
        let rest = batch.push_records(StreamId(0), &words);
        assert_eq!(rest.len(), 5);
        assert!(batch.is_full());
        assert_eq!(batch.push_records(StreamId(0), rest).len(), 5);
        assert_eq!(batch.events().count(), 1);
    }
}
