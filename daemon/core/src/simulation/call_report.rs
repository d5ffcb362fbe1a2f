//! Paths of calls by function, for the report.

use std::collections::BTreeMap;

use mcad_proto::word::BlockId;
use mcad_report::{CallReport, with_callees};

use super::calls::Calls;

/// Most paths that a report lists.
const PATHS: usize = 4000;
/// Paths that, with what they call, have less than this part of all cycles count for their caller.
const LEAST: u64 = 20_000;

/// A path by names: its caller's place, function, module.
type Key = (Option<usize>, String, String);

/// Paths to the same function from the same caller are one: which block of a function was entered
/// first does not matter to people. `name` gives a block's function and module.
pub(super) fn report<'a>(
    calls: &Calls,
    name: impl Fn(BlockId) -> Option<(&'a str, &'a str)>,
) -> Vec<CallReport> {
    let mut places: BTreeMap<Key, usize> = BTreeMap::new();
    let mut merged: Vec<CallReport> = Vec::new();
    // Where each path went; callers come before what they call. The root is none.
    let mut went: Vec<Option<usize>> = Vec::with_capacity(calls.paths().len());
    for (n, path) in calls.paths().iter().enumerate() {
        if n == 0 {
            went.push(None);
            continue;
        }
        let caller = went.get(path.caller as usize).copied().flatten();
        let (function, module) = name(path.entry).unwrap_or(("[unknown]", ""));
        let key = (caller, function.to_owned(), module.to_owned());
        let next = merged.len();
        let place = *places.entry(key).or_insert(next);
        if place == next {
            merged.push(CallReport {
                caller: caller.map(|caller| caller as u32),
                function: function.to_owned(),
                module: module.to_owned(),
                cycles: 0,
            });
        }
        merged[place].cycles += path.cycles;
        went.push(Some(place));
    }
    in_order(&prune(merged))
}

/// Gives what small paths have to their callers.
fn prune(mut calls: Vec<CallReport>) -> Vec<CallReport> {
    let totals = with_callees(&calls);
    let all: u64 = calls.iter().map(|call| call.cycles).sum();
    let mut largest = totals.clone();
    largest.sort_unstable_by(|a, b| b.cmp(a));
    let least = largest.get(PATHS).map_or(0, |total| total + 1);
    let least = least.max(all / LEAST).max(1);
    for n in (0..calls.len()).rev() {
        // What is called is no larger than its caller, so that what is left has its callers.
        if totals[n] < least
            && let Some(caller) = calls[n].caller
        {
            let cycles = std::mem::take(&mut calls[n].cycles);
            calls[caller as usize].cycles += cycles;
        }
    }
    let mut places = vec![None; calls.len()];
    let mut kept = Vec::new();
    for (n, call) in calls.into_iter().enumerate() {
        let caller = call.caller.map(|caller| places[caller as usize]);
        if totals[n] < least && call.caller.is_some() {
            continue;
        }
        places[n] = Some(kept.len() as u32);
        kept.push(CallReport {
            caller: caller.flatten(),
            ..call
        });
    }
    kept
}

/// Depth first, largest first: the order does not depend on which thread or process was quicker.
fn in_order(calls: &[CallReport]) -> Vec<CallReport> {
    let totals = with_callees(calls);
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); calls.len()];
    let mut roots = Vec::new();
    for (n, call) in calls.iter().enumerate() {
        match call.caller {
            Some(caller) => below[caller as usize].push(n),
            None => roots.push(n),
        }
    }
    let key = |n: &usize| {
        let call = &calls[*n];
        (
            totals[*n],
            std::cmp::Reverse((&call.function, &call.module)),
        )
    };
    // Taken from the end.
    let mut to_do: Vec<(usize, Option<u32>)> = Vec::new();
    roots.sort_by(|a, b| key(a).cmp(&key(b)));
    to_do.extend(roots.into_iter().map(|root| (root, None)));
    let mut ordered = Vec::new();
    while let Some((n, caller)) = to_do.pop() {
        let place = ordered.len() as u32;
        ordered.push(CallReport {
            caller,
            ..calls[n].clone()
        });
        let mut callees = std::mem::take(&mut below[n]);
        callees.sort_by(|a, b| key(a).cmp(&key(b)));
        to_do.extend(callees.into_iter().map(|callee| (callee, Some(place))));
    }
    ordered
}
