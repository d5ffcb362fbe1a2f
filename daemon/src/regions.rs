//! Regions of interest as the command line names them: a symbol, or an address range.

use std::fmt;
use std::str::FromStr;

use mcad_proto::event::{ModuleDef, RegionDef};
use mcad_proto::word::GuestAddr;

use crate::symbols::Symbols;

/// What `--region` was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionSpec {
    /// A function, by its linker or source name; the first module that has it counts.
    Symbol(String),
    /// Guest addresses, the second exclusive.
    Range(GuestAddr, GuestAddr),
}

/// Text that names no region.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// Nothing given.
    #[error("a region is a symbol or START-END in hexadecimal")]
    Empty,
    /// The end does not lie behind the start.
    #[error("region {0}: the end must lie behind the start")]
    Backwards(String),
}

impl FromStr for RegionSpec {
    type Err = RegionError;

    /// Two hexadecimal numbers with a dash between are a range; everything else is a symbol. At
    /// least one number needs `0x` or a decimal first digit, so that a name such as `add-dec`
    /// stays a name.
    fn from_str(text: &str) -> Result<Self, RegionError> {
        if text.is_empty() {
            return Err(RegionError::Empty);
        }
        let range = text.split_once('-').and_then(|(start, end)| {
            let looks_numeric = |t: &str| t.starts_with(|c: char| c.is_ascii_digit());
            if !looks_numeric(start) && !looks_numeric(end) {
                return None;
            }
            Some((hex(start)?, hex(end)?))
        });
        match range {
            Some((start, end)) if start < end => Ok(Self::Range(start, end)),
            Some(_) => Err(RegionError::Backwards(text.to_owned())),
            None => Ok(Self::Symbol(text.to_owned())),
        }
    }
}

fn hex(text: &str) -> Option<GuestAddr> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    // `from_str_radix` would take a sign.
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok().map(GuestAddr)
}

impl fmt::Display for RegionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symbol(name) => f.write_str(name),
            Self::Range(start, end) => write!(f, "{:#x}-{:#x}", start.0, end.0),
        }
    }
}

/// The regions of one session: which have addresses already, and which wait for a module.
#[derive(Debug)]
pub struct Regions {
    waiting: Vec<String>,
    fixed: Vec<RegionDef>,
}

impl Regions {
    /// Takes what was asked for.
    #[must_use]
    pub fn new(specs: &[RegionSpec]) -> Self {
        let mut regions = Self {
            waiting: Vec::new(),
            fixed: Vec::new(),
        };
        for spec in specs {
            match spec {
                RegionSpec::Symbol(name) if !regions.waiting.contains(name) => {
                    regions.waiting.push(name.clone());
                }
                RegionSpec::Symbol(_) => {}
                RegionSpec::Range(start, end) => regions.fixed.push(RegionDef {
                    name: spec.to_string(),
                    start: *start,
                    end: *end,
                }),
            }
        }
        regions
    }

    /// The regions that need no module; given once.
    pub fn take_fixed(&mut self) -> Vec<RegionDef> {
        std::mem::take(&mut self.fixed)
    }

    /// The regions that this module has.
    pub fn resolve(&mut self, module: &ModuleDef, symbols: &Symbols) -> Vec<RegionDef> {
        let mut found = Vec::new();
        self.waiting
            .retain(|name| match symbols.find(name, module) {
                Some(region) => {
                    found.push(region);
                    false
                }
                None => true,
            });
        found
    }

    /// Symbols that no module had.
    #[must_use]
    pub fn unresolved(&self) -> &[String] {
        &self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_names_are_told_apart() {
        let range = |start, end| Ok(RegionSpec::Range(GuestAddr(start), GuestAddr(end)));
        let name = |text: &str| Ok(RegionSpec::Symbol(text.to_owned()));
        assert_eq!("0x1000-0x1fff".parse(), range(0x1000, 0x1fff));
        assert_eq!(
            "4000001000-40000010ff".parse(),
            range(0x40_0000_1000, 0x40_0000_10ff)
        );
        assert_eq!("main".parse(), name("main"));
        assert_eq!("add-dec".parse(), name("add-dec"));
        assert_eq!("operator-(int)".parse(), name("operator-(int)"));
        assert_eq!("0x10-+20".parse(), name("0x10-+20"));
        assert_eq!(
            "0x20-0x10".parse::<RegionSpec>(),
            Err(RegionError::Backwards("0x20-0x10".into()))
        );
        assert_eq!("".parse::<RegionSpec>(), Err(RegionError::Empty));
    }
}
