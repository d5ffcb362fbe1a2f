//! The rows of H as a Markov chain, which says what each row finds in its issue group.
//!
//! Which row follows which is counted like the rows themselves. Along a walk over that chain the
//! place in the group, the cycles in which producers issued and the units that are busy are no
//! longer probabilities: each step takes the earliest cycle that they allow. The walk is the same
//! for all machines and is made once. It leaves every row by its successors in turn, in their
//! proportions (a rotor-router walk), so that it is no matter of chance and comes near the chain's
//! own frequencies much sooner than a random walk. Loops that are seldom left would still keep it
//! for too long: now and then it goes on at the row that it is furthest behind with.
//!
//! Misses and mispredictions befall each row as often as they befell its instructions, spread evenly
//! over the walk from a place that is different for each row. A load's miss is felt as far behind it
//! as its value was read ([`uses`]). What befalls the steps of the walk is the same for all machines with
//! the same caches and predictor, whatever their latencies, widths and units, and is found once for these.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::events::{Costly, Costs, Counted, Sort};
use crate::kind::{KINDS, Kind};
use crate::machine::{Machine, Units};
use crate::rows::{MAX_DISTANCE, Row, Rows};
use crate::stack::Stack;
use crate::timing;
use crate::uses::{self, CLASSES};

/// Steps of a walk.
const STEPS: usize = 60_000;

/// Steps between two places where the walk goes on elsewhere, and steps behind one that do not
/// count, since their producers are not there.
const STRETCH: usize = 256;
const UNCOUNTED: usize = 2 * MAX_DISTANCE;

/// The golden ratio, whose multiples are spread evenly.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// Steps for which misses are remembered; a power of two above all distances.
const FAR: usize = 256;

/// Steps whose issue cycles are remembered; a power of two above [`MAX_DISTANCE`].
const RING: usize = 16;

const _: () = assert!(RING > MAX_DISTANCE && RING.is_power_of_two());

/// What of a row matters to the time of its last instruction.
#[derive(Clone, Copy, Debug)]
struct Step {
    own: Kind,
    /// Producers with their distances; 0: none. And their latencies, where those of kinds do not count.
    producers: [(Kind, u8, Option<u8>); 2],
    /// What it costs, likewise.
    cost: Option<timing::Cost>,
    counted: bool,
    /// Its row.
    row: u32,
}

impl Step {
    /// Issue slots that it takes.
    fn slots(&self) -> u64 {
        self.cost.map_or(1, |cost| u64::from(cost.slots))
    }

    /// Cycles until its first and its last result is written, where that is done in order.
    fn written(&self, of_kind: &Units) -> Option<(u8, u8)> {
        let of_kind = Some((of_kind.write_back, of_kind.write_back)).filter(|w| w.0 > 0);
        self.cost.map_or(of_kind, |cost| cost.written)
    }
}

/// A walk over the rows of a profile: the same for all machines.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    steps: Vec<Step>,
    /// By row: the executions that the walk stands for, and what befell all of them.
    events: Vec<(f64, Counted)>,
    instructions: f64,
    /// What befalls the steps, by what decides that.
    befell: RefCell<FxHashMap<Sort, Rc<[Befell]>>>,
}

/// Machines of different sorts of which is remembered what befalls the steps, a quarter of a megabyte each.
const MOST_SORTS: usize = 64;

/// Where an access is served if the first level misses.
#[derive(Clone, Copy, Debug, Default)]
enum Served {
    #[default]
    First,
    Second,
    Memory,
}

impl Served {
    /// Cycles beyond those of a hit.
    fn cycles(self, (second, memory): (u32, u32)) -> u32 {
        match self {
            Self::First => 0,
            Self::Second => second,
            Self::Memory => memory,
        }
    }
}

/// How control leaves a step.
#[derive(Clone, Copy, Debug, Default)]
enum Left {
    #[default]
    Plainly,
    Mispredicted,
    Taken,
}

/// What befalls a step.
#[derive(Clone, Copy, Debug, Default)]
struct Befell {
    load: Served,
    /// How far behind it its value is read; 0: by nobody.
    used: u8,
    fetch: Served,
    left: Left,
}

/// What befalls a row on one machine.
#[derive(Clone, Debug)]
struct Befalls {
    /// In each execution.
    costly: Costly,
    /// What is due.
    data: f64,
    of_memory: f64,
    fetch: f64,
    fetch_of_memory: f64,
    mispredicted: f64,
    taken: f64,
    /// By class of distance: which part of misses is felt there or before, and where this one is.
    felt: [f64; CLASSES],
    used: f64,
}

impl Befalls {
    /// Begins somewhere, by the row's number: a multiple of the golden ratio.
    fn new(costly: Costly, felt: [f64; CLASSES], row: usize) -> Self {
        let place = |n: usize| ((row * 7 + n) as f64 * GOLDEN).fract();
        Self {
            costly,
            data: place(0),
            of_memory: place(1),
            fetch: place(2),
            fetch_of_memory: place(3),
            mispredicted: place(4),
            taken: place(5),
            felt,
            used: place(6),
        }
    }

    /// How far behind a load that has missed its value is read.
    fn first_use(&mut self) -> Option<usize> {
        self.used = (self.used + GOLDEN).fract();
        let class = self.felt.iter().position(|&part| self.used < part);
        uses::middle(class.unwrap_or(CLASSES - 1))
    }

    /// What befalls the next execution.
    fn next(&mut self, sort: &Sort) -> Befell {
        let falls_due = |due: &mut f64, rate: f64| {
            *due += rate;
            let is = *due >= 1.0;
            *due -= f64::from(u8::from(is));
            is
        };
        let miss = |due: &mut f64, of_memory: &mut f64, by_second: f64, by_memory: f64| {
            let all = by_second + by_memory;
            if all <= 0.0 || !falls_due(due, all) {
                Served::First
            } else if falls_due(of_memory, by_memory / all) {
                Served::Memory
            } else {
                Served::Second
            }
        };
        let c = self.costly;
        let load = miss(
            &mut self.data,
            &mut self.of_memory,
            c.data_second,
            c.data_memory,
        );
        let fetch = miss(
            &mut self.fetch,
            &mut self.fetch_of_memory,
            c.fetch_second,
            c.fetch_memory,
        );
        let mispredicted = falls_due(&mut self.mispredicted, c.mispredicted);
        let taken = falls_due(&mut self.taken, c.taken);
        let late = match load {
            Served::First => false,
            Served::Second => sort.second_late,
            Served::Memory => sort.memory_late,
        };
        let used = if late { self.first_use() } else { None };
        Befell {
            load,
            used: used.map_or(0, |distance| distance as u8),
            fetch,
            left: match (mispredicted, taken) {
                (true, _) => Left::Mispredicted,
                (false, true) => Left::Taken,
                (false, false) => Left::Plainly,
            },
        }
    }
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
                    (row.producer, row.distance, row.own.latencies[0]),
                    (row.slower_producer, row.slower, row.own.latencies[1]),
                ],
                cost: row.own.cost,
                counted: counts,
                row: at,
            });
            // The program's end leads back to its most frequent row.
            at = places
                .get_mut(at as usize)
                .and_then(Place::leave)
                .unwrap_or(0);
        }
        let mut walked = vec![0u32; rows.rows.len()];
        for step in &steps {
            if let Some(walked) = walked.get_mut(step.row as usize) {
                *walked += 1;
            }
        }
        let scale = total / steps.len().max(1) as f64;
        let executions = walked.iter().map(|&times| f64::from(times) * scale);
        Self {
            steps,
            events: executions.zip(rows.events.iter().copied()).collect(),
            instructions: rows.total() as f64,
            befell: RefCell::default(),
        }
    }

    /// What befalls each step on one machine.
    fn befell(&self, costs: &Costs) -> Rc<[Befell]> {
        let sort = costs.sort();
        let mut known = self.befell.borrow_mut();
        if known.len() >= MOST_SORTS && !known.contains_key(&sort) {
            known.clear();
        }
        let make = || {
            let mut rows = self.befalls(costs);
            let next = |step: &Step| match rows.get_mut(step.row as usize) {
                Some(Some(befalls)) => befalls.next(&sort),
                _ => Befell::default(),
            };
            self.steps.iter().map(next).collect()
        };
        Rc::clone(known.entry(sort).or_insert_with(make))
    }

    /// What befalls each row on one machine. Rows that the walk does not come by are cold code, which
    /// misses most: theirs befalls the others, in the same proportions.
    fn befalls(&self, costs: &Costs) -> Vec<Option<Befalls>> {
        let costly: Vec<Costly> = (self.events.iter())
            .map(|(_, counted)| costs.events(counted))
            .collect();
        let (mut all, mut walked) = (Costly::default(), Costly::default());
        for ((executions, _), costly) in self.events.iter().zip(&costly) {
            all.add(costly);
            if *executions > 0.0 {
                walked.add(costly);
            }
        }
        let more = all.over(&walked);
        let rows = self.events.iter().zip(costly).enumerate();
        rows.map(|(row, ((executions, counted), costly))| {
            if *executions <= 0.0 || costly.is_none() {
                return None;
            }
            let costly = costly.times(&more).per(*executions);
            Some(Befalls::new(costly, costs.felt(counted), row))
        })
        .collect()
    }

    /// Cycles of the program on a machine.
    #[must_use]
    pub fn predict(&self, machine: &Machine) -> Stack {
        let width = u64::from(machine.width);
        let units = Kind::ALL.map(|kind| machine.units(kind));
        let latencies = machine.latencies();
        let costs = Costs::new(machine);
        let served = costs.latencies();
        let (depth, bubble) = costs.bubbles();
        let befell = self.befell(&costs);
        let mut free = [[0u64; 8]; KINDS];
        let mut issued = [0u64; RING];
        let mut lost = Lost {
            width,
            ..Lost::default()
        };
        let mut felt = [0u64; FAR];
        let mut gap = None;
        for (n, (step, befell)) in self.steps.iter().zip(befell.iter()).enumerate() {
            let own = units[step.own as usize];
            lost.counted = step.counted;
            let slots = step.slots();
            if lost.taken >= width {
                lost.until(lost.cycle + 1, Part::Group);
            } else if lost.taken + slots > width && slots <= width {
                lost.until(lost.cycle + 1, Part::Unit(step.own));
            }
            if let Some((cycles, part)) = std::mem::take(&mut gap) {
                lost.until(lost.begun + 1 + u64::from(cycles), part);
            }
            let before = befell.fetch.cycles(served);
            if before > 0 {
                let begun = lost.cycle.max(lost.begun + 1) + u64::from(before);
                lost.until(begun, Part::InstructionCache);
            }
            let copies = free[step.own as usize]
                .get_mut(..usize::from(own.count).min(8))
                .unwrap_or(&mut []);
            let copy = copies.iter_mut().min();
            if let Some(copy) = &copy {
                lost.until(**copy, Part::Unit(step.own));
            }
            for (producer, distance, own) in step.producers {
                let distance = usize::from(distance);
                if distance > 0 && n >= distance {
                    let of_kinds = latencies[producer as usize][step.own as usize];
                    let latency = own.unwrap_or(of_kinds);
                    let part = Part::Dependence(producer);
                    lost.until(issued[(n - distance) % RING] + u64::from(latency), part);
                }
            }
            lost.until(std::mem::take(&mut felt[n % FAR]), Part::DataCache);
            if let Some((first, last)) = step.written(&own) {
                let written = lost.written.saturating_sub(u64::from(first));
                lost.until(written, Part::WriteBack);
                if last > 0 {
                    lost.written = lost.cycle + u64::from(last);
                }
            }
            if let Some(copy) = copy {
                let of_kind = if own.pipelined { 1 } else { own.latency };
                let kept = step.cost.map_or(of_kind, |cost| cost.busy);
                *copy = lost.cycle + u64::from(kept);
            }
            issued[n % RING] = lost.cycle;
            lost.take(slots);
            lost.begun = lost.cycle;
            if befell.used > 0 {
                let late = u64::from(befell.load.cycles(served));
                let due = lost.cycle + u64::from(own.latency) + late;
                let at = &mut felt[(n + usize::from(befell.used)) % FAR];
                *at = due.max(*at);
            }
            gap = match befell.left {
                Left::Plainly => None,
                Left::Mispredicted => Some((depth, Part::Misprediction)),
                Left::Taken => Some((bubble, Part::TakenBranch)),
            };
        }
        let counted = || self.steps.iter().filter(|s| s.counted);
        let scale = self.instructions / counted().count().max(1) as f64 / width as f64;
        let slots: f64 = counted().map(|s| s.slots() as f64).sum();
        lost.stack(slots * scale, scale)
    }
}

/// What slots are lost for.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The group is full: nothing is lost.
    Group,
    Dependence(Kind),
    Unit(Kind),
    WriteBack,
    DataCache,
    InstructionCache,
    Misprediction,
    TakenBranch,
}

/// The walk's time, and the slots that it has lost.
#[derive(Clone, Debug, Default)]
struct Lost {
    width: u64,
    /// The cycle that is looked at, and slots taken in it.
    cycle: u64,
    taken: u64,
    /// The cycle of the last issue.
    begun: u64,
    /// When the last result so far is written, where that is done in order.
    written: u64,
    /// Whether losses count.
    counted: bool,
    dependences: [u64; KINDS],
    units: [u64; KINDS],
    write_back: u64,
    data_cache: u64,
    instruction_cache: u64,
    misprediction: u64,
    taken_branch: u64,
}

impl Lost {
    /// Waits until a cycle, if that is not over.
    #[inline]
    fn until(&mut self, cycle: u64, part: Part) {
        if cycle <= self.cycle {
            return;
        }
        if self.counted {
            let lost = self.width - self.taken + (cycle - self.cycle - 1) * self.width;
            *match part {
                Part::Dependence(kind) => &mut self.dependences[kind as usize],
                Part::Unit(kind) => &mut self.units[kind as usize],
                Part::WriteBack => &mut self.write_back,
                Part::DataCache => &mut self.data_cache,
                Part::InstructionCache => &mut self.instruction_cache,
                Part::Misprediction => &mut self.misprediction,
                // A full group has no slot to lose.
                Part::TakenBranch | Part::Group => &mut self.taken_branch,
            } += lost;
        }
        (self.cycle, self.taken) = (cycle, 0);
    }

    /// Takes slots from the cycle that is looked at on; more than a cycle has go on in those that follow.
    fn take(&mut self, slots: u64) {
        let all = self.taken + slots;
        if all <= self.width {
            self.taken = all;
            return;
        }
        let cycles = all.saturating_sub(1) / self.width;
        self.cycle += cycles;
        self.taken = all - cycles * self.width;
    }

    fn stack(&self, base: f64, scale: f64) -> Stack {
        let cycles = |lost: u64| lost as f64 * scale;
        Stack {
            base,
            dependences: self.dependences.map(cycles),
            units: self.units.map(cycles),
            write_back: cycles(self.write_back),
            data_cache: cycles(self.data_cache),
            instruction_cache: cycles(self.instruction_cache),
            misprediction: cycles(self.misprediction),
            taken_branch: cycles(self.taken_branch),
        }
    }
}
