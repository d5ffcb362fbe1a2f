//! What CPUs and instructions are, before anything executes: no I/O.
//!
//! `machine` holds the CPU models as data, `x86` turns bytes into the static instructions of
//! `program`, whose registers are those of `regs`.

pub mod inorder;
pub mod machine;
pub mod program;
pub mod regs;
pub mod riscv;
pub mod x86;
