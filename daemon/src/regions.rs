//! Regions of interest as the command line names them: a symbol, a function as reports name it
//! (`gzip+0x4290`), or an address range. The addresses of a range are the guest's, or those that
//! the program's file has (what `nm` and `objdump` show), which differ for programs that are
//! loaded anywhere.

use std::fmt;
use std::str::FromStr;

use mcad_proto::event::{ModuleDef, RegionDef, is_shared_object};
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

/// The regions of one session that wait for the module or code that they are in.
#[derive(Debug)]
pub struct Regions {
    waiting: Vec<RegionSpec>,
    /// Path of the program, once it is mapped.
    program: Option<String>,
}

impl Regions {
    /// Takes what was asked for.
    #[must_use]
    pub fn new(specs: &[RegionSpec]) -> Self {
        let mut waiting: Vec<RegionSpec> = Vec::new();
        for spec in specs {
            if !waiting.contains(spec) {
                waiting.push(spec.clone());
            }
        }
        Self {
            waiting,
            program: None,
        }
    }

    /// The regions that this module has.
    pub fn resolve(&mut self, module: &ModuleDef, symbols: &Symbols) -> Vec<RegionDef> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        if self.program.is_none() && may_be_program(&module.path) {
            self.program = Some(module.path.clone());
        }
        let is_program = self.program.as_ref() == Some(&module.path);
        self.take(|spec| match spec {
            RegionSpec::Symbol(name) => symbols
                .find(name, module)
                .or_else(|| symbols.find_place(name, module)),
            RegionSpec::Range(start, end) if is_program => {
                symbols.find_range(start.0..end.0, &spec.to_string(), module)
            }
            RegionSpec::Range(..) => None,
        })
    }

    /// The ranges that this code is in, as the guest has it.
    pub fn reached(&mut self, address: GuestAddr) -> Vec<RegionDef> {
        self.take(|spec| match spec {
            RegionSpec::Range(start, end) if *start <= address && address < *end => {
                Some(RegionDef {
                    name: spec.to_string(),
                    start: *start,
                    end: *end,
                })
            }
            _ => None,
        })
    }

    /// The regions that are found now wait no longer.
    fn take(&mut self, find: impl Fn(&RegionSpec) -> Option<RegionDef>) -> Vec<RegionDef> {
        let mut found = Vec::new();
        self.waiting.retain(|spec| {
            let region = find(spec);
            let waits = region.is_none();
            found.extend(region);
            waits
        });
        found
    }

    /// What is to be said of the regions that were never found.
    pub fn unresolved(&self, symbols: &Symbols) -> Vec<String> {
        let of = |spec: &RegionSpec| match spec {
            RegionSpec::Range(..) => format!(
                "{} no code was executed there, and the program's file has none there",
                never_found(spec)
            ),
            RegionSpec::Symbol(name) => {
                let near = symbols.near(name);
                let hint = match near.as_slice() {
                    [] => String::new(),
                    names => format!("; did you mean {}?", names.join(" or ")),
                };
                format!(
                    "{} no mapped file has a function of that name{hint}",
                    never_found(spec)
                )
            }
        };
        self.waiting.iter().map(of).collect()
    }
}

/// Whether a file is the program: its loader and libraries are called otherwise, and one of them
/// is mapped first.
fn may_be_program(path: &str) -> bool {
    path.starts_with('/') && !is_shared_object(path)
}

/// How the note of a region begins that was never found.
#[must_use]
pub fn never_found(spec: &RegionSpec) -> String {
    format!("region '{spec}' was never found:")
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

    #[test]
    fn a_program_may_have_a_name_that_begins_like_a_librarys() {
        assert!(may_be_program("/home/x.sort"));
        assert!(!may_be_program("/lib/libc.so.6") && !may_be_program("[vdso]"));
    }
}
