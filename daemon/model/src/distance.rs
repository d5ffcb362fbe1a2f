//! Stack distances: one pass says which accesses miss in caches of every size.
//!
//! An access hits in a fully associative cache of N lines with least-recently-used replacement if
//! fewer than N other lines were used since its line was (Mattson, Gecsei, Slutz and Traiger,
//! "Evaluation techniques for storage hierarchies", 1970). Of a distance only the sizes between which
//! it lies are kept: the lines stand in order of use, with a marker at the last line that each size
//! still holds, so an access costs a look-up and a step for each size that it misses in.
//! Associativity and replacement policies are left out.

use rustc_hash::FxHashMap;

/// Bytes of a line.
pub const LINE: u64 = 64;

/// KiB of the smallest cache that is told apart.
pub const SMALLEST_KIB: u32 = 1;

/// Sizes told apart, each twice the one before: up to 8 MiB.
pub const SIZES: usize = 14;

/// In how many sizes, from the smallest, an access misses.
pub type Misses = u8;

/// Counts of accesses by [`Misses`].
pub type Counts<T> = [T; SIZES + 1];

/// The place of a size among those told apart.
///
/// # Errors
/// When it is none of them.
pub fn size(kib: u32) -> Result<usize, String> {
    let largest = SMALLEST_KIB << (SIZES - 1);
    if kib.is_power_of_two() && (SMALLEST_KIB..=largest).contains(&kib) {
        Ok((kib / SMALLEST_KIB).ilog2() as usize)
    } else {
        Err(format!(
            "{kib} KiB: a cache must have a power of two from {SMALLEST_KIB} to {largest} KiB"
        ))
    }
}

/// Lines of a size.
const fn lines(size: usize) -> usize {
    ((SMALLEST_KIB as usize) << size) * 1024 / LINE as usize
}

/// No node.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    line: u64,
    before: u32,
    after: u32,
    misses: Misses,
}

/// Where a line stood when it was accessed.
#[derive(Clone, Copy, Debug)]
pub struct Hint(u32);

impl Default for Hint {
    fn default() -> Self {
        Self(NONE)
    }
}

/// Lines in the order of their last use.
#[derive(Debug)]
pub struct Distances {
    places: FxHashMap<u64, u32>,
    nodes: Vec<Node>,
    first: u32,
    last: u32,
    /// By size: the last line that it holds; [`NONE`] while it is not full.
    markers: [u32; SIZES],
    /// By the low bits of a line: a node that had it, to be asked before `places`.
    recent: Box<[u32; RECENT]>,
}

/// Lines that are found without hashing.
const RECENT: usize = 16_384;

impl Default for Distances {
    fn default() -> Self {
        Self {
            places: FxHashMap::default(),
            nodes: Vec::new(),
            first: NONE,
            last: NONE,
            markers: [NONE; SIZES],
            recent: Box::new([NONE; RECENT]),
        }
    }
}

impl Distances {
    fn node(&mut self, n: u32) -> Option<&mut Node> {
        self.nodes.get_mut(n as usize)
    }

    fn before(&self, n: u32) -> u32 {
        self.nodes.get(n as usize).map_or(NONE, |n| n.before)
    }

    /// Uses the line of an address; says in how many sizes it was missing.
    #[inline]
    pub fn access(&mut self, line: u64) -> Misses {
        if let Some(first) = self.nodes.get(self.first as usize)
            && first.line == line
        {
            return 0;
        }
        match self.place(line) {
            Some(n) => self.use_again(n),
            None => self.bring(line),
        }
    }

    /// The same, by whoever asked for this line before and was given a `hint`.
    #[inline]
    pub fn access_near(&mut self, line: u64, hint: &mut Hint) -> Misses {
        if let Some(node) = self.nodes.get(hint.0 as usize)
            && node.line == line
        {
            return match hint.0 == self.first {
                true => 0,
                false => self.use_again(hint.0),
            };
        }
        let misses = self.access(line);
        *hint = Hint(self.first);
        misses
    }

    /// The node of a line.
    #[inline]
    fn place(&mut self, line: u64) -> Option<u32> {
        let recent = &mut self.recent[line as usize % RECENT];
        if let Some(node) = self.nodes.get(*recent as usize)
            && node.line == line
        {
            return Some(*recent);
        }
        let n = *self.places.get(&line)?;
        *recent = n;
        Some(n)
    }

    /// Uses a node.
    fn use_again(&mut self, n: u32) -> Misses {
        let misses = self.nodes.get(n as usize).map_or(0, |n| n.misses);
        self.push_out(usize::from(misses));
        if let Some(marker) = self.markers.get_mut(usize::from(misses))
            && *marker == n
        {
            *marker = self.nodes.get(n as usize).map_or(NONE, |n| n.before);
        }
        self.unlink(n);
        self.link_first(n);
        misses
    }

    /// Uses a line that is not there.
    fn bring(&mut self, line: u64) -> Misses {
        self.push_out(SIZES);
        let n = if self.nodes.len() < lines(SIZES - 1) {
            self.nodes.push(Node {
                line,
                before: NONE,
                after: NONE,
                misses: 0,
            });
            self.nodes.len() as u32 - 1
        } else {
            // What no size holds any more is forgotten.
            let n = self.last;
            let old = self.nodes.get(n as usize).map_or(line, |n| n.line);
            self.places.remove(&old);
            self.unlink(n);
            if let Some(node) = self.node(n) {
                node.line = line;
            }
            n
        };
        self.places.insert(line, n);
        self.link_first(n);
        let count = self.nodes.len();
        for size in 0..SIZES {
            if self.markers[size] == NONE && count == lines(size) {
                self.markers[size] = self.last;
            }
        }
        SIZES as Misses
    }

    /// A line comes to the first place from behind the first `sizes` sizes, each of which gives
    /// its last line away.
    fn push_out(&mut self, sizes: usize) {
        for size in 0..sizes {
            let marker = self.markers[size];
            if marker == NONE {
                return;
            }
            if let Some(node) = self.node(marker) {
                node.misses = size as Misses + 1;
            }
            self.markers[size] = self.before(marker);
        }
    }

    fn unlink(&mut self, n: u32) {
        let Some(&Node { before, after, .. }) = self.nodes.get(n as usize) else {
            return;
        };
        match self.node(before) {
            Some(node) => node.after = after,
            None => self.first = after,
        }
        match self.node(after) {
            Some(node) => node.before = before,
            None => self.last = before,
        }
    }

    fn link_first(&mut self, n: u32) {
        let first = self.first;
        if let Some(node) = self.node(n) {
            node.before = NONE;
            node.after = first;
            node.misses = 0;
        }
        match self.node(first) {
            Some(node) => node.before = n,
            None => self.last = n,
        }
        self.first = n;
    }
}
