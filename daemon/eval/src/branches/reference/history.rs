//! Histories as they are defined: bits, the newest first, of which a look-up folds as many as it needs.

/// Bits that are kept: at least the longest history.
pub const MOST: usize = 3008;
/// Bits of the path.
pub const PATH: usize = 27;

const WORD: usize = u64::BITS as usize;

/// A long history; bit 0 is the newest.
#[derive(Clone, Debug)]
pub struct Bits([u64; MOST / WORD]);

impl Bits {
    /// Of a program that has not begun.
    pub fn new() -> Self {
        Self([0; MOST / WORD])
    }

    /// Takes in a bit.
    pub fn push(&mut self, bit: bool) {
        let mut carry = u64::from(bit);
        for word in &mut self.0 {
            let out = *word >> (WORD - 1);
            *word = *word << 1 | carry;
            carry = out;
        }
    }

    /// So many bits, at most 32, of which the newest has that age.
    fn piece(&self, age: usize, count: usize) -> u64 {
        let (word, bit) = (age / WORD, age % WORD);
        let at = |word: usize| self.0.get(word).copied().unwrap_or(0);
        let joined = u128::from(at(word)) | u128::from(at(word + 1)) << WORD;
        (joined >> bit) as u64 & low(count)
    }

    /// The exclusive or of the newest `length` bits, cut into pieces of `width` bits, at most 32.
    pub fn fold(&self, length: usize, width: usize) -> u64 {
        (0..length)
            .step_by(width)
            .fold(0, |sum, age| sum ^ self.piece(age, width.min(length - age)))
    }
}

/// A number of which so many bits are set, the lowest ones.
pub fn low(count: usize) -> u64 {
    1u64.checked_shl(count as u32)
        .map_or(u64::MAX, |bit| bit - 1)
}

/// The same of a history that fits into a word.
pub fn fold(history: u64, length: usize, width: usize) -> u64 {
    let kept = history & low(length);
    (0..length)
        .step_by(width)
        .fold(0, |sum, age| sum ^ (kept >> age & low(width)))
}

/// The histories of all branches.
#[derive(Clone, Debug)]
pub struct Global {
    /// Two bits of each branch, three of an indirect one.
    pub bits: Bits,
    /// Addresses of the last ones, shifted over each other.
    pub path: u64,
}

impl Global {
    /// Of a program that has not begun.
    pub fn new() -> Self {
        Self {
            bits: Bits::new(),
            path: 0,
        }
    }

    /// A branch went `taken`; `to`: where an indirect one went.
    pub fn push(&mut self, pc: u64, taken: bool, to: Option<u64>) {
        let mut direction = pc ^ pc >> 2 ^ u64::from(taken);
        let mut address = pc ^ pc >> 2 ^ pc >> 4;
        if let Some(to) = to {
            direction ^= to >> 2;
            address ^= to >> 2 ^ to >> 4;
        }
        for _ in 0..if to.is_some() { 3 } else { 2 } {
            self.bits.push(direction & 1 == 1);
            direction >>= 1;
            self.path = (self.path << 1 ^ address & low(7)) & low(PATH);
            address >>= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_of_a_history_weighs_where_its_age_says() {
        for (length, width) in [(6, 10), (44, 10), (129, 8), (3000, 11), (3000, 12)] {
            for age in [0, 1, 63, 64, length - 1, length, 2_999] {
                let mut bits = Bits::new();
                bits.push(true);
                (0..age).for_each(|_| bits.push(false));
                let want = if age < length { 1 << (age % width) } else { 0 };
                assert_eq!(bits.fold(length, width), want, "{length} {width} {age}");
            }
        }
    }

    #[test]
    fn a_fold_is_the_sum_of_its_bits() {
        let mut random = fastrand::Rng::with_seed(5);
        let (mut bits, mut all) = (Bits::new(), Vec::new());
        for _ in 0..4000 {
            all.push(random.bool());
            bits.push(*all.last().unwrap());
        }
        for (length, width) in [(17, 10), (60, 7), (777, 11), (3000, 10)] {
            let newest = all.iter().rev().take(length).enumerate();
            let sum = newest.fold(0, |sum, (age, bit)| sum ^ u64::from(*bit) << (age % width));
            assert_eq!(bits.fold(length, width), sum);
            let word = bits.piece(0, 32);
            let short = length.min(32);
            assert_eq!(fold(word, short, width), bits.fold(short, width));
        }
    }
}
