//! Why a trace file cannot be read or written as a whole. Damage inside a file is no error of this
//! kind: the reader goes on behind it and reports it as an event.

use std::io;

/// A trace that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("cannot read the trace {file} at byte {offset}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Bytes read before.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// Writing failed, for example because the disk is full.
    #[error(
        "cannot write the trace {file}: {source}; recording stops, the {offset} bytes written stay \
         readable up to the last whole chunk"
    )]
    Write {
        /// The file.
        file: String,
        /// Bytes written before.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// A call after writing failed or after the end.
    #[error("the recording of {file} is over")]
    Over {
        /// The file.
        file: String,
    },
    /// The file is no trace.
    #[error(
        "{file} is no mcad trace: it {}; record one with mcad-run --record",
        beginning(found)
    )]
    Foreign {
        /// The file.
        file: String,
        /// Its first bytes, at most 8.
        found: Vec<u8>,
    },
    /// The file is of another version.
    #[error(
        "{file} has trace format {found}, this program reads up to {}; update it, or record again",
        super::VERSION
    )]
    Version {
        /// The file.
        file: String,
        /// Its version.
        found: u32,
    },
    /// The file's header is damaged.
    #[error("{file}: the header is damaged: {what}; nothing can be read")]
    Header {
        /// The file.
        file: String,
        /// How.
        what: String,
    },
}

/// How a file begins that is no trace.
fn beginning(found: &[u8]) -> String {
    match found {
        [] => "is empty".to_owned(),
        _ => format!("begins with {found:02x?}"),
    }
}
