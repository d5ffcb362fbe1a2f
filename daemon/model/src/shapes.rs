//! What of paths matters to a core that tells instructions apart by kinds, and cycles of that.
//!
//! A path's shape is the kind of each instruction and how far back those are whose results it waits
//! for. Of several of a kind the youngest counts: it issued last. Names of registers, addresses and
//! values that nothing in the path reads do not matter, so that most paths of a program are equal to
//! another in shape, and are stepped once.
//!
//! Shapes in turn are in groups by what they ask of a core ([`Asks`]): one without multiplications
//! takes as long whatever the multiplier is, and one with a single one whether that is pipelined or
//! not. Machines that are the same for a group share its cycles. Nothing is rounded or left out: the
//! cycles are those of the stepwise core.

use rustc_hash::FxHashMap;

use crate::kind::{KINDS, Kind};
use crate::machine::{Machine, Units};
use crate::profile::{Inst, Profile};
use crate::step::latencies_by_kind;

/// Instructions of a kind of which it is told how many there are in a path.
const TOLD: u8 = 3;

/// Most copies of a unit.
const COPIES: usize = 8;

/// What a group of shapes asks of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Asks {
    /// Instructions of each kind, up to [`TOLD`].
    count: [u8; KINDS],
    /// By kind of a result: bits of the kinds that wait for it.
    used_by: [u16; KINDS],
}

/// A core as a group of shapes sees it: what these do not ask for is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Seen {
    width: u8,
    /// Copies of each kind's unit; 0: there is always one free.
    copies: [u8; KINDS],
    /// Cycles for which an instruction keeps its unit.
    busy: [u8; KINDS],
    write_back: [u8; KINDS],
    /// Cycles to a result, by its kind and the kind that waits for it.
    latency: [[u8; KINDS]; KINDS],
}

impl Seen {
    fn by(asks: &Asks, machine: &Machine, latencies: &[[u8; KINDS]; KINDS]) -> Self {
        let mut seen = Self {
            width: machine.width,
            ..Self::default()
        };
        for kind in Kind::ALL {
            let n = kind as usize;
            if asks.count[n] == 0 {
                continue;
            }
            let Units {
                latency,
                count,
                pipelined,
                write_back,
            } = machine.units(kind);
            let busy = if pipelined { 1 } else { latency };
            let few = asks.count[n] < TOLD && asks.count[n] <= count;
            if !few && (busy > 1 || count < machine.width) {
                (seen.copies[n], seen.busy[n]) = (count, busy);
            }
            seen.write_back[n] = write_back;
            for to in (0..KINDS).filter(|to| asks.used_by[n] >> to & 1 == 1) {
                seen.latency[n][to] = latencies[n][to];
            }
        }
        seen
    }
}

/// An instruction of a shape.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: u8,
    /// How many of [`Group::producers`] it waits for.
    producers: u8,
}

/// Paths of one shape.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Instructions before the block that is counted, and those of it.
    context: u32,
    counted: u32,
    /// How often.
    count: u64,
}

/// Shapes that ask the same of a core.
#[derive(Debug, Default)]
struct Group {
    shapes: Vec<Shape>,
    /// Instructions of all shapes, one behind the other.
    steps: Vec<Step>,
    /// Whom these wait for: their kinds, and how far back they are.
    producers: Vec<(u8, u16)>,
    /// Cycles on cores that were asked for.
    known: FxHashMap<Seen, u64>,
}

impl Group {
    /// Cycles of all its paths. `issued` has room for the longest shape.
    fn cycles(&self, core: &Seen, issued: &mut [u32]) -> u64 {
        let width = core.width;
        let (mut steps, mut producers) = (self.steps.as_slice(), self.producers.as_slice());
        let mut all = 0;
        for shape in &self.shapes {
            let length = (shape.context + shape.counted) as usize;
            let (these, rest) = steps.split_at(length.min(steps.len()));
            steps = rest;
            let mut free = [[0u32; COPIES]; KINDS];
            let (mut cycle, mut taken, mut written) = (1u32, 0u8, 0u32);
            for (n, step) in these.iter().enumerate() {
                let kind = usize::from(step.kind) % KINDS;
                let mut at = cycle + u32::from(taken >= width);
                let (of_this, rest) = producers.split_at(usize::from(step.producers));
                producers = rest;
                for &(from, distance) in of_this {
                    let latency = core.latency[usize::from(from) % KINDS][kind];
                    let produced = issued.get(n.wrapping_sub(usize::from(distance)));
                    at = at.max(produced.copied().unwrap_or(0) + u32::from(latency));
                }
                let copies = free[kind].get_mut(..usize::from(core.copies[kind]));
                let copy = copies.and_then(|copies| copies.iter_mut().min());
                if let Some(copy) = &copy {
                    at = at.max(**copy);
                }
                let write_back = u32::from(core.write_back[kind]);
                if write_back > 0 {
                    at = at.max(written.saturating_sub(write_back));
                    written = at + write_back;
                }
                if let Some(copy) = copy {
                    *copy = at + u32::from(core.busy[kind]);
                }
                taken = if at > cycle { 1 } else { taken + 1 };
                cycle = at;
                if let Some(place) = issued.get_mut(n) {
                    *place = at;
                }
            }
            let before = (shape.context as usize).checked_sub(1);
            let before = before.and_then(|n| issued.get(n)).copied().unwrap_or(0);
            let last = if these.is_empty() { 0 } else { cycle };
            all += shape.count * u64::from(last.saturating_sub(before));
        }
        all
    }
}

/// The shapes of a program's paths.
#[derive(Debug, Default)]
pub struct Shapes {
    groups: Vec<(Asks, Group)>,
    longest: usize,
}

impl Shapes {
    /// Of a program.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let mut this = Self::default();
        let mut places: FxHashMap<Asks, usize> = FxHashMap::default();
        let mut numbers: FxHashMap<Box<[u8]>, (usize, usize)> = FxHashMap::default();
        let mut form = Form::default();
        for path in &profile.paths {
            form.read(&profile.blocks, &path.blocks);
            if let Some(&(group, shape)) = numbers.get(form.key.as_slice()) {
                let group = this.groups.get_mut(group).map(|g| &mut g.1);
                if let Some(shape) = group.and_then(|g| g.shapes.get_mut(shape)) {
                    shape.count += path.count;
                }
                continue;
            }
            let place = *places.entry(form.asks).or_insert_with(|| {
                this.groups.push((form.asks, Group::default()));
                this.groups.len() - 1
            });
            let Some((_, group)) = this.groups.get_mut(place) else {
                continue;
            };
            numbers.insert(form.key.as_slice().into(), (place, group.shapes.len()));
            group.steps.extend(&form.steps);
            group.producers.extend(&form.producers);
            group.shapes.push(Shape {
                context: form.context,
                counted: form.steps.len() as u32 - form.context,
                count: path.count,
            });
            this.longest = this.longest.max(form.steps.len());
        }
        this
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.groups.iter().map(|g| g.1.shapes.len()).sum()
    }

    /// Cycles of the program on a machine, misses and mispredictions left out.
    pub fn cycles(&mut self, machine: &Machine) -> u64 {
        let latencies = latencies_by_kind(machine);
        let mut issued = vec![0; self.longest];
        let cycles = self.groups.iter_mut().map(|(asks, group)| {
            let seen = Seen::by(asks, machine, &latencies);
            if let Some(&known) = group.known.get(&seen) {
                return known;
            }
            let cycles = group.cycles(&seen, &mut issued);
            group.known.insert(seen, cycles);
            cycles
        });
        cycles.sum()
    }
}

/// A path brought into its shape.
#[derive(Debug, Default)]
struct Form {
    steps: Vec<Step>,
    producers: Vec<(u8, u16)>,
    context: u32,
    asks: Asks,
    /// All of it, for comparison.
    key: Vec<u8>,
    /// By register: who wrote it last.
    writers: FxHashMap<u8, (u8, usize)>,
}

impl Form {
    fn read(&mut self, blocks: &[Vec<Inst>], path: &[u32]) {
        self.steps.clear();
        self.producers.clear();
        self.key.clear();
        self.writers.clear();
        self.asks = Asks::default();
        self.context = 0;
        for &block in path {
            self.context = self.steps.len() as u32;
            for inst in blocks.get(block as usize).into_iter().flatten() {
                self.push(inst);
            }
        }
        self.key.extend(self.context.to_le_bytes());
    }

    fn push(&mut self, inst: &Inst) {
        let (at, kind) = (self.steps.len(), inst.kind as u8);
        let count = &mut self.asks.count[inst.kind as usize];
        *count = (*count + 1).min(TOLD);
        let mut youngest = [None; KINDS];
        for &(from, place) in inst.reads.iter().filter_map(|r| self.writers.get(r)) {
            let youngest = &mut youngest[usize::from(from) % KINDS];
            *youngest = (*youngest).max(Some(place));
        }
        let before = self.producers.len();
        self.key.push(kind);
        for (from, place) in (0u8..).zip(youngest) {
            // Further back than any latency reaches.
            let distance = place.and_then(|place| u16::try_from(at - place).ok());
            if let Some(distance) = distance {
                self.producers.push((from, distance));
                self.key.push(0x80 | from);
                self.key.extend(distance.to_le_bytes());
                self.asks.used_by[usize::from(from)] |= 1 << kind;
            }
        }
        let producers = (self.producers.len() - before) as u8;
        self.steps.push(Step { kind, producers });
        for &register in &inst.writes {
            self.writers.insert(register, (kind, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Forward;
    use crate::profile::Path;
    use crate::step::{StaticCode, Stepper};

    /// Numbers without a pattern (xorshift).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) % n
        }
    }

    fn profile(numbers: &mut Numbers) -> Profile {
        // Mostly a few kinds, so that some paths lack others.
        let inst = |numbers: &mut Numbers, all: bool| Inst {
            kind: Kind::ALL[numbers.below(if all { 9 } else { 5 }) as usize],
            reads: (0..numbers.below(4))
                .map(|_| numbers.below(12) as u8)
                .collect(),
            writes: (0..numbers.below(3))
                .map(|_| numbers.below(12) as u8)
                .collect(),
        };
        let blocks: Vec<Vec<Inst>> = (0..60)
            .map(|n| {
                let length = numbers.below(9);
                (0..length).map(|_| inst(numbers, n % 3 == 0)).collect()
            })
            .collect();
        let paths = (0..300)
            .map(|_| Path {
                blocks: (0..1 + numbers.below(6))
                    .map(|_| numbers.below(60) as u32)
                    .collect(),
                count: 1 + numbers.below(1000),
            })
            .collect();
        Profile {
            blocks,
            paths,
            ..Profile::default()
        }
    }

    fn machine(numbers: &mut Numbers) -> Machine {
        let mut machine = Machine {
            width: 1 + numbers.below(4) as u8,
            ..Machine::default()
        };
        let in_order = numbers.below(3) == 0;
        for units in [
            &mut machine.alu,
            &mut machine.load,
            &mut machine.store,
            &mut machine.branch,
            &mut machine.multiply,
            &mut machine.divide,
            &mut machine.fp_add,
            &mut machine.fp_multiply,
            &mut machine.fp_divide,
        ] {
            units.latency = 1 + numbers.below(6) as u8;
            units.count = 1 + numbers.below(4) as u8;
            units.pipelined = numbers.below(2) == 0;
            units.write_back = if in_order { numbers.below(6) as u8 } else { 0 };
        }
        for _ in 0..numbers.below(4) {
            machine.forward.push(Forward {
                from: Kind::ALL[numbers.below(9) as usize],
                to: Kind::ALL[numbers.below(9) as usize],
                latency: 1 + numbers.below(7) as u8,
            });
        }
        machine
    }

    #[test]
    fn shapes_take_what_the_stepwise_core_takes_for_every_path() {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        for _ in 0..5 {
            let profile = profile(&mut numbers);
            let mut shapes = Shapes::of(&profile);
            for _ in 0..200 {
                let machine = machine(&mut numbers);
                let code = StaticCode::new(&machine, &profile.blocks);
                let mut stepper = Stepper::new(&machine);
                let stepped = profile
                    .paths
                    .iter()
                    .map(|path| path.count * stepper.last_of(&code, &path.blocks));
                assert_eq!(shapes.cycles(&machine), stepped.sum::<u64>(), "{machine:?}");
            }
        }
    }

    #[test]
    fn paths_that_differ_in_names_of_registers_are_one() {
        let block = |a: u8, b: u8| {
            [(vec![], vec![a]), (vec![a], vec![b]), (vec![b, a], vec![])]
                .map(|(reads, writes)| Inst {
                    kind: Kind::Alu,
                    reads,
                    writes,
                })
                .into()
        };
        let path = |n| Path {
            blocks: vec![n],
            count: 1,
        };
        let profile = Profile {
            blocks: vec![block(1, 2), block(5, 3)],
            paths: vec![path(0), path(1)],
            ..Profile::default()
        };
        assert_eq!(Shapes::of(&profile).count(), 1);
    }
}
