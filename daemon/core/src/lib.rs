//! Simulation core of mcad: no I/O.
//!
//! `pipeline` is the out-of-order core, `block` predicts single blocks with it, `simulation`
//! consumes a session's events. The CPU models and the static instructions are `mcad-isa`'s, the
//! result is `mcad-report`'s.

pub mod block;
mod chance;
pub mod fuzz;
mod lists;
pub mod llvm_mca;
pub mod memory;
pub mod pipeline;
pub mod simulation;
