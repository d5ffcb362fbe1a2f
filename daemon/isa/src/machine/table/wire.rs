//! The format of the embedded table files: bincode behind zstd, made only by `cargo xtask tables`.
//!
//! Texts, operand lists and figures occur once and are referred to by number. Nothing that comes
//! from a user or a peer is ever decoded here. `VERSION` changes with any change of the layout;
//! [`code_fingerprint`] ties a file to the numbering of iced's `Code`.

use bincode::{Decode, Encode};

use crate::embedded;

/// Version of the layout.
pub const VERSION: u32 = 2;

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct File {
    /// [`VERSION`].
    pub version: u32,
    /// [`code_fingerprint`] when the file was made.
    pub codes: u32,
    /// Names of forms and sources.
    pub texts: Vec<String>,
    /// Lists of operands.
    pub operands: Vec<Vec<Operand>>,
    /// Lists of ports and µops.
    pub ports: Vec<Vec<(u32, u16)>>,
    /// Lists of latencies.
    pub latencies: Vec<Vec<Latency>>,
    /// Figures.
    pub perfs: Vec<Perf>,
    /// Forms.
    pub forms: Vec<Form>,
    /// Candidates in the order of their codes and of their preference within a code.
    pub candidates: Vec<Candidate>,
}

/// An operand: name, kind of binding and its number, access (bit 0 read, bit 1 written).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Operand {
    /// See [`name_number`].
    pub name: u8,
    /// 0 explicit, 1 implicit register, 2 opmask, 3 flags, 4 stack engine, 5 implicit memory.
    pub kind: u8,
    /// Operand number, register or memory number.
    pub number: u16,
    /// Bit 0 read, bit 1 written.
    pub access: u8,
}

/// A latency: the two names, the part of the source, cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Latency {
    /// Source.
    pub from: u8,
    /// Destination.
    pub to: u8,
    /// 0 register, 1 base, 2 index, 3 memory.
    pub kind: u8,
    /// Cycles.
    pub cycles: u16,
}

/// Figures; lists by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Perf {
    /// See `super::Perf::uops`.
    pub uops: u16,
    /// See `super::Perf::retire_slots`.
    pub retire_slots: u16,
    /// See `super::Perf::uops_mite`.
    pub uops_mite: u16,
    /// See `super::Perf::uops_ms`.
    pub uops_ms: u16,
    /// In [`File::ports`].
    pub ports: u16,
    /// Divider occupancy.
    pub div_cycles: u16,
    /// Throughput, in hundredths of a cycle.
    pub tp: Option<u32>,
    /// Complex decoder.
    pub complex_decoder: bool,
    /// Simple decoders beside it.
    pub simple_decoders: Option<u8>,
    /// In [`File::latencies`].
    pub latencies: u16,
}

/// A form; everything by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Form {
    /// In [`File::texts`].
    pub name: u16,
    /// In [`File::operands`].
    pub operands: u16,
    /// Bits 0 and 1: C and SPAZO read; 2 and 3: written; 4: locked.
    pub flags: u8,
    /// Condition codes.
    pub macro_fusible: u16,
    /// In [`File::perfs`].
    pub perf: u16,
    /// In [`File::perfs`].
    pub indexed: Option<u16>,
    /// In [`File::perfs`].
    pub same_reg: Option<u16>,
    /// In [`File::texts`].
    pub approximated_from: Option<u16>,
    /// In [`File::texts`].
    pub source: u16,
}

/// A candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Candidate {
    /// iced's `Code` as a number, as the difference to the previous candidate's.
    pub code_step: u16,
    /// Traits looked at.
    pub mask: u32,
    /// Their values.
    pub value: u32,
    /// In [`File::forms`].
    pub form: u16,
}

/// Operand names as numbers: `REGn` is n, `MEMn` is 0x40 + n, the address is 0x80.
#[must_use]
pub fn name_number(name: super::OperandName) -> u8 {
    match name {
        super::OperandName::Reg(n) => n & 0x3f,
        super::OperandName::Mem(n) => 0x40 | n & 0x3f,
        super::OperandName::Agen => 0x80,
    }
}

/// The reverse of [`name_number`].
#[must_use]
pub fn name_of(number: u8) -> super::OperandName {
    match number {
        0x00..0x40 => super::OperandName::Reg(number),
        0x40..0x80 => super::OperandName::Mem(number & 0x3f),
        _ => super::OperandName::Agen,
    }
}

/// A hash (FNV-1a) over the names of all of iced's codes in their order.
#[must_use]
pub fn code_fingerprint() -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    for code in iced_x86::Code::values() {
        for byte in format!("{code:?};").bytes() {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    hash
}

/// Decodes a file.
///
/// # Errors
/// A text that says what is wrong.
pub fn decode(bytes: &[u8]) -> Result<File, String> {
    let file: File = embedded::decode(bytes)?;
    if file.version != VERSION {
        return Err(format!(
            "layout version {} instead of {VERSION}",
            file.version
        ));
    }
    Ok(file)
}

/// Encodes a file.
///
/// # Errors
/// A text that says what is wrong.
pub fn encode(file: &File) -> Result<Vec<u8>, String> {
    embedded::encode(file)
}
