//! Who is at work on a core that the threads of a process share: each for a slice, as an operating system gives it.
//!
//! The emulator runs threads side by side, and the stream brings a few thousand instructions of one and of another by turns,
//! where a CPU with a single core would run one of them for milliseconds. So what comes of a thread that is not at work waits
//! until the one that is has had its slice, or waits for something itself: it has brought nothing while another one brought
//! several pieces. What waits is bounded.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use mcad_proto::word::{ProcessId, StreamId};

/// Records of a slice, about a million instructions: the third to tenth part of what Linux gives a thread that others wait for,
/// and long beside what the caches of a core take to fill.
const SLICE: usize = 1 << 19;
/// Pieces that a thread brings while the one at work brings none, after which that one is taken to wait.
const PIECES: u32 = 4;
/// Records that wait at most, over the threads of a process.
const MOST: usize = 1 << 22;

/// The turns of all processes.
#[derive(Debug, Default)]
pub(super) struct Turns(BTreeMap<ProcessId, Turn>);

#[derive(Debug)]
struct Turn {
    /// At work.
    now: StreamId,
    /// Records that are left of its slice.
    left: usize,
    /// The others that have brought something, who has waited longest first.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    stream: StreamId,
    records: Vec<u64>,
    /// Pieces since the one at work brought something.
    pieces: u32,
}

impl Turns {
    /// A piece of a thread has come: gives what is to be executed now to `run`, in order.
    ///
    /// # Errors
    /// The first of `run`.
    pub(super) fn offer<E>(
        &mut self,
        process: ProcessId,
        stream: StreamId,
        records: &[u64],
        mut run: impl FnMut(StreamId, &[u64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let turn = self.0.entry(process).or_insert_with(|| Turn {
            now: stream,
            left: SLICE,
            waiting: VecDeque::new(),
        });
        if turn.now == stream {
            turn.waiting.iter_mut().for_each(|other| other.pieces = 0);
            turn.left = turn.left.saturating_sub(records.len());
            run(stream, records)?;
            return match turn.left {
                0 => turn.pass_to(0, run),
                _ => Ok(()),
            };
        }
        let known = turn.waiting.iter().position(|other| other.stream == stream);
        let place = known.unwrap_or_else(|| {
            turn.waiting.push_back(Waiting {
                stream,
                records: Vec::new(),
                pieces: 0,
            });
            turn.waiting.len() - 1
        });
        if let Some(own) = turn.waiting.get_mut(place) {
            own.records.extend_from_slice(records);
            own.pieces += 1;
            if own.pieces >= PIECES {
                return turn.pass_to(place, run);
            }
        }
        let all: usize = turn.waiting.iter().map(|other| other.records.len()).sum();
        match all > MOST {
            true => turn.pass_to(0, run),
            false => Ok(()),
        }
    }

    /// Something else happens, before which all that has come is to be executed.
    ///
    /// # Errors
    /// The first of `run`; what comes behind it is executed all the same.
    pub(super) fn finish<E>(
        &mut self,
        mut run: impl FnMut(StreamId, &[u64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut result = Ok(());
        for turn in self.0.values_mut() {
            while !turn.waiting.is_empty() {
                result = result.and(turn.pass_to(0, &mut run));
            }
        }
        result
    }
}

impl Turn {
    /// One of those that wait is at work from here on; the one that was stays, if there is none.
    fn pass_to<E>(
        &mut self,
        place: usize,
        mut run: impl FnMut(StreamId, &[u64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let next = self.waiting.remove(place);
        self.waiting.iter_mut().for_each(|other| other.pieces = 0);
        let Some(next) = next else {
            self.left = SLICE;
            return Ok(());
        };
        self.now = next.stream;
        self.left = SLICE.saturating_sub(next.records.len()).max(1);
        run(next.stream, &next.records)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Threads, and how many records of each.
    type Pieces = Vec<(u32, usize)>;

    /// What is executed when these pieces come, and at the end.
    fn executed(pieces: &[(u32, usize)]) -> (Pieces, Pieces) {
        let mut turns = Turns::default();
        let lists = [(); 2].map(|()| std::cell::RefCell::new(Vec::new()));
        let run = |place: usize| {
            let list = &lists[place];
            move |stream: StreamId, records: &[u64]| {
                list.borrow_mut().push((stream.0, records.len()));
                Ok::<(), Infallible>(())
            }
        };
        for &(stream, count) in pieces {
            let words = vec![0; count];
            let Ok(()) = turns.offer(ProcessId::FIRST, StreamId(stream), &words, run(0));
        }
        let Ok(()) = turns.finish(run(1));
        let [now, later] = lists.map(std::cell::RefCell::into_inner);
        (now, later)
    }

    #[test]
    fn one_thread_never_waits() {
        let pieces = vec![(3, SLICE / 2); 5];
        assert_eq!(executed(&pieces), (pieces, vec![]));
    }

    #[test]
    fn others_wait_for_the_end_of_a_slice() {
        let half = SLICE / 2;
        let pieces = [
            (0, 10),
            (1, 7),
            (0, half),
            (1, 9),
            (2, 5),
            (0, half),
            (1, 4),
        ];
        let now = vec![(0, 10), (0, half), (0, half), (1, 16), (1, 4)];
        assert_eq!(executed(&pieces), (now, vec![(2, 5)]));
    }

    #[test]
    fn who_brings_nothing_waits_itself() {
        let pieces = [
            (0, 10),
            (1, 1),
            (1, 1),
            (0, 10),
            (1, 1),
            (2, 8),
            (1, 1),
            (1, 1),
            (1, 1),
            (0, 3),
        ];
        let now = vec![(0, 10), (0, 10), (1, 6)];
        assert_eq!(executed(&pieces), (now, vec![(2, 8), (0, 3)]));
    }

    #[test]
    fn what_waits_is_bounded() {
        let many = MOST / 2 + 1;
        let pieces = [(0, 1), (1, many), (2, many), (0, 1)];
        let now = vec![(0, 1), (1, many)];
        assert_eq!(executed(&pieces), (now, vec![(2, many), (0, 1)]));
    }
}
