//! Daemon, sessions and command-line tools of mcad.

pub mod symbols;
