//! How many µops are assigned to each port, kept as the keys by which ports are compared: eight ports
//! a vector, so that a few machine instructions find the least used of a set.
//!
//! A key is the count above a port's rank among equally used ones. Keys are biased, so that they
//! compare as signed numbers, which is what baseline vector instructions do.

use mcad_isa::machine::params::{MAX_PORTS, PortSet};

/// Ports of a vector.
const LANES: usize = 8;
/// Vectors for all ports.
pub const VECTORS: usize = MAX_PORTS / LANES;
/// Bits that a rank takes in a key.
const RANK_BITS: u32 = MAX_PORTS.trailing_zeros();
/// One µop in a key.
const ONE: i16 = 1 << RANK_BITS;
const RANK: i16 = ONE - 1;

type Vector = [i16; LANES];

/// By the bits of a set of eight ports: the highest key where a port is not in it, else the lowest.
static OUTSIDE: [Vector; 256] = {
    let mut all = [[i16::MIN; LANES]; 256];
    let mut set = 0;
    while set < all.len() {
        let mut lane = 0;
        while lane < LANES {
            if set >> lane & 1 == 0 {
                all[set][lane] = i16::MAX;
            }
            lane += 1;
        }
        set += 1;
    }
    all
};

/// By the bits of a set of eight ports: one µop where a port is in it.
static EACH: [Vector; 256] = {
    let mut all = [[0; LANES]; 256];
    let mut set = 0;
    while set < all.len() {
        let mut lane = 0;
        while lane < LANES {
            if set >> lane & 1 != 0 {
                all[set][lane] = ONE;
            }
            lane += 1;
        }
        set += 1;
    }
    all
};

/// The bits of the eight ports of a vector.
#[inline(always)]
fn bits_of(ports: u32, vector: usize) -> usize {
    usize::from((ports >> (LANES * vector)) as u8)
}

/// How many vectors some ports lie in: in the first ones.
#[inline(always)]
pub fn vectors_of(ports: PortSet) -> usize {
    (u32::BITS - ports.0.leading_zeros()).div_ceil(LANES as u32) as usize
}

/// Calls `f` with the numbers of so many vectors; most CPUs have one or two.
#[inline(always)]
fn of_each(vectors: usize, mut f: impl FnMut(usize)) {
    f(0);
    if vectors > 1 {
        f(1);
        (2..vectors.min(VECTORS)).for_each(f);
    }
}

/// µops by port.
#[derive(Clone, Copy)]
pub struct Usage([Vector; VECTORS]);

impl Usage {
    /// None; of equally used ports the one of the lowest rank comes first, and a rank is below
    /// [`MAX_PORTS`].
    pub fn new(rank: impl Fn(u8) -> u8) -> Self {
        let ports = std::array::from_fn(|vector| {
            std::array::from_fn(|lane| {
                let port = (vector * LANES + lane) as u8;
                i16::MIN | i16::from(rank(port)) & RANK
            })
        });
        Self(ports)
    }

    /// One more µop for a port.
    #[inline(always)]
    pub fn add(&mut self, port: u8) {
        let key = &mut self.0.as_flattened_mut()[usize::from(port) & (MAX_PORTS - 1)];
        *key = key.wrapping_add(ONE);
    }

    /// One µop less for a port.
    #[inline]
    pub fn remove(&mut self, port: u8) {
        let key = &mut self.0.as_flattened_mut()[usize::from(port) & (MAX_PORTS - 1)];
        *key = key.wrapping_sub(ONE);
    }

    /// One µop less for each of these ports, which lie in so many vectors.
    #[inline(always)]
    pub fn remove_each(&mut self, ports: u32, vectors: usize) {
        if ports == 0 {
            return;
        }
        of_each(vectors, |vector| {
            let each = &EACH[bits_of(ports, vector)];
            for (key, one) in self.0[vector].iter_mut().zip(each) {
                *key = key.wrapping_sub(*one);
            }
        });
    }

    /// Takes the counts of the ports of so many vectors over from another.
    #[inline(always)]
    pub fn copy(&mut self, other: &Self, vectors: usize) {
        of_each(vectors, |vector| self.0[vector] = other.0[vector]);
    }

    /// The keys of `ports`, which lie in the first `N` vectors.
    #[inline(always)]
    pub fn keys<const N: usize>(&self, ports: PortSet) -> Keys<N> {
        Keys(std::array::from_fn(|vector| {
            let outside = &OUTSIDE[bits_of(ports.0, vector)];
            let keys = &self.0[vector & (VECTORS - 1)];
            std::array::from_fn(|lane| keys[lane].max(outside[lane]))
        }))
    }

    /// µops of a port.
    #[inline(always)]
    pub fn of(&self, port: u8) -> u16 {
        Key(self.0.as_flattened()[usize::from(port) & (MAX_PORTS - 1)]).used()
    }

    /// µops by port.
    pub fn counts(&self) -> impl Iterator<Item = u16> {
        self.0.as_flattened().iter().map(|key| Key(*key).used())
    }
}

/// A port among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(i16);

impl Key {
    /// What the rank says of the port.
    #[inline(always)]
    pub fn rank(self) -> u8 {
        (self.0 & RANK) as u8
    }

    /// µops that are assigned to it.
    #[inline(always)]
    pub fn used(self) -> u16 {
        (self.0 ^ i16::MIN) as u16 >> RANK_BITS
    }
}

/// Each lane of two vectors put together; written so that it becomes vector instructions, whatever
/// the target has of them.
#[inline(always)]
fn both(a: Vector, b: Vector, of: impl Fn(i16, i16) -> i16) -> Vector {
    std::array::from_fn(|lane| of(a[lane], b[lane]))
}

/// All lanes of a vector put together, by halves.
#[inline(always)]
fn all(keys: Vector, of: impl Fn(i16, i16) -> i16) -> Key {
    let keys = both(keys, std::array::from_fn(|lane| keys[lane ^ 4]), &of);
    let keys = both(keys, std::array::from_fn(|lane| keys[lane ^ 2]), &of);
    Key(of(keys[0], keys[1]))
}

/// Keys of some ports, and the highest key for all others.
#[derive(Clone, Copy)]
pub struct Keys<const N: usize>([Vector; N]);

impl<const N: usize> Keys<N> {
    /// The least.
    #[inline(always)]
    pub fn least(&self) -> Key {
        let each = self.0.iter().copied();
        let least = each.reduce(|a, b| both(a, b, i16::min));
        all(least.unwrap_or([i16::MAX; LANES]), i16::min)
    }

    /// The most; of ports that are not in the set none.
    #[inline(always)]
    pub fn most(&self) -> Key {
        let inside = |key: i16| if key == i16::MAX { i16::MIN } else { key };
        let each = self.0.iter().map(|keys| keys.map(inside));
        let most = each.reduce(|a, b| both(a, b, i16::max));
        all(most.unwrap_or([i16::MIN; LANES]), i16::max)
    }

    /// The same without one.
    #[inline(always)]
    pub fn without(self, gone: Key) -> Self {
        let gone = [gone.0; LANES];
        let left = |key, gone| if key == gone { i16::MAX } else { key };
        Self(self.0.map(|keys| both(keys, gone, left)))
    }

    /// How many have fewer than `more` µops more than one of them.
    #[inline(always)]
    pub fn close_to(&self, least: Key, more: u16) -> u8 {
        let end = (least.0 & !RANK).saturating_add((more << RANK_BITS) as i16);
        let closer = |key, end| if key < end { 1 } else { 0 };
        let each = (self.0.iter()).map(|keys| both(*keys, [end; LANES], closer));
        let counts = each.reduce(|a, b| both(a, b, i16::wrapping_add));
        all(counts.unwrap_or_default(), i16::wrapping_add).0 as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_compare_by_their_counts_then_by_their_rank() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut usage = Usage::new(|port| 31 - port);
        let mut counts = [0u16; MAX_PORTS];
        for _ in 0..2000 {
            let port = random.u8(..MAX_PORTS as u8);
            if random.bool() && counts[usize::from(port)] < 40 {
                usage.add(port);
                counts[usize::from(port)] += 1;
            }
            let starting = random.u32(..) & random.u32(..);
            let starting = (0..32).filter(|p| counts[*p as usize] > 0 && starting >> p & 1 != 0);
            let starting = starting.fold(0u32, |all, port| all | 1 << port);
            usage.remove_each(starting, VECTORS);
            for (port, count) in counts.iter_mut().enumerate() {
                *count -= (starting >> port) as u16 & 1;
            }
            assert!(usage.counts().eq(counts));

            let ports = PortSet(random.u32(1..));
            let mut expected: Vec<(u16, u8)> = (ports.iter())
                .map(|port| (counts[usize::from(port)], 31 - port))
                .collect();
            expected.sort_unstable();
            let least = expected[0].0;
            let keys = usage.keys::<VECTORS>(ports);
            let close = expected.iter().filter(|(used, _)| *used < least + 5);
            assert_eq!(usize::from(keys.close_to(keys.least(), 5)), close.count());
            let most = keys.most();
            assert_eq!(Some(&(most.used(), most.rank())), expected.last());
            let mut left = keys;
            for (used, rank) in expected {
                let key = left.least();
                assert_eq!((key.used(), key.rank()), (used, rank));
                left = left.without(key);
            }
        }
    }
}
