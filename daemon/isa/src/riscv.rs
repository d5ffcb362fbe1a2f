//! RISC-V: RV32IMC with Zicsr and Zifencei, from bytes to static facts.
//!
//! [`decode`] gives the operation and its operands, 16-bit forms already expanded
//! ([`compressed`]); [`evaluate`] computes what an operation gives where its inputs are known.
//! [`inorder`] says what classes of an in-order core instructions are, and [`divider`] how long a
//! division takes there.
//! Source: The RISC-V Instruction Set Manual, Volume I, version 20191213.

pub mod bounds;
pub mod compressed;
pub mod decode;
pub mod divider;
pub mod evaluate;
pub mod image;
pub mod inorder;
mod operations;
pub mod sizes;

pub use decode::{Inst, Op, decode, word};
