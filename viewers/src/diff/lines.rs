//! Source lines across two versions.
//!
//! A file is the same in both if its path is, or else the one whose path ends alike, as that of
//! another checkout does. A line is the same if its text is, in the order of the file, so that what
//! was inserted above does not matter; between such lines, as many lines in one version as in the
//! other are the same ones, changed. Where a report has not the text, the distance to the last line
//! that has decides, or the number.
//!
//! A report lists its hottest lines. A line that only one version lists may just have dropped off
//! the other's full list, so it counts only with more cycles than the least of that list: had it
//! kept them, it would be there.

use std::collections::{BTreeMap, BTreeSet};

use mcad_report::{CpuReport, LINES, LineReport, SourceFile};

use super::{Delta, LineDelta};

/// Most lines of a file that are aligned by their text; the work grows with the square.
const ALIGNED: usize = 2000;

/// One version's lines on one CPU, and the texts of its files.
#[derive(Clone, Copy)]
pub(super) struct Version<'r> {
    pub cpu: &'r CpuReport,
    pub sources: &'r [SourceFile],
}

/// The lines of one file by number.
type File<'r> = BTreeMap<u32, &'r LineReport>;

/// Lines whose cycles changed, largest change first.
pub(super) fn deltas(before: Version<'_>, after: Version<'_>) -> Vec<LineDelta> {
    let (old, new) = (files(before.cpu), files(after.cpu));
    let pairs = pair_files(&old, &new);
    let mut deltas = Vec::new();
    let none = File::new();
    for (from, to) in pairs {
        let (a, b) = (
            from.and_then(|path| old.get(path)).unwrap_or(&none),
            to.and_then(|path| new.get(path)).unwrap_or(&none),
        );
        let same = match (
            text(before.sources, from.unwrap_or("")),
            text(after.sources, to.unwrap_or("")),
        ) {
            (Some(x), Some(y)) => {
                let mut same = align(x, y);
                // Of cold lines there is no text: they lie as the last one before that has.
                for number in a.keys().filter(|number| !x.contains_key(number)) {
                    let shifted = same.range(..number).next_back();
                    let shifted = shifted.map(|(from, to)| to.saturating_add(number - from));
                    let shifted = shifted.filter(|to| !y.contains_key(to));
                    same.extend(shifted.map(|to| (*number, to)));
                }
                same
            }
            _ => a.keys().map(|number| (*number, *number)).collect(),
        };
        let mut found: BTreeSet<u32> = BTreeSet::new();
        for (number, line) in a {
            let later = same.get(number).and_then(|number| b.get(number));
            found.extend(later.and(same.get(number)));
            deltas.push(delta(Some(line), later.copied()));
        }
        let rest = b.iter().filter(|(number, _)| !found.contains(number));
        deltas.extend(rest.map(|(_, line)| delta(None, Some(line))));
    }
    deltas.retain(|delta| {
        delta.cycles.changed()
            && match (delta.cycles.before, delta.cycles.after) {
                (0, cycles) => cycles > least(before.cpu),
                (cycles, 0) => cycles > least(after.cpu),
                _ => true,
            }
    });
    deltas.sort_by(|a, b| {
        let size = |line: &LineDelta| line.cycles.delta.abs();
        size(b).cmp(&size(a)).then_with(|| a.line.cmp(&b.line))
    });
    deltas
}

fn delta(before: Option<&LineReport>, after: Option<&LineReport>) -> LineDelta {
    let cycles = |line: Option<&LineReport>| line.map_or(0, |line| line.cycles);
    let (now, then) = (after.or(before), before.filter(|_| after.is_some()));
    let text =
        |of: fn(&LineReport) -> &String| now.map_or_else(String::new, |line| of(line).clone());
    let line = text(|line| &line.line);
    LineDelta {
        previous_line: then
            .map(|then| then.line.clone())
            .filter(|then| *then != line),
        line,
        function: text(|line| &line.function),
        cycles: Delta::new(cycles(before), cycles(after)),
    }
}

/// Fewest cycles of a line that a full list has; anything is listed where it is not full.
fn least(cpu: &CpuReport) -> u64 {
    match cpu.lines.last() {
        Some(last) if cpu.lines.len() >= LINES => last.cycles,
        _ => 0,
    }
}

/// A report's lines by file and number.
fn files(cpu: &CpuReport) -> BTreeMap<&str, File<'_>> {
    let mut files: BTreeMap<&str, File<'_>> = BTreeMap::new();
    for line in &cpu.lines {
        // `file:line`; what has no number is a file of one line.
        let (path, number) = match line.line.rsplit_once(':') {
            Some((path, number)) => (path, number.parse().unwrap_or(0)),
            None => (line.line.as_str(), 0),
        };
        files.entry(path).or_default().insert(number, line);
    }
    files
}

/// Pairs the files of two versions, each once.
fn pair_files<'r>(
    old: &BTreeMap<&'r str, File<'r>>,
    new: &BTreeMap<&'r str, File<'r>>,
) -> Vec<(Option<&'r str>, Option<&'r str>)> {
    let mut pairs = Vec::new();
    let mut left: BTreeSet<&str> = new.keys().copied().collect();
    let mut unpaired: Vec<&str> = Vec::new();
    for path in old.keys() {
        if left.remove(path) {
            pairs.push((Some(*path), Some(*path)));
        } else {
            unpaired.push(path);
        }
    }
    let mut candidates: Vec<(usize, &str, &str)> = Vec::new();
    for from in &unpaired {
        let alike = left.iter().map(|to| (common_end(from, to), *from, *to));
        candidates.extend(alike.filter(|(common, ..)| *common > 0));
    }
    // The longest common end first.
    candidates.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
    for (_, from, to) in candidates {
        if left.contains(to)
            && let Some(place) = unpaired.iter().position(|path| *path == from)
        {
            unpaired.swap_remove(place);
            left.remove(to);
            pairs.push((Some(from), Some(to)));
        }
    }
    pairs.extend(unpaired.into_iter().map(|path| (Some(path), None)));
    pairs.extend(left.into_iter().map(|path| (None, Some(path))));
    pairs
}

/// How many last parts of two paths are equal.
fn common_end(a: &str, b: &str) -> usize {
    a.rsplit('/')
        .zip(b.rsplit('/'))
        .take_while(|(a, b)| a == b)
        .count()
}

/// The text of a file, if the report has some of it.
fn text<'r>(sources: &'r [SourceFile], path: &str) -> Option<&'r BTreeMap<u32, String>> {
    let file = sources.iter().find(|file| file.path == path)?;
    (!file.lines.is_empty() && file.lines.len() <= ALIGNED).then_some(&file.lines)
}

/// Which line of one text is which of another, by number: a longest common subsequence of their
/// lines without indentation, and what is between its members where it is as long in both.
fn align(a: &BTreeMap<u32, String>, b: &BTreeMap<u32, String>) -> BTreeMap<u32, u32> {
    let lines = |text: &BTreeMap<u32, String>| -> Vec<(u32, String)> {
        let trimmed = text.iter().map(|(n, line)| (*n, line.trim().to_owned()));
        trimmed.collect()
    };
    let (a, b) = (lines(a), lines(b));
    // Length of the longest common subsequence of what follows, for each pair of places.
    let width = b.len() + 1;
    let mut longest = vec![0_u16; (a.len() + 1) * width];
    for (i, (_, x)) in a.iter().enumerate().rev() {
        for (j, (_, y)) in b.iter().enumerate().rev() {
            longest[i * width + j] = if x == y {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let mut same = BTreeMap::new();
    let (mut i, mut j, mut gap) = (0, 0, (0, 0));
    let between = |from: (usize, usize), to: (usize, usize), same: &mut BTreeMap<u32, u32>| {
        if to.0 - from.0 == to.1 - from.1 {
            let (x, y) = (&a[from.0..to.0], &b[from.1..to.1]);
            same.extend(x.iter().zip(y).map(|(x, y)| (x.0, y.0)));
        }
    };
    while i < a.len() && j < b.len() {
        if a[i].1 == b[j].1 {
            between(gap, (i, j), &mut same);
            same.insert(a[i].0, b[j].0);
            (i, j) = (i + 1, j + 1);
            gap = (i, j);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    between(gap, (a.len(), b.len()), &mut same);
    same
}
