//! The client's side of a daemon elsewhere: addresses, connections, forwarding, control.

pub mod address;
mod connection;
pub mod control;
pub mod forward;

pub use address::Address;
pub use connection::{Connection, RemoteError, Stream};
