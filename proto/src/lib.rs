//! Wire and trace-file formats of mcad, and the event types that they carry.
//!
//! This crate knows nobody: brokers, daemon and tools build on it.

pub mod batch;
pub mod event;
pub mod fuzz;
pub mod generated;
pub mod trace;
pub mod wire;
pub mod word;
