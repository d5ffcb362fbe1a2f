//! `mcad cpus`: the CPU models with their other names.

use std::io::Write;
use std::process::ExitCode;

use mcad_isa::machine;
use mcad_viewers::layout::{Align, Table};

use super::output::style_of;

/// Options of `mcad cpus`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only the names, one a line
    #[arg(long)]
    names: bool,
}

/// Lists the models.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut stdout = std::io::stdout().lock();
    if args.names {
        for cpu in machine::cpus() {
            writeln!(stdout, "{}", cpu.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new([
        ("name", Align::Left),
        ("CPU", Align::Left),
        ("also called", Align::Left),
    ]);
    for cpu in machine::cpus() {
        table.row(vec![
            cpu.name.to_owned(),
            cpu.full_name.to_owned(),
            cpu.aliases.join(" "),
        ]);
    }
    table.write(style_of(&std::io::stdout()), &mut stdout)?;
    Ok(ExitCode::SUCCESS)
}
