//! Mapped files as a report lists them: each at each of its places once.
//!
//! Every process maps its libraries anew, mostly where others have them, and a just-in-time compiler
//! its memory wherever it likes.

use std::ops::Range;

use mcad_report::Module;
use rustc_hash::FxHashMap;

/// Most that are listed.
const LISTED: usize = 4096;

/// Mapped files.
#[derive(Debug, Default)]
pub(super) struct Modules {
    /// Each with its number, in the order of the stream.
    listed: FxHashMap<(String, Range<u64>), usize>,
    left_out: u64,
}

impl Modules {
    /// A file is mapped.
    pub(super) fn map(&mut self, path: &str, addresses: Range<u64>) {
        let next = self.listed.len();
        let module = (path.to_owned(), addresses);
        if next < LISTED {
            self.listed.entry(module).or_insert(next);
        } else if !self.listed.contains_key(&module) {
            self.left_out += 1;
        }
    }

    /// What the report should say about those that are not listed.
    pub(super) fn note(&self) -> Option<String> {
        (self.left_out > 0).then(|| {
            format!(
                "the first {LISTED} mapped files are listed; {} mappings of others came later",
                self.left_out
            )
        })
    }

    /// Those that are.
    pub(super) fn list(self) -> Vec<Module> {
        let mut listed: Vec<_> = self.listed.into_iter().collect();
        listed.sort_unstable_by_key(|(_, number)| *number);
        let module = |((path, addresses), _): ((_, Range<u64>), _)| Module {
            path,
            start: format!("{:#x}", addresses.start),
            end: format!("{:#x}", addresses.end),
        };
        listed.into_iter().map(module).collect()
    }
}
