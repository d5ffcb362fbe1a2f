//! What is in the µop cache: sets and ways.

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::Frontend;

/// Which code is in the µop cache: sets and ways, least recently used goes.
#[derive(Clone)]
pub struct UopCache {
    warm: bool,
    sets: u64,
    ways: u32,
    /// log2 of the bytes of a block of code.
    shift: u32,
    /// Only what was executed of a block is there, not all of it.
    as_executed: bool,
    /// Per set: what is there, most recent last.
    content: Vec<Vec<Piece>>,
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
            shift: p.uop_cache_block_bytes.trailing_zeros(),
            as_executed: p.uop_cache_as_executed,
            content: vec![Vec::new(); if warm { 0 } else { sets as usize }],
        }
    }

    /// Says whether it has everything, from the next reset on.
    pub fn warm(&mut self, warm: bool) {
        self.warm = warm;
    }

    /// Looks code of one block up, from `from` to behind its last instruction `to`, and puts it in, in so many
    /// lines; whether it was there.
    pub fn access(&mut self, from: u64, to: u64, lines: u32) -> bool {
        if self.warm {
            return true;
        }
        let block = from >> self.shift;
        let number = match self.sets.is_power_of_two() {
            true => block & (self.sets - 1),
            false => block % self.sets,
        };
        let Some(set) = self.content.get_mut(number as usize) else {
            return false;
        };
        let mut piece = match self.as_executed {
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
        let mut used: u32 = set.iter().map(|e| e.lines).sum();
        // Of some code all lines begin in the block before.
        let most = 4 * self.ways as usize;
        while (used + piece.lines > self.ways || set.len() >= most) && !set.is_empty() {
            used -= set.remove(0).lines;
        }
        set.push(piece);
        false
    }
}

impl Part for UopCache {
    fn reset(&mut self, _: &Moment) {
        let Self {
            warm,
            sets,
            ways: _,
            shift: _,
            as_executed: _,
            content,
        } = self;
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
            shift: _,
            as_executed: _,
            content: _,
        } = self;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(as_executed: bool) -> UopCache {
        let model = mcad_isa::machine::cpu("zen4").expect("a model");
        let mut p = model.core.frontend.clone();
        (p.uop_cache_sets, p.uop_cache_ways) = (4, 4);
        p.uop_cache_as_executed = as_executed;
        UopCache::new(&p, false)
    }

    #[test]
    fn what_was_executed_is_there_and_the_rest_takes_lines_of_its_own() {
        let mut cache = cache(true);
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
    fn of_other_caches_all_of_a_block_is_there() {
        let mut cache = cache(false);
        assert!(!cache.access(0x1010, 0x1020, 1));
        assert!(cache.access(0x1000, 0x1040, 2));
    }
}
