//! One executed instruction on its way through the core.

use mcad_isa::program::{Instr, flag};

/// Where an instruction's µops are delivered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Predecoder and decoders ("MITE").
    Decoders,
    /// µop cache ("DSB").
    UopCache,
    /// Loop stream detector ("LSD").
    LoopStream,
}

/// An executed instruction.
#[derive(Clone, Copy, Debug)]
pub struct Inst {
    /// Its static instruction in [`mcad_isa::program::Program::instrs`].
    pub instr: u32,
    /// Its address.
    pub address: u64,
    /// Tag of the caller: handed to the observer when the instruction retires.
    pub tag: u32,
    /// Control goes elsewhere than to the next address after it.
    pub taken: bool,
    /// Loads and stores among the accesses that came with it.
    pub loads: u8,
    /// See `loads`.
    pub stores: u8,
    /// Extra cycles of a repeated string instruction.
    pub extra_cycles: u32,
    /// What all of its iterations access, or the kernel does in it, was handed over before it.
    pub reaches: bool,
    /// Set as it is queued.
    pub source: Source,
    /// How it lies in the predecoder's blocks; set as it is queued for what may be decoded.
    pub layout: Layout,
    /// Cycle of predecode; set by the front end.
    pub predecoded: u64,
    /// Last instruction of a group that the loop stream detector replays at once.
    pub stream_end: bool,
}

/// How an instruction lies in the predecoder's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout(u8);

impl Layout {
    const CROSSES: u8 = 1;
    const OPCODE_IN_NEXT: u8 = 2;
    const LCP: u8 = 4;

    /// Of an instruction at `address`, with blocks of `block` bytes, a power of two.
    #[inline]
    #[must_use]
    pub fn new(instr: &Instr, address: u64, block: u32) -> Self {
        let offset = address as u32 & (block - 1);
        let crosses = offset + u32::from(instr.len) > block;
        let in_next = crosses & (offset + u32::from(instr.nominal_opcode) >= block);
        Self(
            (u8::from(crosses) * Self::CROSSES)
                | (u8::from(in_next) * Self::OPCODE_IN_NEXT)
                | (u8::from(instr.is(flag::LCP)) * Self::LCP),
        )
    }

    /// It goes on in the next block.
    #[inline]
    #[must_use]
    pub fn crosses(self) -> bool {
        self.0 & Self::CROSSES != 0
    }

    /// It goes on in the next block, where its nominal opcode lies.
    #[inline]
    #[must_use]
    pub fn opcode_in_next(self) -> bool {
        self.0 & Self::OPCODE_IN_NEXT != 0
    }

    /// It has a length-changing prefix.
    #[inline]
    #[must_use]
    pub fn lcp(self) -> bool {
        self.0 & Self::LCP != 0
    }
}

impl Default for Inst {
    fn default() -> Self {
        Self::new(0, 0)
    }
}

impl Inst {
    /// An instruction without accesses.
    #[must_use]
    pub fn new(instr: u32, address: u64) -> Self {
        Self {
            instr,
            address,
            tag: 0,
            taken: false,
            loads: 0,
            stores: 0,
            extra_cycles: 0,
            reaches: false,
            source: Source::Decoders,
            layout: Layout::default(),
            predecoded: 0,
            stream_end: false,
        }
    }

    /// Accesses that came with it.
    #[inline(always)]
    #[must_use]
    pub fn accesses(&self) -> usize {
        usize::from(self.loads) + usize::from(self.stores)
    }

    /// The 64-byte line that it begins in.
    #[inline]
    #[must_use]
    pub fn line(&self) -> u64 {
        self.address >> 6
    }

    /// The same, with how it lies in the predecoder's blocks of `block` bytes.
    #[inline]
    #[must_use]
    pub fn laid_out(self, instr: &Instr, block: u32) -> Self {
        Self {
            layout: Layout::new(instr, self.address, block),
            ..self
        }
    }
}
