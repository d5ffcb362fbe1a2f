//! Broker that runs a program under QEMU and drains its ring.
//!
//! [`qemu`] finds an emulator that loads plugins, [`plugin`] finds or builds the plugin,
//! [`executable`] resolves the command, [`process`] runs it ([`accept`] waits for one that is started
//! elsewhere), [`ring`] is the shared memory between plugin and broker, `family` the traced processes
//! with their rings, [`session`] puts them together as a [`mcad_broker_abi::Broker`].

pub mod accept;
mod blocks;
pub mod executable;
mod family;
mod pack;
pub mod phantom;
pub mod plugin;
pub mod process;
pub mod producer;

pub mod qemu;
mod queue;
pub mod ring;
pub mod session;
mod translator;

use std::path::PathBuf;

pub use session::{Session, SessionError};

mcad_broker_abi::export_broker!(Session);

/// mcad's cache directory: `$XDG_CACHE_HOME/mcad` or `~/.cache/mcad`; `None` without a home.
#[must_use]
pub fn cache_root() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .map(|cache| cache.join("mcad"))
}
