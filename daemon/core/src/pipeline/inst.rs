//! One executed instruction on its way through the core.

use super::frontend::predecode::Layout;

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
    /// Set by the feed.
    pub source: Source,
    /// How it lies in the predecoder's blocks; set by the feed for what may be decoded.
    pub layout: Layout,
    /// Cycle of predecode; set by the front end.
    pub predecoded: u64,
    /// Last instruction of a group that the loop stream detector replays at once.
    pub stream_end: bool,
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
            source: Source::Decoders,
            layout: Layout::default(),
            predecoded: 0,
            stream_end: false,
        }
    }
}

/// One memory access. Two stores may be dispatched in one cycle only into the same line; a line
/// is told by `line` and `offset`: for real addresses the line number and 0, for unknown ones
/// the identity of the address expression and its displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First byte.
    pub address: u64,
    /// Bytes, at least 1.
    pub size: u16,
    /// See above.
    pub line: u64,
    /// See above.
    pub offset: i64,
    /// Place of the first byte in its line. Where addresses are not known, their registers are
    /// taken to be aligned to lines.
    pub in_line: u8,
}

impl Access {
    /// An access to a real address.
    #[inline]
    #[must_use]
    pub fn real(address: u64, size: u16) -> Self {
        Self {
            address,
            size,
            line: address >> 6,
            offset: 0,
            in_line: (address & 63) as u8,
        }
    }

    /// Whether two stores go into the same line.
    #[inline]
    #[must_use]
    pub fn same_line(line: (u64, i64), other: (u64, i64)) -> bool {
        line.0 == other.0 && (line.1 - other.1).abs() < 64
    }
}
