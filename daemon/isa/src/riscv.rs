//! RISC-V: RV32IMC with Zicsr and Zifencei, from bytes to static facts.
//!
//! [`decode`] gives the operation and its operands, 16-bit forms already expanded
//! ([`compressed`]); [`evaluate`] computes what an operation gives where its inputs are known.
//! Source: The RISC-V Instruction Set Manual, Volume I, version 20191213.

pub mod compressed;
pub mod decode;
pub mod evaluate;

pub use decode::{Inst, Op, decode};
