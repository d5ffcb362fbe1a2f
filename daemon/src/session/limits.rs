//! What one session may make the process keep. Records are streamed and bounded by the queue; the
//! block dictionary, the threads' cores and the symbols stay for the session's life, so a peer
//! could grow them without end.

use super::SessionError;
use crate::memory::{self, account::Account};

/// Bytes that a session's lasting state may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit(pub u64);

impl MemoryLimit {
    /// Least limit for programs run by the user.
    const LEAST: u64 = 1 << 30;

    /// For programs run by the user and for traces that he names: three quarters of the memory
    /// that the machine has, so that a trace made to be large ends with a message and not with
    /// the machine.
    #[must_use]
    pub fn local() -> Self {
        Self((memory::of_machine() / 4 * 3).max(Self::LEAST))
    }
}

/// Compares what the session's threads hold with its limit.
#[derive(Debug)]
pub(super) struct Retained {
    account: Account,
    limit: MemoryLimit,
}

impl Retained {
    pub(super) const fn new(account: Account, limit: MemoryLimit) -> Self {
        Self { account, limit }
    }

    /// The account that the session's threads charge.
    pub(super) const fn account(&self) -> &Account {
        &self.account
    }

    /// Whether the session may go on.
    pub(super) fn check(&self) -> Result<(), SessionError> {
        if self.account.held() > self.limit.0 {
            return Err(SessionError::Memory {
                limit_mib: self.limit.0 >> 20,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_hold_counts_and_no_more() {
        let retained = Retained::new(Account::default(), MemoryLimit(4 << 20));
        let charge = retained.account().charge();
        let kept = vec![1u8; 5 << 20];
        assert!(retained.check().is_err());
        drop(kept);
        assert!(retained.check().is_ok());
        drop(charge);
    }
}
