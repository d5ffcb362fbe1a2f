//! Which core a thread's blocks go to: its own, or the one that the threads of its process share.
//!
//! A shared core goes on with whatever the stream brings, so its threads take turns where the stream's pieces end. It is
//! known by the stream of the first of its threads.

use mcad_proto::word::{ProcessId, StreamId};
use rustc_hash::FxHashMap;

/// The cores of a run's threads.
#[derive(Debug)]
pub(super) enum Seats {
    /// Each thread has its own.
    Each,
    /// A process has one.
    Shared(FxHashMap<ProcessId, Seat>),
}

/// A core that threads share.
#[derive(Debug)]
pub(super) struct Seat {
    core: StreamId,
    /// Threads that live; few, mostly.
    threads: Vec<StreamId>,
}

/// Where a block goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seated {
    pub(super) core: StreamId,
    /// Another thread has been there, and this one just came.
    pub(super) joins: bool,
}

impl Seats {
    pub(super) fn new(shared: bool) -> Self {
        match shared {
            false => Self::Each,
            true => Self::Shared(FxHashMap::default()),
        }
    }

    /// The core of a thread that executes.
    #[inline]
    pub(super) fn of(&mut self, thread: StreamId, process: ProcessId) -> Seated {
        match self {
            Self::Each => Seated {
                core: thread,
                joins: false,
            },
            Self::Shared(seats) => seats
                .entry(process)
                .or_insert(Seat::empty(thread))
                .take(thread),
        }
    }

    /// A thread ended: the core that nobody is left on.
    pub(super) fn end(&mut self, thread: StreamId, process: ProcessId) -> Option<StreamId> {
        let Self::Shared(seats) = self else {
            return Some(thread);
        };
        let seat = seats.get_mut(&process)?;
        seat.threads.retain(|lives| *lives != thread);
        let core = seat.core;
        seat.threads.is_empty().then(|| {
            seats.remove(&process);
            core
        })
    }
}

impl Seat {
    fn empty(core: StreamId) -> Self {
        Self {
            core,
            threads: Vec::new(),
        }
    }

    fn take(&mut self, thread: StreamId) -> Seated {
        // The one that executed last is the first.
        let joins = match self.threads.iter().position(|known| *known == thread) {
            Some(place) => {
                self.threads.swap(0, place);
                false
            }
            None => {
                self.threads.insert(0, thread);
                thread != self.core
            }
        };
        Seated {
            core: self.core,
            joins,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: ProcessId = ProcessId::FIRST;

    fn seated(core: u32, joins: bool) -> Seated {
        let core = StreamId(core);
        Seated { core, joins }
    }

    #[test]
    fn each_thread_has_a_core_and_ends_it() {
        let mut seats = Seats::new(false);
        assert_eq!(seats.of(StreamId(4), FIRST), seated(4, false));
        assert_eq!(seats.end(StreamId(4), FIRST), Some(StreamId(4)));
    }

    #[test]
    fn a_shared_core_lives_as_long_as_one_of_its_threads() {
        let (mut seats, other) = (Seats::new(true), ProcessId(1));
        assert_eq!(seats.of(StreamId(2), FIRST), seated(2, false));
        assert_eq!(seats.of(StreamId(5), FIRST), seated(2, true));
        assert_eq!(seats.of(StreamId(5), FIRST), seated(2, false));
        assert_eq!(seats.of(StreamId(6), other), seated(6, false));
        assert_eq!(seats.end(StreamId(2), FIRST), None);
        assert_eq!(seats.of(StreamId(5), FIRST), seated(2, false));
        assert_eq!(seats.end(StreamId(5), FIRST), Some(StreamId(2)));
        // The process goes on with another program, say.
        assert_eq!(seats.of(StreamId(7), FIRST), seated(7, false));
        assert_eq!(seats.end(StreamId(6), other), Some(StreamId(6)));
        assert_eq!(seats.end(StreamId(9), other), None);
    }
}
