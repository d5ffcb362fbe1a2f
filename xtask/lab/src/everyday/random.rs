//! Numbers and words in no order, the same on every machine.

/// SplitMix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end.max(1)
    }

    /// One of these.
    pub(super) fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all.get(self.below(all.len())).copied().unwrap_or_default()
    }
}

/// A vocabulary.
pub(super) struct Words(Vec<String>);

impl Words {
    pub(super) fn new(random: &mut Random, count: usize) -> Self {
        let syllables = [
            "ta", "ka", "lu", "mel", "tor", "ing", "ed", "sa", "ri", "no", "pe", "un", "er", "bo",
            "co", "di", "an", "th", "ou", "es",
        ];
        let mut word = || -> String {
            let long = 1 + random.below(4);
            (0..long).map(|_| random.of(&syllables)).collect()
        };
        Self((0..count).map(|_| word()).collect())
    }

    /// One of them, the first ones oftener: the n-th about as often as 1/n, as in texts (Zipf).
    pub(super) fn pick(&self, random: &mut Random) -> &str {
        let mut end = self.0.len();
        // Each halving keeps half of what is left: a step function below 1/n.
        while end > 4 && random.below(12) != 0 {
            end = end * 3 / 4;
        }
        self.0.get(random.below(end)).map_or("", String::as_str)
    }
}
