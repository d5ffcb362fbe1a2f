//! A blocking connection to a daemon, as far as the end of the handshake.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mcad_proto::wire::{Accepted, FrameReader, Hello, Message, ProtocolError, encode};

use super::Address;

/// Longest wait for a connection, for the answer to a greeting, and for a peer to take bytes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What can go wrong with a daemon elsewhere.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// No connection.
    #[error("cannot connect to the daemon at {address}: {source}; is `mcad daemon` running there?")]
    Connect {
        /// The daemon's address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The daemon does not take the session.
    #[error("the daemon at {address} refused: {message}")]
    Refused {
        /// The daemon's address.
        address: String,
        /// Its own words.
        message: String,
    },
    /// The daemon gave up.
    #[error("the daemon at {address} failed: {message}")]
    Failed {
        /// The daemon's address.
        address: String,
        /// Its own words.
        message: String,
    },
    /// The connection broke or the daemon does not keep the protocol.
    #[error("the daemon at {0}")]
    Protocol(#[from] ProtocolError),
    /// The connection closed too early.
    #[error("the daemon at {address} closed the connection before {expected}")]
    Closed {
        /// The daemon's address.
        address: String,
        /// What was awaited.
        expected: &'static str,
    },
    /// Bytes could not be sent.
    #[error("cannot send to the daemon at {address}: {source}")]
    Send {
        /// The daemon's address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A connected stream of either kind.
#[derive(Debug)]
pub enum Stream {
    /// A socket file's.
    Unix(UnixStream),
    /// A TCP connection.
    Tcp(TcpStream),
}

impl Stream {
    /// Another handle on the same connection.
    ///
    /// # Errors
    /// What the system says.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    /// Longest wait of one read and one write; `None` waits for ever.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_timeouts(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(read)?;
                stream.set_write_timeout(write)
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(read)?;
                stream.set_write_timeout(write)
            }
        }
    }

    /// Closes both ways; the other handles see the end.
    pub fn close(&self) {
        // One that is closed already needs no closing.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(buffer),
            Self::Tcp(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection whose greeting was accepted.
pub struct Connection {
    /// What comes.
    pub reader: FrameReader<Stream>,
    /// What goes.
    pub writer: Writer,
    /// The daemon's terms.
    pub terms: Accepted,
}

/// The sending half.
#[derive(Debug)]
pub struct Writer {
    /// The daemon's address, for messages.
    pub address: String,
    /// The connection.
    pub stream: Stream,
}

impl Writer {
    /// Sends a message.
    ///
    /// # Errors
    /// [`RemoteError::Send`].
    pub fn send(&mut self, message: &Message<'_>) -> Result<(), RemoteError> {
        let mut bytes = Vec::new();
        encode(message, &mut bytes);
        self.send_bytes(&bytes)
    }

    /// Sends encoded frames.
    ///
    /// # Errors
    /// [`RemoteError::Send`].
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), RemoteError> {
        self.stream
            .write_all(bytes)
            .map_err(|source| RemoteError::Send {
                address: self.address.clone(),
                source,
            })
    }
}

impl Connection {
    /// Connects and greets.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn open(address: &Address, hello: &Hello) -> Result<Self, RemoteError> {
        let name = address.to_string();
        let failed = |source| RemoteError::Connect {
            address: name.clone(),
            source,
        };
        let stream = connect(address).map_err(failed)?;
        stream
            .set_timeouts(Some(PATIENCE), Some(PATIENCE))
            .map_err(failed)?;
        let reader = stream.try_clone().map_err(failed)?;
        let mut reader = FrameReader::new(reader, name.clone());
        let mut writer = Writer {
            address: name.clone(),
            stream,
        };
        writer.send(&Message::Hello(hello.clone()))?;
        let closed = || RemoteError::Closed {
            address: name.clone(),
            expected: "its answer",
        };
        let opened = reader.next_frame()?.ok_or_else(closed)?.open()?;
        let terms = match opened.message()? {
            Message::Accepted(terms) => terms,
            Message::Refused(refused) => {
                return Err(RemoteError::Refused {
                    address: name,
                    message: refused.message,
                });
            }
            other => {
                let problem = mcad_proto::wire::Problem::Unexpected {
                    found: other.name(),
                    expected: "HelloReply",
                };
                return Err(opened.error(problem).into());
            }
        };
        drop(opened);
        reader.set_max_frame(usize::MAX);
        Ok(Self {
            reader,
            writer,
            terms,
        })
    }
}

impl Address {
    /// Whether somebody listens there.
    ///
    /// # Errors
    /// When nobody does.
    pub fn reach(&self) -> Result<(), RemoteError> {
        match connect(self) {
            Ok(_) => Ok(()),
            Err(source) => Err(RemoteError::Connect {
                address: self.to_string(),
                source,
            }),
        }
    }
}

fn connect(address: &Address) -> io::Result<Stream> {
    if let Address::Unix(path) = address {
        return UnixStream::connect(path).map(Stream::Unix);
    }
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for number in address.resolve()? {
        match TcpStream::connect_timeout(&number, PATIENCE) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(Stream::Tcp(stream));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
