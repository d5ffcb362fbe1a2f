//! What a broker written in Rust implements.

use std::sync::Arc;
use std::time::Duration;

use mcad_proto::event::Event;

use crate::config::Config;
use crate::ffi;

/// What a broker can do, as bits of the ABI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    /// Nothing special.
    pub const NONE: Self = Self(0);
    /// Records carry memory accesses.
    pub const MEMORY: Self = Self(ffi::MCAD_BROKER_MEMORY);
    /// Reports mapped files.
    pub const MODULES: Self = Self(ffi::MCAD_BROKER_MODULES);
    /// Runs or accompanies a real process.
    pub const PROCESS: Self = Self(ffi::MCAD_BROKER_PROCESS);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Asks a session to end soon; called from any thread, also while `next` runs.
pub type StopFn = Arc<dyn Fn() + Send + Sync>;

/// A source of events.
///
/// Errors are texts for people: they say what failed, where, and what to do. A session whose
/// [`Broker::next`] failed is only dropped afterwards. A panic is caught at the C edge and becomes
/// such an error.
pub trait Broker: Sized + Send + 'static {
    /// Short name, for example `qemu`.
    const NAME: &'static str;
    /// One line per configuration key.
    const HELP: &'static str;
    /// What sessions of this broker may carry.
    const FEATURES: Features;

    /// Opens a session.
    ///
    /// # Errors
    /// A text when the configuration is wrong or the source cannot be opened.
    fn open(config: &Config) -> Result<Self, String>;

    /// Waits up to `timeout` for the next event, `None` when there was none in time.
    ///
    /// The first event is [`Event::Session`], the last [`Event::End`]. What the event borrows is
    /// handed to the host without a copy.
    ///
    /// # Errors
    /// A text when the session cannot go on.
    fn next(&mut self, timeout: Duration) -> Result<Option<Event<'_>>, String>;

    /// How to end the session early; asked once, after `open`.
    fn stopper(&self) -> Option<StopFn> {
        None
    }
}
