//! Recorded timelines: the file format, and the views that read it one instruction at a time.
//!
//! A file is [`MAGIC`], the version as a little-endian `u32`, and a zstd stream of records, each a
//! tag byte and its fields; numbers are LEB128, texts a length and UTF-8:
//!
//! - `1` header: JSON of [`Header`]; once, first.
//! - `2` code: number, address, text, function, module; before its first use.
//! - `3` instruction: thread, number, code, flags (bit 0: macro-fused pair), retirement cycle of
//!   its first and last fused µop, number of µops, and per µop: kind (bits 0 to 1: the
//!   instruction's own, stack synchronisation, register merge; bits 2 to 4: [`Source`]), [`Late`], port,
//!   and its six cycles. Cycles are written as zigzag differences to the cycle before. In files of
//!   version 1 [`Late`] is in bits 5 to 7 of the kind.
//! - `4` end: JSON of [`End`]; once, last. A file without it is cut off.
//!
//! The stream has zstd's checksum, so that a flipped bit is an error at the end of reading at the
//! latest.
//!
//! Numbers of codes need not be dense. Reading and exporting need the memory of what is in flight, not of the file.

pub mod chrome;
pub mod konata;
mod labels;
pub mod read;
pub mod terminal;
pub mod write;

use mcad_report::Cause;
use mcad_report::block::TimelineUop;
use serde::{Deserialize, Serialize};

/// First bytes of a timeline file.
pub const MAGIC: &[u8; 8] = b"mcadtime";

/// Version of the format; raised on every change.
pub const VERSION: u32 = 2;

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the tool.
    pub tool: String,
    /// Short name of the CPU model.
    pub cpu: String,
    /// Full name.
    pub name: String,
    /// Fused µops that issue in a cycle.
    pub issue_width: u32,
    /// Fused µops in the re-order buffer; 0 on an in-order core, which has none.
    pub reorder_buffer: u32,
    /// Ports.
    pub ports: u32,
    /// Their names; none in files of older versions.
    #[serde(default)]
    pub port_names: Vec<String>,
    /// The window as asked for.
    pub window: String,
    /// Of an in-order core: each µop is delivered when the one before has issued, unless it is late
    /// for it.
    #[serde(default)]
    pub in_order: bool,
}

impl Header {
    /// The name of a port: its number where the file has none.
    #[must_use]
    pub fn port_name(&self, port: u8) -> String {
        match self.port_names.get(usize::from(port)) {
            None if port == ANY_PORT => "any".to_owned(),
            Some(name) => crate::escape::escape(name).into_owned(),
            None => format!("{port:X}"),
        }
    }
}

/// How the recording ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Records of instructions in the file; a macro-fused pair is one.
    pub records: u64,
    /// Cycles of the whole run, as in the report.
    pub cycles: u64,
    /// Records of the window beyond the limit, which are not in the file.
    pub left_out: u64,
}

/// An instruction at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Address.
    pub address: u64,
    /// Intel syntax.
    pub text: String,
    /// Function, empty when unknown.
    pub function: String,
    /// File name of the module.
    pub module: String,
}

/// What a µop is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Of the instruction.
    #[default]
    Own,
    /// Of the stack engine, before the instruction.
    StackSync,
    /// Merge of a high-8 register, before the instruction.
    Merge,
}

/// Where a µop was delivered from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Legacy decoders.
    #[default]
    Decoders,
    /// µop cache.
    UopCache,
    /// Loop stream detector.
    LoopStream,
    /// Microcode sequencer.
    Microcode,
    /// The core itself.
    Inserted,
}

/// What made a µop late, where that is a miss or a redirect; on an in-order core what it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// Neither.
    #[default]
    No,
    /// Its line came from the second level.
    L2,
    /// From the third.
    L3,
    /// From memory.
    Dram,
    /// The translation of its address.
    Translation,
    /// Fetch came to it from a wrong path.
    Redirect,
    /// It was not fetched in time.
    Fetch,
    /// Its line of code was missing.
    InstructionCache,
    /// A value was not there.
    Value,
    /// A loaded value was not there.
    Load,
    /// All units of a kind were busy.
    Unit,
    /// It does not issue with what is before it.
    Pairing,
    /// Something serialises.
    Serialization,
    /// A division kept everything waiting.
    Division,
    /// The store buffer was full.
    StoreBuffer,
    /// Its result would have been written before an older one's.
    WriteBack,
}

impl From<Cause> for Late {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Fetch => Self::Fetch,
            Cause::InstructionCache => Self::InstructionCache,
            Cause::Misprediction => Self::Redirect,
            Cause::Dependency => Self::Value,
            Cause::Load => Self::Load,
            Cause::SecondLevel => Self::L2,
            Cause::ThirdLevel => Self::L3,
            Cause::Memory => Self::Dram,
            Cause::Translation => Self::Translation,
            Cause::Unit => Self::Unit,
            Cause::Pairing => Self::Pairing,
            Cause::Serialization => Self::Serialization,
            Cause::Division => Self::Division,
            Cause::StoreBuffer => Self::StoreBuffer,
            Cause::WriteBack => Self::WriteBack,
        }
    }
}

impl Late {
    /// All, in the order of their numbers in a file.
    pub const ALL: [Self; 16] = [
        Self::No,
        Self::L2,
        Self::L3,
        Self::Dram,
        Self::Translation,
        Self::Redirect,
        Self::Fetch,
        Self::InstructionCache,
        Self::Value,
        Self::Load,
        Self::Unit,
        Self::Pairing,
        Self::Serialization,
        Self::Division,
        Self::StoreBuffer,
        Self::WriteBack,
    ];

    /// Whether it had not come from the front end.
    #[must_use]
    pub fn is_front_end(self) -> bool {
        matches!(self, Self::Redirect | Self::Fetch | Self::InstructionCache)
    }

    /// For people; empty for [`Late::No`].
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::No => "",
            Self::L2 => "miss: line from L2",
            Self::L3 => "miss: line from L3",
            Self::Dram => "miss: line from memory",
            Self::Translation => "miss: translation of the address",
            Self::Redirect => "redirect: fetched after a wrong path",
            Self::Fetch => "waited for fetch",
            Self::InstructionCache => "miss: line of code",
            Self::Value => "waited for a value",
            Self::Load => "waited for a loaded value",
            Self::Unit => "waited for a unit",
            Self::Pairing => "does not issue with what is before it",
            Self::Serialization => "waited for what serialises",
            Self::Division => "waited for a division",
            Self::StoreBuffer => "waited for the store buffer",
            Self::WriteBack => "waited for an older result to be written",
        }
    }
}

/// No port: it does not execute.
pub const NO_PORT: u8 = 0xff;

/// It executes, and not on a port of its own: in-order cores have units for some instructions only.
pub const ANY_PORT: u8 = 0xfe;

/// One µop's cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uop {
    /// What it is.
    pub kind: Kind,
    /// Where it came from.
    pub source: Source,
    /// What made it late.
    pub late: Late,
    /// Port, [`NO_PORT`] when it needed none, or [`ANY_PORT`].
    pub port: u8,
    /// Entered the instruction decode queue.
    pub delivered: u64,
    /// Renamed and allocated.
    pub issued: u64,
    /// Inputs there.
    pub ready: u64,
    /// Sent to its port.
    pub dispatched: u64,
    /// Done.
    pub executed: u64,
    /// Left the re-order buffer.
    pub retired: u64,
}

impl From<&TimelineUop> for Uop {
    fn from(uop: &TimelineUop) -> Self {
        Self {
            late: uop.held.map_or(Late::No, Late::from),
            port: uop.port.unwrap_or(NO_PORT),
            delivered: uop.delivered,
            issued: uop.issued,
            ready: uop.ready,
            dispatched: uop.dispatched,
            executed: uop.executed,
            retired: uop.retired,
            ..Self::default()
        }
    }
}

/// One executed instruction or macro-fused pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Guest thread.
    pub thread: u32,
    /// Number in its thread.
    pub number: u64,
    /// Place in the codes.
    pub code: u32,
    /// Macro-fused pair: counts as two instructions.
    pub pair: bool,
    /// Retirement cycles of its first and last fused µop.
    pub retired: [u64; 2],
    /// Its µops in program order.
    pub uops: Vec<Uop>,
}

impl Instruction {
    /// Place of the first µop that is its own.
    #[must_use]
    pub fn first_own(&self) -> usize {
        let own = |uop: &Uop| uop.kind == Kind::Own;
        self.uops.iter().position(own).unwrap_or(0)
    }

    /// Cycle in which it is first seen.
    #[must_use]
    pub fn begin(&self) -> u64 {
        self.uops
            .iter()
            .map(|uop| uop.delivered)
            .min()
            .unwrap_or(self.retired[0])
            .min(self.retired[1])
    }
}

/// Why a timeline cannot be read or shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TimelineError {
    /// The file cannot be read or the output not written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Not a timeline.
    #[error("this is no timeline file (it does not begin with 'mcadtime')")]
    Foreign,
    /// Another version.
    #[error(
        "the timeline has format version {0}; this mcad reads {VERSION}: record it again, or use \
         the mcad that made it"
    )]
    Version(u32),
    /// Of another run than the report that it is to be shown with.
    #[error(
        "the timeline is of another run: {cycles} cycles, the report has {report}; record both in \
         one run (`mcad-run --json FILE --timeline FILE`)"
    )]
    OtherRun {
        /// Cycles of the timeline's run.
        cycles: u64,
        /// Cycles of the report.
        report: u64,
    },
    /// Of a CPU model that the report lacks.
    #[error("the timeline is of the CPU '{0}', which the report has no pipeline analysis of")]
    OtherCpu(String),
    /// Contradicts the format.
    #[error("the timeline is damaged after {records} instructions: {what}")]
    Damaged {
        /// Instructions read before.
        records: u64,
        /// What is wrong.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests;
