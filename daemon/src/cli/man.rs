//! `mcad man DIR`: one page per command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap_mangen::Man;

/// Options of `mcad man`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directory for the pages; made if missing
    dir: PathBuf,
}

/// Writes the pages.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    fs::create_dir_all(&args.dir)
        .with_context(|| format!("cannot make the directory {}", args.dir.display()))?;
    page(&args.dir, super::mcad_run_command())?;
    let mcad = super::mcad_command();
    for subcommand in mcad.get_subcommands() {
        let name = format!("mcad-{}", subcommand.get_name());
        // `mcad run` is mcad-run, whose page exists.
        if name != "mcad-run" {
            pages(&args.dir, subcommand.clone().name(name))?;
        }
    }
    page(&args.dir, mcad.clone().disable_help_subcommand(true))?;
    Ok(ExitCode::SUCCESS)
}

/// A command's page and those of its own commands, to which it refers.
fn pages(dir: &Path, command: clap::Command) -> anyhow::Result<()> {
    for subcommand in command.get_subcommands() {
        let name = format!("{}-{}", command.get_name(), subcommand.get_name());
        pages(dir, subcommand.clone().name(name))?;
    }
    // clap's own `help` has no page to refer to.
    page(dir, command.disable_help_subcommand(true))
}

fn page(dir: &Path, command: clap::Command) -> anyhow::Result<()> {
    let path = dir.join(format!("{}.1", command.get_name()));
    let mut text = Vec::new();
    Man::new(command).render(&mut text)?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
