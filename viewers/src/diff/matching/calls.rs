//! Finds functions without names by who calls them and what they call.
//!
//! An edge says as much as what is at its other end is known in both versions, so what is found
//! tells of its neighbours in the next round. Of two versions of a function the edges to known
//! functions are mostly the same; a pair counts if nothing else is as like, for either.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mcad_report::CpuReport;

/// Rounds: paths of calls are seldom longer between known functions.
const ROUNDS: usize = 16;

/// An edge: whether it is to what the function calls, and the other end's place in the list.
type Edge = (bool, usize);

/// Edges of each function, in the report's order.
pub(super) fn edges(cpu: &CpuReport) -> Vec<BTreeSet<Edge>> {
    let places: HashMap<(&str, &str), usize> = cpu
        .functions
        .iter()
        .enumerate()
        .map(|(n, f)| ((f.name.as_str(), f.module.as_str()), n))
        .collect();
    let mut edges = vec![BTreeSet::new(); cpu.functions.len()];
    for call in &cpu.calls {
        let caller = call
            .caller
            .and_then(|caller| cpu.calls.get(caller as usize));
        let Some(caller) = caller else { continue };
        let ends = [call, caller].map(|end| {
            places
                .get(&(end.function.as_str(), end.module.as_str()))
                .copied()
        });
        if let [Some(callee), Some(caller)] = ends {
            edges[callee].insert((false, caller));
            edges[caller].insert((true, callee));
        }
    }
    edges
}

/// Pairs of places that are each other's best, by edges to what has a partner; `alike` says how
/// alike two functions' code is, 0 to 1. `open` says which places look for a partner.
pub(super) fn pairs(
    edges: [&[BTreeSet<Edge>]; 2],
    partner: &mut [Option<usize>],
    open: [&dyn Fn(usize) -> bool; 2],
    alike: impl Fn(usize, usize) -> f64,
    least: f64,
) -> Vec<(usize, usize)> {
    let [before, after] = edges;
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        let taken: BTreeSet<usize> = partner.iter().flatten().copied().collect();
        let known = |place: usize| -> Vec<Edge> {
            let edges = after.get(place).into_iter().flatten();
            edges
                .filter(|(_, end)| taken.contains(end))
                .copied()
                .collect()
        };
        let mut holders: BTreeMap<Edge, Vec<usize>> = BTreeMap::new();
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        for place in (0..after.len()).filter(|place| !taken.contains(place) && open[1](*place)) {
            let known = known(place);
            sizes.insert(place, known.len());
            for edge in known {
                holders.entry(edge).or_default().push(place);
            }
        }
        let mut candidates = Vec::new();
        for from in (0..before.len()).filter(|from| partner[*from].is_none() && open[0](*from)) {
            let wanted: BTreeSet<Edge> = before[from]
                .iter()
                .filter_map(|(calls, end)| Some((*calls, (*partner.get(*end)?)?)))
                .collect();
            let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
            for edge in &wanted {
                for place in holders.get(edge).into_iter().flatten() {
                    *shared.entry(*place).or_default() += 1;
                }
            }
            for (to, shared) in shared {
                let all = wanted.len() + sizes.get(&to).copied().unwrap_or(0) - shared;
                let like = shared as f64 / all.max(1) as f64;
                if like >= least {
                    candidates.push((like + alike(from, to), from, to));
                }
            }
        }
        // What another is as like to, as either is to the other, is not told apart.
        let mut best: [BTreeMap<usize, (f64, usize)>; 2] = Default::default();
        for (like, from, to) in &candidates {
            for (best, end) in best.iter_mut().zip([from, to]) {
                let (most, times) = best.entry(*end).or_insert((*like, 0));
                match like.total_cmp(most) {
                    std::cmp::Ordering::Greater => (*most, *times) = (*like, 1),
                    std::cmp::Ordering::Equal => *times += 1,
                    std::cmp::Ordering::Less => {}
                }
            }
        }
        let before_round = found.len();
        for (like, from, to) in candidates {
            let only = |best: &BTreeMap<usize, (f64, usize)>, end: usize| {
                best.get(&end)
                    .is_some_and(|(most, times)| *times == 1 && *most <= like)
            };
            if only(&best[0], from) && only(&best[1], to) {
                partner[from] = Some(to);
                found.push((from, to));
            }
        }
        if found.len() == before_round {
            break;
        }
    }
    found
}
