//! The rows of H as a Markov chain, which says what each row finds in its issue group.
//!
//! Which row follows which is counted like the rows themselves. Along a walk over that chain the
//! place in the group, the cycles in which producers issued and the units that are busy are no
//! longer probabilities: each step takes the earliest cycle that they allow. The walk is the same
//! for all machines and is made once. It leaves every row by its successors in turn, in their
//! proportions (a rotor-router walk), so that it is no matter of chance and comes near the chain's
//! own frequencies much sooner than a random walk. Loops that are seldom left would still keep it
//! for too long: now and then it goes on at the row that it is furthest behind with.

use rustc_hash::FxHashMap;

use crate::kind::{KINDS, Kind};
use crate::machine::Machine;
use crate::rows::{MAX_DISTANCE, Row, Rows};
use crate::stack::Stack;

/// Steps of a walk.
const STEPS: usize = 60_000;

/// Steps between two places where the walk goes on elsewhere, and steps behind one that do not
/// count, since their producers are not there.
const STRETCH: usize = 256;
const UNCOUNTED: usize = 2 * MAX_DISTANCE;

/// Steps whose issue cycles are remembered; a power of two above [`MAX_DISTANCE`].
const RING: usize = 16;

const _: () = assert!(RING > MAX_DISTANCE && RING.is_power_of_two());

/// What of a row matters to the time of its last instruction.
#[derive(Clone, Copy, Debug)]
struct Step {
    own: Kind,
    /// Producers with their distances; 0: none.
    producers: [(Kind, u8); 2],
    counted: bool,
}

/// A walk over the rows of a profile: the same for all machines.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    steps: Vec<Step>,
    instructions: f64,
}

/// A row's successors, and how far the walk is behind with each.
struct Place {
    successors: Vec<(u32, f64, f64)>,
}

impl Place {
    /// The successor that the walk owes most.
    fn leave(&mut self) -> Option<u32> {
        for (_, share, owed) in &mut self.successors {
            *owed += *share;
        }
        let most = (self.successors.iter_mut()).max_by(|a, b| a.2.total_cmp(&b.2))?;
        most.2 -= 1.0;
        Some(most.0)
    }
}

impl Chain {
    /// Walks over the rows of a profile.
    #[must_use]
    pub fn new(rows: &Rows) -> Self {
        let mut numbers: FxHashMap<Row, u32> = FxHashMap::default();
        for (n, (row, _)) in rows.rows.iter().enumerate() {
            numbers.insert(*row, n as u32);
        }
        let mut places: Vec<Place> = (rows.rows.iter())
            .map(|_| Place {
                successors: Vec::new(),
            })
            .collect();
        for ((from, to), count) in &rows.follow {
            if let (Some(&from), Some(&to)) = (numbers.get(from), numbers.get(to))
                && let Some(place) = places.get_mut(from as usize)
            {
                place.successors.push((to, *count as f64, 0.0));
            }
        }
        for place in &mut places {
            let all: f64 = place.successors.iter().map(|s| s.1).sum();
            for successor in &mut place.successors {
                successor.1 /= all;
            }
        }
        let mut steps = Vec::with_capacity(STEPS);
        let total = rows.total().max(1) as f64;
        let mut visits = vec![0u32; rows.rows.len()];
        let (mut at, mut counted) = (0u32, 0u32);
        while steps.len() < STEPS {
            let in_stretch = steps.len() % STRETCH;
            if in_stretch == 0 {
                let behind = |n: usize, count: u64| {
                    let due = count as f64 / total * f64::from(counted + 1);
                    due - f64::from(visits.get(n).copied().unwrap_or(0))
                };
                let all = rows.rows.iter().enumerate();
                let most = all.max_by(|a, b| behind(a.0, a.1.1).total_cmp(&behind(b.0, b.1.1)));
                at = most.map_or(0, |m| m.0 as u32);
            }
            let counts = in_stretch >= UNCOUNTED;
            counted += u32::from(counts);
            if let Some(visits) = visits.get_mut(at as usize) {
                *visits += u32::from(counts);
            }
            let Some((row, _)) = rows.rows.get(at as usize) else {
                break;
            };
            steps.push(Step {
                own: row.pattern.last().copied().unwrap_or(Kind::Alu),
                producers: [
                    (row.producer, row.distance),
                    (row.slower_producer, row.slower),
                ],
                counted: counts,
            });
            // The program's end leads back to its most frequent row.
            at = places
                .get_mut(at as usize)
                .and_then(Place::leave)
                .unwrap_or(0);
        }
        Self {
            steps,
            instructions: rows.total() as f64,
        }
    }

    /// Cycles of the program on a machine.
    #[must_use]
    pub fn predict(&self, machine: &Machine) -> Stack {
        let width = u64::from(machine.width);
        let units = Kind::ALL.map(|kind| machine.units(kind));
        let mut free = [[0u64; 8]; KINDS];
        let mut issued = [0u64; RING];
        let (mut cycle, mut taken) = (0u64, 0u64);
        let mut lost_to_dependences = [0u64; KINDS];
        let mut lost_to_units = [0u64; KINDS];
        for (n, step) in self.steps.iter().enumerate() {
            let own = units[step.own as usize];
            let open = cycle + u64::from(taken >= width);
            let mut at = open;
            let mut by_unit = false;
            let mut waited_for = step.own;
            for (producer, distance) in step.producers {
                let distance = usize::from(distance);
                if distance > 0 && n >= distance {
                    let latency = u64::from(units[producer as usize].latency);
                    let ready = issued[(n - distance) % RING] + latency;
                    if ready > at {
                        (at, waited_for) = (ready, producer);
                    }
                }
            }
            let copies = free[step.own as usize]
                .get_mut(..usize::from(own.count).min(8))
                .unwrap_or(&mut []);
            if let Some(copy) = copies.iter_mut().min() {
                if *copy > at {
                    at = *copy;
                    by_unit = true;
                }
                *copy = at
                    + if own.pipelined {
                        1
                    } else {
                        u64::from(own.latency)
                    };
            }
            if at > cycle {
                let lost = width - taken + (at - cycle - 1) * width;
                let lost = if step.counted { lost } else { 0 };
                if by_unit {
                    lost_to_units[step.own as usize] += lost;
                } else {
                    lost_to_dependences[waited_for as usize] += lost;
                }
                (cycle, taken) = (at, 0);
            }
            taken += 1;
            issued[n % RING] = at;
        }
        let counted = self.steps.iter().filter(|s| s.counted).count().max(1);
        let scale = self.instructions / counted as f64 / width as f64;
        Stack {
            base: self.instructions / width as f64,
            dependences: lost_to_dependences.map(|lost| lost as f64 * scale),
            units: lost_to_units.map(|lost| lost as f64 * scale),
        }
    }
}
