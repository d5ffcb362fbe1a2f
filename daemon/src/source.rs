//! Where a session's events come from: a broker on this machine, or a client's connection.

use std::time::Duration;

use mcad_broker_abi::BrokerSession;
use mcad_proto::event::Event;

/// A stream of events that is pulled. Not pulling is the back-pressure.
pub trait Source: Send {
    /// Waits up to `timeout` for the next event; `None` when there was none in time. Nothing
    /// follows [`Event::End`].
    ///
    /// # Errors
    /// A text for people; the source is over after it.
    fn next(&mut self, timeout: Duration) -> Result<Option<Event<'_>>, String>;

    /// Asks the source to end soon; what it still has is delivered.
    fn stop(&self);
}

impl Source for BrokerSession {
    fn next(&mut self, timeout: Duration) -> Result<Option<Event<'_>>, String> {
        BrokerSession::next(self, timeout).map_err(|error| error.to_string())
    }

    fn stop(&self) {
        BrokerSession::stop(self);
    }
}
