//! End-to-end tests of mcad: the built programs, run as users run them.
//!
//! This library is their harness. [`programs`] builds what is tested with the profile of the
//! running test; every run has a time limit ([`Run`]); a missing tool fails with the command that
//! installs it ([`tool`]).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Harness of tests.

pub mod daemon;
pub mod inputs;
pub mod programs;
pub mod report;
pub mod run;
pub mod same;

pub use inputs::tool;
pub use programs::programs;
pub use run::{Run, arg, mcad, mcad_run};
pub use same::{FAST, same, same_with};
