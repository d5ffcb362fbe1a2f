//! The statistical corrector: sums of counters by bias, by directions of backward branches, path, three
//! local histories and the innermost loop's iteration, each group at single or double weight.

use super::counter::{centred, toward};
use super::history::{fold, low};
use super::tage::Found;

const COUNTER: u32 = 6;
const MOST: i32 = 31;
const LEAST: i32 = -32;
const BIAS_LOG: usize = 8;
const WEIGHTS: usize = 8;
const THRESHOLDS: usize = 64;
const ITERATIONS: u64 = 255;

/// Tables of counters over one history, in several lengths of it.
struct Group {
    /// Lengths of history, the longest first.
    lengths: &'static [usize],
    /// Entries of a table, as a power of two; the last two have half of it.
    log: usize,
    counters: Vec<Vec<i32>>,
    /// Whether the group counts twice, by address.
    double: [i32; WEIGHTS],
    /// Weighs in the threshold.
    in_threshold: bool,
    places: Vec<usize>,
    sum: i32,
}

impl Group {
    fn new(lengths: &'static [usize], log: usize) -> Self {
        // They take turns in saying not taken and taken.
        let counters = |_: &usize| (0..1 << log).map(|n| n % 2 - 1).collect();
        Self {
            lengths,
            log,
            counters: lengths.iter().map(counters).collect(),
            double: [7; WEIGHTS],
            in_threshold: true,
            places: Vec::new(),
            sum: 0,
        }
    }

    fn look_up(&mut self, key: u64, history: u64) {
        self.places.clear();
        self.sum = 0;
        for (n, (counters, &length)) in self.counters.iter().zip(self.lengths).enumerate() {
            let log = self.log - usize::from(n + 2 >= self.lengths.len());
            let place = ((key ^ fold(history, length, log)) & low(log)) as usize;
            self.places.push(place);
            self.sum += centred(counters[place]);
        }
    }

    fn train(&mut self, taken: bool) {
        for (counters, &place) in self.counters.iter_mut().zip(&self.places) {
            counters[place] = toward(counters[place], COUNTER, taken);
        }
    }
}

/// What the corrector makes of a branch.
#[derive(Clone, Copy, Debug)]
pub struct Corrected {
    /// The prediction of all together.
    pub taken: bool,
    before: bool,
    sum: i32,
    threshold: i32,
    weight: usize,
    own: usize,
}

/// The corrector.
pub struct Corrector {
    bias: Group,
    groups: [Group; 7],
    backward: u64,
    local: Vec<u64>,
    second: Vec<u64>,
    third: Vec<u64>,
    by_iteration: Vec<u64>,
    iteration: u64,
    threshold: i32,
    own_thresholds: [i32; THRESHOLDS],
    believe: [i32; 2],
}

const LOCAL: u64 = 255;
const SECOND: u64 = 15;
const THIRD: u64 = 15;

fn locals(pc: u64) -> [usize; 3] {
    [
        ((pc ^ pc >> 2) & LOCAL) as usize,
        ((pc ^ pc >> 5) & SECOND) as usize,
        ((pc ^ pc >> 10) & THIRD) as usize,
    ]
}

impl Corrector {
    /// One that says what the tables say.
    pub fn new() -> Self {
        let mut bias = Group::new(&[0, 0, 0], BIAS_LOG);
        bias.double = [4; WEIGHTS];
        let first = |ends: [i32; 4]| (0..1 << BIAS_LOG).map(|n: usize| ends[n % 4]).collect();
        let biased = [LEAST, MOST, -1, 0];
        bias.counters = vec![first(biased), first([-8, 7, LEAST, MOST]), first(biased)];
        let mut groups = [
            Group::new(&[40, 24, 10], 10),
            Group::new(&[25, 16, 9], 9),
            Group::new(&[11, 6, 3], 10),
            Group::new(&[16, 11, 6], 9),
            Group::new(&[9, 4], 10),
            Group::new(&[10, 4], 9),
            Group::new(&[8], 8),
        ];
        groups[5].double = [0; WEIGHTS];
        groups[5].in_threshold = false;
        Self {
            bias,
            groups,
            backward: 0,
            local: vec![0; LOCAL as usize + 1],
            second: vec![3; SECOND as usize + 1],
            third: vec![0; THIRD as usize + 1],
            by_iteration: vec![0; ITERATIONS as usize + 1],
            iteration: 0,
            threshold: 35 << 3,
            own_thresholds: [0; THRESHOLDS],
            believe: [0; 2],
        }
    }

    /// What all say of the branch; `before`: the tables and the loop predictor; `path`: the tables'.
    pub fn predict(&mut self, pc: u64, before: bool, found: &Found, path: u64) -> Corrected {
        let address = pc ^ pc >> 2;
        let bit = u64::from(before);
        let torn = found.low && found.longest != found.alternate;
        let of_table = ((found.hit as u64 + 1) / 4) << 4
            | u64::from(found.other > 0) << 3
            | u64::from(found.low) << 2
            | u64::from(found.high) << 1;
        let biases = [
            (address << 1 ^ u64::from(torn)) << 1,
            ((pc ^ pc >> (BIAS_LOG - 2)) << 1 ^ u64::from(found.high)) << 1,
            of_table.wrapping_add(address << 7),
        ];
        let places = biases.map(|place| ((place | bit) & low(BIAS_LOG)) as usize);
        self.bias.places = places.to_vec();
        let counters = self.bias.counters.iter().zip(places);
        self.bias.sum = counters
            .map(|(counters, place)| centred(counters[place]))
            .sum();
        let [local, second, third] = locals(pc);
        let asked = [
            (pc << 1 | bit, self.backward),
            (pc, path),
            (pc, self.local[local]),
            (pc, self.second[second]),
            (pc, self.third[third]),
            (pc, self.by_iteration[self.iteration as usize]),
            (pc, self.iteration),
        ];
        for (group, (key, history)) in self.groups.iter_mut().zip(asked) {
            group.look_up(key, history);
        }
        let weight = (address % WEIGHTS as u64) as usize;
        let own = (address % THRESHOLDS as u64) as usize;
        let mut threshold = (self.threshold >> 3) + self.own_thresholds[own];
        let mut sum = 0;
        for group in self.groups.iter().chain([&self.bias]) {
            let double = group.double[weight] >= 0;
            sum += group.sum * (1 + i32::from(double));
            threshold += 12 * i32::from(double && group.in_threshold);
        }
        let corrected = sum >= 0;
        let doubt = sum.abs();
        let taken = match (corrected != before, found.high, found.medium) {
            (true, true, _) if doubt < threshold / 4 => before,
            (true, true, _) if doubt < threshold / 2 && self.believe[0] >= 0 => before,
            (true, _, true) if doubt < threshold / 4 && self.believe[1] >= 0 => before,
            _ => corrected,
        };
        Corrected {
            taken,
            before,
            sum,
            threshold,
            weight,
            own,
        }
    }

    /// The branch went `taken`.
    pub fn update(&mut self, said: Corrected, found: &Found, taken: bool) {
        let corrected = said.sum >= 0;
        let doubt = said.sum.abs();
        if corrected != said.before {
            let right = said.before == taken;
            let (half, quarter) = (said.threshold / 2, said.threshold / 4);
            if found.high && doubt < half && doubt >= quarter {
                self.believe[0] = toward(self.believe[0], 7, right);
            }
            if found.medium && doubt < quarter {
                self.believe[1] = toward(self.believe[1], 7, right);
            }
        }
        if corrected == taken && doubt >= said.threshold {
            return;
        }
        let wrong = corrected != taken;
        self.threshold = toward(self.threshold, 12, wrong);
        let own = &mut self.own_thresholds[said.own];
        *own = toward(*own, 8, wrong);
        for group in self.groups.iter_mut().chain([&mut self.bias]) {
            let double = &mut group.double[said.weight];
            let without = said.sum - if *double >= 0 { group.sum } else { 0 };
            if (without + group.sum >= 0) != (without >= 0) {
                *double = toward(*double, 6, (group.sum >= 0) == taken);
            }
            group.train(taken);
        }
    }

    /// A conditional branch with that target went `taken`.
    pub fn push(&mut self, pc: u64, target: u64, taken: bool) {
        let bit = u64::from(taken);
        let back = target < pc;
        let by_iteration = &mut self.by_iteration[self.iteration as usize];
        *by_iteration = *by_iteration << 1 | bit;
        if back {
            self.iteration = match taken {
                true => (self.iteration + 1).min(ITERATIONS),
                false => 0,
            };
        }
        self.backward = self.backward << 1 | u64::from(taken && back);
        let [local, second, third] = locals(pc);
        self.local[local] = self.local[local] << 1 | bit;
        self.second[second] = (self.second[second] << 1 | bit) ^ (pc & 15);
        self.third[third] = self.third[third] << 1 | bit;
    }
}
