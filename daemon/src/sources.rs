//! Text of the source lines that a report names, read from the files where the analysis was asked
//! for.
//!
//! The paths come from debug information. So this is only for the one who runs a command, with
//! files that he can read himself: neither may a daemon read files for its peers, nor a client those
//! that a daemon names. Only regular files
//! are opened; one that is missing, or is not as it was at compile time, costs its text.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use mcad_report::{Report, SourceFile};

use crate::files::open_regular;

/// Hottest lines of each CPU that get their text, besides those of the listed blocks.
const LINES: usize = 200;

/// Lines shown before and after each.
const AROUND: u32 = 2;

/// Longest file that is read.
const MAX_BYTES: u64 = 16 << 20;

/// Most characters of a line.
const MAX_CHARS: usize = 200;

/// Most files.
const MAX_FILES: usize = 500;

/// Adds the text of the lines that the report names.
pub fn attach(report: &mut Report) {
    let wanted = wanted(report);
    let sources = wanted.into_iter().take(MAX_FILES);
    let read = sources.filter_map(|(path, numbers)| read(path, &numbers));
    report.run.sources = read.collect();
}

/// Numbers of lines by file.
fn wanted(report: &Report) -> BTreeMap<&str, BTreeSet<u32>> {
    let mut wanted: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for cpu in &report.cpus {
        let hottest = cpu.lines.iter().take(LINES).map(|line| line.line.as_str());
        let listings = cpu.blocks.iter().flat_map(|block| &block.listing);
        let listed = listings.filter_map(|instruction| instruction.line.as_deref());
        for line in hottest.chain(listed) {
            if let Some((path, number)) = line.rsplit_once(':')
                && let Ok(number) = number.parse::<u32>()
            {
                let around = number.saturating_sub(AROUND)..=number.saturating_add(AROUND);
                wanted.entry(path).or_default().extend(around);
            }
        }
    }
    wanted
}

fn read(path: &str, numbers: &BTreeSet<u32>) -> Option<SourceFile> {
    // A relative path would be taken from wherever this runs.
    if !Path::new(path).is_absolute() {
        return None;
    }
    let mut file = BufReader::new(open_regular(path.as_ref()).ok()?.take(MAX_BYTES));
    let last = *numbers.last()?;
    let mut lines = BTreeMap::new();
    let mut bytes = Vec::new();
    for number in 1..=last {
        bytes.clear();
        if file.read_until(b'\n', &mut bytes).ok()? == 0 {
            break;
        }
        if numbers.contains(&number) {
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim_end().replace('\t', "    ");
            lines.insert(number, text.chars().take(MAX_CHARS).collect());
        }
    }
    let path = path.to_owned();
    (!lines.is_empty()).then_some(SourceFile { path, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_with_their_neighbours_and_other_files_do_not_come() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.c");
        std::fs::write(&file, b"one\n\ttwo  \nthree\nfour\nfive\xff\nsix\n").unwrap();
        let path = file.to_str().unwrap();
        let numbers = |numbers: &[u32]| numbers.iter().copied().collect::<BTreeSet<_>>();
        let read_back = read(path, &numbers(&[2, 3, 100])).unwrap();
        let lines: Vec<(u32, &str)> = read_back
            .lines
            .iter()
            .map(|(number, text)| (*number, text.as_str()))
            .collect();
        assert_eq!(lines, [(2, "    two"), (3, "three")]);
        let none = numbers(&[1]);
        assert_eq!(read("a.c", &none), None);
        assert_eq!(read(directory.path().to_str().unwrap(), &none), None);
        assert_eq!(read("/dev/zero", &none), None);
        assert_eq!(read(path, &numbers(&[100])), None);
    }
}
