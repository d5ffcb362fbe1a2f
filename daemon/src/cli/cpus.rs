//! `mcad cpus`: the CPU models with their other names.

use std::io::Write;
use std::process::ExitCode;

use mcad_isa::machine::{self, CpuInfo};
use mcad_proto::event::Arch;
use mcad_viewers::layout::{Align, Table};

use super::output::style_of;

/// Options of `mcad cpus`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only the names, one a line
    #[arg(long)]
    names: bool,
    /// Only those of one instruction set: x86_64, aarch64, riscv64 or riscv32
    #[arg(long, value_name = "NAME", value_parser = arch)]
    arch: Option<Arch>,
}

fn arch(name: &str) -> Result<Arch, String> {
    Arch::of(name).ok_or_else(|| {
        let known = Arch::ALL.map(Arch::name).join(", ");
        format!("no such instruction set; there are: {known}")
    })
}

/// Lists the models.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut stdout = std::io::stdout().lock();
    let wanted = |cpu: &&CpuInfo| args.arch.is_none_or(|arch| arch == cpu.arch);
    if args.names {
        for cpu in machine::cpus().iter().filter(wanted) {
            writeln!(stdout, "{}", cpu.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new([
        ("name", Align::Left),
        ("executes", Align::Left),
        ("CPU", Align::Left),
        ("also called", Align::Left),
    ]);
    for cpu in machine::cpus().iter().filter(wanted) {
        table.row(vec![
            cpu.name.to_owned(),
            cpu.arch.to_string(),
            cpu.full_name.to_owned(),
            cpu.aliases.join(" "),
        ]);
    }
    table.write(style_of(&std::io::stdout()), &mut stdout)?;
    Ok(ExitCode::SUCCESS)
}
