//! `mcad profile program -- CMD`: user cycles of a whole command over repeated runs.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use indicatif::ProgressBar;
use mcad_profile::clock::{Cpu, Source};
use mcad_profile::command::{Doubt, Experiment, Fate, Input, Measured, Runs, Sample, measure};
use mcad_viewers::escape::escape;
use mcad_viewers::layout::grouped;

use crate::cli::json::JsonArgs;

/// Options of `mcad profile program`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many runs count [default: until the cycles are known, 10 to 30]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: Option<u32>,
    /// Runs before that are not measured
    #[arg(long, value_name = "N", default_value_t = 1)]
    warmup: u32,
    /// What the command reads, in every run [default: nothing]
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// Fail if runs write different things to stdout, which is thrown away otherwise
    #[arg(long)]
    check_output: bool,
    /// Do not let the kernel randomise the command's addresses
    #[arg(long)]
    no_aslr: bool,
    /// The CPU to run on [default: the last one allowed]
    #[arg(long, value_name = "N")]
    pin: Option<u32>,
    /// Run the command at its ordinary priority, even where it may go ahead of everything else on
    /// its CPU
    #[arg(long)]
    no_priority: bool,
    /// Measure beside whatever runs on the core's other hardware thread: neither keep the command waiting until nobody is there, nor
    /// reject runs for it
    #[arg(long)]
    shared_core: bool,
    /// Reject runs whose mean core clock is less certain
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    max_drift: f64,
    #[command(flatten)]
    json: JsonArgs,
    /// Write one line of CSV for each run to stdout instead of text
    #[arg(long)]
    csv: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Measures and prints.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut experiment = Experiment::new(args.command.clone());
    if let Some(runs) = args.runs {
        experiment.runs = Runs::Exactly(runs);
    }
    experiment.warmup = args.warmup;
    if let Some(path) = &args.stdin {
        experiment.input = Input::File(path.clone());
    }
    experiment.same_output = args.check_output;
    experiment.fixed_addresses = args.no_aslr;
    experiment.cpu = args.pin.map(Cpu);
    experiment.ahead = !args.no_priority;
    experiment.alone = !args.shared_core;
    experiment.most_clock_error = args.max_drift / 100.0;
    let json = args.json.open(args.csv.then_some(Path::new("-")))?;
    let measured = watched(&experiment, false)?;
    if !json.is_stdout() {
        let mut stdout = io::stdout().lock();
        if args.csv {
            csv(&measured.samples, &mut stdout)?;
        } else {
            text(&measured, &mut stdout)?;
        }
        stdout.flush().context("cannot write to stdout")?;
    }
    json.write(&measured)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures, with a line on the terminal that says which run is over: it changes between runs, so
/// that it takes nothing from them.
pub(in crate::cli) fn watched(experiment: &Experiment, quiet: bool) -> anyhow::Result<Measured> {
    let bar = if quiet || !io::stderr().is_terminal() {
        ProgressBar::hidden()
    } else {
        ProgressBar::new_spinner()
    };
    let mut runs = 0;
    let measured = measure(experiment, |sample| {
        runs += 1;
        bar.set_message(format!(
            "run {runs}: {:.3} s of processor time",
            sample.cpu_seconds
        ));
        bar.tick();
    });
    bar.finish_and_clear();
    Ok(measured?)
}

fn csv(samples: &[Sample], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "run,cycles,cpu_seconds,user_seconds,wall_seconds,core_mhz,clock_error,load_ns,slowed,waited_seconds,preempted,fate"
    )?;
    for (n, s) in samples.iter().enumerate() {
        let fate = match s.fate {
            Fate::Counts => "counts",
            Fate::ClockDrifted => "clock-drifted",
            Fate::CoreShared => "core-shared",
            Fate::Outlier => "outlier",
        };
        writeln!(
            out,
            "{},{:.0},{:.6},{:.6},{:.6},{:.2},{:.5},{},{},{:.6},{},{fate}",
            n + 1,
            s.cycles,
            s.cpu_seconds,
            s.user_seconds,
            s.wall_seconds,
            s.core_mhz,
            s.clock_error,
            s.load_ns.map_or_else(String::new, |ns| format!("{ns:.1}")),
            s.slowed
                .map_or_else(String::new, |slowed| format!("{slowed:.4}")),
            s.waited_seconds,
            s.preempted
        )?;
    }
    Ok(())
}

fn text(m: &Measured, out: &mut dyn Write) -> io::Result<()> {
    let number = |cycles: f64| grouped(cycles.round() as u64);
    let c = &m.cycles;
    writeln!(out, "command      {}", escape(&m.command.join(" ")))?;
    match m.cpu {
        Some(cpu) => write!(out, "measured on  CPU {}, ", cpu.0)?,
        None => write!(out, "measured on  any CPU (it could not be kept on one), ")?,
    }
    write!(out, "{}", escape(&m.host.name))?;
    match m.host.core {
        Some(core) => writeln!(out, " (model {core})")?,
        None => writeln!(out, " (not modelled)")?,
    }
    match &m.not_ahead {
        _ if m.ahead => writeln!(out, "priority     ahead of everything else on that CPU")?,
        Some(why) => writeln!(out, "priority     ordinary: {why}")?,
        None => writeln!(out, "priority     ordinary")?,
    }
    match (m.source, &m.no_counter) {
        (Source::Counter, _) => writeln!(out, "cycles from  performance counter, user mode")?,
        (source, why) => {
            let why = why.as_deref().unwrap_or("not counted in every run");
            writeln!(out, "cycles from  {source}: {why}")?;
        }
    }
    writeln!(
        out,
        "core clock   {:.1} MHz, known within {:.2} % for each run; watching it took {:.2} % of the \
         time",
        m.core_mhz,
        100.0 * m.clock_error,
        100.0 * m.watched
    )?;
    writeln!(
        out,
        "user cycles  {} (median of {} runs)",
        number(c.quartiles.median),
        c.runs
    )?;
    let interval = m.interval;
    writeln!(
        out,
        "             {} to {} with {:.0} % confidence, mostly {}",
        number(interval.low),
        number(interval.high),
        100.0 * interval.level.min(0.95),
        match interval.mostly {
            Doubt::Runs => "since runs differ",
            Doubt::Ticks => "since timer ticks found the user time",
            Doubt::Samples => "since samples found the user time",
            Doubt::Clock => "since the clock moved",
        }
    )?;
    if let Some(load) = m.load {
        let doubt = if load.is_busy() {
            ": the machine was busy, and cycles are higher for it"
        } else {
            ""
        };
        writeln!(
            out,
            "others       kept {:.2} of {} CPUs busy meanwhile, and took this one away {} times{doubt}",
            load.others, load.cpus, load.preempted
        )?;
    }
    writeln!(
        out,
        "             quartiles {} to {}, {:.2} % of the median",
        number(c.quartiles.low),
        number(c.quartiles.high),
        100.0 * c.spread
    )?;
    writeln!(
        out,
        "             least {}, most {}",
        number(c.min),
        number(c.max)
    )?;
    writeln!(
        out,
        "rejected     {} since the clock was uncertain, {} since the core was shared, {} far from all others",
        m.drifted, m.shared, m.outliers
    )?;
    if let Some(slowed) = m.slowed {
        let doubt = if m.samples.iter().any(Sample::is_beside_somebody) {
            ": there were hardly any runs without, and cycles are higher for it"
        } else {
            ""
        };
        writeln!(
            out,
            "neighbour    the core's other hardware thread slowed what fills the core by {:.1} %; runs waited {:.2} s for it{doubt}",
            100.0 * slowed,
            m.waited_seconds
        )?;
    }
    write!(
        out,
        "user time    {:.1} % of the processor time, ",
        100.0 * m.user_share
    )?;
    match (&m.sampled, &m.not_sampled) {
        (Some(s), _) => {
            let (samples, runs) = (grouped(s.count()), s.runs);
            write!(out, "by {samples} samples of {runs} runs in between")?;
            match s.lost {
                0 => writeln!(out)?,
                lost => writeln!(out, "; {} more had no room", grouped(lost))?,
            }
        }
        (None, Some(why)) => writeln!(
            out,
            "over all runs; no samples: {} (kernel.perf_event_paranoid=1 allows them)",
            escape(why)
        )?,
        (None, None) => writeln!(out, "over all runs")?,
    }
    if let Some(why) = &m.not_from_exec {
        writeln!(
            out,
            "             with what it is charged with before the program begins: {}",
            escape(why)
        )?;
    }
    if let Some(lost) = m.lost {
        writeln!(
            out,
            "taken off    {:.2} % of it, which interrupts and the host took from what ran there",
            100.0 * lost
        )?;
    }
    if let Some(i) = m.intercepted.filter(|i| i.executions > 0) {
        writeln!(
            out,
            "             {} cycles of {}{} executions of cpuid, which a hypervisor intercepts, {:.0} each",
            number(i.cycles()),
            if i.counted { "" } else { "about " },
            i.executions,
            i.cycles_each
        )?;
    }
    if let Some([before, after]) = m.last_level_kib {
        writeln!(
            out,
            "last level   {before} KiB of it to be had before and {after} after: other CPUs and guests have the rest"
        )?;
    }
    let Some(memory) = &m.memory else {
        return Ok(());
    };
    writeln!(
        out,
        "memory       {:.0} ns a load (quartiles {:.0} to {:.0}); rank correlation with cycles \
         {:.2};",
        memory.load_ns.median, memory.load_ns.low, memory.load_ns.high, memory.correlation
    )?;
    writeln!(
        out,
        "             quartiles {:.2} % of the median apart were it the same in all runs",
        100.0 * memory.spread_at_median
    )
}
