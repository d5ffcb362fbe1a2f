//! The shared-memory ring that the plugin fills: `qemu-plugin/mcad_ring.h` has the protocol.
//!
//! [`layout`] mirrors the header, [`memory`] creates and maps it, [`control`] reads the log of
//! control messages, [`reader`] turns chunks into batches of words. Everything in the ring is
//! foreign: the guest shares the emulator's address space and may write anywhere, so every index
//! and length is checked and words are copied out before anyone looks at them.

use std::path::PathBuf;

pub mod control;
pub mod layout;
pub mod memory;
pub mod reader;

/// A ring that cannot be created, or whose contents break the protocol.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The memory cannot be had.
    #[error(
        "cannot create a shared ring of {mib} MiB: {source} (ring_mib= makes it smaller; a limit of files' sizes, ulimit -f, \
             holds for it, too)"
    )]
    Create {
        /// Size asked for.
        mib: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// The name for the ring is taken.
    #[error("{}: exists already; the ring needs a new file", .0.display())]
    Exists(PathBuf),
    /// The writer broke the protocol (a guest that overwrote the emulator's memory can do that).
    #[error("the ring is damaged: {0}")]
    Damaged(String),
}
