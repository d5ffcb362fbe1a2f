//! Asking a daemon for its state, and to end.

use mcad_proto::wire::{Hello, Message, Problem, Role, Status};

use super::{Address, Connection, RemoteError};

/// The daemon's state.
///
/// # Errors
/// [`RemoteError`].
pub fn status(address: &Address, token: &str) -> Result<Status, RemoteError> {
    let mut connection = greet(address, token)?;
    connection.writer.send(&Message::StatusRequest)?;
    answer(&mut connection, "its status", |message| match message {
        Message::Status(status) => Ok(status),
        other => Err(other.name()),
    })
}

/// Asks the daemon to end; returns how many sessions were running.
///
/// # Errors
/// [`RemoteError`].
pub fn shutdown(address: &Address, token: &str, now: bool) -> Result<u32, RemoteError> {
    let mut connection = greet(address, token)?;
    connection.writer.send(&Message::Shutdown { now })?;
    answer(&mut connection, "its answer", |message| match message {
        Message::ShutdownReply { running } => Ok(running),
        other => Err(other.name()),
    })
}

fn greet(address: &Address, token: &str) -> Result<Connection, RemoteError> {
    let mut hello = Hello::new(Role::Control, None);
    token.clone_into(&mut hello.token);
    Connection::open(address, &hello)
}

fn answer<T>(
    connection: &mut Connection,
    expected: &'static str,
    accept: impl FnOnce(Message<'_>) -> Result<T, &'static str>,
) -> Result<T, RemoteError> {
    let closed = || RemoteError::Closed {
        address: connection.writer.address.clone(),
        expected,
    };
    let frame = connection.reader.next_frame()?;
    let opened = frame.ok_or_else(closed)?.open()?;
    match opened.message()? {
        Message::Failure(message) => Err(RemoteError::Failed {
            address: connection.writer.address.clone(),
            message,
        }),
        message => accept(message)
            .map_err(|found| opened.error(Problem::Unexpected { found, expected }).into()),
    }
}
