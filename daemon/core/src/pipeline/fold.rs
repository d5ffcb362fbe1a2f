//! Folding of cores that do not work: of their large tables only what differs from an empty one is
//! kept, so that thousands of threads that live at once take the memory of what they have done.
//!
//! A part that has tables shows them to a [`Folding`] ([`super::state::Part::fold`]), which takes
//! what is in them and leaves them without memory, or, in the same order, puts it back. What comes
//! back is what was there, but for entries that nobody can ask for any more: no result depends on
//! whether a core was folded. A folded core must not work.

use std::any::Any;
use std::{mem, vec};

/// Entries that differ from an empty table's, and where they are.
struct Sparse<T> {
    len: usize,
    /// Where some of [`CHUNK`] entries differ: which, and one bit for each.
    differ: Box<[(u32, u32)]>,
    entries: Box<[T]>,
}

/// Most entries that differ lie alone, in caches and predictors: their places are most of what is kept.
const CHUNK: usize = u32::BITS as usize;

impl<T: Copy + PartialEq> Sparse<T> {
    /// What is in a table, which is empty from then on: `fill` gives its entries by place.
    fn take(table: &mut [T], fill: impl Fn(usize) -> T) -> Self {
        let (mut differ, mut entries) = (Vec::new(), Vec::new());
        for (n, chunk) in table.chunks_mut(CHUNK).enumerate() {
            let differs =
                |(place, entry): (usize, &T)| u32::from(*entry != fill(n * CHUNK + place)) << place;
            let bits = (chunk.iter().enumerate()).fold(0, |bits, entry| bits | differs(entry));
            if bits != 0 {
                differ.push((n as u32, bits));
                each(bits, chunk, |place, entry| {
                    entries.push(mem::replace(entry, fill(n * CHUNK + place)));
                });
            }
        }
        Self {
            len: table.len(),
            differ: differ.into(),
            entries: entries.into(),
        }
    }

    /// The table, in `empty` if that is one like it.
    fn table(&self, empty: Option<Box<[T]>>, fill: impl Fn(usize) -> T) -> Box<[T]> {
        let alike = empty.filter(|empty| empty.len() == self.len);
        let mut table = alike.unwrap_or_else(|| (0..self.len).map(fill).collect());
        let mut entries = self.entries.iter();
        for &(n, bits) in &self.differ {
            let chunk = table.chunks_mut(CHUNK).nth(n as usize);
            each(bits, chunk.unwrap_or_default(), |_, to| {
                if let Some(from) = entries.next() {
                    *to = *from;
                }
            });
        }
        table
    }
}

/// Calls `f` with the entries whose bits are set, in order.
fn each<T>(mut bits: u32, chunk: &mut [T], mut f: impl FnMut(usize, &mut T)) {
    while bits != 0 {
        let place = bits.trailing_zeros() as usize;
        if let Some(entry) = chunk.get_mut(place) {
            f(place, entry);
        }
        bits &= bits - 1;
    }
}

type Kept = Box<dyn Any + Send>;

/// What was in the tables of one core.
pub struct Folded(Vec<Kept>);

/// The tables, empty. Who folds and unfolds in turns hands them on, so that memory is not torn to
/// pieces by what is kept.
#[derive(Default)]
pub struct Empty(Vec<Kept>);

/// Takes what is in tables, or puts it back.
pub struct Folding(State);

enum State {
    Folds(Vec<Kept>, Vec<Kept>),
    Unfolds(vec::IntoIter<Kept>, vec::IntoIter<Kept>),
}

impl Folding {
    /// Takes what is in the tables that it is shown, and the tables.
    #[must_use]
    pub fn fold() -> Self {
        Self(State::Folds(Vec::new(), Vec::new()))
    }

    /// Puts it back.
    #[must_use]
    pub fn unfold(folded: Folded, empty: Empty) -> Self {
        Self(State::Unfolds(folded.0.into_iter(), empty.0.into_iter()))
    }

    /// What was taken.
    #[must_use]
    pub fn folded(self) -> (Folded, Empty) {
        match self.0 {
            State::Folds(kept, empty) => (Folded(kept), Empty(empty)),
            State::Unfolds(kept, empty) => (Folded(kept.collect()), Empty(empty.collect())),
        }
    }

    /// `take` gives what is kept and what others may use; `put` gets it back, with what somebody
    /// else has left, if anybody has.
    pub fn any<T, F: Send + 'static, E: Send + 'static>(
        &mut self,
        of: &mut T,
        take: impl FnOnce(&mut T) -> (F, E),
        put: impl FnOnce(&mut T, F, Option<E>),
    ) {
        match &mut self.0 {
            State::Folds(all, tables) => {
                let (kept, empty) = take(of);
                all.push(Box::new(kept));
                tables.push(Box::new(empty));
            }
            State::Unfolds(all, tables) => {
                let kept = all.next().and_then(|kept| kept.downcast().ok());
                let empty = tables.next().and_then(|empty| empty.downcast().ok());
                debug_assert!(kept.is_some(), "parts show the same tables each time");
                if let Some(kept) = kept {
                    put(of, *kept, empty.map(|empty| *empty));
                }
            }
        }
    }

    /// A table in most of whose places `fill` is.
    pub fn table<T: Copy + PartialEq + Send + 'static>(&mut self, table: &mut Box<[T]>, fill: T) {
        self.table_by(table, |_| fill);
    }

    /// The same of a table that may not have been needed yet.
    pub fn list<T: Copy + PartialEq + Send + 'static>(&mut self, list: &mut Vec<T>, fill: T) {
        let mut table = mem::take(list).into_boxed_slice();
        self.table(&mut table, fill);
        *list = table.into();
    }

    /// A table most of whose entries are what `fill` gives for their place.
    pub fn table_by<T: Copy + PartialEq + Send + 'static>(
        &mut self,
        table: &mut Box<[T]>,
        fill: impl Fn(usize) -> T,
    ) {
        let take = |table: &mut Box<[T]>| {
            let kept = Sparse::take(table, &fill);
            (kept, mem::take(table))
        };
        self.any(table, take, |table, kept: Sparse<T>, empty| {
            *table = kept.table(empty, &fill);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_come_back_as_they_were() {
        for len in [0usize, 1, 63, 64, 65, 1000] {
            for (every, reused) in [(1, true), (2, false), (7, true), (2000, false)] {
                let entry = |n: usize| if n.is_multiple_of(every) { n as u32 } else { 5 };
                let before: Box<[u32]> = (0..len).map(entry).collect();
                let (mut one, mut other) = (before.clone(), before.clone());
                let mut folding = Folding::fold();
                folding.table(&mut one, 5);
                folding.table(&mut other, 0);
                assert!(one.is_empty() && other.is_empty());
                let (folded, empty) = folding.folded();
                let empty = if reused { empty } else { Empty::default() };
                let mut folding = Folding::unfold(folded, empty);
                folding.table(&mut one, 5);
                folding.table(&mut other, 0);
                assert_eq!(one, before);
                assert_eq!(other, before);
            }
        }
    }
}
