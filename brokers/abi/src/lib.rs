//! C ABI between the daemon and its brokers, for both sides.
//!
//! The contract is `include/mcad_broker.h`; [`ffi`] mirrors it and a test holds the two together.
//! A broker written in Rust implements [`Broker`] and calls [`export_broker!`]; it never sees a
//! raw pointer. The host loads any broker, in whatever language, with [`BrokerLibrary`] and gets
//! [`Event`](mcad_proto::event::Event)s whose every pointer, length and text was checked first.

/// Fingerprint of the sources that decide what mcad's own brokers say, as they were when this was
/// built (`build.rs`): the same in a program and a broker of one build.
pub const SOURCES: &str = env!("MCAD_SOURCES");

pub mod broker;
pub mod config;
pub mod export;
pub mod ffi;
pub mod host;

pub use broker::{Broker, Features, StopFn};
pub use config::{Config, ConfigError};
pub use host::{BrokerError, BrokerLibrary, BrokerSession, Stopper};
