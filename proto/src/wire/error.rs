//! What can be wrong with a peer's bytes.

use crate::wire::frame::MAGIC;

/// A peer that does not keep the protocol, with the place where it was noticed.
#[derive(Debug, thiserror::Error)]
#[error("{peer}, byte {offset}: {problem}")]
pub struct ProtocolError {
    /// Who sent the bytes.
    pub peer: String,
    /// Bytes of the connection before the frame with the problem.
    pub offset: u64,
    /// What is wrong.
    #[source]
    pub problem: Problem,
}

/// What is wrong with a frame or message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes are not a frame's start.
    #[error(
        "expected a frame that starts with {:?}, found {found:02x?}; is this another program's \
         port?", str::from_utf8(&MAGIC).unwrap_or("MCAD")
    )]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// The frame claims a length that is not accepted.
    #[error(
        "a frame of {length} bytes; at most {limit}, in multiples of 8, are accepted, send smaller \
         batches"
    )]
    Length {
        /// The claimed length.
        length: u64,
        /// The limit at this point of the conversation.
        limit: usize,
    },
    /// The connection ended inside a frame.
    #[error("the connection ended inside a frame: {have} of {need} bytes came")]
    Truncated {
        /// Bytes of the frame that came.
        have: usize,
        /// Bytes of the frame.
        need: usize,
    },
    /// The payload is no valid Cap'n Proto message.
    #[error("a malformed message: {0}")]
    Malformed(String),
    /// A value that the protocol does not allow.
    #[error("{0}")]
    Invalid(String),
    /// A message that may not come at this point.
    #[error("{found} came where {expected} was expected")]
    Unexpected {
        /// What came.
        found: &'static str,
        /// What may come.
        expected: &'static str,
    },
    /// A batch is missing or came twice.
    #[error("batch {found} came where batch {expected} was expected")]
    Sequence {
        /// Number of the batch that came.
        found: u64,
        /// Number that is next.
        expected: u64,
    },
    /// More batches than were granted.
    #[error("batch {sequence} came without credit; wait for the receiver's Credit messages")]
    NoCredit {
        /// Number of the batch.
        sequence: u64,
    },
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
}

impl Problem {
    /// Adds the place.
    #[must_use]
    pub fn at(self, peer: &str, offset: u64) -> ProtocolError {
        ProtocolError {
            peer: peer.to_owned(),
            offset,
            problem: self,
        }
    }
}

impl From<capnp::Error> for Problem {
    fn from(error: capnp::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl From<capnp::NotInSchema> for Problem {
    fn from(error: capnp::NotInSchema) -> Self {
        Self::Malformed(format!(
            "{error}; the peer may be newer than this program, update it"
        ))
    }
}
