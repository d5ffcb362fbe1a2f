//! From record words to executed blocks: one [`Execution`] per executed block of one thread, with
//! its memory accesses merged and handed to their instructions.
//!
//! Counting rules (docs/COUNTING.md): an instruction counts when it starts to execute; executing
//! the same repeated string instruction again with nothing in between is another iteration of it,
//! not another instruction. A block that was left by a fault or signal counts up to the last
//! instruction that is known to have run.

use std::ops::Range;

use mcad_proto::word::{BadWord, BlockId, Kernel, Record, decode_word};

use super::dictionary::{Dictionary, TranslatedBlock};
use crate::lists::part;
use crate::pipeline::access::{Access, Address, Span};

/// All that a repeated string instruction loads or stores, of which [`Execution::accesses`] has only
/// the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Place of the instruction in its block.
    pub index: u16,
    /// What it loads; of two strings the first. Empty if it loads nothing.
    pub loads: Range<u64>,
    /// What it stores. Empty if it stores nothing.
    pub stores: Range<u64>,
}

impl Reach {
    /// An access further from what is known belongs to another string.
    const NEAR: u64 = 64;

    fn add(&mut self, raw: &Raw) {
        let range = if raw.store {
            &mut self.stores
        } else {
            &mut self.loads
        };
        let end = raw.address.saturating_add(u64::from(raw.size));
        if range.is_empty() {
            *range = raw.address..end;
        } else if raw.address <= range.end.saturating_add(Self::NEAR)
            && range.start <= end.saturating_add(Self::NEAR)
        {
            *range = range.start.min(raw.address)..range.end.max(end);
        }
    }
}

/// One executed block.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// The block.
    pub block: BlockId,
    /// First instruction that executed (1 when the first only went on with a repeated one).
    pub first: usize,
    /// One past the last instruction that executed.
    pub end: usize,
    /// Accesses by instruction.
    pub spans: &'a [Span],
    /// All accesses.
    pub accesses: &'a [Access],
    /// Each instruction has one span at most, and those of later ones come later.
    pub in_order: bool,
    /// Iterations of the last instruction beyond its first, if it is a repeated one.
    pub repeats: u64,
    /// What repeated string instructions reach that access memory many times, in program order.
    pub reaches: &'a [Reach],
    /// What the system call that it ends with did to memory.
    pub kernel: &'a [Kernel],
}

/// An [`Execution`] that is put together.
#[derive(Clone, Debug, Default)]
struct Assembled {
    block: BlockId,
    first: usize,
    end: usize,
    spans: Vec<Span>,
    accesses: Vec<Access>,
    in_order: bool,
    repeats: u64,
    reaches: Vec<Reach>,
    kernel: Vec<Kernel>,
}

impl Assembled {
    #[inline]
    fn done(&self) -> Execution<'_> {
        Execution {
            block: self.block,
            first: self.first,
            end: self.end,
            spans: &self.spans,
            accesses: &self.accesses,
            in_order: self.in_order,
            repeats: self.repeats,
            reaches: &self.reaches,
            kernel: &self.kernel,
        }
    }

    /// What the instruction at `index` reaches: so far its first accesses.
    fn reach(&mut self, index: u16) -> Option<&mut Reach> {
        if self.reaches.last().is_none_or(|reach| reach.index != index) {
            let mut reach = Reach {
                index,
                loads: 0..0,
                stores: 0..0,
            };
            if let Some(span) = self.spans.last().filter(|span| span.index == index) {
                let first = span.start as usize;
                let count = usize::from(span.loads) + usize::from(span.stores);
                let accesses = self.accesses.get(first..first + count).unwrap_or(&[]);
                for (n, access) in accesses.iter().enumerate() {
                    if let Address::Known(address) = access.address {
                        reach.add(&Raw {
                            index,
                            store: n >= usize::from(span.loads),
                            address,
                            size: access.size,
                        });
                    }
                }
            }
            self.reaches.push(reach);
        }
        self.reaches.last_mut()
    }
}

#[derive(Clone, Copy)]
struct Raw {
    index: u16,
    store: bool,
    address: u64,
    size: u16,
}

/// What one thread did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Record words.
    pub records: u64,
    /// Block records.
    pub blocks: u64,
    /// Accesses after merging.
    pub accesses: u64,
    /// Instructions by the counting rules.
    pub instructions: u64,
    /// Blocks left early.
    pub partial: u64,
    /// Access records that belong to no instruction of their block.
    pub misplaced: u64,
}

/// Records of one system call that are looked at; it has no more than buffers that the plugin looks
/// at.
const MAX_KERNEL: usize = 1 << 12;

/// Puts one thread's records together.
pub struct Assembler {
    current: Option<BlockId>,
    skip_first: bool,
    raw: Vec<Raw>,
    kernel: Vec<Kernel>,
    /// A finished execution that waits whether its repeated string instruction goes on.
    held: Option<Assembled>,
    out: Assembled,
    /// Accesses are recorded, so that a missing one means something.
    memory: bool,
    /// Statistics.
    pub counts: Counts,
}

/// Why a word cannot be taken.
#[derive(Debug)]
pub enum BadRecord {
    /// Not a record.
    Word(BadWord),
    /// A block that was never defined.
    UnknownBlock(BlockId),
    /// An access before the first block.
    EarlyAccess,
}

impl Assembler {
    /// Nothing yet; `memory`: the records carry accesses.
    #[must_use]
    pub fn new(memory: bool) -> Self {
        Self {
            memory,
            current: None,
            skip_first: false,
            raw: Vec::new(),
            kernel: Vec::new(),
            held: None,
            out: Assembled::default(),
            counts: Counts::default(),
        }
    }

    /// Takes a word; calls `emit` for each execution that is complete.
    ///
    /// # Errors
    /// [`BadRecord`]; the word is left out.
    #[inline]
    pub fn word(
        &mut self,
        word: u64,
        dictionary: &Dictionary,
        emit: &mut impl FnMut(&TranslatedBlock, &Execution<'_>),
    ) -> Result<(), BadRecord> {
        self.counts.records += 1;
        match decode_word(word) {
            Ok(Record::Access(access)) => {
                if self.current.is_none() {
                    return Err(BadRecord::EarlyAccess);
                }
                let (address, size) = (access.address.0, u16::from(access.size));
                // QEMU splits wide accesses; the parts come one after the other.
                if let Some(last) = self.raw.last_mut()
                    && last.index == access.index
                    && last.store == access.store
                    && last.address.wrapping_add(u64::from(last.size)) == address
                    && last.size + size <= 64
                {
                    last.size += size;
                } else {
                    self.raw.push(Raw {
                        index: access.index,
                        store: access.store,
                        address,
                        size,
                    });
                }
                Ok(())
            }
            Ok(Record::Block(id)) => {
                let Some(next) = dictionary.get(id) else {
                    return Err(BadRecord::UnknownBlock(id));
                };
                self.counts.blocks += 1;
                let goes_on = self.finish(dictionary, Some(next), emit);
                self.current = Some(id);
                self.skip_first = goes_on;
                Ok(())
            }
            Ok(Record::Kernel(kernel)) => {
                // Where recording began within a system call, it is of no block.
                if self.current.is_some() && self.kernel.len() < MAX_KERNEL {
                    self.kernel.push(kernel);
                }
                Ok(())
            }
            Err(bad) => Err(BadRecord::Word(bad)),
        }
    }

    /// The thread ended: completes what is open.
    pub fn end(
        &mut self,
        dictionary: &Dictionary,
        emit: &mut impl FnMut(&TranslatedBlock, &Execution<'_>),
    ) {
        self.finish(dictionary, None, emit);
        self.release(dictionary, emit);
    }

    #[inline]
    fn release(
        &mut self,
        dictionary: &Dictionary,
        emit: &mut impl FnMut(&TranslatedBlock, &Execution<'_>),
    ) {
        if self.held.is_some() {
            self.release_held(dictionary, emit);
        }
    }

    #[cold]
    fn release_held(
        &mut self,
        dictionary: &Dictionary,
        emit: &mut impl FnMut(&TranslatedBlock, &Execution<'_>),
    ) {
        if let Some(held) = self.held.take() {
            if let Some(block) = dictionary.get(held.block) {
                emit(block, &held.done());
            }
            self.out = held;
        }
    }

    /// Completes the execution that is open, now that its successor is known. Returns whether the
    /// successor begins by going on with the same repeated string instruction.
    #[inline]
    fn finish(
        &mut self,
        dictionary: &Dictionary,
        next: Option<&TranslatedBlock>,
        emit: &mut impl FnMut(&TranslatedBlock, &Execution<'_>),
    ) -> bool {
        let Some(id) = self.current.take() else {
            return false;
        };
        let Some(block) = dictionary.get(id) else {
            return false;
        };
        let first = usize::from(self.skip_first);
        let end = self.executed(block, next);
        let goes_on = block.ends_with_rep
            && next.is_some_and(|n| {
                n.starts_with_rep && n.address.0 == block.address_of(block.len() - 1)
            });
        if first == 1 {
            self.go_on();
        }
        if first >= end {
            // Nothing but another iteration.
            self.raw.clear();
            self.kernel.clear();
            if !goes_on {
                self.release(dictionary, emit);
            }
            return goes_on;
        }
        self.release(dictionary, emit);
        self.counts.instructions += (end - first) as u64;
        let out = &mut self.out;
        out.block = id;
        out.first = first;
        out.end = end;
        out.repeats = 0;
        out.spans.clear();
        out.accesses.clear();
        out.reaches.clear();
        out.kernel.clear();
        if !self.kernel.is_empty() {
            out.kernel.append(&mut self.kernel);
        }
        distribute(&mut self.raw, &mut self.counts, out, block.len());
        if goes_on {
            self.held = Some(std::mem::take(out));
        } else {
            emit(block, &out.done());
        }
        goes_on
    }

    /// One past the last instruction that executed.
    #[inline]
    fn executed(&mut self, block: &TranslatedBlock, next: Option<&TranslatedBlock>) -> usize {
        let len = block.len();
        let Some(next) = next else { return len };
        if block.may_lead_to(next.address) {
            return len;
        }
        let seen = self.raw.last().map_or(0, |r| usize::from(r.index) + 1);
        // An atomic that the emulator could not do here, or code that changed itself: the next
        // block takes over inside this one.
        let stopped = block
            .instruction_at(next.address)
            .filter(|n| *n > 0 && *n >= seen);
        // Else a fault, if an instruction that always accesses memory has no record; it counts
        // as started. Without such evidence a signal came between two whole blocks.
        let stopped = stopped.or_else(|| {
            (seen..len)
                .find(|n| block.accesses.get(*n) == Some(&true))
                .map(|n| n + 1)
        });
        match stopped {
            Some(n) if n < len && self.memory => {
                self.counts.partial += 1;
                n
            }
            _ => len,
        }
    }

    /// Adds the open execution's first instruction to the repeated one that waits.
    fn go_on(&mut self) {
        let mut bytes = [0u64; 2];
        for raw in self.raw.iter().filter(|r| r.index == 0) {
            bytes[usize::from(raw.store)] += u64::from(raw.size);
            self.counts.accesses += 1;
        }
        if let Some(held) = &mut self.held {
            held.repeats += 1;
            let bytes = bytes[0].max(bytes[1]);
            let index = held.end.saturating_sub(1) as u16;
            if let Some(reach) = held.reach(index) {
                for raw in self.raw.iter().filter(|r| r.index == 0) {
                    reach.add(raw);
                }
            }
            match held.spans.last_mut() {
                Some(span) if span.index == index => span.bytes += bytes,
                _ => held.spans.push(Span {
                    index,
                    start: held.accesses.len() as u32,
                    loads: 0,
                    stores: 0,
                    bytes,
                }),
            }
        }
    }
}

/// Hands the accesses to their instructions, loads before stores.
#[inline]
fn distribute(raws: &mut Vec<Raw>, totals: &mut Counts, out: &mut Assembled, len: usize) {
    let inside = |raw: &Raw| (out.first..len).contains(&usize::from(raw.index));
    if raws.is_sorted_by(|raw, next| raw.index < next.index)
        && raws.first().is_none_or(inside)
        && raws.last().is_none_or(inside)
    {
        // One each, as in most blocks.
        out.in_order = true;
        totals.accesses += raws.len() as u64;
        let access = |raw: &Raw| Access::known(raw.address, raw.size);
        out.accesses.extend(raws.iter().map(access));
        out.spans
            .extend((0..).zip(raws.iter()).map(|(start, raw)| Span {
                index: raw.index,
                start,
                loads: u8::from(!raw.store),
                stores: u8::from(raw.store),
                bytes: u64::from(raw.size),
            }));
        raws.clear();
        return;
    }
    out.in_order = raws.is_sorted_by_key(|raw| raw.index);
    let mut at = 0;
    while let Some(&raw) = raws.get(at) {
        let index = raw.index;
        let mut to = at + 1;
        while raws.get(to).is_some_and(|r| r.index == index) {
            to += 1;
        }
        let group = part(raws, at..to);
        at = to;
        if usize::from(index) < out.first {
            continue;
        }
        if usize::from(index) >= len {
            totals.misplaced += group.len() as u64;
            continue;
        }
        let start = out.accesses.len();
        let mut bytes = [0u64; 2];
        let mut counts = [0u8; 2];
        for store in [false, true] {
            for raw in group.iter().filter(|r| r.store == store) {
                bytes[usize::from(store)] += u64::from(raw.size);
                totals.accesses += 1;
                let count = &mut counts[usize::from(store)];
                // A repeated string instruction has many: the first ones are listed, and what
                // all of them reach.
                if *count < 32 {
                    *count += 1;
                    out.accesses.push(Access::known(raw.address, raw.size));
                }
            }
        }
        out.spans.push(Span {
            index,
            start: start as u32,
            loads: counts[0],
            stores: counts[1],
            bytes: bytes[0].max(bytes[1]),
        });
        if group.len() > usize::from(counts[0]) + usize::from(counts[1])
            && let Some(reach) = out.reach(index)
        {
            for raw in group {
                reach.add(raw);
            }
        }
    }
    raws.clear();
}
