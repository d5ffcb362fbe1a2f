//! Stack distances: one pass says which accesses miss in caches of every size.
//!
//! An access hits in a fully associative cache of N lines with least-recently-used replacement if
//! fewer than N other lines were used since its line was (Mattson, Gecsei, Slutz and Traiger,
//! "Evaluation techniques for storage hierarchies", 1970). Of a distance only the sizes between which
//! it lies are kept: the lines stand in order of use, with a marker at the last line that each size
//! still holds, so an access costs a look-up and a step for each size that it misses in. Those that the
//! smallest size holds, to which most accesses go, stand by themselves with when they were used.
//! Associativity and replacement policies are left out.

use rustc_hash::FxHashMap;

pub use mcad_isa::machine::hierarchy::LINE_BYTES as LINE;

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

/// Lines that the smallest size holds.
const NEAREST: usize = lines(0);

/// They, in no order.
#[derive(Debug)]
struct Nearest {
    /// The low bits of each line, to be compared at once.
    low: [u32; NEAREST],
    lines: [u64; NEAREST],
    nodes: [u32; NEAREST],
    /// When each was used last, by a count of uses; 0: there is none.
    used: [u64; NEAREST],
    count: u64,
    /// Place of the one used last.
    latest: usize,
}

impl Default for Nearest {
    fn default() -> Self {
        Self {
            low: [0; NEAREST],
            lines: [u64::MAX; NEAREST],
            nodes: [NONE; NEAREST],
            used: [0; NEAREST],
            count: 0,
            latest: 0,
        }
    }
}

impl Nearest {
    /// Uses a line, if it is among them.
    #[inline]
    fn access(&mut self, line: u64) -> bool {
        if self.lines[self.latest % NEAREST] == line {
            return true;
        }
        let low = line as u32;
        let mut like = 0u32;
        for (n, known) in self.low.iter().enumerate() {
            like |= u32::from(*known == low) << n;
        }
        while like != 0 {
            let place = like.trailing_zeros() as usize % NEAREST;
            if self.lines[place] == line {
                self.touch(place);
                return true;
            }
            like &= like - 1;
        }
        false
    }

    #[inline]
    fn touch(&mut self, place: usize) {
        self.count += 1;
        self.used[place] = self.count;
        self.latest = place;
    }

    /// Puts a line in, which is not among them; gives the node of the one that goes for it.
    #[inline]
    fn put(&mut self, line: u64, node: u32) -> u32 {
        let (mut place, mut oldest) = (0, u64::MAX);
        for (n, used) in self.used.iter().enumerate() {
            place = if *used < oldest { n } else { place };
            oldest = oldest.min(*used);
        }
        self.low[place] = line as u32;
        self.lines[place] = line;
        self.touch(place);
        std::mem::replace(&mut self.nodes[place], node)
    }
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
    nearest: Nearest,
    places: FxHashMap<u64, u32>,
    /// All lines, whether or not they are among the nearest.
    nodes: Vec<Node>,
    /// The first and the last of those behind the nearest.
    first: u32,
    last: u32,
    /// By size, of all but the smallest: the last line that it holds; [`NONE`] while it is not full.
    markers: [u32; SIZES],
    /// By the low bits of a line: a node that had it, to be asked before `places`.
    recent: Box<[u32; RECENT]>,
}

/// Lines that are found without hashing.
const RECENT: usize = 16_384;

impl Default for Distances {
    fn default() -> Self {
        Self {
            nearest: Nearest::default(),
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
        if self.nearest.access(line) {
            return 0;
        }
        match self.place(line) {
            Some(n) => self.use_again(line, n),
            None => self.bring(line).0,
        }
    }

    /// The same, by whoever asked for this line before and was given a `hint`.
    #[inline]
    pub fn access_near(&mut self, line: u64, hint: &mut Hint) -> Misses {
        if self.nearest.access(line) {
            return 0;
        }
        if let Some(node) = self.nodes.get(hint.0 as usize)
            && node.line == line
        {
            return self.use_again(line, hint.0);
        }
        let (misses, n) = match self.place(line) {
            Some(n) => (self.use_again(line, n), n),
            None => self.bring(line),
        };
        *hint = Hint(n);
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

    /// Uses a node behind the nearest.
    fn use_again(&mut self, line: u64, n: u32) -> Misses {
        let misses = self.nodes.get(n as usize).map_or(0, |n| n.misses);
        self.push_out(usize::from(misses));
        if let Some(marker) = self.markers.get_mut(usize::from(misses))
            && *marker == n
        {
            *marker = self.nodes.get(n as usize).map_or(NONE, |n| n.before);
        }
        self.unlink(n);
        self.put(line, n);
        misses
    }

    /// Uses a line that is not there; gives its node, too.
    fn bring(&mut self, line: u64) -> (Misses, u32) {
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
        self.put(line, n);
        let count = self.nodes.len();
        for size in 1..SIZES {
            if self.markers[size] == NONE && count == lines(size) {
                self.markers[size] = self.last;
            }
        }
        (SIZES as Misses, n)
    }

    /// Puts a line among the nearest, and the one that goes for it before all others.
    fn put(&mut self, line: u64, n: u32) {
        let gone = self.nearest.put(line, n);
        if gone != NONE {
            self.link_first(gone);
        }
    }

    /// A line comes from behind the first `sizes` sizes, each of which but the smallest gives its last
    /// line away.
    fn push_out(&mut self, sizes: usize) {
        for size in 1..sizes {
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
            node.misses = 1;
        }
        match self.node(first) {
            Some(node) => node.before = n,
            None => self.last = n,
        }
        self.first = n;
    }
}
