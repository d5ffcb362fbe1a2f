//! Functions of a report, and samples of `perf script` that belong to them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use object::read::{Object, ObjectSegment};
use serde_json::Value;

/// A function of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    module: String,
    function: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.module, self.function)
    }
}

/// Cycles of functions, simulated.
#[derive(Debug, Default)]
pub struct Functions {
    cycles: BTreeMap<Name, f64>,
    /// Where those begin that have no symbol and are named so, by the file's name.
    unnamed: BTreeMap<String, BTreeMap<u64, Name>>,
}

impl Functions {
    /// Those of a report's first CPU.
    ///
    /// # Errors
    /// When it has none.
    pub fn of(report: &Value) -> Result<Self> {
        let all = report
            .pointer("/cpus/0/functions")
            .and_then(Value::as_array);
        let mut functions = Self::default();
        for function in all.context("the report has no functions")? {
            let text = |key: &str| function.get(key).and_then(Value::as_str);
            let (Some(name), Some(cycles)) =
                (text("name"), function.get("cycles").and_then(Value::as_f64))
            else {
                continue;
            };
            let name = Name {
                module: text("module").unwrap_or("?").to_owned(),
                function: name.to_owned(),
            };
            if let Some(at) = place(&name) {
                let module = functions.unnamed.entry(name.module.clone());
                module.or_default().insert(at, name.clone());
            }
            *functions.cycles.entry(name).or_default() += cycles;
        }
        Ok(functions)
    }

    /// Cycles of all.
    pub fn cycles(&self) -> f64 {
        self.cycles.values().sum()
    }

    /// Cycles of one; none of one that was not simulated.
    pub fn of_name(&self, name: &Name) -> f64 {
        self.cycles.get(name).copied().unwrap_or(0.0)
    }

    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.cycles.keys()
    }

    /// The one that a sample belongs to: that of its symbol, or without one, or in a table of jumps, the last that begins before it.
    fn find(&self, sample: &Sample<'_>, address: Option<u64>) -> Name {
        let module = Path::new(sample.file).file_name();
        let module = module.map_or("?".into(), |name| name.to_string_lossy());
        let symbol = Name {
            module: module.clone().into_owned(),
            // A symbol's version and kind are no part of its name.
            function: sample
                .symbol
                .split('@')
                .next()
                .unwrap_or_default()
                .to_owned(),
        };
        if !sample.symbol.starts_with('[') && !sample.symbol.contains("@plt") {
            return symbol;
        }
        let begins = (self.unnamed.get(&*module))
            .and_then(|begins| begins.range(..=address?).next_back())
            .map(|(_, name)| name.clone());
        begins.unwrap_or(symbol)
    }
}

/// Where a function without a symbol begins: its name is that of its file and `+0x…`.
fn place(name: &Name) -> Option<u64> {
    let offset = name.function.strip_prefix(&name.module)?;
    u64::from_str_radix(offset.strip_prefix("+0x")?, 16).ok()
}

/// A sample as `perf script` prints it.
struct Sample<'a> {
    address: u64,
    symbol: &'a str,
    file: &'a str,
}

impl<'a> Sample<'a> {
    /// `ip symbol (file)`.
    fn of(line: &'a str) -> Option<Self> {
        let (address, rest) = line.trim_start().split_once(' ')?;
        let (symbol, file) = rest.strip_suffix(')')?.rsplit_once('(')?;
        Some(Self {
            address: u64::from_str_radix(address, 16).ok()?,
            symbol: symbol.trim(),
            file,
        })
    }
}

/// A file's bytes in memory.
#[derive(Debug, PartialEq)]
struct Mapping {
    start: u64,
    length: u64,
    offset: u64,
    file: String,
}

impl Mapping {
    /// `… PERF_RECORD_MMAP2 pid/tid: [start(length) @ offset …]: protection file`.
    fn of(line: &str) -> Option<Self> {
        let (_, event) = line.split_once("PERF_RECORD_MMAP")?;
        let (_, event) = event.split_once('[')?;
        let (place, file) = event.split_once("]: ")?;
        let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let (start, rest) = place.split_once('(')?;
        let (length, rest) = rest.split_once(") @ ")?;
        Some(Self {
            start: hex(start)?,
            length: hex(length)?,
            offset: match rest.split(' ').next()? {
                "0" => 0,
                offset => hex(offset)?,
            },
            file: file.split_once(' ')?.1.trim().to_owned(),
        })
    }

    fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.length
    }
}

/// Samples of functions.
#[derive(Debug, Default)]
pub struct Samples {
    of: BTreeMap<Name, u64>,
    /// Of each file's segments the first byte in the file, how many, and the address of the first.
    segments: BTreeMap<String, Vec<(u64, u64, u64)>>,
}

impl Samples {
    /// Adds those that `perf script` prints of a run.
    pub fn add(&mut self, script: &str, functions: &Functions) {
        let mut mappings = Vec::new();
        for line in script.lines() {
            if let Some(mapping) = Mapping::of(line) {
                mappings.push(mapping);
            } else if let Some(sample) = Sample::of(line) {
                let within = |m: &&Mapping| m.has(sample.address);
                // The latest is what is there.
                let mapping = mappings.iter().rev().find(within);
                let address = mapping.and_then(|m| self.address(m, sample.address));
                *self.of.entry(functions.find(&sample, address)).or_default() += 1;
            }
        }
    }

    /// The address in its file of a place in memory.
    fn address(&mut self, mapping: &Mapping, place: u64) -> Option<u64> {
        if !self.segments.contains_key(&mapping.file) {
            let segments = segments(&mapping.file).unwrap_or_default();
            self.segments.insert(mapping.file.clone(), segments);
        }
        let byte = place - mapping.start + mapping.offset;
        let mut segments = self.segments.get(&mapping.file)?.iter();
        let (first, _, address) =
            segments.find(|(first, bytes, _)| byte.wrapping_sub(*first) < *bytes)?;
        Some(byte - first + address)
    }

    pub fn all(&self) -> u64 {
        self.of.values().sum()
    }

    pub fn of(&self, name: &Name) -> u64 {
        self.of.get(name).copied().unwrap_or(0)
    }

    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.of.keys()
    }
}

fn segments(file: &str) -> Option<Vec<(u64, u64, u64)>> {
    let bytes = std::fs::read(file).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let segment = |s: object::Segment<'_, '_>| {
        let (first, length) = s.file_range();
        (first, length, s.address())
    };
    let all: BTreeSet<_> = file.segments().map(segment).collect();
    Some(all.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
PERF_RECORD_MMAP2 7/7: [0x5500000000(0x2000) @ 0x1000 fe:00 1 0]: r-xp /no/such/tool
PERF_RECORD_MMAP2 7/7: [0x7f0000000000(0x1000) @ 0 fe:00 2 0]: r-xp /no/such/libx.so
      5500000010 main (/no/such/tool)
      7f0000000010 copy@plt (/no/such/libx.so)
      7f0000000020 copy@@X_1.0 (/no/such/libx.so)
      7f0000000030 [unknown] (/no/such/libx.so)
      7ffe00000000 [vdso] ([vdso])
";

    fn functions() -> Functions {
        let report = serde_json::json!({"cpus": [{"functions": [
            {"name": "main", "module": "tool", "cycles": 5.0},
            {"name": "copy", "module": "libx.so", "cycles": 3.0},
            {"name": "libx.so+0x20", "module": "libx.so", "cycles": 2.0},
        ]}]});
        Functions::of(&report).unwrap()
    }

    #[test]
    fn lines_of_perf_script_are_read() {
        let mapping = Mapping::of(SCRIPT.lines().next().unwrap()).unwrap();
        let expected = Mapping {
            start: 0x55_0000_0000,
            length: 0x2000,
            offset: 0x1000,
            file: "/no/such/tool".to_owned(),
        };
        assert_eq!(mapping, expected);
        assert!(mapping.has(0x55_0000_1fff) && !mapping.has(0x55_0000_2000));
        let sample = Sample::of(SCRIPT.lines().nth(3).unwrap()).unwrap();
        assert_eq!(
            (sample.address, sample.symbol),
            (0x7f00_0000_0010, "copy@plt")
        );
        for broken in ["", "PERF_RECORD_MMAP2", "zz main (/x)", "10 main"] {
            assert!(
                Sample::of(broken).is_none() && Mapping::of(broken).is_none(),
                "{broken}"
            );
        }
    }

    #[test]
    fn samples_belong_to_their_symbol_or_to_what_begins_before_them() {
        let functions = functions();
        assert_eq!(functions.cycles(), 10.0);
        let mut samples = Samples::default();
        // The library's bytes lie at their addresses.
        samples
            .segments
            .insert("/no/such/libx.so".to_owned(), vec![(0, 0x1000, 0)]);
        samples.add(SCRIPT, &functions);
        let of = |module: &str, function: &str| {
            samples.of(&Name {
                module: module.to_owned(),
                function: function.to_owned(),
            })
        };
        assert_eq!(samples.all(), 5);
        assert_eq!(of("tool", "main"), 1);
        assert_eq!(of("libx.so", "copy"), 2);
        assert_eq!(of("libx.so", "libx.so+0x20"), 1);
        assert_eq!(of("[vdso]", "[vdso]"), 1);
    }
}
