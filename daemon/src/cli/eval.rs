//! `mcad eval`: how good predictions are against labels.

mod ablations;
mod by_llvm_mca;
mod forms;
mod inorder;
pub(super) use inorder::{cpu_time, stepwise};
mod llvm_mca;
mod program_runs;
mod programs;
mod rtl;
mod set;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Context;

use super::block::Syntax;
use super::json::JsonArgs;
use super::output::style_of;
use crate::eval::{Wanted, evaluate, text};

pub use set::{Set, SetArgs};

/// Forms listed with --instructions.
const FORMS: usize = 25;

/// Options of `mcad eval`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    set: SetArgs,
    /// Hold an in-order CPU's model against retirements recorded from its register-transfer level:
    /// files of cycle,pc,opcode,address lines, plain or in xz format
    #[arg(long, value_name = "CPU", conflicts_with_all = ["predict", "sample", "hold_out", "ablations", "categories", "instructions", "worst", "json"])]
    rtl: Option<String>,
    /// Hold the mechanistic model of in-order cores against the stepwise core, over a grid of
    /// machines, on traces
    #[arg(long, conflicts_with_all = ["rtl", "predict", "sample", "hold_out", "ablations", "categories", "instructions", "worst", "json"])]
    in_order: bool,
    /// Compare throughputs of single instruction forms, simulated by --predict CPU, with FILE: rows
    /// of uops.info (JSON lines) or figures of `mcad profile instruction -o`
    #[arg(long, requires = "predict", conflicts_with_all = ["rtl", "in_order", "sample", "hold_out", "ablations", "categories", "instructions", "json"])]
    forms: bool,
    /// Take what an installed llvm-mca predicts for the CPU of --predict instead of the labels
    #[arg(long, requires = "predict", conflicts_with_all = ["forms", "ablations", "cpus"])]
    labels_from_llvm_mca: bool,
    #[command(flatten)]
    llvm_mca: llvm_mca::LlvmMcaArgs,
    #[command(flatten)]
    programs: programs::ProgramArgs,
    /// Figures by category, which are found by rule
    #[arg(long)]
    categories: bool,
    /// Instructions that carry the error
    #[arg(long)]
    instructions: bool,
    /// Show the N worst blocks, with --forms the N worst figures of each kind
    #[arg(long, value_name = "N", default_value_t = 0)]
    worst: usize,
    /// Assembly syntax of the worst blocks
    #[arg(long, value_enum, default_value_t = Syntax::Intel)]
    syntax: Syntax,
    /// Leave out one part of the model after the other
    #[arg(long, requires = "predict", conflicts_with_all = ["categories", "instructions", "worst"])]
    ablations: bool,
    #[command(flatten)]
    json: JsonArgs,
}

/// Evaluates.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.in_order {
        return inorder::run(args.set.files());
    }
    if args.forms {
        return forms::run(args.set.cpu(), args.set.files(), args.worst);
    }
    if let Some(cpu) = &args.rtl {
        return rtl::run(cpu, args.set.files());
    }
    if !args.llvm_mca.cpus.is_empty() {
        return llvm_mca::run(&args.llvm_mca, args.set.files(), args.worst);
    }
    if args.programs.programs {
        let set = &args.set;
        return programs::run(&args.programs, set.cpu(), set.files(), args.json.open([])?);
    }
    let json = args.json.open([])?;
    let mut stdout = BufWriter::new(io::stdout().lock());
    if args.ablations {
        let (model, labels) = args.set.model_and_labels()?;
        let all = ablations::evaluate(&model, &labels, &|model| {
            args.set.predict(model, &labels, true)
        });
        if !json.is_stdout() {
            ablations::write(&all, &mut stdout)?;
        }
        json.write(&all)?;
    } else {
        let mut set = args.set.gather(!args.labels_from_llvm_mca)?;
        if let (true, Some(cpu)) = (args.labels_from_llvm_mca, args.set.cpu()) {
            let program = args.llvm_mca.llvm_mca_program.as_deref();
            set.pairs = by_llvm_mca::relabel(set.pairs, cpu, program)?;
        }
        let wanted = Wanted {
            worst: args.worst,
            forms: FORMS,
        };
        let evaluation = evaluate(&set.pairs, set.unused, wanted, &args.syntax.printer());
        if !json.is_stdout() {
            let parts = text::Parts {
                categories: args.categories,
                instructions: args.instructions,
            };
            text::write(&evaluation, parts, style_of(&io::stdout()), &mut stdout)?;
        }
        json.write(&evaluation)?;
    }
    stdout.flush().context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}
