//! Back-pressure: a receiver grants batches, a sender spends them.

use crate::wire::Problem;

/// The sender's side.
#[derive(Clone, Copy, Debug)]
pub struct CreditWindow {
    left: u64,
    sequence: u64,
}

impl CreditWindow {
    /// Starts with the credit of [`crate::wire::Accepted`].
    #[must_use]
    pub fn new(credit: u32) -> Self {
        Self {
            left: credit.into(),
            sequence: 0,
        }
    }

    /// Takes a Credit message.
    pub fn grant(&mut self, credit: u32) {
        self.left = self.left.saturating_add(credit.into());
    }

    /// The number for the next batch, `None` when the sender must wait for credit.
    pub fn spend(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let sequence = self.sequence;
        self.sequence += 1;
        Some(sequence)
    }

    /// Batches sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sequence
    }
}

/// The receiver's side: checks the numbers of batches and that they were granted.
#[derive(Clone, Copy, Debug)]
pub struct CreditGrant {
    granted: u64,
    received: u64,
    done: u64,
    announced: u64,
    window: u32,
}

impl CreditGrant {
    /// Grants `window` batches at first and never lets more be under way.
    #[must_use]
    pub fn new(window: u32) -> Self {
        Self {
            granted: window.into(),
            received: 0,
            done: 0,
            announced: 0,
            window,
        }
    }

    /// Checks a batch that came.
    ///
    /// # Errors
    /// [`Problem::Sequence`], [`Problem::NoCredit`].
    pub fn receive(&mut self, sequence: u64) -> Result<(), Problem> {
        if sequence != self.received {
            return Err(Problem::Sequence {
                found: sequence,
                expected: self.received,
            });
        }
        if self.received >= self.granted {
            return Err(Problem::NoCredit { sequence });
        }
        self.received += 1;
        Ok(())
    }

    /// Says that one batch was worked off. Returns the credit to send, 0 while it is not worth a
    /// message: it is sent when half the window has gathered.
    pub fn done(&mut self) -> u32 {
        self.done = (self.done + 1).min(self.received);
        let due = self.done - self.announced;
        if due < u64::from(self.window / 2).max(1) {
            return 0;
        }
        self.announced = self.done;
        self.granted += due;
        due as u32
    }

    /// Batches received.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Checks the number of batches that [`crate::wire::Message::End`] gives.
    ///
    /// # Errors
    /// [`Problem::Sequence`] when some are missing.
    pub fn end(&self, batches: u64) -> Result<(), Problem> {
        if batches == self.received {
            return Ok(());
        }
        Err(Problem::Sequence {
            found: batches,
            expected: self.received,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_keeps_the_rules_never_stalls_for_good_nor_overruns() {
        for window in [1, 2, 3, 8] {
            let mut sender = CreditWindow::new(window);
            let mut receiver = CreditGrant::new(window);
            let mut queued = 0;
            let mut sent = 0;
            while sent < 100 {
                while let Some(sequence) = sender.spend() {
                    receiver.receive(sequence).unwrap();
                    queued += 1;
                    sent += 1;
                }
                assert!(queued <= window, "bounded queue");
                assert!(queued > 0, "a full stop");
                queued -= 1;
                sender.grant(receiver.done());
            }
            assert!(receiver.end(sender.sent()).is_ok());
            assert!(receiver.end(sender.sent() + 1).is_err());
        }
    }

    #[test]
    fn overruns_and_gaps_are_noticed() {
        let mut receiver = CreditGrant::new(1);
        receiver.receive(0).unwrap();
        assert!(matches!(
            receiver.receive(1),
            Err(Problem::NoCredit { sequence: 1 })
        ));
        assert!(matches!(
            receiver.receive(7),
            Err(Problem::Sequence {
                found: 7,
                expected: 1
            })
        ));
    }
}
