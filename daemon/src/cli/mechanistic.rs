//! `mcad model`: profile a program once, then predict its cycles on any in-order core.

mod collect;
mod figures;

use crate::cli::destination::Destination;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, bail};
use mcad_isa::machine::{self, CpuModel};
use mcad_model::built_in;
use mcad_model::chain::Chain;
use mcad_model::kind::Kind;
use mcad_model::literal;
use mcad_model::machine::Machine;
use mcad_model::paths::Paths;
use mcad_model::profile::Profile;
use mcad_model::rows::Rows;
use mcad_model::space::Space;
use mcad_model::stack::Stack;
use mcad_model::timing::Timing;
use mcad_viewers::sweep::{self, Point};

pub(super) use collect::{Collected, Wanted, collect};
use mcad_isa::near::nearest;

use super::eval::cpu_time;
use super::json::{JsonArgs, JsonOutput};

/// What is said where a model takes for equal what a CPU tells apart.
const KINDS_ALONE: &str = "this model knows kinds of instructions alone, and this CPU tells more apart: \
                           the default model is nearer";

/// Options of `mcad model`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Collect in one pass over a trace what all predictions need
    Profile {
        /// Trace file; - reads stdin
        trace: PathBuf,
        /// Profile to write
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Predict the cycles on one in-order core, and where they go
    Predict {
        /// Profile
        profile: PathBuf,
        /// In-order core: cortex-a8, any in-order one of `mcad cpus` as far as this model knows it, or
        /// a file of width, depth, latencies and units
        #[arg(long, value_name = "NAME|FILE.toml", default_value = "cortex-a8")]
        cpu: String,
        #[command(flatten)]
        how: How,
        #[command(flatten)]
        json: JsonArgs,
    },
    /// Find the fewest units with which the best speed is nearly reached
    Units {
        /// Profile
        profile: PathBuf,
        /// Instructions issued per cycle
        #[arg(long, value_name = "N", default_value_t = 4)]
        width: u8,
        /// Share of the best instructions per cycle that is to be reached, in percent
        #[arg(long, value_name = "PERCENT", default_value_t = 98.0)]
        reach: f64,
        #[command(flatten)]
        how: How,
    },
    /// Print a figure of the published model for a trace, each point confirmed by the stepwise core
    Figure {
        /// What is varied
        figure: figures::Figure,
        /// Trace file; - reads stdin
        trace: PathBuf,
        /// Instructions from its beginning that are looked at
        #[arg(long, value_name = "N", default_value_t = 2_000_000)]
        instructions: u64,
    },
    /// Predict the cycles on every core of a design space, as CSV
    Sweep {
        /// Profile
        profile: PathBuf,
        /// Lists of parameters
        #[arg(long, value_name = "FILE.toml")]
        space: PathBuf,
        /// Write a page with the Pareto front of cycles over issue slots and units
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        #[command(flatten)]
        how: How,
        #[command(flatten)]
        json: JsonArgs,
    },
}

/// Which model predicts; by default, the place in an issue group is followed along.
#[derive(Clone, Copy, Debug, clap::Args)]
struct How {
    /// Use the published formulas as they are
    #[arg(long)]
    literal: bool,
    /// Step each path of blocks once: nearly exact and slower
    #[arg(long, conflicts_with = "literal")]
    paths: bool,
}

/// A profile made ready for predictions.
struct Predictor {
    profile: Rc<Profile>,
    rows: Rows,
    chain: Rc<Chain>,
    paths: RefCell<Paths>,
    how: How,
}

/// What is known of the cycles, which are whole, as those of each part are.
struct Predicted {
    cycles: f64,
    /// Absent for paths.
    stack: Option<Stack>,
}

impl Predictor {
    fn new(path: &Path, how: How) -> anyhow::Result<Self> {
        let profile = Rc::new(read(path)?);
        let rows = Rows::of(&profile);
        let chain = Rc::new(Chain::new(&rows));
        Ok(Self {
            paths: RefCell::new(Paths::new(Rc::clone(&profile), Rc::clone(&chain))),
            chain,
            rows,
            profile,
            how,
        })
    }

    /// Tells instructions apart by what they cost on a CPU, where its model and the profile say that;
    /// whether they do.
    fn tell_apart(&mut self, model: &Arc<CpuModel>) -> bool {
        let timing = Timing::of(model, &self.profile);
        if let Some(timing) = &timing {
            self.chain = Rc::new(Chain::new(&Rows::on(&self.profile, timing)));
        }
        timing.is_some()
    }

    fn predict(&self, machine: &Machine) -> Predicted {
        let stack = if self.how.literal {
            literal::predict(machine, &self.rows)
        } else if self.how.paths {
            return Predicted {
                cycles: self.paths.borrow_mut().predict(machine).round(),
                stack: None,
            };
        } else {
            self.chain.predict(machine)
        };
        let stack = stack.whole();
        Predicted {
            cycles: stack.total(),
            stack: Some(stack),
        }
    }
}

/// Does what was asked for.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Profile { trace, output } => profile(trace, output)?,
        Command::Predict {
            profile,
            cpu,
            how,
            json,
        } => {
            let mut predictor = Predictor::new(profile, *how)?;
            if let Some(model) = modelled(cpu)
                && predictor.tell_apart(&model)
                && (how.paths || how.literal)
            {
                crate::say!("note: {KINDS_ALONE}");
            }
            predict(&predictor, &machine(cpu)?, json.open([])?)?;
        }
        Command::Units {
            profile,
            width,
            reach,
            how,
        } => units(&Predictor::new(profile, *how)?, *width, *reach)?,
        Command::Figure {
            figure,
            trace,
            instructions,
        } => figures::run(*figure, trace, *instructions)?,
        Command::Sweep {
            profile,
            space,
            html,
            how,
            json,
        } => {
            let predictor = Predictor::new(profile, *how)?;
            let machines = read_space(space)?;
            let json = json.open(html.as_deref())?;
            let html = html.as_deref().map(Destination::open).transpose()?;
            let taken = json.is_stdout() || html.as_ref().is_some_and(Destination::is_stdout);
            if let Some(place) = html {
                page(&predictor, &machines, place)?;
            }
            if json.wanted() {
                json.write(&points(&predictor, &machines))?;
            }
            if !taken {
                table(&predictor, &machines)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn profile(trace: &Path, output: &Path) -> anyhow::Result<()> {
    let output = Destination::open(output)?;
    let begun = cpu_time();
    let collected = collect(trace, Wanted::Profile)?;
    let seconds = cpu_time() - begun;
    output.write(|out| collected.profile.write(out))?;
    let mut err = io::stderr().lock();
    writeln!(
        err,
        "{} instructions, {} pieces of code, {} paths; {:.1} million instructions a CPU second",
        collected.profile.instructions,
        collected.profile.blocks.len(),
        collected.profile.paths.len(),
        collected.profile.instructions as f64 / seconds.max(1e-9) / 1e6
    )?;
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Profile> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
    Profile::read(BufReader::new(file)).with_context(|| format!("cannot read {shown}"))
}

/// The CPU of this name, where that does not mean a machine that is built in.
fn modelled(name: &str) -> Option<Arc<CpuModel>> {
    let other = Machine::built_in(name).is_some() || name.ends_with(".toml");
    (!other).then(|| machine::cpu(name).ok()).flatten()
}

/// The text of a machine: built in, or a file.
fn machine(name: &str) -> anyhow::Result<Machine> {
    if let Some(machine) = Machine::built_in(name) {
        return Ok(machine);
    }
    if !name.ends_with(".toml") {
        if let Ok(model) = machine::cpu(name) {
            return Machine::of(&model).map_err(anyhow::Error::msg);
        }
        let mut known = Machine::BUILT_IN.map(|m| m.0).to_vec();
        known.extend(built_in::names());
        let near = match nearest(name, &known).first() {
            Some(near) => format!("; did you mean {near}?"),
            None => ":".to_owned(),
        };
        bail!(
            "no in-order core is called {name}{near} there are {}, and files ending in .toml",
            known.join(", ")
        );
    }
    let text = std::fs::read_to_string(name).with_context(|| format!("cannot read {name}"))?;
    let machine: Machine = toml::from_str(&text).with_context(|| name.to_owned())?;
    machine
        .check()
        .map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
    Ok(machine)
}

fn read_space(path: &Path) -> anyhow::Result<Vec<Machine>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let space: Space = toml::from_str(&text).with_context(|| shown.to_string())?;
    space
        .machines()
        .map_err(|e| anyhow::anyhow!("{shown}: {e}"))
}

fn predict(predictor: &Predictor, machine: &Machine, json: JsonOutput) -> anyhow::Result<()> {
    let predicted = predictor.predict(machine);
    let instructions = predictor.profile.instructions;
    if !json.is_stdout() {
        let mut out = BufWriter::new(io::stdout().lock());
        let per = |cycles: f64| cycles / instructions.max(1) as f64;
        writeln!(out, "{}", predictor.profile.source)?;
        writeln!(
            out,
            "{instructions} instructions, {:.0} cycles",
            predicted.cycles
        )?;
        writeln!(out, "cycles per instruction {:.4}", per(predicted.cycles))?;
        for (name, cycles) in predicted.stack.iter().flat_map(Stack::parts) {
            if cycles > 0.0 {
                writeln!(out, "  {:8.4}  {cycles:14.0}  {name}", per(cycles))?;
            }
        }
        out.flush().context("cannot write to stdout")?;
    }
    if json.wanted() {
        json.write(&serde_json::json!({
            "source": predictor.profile.source,
            "machine": machine,
            "instructions": instructions,
            "cycles": predicted.cycles,
            "stack": predicted.stack,
        }))?;
    }
    Ok(())
}

/// Columns that say which machine a line is of.
pub(super) const MACHINE: [&str; 19] = [
    "width",
    "depth",
    "predictor",
    "taken_bubble",
    "l1i_kib",
    "l1d_kib",
    "l2_kib",
    "l2_latency",
    "memory_latency",
    "alu_units",
    "load_latency",
    "load_units",
    "multiply_latency",
    "multiply_units",
    "multiply_pipelined",
    "divide_latency",
    "fp_add_latency",
    "fp_multiply_latency",
    "fp_multiply_units",
];

/// The values of [`MACHINE`]; what a machine does not have is empty.
pub(super) fn columns(m: &Machine) -> [String; MACHINE.len()] {
    let kib = |kib: Option<u32>| kib.map_or(String::new(), |kib| kib.to_string());
    [
        m.width.to_string(),
        m.depth.to_string(),
        m.predictor.name().to_owned(),
        m.taken_bubble.map_or(String::new(), |n| n.to_string()),
        kib(m.l1i_kib),
        kib(m.l1d_kib),
        kib(m.l2_kib),
        m.l2_latency.to_string(),
        m.memory_latency.to_string(),
        m.alu.count.to_string(),
        m.load.latency.to_string(),
        m.load.count.to_string(),
        m.multiply.latency.to_string(),
        m.multiply.count.to_string(),
        m.multiply.pipelined.to_string(),
        m.divide.latency.to_string(),
        m.fp_add.latency.to_string(),
        m.fp_multiply.latency.to_string(),
        m.fp_multiply.count.to_string(),
    ]
}

/// What each machine takes, for JSON.
fn points(predictor: &Predictor, machines: &[Machine]) -> Vec<serde_json::Value> {
    let point = |machine| {
        let predicted = predictor.predict(machine);
        serde_json::json!({
            "machine": machine,
            "cycles": predicted.cycles,
            "stack": predicted.stack,
        })
    };
    machines.iter().map(point).collect()
}

fn table(predictor: &Predictor, machines: &[Machine]) -> anyhow::Result<()> {
    let out = BufWriter::new(io::stdout().lock());
    let mut out = csv::Writer::from_writer(out);
    let stack = Stack::default();
    let parts = stack.parts().map(|p| p.0);
    let header = MACHINE.iter().map(|s| (*s).to_owned());
    let header = header
        .chain(["cycles", "ipc"].map(str::to_owned))
        .chain(parts);
    out.write_record(header)?;
    for machine in machines {
        let predicted = predictor.predict(machine);
        let ipc = predictor.profile.instructions as f64 / predicted.cycles.max(1.0);
        let figures = [format!("{:.0}", predicted.cycles), format!("{ipc:.4}")];
        // Paths say nothing of parts.
        let parts: Vec<String> = match &predicted.stack {
            Some(stack) => stack.parts().map(|p| format!("{:.0}", p.1)).collect(),
            None => stack.parts().map(|_| String::new()).collect(),
        };
        let record = columns(machine).into_iter().chain(figures).chain(parts);
        out.write_record(record)?;
    }
    out.flush().context("cannot write to stdout")
}

/// Issue slots and units: what a machine costs.
fn cost(machine: &Machine) -> u32 {
    let units = Kind::ALL
        .iter()
        .map(|&kind| u32::from(machine.units(kind).count));
    u32::from(machine.width) + units.sum::<u32>()
}

/// Writes the page about a space.
fn page(predictor: &Predictor, machines: &[Machine], to: Destination) -> anyhow::Result<()> {
    let points: Vec<Point> = machines
        .iter()
        .map(|machine| {
            let predicted = predictor.predict(machine);
            let named = MACHINE.iter().zip(columns(machine));
            let label: Vec<String> = named
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            Point {
                label: label.join(", "),
                cost: f64::from(cost(machine)),
                cycles: predicted.cycles,
                stack: predicted.stack.iter().flat_map(Stack::parts).collect(),
            }
        })
        .collect();
    let source = &predictor.profile.source;
    to.write(|out| sweep::write(source, "issue slots and units", &points, out))
}

/// Machines of a width with few and many units.
fn unit_space(width: u8) -> anyhow::Result<Vec<Machine>> {
    let upto = |most: u8| (1..=most).collect::<Vec<u8>>();
    let space = Space {
        width: vec![width],
        alu_units: upto(width),
        load_units: upto(width.min(2)),
        multiply_units: upto(2),
        fp_multiply_units: upto(2),
        ..Space::default()
    };
    space.machines().map_err(anyhow::Error::msg)
}

/// The fewest units: of all machines that reach a share of the best speed, in percent, the cheapest,
/// and of those the fastest; behind the best one.
fn fewest_units(
    machines: &[Machine],
    cycles: impl Fn(&Machine) -> f64,
    reach: f64,
) -> Option<[(&Machine, f64); 2]> {
    let timed = machines.iter().map(|m| (m, cycles(m)));
    let timed: Vec<(&Machine, f64)> = timed.collect();
    let best = *timed.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let fewest = timed
        .iter()
        .filter(|t| 100.0 * best.1 >= reach * t.1)
        .min_by(|a, b| cost(a.0).cmp(&cost(b.0)).then_with(|| a.1.total_cmp(&b.1)))?;
    Some([best, *fewest])
}

fn units(predictor: &Predictor, width: u8, reach: f64) -> anyhow::Result<()> {
    let machines = unit_space(width)?;
    let found = fewest_units(&machines, |m| predictor.predict(m).cycles, reach);
    let Some([(_, best), (machine, cycles)]) = found else {
        bail!("no machine reaches {reach} % of the best");
    };
    let mut out = io::stdout().lock();
    let instructions = predictor.profile.instructions as f64;
    writeln!(
        out,
        "best {:.4} instructions per cycle; {:.4} with {} units:",
        instructions / best,
        instructions / cycles,
        cost(machine) - u32::from(machine.width)
    )?;
    for kind in Kind::ALL {
        writeln!(out, "  {} {}", machine.units(kind).count, kind.name())?;
    }
    Ok(())
}
