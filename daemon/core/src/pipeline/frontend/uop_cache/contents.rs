//! What is in the µop cache: sets and ways.

use super::groups::Part as GroupPart;
use super::pack::{Entry, Open};
use crate::pipeline::inst::Source;
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{Frontend, UopCacheHolds};

/// Which code is in the µop cache: sets and ways, least recently used goes.
#[derive(Clone)]
pub struct UopCache {
    warm: bool,
    sets: u64,
    ways: u32,
    /// Lines of a block, of all ways through it.
    of_block: u32,
    /// log2 of the bytes of a block of code.
    shift: u32,
    /// What of a block is there.
    holds: UopCacheHolds,
    /// Per set: what is there, most recent last.
    content: Vec<Vec<Piece>>,
    /// Where the newest line begins, if lines are found by that.
    newest: u64,
    /// Parts of groups that come from the decoders once one was not there, and how many of them are still to come.
    leaves_for: u32,
    away: u32,
}

/// Code of one block that is in the cache.
#[derive(Clone, Copy)]
struct Piece {
    block: u64,
    /// From which address of the block to behind which.
    from: u64,
    to: u64,
    /// Lines that it takes.
    lines: u32,
}

impl UopCache {
    /// An empty cache, or one that has everything (`warm`).
    #[must_use]
    pub fn new(p: &Frontend, warm: bool) -> Self {
        let sets = u64::from(p.uop_cache_sets);
        Self {
            warm,
            sets,
            ways: p.uop_cache_ways,
            of_block: of_block(p),
            shift: p.uop_cache_block_bytes.trailing_zeros(),
            holds: p.uop_cache_holds,
            content: vec![Vec::new(); if warm { 0 } else { sets as usize }],
            newest: 0,
            leaves_for: p.uop_cache_leaves_for,
            away: 0,
        }
    }

    /// Keeps code as in whole programs from now on.
    pub fn decode_alone(&mut self, p: &Frontend) {
        self.of_block = of_block(p);
    }

    /// Says whether it has everything, from the next reset on.
    pub fn warm(&mut self, warm: bool) {
        self.warm = warm;
    }

    /// Looks a part of a group up, whose addresses are so much higher (`moved`) than it says, and puts it in; whether
    /// all of it was there.
    #[inline]
    pub fn has(&mut self, part: &GroupPart, entries: &[Entry], moved: u64) -> bool {
        let (from, to) = (
            part.address.wrapping_add(moved),
            part.end.wrapping_add(moved),
        );
        match self.finds_lines() {
            true => self.access_lines(entries, moved, to),
            false => self.access(from, to, part.packed.lines),
        }
    }

    /// Whether the next part of a group is delivered from here, if it is there (`hit`) and behind what may be followed from
    /// here (`may_hit`).
    #[inline]
    pub fn delivers(&mut self, hit: bool, may_hit: bool) -> bool {
        if self.away > 0 {
            self.away -= 1;
            return false;
        }
        if !hit && !self.warm {
            self.away = self.leaves_for;
        }
        hit && may_hit
    }

    /// What the line before a group has room for, if this is what it was left with (`line`), code came from `last`, and
    /// what was last was a branch: behind the decoders lines are looked up where code goes on.
    #[inline]
    #[must_use]
    pub fn goes_on(&self, line: Open, last: Source, after_branch: bool) -> Open {
        match self.finds_lines() && last != Source::UopCache && after_branch {
            true => Open::default(),
            false => line,
        }
    }

    /// What the last line of a group is left with, if it has room for that (`open`): a line ends where control
    /// goes elsewhere (`taken`). What is decoded (`last`) makes lines too, where lines are looked up.
    #[inline]
    #[must_use]
    pub fn leaves(&self, open: Open, last: Source, taken: bool) -> Open {
        match (last == Source::UopCache || self.finds_lines()) && !taken {
            true => open,
            false => Open::default(),
        }
    }

    /// Looks code of one block up, from `from` to behind its last instruction `to`, and puts it in, in so many
    /// lines; whether it was there.
    fn access(&mut self, from: u64, to: u64, lines: u32) -> bool {
        if self.warm {
            return true;
        }
        let block = from >> self.shift;
        let room = (self.ways, self.of_block);
        let executed = self.holds == UopCacheHolds::Executed;
        let Some(set) = self.set(from) else {
            return false;
        };
        let mut piece = match executed {
            true => Piece {
                block,
                from,
                to,
                lines,
            },
            false => Piece {
                block,
                from: 0,
                to: u64::MAX,
                lines,
            },
        };
        let found = |e: &Piece, at: u64| e.block == block && (e.from..e.to).contains(&at);
        if let Some(newest) = set.last()
            && found(newest, piece.from)
            && newest.to >= piece.to
        {
            return true;
        }
        while let Some(at) = set.iter().position(|e| found(e, piece.from)) {
            let known = set.remove(at);
            set.push(known);
            if known.to >= piece.to {
                return true;
            }
            // What is behind it has lines of its own.
            piece.from = known.to;
            piece.lines = piece.lines.saturating_sub(known.lines).max(1);
        }
        put(set, piece, room);
        false
    }

    /// Whether lines are looked up ([`Self::access_lines`]), not code of blocks ([`Self::access`]).
    #[inline]
    fn finds_lines(&self) -> bool {
        self.holds == UopCacheHolds::Lines && !self.warm
    }

    /// Looks the lines of code of one block up, whose entries have these addresses but for what is added to
    /// them (`moved`), up to before `to`, and puts them in; whether all of them were there. Each line is found by where
    /// it begins; entries before the first that begins one belong to the line before.
    fn access_lines(&mut self, entries: &[Entry], moved: u64, to: u64) -> bool {
        let mut hit = true;
        let address = |entry: &Entry| entry.address.wrapping_add(moved);
        let mut lines = entries
            .chunk_by(|_, next| !next.starts_line)
            .filter_map(|line| line.first())
            .peekable();
        while let Some(first) = lines.next() {
            if first.starts_line {
                self.newest = address(first);
            }
            let end = lines.peek().map_or(to, |next| address(next));
            hit &= self.line(self.newest, end);
        }
        hit
    }

    /// Looks up the line that begins at `from`, which is needed up to before `to`, and puts it in or lets it be
    /// longer; whether it was there.
    fn line(&mut self, from: u64, to: u64) -> bool {
        let (block, room) = (from >> self.shift, (self.ways, self.of_block));
        let Some(set) = self.set(from) else {
            return false;
        };
        let mut piece = Piece {
            block,
            from,
            to,
            lines: 1,
        };
        let Some(at) = set.iter().rposition(|e| e.from == from) else {
            put(set, piece, room);
            return false;
        };
        let known = set.remove(at);
        piece.to = piece.to.max(known.to);
        set.push(piece);
        known.to >= to
    }

    /// The set of the block that an address is in.
    fn set(&mut self, address: u64) -> Option<&mut Vec<Piece>> {
        let block = address >> self.shift;
        let number = match self.sets.is_power_of_two() {
            true => block & (self.sets - 1),
            false => block % self.sets,
        };
        self.content.get_mut(number as usize)
    }
}

/// Lines of a block, of all ways through it.
fn of_block(p: &Frontend) -> u32 {
    match p.uop_cache_lines_of_ways {
        0 => u32::MAX,
        lines => lines,
    }
}

/// Puts code in, for which what was not used for longest goes, unless its block has more lines then than one may have: then all of
/// that goes.
fn put(set: &mut Vec<Piece>, piece: Piece, (ways, of_block): (u32, u32)) {
    let of_same = |e: &&Piece| e.block == piece.block;
    let known: u32 = set.iter().filter(of_same).map(|e| e.lines).sum();
    if known + piece.lines > of_block {
        set.retain(|e| e.block != piece.block);
        return;
    }
    let mut used: u32 = set.iter().map(|e| e.lines).sum();
    // Of some code all lines begin in the block before.
    let most = 4 * ways as usize;
    while (used + piece.lines > ways || set.len() >= most) && !set.is_empty() {
        used -= set.remove(0).lines;
    }
    set.push(piece);
}

impl Part for UopCache {
    fn reset(&mut self, _: &Moment) {
        let Self {
            warm,
            sets,
            ways: _,
            of_block: _,
            shift: _,
            holds: _,
            content,
            newest,
            leaves_for: _,
            away,
        } = self;
        (*newest, *away) = (0, 0);
        if content.is_empty() && !*warm {
            *content = vec![Vec::new(); *sets as usize];
        }
        content.iter_mut().for_each(Vec::clear);
    }

    /// Who compares states lets everything be cached, or nothing.
    fn fingerprint(&self, _: &Moment, _: &mut Fingerprint) {
        let Self {
            warm: _,
            sets: _,
            ways: _,
            of_block: _,
            shift: _,
            holds: _,
            content: _,
            newest: _,
            leaves_for: _,
            away: _,
        } = self;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(holds: UopCacheHolds) -> UopCache {
        let model = mcad_isa::machine::cpu("zen4").expect("a model");
        let mut p = model.core.frontend.clone();
        (p.uop_cache_sets, p.uop_cache_ways) = (4, 4);
        p.uop_cache_holds = holds;
        UopCache::new(&p, false)
    }

    #[test]
    fn what_was_executed_is_there_and_the_rest_takes_lines_of_its_own() {
        let mut cache = cache(UopCacheHolds::Executed);
        assert!(!cache.access(0x1000, 0x1020, 1));
        assert!(cache.access(0x1000, 0x1020, 1));
        // Entered in its middle it is found, also if less is executed of it.
        assert!(cache.access(0x1008, 0x1010, 1));
        // What is behind it is not there.
        assert!(!cache.access(0x1008, 0x1030, 2));
        assert!(cache.access(0x1000, 0x1030, 2));
        assert!(!cache.access(0x1030, 0x1040, 1));
        assert!(cache.access(0x1000, 0x1040, 2));
        // Three lines of four: two more, and what was not used for longest goes.
        assert!(!cache.access(0x1100, 0x1140, 2));
        assert!(!cache.access(0x1000, 0x1040, 2));
    }

    #[test]
    fn behind_what_is_not_there_so_many_blocks_are_decoded() {
        let model = mcad_isa::machine::cpu("zen1").expect("a model");
        let p = &model.core.frontend;
        let mut cache = UopCache::new(p, false);
        assert!(cache.delivers(true, true));
        assert!(!cache.delivers(true, false));
        for _ in 0..2 {
            assert!(!cache.delivers(false, true));
            // Those of which some are not there either.
            for n in 0..p.uop_cache_leaves_for {
                assert!(!cache.delivers(n % 3 > 0, true), "{n}");
            }
            assert!(cache.delivers(true, true));
        }
        // Who has everything never leaves.
        let mut warm = UopCache::new(p, true);
        assert!(!warm.delivers(false, true));
        assert!(warm.delivers(true, true));
    }

    #[test]
    fn a_line_is_found_by_where_it_begins() {
        let mut cache = cache(UopCacheHolds::Lines);
        // Two lines in a block, the second one from 0x10 on; the first goes on in it.
        assert!(!cache.line(0x1000, 0x1010));
        assert!(!cache.line(0x1010, 0x1020));
        assert!(cache.line(0x1000, 0x1010) && cache.line(0x1010, 0x1018));
        // Longer than it was known, and then as long.
        assert!(!cache.line(0x1010, 0x1028));
        assert!(cache.line(0x1010, 0x1028));
        // Come to in its middle it is not found, but takes a line of its own; the fifth takes the place of the
        // one that was not used for longest.
        assert!(!cache.line(0x1004, 0x1010));
        assert!(!cache.line(0x1008, 0x1010));
        assert!(!cache.line(0x100c, 0x1010));
        assert!(cache.line(0x1010, 0x1028));
        assert!(!cache.line(0x1000, 0x1010));
    }

    #[test]
    fn of_other_caches_all_of_a_block_is_there() {
        let mut cache = cache(UopCacheHolds::Blocks);
        assert!(!cache.access(0x1010, 0x1020, 1));
        assert!(cache.access(0x1000, 0x1040, 2));
    }
}
