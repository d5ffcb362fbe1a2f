//! Picks blocks by a hash of their bytes: the same ones on every machine and in every order.

/// Which half of the blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Half {
    /// Both.
    #[default]
    All,
    /// Even hash: what one may look at while modelling.
    Even,
    /// Odd hash: what one may not.
    Odd,
}

/// FNV-1a over the hexadecimal digits in lower case, finished by SplitMix64's mixer.
#[must_use]
pub fn hash(hex: &str, seed: u64) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in hex.bytes() {
        h = (h ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0000_0100_0000_01b3);
    }
    h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ (h >> 31)
}

impl Half {
    /// Whether a block belongs to the half.
    #[must_use]
    pub fn has(self, hex: &str) -> bool {
        match self {
            Self::All => true,
            Self::Even => hash(hex, 0) & 1 == 0,
            Self::Odd => hash(hex, 0) & 1 == 1,
        }
    }
}

/// Keeps a half, and of it `sample` blocks chosen by `seed`, in the order they had.
pub fn select<T>(
    rows: &mut Vec<T>,
    hex: impl Fn(&T) -> &str,
    half: Half,
    sample: Option<usize>,
    seed: u64,
) {
    rows.retain(|row| half.has(hex(row)));
    let Some(sample) = sample.filter(|n| *n < rows.len()) else {
        return;
    };
    // An odd seed for the sample, so that it says nothing about the half.
    let key = |row: &T| hash(hex(row), seed.wrapping_mul(2).wrapping_add(1));
    let mut keys: Vec<u64> = rows.iter().map(key).collect();
    keys.sort_unstable();
    let bound = keys.get(sample).copied().unwrap_or(u64::MAX);
    rows.retain(|row| key(row) < bound);
    rows.truncate(sample);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_disjoint_and_samples_repeat() {
        let all: Vec<String> = (0..2000u32).map(|n| format!("{n:08x}")).collect();
        let pick = |half, sample, seed| {
            let mut rows = all.clone();
            select(&mut rows, |r| r, half, sample, seed);
            rows
        };
        let (even, odd) = (pick(Half::Even, None, 0), pick(Half::Odd, None, 0));
        assert_eq!(even.len() + odd.len(), 2000);
        assert!((900..1100).contains(&even.len()), "{}", even.len());
        assert!(even.iter().all(|e| !odd.contains(e)));
        let sample = pick(Half::Odd, Some(100), 1);
        assert_eq!(sample.len(), 100);
        assert_eq!(sample, pick(Half::Odd, Some(100), 1));
        assert_ne!(sample, pick(Half::Odd, Some(100), 2));
        assert!(sample.iter().all(|s| odd.contains(s)));
    }
}
