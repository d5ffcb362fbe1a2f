//! Parts of lists.

use std::ops::Range;

/// Part of a list of which an invariant says that it is there. Where that is broken there is none,
/// and builds with debug assertions, as those for tests, stop.
#[inline]
#[must_use]
pub fn part<T>(all: &[T], range: Range<usize>) -> &[T] {
    debug_assert!(range.start <= range.end && range.end <= all.len());
    all.get(range).unwrap_or(&[])
}
