//! The options that say what to analyse, shared by every command that analyses a trace.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use mcad_core::simulation::{AnalysisKind, Intervals, Options, Parallel};
use mcad_isa::machine::conditions::{with_clock, with_last_level};
use mcad_isa::machine::{self, CpuModel, ideal};
use mcad_proto::event::Arch;

use crate::regions::RegionSpec;

/// Most models in one pass.
const MAX_CPUS: usize = 32;

/// Longest name of a CPU model, in bytes.
const MAX_NAME: usize = 64;

/// Most regions of interest.
const MAX_REGIONS: usize = 256;

/// What to analyse, as parsed.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub struct AnalysisArgs {
    /// CPU model (repeatable: all in one pass); `mcad cpus` lists them, native is this machine's
    /// [default: skl, or neoverse-n1 or sifive-p670 for programs of their instruction sets]
    #[arg(long = "cpu", value_name = "NAME")]
    cpus: Vec<String>,
    /// How to analyse (repeatable)
    #[arg(long = "analysis", value_name = "KIND")]
    analyses: Vec<Kind>,
    /// Region of interest, a function or a range of addresses in hexadecimal (repeatable)
    #[arg(long = "region", value_name = "SYMBOL|START-END")]
    regions: Vec<RegionSpec>,
    // Its help names the parts.
    #[arg(long = "ideal", value_name = "PART", help = help_of_ideals())]
    ideals: Vec<String>,
    /// KiB of the third level of cache that the program has to itself, in whole ways: other programs, and other guests
    /// of a virtual machine, share it [default: what the model's file says]
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(1..=1 << 21))]
    last_level: Option<u32>,
    /// The core's clock in MHz, of models that say at which theirs is: memory takes its nanoseconds, so as many more
    /// cycles as the core is quicker [default: what the model's file says]
    #[arg(long, value_name = "MHZ", value_parser = clap::value_parser!(u32).range(500..=10_000))]
    clock: Option<u32>,
    /// Ignore memory addresses: no dependencies through memory
    #[arg(long)]
    no_memory: bool,
    /// Cores that the threads of a process run on: each has its own, or all share one and take turns, as under taskset. With one,
    /// call stacks are not known of programs with several threads [default: each; one with --measure, which runs on one CPU]
    #[arg(long, value_name = "each|one")]
    cores: Option<CoreUse>,
    /// Cut the run into intervals and simulate them on N threads; the report says how far that may
    /// be from an uncut simulation, and does not depend on N; call stacks are not known then. 1: all
    /// on one thread, uncut unless --interval or --warm-up is given
    #[arg(long, value_name = "N", value_parser = threads)]
    jobs: Option<NonZeroUsize>,
    /// Instructions in an interval, 10000 or more [default: 1000000]
    #[arg(long, value_name = "N", requires = "jobs",
          value_parser = clap::value_parser!(u64).range(10_000..))]
    interval: Option<u64>,
    /// Instructions before an interval that warm it up, 1000 or more [default: 20000]
    #[arg(long, value_name = "N", requires = "jobs",
          value_parser = clap::value_parser!(u64).range(1_000..))]
    warm_up: Option<u64>,
}

/// Most threads that can be asked for.
const MAX_JOBS: usize = 256;

/// Reads a number of threads.
pub(super) fn threads(text: &str) -> Result<NonZeroUsize, String> {
    (text.parse().ok())
        .filter(|jobs: &NonZeroUsize| jobs.get() <= MAX_JOBS)
        .ok_or_else(|| format!("not a number of threads from 1 to {MAX_JOBS}"))
}

/// Who has a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CoreUse {
    /// Each thread
    Each,
    /// Each process
    One,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The out-of-order core, instruction by instruction
    Pipeline,
    /// Every block on its own in a loop, times its executions
    Block,
}

/// What to analyse, validated.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// CPU models, analyses, memory.
    pub options: Options,
    /// Threads to simulate on, if not the session's own.
    pub parallel: Option<Parallel>,
    /// Regions of interest.
    pub regions: Vec<RegionSpec>,
}

impl AnalysisArgs {
    /// Looks everything up, for a program of this instruction set.
    ///
    /// # Errors
    /// When a CPU is unknown; the message lists the names.
    pub fn resolve(&self, arch: Arch) -> anyhow::Result<Analysis> {
        self.resolve_with(arch, &super::model::model)
    }

    /// The same for options that a peer sent: names are those of built-in models, and no file is
    /// looked for.
    ///
    /// # Errors
    /// As [`AnalysisArgs::resolve`].
    pub fn resolve_foreign(&self, arch: Arch) -> anyhow::Result<Analysis> {
        self.resolve_with(arch, &super::model::built_in)
    }

    fn resolve_with(&self, arch: Arch, model: &Models) -> anyhow::Result<Analysis> {
        let analyses = if self.analyses.is_empty() {
            vec![Kind::Pipeline]
        } else {
            self.analyses.clone()
        };
        let changed = self.last_level.is_some() || self.clock.is_some() || !self.ideals.is_empty();
        let names = match !changed {
            true => self.cpus.clone(),
            // What is changed must be known before the session begins.
            false if self.cpus.is_empty() => vec![machine::default_cpu(arch).to_owned()],
            false => self.cpus.clone(),
        };
        let mut analysis = resolve(model, &names, &analyses, &self.regions, !self.no_memory)?;
        if let Some(kib) = self.last_level {
            for cpu in &mut analysis.options.cpus {
                *cpu = with_last_level(cpu, kib)
                    .map_err(|error| anyhow!("--last-level {kib}: {error}; leave it out"))?;
            }
        }
        if let Some(mhz) = self.clock {
            for cpu in &mut analysis.options.cpus {
                *cpu = with_clock(cpu, mhz)
                    .map_err(|error| anyhow!("--clock {mhz}: {error}; leave it out"))?;
            }
        }
        analysis.options.one_core = self.cores == Some(CoreUse::One);
        if analysis.options.one_core && !self.regions.is_empty() {
            bail!("--region is for threads with a core each; leave --cores one out");
        }
        analysis.options.cpus = with_ideals(analysis.options.cpus, &self.ideals)?;
        analysis.parallel = self.parallel(analysis.options.cpus.len())?;
        Ok(analysis)
    }

    /// Threads for so many models.
    fn parallel(&self, models: usize) -> anyhow::Result<Option<Parallel>> {
        let Some(jobs) = self.jobs else {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            // With cores to spare others read the stream and predict its branches for each model.
            let ahead = cores > models;
            return Ok((models > 1 || ahead).then(|| Parallel {
                ahead,
                ..Parallel::default()
            }));
        };
        if jobs.get() == 1 && self.interval.is_none() && self.warm_up.is_none() {
            return Ok(None);
        }
        if !self.regions.is_empty() {
            bail!("--region is for what is not cut; leave --jobs out, or give --jobs 1");
        }
        let usual = Intervals::default();
        let intervals = Intervals {
            length: self.interval.unwrap_or(usual.length),
            warm_up: self.warm_up.unwrap_or(usual.warm_up),
        };
        if intervals.warm_up >= intervals.length {
            bail!(
                "--warm-up {} is not shorter than the interval of {} instructions; give a longer \
                 --interval",
                intervals.warm_up,
                intervals.length
            );
        }
        Ok(Some(Parallel {
            jobs: jobs.get(),
            intervals: Some(intervals),
            ahead: true,
        }))
    }

    /// The same as key and value texts, for a daemon elsewhere.
    ///
    /// # Errors
    /// When a model is a file, which the daemon does not have.
    pub fn to_foreign(&self) -> anyhow::Result<Vec<(String, String)>> {
        if self.jobs.is_some() {
            bail!("--jobs is for this machine; a daemon simulates each session on one thread");
        }
        if let Some(file) = self.cpus.iter().find(|name| super::model::is_file(name)) {
            bail!(
                "--cpu {file} is a file of this machine, and a daemon has only its built-in \
                 models; leave --daemon out, or --record here and replay with --cpu {file}"
            );
        }
        Ok(self.to_pairs())
    }

    fn to_pairs(&self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        let mut add = |key: &str, value: String| pairs.push((key.to_owned(), value));
        for cpu in &self.cpus {
            add("cpu", super::model::resolved(cpu).to_owned());
        }
        for kind in &self.analyses {
            if let Some(value) = kind.to_possible_value() {
                add("analysis", value.get_name().to_owned());
            }
        }
        for region in &self.regions {
            add("region", region.to_string());
        }
        for part in &self.ideals {
            add("ideal", part.clone());
        }
        if let Some(kib) = self.last_level {
            add("last-level", kib.to_string());
        }
        if let Some(mhz) = self.clock {
            add("clock", mhz.to_string());
        }
        if self.no_memory {
            add("memory", "off".to_owned());
        }
        if self.cores == Some(CoreUse::One) {
            add("cores", "one".to_owned());
        }
        pairs
    }

    /// Reads what [`AnalysisArgs::to_pairs`] wrote.
    ///
    /// # Errors
    /// When a key or value is unknown.
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> anyhow::Result<Self> {
        let mut args = Self::default();
        for (key, value) in pairs {
            match (key, value) {
                // Repetitions mean nothing, and each would be a simulation of its own.
                ("cpu", name) if args.cpus.iter().any(|known| known == name) => {}
                ("cpu", name) if name.len() > MAX_NAME => {
                    bail!("no CPU model is called {}", excerpt(name))
                }
                ("cpu", _) if args.cpus.len() >= MAX_CPUS => {
                    bail!("more than {MAX_CPUS} CPU models")
                }
                ("cpu", name) => args.cpus.push(name.to_owned()),
                ("analysis", name) => {
                    let kind = Kind::from_str(name, false)
                        .map_err(|_| anyhow::anyhow!("unknown analysis '{}'", excerpt(name)))?;
                    if !args.analyses.contains(&kind) {
                        args.analyses.push(kind);
                    }
                }
                ("region", _) if args.regions.len() >= MAX_REGIONS => {
                    bail!("more than {MAX_REGIONS} regions")
                }
                ("region", text) => args.regions.push(text.parse()?),
                ("ideal", part) if args.ideals.iter().any(|known| known == part) => {}
                ("ideal", part) => match ideal::ideal(part) {
                    Some(part) => args.ideals.push(part.name.to_owned()),
                    None => bail!("there is no part '{}'", excerpt(part)),
                },
                ("last-level", kib) => {
                    let kib = kib.parse().ok().filter(|kib| (1..=1 << 21).contains(kib));
                    args.last_level = Some(kib.with_context(|| {
                        format!("last-level={} is no number of KiB", excerpt(value))
                    })?);
                }
                ("clock", mhz) => {
                    let mhz = mhz.parse().ok().filter(|mhz| (500..=10_000).contains(mhz));
                    args.clock =
                        Some(mhz.with_context(|| {
                            format!("clock={} is no clock in MHz", excerpt(value))
                        })?);
                }
                ("memory", "off") => args.no_memory = true,
                ("memory", "on") => args.no_memory = false,
                ("cores", "one") => args.cores = Some(CoreUse::One),
                ("cores", "each") => args.cores = Some(CoreUse::Each),
                _ => bail!("unknown option {}={}", excerpt(key), excerpt(value)),
            }
        }
        Ok(args)
    }

    /// The same for a program that is measured on one CPU, too: unless something else was asked for, its threads share a core.
    pub fn measured_on_one_cpu(&mut self) {
        if self.cores.is_none() && self.regions.is_empty() {
            self.cores = Some(CoreUse::One);
        }
    }

    /// Regions that are asked for.
    #[must_use]
    pub fn regions(&self) -> &[RegionSpec] {
        &self.regions
    }

    /// Whether any of the options was given.
    #[must_use]
    pub fn given(&self) -> bool {
        *self != Self::default()
    }

    /// Whether memory accesses are wanted at all.
    #[must_use]
    pub fn memory(&self) -> bool {
        !self.no_memory
    }
}

/// Help of `--ideal`.
fn help_of_ideals() -> String {
    let parts: Vec<&str> = ideal::ideals().iter().map(|part| part.name).collect();
    format!(
        "Simulate each model a second time with this part perfect, to see what it costs \
         (repeatable): {}",
        parts.join(", ")
    )
}

/// The model of a name.
type Models = dyn Fn(&str) -> anyhow::Result<Arc<CpuModel>>;

/// The beginning of a text that may be long.
fn excerpt(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Each model, and behind it the same with each of the parts perfect.
fn with_ideals(cpus: Vec<Arc<CpuModel>>, parts: &[String]) -> anyhow::Result<Vec<Arc<CpuModel>>> {
    let mut all = Vec::with_capacity(cpus.len() * (parts.len() + 1));
    for cpu in cpus {
        all.push(Arc::clone(&cpu));
        for part in parts {
            let ideal = ideal::ideal(part).with_context(|| {
                let known: Vec<&str> = ideal::ideals().iter().map(|part| part.name).collect();
                format!(
                    "--ideal {part}: there is no such part (known: {})",
                    known.join(" ")
                )
            })?;
            let perfect = ideal.of(&cpu);
            if perfect.core == cpu.core {
                bail!(
                    "--ideal {part}: nothing would change, since the model of {} takes it for perfect; leave it out",
                    cpu.full_name
                );
            }
            all.push(perfect);
        }
    }
    Ok(all)
}

fn resolve(
    model: &Models,
    names: &[String],
    kinds: &[Kind],
    regions: &[RegionSpec],
    memory: bool,
) -> anyhow::Result<Analysis> {
    let mut cpus: Vec<Arc<CpuModel>> = Vec::new();
    let mut asked: Vec<&str> = Vec::new();
    for name in names {
        let model = model(name).with_context(|| format!("--cpu {}", excerpt(name)))?;
        let Some(known) = cpus.iter().position(|known| known.name == model.name) else {
            cpus.push(model);
            asked.push(name);
            continue;
        };
        // The same one twice, by its name or an alias, is one.
        let before = asked.get(known).copied().unwrap_or_default();
        let files = super::model::is_file(name) || super::model::is_file(before);
        if files && before != name {
            bail!(
                "--cpu {} and --cpu {} are both called '{}'; give the file's model another `name`",
                excerpt(before),
                excerpt(name),
                model.name
            );
        }
    }
    if cpus.len() > MAX_CPUS || regions.len() > MAX_REGIONS {
        bail!("at most {MAX_CPUS} CPU models and {MAX_REGIONS} regions are analysed in one pass");
    }
    let mut analyses = Vec::new();
    for kind in kinds {
        let kind = match kind {
            Kind::Pipeline => AnalysisKind::Pipeline,
            Kind::Block => AnalysisKind::Block,
        };
        if !analyses.contains(&kind) {
            analyses.push(kind);
        }
    }
    Ok(Analysis {
        options: Options {
            cpus,
            analyses,
            memory,
            one_core: false,
        },
        parallel: None,
        regions: regions.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_survive_the_wire() {
        let args = AnalysisArgs {
            cpus: vec!["skl".into(), "glc".into()],
            analyses: vec![Kind::Block],
            regions: vec!["main".parse().unwrap(), "0x10-0x20".parse().unwrap()],
            ideals: vec!["l1d".into()],
            last_level: Some(4096),
            clock: Some(3600),
            no_memory: true,
            ..AnalysisArgs::default()
        };
        let pairs = args.to_pairs();
        let pairs = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        let back = AnalysisArgs::from_pairs(pairs).unwrap();
        assert_eq!(format!("{back:?}"), format!("{args:?}"));
        assert!(AnalysisArgs::from_pairs([("cpus", "skl")]).is_err());
        for kib in ["0", "-1", "4 MiB", "99999999999"] {
            assert!(AnalysisArgs::from_pairs([("last-level", kib)]).is_err());
        }
    }

    #[test]
    fn two_models_of_a_name_are_refused_and_one_by_two_names_is_one() {
        let file = std::env::temp_dir().join(format!("mcad-{}.toml", std::process::id()));
        std::fs::write(&file, "name = \"glc\"\nbase = \"skl\"\n").unwrap();
        let path = file.display().to_string();
        let of = |cpus: &[&str]| {
            let args = AnalysisArgs {
                cpus: cpus.iter().map(|&name| name.to_owned()).collect(),
                ..AnalysisArgs::default()
            };
            args.resolve(Arch::X86_64)
                .map(|analysis| analysis.options.cpus.len())
        };
        for (cpus, expected) in [
            (vec!["skl", "skylake", "glc"], Some(2)),
            (vec![&path, &path], Some(1)),
            (vec!["glc", &path], None),
            (vec![&path, "glc"], None),
        ] {
            assert_eq!(of(&cpus).ok(), expected, "{cpus:?}");
        }
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn numbers_of_threads_have_an_end() {
        assert_eq!(threads("8").unwrap().get(), 8);
        for wrong in ["0", "-1", "257", "18446744073709551615", "four"] {
            assert!(threads(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_changed_is_the_usual_model_of_the_programs_instruction_set() {
        let args = AnalysisArgs {
            ideals: vec!["l1d".into()],
            ..AnalysisArgs::default()
        };
        for arch in Arch::ALL {
            let usual = machine::default_cpu(arch);
            for analysis in [args.resolve(arch), args.resolve_foreign(arch)] {
                let names = analysis.map(|analysis| {
                    let cpus = analysis.options.cpus.into_iter();
                    cpus.map(|cpu| cpu.name.clone()).collect::<Vec<_>>()
                });
                match (arch, names) {
                    (Arch::X86_64, names) => {
                        assert_eq!(names.unwrap(), [usual, &format!("{usual}+l1d")]);
                    }
                    // These have no caches.
                    (_, names) => {
                        let message = names.unwrap_err().to_string();
                        let model = machine::cpu(usual).unwrap();
                        assert!(message.contains(&model.full_name), "{message}");
                    }
                }
            }
        }
    }

    #[test]
    fn each_option_counts_as_given() {
        use clap::{Args, Command, FromArgMatches};

        let read = |line: &[&str]| {
            let command = AnalysisArgs::augment_args(Command::new("mcad"));
            let matches = command.try_get_matches_from([&["mcad"], line].concat());
            AnalysisArgs::from_arg_matches(&matches.unwrap()).unwrap()
        };
        assert!(!read(&[]).given());
        for line in [
            &["--jobs", "2"][..],
            &["--jobs", "1", "--interval", "10000"],
            &["--jobs", "1", "--warm-up", "1000"],
            &["--cores", "each"],
            &["--no-memory"],
            &["--clock", "3600"],
        ] {
            assert!(read(line).given(), "{line:?}");
        }
    }

    #[test]
    fn unknown_cpus_are_answered_with_the_known_ones() {
        let args = AnalysisArgs {
            cpus: vec!["z80".into()],
            ..AnalysisArgs::default()
        };
        let message = format!("{:#}", args.resolve(Arch::X86_64).unwrap_err());
        assert!(
            message.contains("z80") && message.contains("skl"),
            "{message}"
        );
        let args = AnalysisArgs {
            cpus: vec!["skylak".into()],
            ..AnalysisArgs::default()
        };
        let message = format!("{:#}", args.resolve(Arch::X86_64).unwrap_err());
        assert!(message.contains("did you mean skylake?"), "{message}");
    }
}
