//! A queue whose entries keep their numbers, and lie in one piece.

use super::fold::Folding;
use crate::lists::part;

/// Consecutive entries, numbered from the first one ever.
pub struct Window<T> {
    /// Those that are there, behind some that are gone.
    items: Vec<T>,
    /// Number of the first of these.
    base: u64,
    /// Number of the first entry that is there.
    head: u64,
}

/// The last `count` entries of a ring before number `end`, oldest first: what lies at the ring's
/// end, and what lies at its start. The ring's length is a power of two, and `count` at most that.
#[inline]
#[must_use]
pub fn last<T>(ring: &[T], end: u64, count: usize) -> (&[T], &[T]) {
    let place = end as usize & ring.len().wrapping_sub(1);
    let (start, rest) = ring.split_at(place);
    let (older, younger) = (count.saturating_sub(place), count.min(place));
    (
        part(rest, rest.len().saturating_sub(older)..rest.len()),
        part(start, place - younger..start.len()),
    )
}

impl<T: Copy> Window<T> {
    /// No entries, and room for so many before it must move them or grow.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self {
            items: Vec::with_capacity(room),
            base: 0,
            head: 0,
        }
    }

    /// Shows its entries.
    pub fn fold(&mut self, folding: &mut Folding)
    where
        T: Send + 'static,
    {
        let take = |window: &mut Self| {
            let entries: Box<[T]> = window.all().into();
            let mut items = std::mem::take(&mut window.items);
            items.clear();
            (entries, items)
        };
        folding.any(self, take, |window, entries, empty| {
            window.items = empty.unwrap_or_default();
            window.items.extend_from_slice(&entries);
            window.base = window.head;
        });
    }

    /// Drops all; counts from 0 again.
    pub fn reset(&mut self) {
        self.items.clear();
        self.base = 0;
        self.head = 0;
    }

    /// Number of the first entry.
    #[inline(always)]
    #[must_use]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Number behind the last entry.
    #[inline(always)]
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base + self.items.len() as u64
    }

    /// Where an entry is, by number; one that is none's is behind the last one.
    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        match number < self.head {
            true => usize::MAX,
            false => (number - self.base) as usize,
        }
    }

    /// Number of entries.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end() == self.head
    }

    /// The entries, first to last.
    #[inline]
    #[must_use]
    pub fn all(&self) -> &[T] {
        self.range(self.head, self.end())
    }

    /// The entries, first to last.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.all().iter()
    }

    /// An entry by number.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&T> {
        self.items.get(self.place(number))
    }

    /// An entry by number.
    #[inline(always)]
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number);
        self.items.get_mut(place)
    }

    /// Entries by number: all of `from..to` must be there.
    #[inline(always)]
    #[must_use]
    pub fn range(&self, from: u64, to: u64) -> &[T] {
        debug_assert!(self.head <= from && from <= to && to <= self.end());
        let (from, to) = (from - self.base, to - self.base);
        part(&self.items, from as usize..to as usize)
    }

    /// The same, to change them.
    #[inline(always)]
    pub fn range_mut(&mut self, from: u64, to: u64) -> &mut [T] {
        debug_assert!(self.head <= from && from <= to && to <= self.end());
        let (from, to) = (from - self.base, to - self.base);
        let range = from as usize..to as usize;
        self.items.get_mut(range).unwrap_or_default()
    }

    /// The first entry.
    #[inline(always)]
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.items.get((self.head - self.base) as usize)
    }

    /// The last entry.
    #[inline]
    #[must_use]
    pub fn back(&self) -> Option<&T> {
        self.all().last()
    }

    /// The last entry.
    #[inline]
    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.end().wrapping_sub(1))
    }

    /// Appends an entry.
    #[inline]
    pub fn push(&mut self, entry: T) {
        if self.items.len() == self.items.capacity() {
            self.make_room(1);
        }
        self.items.push(entry);
    }

    /// Appends entries.
    #[inline]
    pub fn append(&mut self, entries: &[T]) {
        if self.items.capacity() - self.items.len() < entries.len() {
            self.make_room(entries.len());
        }
        self.items.extend_from_slice(entries);
    }

    /// Drops the first entry, which must be there.
    #[inline(always)]
    pub fn skip_one(&mut self) {
        debug_assert!(self.head < self.end());
        self.head += 1;
    }

    /// Takes the first entry.
    #[inline]
    pub fn pop(&mut self) -> Option<&T> {
        let place = (self.head - self.base) as usize;
        self.head += u64::from(place < self.items.len());
        self.items.get(place)
    }

    /// Makes room for some more: where that gives at least half of it, of what is gone.
    #[cold]
    fn make_room(&mut self, more: usize) {
        let gone = (self.head - self.base) as usize;
        if gone >= more && 2 * gone >= self.items.len() {
            self.items.drain(..gone);
            self.base = self.head;
        } else {
            self.items.reserve(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_with_their_instructions_while_it_turns_and_grows() {
        let mut window = Window::new(4);
        for n in 0..100u64 {
            window.push(n);
            if n % 3 == 0 {
                assert_eq!(window.pop(), Some(&(n / 3)));
            }
            for number in 0..200 {
                let there = (window.head()..window.end()).contains(&number);
                assert_eq!(window.get(number).copied(), there.then_some(number));
            }
            assert!(window.iter().copied().eq(window.head()..window.end()));
            assert_eq!(window.len(), window.iter().count());
        }
        assert_eq!(window.back(), Some(&99));
        for count in [0, 1, 7, 60, 300] {
            let from = window.end();
            let entries: Vec<u64> = (from..from + count).collect();
            window.append(&entries);
            assert!(window.iter().copied().eq(window.head()..from + count));
            (0..count / 2).for_each(|_| {
                window.pop();
            });
        }
    }
}
