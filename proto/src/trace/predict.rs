//! What writer and reader of a chunk expect the next record word to be.
//!
//! Per block of a chunk: the accesses of its last execution, one [`Slot`] each, and the two blocks
//! that followed it last. The next word is expected to be
//!
//! * the access in the next slot, at the slot's last address plus its stride, while the execution
//!   has fewer accesses than the last one had;
//! * the block that followed last, otherwise.
//!
//! Only what differs is written. Both sides change this state by the same calls in the same order,
//! so it is never stored. It starts empty with each chunk. Blocks have local numbers in order of
//! appearance in the chunk, so state stays in proportion to the chunk, whatever ids it names.

/// The address bits of an access word.
pub(super) const ADDRESS: u64 = (1 << 48) - 1;

/// Slots per block. Longer executions (`rep` strings) go on with the last two slots in turn: a
/// load and a store.
const MAX_SLOTS: u32 = 512;

/// No block.
pub(super) const NONE: u32 = u32::MAX;

/// One access of a block's last execution.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    /// The access word.
    pub word: u64,
    /// Step that the address is expected to make: the last one that came twice in a row.
    stride: i32,
    /// The last step.
    step: i32,
}

impl Slot {
    /// The expected address bits.
    #[inline]
    pub fn expected(&self) -> u64 {
        self.word.wrapping_add(self.stride as u64) & ADDRESS
    }

    /// Takes the access that really came.
    #[inline]
    pub fn update(&mut self, word: u64) {
        let delta = difference(word, self.word);
        let step = i32::try_from(delta).unwrap_or(0);
        if step == self.step {
            self.stride = step;
        }
        self.step = step;
        self.word = word;
    }
}

/// Difference of two words' addresses, sign-extended from 48 bits.
#[inline]
pub(super) const fn difference(a: u64, b: u64) -> i64 {
    ((a.wrapping_sub(b) << 16) as i64) >> 16
}

#[derive(Clone, Copy)]
struct BlockSlots {
    /// The block record word.
    word: u64,
    /// First slot.
    base: u32,
    /// Slots reserved from `base`.
    capacity: u32,
    /// Slots filled.
    len: u32,
    /// Accesses that the next execution is expected to have; `MAX_SLOTS` is any number.
    count: u32,
    /// Local numbers of the blocks that followed last, newest first.
    next: [u32; 2],
}

/// Where one stream is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// Local number of the block that executes, or [`NONE`].
    pub block: u32,
    /// Accesses of this execution so far.
    pub accesses: u32,
}

impl Position {
    pub const START: Self = Self {
        block: NONE,
        accesses: 0,
    };
}

/// State of a chunk.
#[derive(Default)]
pub(super) struct Predictor {
    blocks: Vec<BlockSlots>,
    slots: Vec<Slot>,
    /// The last access word of the chunk; what an access without history is compared with.
    last: u64,
}

impl Predictor {
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.slots.clear();
        self.last = 0;
    }

    pub fn blocks(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Adds a block; returns its local number.
    pub fn add(&mut self, word: u64) -> u32 {
        let local = self.blocks();
        self.blocks.push(BlockSlots {
            word,
            base: 0,
            capacity: 0,
            len: 0,
            count: 0,
            next: [NONE; 2],
        });
        local
    }

    /// The record word of a local number, if there is such a block.
    #[inline]
    pub fn word(&self, local: u32) -> Option<u64> {
        self.blocks.get(local as usize).map(|b| b.word)
    }

    /// The slot of the access that is expected next; `None` when a block is.
    #[inline]
    pub fn expected_access(&mut self, at: Position) -> Option<&mut Slot> {
        let block = self.blocks.get(at.block as usize)?;
        if at.accesses < block.count || block.count == MAX_SLOTS {
            let slot = block.base + slot_of(at.accesses);
            return self.slots.get_mut(slot as usize);
        }
        None
    }

    /// The last and the last but one block that followed, [`NONE`] where there is none.
    #[inline]
    pub fn next(&self, at: Position) -> [u32; 2] {
        self.blocks
            .get(at.block as usize)
            .map_or([NONE; 2], |b| b.next)
    }

    /// Prepares for an access that was not expected as it came: returns its slot, whose address
    /// is the best guess. The caller then takes [`Slot::update`] and [`Predictor::accessed`].
    pub fn surprise(&mut self, at: Position) -> Option<&mut Slot> {
        let last = self.last;
        let block = self.blocks.get_mut(at.block as usize)?;
        let slot = slot_of(at.accesses);
        if slot >= block.len {
            if slot >= block.capacity {
                let capacity = (block.capacity * 2).clamp(4, MAX_SLOTS);
                let base = self.slots.len();
                let old = block.base as usize;
                self.slots.extend_from_within(old..old + block.len as usize);
                self.slots.resize(base + capacity as usize, Slot::default());
                block.base = base as u32;
                block.capacity = capacity;
            }
            block.len = slot + 1;
            self.slots[(block.base + slot) as usize] = Slot {
                word: last,
                stride: 0,
                step: 0,
            };
        }
        if at.accesses >= block.count {
            // As many as it ever had: an execution that has one more often has them all.
            block.count = block.len;
        }
        self.slots.get_mut((block.base + slot) as usize)
    }

    /// Remembers the last access of the chunk.
    #[inline]
    pub fn accessed(&mut self, word: u64) {
        self.last = word;
    }

    /// Takes a block that followed unexpectedly, or earlier than expected.
    pub fn followed(&mut self, at: Position, local: u32) {
        if let Some(block) = self.blocks.get_mut(at.block as usize) {
            block.count = at.accesses.min(MAX_SLOTS);
            if block.next[0] != local {
                block.next = [local, block.next[0]];
            }
        }
    }
}

#[inline]
const fn slot_of(accesses: u32) -> u32 {
    if accesses < MAX_SLOTS {
        accesses
    } else {
        MAX_SLOTS - 2 + accesses % 2
    }
}
