//! What a program would gain: the same CPU with a part made perfect, simulated in the same pass.

use std::borrow::Cow;

use mcad_report::{CpuReport, Report};

/// A CPU with a part made perfect, beside the CPU as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gain<'r> {
    /// The CPU as it is.
    pub(crate) cpu: &'r CpuReport,
    /// The part, as `--ideal` takes it.
    pub(crate) part: &'r str,
    /// The CPU with that part perfect.
    pub(crate) ideal: &'r CpuReport,
}

impl<'r> Gain<'r> {
    /// What is perfect, for people: what the CPU's name says more than the name of the one as it is.
    pub(crate) fn what(&self) -> &'r str {
        let more = self.ideal.name.strip_prefix(self.cpu.name.as_str());
        more.map_or(self.part, |more| more.trim_start_matches([',', ' ']))
    }

    /// Cycles that it would take fewer, of a hundred.
    pub(crate) fn percent(&self) -> f64 {
        let (with, without) = (self.cpu.cycles as f64, self.ideal.cycles as f64);
        100.0 * (with - without) / with.max(1.0)
    }
}

/// The CPU that this one is with a part made perfect, and the part.
fn base<'r>(report: &'r Report, ideal: &'r CpuReport) -> Option<Gain<'r>> {
    let (name, part) = ideal.cpu.rsplit_once('+')?;
    let of = |cpu: &&CpuReport| cpu.cpu == name && cpu.analysis == ideal.analysis;
    let cpu = report.cpus.iter().find(of)?;
    Some(Gain { cpu, part, ideal })
}

/// All of them, by CPU and then in the order asked for.
pub(crate) fn of(report: &Report) -> Vec<Gain<'_>> {
    let all = report.cpus.iter();
    all.filter_map(|cpu| base(report, cpu)).collect()
}

/// The report without CPUs that have a part made perfect: they are told as gains.
pub(crate) fn without_ideals(report: &Report) -> Cow<'_, Report> {
    if of(report).is_empty() {
        return Cow::Borrowed(report);
    }
    let mut plain = report.clone();
    plain.cpus.retain(|cpu| base(report, cpu).is_none());
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn ideals_are_gains_of_their_cpu_and_no_cpus() {
        let mut report = sample::report();
        let mut ideal = report.cpus[0].clone();
        ideal.cpu = "skl+l1d".into();
        ideal.name = "Model skl, all data in the first level".into();
        ideal.cycles = 750_000;
        let mut other = ideal.clone();
        other.cpu = "elsewhere+l1d".into();
        report.cpus.extend([ideal, other]);
        let gains = of(&report);
        assert_eq!(gains.len(), 1);
        assert_eq!((gains[0].cpu.cpu.as_str(), gains[0].part), ("skl", "l1d"));
        assert_eq!(gains[0].what(), "all data in the first level");
        assert!((gains[0].percent() - 25.0).abs() < 1e-9);
        let names = |report: &Report| -> Vec<String> {
            report.cpus.iter().map(|cpu| cpu.cpu.clone()).collect()
        };
        assert_eq!(
            names(&without_ideals(&report)),
            ["skl", "glc", "elsewhere+l1d"]
        );
    }
}
