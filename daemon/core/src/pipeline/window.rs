//! A queue whose entries keep their numbers: a ring that grows when it must.

use super::fold::Folding;
use crate::lists::part;

/// Consecutive entries, numbered from the first one ever.
pub struct Window<T> {
    /// A power of two.
    slots: Vec<T>,
    /// Number of the first entry.
    head: u64,
    /// Number behind the last.
    end: u64,
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

impl<T: Copy + Default> Window<T> {
    /// No entries, and room for so many before it must grow.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self {
            slots: vec![T::default(); room.next_power_of_two()],
            head: 0,
            end: 0,
        }
    }

    /// Shows its entries.
    pub fn fold(&mut self, folding: &mut Folding)
    where
        T: Send + 'static,
    {
        let take = |window: &mut Self| {
            let entries: Box<[T]> = (window.head..window.end)
                .filter_map(|n| window.get(n).copied())
                .collect();
            let slots = std::mem::take(&mut window.slots);
            ((slots.len(), entries), slots)
        };
        folding.any(self, take, |window, (room, entries), empty| {
            let alike = empty.filter(|slots: &Vec<T>| slots.len() == room);
            window.slots = alike.unwrap_or_else(|| vec![T::default(); room]);
            for (n, entry) in (window.head..).zip(entries) {
                let place = window.place(n);
                if let Some(slot) = window.slots.get_mut(place) {
                    *slot = entry;
                }
            }
        });
    }

    /// Drops all; counts from 0 again.
    pub fn reset(&mut self) {
        self.head = 0;
        self.end = 0;
    }

    /// Number of the first entry.
    #[inline]
    #[must_use]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Number behind the last entry.
    #[inline]
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & self.slots.len().wrapping_sub(1)
    }

    #[inline]
    fn holds(&self, number: u64) -> bool {
        number.wrapping_sub(self.head) < self.end - self.head
    }

    /// Number of entries.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        (self.end - self.head) as usize
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end == self.head
    }

    /// The entries, first to last.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let (older, younger) = last(&self.slots, self.end, self.len());
        older.iter().chain(younger)
    }

    /// An entry by number.
    #[inline]
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&T> {
        match self.holds(number) {
            true => self.slots.get(self.place(number)),
            false => None,
        }
    }

    /// An entry by number.
    #[inline]
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number);
        match self.holds(number) {
            true => self.slots.get_mut(place),
            false => None,
        }
    }

    /// Entries by number, as two pieces: all of `from..to` must be there.
    #[inline]
    #[must_use]
    pub fn pieces(&self, from: u64, to: u64) -> [&[T]; 2] {
        debug_assert!(self.head <= from && from <= to && to <= self.end);
        let (first, count) = (self.place(from), (to - from) as usize);
        let (start, rest) = self.slots.split_at(first);
        let older = count.min(rest.len());
        [part(rest, 0..older), part(start, 0..count - older)]
    }

    /// The same, to change them.
    #[inline]
    pub fn pieces_mut(&mut self, from: u64, to: u64) -> [&mut [T]; 2] {
        debug_assert!(self.head <= from && from <= to && to <= self.end);
        let (first, count) = (self.place(from), (to - from) as usize);
        let (start, rest) = self.slots.split_at_mut(first);
        let older = count.min(rest.len());
        [
            rest.get_mut(..older).unwrap_or_default(),
            start.get_mut(..count - older).unwrap_or_default(),
        ]
    }

    /// The first entry.
    #[inline]
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.get(self.head)
    }

    /// The last entry.
    #[inline]
    #[must_use]
    pub fn back(&self) -> Option<&T> {
        self.get(self.end.wrapping_sub(1))
    }

    /// The last entry.
    #[inline]
    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.end.wrapping_sub(1))
    }

    /// Drops the entries before a number.
    #[inline]
    pub fn skip_to(&mut self, number: u64) {
        self.head = number.clamp(self.head, self.end);
    }

    /// Appends an entry.
    #[inline]
    pub fn push(&mut self, entry: T) {
        if self.end - self.head == self.slots.len() as u64 {
            self.grow();
        }
        let place = self.place(self.end);
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = entry;
        }
        self.end += 1;
    }

    /// Appends entries.
    #[inline]
    pub fn append(&mut self, entries: &[T]) {
        while self.len() + entries.len() > self.slots.len() {
            self.grow();
        }
        let place = self.place(self.end);
        let (first, rest) = entries.split_at(entries.len().min(self.slots.len() - place));
        if let Some(slots) = self.slots.get_mut(place..place + first.len()) {
            slots.copy_from_slice(first);
        }
        if !rest.is_empty()
            && let Some(slots) = self.slots.get_mut(..rest.len())
        {
            slots.copy_from_slice(rest);
        }
        self.end += entries.len() as u64;
    }

    /// Drops the first entry, which must be there.
    #[inline(always)]
    pub fn skip_one(&mut self) {
        debug_assert!(self.head < self.end);
        self.head += 1;
    }

    /// Takes the first entry.
    #[inline]
    pub fn pop(&mut self) -> Option<&T> {
        let number = self.head;
        if number == self.end {
            return None;
        }
        self.head += 1;
        self.slots.get(self.place(number))
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Self::new(self.slots.len() * 2);
        larger.head = self.head;
        larger.end = self.head;
        for number in self.head..self.end {
            if let Some(entry) = self.get(number) {
                larger.push(*entry);
            }
        }
        *self = larger;
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
