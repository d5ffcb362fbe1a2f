//! Mapped files, by when the program is known to have them.
//!
//! A file is announced when the emulator first translates code of it, some time before that code
//! runs: how long before depends on when the stream was read. The first execution of its code has
//! a place in program order. From there on its pages count as a file's, so that the result does
//! not depend on how the stream was cut.

use std::collections::VecDeque;
use std::ops::Range;

/// Most files that wait; each is looked at when a block executes for the first time.
const MOST: usize = 256;

/// Files whose code has not run.
#[derive(Debug, Default)]
pub(super) struct Announced {
    waiting: VecDeque<Range<u64>>,
}

impl Announced {
    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A file is mapped at these addresses. If too many wait, the one that waited longest is given
    /// back.
    pub(super) fn announce(&mut self, addresses: Range<u64>) -> Option<Range<u64>> {
        if !self.waiting.contains(&addresses) {
            self.waiting.push_back(addresses);
        }
        match self.waiting.len() > MOST {
            true => self.waiting.pop_front(),
            false => None,
        }
    }

    /// Code at `address` executes for the first time: a file that waited for that.
    pub(super) fn entered(&mut self, address: u64) -> Option<Range<u64>> {
        let has = |file: &Range<u64>| file.contains(&address);
        self.waiting
            .iter()
            .position(has)
            .and_then(|at| self.waiting.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_entered_once() {
        let mut files = Announced::default();
        assert_eq!(files.announce(0x1000..0x3000), None);
        assert_eq!(files.announce(0x1000..0x3000), None);
        assert_eq!(files.entered(0x3000), None);
        assert_eq!(files.entered(0x2fff), Some(0x1000..0x3000));
        assert_eq!(files.entered(0x2fff), None);
    }

    #[test]
    fn too_many_are_given_back_in_order() {
        let mut files = Announced::default();
        let file = |n: u64| n << 12..(n + 1) << 12;
        for n in 0..MOST as u64 {
            assert_eq!(files.announce(file(n)), None);
        }
        assert_eq!(files.announce(file(9999)), Some(file(0)));
        assert_eq!(files.entered(0), None);
        assert_eq!(files.entered(1 << 12), Some(file(1)));
    }
}
