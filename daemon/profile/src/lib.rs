//! The profiler: measures on the CPU at hand what the models predict.
//!
//! `clock` says how long a core cycle is, with or without performance counters. `screen` decides
//! what code may run, `cell` is the process in which it runs, `program` the code that is generated
//! around it, and `block` the method. `command` has the cycles of whole commands, `host` which CPU
//! it is. x86-64 Linux only. docs/PROFILE.md has the whole of it.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod accesses;
pub mod block;
pub mod cell;
pub mod clock;
mod code;
pub mod command;
mod fetch;
pub mod host;
pub mod init;
pub mod instruction;
mod prefetched;
pub mod probe;
pub mod reject;
pub mod screen;
