//! `mcad-eval`: predictions of blocks against measurements as published tables have them: by the
//! categories and applications of BHive's paper (Chen et al., IISWC 2019), and as a heat map.
//!
//! The figures themselves are those of `mcad eval`, and so are the files and the choice of blocks.
//! [`topics`] finds the categories, with [`lda`] behind them; [`applications`] says where blocks
//! come from; [`evaluation`] has the measures, [`text`] the tables, [`heatmap`] the picture.
//!
//! [`branches`] holds the core's direction predictor against a literal one of the same class.

mod applications;
mod branches;
mod evaluation;
mod heatmap;
mod lda;
mod text;
mod topics;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use mcad_daemon::cli::eval::SetArgs;
use mcad_daemon::cli::json::JsonArgs;
use mcad_daemon::cli::{input, output};

use applications::Applications;
use evaluation::Evaluation;

/// Evaluates predictions of blocks as published tables have them.
#[derive(Debug, Parser)]
#[command(
    name = "mcad-eval",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    set: SetArgs,
    /// Figures by category, which are found by port use
    #[arg(long)]
    topics: bool,
    /// Figures by application, and weighted: a file of application,hex,weight lines
    #[arg(long, value_name = "FILE")]
    applications: Option<PathBuf>,
    /// Draw predicted over measured cycles
    #[arg(long, value_name = "FILE.svg")]
    heatmap: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Hold the core's predictor of directions against a literal TAGE-SC-L of 64 KB, over recorded traces
    Branches(branches::Args),
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    if let Some(Command::Branches(args)) = &args.command {
        return branches::run(args);
    }
    let json = args.json.open(args.heatmap.as_deref())?;
    let set = args.set.gather(true)?;
    let applications = args.applications.as_deref().map(read_applications);
    let applications = applications.transpose()?;
    let topics = match args.topics {
        true => Some(topics::find(&set.pairs, applications.as_ref())?),
        false => None,
    };
    if let Some(path) = &args.heatmap {
        let picture = heatmap::svg(&set.pairs, &set.title);
        std::fs::write(path, picture)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let evaluation = Evaluation::of(&set, topics, applications.as_ref());
    if !json.is_stdout() {
        let mut stdout = BufWriter::new(io::stdout().lock());
        text::write(&evaluation, output::style_of(&io::stdout()), &mut stdout)?;
        stdout.flush().context("cannot write to stdout")?;
    }
    json.write(&evaluation)?;
    Ok(ExitCode::SUCCESS)
}

fn read_applications(path: &Path) -> anyhow::Result<Applications> {
    let name = path.display().to_string();
    let applications = Applications::read(input::open(path)?, &name)?;
    if applications.empty > 0 {
        eprintln!(
            "mcad-eval: {name}: {} lines have no bytes; their weight stays in the sums",
            applications.empty
        );
    }
    Ok(applications)
}
