//! A queue whose entries lie in one piece.

use super::fold::Folding;
use crate::lists::part;

/// What waits, first in first out.
#[derive(Debug)]
pub struct Backlog<T> {
    items: Vec<T>,
    /// Those before it are gone.
    head: usize,
}

/// Entries that may be gone before the rest is moved to the front.
const GONE: usize = 4096;

impl<T> Backlog<T> {
    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            items: Vec::new(),
            head: 0,
        }
    }

    /// All that waits.
    #[inline(always)]
    #[must_use]
    pub fn all(&self) -> &[T] {
        part(&self.items, self.head..self.items.len())
    }

    /// The first one.
    #[inline(always)]
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.items.get(self.head)
    }

    /// The first one.
    #[inline(always)]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.items.get_mut(self.head)
    }

    /// One by its place behind the first.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&T> {
        self.items.get(self.head + place)
    }

    /// Drops the first `count`.
    #[inline(always)]
    pub fn pop(&mut self, count: usize) {
        self.head = (self.head + count).min(self.items.len());
        if self.head > GONE {
            self.items.drain(..self.head);
            self.head = 0;
        }
    }

    /// Appends one.
    #[inline]
    pub fn push(&mut self, item: T) {
        self.items.push(item);
    }

    /// Appends.
    #[inline]
    pub fn extend(&mut self, items: impl IntoIterator<Item = T>) {
        self.items.extend(items);
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.items.clear();
        self.head = 0;
    }
}

impl<T: Send + 'static> Backlog<T> {
    /// Shows what waits.
    pub fn fold(&mut self, folding: &mut Folding) {
        let take = |waiting: &mut Self| {
            let Self { mut items, head } = std::mem::take(waiting);
            let left: Box<[T]> = items.drain(..).skip(head).collect();
            (left, items)
        };
        folding.any(self, take, |waiting, left: Box<[T]>, empty| {
            waiting.items = empty.unwrap_or_default();
            waiting.items.extend(left);
        });
    }
}

impl<T: Copy> Backlog<T> {
    /// Appends copies.
    #[inline]
    pub fn append(&mut self, items: &[T]) {
        self.items.extend_from_slice(items);
    }
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Self::new()
    }
}
