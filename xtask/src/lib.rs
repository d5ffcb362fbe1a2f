//! What developer commands share: running other programs, building what a user runs, installing
//! packages.

pub mod build;
pub mod command;
pub mod install;
pub mod package;
pub mod qemu;
pub mod run;
pub mod setup;
pub mod test;
