//! What one session may make the process keep. Records are streamed and bounded by the queue; the
//! block dictionary and the module list stay for the session's life, so a peer could grow them
//! without end.

use mcad_proto::event::Event;

use super::SessionError;

/// What the simulation keeps per instruction of a block, roughly: decoded form, µop templates and
/// counters for a few CPU models.
const PER_INSTRUCTION: u64 = 512;
/// The same per block.
const PER_BLOCK: u64 = 512;
/// Per module, thread or notice, beside its text.
const PER_ENTRY: u64 = 4096;

/// Bytes that a session's lasting state may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit(pub u64);

impl MemoryLimit {
    /// For programs run by the user: room for four million blocks' worth of code.
    pub const LOCAL: Self = Self(16 << 30);
}

/// Keeps account of the estimate.
#[derive(Debug)]
pub(super) struct Retained {
    bytes: u64,
    limit: MemoryLimit,
}

impl Retained {
    pub(super) const fn new(limit: MemoryLimit) -> Self {
        Self { bytes: 0, limit }
    }

    /// Adds what an event makes the session keep.
    pub(super) fn account(&mut self, event: &Event<'_>) -> Result<(), SessionError> {
        let more = match event {
            Event::Records { .. } | Event::End(_) | Event::StreamEnd(_) => return Ok(()),
            Event::Block(block) => {
                let instructions = u64::from(block.instructions);
                block.bytes.len() as u64 + PER_BLOCK + instructions * PER_INSTRUCTION
            }
            Event::Session(info) => {
                let words = info.command.iter().map(|word| word.len() as u64);
                PER_ENTRY + words.sum::<u64>()
            }
            Event::Module(module) => PER_ENTRY + module.path.len() as u64,
            Event::Region(region) => PER_ENTRY + region.name.len() as u64,
            Event::StreamStart(_) => PER_ENTRY,
            Event::Lost { reason, .. } => PER_ENTRY + reason.len() as u64,
            Event::Notice(text) => PER_ENTRY + text.len() as u64,
        };
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > self.limit.0 {
            return Err(SessionError::Memory {
                limit_mib: self.limit.0 >> 20,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcad_proto::event::BlockDef;
    use mcad_proto::word::{BlockId, GuestAddr};

    #[test]
    fn dictionaries_cannot_grow_without_end() {
        let mut retained = Retained::new(MemoryLimit(1 << 20));
        let bytes = [0x90; 4];
        let block = Event::Block(BlockDef {
            id: BlockId(0),
            address: GuestAddr(0),
            instructions: 4,
            bytes: &bytes,
        });
        let accepted = (0..1_000_000)
            .take_while(|_| retained.account(&block).is_ok())
            .count();
        assert!((100..1000).contains(&accepted), "{accepted}");
    }
}
