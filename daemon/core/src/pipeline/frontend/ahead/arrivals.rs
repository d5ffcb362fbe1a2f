//! What is on its way at once, a limited number.

/// What may be on its way at once, a limited number.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// When the last ones arrived.
    last: Vec<u64>,
    count: usize,
}

impl Arrivals {
    /// So many at once.
    #[must_use]
    pub fn new(at_once: u32) -> Self {
        Self {
            last: vec![0; at_once.max(1) as usize],
            count: 0,
        }
    }

    /// When the last one arrived.
    #[must_use]
    pub fn latest(&self) -> u64 {
        self.arrival(1)
    }

    /// When the one so many before the next one arrived.
    fn arrival(&self, back: usize) -> u64 {
        let places = self.last.len();
        let place = (self.count + places - back) % places;
        self.last.get(place).copied().unwrap_or(0)
    }

    /// When the next one arrives, which is asked for in cycle `at` and takes so many cycles, at least
    /// `spacing` behind the last one. No more than `most` are on their way then, if that is less than
    /// may be at all.
    pub fn come(&mut self, at: u64, cycles: u64, spacing: u64, most: usize) -> u64 {
        let room = self.arrival(most.clamp(1, self.last.len()));
        let arrives = (at.max(room) + cycles).max(self.arrival(1) + spacing);
        let own = self.count;
        self.count = (self.count + 1) % self.last.len();
        if let Some(slot) = self.last.get_mut(own) {
            *slot = arrives;
        }
        arrives
    }
}
