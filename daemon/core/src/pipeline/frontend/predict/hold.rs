//! How conditional branches that go both ways stay in the nearest branch target buffer, as found in Zen (docs/ZEN1.md, "Branches"): of all
//! machines of six states that give a branch a place or none, the one that comes closest to what all orders of up to eight directions take,
//! a cycle for one that is taken and not there and two for one that is there and not taken.

/// Branches that are told apart, a power of two.
const BRANCHES: usize = 1024;

/// What a branch has in the nearest buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Hold {
    /// No entry, but it gets one when it is taken.
    #[default]
    Out,
    /// An entry, once.
    Weak,
    /// An entry, and it was taken again.
    Strong,
    /// An entry, for one more time.
    Leaving,
    /// No entry, since it was passed too often.
    Barred,
    /// The same, and it has been taken; when it is passed again it is [`Hold::Out`].
    BarredTaken,
}

impl Hold {
    /// The state after the branch went one way.
    #[must_use]
    pub fn after(self, taken: bool) -> Self {
        match (self, taken) {
            (Self::Out, true) | (Self::Strong, false) => Self::Weak,
            (Self::Weak | Self::Strong, true) => Self::Strong,
            (Self::Weak, false) => Self::Leaving,
            (Self::Out | Self::BarredTaken, false) | (Self::Leaving, true) => Self::Out,
            (Self::Leaving | Self::Barred, false) => Self::Barred,
            (Self::Barred | Self::BarredTaken, true) => Self::BarredTaken,
        }
    }
}

/// Those of all branches.
#[derive(Clone)]
pub struct Holds(Box<[Hold; BRANCHES]>);

impl Default for Holds {
    fn default() -> Self {
        Self(Box::new([Hold::Out; BRANCHES]))
    }
}

impl Holds {
    /// That of the branch there.
    #[inline]
    pub fn of(&mut self, pc: u64) -> &mut Hold {
        &mut self.0[pc as usize % BRANCHES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles, in a period of these directions, that a branch takes for going another way than its entry says.
    fn cycles(order: &str) -> f64 {
        let mut hold = Hold::Out;
        let mut cycles = 0;
        for turn in 0..40 {
            for taken in order.chars().map(|direction| direction == '1') {
                let held = matches!(hold, Hold::Weak | Hold::Strong | Hold::Leaving);
                let late = match (held, taken) {
                    (true, false) => 2,
                    (false, true) => 1,
                    _ => 0,
                };
                cycles += if turn < 20 { 0 } else { late };
                hold = hold.after(taken);
            }
        }
        f64::from(cycles) / 20.0
    }

    /// Measured on a Zen (docs/ZEN1.md).
    #[test]
    fn orders_of_directions_take_as_long_as_measured() {
        for (order, measured) in [
            ("10", 1.5),
            ("100", 3.0),
            ("110", 2.0),
            ("1000", 3.0),
            ("1100", 4.0),
            ("1110", 2.0),
            ("10000", 3.0),
            ("11000", 5.0),
            ("10100", 3.0),
            ("11100", 5.0),
            ("11010", 4.0),
            ("11110", 2.0),
            ("101000", 3.0),
            ("110100", 5.0),
            ("101100", 5.0),
            ("111010", 4.0),
            ("111000", 5.0),
            ("111100", 5.0),
        ] {
            let found = cycles(order);
            assert!(
                (found - measured).abs() <= 0.5,
                "{order}: {found}, measured {measured}"
            );
        }
    }
}
