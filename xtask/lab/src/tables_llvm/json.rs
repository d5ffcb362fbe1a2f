//! What `dump.cpp` prints.

use std::collections::BTreeMap;

use serde::Deserialize;

/// All of an instruction set.
#[derive(Debug, Deserialize)]
pub struct Dump {
    pub llvm: String,
    pub opcodes: Vec<Opcode>,
    pub cpus: Vec<Cpu>,
}

/// An instruction; numbers are LLVM's.
#[derive(Debug, Deserialize)]
pub struct Opcode {
    pub name: String,
    pub size: u8,
    /// Bits that all its words have set, and clear.
    pub ones: u32,
    pub zeros: u32,
    pub load: u8,
    pub store: u8,
    pub branch: u8,
    pub call: u8,
    #[serde(rename = "return")]
    pub returns: u8,
    pub conditional: u8,
    pub indirect: u8,
    pub unmodeled: u8,
    pub uses: Vec<(String, u8)>,
    pub defs: Vec<(String, u8)>,
    pub explicit_uses: u8,
    pub explicit_defs: u8,
    pub operands: Vec<Operand>,
    /// Mask, value, scheduling class of each CPU (or one for all), and whether only where both
    /// sources are one register.
    pub classes: Vec<(u32, u32, Vec<u32>, bool)>,
    /// Scheduling classes by LMUL and SEW.
    #[serde(default)]
    pub vector: Vec<u32>,
}

/// A register operand.
#[derive(Debug, Deserialize)]
pub struct Operand {
    pub index: u8,
    pub def: bool,
    #[serde(default)]
    pub bank: String,
    pub fixed: Option<i16>,
    #[serde(default)]
    pub pos: u8,
    #[serde(default)]
    pub len: u8,
    #[serde(default)]
    pub add: i16,
    #[serde(default)]
    pub stride: u8,
    #[serde(default)]
    pub count: u8,
    #[serde(default)]
    pub at31: String,
    #[serde(default)]
    pub unless: i8,
    /// A register of it, where no field was found.
    pub unknown: Option<String>,
}

/// A scheduling model.
#[derive(Debug, Deserialize)]
pub struct Cpu {
    pub name: String,
    pub has_model: u8,
    pub issue_width: u16,
    pub buffer: i32,
    pub mispredict: u16,
    pub reorder_buffer: Option<u16>,
    pub retire: Option<u16>,
    pub resources: Vec<Resource>,
    pub classes: BTreeMap<u32, Class>,
}

/// A unit or group.
#[derive(Debug, Deserialize)]
pub struct Resource {
    pub name: String,
    pub units: u16,
    #[serde(rename = "super")]
    pub part_of: u16,
    pub buffer: i16,
    pub subs: Vec<u16>,
}

/// A scheduling class.
#[derive(Debug, Deserialize)]
pub struct Class {
    pub uops: u16,
    pub begin: u8,
    pub end: u8,
    /// Retires out of order, in an in-order core.
    pub ooo: u8,
    pub resources: Vec<(u16, u16, u16)>,
    pub latencies: Vec<(i16, u16)>,
    pub advances: Vec<(u16, u16, i16)>,
}

/// An instruction's number and name.
#[derive(Debug, Deserialize)]
pub struct Name {
    pub opcode: u16,
    pub name: String,
}
