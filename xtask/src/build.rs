//! Building what a user runs: both programs and the brokers, which find each other in one
//! directory. The QEMU plugin is part of the qemu broker and built by it.

use std::path::PathBuf;

use anyhow::Result;

use crate::command::{cargo, execute_aside, root};

/// Packages that make programs or brokers.
pub const PACKAGES: [&str; 4] = [
    "mcad-daemon",
    "mcad-broker-qemu",
    "mcad-broker-asm",
    "mcad-broker-replay",
];

/// Programs.
pub const PROGRAMS: [&str; 2] = ["mcad", "mcad-run"];

/// Brokers, as shared libraries.
pub const BROKERS: [&str; 3] = [
    "libmcad_broker_qemu.so",
    "libmcad_broker_asm.so",
    "libmcad_broker_replay.so",
];

/// Builds with the release profile and returns the directory of the results.
pub fn release() -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--release", "--locked"]);
    for package in PACKAGES {
        build.args(["--package", package]);
    }
    execute_aside(&mut build)?;
    Ok(target_dir().join("release"))
}

/// Cargo's target directory.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|value| !value.is_empty()) {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}
