//! Simulation core of mcad: no I/O.
//!
//! `machine` holds the CPU models as data, `isa` turns bytes into static instructions, `pipeline`
//! is the out-of-order core, `block` predicts single blocks with it, `simulation` consumes a
//! session's events, `report` is the result.

pub mod block;
pub mod isa;
pub mod machine;
pub mod pipeline;
pub mod report;
pub mod simulation;
