//! A branch predictor that is asked once for a whole fetch group.
//!
//! The *target buffer* has sets by a hash of the group's address and banks by the place in the
//! group; an entry belongs to the *lane* (two bytes) in which a branch ends. The *counters* of a
//! group's lanes lie in one row, found by the same hash and the global history; of the branches
//! that the buffer knows, in lane order, the first whose counter says taken ends the group. The
//! history has one bit for each known branch; it is guessed along with the fetch and put right
//! by a misprediction. The *return stack* is pushed and popped by what is fetched and never put
//! right.
//!
//! What branches did is written some time after they were fetched, so a look-up sees only the
//! updates whose cycle has passed; keeping that order is what [`Update`]s wait for.
//!
//! Source: the RTL of VeeR EH1, `ifu_bp_ctl.sv`, `exu.sv` (histories), `exu_alu_ctl.sv` (counters),
//! with whole addresses in place of its tags, which tell groups apart that are less than 32 KiB
//! from each other.

use std::collections::VecDeque;

use mcad_isa::machine::inorder::GroupGshare;

/// Lanes of the largest fetch group.
pub const LANES: usize = 32;

/// A known branch.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    valid: bool,
    group: u64,
    lane: u8,
    target: u64,
    /// Where it returns to when it is a call.
    after: u64,
    call: bool,
    ret: bool,
    always: bool,
}

/// What was predicted for a fetch group.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    /// The lane that ends the group, and where fetch goes on.
    pub taken: Option<(u8, u64)>,
    /// History that it was predicted with.
    history: u32,
    /// Lanes of known branches.
    known: u32,
    /// Counters by lane, two bits each.
    counters: u64,
    /// Way of each lane that an update is to take, one bit each.
    ways: u32,
}

/// A branch that has executed.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Address of its fetch group.
    pub group: u64,
    /// Lane in which it ends.
    pub lane: u8,
    /// It was taken.
    pub taken: bool,
    /// Where it goes when it is taken.
    pub target: u64,
    /// The address after it.
    pub after: u64,
    /// It is a call.
    pub call: bool,
    /// It is a return.
    pub ret: bool,
    /// It is taken always.
    pub always: bool,
    /// The fetch went elsewhere.
    pub mispredicted: bool,
    /// From its cycle on it can be predicted so.
    pub cycle: u64,
}

#[derive(Clone, Copy, Debug)]
struct Update {
    cycle: u64,
    row: u32,
    lane: u8,
    counter: Option<u8>,
    /// Set, bank and way of a mispredicted branch, whether or not it is entered there.
    place: Option<(u32, u8, bool)>,
    known: Option<Known>,
    group: u64,
}

/// The predictor.
#[derive(Debug)]
pub struct GroupPredictor {
    group_bits: u32,
    lanes_per_bank: u8,
    banks: u32,
    ways: u32,
    set_bits: u32,
    history_bits: u32,
    /// By set, bank and way.
    known: Vec<Known>,
    /// By set and bank: the way to be replaced.
    replace: Vec<bool>,
    /// By row and lane.
    counters: Vec<u8>,
    lanes: usize,
    /// History along the fetch.
    fetched: u32,
    /// History of what has executed.
    executed: u32,
    returns: Vec<u64>,
    /// Updates in order of their cycles; those of mispredictions come sooner.
    commits: VecDeque<Update>,
    repairs: VecDeque<Update>,
}

impl GroupPredictor {
    /// A predictor that knows nothing; `bytes` is the size of a fetch group.
    #[must_use]
    pub fn new(p: &GroupGshare, bytes: u32) -> Self {
        let lanes = (bytes as usize / 2).min(LANES);
        let banks = p.target_banks.max(1);
        let ways = p.target_ways.clamp(1, 2);
        let sets = (p.targets / banks / ways).max(1);
        Self {
            group_bits: bytes.ilog2(),
            lanes_per_bank: (lanes as u32 / banks).max(1) as u8,
            banks,
            ways,
            set_bits: sets.ilog2(),
            history_bits: p.history,
            known: vec![Known::default(); (sets * banks * ways) as usize],
            replace: vec![false; (sets * banks) as usize],
            counters: vec![0; p.counters as usize],
            lanes,
            fetched: 0,
            executed: 0,
            returns: vec![0; p.returns as usize],
            commits: VecDeque::new(),
            repairs: VecDeque::new(),
        }
    }

    /// The set of a group: three parts of its address, exclusive-or.
    fn set(&self, group: u64) -> u32 {
        let mask = (1u64 << self.set_bits) - 1;
        let at = |n: u32| (group >> (self.group_bits + n * self.set_bits)) & mask;
        (at(0) ^ at(1) ^ at(2)) as u32
    }

    /// The row of counters of a group under a history. The row has one bit less than the history,
    /// whose oldest bit is folded into the highest of the row.
    fn row(&self, group: u64, history: u32) -> u32 {
        let bits = self.history_bits - 1;
        let mask = (1u32 << bits) - 1;
        let oldest = (history >> bits) & 1;
        (history & mask) ^ (self.set(group) & mask) ^ (oldest << (bits - 1))
    }

    fn apply(&mut self, update: &Update) {
        if let Some(counter) = update.counter {
            let at = update.row as usize * self.lanes + usize::from(update.lane);
            if let Some(c) = self.counters.get_mut(at) {
                *c = counter;
            }
        }
        let Some((set, bank, way)) = update.place else {
            return;
        };
        let bank = (set * self.banks + u32::from(bank)) as usize;
        if let Some(replace) = self.replace.get_mut(bank) {
            *replace = !way && self.ways > 1;
        }
        if let Some(known) = update.known
            && let Some(entry) = self
                .known
                .get_mut(bank * self.ways as usize + usize::from(way))
        {
            *entry = known;
        }
    }

    /// Brings the tables to what a look-up in `cycle` sees: updates of earlier cycles.
    fn advance(&mut self, cycle: u64) {
        loop {
            let commit = self.commits.front().filter(|u| u.cycle < cycle);
            let repair = self.repairs.front().filter(|u| u.cycle < cycle);
            let commit_first = match (commit, repair) {
                (None, None) => return,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                // A commit overrides a repair of the same cycle.
                (Some(c), Some(r)) => c.cycle < r.cycle,
            };
            let queue = if commit_first {
                &mut self.commits
            } else {
                &mut self.repairs
            };
            if let Some(update) = queue.pop_front() {
                self.apply(&update);
            }
        }
    }

    /// Predicts the group at `group`, fetched from lane `start` on in `cycle`, and goes along
    /// with it.
    pub fn fetch(&mut self, group: u64, start: u8, cycle: u64) -> Prediction {
        self.advance(cycle);
        let set = self.set(group);
        let row = self.row(group, self.fetched) as usize * self.lanes;
        let mut prediction = Prediction {
            taken: None,
            history: self.fetched,
            known: 0,
            counters: 0,
            ways: 0,
        };
        let mut valid = 0;
        let mut taken = None;
        for lane in 0..self.lanes as u8 {
            let bank = set * self.banks + u32::from(lane / self.lanes_per_bank);
            let counter = self
                .counters
                .get(row + usize::from(lane))
                .copied()
                .unwrap_or(0);
            let first = bank as usize * self.ways as usize;
            let entries = self
                .known
                .get(first..first + self.ways as usize)
                .unwrap_or(&[]);
            let hit = entries
                .iter()
                .rposition(|k| k.valid && k.group == group && k.lane == lane);
            let way = match hit {
                Some(way) => way == 1,
                None => self.replaced(bank, set, lane, group, cycle),
            };
            prediction.ways |= u32::from(way) << lane;
            let mut raw = counter;
            if let Some(entry) = hit.and_then(|way| entries.get(way)) {
                prediction.known |= 1 << lane;
                if entry.always {
                    raw |= 2;
                }
                if lane >= start && taken.is_none() {
                    valid += 1;
                    if raw & 2 != 0 {
                        taken = Some((lane, *entry));
                    }
                    let first_way = entries.first().is_some_and(|k| k.valid && k.group == group);
                    if let Some(replace) = self.replace.get_mut(bank as usize) {
                        *replace = first_way && self.ways > 1;
                    }
                }
            }
            prediction.counters |= u64::from(raw) << (2 * lane);
        }
        self.fetched = self.merged(valid, taken.is_some());
        if let Some((lane, entry)) = taken {
            let mut target = entry.target;
            if entry.ret {
                target = self.returns.first().copied().unwrap_or(0);
                if !self.returns.is_empty() {
                    self.returns.copy_within(1.., 0);
                }
            } else if entry.call {
                self.returns.rotate_right(1);
                if let Some(top) = self.returns.first_mut() {
                    *top = entry.after;
                }
            }
            prediction.taken = Some((lane, target));
        }
        prediction
    }

    /// The way that a branch in this lane would take if it were entered.
    fn replaced(&self, bank: u32, set: u32, lane: u8, group: u64, cycle: u64) -> bool {
        // A branch of the same group that is being entered in this very cycle shows its way, so
        // that it is not entered twice; of other groups it shows which way is now older.
        let in_bank = lane / self.lanes_per_bank;
        for update in self.repairs.iter().take_while(|u| u.cycle <= cycle) {
            if let Some((at, its, way)) = update.place
                && (at, its) == (set, in_bank)
            {
                return if update.group == group { way } else { !way };
            }
        }
        self.replace.get(bank as usize).copied().unwrap_or(false)
    }

    /// The history after a group with so many known branches, of which only the last can be
    /// taken. From three on the older part stays where it was.
    fn merged(&self, valid: u32, taken: bool) -> u32 {
        let (old, last) = (self.fetched, u32::from(taken));
        let mask = ((1u64 << self.history_bits) - 1) as u32;
        mask & match valid {
            0 => old,
            1 => old << 1 | last,
            2 => old << 2 | last,
            3 => old & !7 | last,
            _ => old & !15 | last,
        }
    }

    /// Takes note of a branch that has executed, in program order.
    pub fn resolve(&mut self, prediction: &Prediction, outcome: &Outcome) {
        self.note(prediction, outcome, true);
    }

    /// Takes note of a branch that has executed and will not retire: what it repairs stays, but
    /// where it was predicted rightly nothing is written.
    pub fn resolve_astray(&mut self, prediction: &Prediction, outcome: &Outcome) {
        self.note(prediction, outcome, false);
    }

    /// A branch that executes late has gone by: until then it stands in the history as predicted.
    pub fn pass(&mut self, prediction: &Prediction, lane: u8) {
        let lane = lane.min(LANES as u8 - 1);
        if prediction.known >> lane & 1 != 0 {
            let taken = (prediction.counters >> (2 * lane + 1)) as u32 & 1;
            let mask = ((1u64 << self.history_bits) - 1) as u32;
            self.executed = (self.executed << 1 | taken) & mask;
        }
    }

    /// History of what has executed.
    #[must_use]
    pub fn history(&self) -> u32 {
        self.executed
    }

    /// Sets the history of what has executed.
    pub fn set_history(&mut self, history: u32) {
        self.executed = history;
    }

    fn note(&mut self, prediction: &Prediction, outcome: &Outcome, retires: bool) {
        let lane = outcome.lane.min(LANES as u8 - 1);
        let hit = prediction.known >> lane & 1 != 0;
        if !hit && !outcome.mispredicted {
            return;
        }
        let mask = ((1u64 << self.history_bits) - 1) as u32;
        self.executed = (self.executed << 1 | u32::from(outcome.taken)) & mask;
        let counter = counted((prediction.counters >> (2 * lane) & 3) as u8, outcome.taken);
        let way = prediction.ways >> lane & 1 != 0;
        let set = self.set(outcome.group);
        let bank = lane / self.lanes_per_bank;
        let mut update = Update {
            cycle: outcome.cycle,
            row: self.row(outcome.group, prediction.history),
            lane,
            counter: Some(counter),
            place: None,
            known: None,
            group: outcome.group,
        };
        if outcome.mispredicted {
            if outcome.always {
                update.counter = None;
            }
            update.place = Some((set, bank, way));
            update.known = outcome.taken.then_some(Known {
                valid: true,
                group: outcome.group,
                lane,
                target: outcome.target,
                after: outcome.after,
                call: outcome.call,
                ret: outcome.ret,
                always: outcome.always,
            });
            self.repairs.push_back(update);
        } else if retires {
            self.commits.push_back(update);
        }
    }

    /// Fetch starts anew behind what has executed.
    pub fn restart(&mut self) {
        self.fetched = self.executed;
    }
}

/// A two-bit counter after a branch: 0 and 1 say not taken (1 strongly), 2 and 3 taken (3
/// strongly).
fn counted(counter: u8, taken: bool) -> u8 {
    match (counter, taken) {
        (0 | 1, false) => 1,
        (2, false) | (1, true) => 0,
        (3, false) | (0, true) => 2,
        _ => 3,
    }
}
