//! Finds the functions of one version again in another.
//!
//! In this order, each function once: the same name and module; the same name in a module of the
//! same family (`libLLVM-14.so.1` and `libLLVM.so.19.1`); the same name anywhere; the same name
//! but for the suffix of a compiler's clone; the same name in the same family but for the
//! parameters of a C++ function. Functions without a name are only known by their place, which says
//! something as long as the module is the same build: it is, when nearly all functions at the same
//! place share code. Otherwise similar code decides: the pair that shares the largest part of its
//! hottest blocks' hashes, any part being enough for functions that follow the same named one. Of
//! those that then follow the same named one, the only one left in both versions is the same. Last
//! are those that nothing else calls, or is called by, in the same way ([`calls`]). What is left was
//! added or removed, or was not found.

mod calls;
mod names;

use std::collections::{BTreeMap, HashMap};

use mcad_report::{CpuReport, FunctionReport};

pub(super) use self::names::family;
use self::names::{without_clone_suffix, without_parameters};
use super::MatchedBy;

/// A function in one version or both.
pub(super) struct Pair<'r> {
    pub before: Option<&'r FunctionReport>,
    pub after: Option<&'r FunctionReport>,
    pub by: MatchedBy,
}

/// Least share of common blocks that makes code similar.
const SIMILAR: f64 = 0.5;

/// Tenths of the functions at the same place that share code in the same build of a module.
const SAME_BUILD: usize = 8;

/// What following the same named function adds to the similarity.
const NEAR: f64 = 0.5;

/// A hash that so many functions have says nothing and would make the search quadratic.
const TOO_COMMON: usize = 64;

/// Pairs all functions of two versions.
pub(super) fn pairs<'r>(from: &'r CpuReport, to: &'r CpuReport) -> Vec<Pair<'r>> {
    let (before, after) = (&from.functions, &to.functions);
    let mut m = Matching {
        before,
        after,
        partner: vec![None; before.len()],
        taken: vec![false; after.len()],
    };
    m.by_key(MatchedBy::Name, |name, module| (name, module.to_owned()));
    m.by_key(MatchedBy::Name, |name, module| (name, family(module)));
    m.by_key(MatchedBy::Name, |name, _| (name, String::new()));
    m.by_key(MatchedBy::Clone, |name, _| {
        (without_clone_suffix(&name).to_owned(), String::new())
    });
    m.by_key(MatchedBy::Overload, |name, module| {
        (without_parameters(&name).to_owned(), family(module))
    });
    m.by_place();
    m.by_code();
    m.by_neighbour();
    m.by_calls(from, to);
    m.finish()
}

struct Matching<'r> {
    before: &'r [FunctionReport],
    after: &'r [FunctionReport],
    partner: Vec<Option<(usize, MatchedBy)>>,
    taken: Vec<bool>,
}

/// A name to look for; functions without one have none. Code of a module outside all functions,
/// `[module]`, is found by the module's family.
fn name(f: &FunctionReport) -> Option<String> {
    if f.is_unnamed() {
        return None;
    }
    match f.name.strip_prefix('[').and_then(|n| n.strip_suffix(']')) {
        Some(module) if module == f.module => Some(format!("[{}]", family(module))),
        _ => Some(f.name.clone()),
    }
}

/// The named function before one without a name, as far as it is the same from version to version.
fn near(f: &FunctionReport) -> Option<(&str, String)> {
    let near = f.near.as_deref().filter(|_| f.is_unnamed())?;
    Some((without_parameters(near), family(&f.module)))
}

impl<'r> Matching<'r> {
    /// Pairs what has the same key, in the reports' order (most cycles first).
    fn by_key(&mut self, by: MatchedBy, key: impl Fn(String, &str) -> (String, String)) {
        let key = |f: &FunctionReport| name(f).map(|name| key(name, &f.module));
        let mut places: HashMap<(String, String), Vec<usize>> = HashMap::new();
        for (place, function) in self.after.iter().enumerate().rev() {
            if !self.taken[place]
                && let Some(key) = key(function)
            {
                places.entry(key).or_default().push(place);
            }
        }
        for (function, partner) in self.before.iter().zip(&mut self.partner) {
            if partner.is_none()
                && let Some(places) = key(function).and_then(|key| places.get_mut(&key))
                && let Some(place) = places.pop()
            {
                *partner = Some((place, by));
                self.taken[place] = true;
            }
        }
    }

    /// Pairs functions without names at the same place of modules that did not change.
    fn by_place(&mut self) {
        let unnamed = |f: &&FunctionReport| f.is_unnamed();
        let places: HashMap<(&str, &str), usize> = self
            .after
            .iter()
            .enumerate()
            .filter(|(_, f)| f.is_unnamed())
            .map(|(n, f)| ((f.name.as_str(), f.module.as_str()), n))
            .collect();
        let there = |f: &FunctionReport| places.get(&(f.name.as_str(), f.module.as_str())).copied();
        // By module: functions at the same place, and those of them that share code.
        let mut evidence: HashMap<&str, (usize, usize)> = HashMap::new();
        for f in self.before.iter().filter(unnamed) {
            if let Some(other) = there(f).and_then(|place| self.after.get(place)) {
                let (all, alike) = evidence.entry(&f.module).or_default();
                *all += 1;
                let shared = |hash| other.fingerprint.contains(hash);
                *alike += usize::from(f.fingerprint.iter().any(shared));
            }
        }
        for (f, partner) in self.before.iter().zip(&mut self.partner) {
            let unchanged = evidence
                .get(f.module.as_str())
                .is_some_and(|(all, alike)| alike * 10 >= all * SAME_BUILD);
            if unchanged
                && partner.is_none()
                && f.is_unnamed()
                && let Some(place) = there(f)
                && let Some(taken) = self.taken.get_mut(place).filter(|taken| !**taken)
            {
                *taken = true;
                *partner = Some((place, MatchedBy::Place));
            }
        }
    }

    fn by_code(&mut self) {
        let mut holders: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, function) in self.after.iter().enumerate() {
            if !self.taken[place] {
                for hash in &function.fingerprint {
                    holders.entry(hash).or_default().push(place);
                }
            }
        }
        let mut candidates = Vec::new();
        for (from, function) in self.before.iter().enumerate() {
            if self.partner[from].is_some() {
                continue;
            }
            let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
            for hash in &function.fingerprint {
                let places = holders.get(hash.as_str()).map_or(&[][..], Vec::as_slice);
                if places.len() <= TOO_COMMON {
                    for place in places {
                        *shared.entry(*place).or_default() += 1;
                    }
                }
            }
            let beside = near(function);
            for (to, shared) in shared {
                let all = function.fingerprint.len() + self.after[to].fingerprint.len() - shared;
                let mut similar = shared as f64 / all.max(1) as f64;
                if beside.is_some() && beside == near(&self.after[to]) {
                    similar += NEAR;
                }
                if similar >= SIMILAR {
                    let apart = function.cycles.abs_diff(self.after[to].cycles);
                    candidates.push((similar, shared, apart, from, to));
                }
            }
        }
        // The best first: most alike, then most in common, then nearest in cycles.
        candidates.sort_by(|a, b| {
            b.0.total_cmp(&a.0)
                .then(b.1.cmp(&a.1))
                .then((a.2, a.3, a.4).cmp(&(b.2, b.3, b.4)))
        });
        for (.., from, to) in candidates {
            if self.partner[from].is_none() && !self.taken[to] {
                self.partner[from] = Some((to, MatchedBy::Code));
                self.taken[to] = true;
            }
        }
    }

    /// Pairs what is the only one left after the same named function in both versions.
    fn by_neighbour(&mut self) {
        #[derive(Default)]
        struct Left {
            before: Vec<usize>,
            after: Vec<usize>,
        }
        let mut left: BTreeMap<(&str, String), Left> = BTreeMap::new();
        for (place, function) in self.before.iter().enumerate() {
            if self.partner[place].is_none()
                && let Some(near) = near(function)
            {
                left.entry(near).or_default().before.push(place);
            }
        }
        for (place, function) in self.after.iter().enumerate() {
            if !self.taken[place]
                && let Some(near) = near(function)
            {
                left.entry(near).or_default().after.push(place);
            }
        }
        for left in left.values() {
            if let ([from], [to]) = (left.before.as_slice(), left.after.as_slice()) {
                self.partner[*from] = Some((*to, MatchedBy::Neighbour));
                self.taken[*to] = true;
            }
        }
    }

    fn by_calls(&mut self, from: &CpuReport, to: &CpuReport) {
        let edges = [calls::edges(from), calls::edges(to)];
        let (before, after, taken) = (self.before, self.after, &self.taken);
        let unnamed = |list: &[FunctionReport], place: usize| {
            list.get(place).is_some_and(FunctionReport::is_unnamed)
        };
        let mut partner: Vec<Option<usize>> = self
            .partner
            .iter()
            .map(|partner| partner.map(|(place, _)| place))
            .collect();
        let alike = |from: usize, to: usize| {
            let (from, to) = (&before[from].fingerprint, &after[to].fingerprint);
            let shared = from.iter().filter(|hash| to.contains(hash)).count();
            shared as f64 / (from.len() + to.len() - shared).max(1) as f64
        };
        let found = calls::pairs(
            [&edges[0], &edges[1]],
            &mut partner,
            [&|place| unnamed(before, place), &|place| {
                unnamed(after, place) && taken.get(place) == Some(&false)
            }],
            alike,
            SIMILAR,
        );
        for (from, to) in found {
            self.partner[from] = Some((to, MatchedBy::Calls));
            self.taken[to] = true;
        }
    }

    fn finish(self) -> Vec<Pair<'r>> {
        let added = self
            .after
            .iter()
            .zip(&self.taken)
            .filter(|(_, taken)| !**taken)
            .map(|(after, _)| Pair {
                before: None,
                after: Some(after),
                by: MatchedBy::Nothing,
            });
        self.before
            .iter()
            .zip(&self.partner)
            .map(|(before, partner)| Pair {
                before: Some(before),
                after: partner.and_then(|(place, _)| self.after.get(place)),
                by: partner.map_or(MatchedBy::Nothing, |(_, by)| by),
            })
            .chain(added)
            .collect()
    }
}
