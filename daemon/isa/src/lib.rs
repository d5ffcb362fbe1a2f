//! What CPUs and instructions are, before anything executes: no I/O.
//!
//! `machine` holds the CPU models as data. `code` is a decoded instruction of any instruction set;
//! `x86` and `llvm` (AArch64, RISC-V) decode and fill the static instructions of `program`, whose
//! registers are those of `regs` and whose µops `uop` describes; `build` chooses between them. `near` finds what a wrong name was
//! meant to be.

pub mod build;
pub mod code;
mod embedded;
pub mod inorder;
pub mod kind;
pub mod llvm;
pub mod machine;
pub mod near;
pub mod program;
pub mod regs;
pub mod riscv;
pub mod uop;
pub mod x86;
