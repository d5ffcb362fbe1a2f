//! `mcad-run [OPTIONS] -- CMD ARGS…`: run a program under QEMU and predict its cycles.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use mcad_broker_abi::{BrokerSession, Config};
use mcad_broker_qemu::executable;
use mcad_isa::machine::{self, CpuModel};
use mcad_proto::event::{Arch, EndReason};
use mcad_report::Report;

use super::analysis::AnalysisArgs;
use super::destination::is_stdout;
use super::exit::{NOT_EXECUTABLE, NOT_FOUND, OWN_FAILURE, exit_code, of_child};
use super::launch::{Launch, found, open_recorder, settle, watched};
use super::measure::Measure;
use super::output::{OutputArgs, Outputs};
use super::timeline::TimelineArgs;
use super::token::TokenArgs;
use crate::install;
use crate::remote::Address;
use crate::remote::forward::{self, Forward};

/// Options of `mcad-run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The program keeps its stdin, stdout and stderr; where an output of mcad-run goes to \
                        stdout (-), the program's stdout goes to stderr.\n\n\
                        The exit status is the program's; 125: mcad-run failed, 126: the program \
                        cannot be executed, 127: it was not found."
)]
pub struct Args {
    #[command(flatten)]
    analysis: AnalysisArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    timeline: TimelineArgs,
    #[command(flatten)]
    trace: TraceArgs,
    /// Record the trace to FILE in the same run
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Let a daemon analyse: forward the trace there and show its report
    #[arg(long, value_name = "ADDR", env = "MCAD_DAEMON")]
    daemon: Option<Address>,
    #[command(flatten)]
    token: TokenArgs,
    /// Measure, too: run the program again without QEMU, RUNS times (with all that it does), and
    /// put its cycles beside the predictions [default RUNS: until they are known within 2 %, 10 to
    /// 100]
    #[arg(long, value_name = "RUNS", num_args = 0..=1, require_equals = true,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    measure: Option<Option<u32>>,
}

/// The emulator, and what it shows the program.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct EmulatorArgs {
    /// QEMU to use instead of the one that is found
    #[arg(long, value_name = "PATH")]
    qemu: Option<PathBuf>,
    /// Where loader and libraries of a program for AArch64 or RISC-V are (QEMU's -L); a program
    /// that is linked statically needs none
    #[arg(long, value_name = "DIR", env = "MCAD_SYSROOT")]
    sysroot: Option<PathBuf>,
    /// CPU that QEMU shows the program (QEMU's -cpu), by which libraries choose their code
    #[arg(long, value_name = "NAME")]
    qemu_cpu: Option<String>,
    /// Trace the first process alone, and count those that it makes
    #[arg(long)]
    no_follow: bool,
}

impl EmulatorArgs {
    /// Whether any is given.
    pub(super) fn given(&self) -> bool {
        self.qemu.is_some() || self.sysroot.is_some() || self.qemu_cpu.is_some() || self.no_follow
    }
}

/// What to run, and with which emulator.
#[derive(Debug, clap::Args)]
pub(super) struct TraceArgs {
    #[command(flatten)]
    emulator: EmulatorArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl TraceArgs {
    /// Starts the program, on the CPU that comes nearest to the first of `models`. `stdout_is_taken`: an
    /// output of ours goes there, so what the program writes to it goes to stderr.
    pub(super) fn open(
        &self,
        memory: bool,
        models: &[Arc<CpuModel>],
        stdout_is_taken: bool,
    ) -> anyhow::Result<BrokerSession> {
        let mut config = Config::new();
        for word in &self.command {
            let word = word.to_str().with_context(|| {
                let shown = word.to_string_lossy();
                format!("the argument '{shown}' is not UTF-8; wrap the command in a script")
            })?;
            config.push("arg", word)?;
        }
        let paths = [
            ("qemu", &self.emulator.qemu),
            ("sysroot", &self.emulator.sysroot),
        ];
        for (key, path) in paths {
            if let Some(path) = path {
                let path = path.to_str();
                let path = path.with_context(|| format!("the path of --{key} is not UTF-8"))?;
                config.push(key, path)?;
            }
        }
        let given = self.emulator.qemu_cpu.clone();
        if let Some(cpu) = given.or_else(|| self.nearest_cpu(models)) {
            config.push("qemu_cpu", &cpu)?;
        }
        if self.emulator.no_follow {
            config.push("follow_children", "0")?;
        }
        if stdout_is_taken {
            config.push("stdout_to_stderr", "1")?;
        }
        config.push("memory", if memory { "1" } else { "0" })?;
        Ok(install::broker("qemu")?.open(&config)?)
    }

    /// What QEMU calls the CPU that comes nearest to the model that analyses.
    fn nearest_cpu(&self, models: &[Arc<CpuModel>]) -> Option<String> {
        match models.first() {
            Some(model) => model.qemu_cpu.clone(),
            None => {
                let arch = executable::resolve(&self.command).ok()?.arch;
                let usual = machine::cpu(machine::default_cpu(arch)).ok()?;
                usual.qemu_cpu.clone()
            }
        }
    }

    /// What the program's code is; of one that cannot be run, which is told when it is to, the usual.
    fn arch(&self) -> Arch {
        arch_of(&self.command)
    }

    /// Refuses models that do not execute the program's code, before anything runs.
    fn check_models(&self, models: &[Arc<CpuModel>]) -> anyhow::Result<()> {
        let arch = executable::resolve(&self.command)?.arch;
        match models.iter().find(|model| model.arch() != arch) {
            None => Ok(()),
            Some(model) => bail!(
                "the program is {arch} code, which the CPU model '{}' does not execute; choose one \
                 that does with --cpu (`mcad cpus --arch {arch}` lists them)",
                model.name
            ),
        }
    }

    /// The status that a shell gives for a program that is not there or cannot be run.
    fn check_program(&self) -> Result<(), (u8, anyhow::Error)> {
        match executable::resolve(&self.command) {
            Ok(_) => Ok(()),
            Err(error) if error.exit_status() == i32::from(NOT_FOUND) => {
                Err((NOT_FOUND, error.into()))
            }
            Err(error) => Err((NOT_EXECUTABLE, error.into())),
        }
    }
}

/// The same of any command.
pub(super) fn arch_of(command: &[OsString]) -> Arch {
    executable::resolve(command).map_or(Arch::X86_64, |program| program.arch)
}

impl Args {
    /// What to analyse; a program that is measured, too, is so on one CPU.
    fn analysis(&self) -> AnalysisArgs {
        let mut analysis = self.analysis.clone();
        if self.measure.is_some() {
            analysis.measured_on_one_cpu();
        }
        analysis
    }
}

/// Runs the program; the exit status is its.
pub(super) fn run(args: &Args) -> ExitCode {
    match traced(args) {
        Ok(status) => exit_code(status),
        Err(error) => {
            super::tell(&error);
            exit_code(OWN_FAILURE)
        }
    }
}

fn traced(args: &Args) -> anyhow::Result<u8> {
    let others = args.record.as_deref().into_iter();
    let output = args.output.open(others.chain(args.timeline.path()))?;
    let measure = match args.measure {
        Some(runs) => Some(Measure::new(runs, &args.trace.command, args.output.quiet)?),
        None => None,
    };
    if let Some(address) = &args.daemon {
        if args.timeline.given() {
            bail!(
                "a timeline is recorded where the analysis runs: --timeline needs it here, without --daemon"
            );
        }
        return forwarded(args, address, measure.as_ref(), output);
    }
    let mut analysis = args.analysis().resolve(args.trace.arch())?;
    let timeline = args.timeline.open(&mut analysis, args.output.page())?;
    trace(
        &args.trace,
        Launch {
            analysis: Some(analysis),
            record: args.record.as_deref(),
            timeline,
            source_name: "qemu".to_owned(),
            quiet: args.output.quiet,
            beside: true,
        },
        args.analysis.memory(),
        measure.as_ref(),
        output,
    )
}

/// Traces a program and settles the session; shared with `mcad record`.
pub(super) fn trace(
    program: &TraceArgs,
    launch: Launch<'_>,
    memory: bool,
    measure: Option<&Measure>,
    output: Outputs,
) -> anyhow::Result<u8> {
    if let Err((status, error)) = program.check_program() {
        super::tell(&error);
        return Ok(status);
    }
    program.check_models(launch.models())?;
    let recorder = launch.recorder()?;
    let regions = match &launch.analysis {
        Some(analysis) => analysis.regions.clone(),
        None => Vec::new(),
    };
    let taken = output.takes_stdout() || launch.takes_stdout();
    let mut source = program.open(memory, launch.models(), taken)?;
    let mut outcome = launch.run(&mut source, recorder);
    let added = match &mut outcome.report {
        Some(report) => add_measured(measure, &outcome.end, report),
        None => true,
    };
    let whole = settle(&outcome, &regions, output);
    if let Some(report) = &outcome.report
        && report.trace.instructions == 0
        && matches!(outcome.end, EndReason::Exited(status) if status != 0)
    {
        bail!(
            "QEMU ended before the first instruction of the program; what it said is above \
             (--sysroot DIR names the libraries of another architecture, --qemu-cpu its CPU)"
        );
    }
    ending(&outcome.end, whole && added)
}

/// Measures, if that is asked for, and adds it to the report; `false` when it did not work.
fn add_measured(measure: Option<&Measure>, end: &EndReason, report: &mut Report) -> bool {
    let Some(measure) = measure else {
        return true;
    };
    if of_child(end) != 0 {
        // Its status says so, too.
        crate::say!("mcad: the program did not succeed, so it is not measured");
        return true;
    }
    match measure.run() {
        Ok(measured) => {
            report.run.measured = Some(measured);
            true
        }
        Err(error) => {
            super::tell(&error);
            false
        }
    }
}

/// Runs one command and gives its report, as `mcad-run` would write it. `stdout_is_taken`: as for
/// [`TraceArgs::open`].
///
/// # Errors
/// When the command cannot be run or its analysis is not complete.
pub(super) fn report_of(
    command: &[OsString],
    emulator: &EmulatorArgs,
    args: &AnalysisArgs,
    quiet: bool,
    stdout_is_taken: bool,
) -> anyhow::Result<Report> {
    let program = TraceArgs {
        emulator: emulator.clone(),
        command: command.to_vec(),
    };
    program.check_program().map_err(|(_, error)| error)?;
    let launch = Launch {
        analysis: Some(args.resolve(program.arch())?),
        record: None,
        timeline: None,
        source_name: "qemu".to_owned(),
        quiet,
        beside: true,
    };
    program.check_models(launch.models())?;
    let mut source = program.open(args.memory(), launch.models(), stdout_is_taken)?;
    let outcome = launch.run(&mut source, None);
    if let Some(failure) = outcome.failure {
        return Err(failure.into());
    }
    match outcome.end {
        EndReason::ProducerDied(what) | EndReason::Truncated(what) => bail!("{what}"),
        _ => outcome.report.context("the session gave no report"),
    }
}

/// The exit status after a session.
fn ending(end: &EndReason, whole: bool) -> anyhow::Result<u8> {
    match end {
        EndReason::ProducerDied(what) | EndReason::Truncated(what) => bail!("{what}"),
        end if whole => Ok(of_child(end)),
        _ => Ok(OWN_FAILURE),
    }
}

/// The program runs here, the analysis elsewhere.
fn forwarded(
    args: &Args,
    address: &Address,
    measure: Option<&Measure>,
    output: Outputs,
) -> anyhow::Result<u8> {
    if let Err((status, error)) = args.trace.check_program() {
        super::tell(&error);
        return Ok(status);
    }
    // What the daemon is to simulate, as a run that is analysed here would.
    let analysis = args.analysis();
    let options = analysis.to_foreign()?;
    let models = analysis.resolve(args.trace.arch())?.options.cpus;
    args.trace.check_models(&models)?;
    let record = args.record.as_deref().map(open_recorder).transpose()?;
    let forward = Forward {
        address: address.clone(),
        token: args.token.get()?.unwrap_or_default(),
        options,
        record,
    };
    // The session begins with the program; what cannot be reached is told before.
    address.reach()?;
    let taken = output.takes_stdout() || args.record.as_deref().is_some_and(is_stdout);
    let mut source = (args.trace).open(args.analysis.memory(), &models, taken)?;
    let state = watched(args.output.quiet, true);
    let forwarded = forward::run(&mut source, forward, &state.0);
    drop(state);
    let mut whole = true;
    if let Some(Err(error)) = &forwarded.recording {
        crate::say!("mcad: {error}");
        whole = false;
    }
    let report = forwarded.report.map_err(anyhow::Error::from);
    let write = |mut report: Report| {
        whole &= add_measured(measure, &forwarded.end, &mut report);
        whole &= found(&report, args.analysis.regions());
        output.write(&report, None)
    };
    if let Err(error) = report.and_then(write) {
        super::tell(&error);
        whole = false;
    }
    ending(&forwarded.end, whole)
}
