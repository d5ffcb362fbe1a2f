//! Where a session's events come from: a broker on this machine, or a client's connection.

use std::time::Duration;

use mcad_broker_abi::BrokerSession;
use mcad_proto::event::Event;

/// A stream of events that is pulled. Not pulling is the back-pressure.
pub trait Source: Send {
    /// Waits up to `timeout` for events and hands each that came to `take`, in order; none when
    /// there was none in time. Nothing follows [`Event::End`], after which this is not called
    /// again. What an event borrows lives as long as the call of `take`, which may block.
    ///
    /// # Errors
    /// A text for people; the source is over after it.
    fn pull(&mut self, timeout: Duration, take: &mut dyn FnMut(Event<'_>)) -> Result<(), String>;

    /// Asks the source to end soon; what it still has is delivered.
    fn stop(&mut self);
}

impl Source for BrokerSession {
    fn pull(&mut self, timeout: Duration, take: &mut dyn FnMut(Event<'_>)) -> Result<(), String> {
        match self.next(timeout) {
            Ok(Some(event)) => take(event),
            Ok(None) => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    fn stop(&mut self) {
        BrokerSession::stop(self);
    }
}
