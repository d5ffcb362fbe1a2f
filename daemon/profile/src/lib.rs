//! The profiler: measures on the CPU at hand what the models predict.
//!
//! `clock` says how long a core cycle is, with or without performance counters. x86-64 Linux only.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

pub mod clock;
