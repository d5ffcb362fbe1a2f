//! What is in the µop cache: sets and ways.

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::Frontend;

/// Which blocks of code are in the µop cache: sets and ways, least recently used goes.
#[derive(Clone)]
pub struct UopCache {
    warm: bool,
    sets: u64,
    ways: u32,
    /// Per set: blocks with the lines they take, most recent last.
    content: Vec<Vec<(u64, u32)>>,
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
            content: vec![Vec::new(); if warm { 0 } else { sets as usize }],
        }
    }

    /// Says whether it has everything, from the next reset on.
    pub fn warm(&mut self, warm: bool) {
        self.warm = warm;
    }

    /// Looks a block up and puts it in; whether it was there.
    pub fn access(&mut self, block: u64, lines: u32) -> bool {
        if self.warm {
            return true;
        }
        let number = match self.sets.is_power_of_two() {
            true => block & (self.sets - 1),
            false => block % self.sets,
        };
        let Some(set) = self.content.get_mut(number as usize) else {
            return false;
        };
        if let Some(last) = set.last()
            && last.0 == block
        {
            return true;
        }
        if let Some(at) = set.iter().position(|e| e.0 == block) {
            let entry = set.remove(at);
            set.push(entry);
            return true;
        }
        let mut used: u32 = set.iter().map(|e| e.1).sum();
        while used + lines > self.ways && !set.is_empty() {
            used -= set.remove(0).1;
        }
        set.push((block, lines));
        false
    }
}

impl Part for UopCache {
    fn reset(&mut self, _: &Moment) {
        let Self {
            warm,
            sets,
            ways: _,
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
            content: _,
        } = self;
    }
}
