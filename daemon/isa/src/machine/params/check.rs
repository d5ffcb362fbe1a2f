//! Bounds of parameters: what the types cannot say.

/// The longest delay that a parameter may be, in cycles, but for those of caches and memory.
pub const MAX_DELAY: u64 = 1000;

/// A parameter that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Section and key, as the file has them: `retire.width`.
    pub key: String,
    /// What is wrong with it and what would be right.
    pub what: String,
}

impl Wrong {
    /// `key` is wrong for the reason `what`.
    #[must_use]
    pub fn new(key: &str, what: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            what: what.into(),
        }
    }

    /// A text that begins with the key: `tlb.walkers = 99 is not in 1..=8`.
    #[must_use]
    pub fn named(text: String) -> Self {
        let end = text.find([' ', ':']).unwrap_or(text.len());
        let (key, rest) = text.split_at(end);
        let rest = rest.trim_start_matches([' ', ':', '=']);
        Self::new(key, rest)
    }
}

/// What checking a section returns.
pub type Checked = Result<(), Wrong>;

/// Checks the parameters of one section.
#[derive(Clone, Copy, Debug)]
pub struct Bounds(pub &'static str);

impl Bounds {
    fn key(self, key: &str) -> String {
        format!("{}.{key}", self.0)
    }

    /// `value` must be in `least..=most`.
    ///
    /// # Errors
    /// Names the parameter and its bounds.
    pub fn within(self, key: &str, value: u32, least: u32, most: u32) -> Checked {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        let what = format!("{value} is not in {least}..={most}");
        Err(Wrong::new(&self.key(key), what))
    }

    /// Each value must be at most that which is beside it.
    ///
    /// # Errors
    /// Names the parameter and its bounds.
    pub fn at_most(self, bounds: &[(&str, u64, u64)]) -> Checked {
        for &(key, value, most) in bounds {
            self.holds(key, value <= most, || {
                format!("{value} is not in 0..={most}")
            })?;
        }
        Ok(())
    }

    /// `value` must be a power of two in `least..=most`.
    ///
    /// # Errors
    /// Names the parameter and its bounds.
    pub fn power_of_two(self, key: &str, value: u32, least: u32, most: u32) -> Checked {
        self.within(key, value, least, most)?;
        self.holds(key, value.is_power_of_two(), || {
            format!("{value} is not a power of two")
        })
    }

    /// `condition` must hold, else `what` says why the parameter is wrong.
    ///
    /// # Errors
    /// Names the parameter.
    pub fn holds(self, key: &str, condition: bool, what: impl FnOnce() -> String) -> Checked {
        if condition {
            return Ok(());
        }
        Err(Wrong::new(&self.key(key), what()))
    }
}
