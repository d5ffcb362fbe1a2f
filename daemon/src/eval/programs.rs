//! Whole programs: predicted against measured cycles, absolute and from version to version.
//!
//! Beside every ratio of cycles stands the ratio of instructions, which is what anybody has without
//! a model. Errors of a ratio are (predicted ratio / measured ratio - 1). What the labels' own spread
//! would make of it for a model that is right is [`LabelNoise`].

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize, Serializer};

/// A line of a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Package, whose versions make a series in the order of the list.
    #[serde(alias = "pypi_package")]
    pub package: String,
    /// Its version.
    #[serde(alias = "package_version")]
    pub version: String,
    /// The program's file name in the package, or its absolute path, which needs no package.
    pub program: String,
    /// The command, which begins with it.
    pub command: String,
    /// The file among the inputs that it reads as its standard input; nothing without.
    #[serde(default)]
    pub stdin: Option<String>,
    /// Measured user cycles: median over runs; zero where nothing was measured yet.
    #[serde(default, serialize_with = "whole")]
    pub user_cycles: f64,
    /// Interquartile range of the runs over their median.
    #[serde(default)]
    pub interquartile_over_median: Option<f64>,
    /// How many runs these are of.
    #[serde(default)]
    pub runs: Option<u32>,
    /// Least measured user cycles.
    #[serde(default, serialize_with = "whole_if_known")]
    pub min_cycles: Option<f64>,
    /// `GLIBC_TUNABLES` under which it was measured.
    #[serde(default)]
    pub tunables: Option<String>,
    /// KiB of the third level of cache that the machine had for it; what the model's file says without.
    #[serde(default)]
    pub last_level_kib: Option<u32>,
    /// The core's clock in MHz while it was measured; what the model's file says without.
    #[serde(default)]
    pub core_mhz: Option<u32>,
    /// CPU that QEMU shows the program.
    #[serde(default)]
    pub qemu_cpu: Option<String>,
    /// Other environment, `NAME=VALUE` words.
    #[serde(default)]
    pub environment: Option<String>,
}

/// Cycles as whole numbers.
fn whole<S: Serializer>(cycles: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(cycles.round() as u64)
}

fn whole_if_known<S: Serializer>(cycles: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match cycles {
        Some(cycles) => whole(cycles, serializer),
        None => serializer.serialize_none(),
    }
}

/// Reads a list: CSV with the names of [`Row`]'s fields in its first line.
///
/// # Errors
/// When it cannot be read or a line is none.
pub fn read(path: &Path) -> anyhow::Result<Vec<Row>> {
    let name = path.display();
    let mut reader = csv::Reader::from_path(path).with_context(|| format!("cannot read {name}"))?;
    let rows = reader
        .deserialize()
        .enumerate()
        .map(|(n, row)| row.with_context(|| format!("{name}: line {} is no program", n + 2)));
    rows.collect()
}

/// Gives all versions of a package one machine: the median share of the third level of cache and the median clock of those that
/// have them.
///
/// Each version's own are measured within minutes of the others' and move by themselves (a factor of four in the share), which
/// would be in every ratio of two predictions: 12 % for two versions of clang-format with 10 and 16 MiB.
pub fn on_one_machine<'a>(rows: impl Iterator<Item = &'a mut Row>) {
    let mut packages: BTreeMap<String, Vec<&mut Row>> = BTreeMap::new();
    for row in rows {
        packages.entry(row.package.clone()).or_default().push(row);
    }
    for rows in packages.values_mut() {
        let median = |of: fn(&Row) -> Option<u32>| {
            let mut known: Vec<u32> = rows.iter().filter_map(|row| of(row)).collect();
            known.sort_unstable();
            // The lower one of two: a share that was there.
            known.get(known.len().saturating_sub(1) / 2).copied()
        };
        let share = median(|row| row.last_level_kib);
        let clock = median(|row| row.core_mhz);
        for row in rows {
            row.last_level_kib = row.last_level_kib.and(share);
            row.core_mhz = row.core_mhz.and(clock);
        }
    }
}

/// A program with its prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// The list's line.
    #[serde(flatten)]
    pub row: Row,
    /// Predicted cycles.
    pub predicted_cycles: f64,
    /// Instructions of the traced run.
    pub instructions: f64,
}

impl Predicted {
    /// Error of the predicted cycles.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted_cycles / self.row.user_cycles - 1.0
    }
}

/// Errors of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// How many.
    pub count: usize,
    /// Mean of their absolute values.
    pub mean: f64,
    /// Greatest absolute value.
    pub worst: f64,
}

impl Errors {
    /// Those of the cycles of all programs.
    #[must_use]
    pub fn of_all(series: &[Series]) -> Self {
        let programs = series.iter().flat_map(|series| &series.programs);
        Self::of(programs.map(Predicted::error))
    }

    fn of(errors: impl Iterator<Item = f64>) -> Self {
        let mut all = Self::default();
        for error in errors.map(f64::abs) {
            all.count += 1;
            all.mean += error;
            all.worst = all.worst.max(error);
        }
        if all.count > 0 {
            all.mean /= all.count as f64;
        }
        all
    }
}

/// Standard deviations between the quartiles of a normal distribution.
const QUARTILES: f64 = 1.349;

/// Mean error of ratios from version to version that the labels' spread alone gives: what a model that
/// is right would be off by.
///
/// Runs are taken to be normal, so that one has a standard deviation of the quartiles' distance over
/// 1.349, and two labels to be independent: the error of their ratio is then normal with the two
/// variances' sum, and the mean of its absolute value `sqrt(2 / π)` of its standard deviation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LabelNoise {
    /// The runs of a label share what moved it (a machine's other guests last longer than a run): it is
    /// as uncertain as one of them. An upper bound.
    pub as_one_run: f64,
    /// They are independent: their median has `sqrt(π / 2 / runs)` of the standard deviation of one. A lower
    /// bound; none where the list does not say how many runs there were.
    pub independent_runs: Option<f64>,
}

impl LabelNoise {
    /// Of a series; none without versions to compare, or where a spread is not known.
    fn of(programs: &[Predicted]) -> Option<Self> {
        let mut pairs = Vec::new();
        let mut of_medians = Some(Vec::new());
        for pair in programs.windows(2) {
            let [from, to] = pair else { continue };
            let one_run = |p: &Predicted| Some(p.row.interquartile_over_median? / QUARTILES);
            let median = |p: &Predicted| {
                let runs = f64::from(p.row.runs.filter(|&runs| runs > 0)?);
                Some(one_run(p)? * (std::f64::consts::FRAC_PI_2 / runs).sqrt())
            };
            pairs.push(one_run(from)?.hypot(one_run(to)?));
            of_medians = of_medians.and_then(|mut all: Vec<f64>| {
                all.push(median(from)?.hypot(median(to)?));
                Some(all)
            });
        }
        let mean = |deviations: &[f64]| {
            let sum: f64 = deviations.iter().sum();
            std::f64::consts::FRAC_2_PI.sqrt() * sum / deviations.len() as f64
        };
        (!pairs.is_empty()).then(|| Self {
            as_one_run: mean(&pairs),
            independent_runs: of_medians.as_deref().map(mean),
        })
    }
}

/// The versions of one package.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The package.
    pub package: String,
    /// Its versions.
    pub programs: Vec<Predicted>,
    /// Errors of the cycles themselves.
    pub absolute: Errors,
    /// Errors of the ratio of a version to the one before.
    pub consecutive: Errors,
    /// The same from counting instructions.
    pub consecutive_by_instructions: Errors,
    /// What the labels' own spread would make of the former.
    pub consecutive_by_spread: Option<LabelNoise>,
    /// Errors of the ratio of a version to the first.
    pub against_first: Errors,
    /// The same from counting instructions.
    pub against_first_by_instructions: Errors,
    /// Interquartile range of the labels over their median, mean over the versions: how well a
    /// ratio is known.
    pub spread: Option<f64>,
}

type Figure = fn(&Predicted) -> f64;
const CYCLES: Figure = |p| p.predicted_cycles;
const INSTRUCTIONS: Figure = |p| p.instructions;

fn ratio_error(figure: Figure, from: &Predicted, to: &Predicted) -> f64 {
    let measured = to.row.user_cycles / from.row.user_cycles;
    figure(to) / figure(from) / measured - 1.0
}

/// Puts programs together by package, in the order of the list.
#[must_use]
pub fn series(programs: Vec<Predicted>) -> Vec<Series> {
    let mut groups: Vec<(String, Vec<Predicted>)> = Vec::new();
    for program in programs {
        match groups
            .iter_mut()
            .find(|(name, _)| *name == program.row.package)
        {
            Some((_, group)) => group.push(program),
            None => groups.push((program.row.package.clone(), vec![program])),
        }
    }
    let of = |(package, programs): (String, Vec<Predicted>)| {
        let consecutive = |figure: Figure| {
            Errors::of(programs.windows(2).filter_map(|pair| match pair {
                [from, to] => Some(ratio_error(figure, from, to)),
                _ => None,
            }))
        };
        let first = |figure: Figure| {
            let errors = programs.first().map(|first| {
                Errors::of(
                    programs
                        .iter()
                        .skip(1)
                        .map(|p| ratio_error(figure, first, p)),
                )
            });
            errors.unwrap_or_default()
        };
        let spreads: Vec<f64> = (programs.iter())
            .filter_map(|p| p.row.interquartile_over_median)
            .collect();
        Series {
            absolute: Errors::of(programs.iter().map(Predicted::error)),
            consecutive: consecutive(CYCLES),
            consecutive_by_instructions: consecutive(INSTRUCTIONS),
            consecutive_by_spread: LabelNoise::of(&programs),
            against_first: first(CYCLES),
            against_first_by_instructions: first(INSTRUCTIONS),
            spread: (!spreads.is_empty())
                .then(|| spreads.iter().sum::<f64>() / spreads.len() as f64),
            package,
            programs,
        }
    };
    groups.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(version: &str, measured: f64, predicted: f64, instructions: f64) -> Predicted {
        Predicted {
            row: Row {
                package: "p".into(),
                version: version.into(),
                program: "p".into(),
                command: "p".into(),
                user_cycles: measured,
                interquartile_over_median: Some(0.01),
                runs: Some(25),
                ..Row::default()
            },
            predicted_cycles: predicted,
            instructions,
        }
    }

    #[test]
    fn a_constant_factor_is_an_absolute_error_only() {
        let programs = vec![
            program("1", 100.0, 80.0, 300.0),
            program("2", 110.0, 88.0, 300.0),
            program("3", 121.0, 96.8, 363.0),
        ];
        let all = series(programs);
        let [one] = &all[..] else {
            unreachable!("one package");
        };
        assert!((one.absolute.mean - 0.2).abs() < 1e-9);
        assert!(one.consecutive.worst < 1e-9 && one.against_first.worst < 1e-9);
        assert_eq!(one.consecutive.count, 2);
        // 1 for 1.1, then 1.21 for 1.1.
        let counted = one.consecutive_by_instructions;
        assert!((counted.mean - (1.0 / 11.0 + 0.1) / 2.0).abs() < 1e-9);
        assert_eq!(one.spread, Some(0.01));
    }

    #[test]
    fn versions_are_on_one_machine() {
        let row = |package: &str, last_level_kib, core_mhz| Row {
            package: package.into(),
            last_level_kib,
            core_mhz,
            ..Row::default()
        };
        let mut rows = [
            row("a", Some(16), Some(3000)),
            row("b", Some(99), None),
            row("a", Some(4), Some(3200)),
            row("a", None, Some(3100)),
            row("a", Some(6), None),
        ];
        on_one_machine(rows.iter_mut());
        let shares = rows.each_ref().map(|row| row.last_level_kib);
        assert_eq!(shares, [Some(6), Some(99), Some(6), None, Some(6)]);
        let clocks = rows.each_ref().map(|row| row.core_mhz);
        assert_eq!(clocks, [Some(3100), None, Some(3100), Some(3100), None]);
    }

    #[test]
    fn labels_that_spread_tell_ratios_only_so_well() {
        let mut programs = vec![
            program("1", 100.0, 100.0, 1.0),
            program("2", 100.0, 100.0, 1.0),
        ];
        let noise = LabelNoise::of(&programs).unwrap();
        // Quartiles 1 % apart: two deviations of 0.741 %, and the mean of a normal error's size.
        let one_run = 0.01 / 1.349 * 2f64.sqrt() * 0.797_884_560_8;
        assert!((noise.as_one_run - one_run).abs() < 1e-9);
        let median = one_run * 1.253_314_137_3 / 5.0;
        assert!((noise.independent_runs.unwrap() - median).abs() < 1e-9);
        // The same from drawn labels: sums of twelve uniform numbers are nearly normal.
        let mut random = fastrand::Rng::with_seed(11);
        let mut label = || 1.0 + 0.01 / 1.349 * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0);
        let mut off = || (label() / label() - 1.0).abs();
        let drawn = (0..100_000).map(|_| off()).sum::<f64>() / 1e5;
        assert!((drawn / noise.as_one_run - 1.0).abs() < 0.02, "{drawn}");
        programs[1].row.runs = None;
        assert_eq!(LabelNoise::of(&programs).unwrap().independent_runs, None);
        programs[1].row.interquartile_over_median = None;
        assert_eq!(LabelNoise::of(&programs), None);
        assert_eq!(LabelNoise::of(&programs[..1]), None);
    }
}
