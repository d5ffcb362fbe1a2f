//! The wire protocol: frames, messages and the rules of a conversation (docs/PROTOCOL.md).
//!
//! Everything here works on byte slices; who moves the bytes (a thread, tokio, a test) is up to
//! the caller. Nothing from a peer is believed: lengths are checked against [`limits`] before
//! memory is taken, each message is read by a fresh Cap'n Proto reader with a traversal limit of
//! the message's own size, and every error names the peer and the byte.

mod batch;
mod credit;
mod error;
mod frame;
pub mod limits;
mod message;
mod parts;
mod read;
mod token;
mod write;

pub use batch::{Batch, BatchBuilder};
pub use credit::{CreditGrant, CreditWindow};
pub use error::{Problem, ProtocolError};
pub use frame::{Frame, FrameDecoder, FrameReader, MAGIC, Opened};
pub use message::{
    Accepted, Hello, Message, Progress, Refusal, Refused, ReportPart, Role, SessionStatus, Status,
    VERSION, negotiate,
};
pub use parts::{ReportAssembler, report_parts};
pub(crate) use read::{arch as read_arch, end as read_end, string_list, string_of};
pub use token::tokens_equal;
pub use write::encode;
pub(crate) use write::{arch as write_arch, end as write_end};
