//! Simulation core of mcad: no I/O.
//!
//! `machine` holds the CPU models as data, `simulation` consumes a session's events, `report` is
//! the result.

pub mod machine;
pub mod report;
pub mod simulation;
