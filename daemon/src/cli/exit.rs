//! Exit statuses.
//!
//! `mcad` ends with 0, 1 (the result is negative or incomplete) or 2 (error), or as if by
//! SIGPIPE when the reader of its output has gone. `mcad-run` ends with
//! the child's status, 128 plus the signal's number when a signal ended it, and like `env` and
//! `timeout` with 125 for failures of its own, 126 for a program that cannot be executed, 127 for
//! one that is not found.

use std::process::ExitCode;

use mcad_proto::event::EndReason;

/// `mcad`: done, but incomplete or against what was asked for.
pub const NEGATIVE: u8 = 1;
/// `mcad`: could not be done.
pub const ERROR: u8 = 2;
/// `mcad`: nobody reads its output any more; what shells give for a program that SIGPIPE ended.
pub const BROKEN_PIPE: u8 = 141;
/// `mcad-run`: it failed itself.
pub const OWN_FAILURE: u8 = 125;
/// `mcad-run`: the program cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// `mcad-run`: the program was not found.
pub const NOT_FOUND: u8 = 127;

/// The status for the system.
#[must_use]
pub fn exit_code(status: u8) -> ExitCode {
    ExitCode::from(status)
}

/// What a traced program's end means for `mcad-run`.
#[must_use]
pub fn of_child(end: &EndReason) -> u8 {
    match end {
        // A status has eight bits on Linux; what a broker adds is cut as `exit` would.
        EndReason::Exited(status) | EndReason::Exec(status) => (status & 0xff) as u8,
        EndReason::Signaled(signal) => (128 + (signal & 0x7f)) as u8,
        EndReason::Complete => 0,
        EndReason::ProducerDied(_) | EndReason::Truncated(_) => OWN_FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_keep_their_status() {
        assert_eq!(of_child(&EndReason::Exited(0)), 0);
        assert_eq!(of_child(&EndReason::Exited(255)), 255);
        assert_eq!(of_child(&EndReason::Signaled(9)), 137);
        assert_eq!(of_child(&EndReason::Exec(4)), 4);
        assert_eq!(of_child(&EndReason::Truncated(String::new())), OWN_FAILURE);
    }
}
