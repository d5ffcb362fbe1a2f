//! Probes of a core: small generated programs, each for one mechanism, run natively here and in
//! the simulation from the same file.
//!
//! A [`Probe`] is a curve: for each [`Point`] of its axis it generates a program, in the syntax of
//! the GNU assembler. [`program`] puts the same frame around all of them, [`native`] assembles and
//! runs them. The frame runs the measured part `rounds` times, each time after a chain of
//! multiplications whose length in core cycles is known, and writes the ticks of both to its
//! output; under the simulation the measured part is the region [`program::REGION`].
//!
//! To add a probe, write a file in `probe/` and name it in [`probes`].

mod aliasing;
mod alike;
mod behind_jumps;
mod between;
mod branches;
mod chase;
mod code;
mod copied;
mod crossing;
mod fills;
mod foretold;
mod forwarding;
mod kernel;
mod late;
mod learnt;
mod linked;
mod locked;
mod mixes;
pub mod native;
mod near;
mod not_taken;
mod overridden;
mod parallel;
pub mod program;
mod random;
mod regions;
mod renaming;
mod repeated;
mod second_lines;
mod short_loops;
mod spread;
mod streams;
mod told;
mod window;
mod wrong_paths;

use std::fmt::Write;

/// What a curve's axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Its name.
    pub name: &'static str,
    /// Unit of its figures, empty for plain numbers.
    pub unit: &'static str,
    /// It is drawn by powers of two.
    pub logarithmic: bool,
}

impl Axis {
    /// Of plain numbers, one beside the other.
    const fn plain(name: &'static str) -> Self {
        Self {
            name,
            unit: "",
            logarithmic: false,
        }
    }
}

/// The measured part of a program and what comes before it.
///
/// All text is for the GNU assembler, Intel syntax without register prefixes. The parts may use
/// all registers but `rsp`, which they may push to and pop from, and must leave as it was. At the
/// start of `setup`, `before` and `run`, `rdi` holds the address of the data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// Run once, before everything else.
    pub setup: String,
    /// Run in each round directly before the measured part; its time is in no figure.
    pub before: String,
    /// Run in each round, and measured; control comes out at its end.
    pub run: String,
    /// Bytes of data, aligned to 2 MiB and zeroed.
    pub data: usize,
    /// Operations in one run of `run`: what the figures are divided by.
    pub operations: f64,
}

/// One point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Place on the axis.
    pub x: f64,
    /// What it stands for, where the axis has no numbers.
    pub label: Option<String>,
    /// The program.
    pub source: Source,
}

impl Point {
    /// A point of an axis with numbers.
    #[must_use]
    pub fn new(x: f64, source: Source) -> Self {
        Self {
            x,
            label: None,
            source,
        }
    }

    /// A point of an axis with names.
    #[must_use]
    pub fn named(x: usize, label: impl Into<String>, source: Source) -> Self {
        Self {
            x: x as f64,
            label: Some(label.into()),
            source,
        }
    }
}

/// A curve.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Short name, as an option takes it.
    pub name: &'static str,
    /// The mechanism, for people.
    pub what: &'static str,
    /// Axis.
    pub axis: Axis,
    /// What the figures are: `cycles per load`.
    pub unit: &'static str,
    /// Generates the points.
    pub points: fn() -> Vec<Point>,
}

/// All probes.
#[must_use]
pub fn probes() -> Vec<Probe> {
    let mut all = Vec::new();
    for part in [
        chase::PROBES,
        learnt::PROBES,
        between::PROBES,
        second_lines::PROBES,
        parallel::PROBES,
        fills::PROBES,
        streams::PROBES,
        regions::PROBES,
        forwarding::PROBES,
        crossing::PROBES,
        aliasing::PROBES,
        renaming::PROBES,
        repeated::PROBES,
        short_loops::PROBES,
        window::PROBES,
        locked::PROBES,
        kernel::PROBES,
        branches::PROBES,
        behind_jumps::PROBES,
        not_taken::PROBES,
        late::PROBES,
        linked::PROBES,
        overridden::PROBES,
        told::PROBES,
        alike::PROBES,
        wrong_paths::PROBES,
        copied::PROBES,
        mixes::PROBES,
        foretold::PROBES,
        code::PROBES,
        spread::PROBES,
        near::PROBES,
    ] {
        all.extend_from_slice(part);
    }
    all
}

/// Text that writes to each of so many pages of the data, from rdi on; leaves rsi and rcx undefined.
pub(crate) fn touched(pages: u64) -> String {
    format!(
        "    mov rsi, rdi
    mov ecx, {pages}
3:  mov [rsi], rcx
    add rsi, 4096
    dec rcx
    jnz 3b"
    )
}

/// Text of a loop over `body`, counted in r15.
pub(crate) fn counted(times: u64, body: &str) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "    mov r15d, {times}\n    .p2align 6\n8:\n{body}\n    dec r15\n    jnz 8b"
    );
    text
}

/// Text that is the same line again and again.
pub(crate) fn repeated(times: u64, line: &str) -> String {
    format!("    .rept {times}\n    {line}\n    .endr\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_places_are_unique() {
        let mut names: Vec<&str> = probes().iter().map(|p| p.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for probe in probes() {
            let points = (probe.points)();
            assert!(points.len() > 1, "{}", probe.name);
            assert!(
                points.windows(2).all(|pair| pair[0].x < pair[1].x),
                "{}",
                probe.name
            );
            assert!(points.iter().all(|p| p.source.operations > 0.0));
        }
    }
}
