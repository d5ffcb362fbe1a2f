//! The host's side: loads brokers and pulls checked events from their sessions.

mod check;
mod library;
mod session;

pub use check::{MAX_CODE_BYTES, MAX_RECORD_WORDS, MAX_STRINGS, MAX_TEXT_BYTES};
pub use library::BrokerLibrary;
pub use session::{BrokerSession, Stopper};

use std::path::PathBuf;

/// What can go wrong with a broker. `broker` is its name, or its file's before the name is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// The shared library cannot be loaded.
    #[error("cannot load the broker {}: {source}", path.display())]
    Load {
        /// The library's file.
        path: PathBuf,
        /// The dynamic loader's reason.
        source: libloading::Error,
    },
    /// The library is no broker, or one of another ABI version.
    #[error("{} is no usable broker: {what}", path.display())]
    Incompatible {
        /// The library's file.
        path: PathBuf,
        /// What is wrong, and the way out.
        what: String,
    },
    /// The broker refused to open a session.
    #[error("{broker} broker: {message}")]
    Open {
        /// Name of the broker.
        broker: String,
        /// Its own words.
        message: String,
    },
    /// The session failed.
    #[error("{broker} broker, after {events} events: {message}")]
    Session {
        /// Name of the broker.
        broker: String,
        /// Events delivered before.
        events: u64,
        /// Its own words.
        message: String,
    },
    /// The broker broke the ABI's rules.
    #[error("{broker} broker, event {event}: {what}; this is a defect of the broker")]
    BadEvent {
        /// Name of the broker.
        broker: String,
        /// Number of the event, from 1.
        event: u64,
        /// Which rule.
        what: String,
    },
    /// An event was asked for after the end or after an error.
    #[error("{broker} broker: the session is over")]
    Over {
        /// Name of the broker.
        broker: String,
    },
}
