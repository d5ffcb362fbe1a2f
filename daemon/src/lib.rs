//! Daemon, sessions and command-line tools of mcad.
//!
//! [`session`] is the middle: it pulls events from a [`source`], records them ([`recorder`]) and
//! feeds the simulation, helped by [`symbols`] and [`regions`]. [`cli`] is the way in; [`server`]
//! serves sessions to others and [`remote`] is the other end of that.

pub mod cli;
pub mod eval;
pub mod files;
pub mod install;
mod llvm_mca;
pub mod memory;
pub mod recorder;
pub mod regions;
pub mod remote;
pub mod report_text;
pub mod say;
pub mod server;
pub mod session;
pub mod source;
pub mod sources;
pub mod symbols;
pub mod timeline;
pub mod trace;
