//! The messages as Rust values. The schema (`schema/mcad.capnp`) says what each is for.

use crate::event::{Arch, EndReason};
use crate::generated::mcad_capnp;
use crate::wire::Batch;

/// Newest protocol version that this program speaks.
pub const VERSION: u16 = mcad_capnp::PROTOCOL_VERSION;
/// Oldest protocol version that this program speaks.
pub const OLDEST_VERSION: u16 = 1;

/// One message; bulk data borrows from the frame.
#[derive(Debug)]
#[non_exhaustive]
pub enum Message<'a> {
    /// Opens a conversation; client to daemon.
    Hello(Hello),
    /// The daemon takes the session.
    Accepted(Accepted),
    /// The daemon does not; it closes the connection then.
    Refused(Refused),
    /// Events; client to daemon.
    Batch(Batch<'a>),
    /// No more batches; client to daemon.
    End {
        /// Why.
        reason: EndReason,
        /// How many batches were sent.
        batches: u64,
    },
    /// So many more batches may be sent; daemon to client.
    Credit(u32),
    /// How far the simulation is; daemon to client.
    Progress(Progress),
    /// A part of the report; daemon to client.
    ReportPart(ReportPart<'a>),
    /// The session cannot go on; either way.
    Failure(String),
    /// The daemon asks the client to end soon.
    Stop(String),
    /// Asks for [`Message::Status`]; control connection.
    StatusRequest,
    /// State of the daemon.
    Status(Status),
    /// Asks the daemon to end; control connection.
    Shutdown {
        /// Whether running sessions are cut off instead of waited for.
        now: bool,
    },
    /// The daemon ends.
    ShutdownReply {
        /// Sessions that were running.
        running: u32,
    },
}

impl Message<'_> {
    /// Name for error messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "Hello",
            Self::Accepted(_) | Self::Refused(_) => "HelloReply",
            Self::Batch(_) => "Batch",
            Self::End { .. } => "End",
            Self::Credit(_) => "Credit",
            Self::Progress(_) => "Progress",
            Self::ReportPart(_) => "ReportPart",
            Self::Failure(_) => "Failure",
            Self::Stop(_) => "Stop",
            Self::StatusRequest => "StatusRequest",
            Self::Status(_) => "Status",
            Self::Shutdown { .. } => "Shutdown",
            Self::ShutdownReply { .. } => "ShutdownReply",
        }
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends batches.
    Trace,
    /// Asks for status or shutdown.
    Control,
}

/// First message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest version that the client speaks.
    pub min_version: u16,
    /// Newest version that the client speaks.
    pub max_version: u16,
    /// What the connection is for.
    pub role: Role,
    /// Guest instruction set; `None` on control connections.
    pub arch: Option<Arch>,
    /// `feature…` bits of the schema.
    pub features: u64,
    /// Secret that a TCP daemon asks for; empty when none.
    pub token: String,
    /// Who produces the records.
    pub producer: String,
    /// The traced command, program first.
    pub command: Vec<String>,
    /// What to analyse.
    pub options: Vec<(String, String)>,
}

impl Hello {
    /// Records carry memory accesses.
    pub const MEMORY: u64 = mcad_capnp::FEATURE_MEMORY;
    /// Mapped files are reported.
    pub const MODULES: u64 = mcad_capnp::FEATURE_MODULES;
    /// The client wants progress and the report back.
    pub const REPORT: u64 = mcad_capnp::FEATURE_REPORT;

    /// A greeting of this program's versions with nothing else set.
    #[must_use]
    pub fn new(role: Role, arch: Option<Arch>) -> Self {
        Self {
            min_version: OLDEST_VERSION,
            max_version: VERSION,
            role,
            arch,
            features: 0,
            token: String::new(),
            producer: String::new(),
            command: Vec::new(),
            options: Vec::new(),
        }
    }
}

/// The version to speak with a client: the newest that both know.
#[must_use]
pub fn negotiate(hello: &Hello) -> Option<u16> {
    let version = hello.max_version.min(VERSION);
    (version >= hello.min_version.max(OLDEST_VERSION)).then_some(version)
}

/// Terms of an accepted session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Version that both speak from here on.
    pub version: u16,
    /// Number of the session, unique in the life of the daemon.
    pub session: u64,
    /// Batches that may be sent at once.
    pub credit: u32,
    /// Longest payload that the daemon reads, in bytes.
    pub max_frame: u32,
    /// Most record words in a batch.
    pub max_words: u32,
    /// Those features of [`Hello`] that hold.
    pub features: u64,
}

/// Why a session was not taken, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// See the message.
    Other,
    /// No common version.
    Version,
    /// Missing or wrong token.
    Token,
    /// Instruction set that the daemon cannot analyse.
    Arch,
    /// Too many sessions or too little memory.
    Busy,
    /// Options that the daemon does not understand.
    Options,
    /// The daemon ends.
    ShuttingDown,
}

/// A session that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why, for programs.
    pub reason: Refusal,
    /// Why, for people.
    pub message: String,
}

/// How far a simulation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Guest instructions simulated.
    pub instructions: u64,
    /// Cycles on the first CPU model.
    pub cycles: u64,
    /// Record words received.
    pub records: u64,
}

/// A piece of the report's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportPart<'a> {
    /// Bytes of the whole report.
    pub total: u64,
    /// Where this part belongs.
    pub offset: u64,
    /// The bytes.
    pub data: &'a [u8],
}

/// State of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Seconds since its start.
    pub uptime_seconds: u64,
    /// Most sessions at once.
    pub max_sessions: u32,
    /// Sessions that ended well.
    pub finished_sessions: u64,
    /// Sessions that did not.
    pub failed_sessions: u64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Running sessions.
    pub sessions: Vec<SessionStatus>,
}

/// State of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionStatus {
    /// Number.
    pub id: u64,
    /// Address of the client.
    pub peer: String,
    /// The traced command, for people.
    pub command: String,
    /// For example `running`.
    pub state: String,
    /// Seconds since its start.
    pub seconds: u64,
    /// Guest instructions simulated.
    pub instructions: u64,
    /// Record words received.
    pub records: u64,
    /// Bytes received and not yet simulated.
    pub queued_bytes: u64,
}
