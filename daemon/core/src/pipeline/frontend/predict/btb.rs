//! Branch target buffers: several levels of sets of branch addresses, of which the least recently used or any
//! ([`Victim`]) makes room. A taken branch is in all levels after it was taken; a level that hits brings it into
//! the nearer ones.

use super::hold::{Hold, Holds};
use super::stream::PAGE_SHIFT;
use super::{Executed, Kind};
use crate::chance::Chance;
use crate::pipeline::fold::Folding;
use mcad_isa::machine::params::branch::{self, Victim};

/// Whether two addresses are in different pages of 4 KiB: some buffers keep more of a target there
/// ([`branch::Btb::other_page_takes_two`]).
#[inline]
#[must_use]
pub fn is_other_page(from: u64, to: u64) -> bool {
    (from ^ to) >> PAGE_SHIFT != 0
}

/// Whether a branch always goes to one place that is no farther than so many bytes.
#[inline]
#[must_use]
pub fn is_near(b: &Executed, bytes: u64) -> bool {
    bytes > 0
        && matches!(b.kind, Kind::Conditional | Kind::Jump)
        && b.target.abs_diff(b.pc) <= bytes
}

/// A branch, as buffers look for it.
#[derive(Clone, Copy, Debug)]
pub struct Sought {
    /// Its address.
    pub pc: u64,
    /// It goes to another page.
    pub other_page: bool,
    /// It is a call or a return.
    pub links: bool,
    /// It goes to a lower address.
    pub back: bool,
    /// It always goes to one place, no farther than [`Btb::near_bytes`].
    pub near: bool,
}

impl Sought {
    /// A conditional branch, whose target does not matter.
    #[inline]
    #[must_use]
    pub fn conditional(b: &Executed) -> Self {
        Self {
            pc: b.pc,
            other_page: false,
            links: false,
            back: b.target <= b.pc,
            near: true,
        }
    }
}

/// An address's bits that say that a call or a return is there, and a branch that is [`Sought::near`]: no code is up there.
const LINKS: u64 = 1 << 62;
const NEAR: u64 = 1 << 61;

/// Whether two entries are of one branch.
#[inline]
fn is_same(one: u64, other: u64) -> bool {
    (one ^ other) & !(LINKS | NEAR) == 0
}

/// What an entry of a branch has.
#[inline]
fn key(branch: Sought) -> u64 {
    branch.pc.wrapping_add(1) | (LINKS * u64::from(branch.links)) | (NEAR * u64::from(branch.near))
}

/// The branch of an entry, as far as levels go by that whose branches take one each.
fn of_key(key: u64) -> Sought {
    Sought {
        pc: (key & !(LINKS | NEAR)).wrapping_sub(1),
        other_page: false,
        links: key & LINKS != 0,
        back: false,
        near: key & NEAR != 0,
    }
}

#[derive(Clone)]
struct Level {
    ways: usize,
    shift: u32,
    sets: u64,
    hashed: bool,
    log_sets: u32,
    jumps_alone: bool,
    by_direction: bool,
    other_page_takes_two: bool,
    links_take_two: bool,
    near_bytes: u64,
    /// [`key`]s of branches, set by set, last used first, or the last one first and the others in no order; 0: empty.
    held: Box<[u64]>,
    /// Where any entry makes room: what the next one is drawn from.
    random: Option<Chance>,
}

impl Level {
    fn new(p: &branch::Btb) -> Self {
        Self {
            ways: p.ways as usize,
            shift: p.set_bytes.trailing_zeros(),
            sets: u64::from(p.entries / p.ways.max(1)),
            hashed: p.hashed,
            // Sets of all bits of an address leave nothing to be folded in.
            jumps_alone: p.jumps_alone,
            by_direction: p.by_direction,
            other_page_takes_two: p.other_page_takes_two,
            links_take_two: p.links_take_two,
            near_bytes: p.near_bytes,
            log_sets: (p.entries / p.ways.max(1)).trailing_zeros().clamp(1, 31),
            held: vec![0; p.entries as usize].into(),
            random: (p.victim == Victim::Random).then_some(Chance::new(0x2545_f491)),
        }
    }

    /// Looks a branch up and makes it the last used of its set; `insert`: puts it there if it
    /// was not.
    #[inline]
    fn access(&mut self, branch: Sought, insert: bool) -> bool {
        if branch.links && self.jumps_alone {
            return false;
        }
        let key = key(branch);
        let set = self.set_of(branch);
        let has = self.has(set, key, insert);
        match self.takes_two(branch) {
            // No code is up there.
            true => self.has(set, !key, insert) && has,
            false => has,
        }
    }

    /// Whether a branch takes two entries.
    #[inline]
    fn takes_two(&self, branch: Sought) -> bool {
        (branch.other_page && self.other_page_takes_two)
            || (branch.links && self.links_take_two)
            || (self.near_bytes > 0 && !branch.near)
    }

    /// Puts a branch there that it has not, of a level whose branches take one entry each; gives the one that had to make room.
    fn bring(&mut self, branch: Sought) -> Option<Sought> {
        let first = self.set_of(branch) * self.ways;
        let place = self.place(first);
        let dropped = *self.held.get(first + place)?;
        self.used(first, place, key(branch));
        Some(of_key(dropped)).filter(|_| dropped != 0)
    }

    /// Drops a branch.
    fn drop(&mut self, branch: Sought) {
        let first = self.set_of(branch) * self.ways;
        let key = key(branch);
        let set = self.held.get_mut(first..first + self.ways);
        for entry in set.into_iter().flatten() {
            if is_same(*entry, key) || is_same(*entry, !key) {
                *entry = 0;
            }
        }
    }

    /// The entry of a branch that takes one.
    fn entry(&mut self, branch: Sought) -> Option<&mut u64> {
        let first = self.set_of(branch) * self.ways;
        let key = key(branch);
        let set = self.held.get_mut(first..first + self.ways)?;
        set.iter_mut().find(|held| is_same(**held, key))
    }

    #[inline]
    fn set_of(&self, branch: Sought) -> usize {
        match self.by_direction {
            true => usize::from(branch.back),
            false => self.set(branch.pc),
        }
    }

    /// The number of the set that an address goes to.
    #[inline]
    fn set(&self, pc: u64) -> usize {
        let piece = pc >> self.shift;
        let folded = match self.hashed {
            true => piece ^ piece >> self.log_sets ^ piece >> (2 * self.log_sets),
            false => piece,
        };
        (folded & (self.sets - 1)) as usize
    }

    /// The same of one entry of a branch, in a set.
    #[inline]
    fn has(&mut self, set: usize, key: u64, insert: bool) -> bool {
        let first = set * self.ways;
        let Some(set) = self.held.get(first..first + self.ways) else {
            return false;
        };
        if set.first().is_some_and(|held| is_same(*held, key)) {
            return true;
        }
        let found = set.iter().position(|held| is_same(*held, key));
        let (place, key) = match (found, insert) {
            (Some(place), _) => (place, set.get(place).copied().unwrap_or(key)),
            (None, false) => return false,
            (None, true) => (self.place(first), key),
        };
        self.used(first, place, key);
        found.is_some()
    }

    /// Which entry of the set that begins there a branch gets.
    fn place(&mut self, first: usize) -> usize {
        let set = self.held.get(first..first + self.ways).unwrap_or(&[]);
        (set.iter().position(|held| *held == 0))
            .or_else(|| Some(self.random.as_mut()?.below(set.len())))
            .unwrap_or(self.ways.saturating_sub(1))
    }

    /// The branch of that entry, which is `key` now, is the last used of its set.
    #[inline]
    fn used(&mut self, first: usize, place: usize, key: u64) {
        let Some(set) = self.held.get_mut(first..=first + place) else {
            return;
        };
        match self.random {
            Some(_) => set.swap(0, place),
            None => set.rotate_right(1),
        }
        if let Some(first) = set.first_mut() {
            *first = key;
        }
    }
}

/// All levels, nearest first.
#[derive(Clone)]
pub struct Btb {
    levels: Vec<Level>,
    /// Where branches that are passed leave the nearest one.
    holds: Option<Holds>,
    /// The branch that is being taken does not come into the nearest one.
    barred: bool,
    /// The second level has what the nearest one has dropped.
    victims: bool,
}

impl Btb {
    /// Empty buffers.
    #[must_use]
    pub fn new(p: &[branch::Btb]) -> Self {
        Self {
            levels: p.iter().map(Level::new).collect(),
            holds: (p.first())
                .is_some_and(|nearest| nearest.passed_bubbles > 0)
                .then(Holds::default),
            barred: false,
            victims: p.get(1).is_some_and(|next| next.holds_victims),
        }
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        for level in &mut self.levels {
            folding.table(&mut level.held, 0);
        }
    }

    /// Bytes to the targets that [`Sought::near`] is about.
    #[inline]
    #[must_use]
    pub fn near_bytes(&self) -> u64 {
        self.levels.last().map_or(0, |level| level.near_bytes)
    }

    /// The nearest level that has a branch; what it means that it was taken is up to [`Btb::take`].
    #[inline]
    pub fn find(&mut self, branch: Sought) -> Option<u8> {
        self.levels
            .iter_mut()
            .position(|level| level.access(branch, false))
            .map(|n| n as u8)
    }

    /// A conditional branch that has gone both ways goes one of them; gives whether it is held though it is not taken.
    #[inline]
    pub fn conditional(&mut self, branch: Sought, taken: bool) -> bool {
        let (Some(holds), Some(nearest)) = (&mut self.holds, self.levels.first_mut()) else {
            return false;
        };
        let hold = holds.of(branch.pc);
        let before = *hold;
        *hold = before.after(taken);
        self.barred = taken && matches!(*hold, Hold::Out | Hold::BarredTaken);
        let entry = nearest.entry(branch);
        let held = entry.is_some() && !taken;
        // Where it leaves as it is taken, it is found once more.
        if let Some(entry) = entry
            && matches!(*hold, Hold::Barred | Hold::BarredTaken)
        {
            *entry = 0;
        }
        held
    }

    /// A branch was taken that level `found` had, or none.
    #[inline]
    pub fn take(&mut self, branch: Sought, found: Option<u8>) {
        if self.victims && found != Some(0) {
            return self.exchange(branch);
        }
        let missed = found.map_or(self.levels.len(), usize::from);
        let barred = std::mem::take(&mut self.barred);
        let levels = self.levels.iter_mut().take(missed);
        for level in levels.skip(usize::from(barred)) {
            level.access(branch, true);
        }
        if barred
            && found == Some(0)
            && let Some(entry) = self
                .levels
                .first_mut()
                .and_then(|nearest| nearest.entry(branch))
        {
            *entry = 0;
        }
    }

    /// A branch comes into the nearest level, from the next one if it was there, which gets what had to make room.
    fn exchange(&mut self, branch: Sought) {
        let [nearest, next, ..] = self.levels.as_mut_slice() else {
            return;
        };
        next.drop(branch);
        if let Some(dropped) = nearest.bring(branch) {
            next.access(dropped, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn btb(sizes: &[(u32, u32)]) -> Btb {
        let levels: Vec<branch::Btb> = sizes
            .iter()
            .map(|&(entries, ways)| branch::Btb {
                entries,
                ways,
                set_bytes: 16,
                bubbles: 0,
                other_page_takes_two: true,
                ..branch::Btb::default()
            })
            .collect();
        Btb::new(&levels)
    }

    /// A jump within its page.
    fn jump(pc: u64) -> Sought {
        Sought {
            pc,
            other_page: false,
            links: false,
            back: false,
            near: false,
        }
    }

    /// Levels that branches `spacing` bytes apart hit in when they are taken in turn.
    fn settled(btb: &mut Btb, branches: u64, spacing: u64) -> Vec<Option<u8>> {
        let mut found = Vec::new();
        for _ in 0..3 {
            found.clear();
            for n in 0..branches {
                let level = btb.find(jump(n * spacing));
                btb.take(jump(n * spacing), level);
                found.push(level);
            }
        }
        found
    }

    #[test]
    fn branches_in_turn_hit_in_the_first_level_that_holds_them_all() {
        for (branches, level) in [
            (1, Some(0)),
            (64, Some(0)),
            (65 * 2, Some(1)),
            (1024, Some(1)),
            (2048 + 128, None),
        ] {
            let found = settled(&mut btb(&[(64, 4), (1024, 4)]), branches, 16);
            let rightly = found.iter().filter(|f| **f == level).count() as u64;
            // Sets are filled evenly only by multiples of their number.
            let least = if branches % 16 == 0 {
                branches
            } else {
                branches / 2
            };
            assert!(rightly >= least, "{branches}: {rightly} in {level:?}");
        }
    }

    #[test]
    fn calls_and_returns_go_by_levels_of_jumps_alone() {
        let level = |entries, jumps_alone| branch::Btb {
            entries,
            ways: 4,
            set_bytes: 16,
            bubbles: 0,
            jumps_alone,
            ..branch::Btb::default()
        };
        let mut btb = Btb::new(&[level(8, true), level(256, false)]);
        let call = Sought {
            links: true,
            ..jump(0x100)
        };
        for (branch, level) in [(jump(0x200), 0), (call, 1)] {
            btb.take(branch, None);
            assert_eq!(btb.find(branch), Some(level), "{branch:?}");
        }
    }

    #[test]
    fn half_as_many_branches_fit_if_they_go_to_other_pages() {
        for (branches, fits) in [(512u64, true), (1024, false)] {
            let mut btb = btb(&[(1024, 4)]);
            let mut held = 0;
            for _ in 0..3 {
                held = 0;
                for pc in (0..branches).map(|n| n * 16) {
                    let far = Sought {
                        other_page: true,
                        ..jump(pc)
                    };
                    let level = btb.find(far);
                    btb.take(far, level);
                    held += usize::from(level.is_some());
                }
            }
            assert_eq!(held, if fits { branches as usize } else { 0 });
        }
    }

    #[test]
    fn branches_far_apart_use_all_sets_where_these_are_hashed() {
        let held = |hashed| {
            let mut btb = Btb::new(&[branch::Btb {
                entries: 1024,
                ways: 16,
                set_bytes: 16,
                hashed,
                bubbles: 0,
                ..branch::Btb::default()
            }]);
            let found = settled(&mut btb, 256, 1024);
            found.iter().filter(|level| level.is_some()).count()
        };
        // All of them go to one set of 16, or four to each of 64.
        assert_eq!((held(false), held(true)), (0, 256));
    }

    /// Of `n` in turn in a buffer of `c` a share `m` is missing with 1 - m = exp(-m n / c): a branch is still there if none of those
    /// that came in since took its place. On Redwood Cove 28, 49, 62, 69 and 80 % of 1.17, 1.33, 1.5, 1.67 and 2 times as many as fit.
    #[test]
    fn of_more_than_fit_as_many_are_found_as_chance_leaves() {
        for (times, missing) in [
            (1.0, 0.0),
            (1.25, 0.37),
            (1.5, 0.58),
            (2.0, 0.80),
            (3.0, 0.94),
        ] {
            let mut btb = Btb::new(&[branch::Btb {
                entries: 1024,
                ways: 64,
                set_bytes: 16,
                bubbles: 0,
                victim: Victim::Random,
                ..branch::Btb::default()
            }]);
            let branches = (1024.0 * times) as u64;
            let mut missed = 0;
            for round in 0..40 {
                for n in 0..branches {
                    let level = btb.find(jump(n * 16));
                    btb.take(jump(n * 16), level);
                    missed += u64::from(round >= 20 && level.is_none());
                }
            }
            let share = missed as f64 / (20 * branches) as f64;
            assert!((share - missing).abs() < 0.02, "{times}: {share}");
        }
    }

    #[test]
    fn branches_that_share_a_set_push_each_other_out() {
        // 16 sets of 16 bytes: 256 bytes apart is the same set.
        for ways in [1u64, 2, 4] {
            for branches in 1..10 {
                let mut btb = btb(&[(16 * ways as u32, ways as u32)]);
                let found = settled(&mut btb, branches, 256);
                let held = branches <= ways;
                assert!(
                    found.iter().all(|f| f.is_some() == held),
                    "{branches} in {ways}"
                );
            }
        }
    }

    #[test]
    fn the_second_level_may_have_what_the_nearest_one_drops() {
        let level = |entries, holds_victims| branch::Btb {
            entries,
            ways: 4,
            set_bytes: 16,
            bubbles: 0,
            jumps_alone: holds_victims,
            holds_victims,
            near_bytes: if holds_victims { 128 } else { 0 },
            ..branch::Btb::default()
        };
        // Branches in turn that both levels have room for together: of near ones one entry each, of others two, and calls only
        // the nearest level.
        for (branches, near, links, level_of_all) in [
            (64, true, false, Some(0)),
            (96, true, false, Some(1)),
            (128, true, false, None),
            (80, false, false, Some(1)),
            (96, false, false, None),
            (64, false, true, Some(0)),
            (80, false, true, None),
        ] {
            let mut btb = Btb::new(&[level(64, false), level(32, true)]);
            let mut found = Vec::new();
            for _ in 0..3 {
                found.clear();
                for n in 0..branches {
                    let branch = Sought {
                        links,
                        near,
                        ..jump(n * 16)
                    };
                    let level = btb.find(branch);
                    btb.take(branch, level);
                    found.push(level);
                }
            }
            assert!(
                found.iter().all(|level| *level == level_of_all),
                "{branches} branches, near: {near}, calls: {links}: {found:?}"
            );
        }
    }

    #[test]
    fn calls_and_returns_may_take_two_entries() {
        let level = branch::Btb {
            entries: 64,
            ways: 4,
            set_bytes: 16,
            bubbles: 0,
            links_take_two: true,
            ..branch::Btb::default()
        };
        for (branches, links, fit) in [
            (64, false, true),
            (32, true, true),
            (48, true, false),
            (80, false, false),
        ] {
            let mut btb = Btb::new(std::slice::from_ref(&level));
            let mut found = 0;
            for turn in 0..3 {
                for n in 0..branches {
                    let branch = Sought {
                        links,
                        ..jump(n * 16)
                    };
                    let level = btb.find(branch);
                    btb.take(branch, level);
                    found += u64::from(turn == 2 && level.is_some());
                }
            }
            assert_eq!(found == branches, fit, "{branches}, links: {links}");
        }
    }
}
