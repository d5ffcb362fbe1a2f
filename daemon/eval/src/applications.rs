//! Where blocks come from: files of `application,hex,weight` lines, as BHive's suite has them.
//!
//! The weight is how often an application executes the block, in any unit: within an application
//! weights are divided by their sum. What stands before the first `-` of a name is the
//! application, what follows one of its programs (`openblas-dgemm.goto`); the programs of an
//! application count the same, and so do the applications where they are taken together.

use std::collections::BTreeMap;
use std::io::Read;

use anyhow::bail;
use rustc_hash::FxHashMap;
use serde::Serialize;

use mcad_daemon::eval::lines::Lines;
use mcad_daemon::eval::table::MAX_ROWS;
use mcad_daemon::eval::{Measures, Pair};

use crate::evaluation::Group;

/// Applications with their blocks.
#[derive(Debug, Default)]
pub struct Applications {
    /// Names, ascending.
    names: Vec<String>,
    /// For each block, its share of the weight of each application that has it.
    blocks: FxHashMap<String, Vec<(usize, f64)>>,
    /// Lines without bytes: their weight is counted, and no block stands for it.
    pub empty: usize,
}

/// Measures weighted by how often blocks are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Weighted {
    /// Share of the weight of all blocks that the evaluated ones carry.
    pub covered: f64,
    /// Weighted mean of the errors, as a fraction.
    pub mape: f64,
    /// Share of the weight within 5 % or [`mcad_daemon::eval::stats::ROUNDING`].
    pub within_5_percent: f64,
}

impl Weighted {
    /// Measures over pairs with their weights, which are shares of the whole.
    pub fn of<'a>(pairs: impl Iterator<Item = (&'a Pair, f64)>) -> Self {
        let mut sums = Self::default();
        for (pair, weight) in pairs {
            sums.covered += weight;
            sums.mape += weight * pair.error();
            sums.within_5_percent += weight * f64::from(u8::from(pair.is_within(0.05)));
        }
        if sums.covered > 0.0 {
            sums.mape /= sums.covered;
            sums.within_5_percent /= sums.covered;
        }
        sums
    }
}

impl Applications {
    /// Reads a file; empty lines and a heading are passed over.
    ///
    /// # Errors
    /// Names the file and the line.
    pub fn read(input: impl Read, name: &str) -> anyhow::Result<Self> {
        let mut programs: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
        let mut empty = 0;
        let mut lines = Lines::new(input, name);
        let mut rows = 0;
        while let Some((n, line)) = lines.next_line()? {
            if line.is_empty() || n == 1 && line.starts_with("application,") {
                continue;
            }
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let parsed = match fields.as_slice() {
                [program, hex, weight, ..] if !program.is_empty() => {
                    Some((program, hex.to_ascii_lowercase(), weight.parse::<f64>()))
                }
                _ => None,
            };
            let Some((program, hex, Ok(weight))) = parsed else {
                bail!("{name}, line {n}: not application,hex,weight");
            };
            if !weight.is_finite() || weight < 0.0 {
                bail!("{name}, line {n}: '{weight}' is no weight");
            }
            rows += 1;
            if rows > MAX_ROWS {
                bail!("{name} has more than {MAX_ROWS} rows");
            }
            empty += usize::from(hex.is_empty());
            let blocks = programs.entry((*program).to_owned()).or_default();
            blocks.push((hex, weight));
        }
        if programs.is_empty() {
            bail!("{name} has no blocks; its lines should be application,hex,weight");
        }
        Ok(Self::of(&programs, empty))
    }

    fn of(programs: &BTreeMap<String, Vec<(String, f64)>>, empty: usize) -> Self {
        let application = |program: &str| program.split('-').next().unwrap_or(program).to_owned();
        let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
        for program in programs.keys() {
            *sizes.entry(application(program)).or_default() += 1;
        }
        let names: Vec<String> = sizes.keys().cloned().collect();
        let mut blocks: FxHashMap<String, Vec<(usize, f64)>> = FxHashMap::default();
        for (program, rows) in programs {
            let name = application(program);
            let place = names.partition_point(|n| *n < name);
            let programs = sizes.get(&name).copied().unwrap_or(1) as f64;
            let total: f64 = rows.iter().map(|row| row.1).sum();
            for (hex, weight) in rows.iter().filter(|row| !row.0.is_empty()) {
                let share = if total > 0.0 {
                    weight / total / programs
                } else {
                    0.0
                };
                let of_block = blocks.entry(hex.clone()).or_default();
                match of_block.iter_mut().find(|(n, _)| *n == place) {
                    Some((_, sum)) => *sum += share,
                    None => of_block.push((place, share)),
                }
            }
        }
        Self {
            names,
            blocks,
            empty,
        }
    }

    /// All distinct blocks, in no order.
    pub fn blocks(&self) -> impl Iterator<Item = &str> {
        self.blocks.keys().map(String::as_str)
    }

    /// A block's share of the weight of all applications.
    #[must_use]
    pub fn weight(&self, hex: &str) -> f64 {
        let shares = self.blocks.get(hex).map_or(&[][..], Vec::as_slice);
        shares.iter().map(|(_, share)| share).sum::<f64>() / self.names.len().max(1) as f64
    }

    /// The measures of each application.
    #[must_use]
    pub fn measures(&self, pairs: &[Pair]) -> Vec<Group> {
        let mut of: Vec<Vec<(&Pair, f64)>> = vec![Vec::new(); self.names.len()];
        for pair in pairs {
            for (place, share) in self.blocks.get(&pair.hex).into_iter().flatten() {
                if let Some(pairs) = of.get_mut(*place) {
                    pairs.push((pair, *share));
                }
            }
        }
        let groups = self.names.iter().zip(of);
        groups
            .map(|(name, pairs)| Group {
                name: name.clone(),
                measures: Measures::of(pairs.iter().map(|(pair, _)| *pair)),
                weighted: Some(Weighted::of(pairs.into_iter())),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(hex: &str, prediction: f64) -> Pair {
        Pair {
            hex: hex.into(),
            label: 1.0,
            prediction: Some(prediction),
            reason: None,
        }
    }

    #[test]
    fn programs_and_applications_count_the_same() {
        // blas-a: 90 three quarters, c3 one; blas-b: 90 whole, in another unit. zip: 48 alone.
        let text =
            "application,hex,weight\nblas-a,90,0.3\nblas-a,C3,0.1\nblas-b,90,7\n\nzip,48,1\n";
        let applications = Applications::read(text.as_bytes(), "f").unwrap();
        assert!((applications.weight("90") - (0.75 + 1.0) / 2.0 / 2.0).abs() < 1e-12);
        assert!((applications.weight("c3") - 0.25 / 2.0 / 2.0).abs() < 1e-12);
        assert_eq!(applications.weight("ff"), 0.0);
        let mut blocks: Vec<_> = applications.blocks().collect();
        blocks.sort_unstable();
        assert_eq!(blocks, ["48", "90", "c3"]);

        let pairs = [pair("90", 1.5), pair("c3", 1.0), pair("ff", 9.0)];
        let groups = applications.measures(&pairs);
        assert_eq!(groups[0].name, "blas");
        assert_eq!(
            (groups[0].measures.blocks, groups[0].measures.mape),
            (2, 0.25)
        );
        let weighted = groups[0].weighted.unwrap();
        assert!((weighted.covered - 1.0).abs() < 1e-12);
        assert!((weighted.mape - 0.875 * 0.5).abs() < 1e-12);
        assert!((weighted.within_5_percent - 0.125).abs() < 1e-12);
        // No label for its only block.
        assert_eq!(
            (groups[1].name.as_str(), groups[1].measures.blocks),
            ("zip", 0)
        );
        assert_eq!(groups[1].weighted.unwrap(), Weighted::default());
    }

    #[test]
    fn weight_without_bytes_is_counted_and_not_covered() {
        let applications = Applications::read("a,,3\na,90,1\n".as_bytes(), "f").unwrap();
        assert_eq!(applications.empty, 1);
        assert_eq!(applications.weight("90"), 0.25);
    }

    #[test]
    fn lines_that_are_wrong_are_named() {
        let error = |text: &str| {
            let error = Applications::read(text.as_bytes(), "f").unwrap_err();
            error.to_string()
        };
        assert!(error("a,90,1\na,90\n").contains("f, line 2"));
        assert!(error("a,90,x\n").contains("f, line 1"));
        assert!(error("a,90,-1\n").contains("no weight"));
        assert!(error("").contains("no blocks"));
    }
}
