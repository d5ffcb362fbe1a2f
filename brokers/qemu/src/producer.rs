//! Where the records come from: an emulator of ours, or one that someone else started.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use mcad_proto::event::EndReason;

use crate::accept::Accepted;
use crate::process::{Emulator, shell_status};
use crate::qemu::Qemu;

/// An emulator and what is known of it.
#[derive(Debug)]
pub enum Producer {
    /// Started by this session.
    Spawned {
        /// The emulator.
        qemu: Qemu,
        /// The plugin that it loads.
        plugin: String,
        /// What it runs.
        command: Vec<String>,
        /// Its process.
        emulator: Emulator,
    },
    /// Started by someone else.
    Accepted(Accepted),
}

/// How an emulator ended, as far as can be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A child's status.
    Status(ExitStatus),
    /// What the program of someone else's emulator asked for, if it ended regularly.
    Announced(Option<i32>),
}

impl Producer {
    /// Whether the emulator is gone. What it wrote before is visible afterwards.
    ///
    /// # Errors
    /// What the system said.
    pub fn ended(&self) -> io::Result<bool> {
        match self {
            Self::Spawned { emulator, .. } => Ok(emulator.ended()),
            Self::Accepted(accepted) => accepted.ended(),
        }
    }

    /// The emulator's version, and the traced command.
    #[must_use]
    pub fn describe(&self) -> (String, Vec<String>) {
        match self {
            Self::Spawned { qemu, command, .. } => (qemu.version.clone(), command.clone()),
            Self::Accepted(accepted) => accepted.describe(),
        }
    }

    /// Kills the emulator, from any thread.
    pub fn killer(&self) -> Box<dyn Fn() + Send + Sync> {
        match self {
            Self::Spawned { emulator, .. } => {
                let killer = emulator.killer();
                Box::new(move || killer.kill())
            }
            Self::Accepted(accepted) => {
                let killer = accepted.killer();
                Box::new(move || killer.kill())
            }
        }
    }

    /// How it ended; waits for that.
    ///
    /// # Errors
    /// What the system said.
    pub fn reap(&mut self) -> io::Result<Ended> {
        match self {
            Self::Spawned { emulator, .. } => emulator.reap().map(Ended::Status),
            Self::Accepted(accepted) => Ok(Ended::Announced(accepted.exit_status())),
        }
    }
}

impl Ended {
    /// The reason of the session's end. `regular`: the plugin saw the emulator end by itself;
    /// `replaced`: the last thing that it saw was an `execve`.
    #[must_use]
    pub fn reason(self, regular: bool, replaced: bool) -> EndReason {
        let died = |how: &str| {
            EndReason::ProducerDied(format!(
                "the emulator ended with {how} in the middle of the program"
            ))
        };
        match self {
            Self::Status(status) if replaced => EndReason::Exec(shell_status(status)),
            Self::Status(status) => match (status.code(), status.signal()) {
                (_, Some(signal)) => EndReason::Signaled(signal),
                (Some(code), _) if regular => EndReason::Exited(code),
                _ => died(&status.to_string()),
            },
            // Nobody tells a stranger how the new program ended.
            Self::Announced(_) if replaced => EndReason::Exec(0),
            Self::Announced(Some(code)) => EndReason::Exited(code),
            Self::Announced(None) => died("a status that only its parent knows"),
        }
    }
}
