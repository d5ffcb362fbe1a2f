//! Why a block has no figure: BHive's filters (Chen et al., section 3) and what protects the
//! machine and the measurement.

use std::fmt;

use crate::cell::{MAX_PAGES, Stop};
use crate::screen::{Refusal, Why};

/// The reason, with what a person needs to see it.
#[derive(Clone, Debug, PartialEq)]
pub enum Reject {
    /// Not run at all.
    Refused(Refusal),
    /// Has no counted loop of its own and uses all registers, so none is left to count with.
    NoCounter,
    /// Ended by a signal.
    Crash {
        /// Number of the signal.
        signal: i32,
        /// Byte of the block, when the instruction is known.
        at: Option<u64>,
    },
    /// Touched an address that cannot be mapped.
    Unmappable(Option<u64>),
    /// Touched the harness's memory or its own code.
    Harness(u64),
    /// Did not end.
    Endless,
    /// Touched more pages than are mapped.
    Pages,
    /// An access crosses a cache line.
    SplitLine {
        /// Address.
        address: u64,
        /// Bytes.
        bytes: usize,
    },
    /// A load and a store before it differ in their pages only, which are one physical page.
    MayAlias {
        /// Of the load.
        load: u64,
        /// Of the store.
        store: u64,
    },
    /// Repetitions differ too much.
    Unsteady {
        /// Interquartile range over the median.
        spread: f64,
    },
    /// The core clock changed in every attempt.
    Clock,
}

impl Reject {
    /// The kind of reason, for counting.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Refused(Refusal::Instruction {
                why: Why::Missing(_),
                ..
            }) => "unsupported",
            Self::Refused(_) | Self::NoCounter => "refused",
            Self::Crash { signal, .. } if *signal == libc::SIGILL => "unsupported",
            Self::Crash { .. } => "crash",
            Self::Unmappable(_) => "unmappable",
            Self::Harness(_) => "harness",
            Self::Endless => "endless",
            Self::Pages => "pages",
            Self::SplitLine { .. } => "split line",
            Self::MayAlias { .. } => "alias",
            Self::Unsteady { .. } => "unsteady",
            Self::Clock => "clock",
        }
    }

    /// Of a stop; `offset` says which byte of the block an address of code is.
    pub(crate) fn of_stop(stop: Stop, offset: impl Fn(u64) -> Option<u64>) -> Self {
        match stop {
            Stop::Unmappable(address) => Self::Unmappable(Some(address)),
            Stop::NonCanonical => Self::Unmappable(None),
            Stop::Harness(address) => Self::Harness(address),
            Stop::Pages => Self::Pages,
            Stop::Endless => Self::Endless,
            Stop::Signal(signal, at) => Self::Crash {
                signal,
                at: offset(at),
            },
            Stop::Gone => Self::Crash {
                signal: libc::SIGKILL,
                at: None,
            },
        }
    }
}

fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGFPE => "arithmetic exception (SIGFPE)",
        libc::SIGILL => "an instruction that this CPU lacks (SIGILL)",
        libc::SIGBUS => "bus error (SIGBUS)",
        libc::SIGSYS => "system call (SIGSYS)",
        libc::SIGTRAP => "breakpoint or trap (SIGTRAP)",
        libc::SIGKILL => "killed (SIGKILL)",
        _ => "signal",
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.class())?;
        match self {
            Self::Refused(refusal) => write!(f, "{refusal}"),
            Self::NoCounter => f.write_str("no register is left to count a loop with"),
            Self::Crash { signal, at } => {
                f.write_str(name(*signal))?;
                at.map_or(Ok(()), |at| write!(f, " at byte {at}"))
            }
            Self::Unmappable(Some(address)) => write!(f, "address {address:#x}"),
            Self::Unmappable(None) => f.write_str("an address that is not canonical"),
            Self::Harness(address) => write!(f, "address {address:#x} is the harness's or code"),
            Self::Endless => f.write_str("did not end in time"),
            Self::Pages => write!(f, "touches more than {MAX_PAGES} pages"),
            Self::SplitLine { address, bytes } => {
                write!(f, "{bytes} bytes at {address:#x} cross a cache line")
            }
            Self::MayAlias { load, store } => write!(
                f,
                "the load from {load:#x} meets the store to {store:#x} in the one physical page"
            ),
            Self::Unsteady { spread } => {
                write!(
                    f,
                    "interquartile range {:.1} % of the median",
                    100.0 * spread
                )
            }
            Self::Clock => f.write_str("the core clock changed during every attempt"),
        }
    }
}
