//! Which file is mapped at an address. Later mappings replace earlier ones where they overlap, as
//! `mmap` does.

use std::collections::BTreeMap;
use std::rc::Rc;

/// A mapped part of a file; addresses are the guest's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    /// Path on the traced machine.
    pub path: Rc<str>,
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Offset in the file of `start`.
    pub file_offset: u64,
}

/// Mappings that do not overlap, by start.
#[derive(Clone, Debug, Default)]
pub(super) struct ModuleMap {
    by_start: BTreeMap<u64, Mapping>,
}

impl ModuleMap {
    /// The mapping that holds an address.
    pub(super) fn get(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.by_start.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }

    /// Whether something is mapped where `new` would be.
    pub(super) fn overlaps(&self, new: &Mapping) -> bool {
        let before = self.by_start.range(..new.end).next_back();
        before.is_some_and(|(_, old)| old.end > new.start)
    }

    /// Adds a mapping; an empty one changes nothing.
    pub(super) fn insert(&mut self, new: Mapping) {
        if new.start >= new.end {
            return;
        }
        // The one before may reach into the new one, and beyond its end.
        let before = self.by_start.range(..new.start).next_back();
        if let Some(before) = before.map(|(_, before)| before.clone())
            && before.end > new.start
        {
            self.keep_tail(&before, new.end);
            let head = Mapping {
                end: new.start,
                ..before
            };
            self.by_start.insert(head.start, head);
        }
        let covered: Vec<u64> = self
            .by_start
            .range(new.start..new.end)
            .map(|(start, _)| *start)
            .collect();
        for start in covered {
            if let Some(old) = self.by_start.remove(&start) {
                self.keep_tail(&old, new.end);
            }
        }
        self.by_start.insert(new.start, new);
    }

    fn keep_tail(&mut self, old: &Mapping, from: u64) {
        if old.end > from {
            let tail = Mapping {
                path: Rc::clone(&old.path),
                start: from,
                end: old.end,
                file_offset: old.file_offset.wrapping_add(from - old.start),
            };
            self.by_start.insert(from, tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(path: &str, start: u64, end: u64) -> Mapping {
        Mapping {
            path: path.into(),
            start,
            end,
            file_offset: start,
        }
    }

    fn at(map: &ModuleMap, address: u64) -> Option<(&str, u64)> {
        let mapping = map.get(address)?;
        let offset = mapping.file_offset + (address - mapping.start);
        Some((&*mapping.path, offset))
    }

    #[test]
    fn later_mappings_win_and_the_rest_stays() {
        let mut map = ModuleMap::default();
        map.insert(mapping("a", 0x1000, 0x5000));
        for (start, end, expected) in [
            (0, 0x1000, false),
            (0, 0x1001, true),
            (0x2000, 0x3000, true),
            (0x4fff, 0x9000, true),
            (0x5000, 0x9000, false),
        ] {
            assert_eq!(map.overlaps(&mapping("x", start, end)), expected);
        }
        map.insert(mapping("b", 0x2000, 0x3000));
        map.insert(mapping("empty", 0x1000, 0x1000));
        // File offsets equal addresses here, so a wrong split shows.
        for (address, expected) in [
            (0xfff, None),
            (0x1000, Some("a")),
            (0x2000, Some("b")),
            (0x2fff, Some("b")),
            (0x3000, Some("a")),
            (0x4fff, Some("a")),
            (0x5000, None),
        ] {
            assert_eq!(at(&map, address), expected.map(|path| (path, address)));
        }
        map.insert(mapping("c", 0x800, 0x2800));
        assert_eq!(at(&map, 0x27ff), Some(("c", 0x27ff)));
        assert_eq!(at(&map, 0x2800), Some(("b", 0x2800)));
        map.insert(mapping("d", 0, u64::MAX));
        assert_eq!(map.by_start.len(), 1);
    }
}
