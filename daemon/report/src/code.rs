//! Cycles by code: functions, blocks, their instructions, source lines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stack::SlotStack;

/// One function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionReport {
    /// Demangled name, or `0x…` range name when there is none.
    pub name: String,
    /// File name of the module, empty when unknown.
    pub module: String,
    /// Cycles spent in its own blocks.
    pub cycles: u64,
    /// Instructions executed in its own blocks.
    pub instructions: u64,
    /// Fused µops issued in its own blocks.
    pub uops: u64,
    /// Where its issue slots went; none of analyses and cores that do not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<SlotStack>,
    /// For a function without a name: the nearest function before it in its module that has one,
    /// as an exported one often has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<String>,
    /// What the code of a function without a name looks like, so that it is found again in
    /// another version: hashes of its most executed blocks, ascending. Addresses, registers and
    /// constants do not enter. Empty for functions that have a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fingerprint: Vec<String>,
}

impl FunctionReport {
    /// Whether the name only says where the function is: `module+0x…`.
    #[must_use]
    pub fn is_unnamed(&self) -> bool {
        is_place(&self.name, &self.module)
    }
}

/// Whether a function's name is the place `module+0x…` that a function without a name gets.
#[must_use]
pub fn is_place(name: &str, module: &str) -> bool {
    name.strip_prefix(module)
        .is_some_and(|rest| rest.starts_with("+0x"))
}

/// One block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockReport {
    /// Address in the guest, hexadecimal.
    pub address: String,
    /// `function+0x12`, empty when unknown.
    pub symbol: String,
    /// File name of the module.
    pub module: String,
    /// `file:line` where debug information exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Times executed.
    pub executions: u64,
    /// Instructions in one execution.
    pub instructions: u32,
    /// Cycles attributed to it.
    pub cycles: u64,
    /// Where its issue slots went; none of analyses and cores that do not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<SlotStack>,
    /// Its instructions, Intel syntax, one per line.
    pub code: Vec<String>,
    /// What became of each of them, in the order of `code`; empty under analyses that do not
    /// follow instructions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listing: Vec<InstructionReport>,
    /// What would bound it as a loop by itself, for the very hottest ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<BlockBound>,
}

/// One instruction of a listed block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstructionReport {
    /// Address in the guest, hexadecimal.
    pub address: String,
    /// `file:line` where debug information exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Cycles from the retirement of the instruction before to its own, over all executions: what
    /// it waits for is often what an instruction before it does. They add up to the block's.
    pub cycles: u64,
    /// Fused µops that an execution issues; 0 for the second half of a macro-fused pair, which
    /// the first one speaks for.
    pub uops: u16,
    /// Where its unfused µops may execute, as uops.info writes it: `1*p06+1*p23`; `1*memory` on in-order cores.
    pub ports: String,
    /// µops that an execution takes on each port when the block runs again and again by itself;
    /// for blocks that have a [`BlockReport::bound`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub port_uops: Vec<f64>,
}

/// One source line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineReport {
    /// `file:line`.
    pub line: String,
    /// Function in which most of its cycles fall.
    pub function: String,
    /// Cycles of its instructions, as in [`InstructionReport::cycles`].
    pub cycles: u64,
}

/// What bounds a block that runs again and again by itself, as `mcad block` finds it. A block that
/// takes much longer in the program waits for something outside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockBound {
    /// Cycles per execution then.
    pub cycles: f64,
    /// Parts of the core whose own bound is that: `ports`, `dependencies`, …
    pub parts: Vec<String>,
    /// Whether their bounds explain the cycles; otherwise the nearest part is named, and several
    /// get into each other's way.
    pub explained: bool,
    /// Where the bound comes from, one text per part.
    pub evidence: Vec<String>,
    /// Instructions of the block, from 0, that make the bound up; empty when it is all of them.
    pub instructions: Vec<u32>,
    /// The next bound: cycles per execution at least if these parts were no limit.
    pub next: f64,
}
