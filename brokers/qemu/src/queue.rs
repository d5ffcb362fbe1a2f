//! Events that wait to be asked for.

use mcad_proto::batch::EventBatch;
use mcad_proto::event::{Event, ProcessEvent};
use mcad_proto::word::ProcessId;

/// Events that wait to be asked for.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    events: EventBatch,
    /// Those that were handed out.
    taken: usize,
    /// The process that was entered last.
    entered: ProcessId,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == self.events.len()
    }

    pub(crate) fn push(&mut self, event: &Event<'_>) {
        // What was handed out is no longer borrowed.
        if self.is_empty() {
            self.events.clear();
            self.taken = 0;
        }
        self.events.push(event);
    }

    /// Appends an event of one process that says nothing of that itself.
    pub(crate) fn push_of(&mut self, id: ProcessId, event: &Event<'_>) {
        if std::mem::replace(&mut self.entered, id) != id {
            self.push_process(id, ProcessEvent::Entered);
        }
        self.push(event);
    }

    /// Appends what becomes of a process.
    pub(crate) fn push_process(&mut self, id: ProcessId, what: ProcessEvent) {
        self.push(&Event::Process { id, what });
    }

    /// The next event, which lives until something is pushed.
    pub(crate) fn pop(&mut self) -> Option<Event<'_>> {
        let event = self.events.get(self.taken)?;
        self.taken += 1;
        Some(event)
    }
}
