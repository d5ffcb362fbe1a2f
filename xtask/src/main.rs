//! `cargo xtask COMMAND`. Set-up comes first for a new user, so this crate builds in seconds;
//! commands that need decoders and tables are another program's (`mcad-lab`).

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use xtask::command::{cargo, root};
use xtask::{install, package, run, setup, test};

/// Developer commands of mcad.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", after_help = LAB)]
enum Command {
    /// Set up, build, and run mcad-run with the given options and command
    Run(run::Args),
    /// Set up, build, and run every check and test
    Test(test::Args),
    /// Install what mcad needs: packages of the distribution, and a QEMU that loads plugins
    Setup(setup::Args),
    /// Build and install into a prefix
    Install(install::Args),
    /// Build a Debian package and a tarball
    Package(package::Args),
    #[command(external_subcommand)]
    Lab(Vec<OsString>),
}

/// What `--help` says of the commands that are handed on.
const LAB: &str = "Handed on to mcad-lab, which is built for it (`cargo xtask lab --help` lists \
                   them): eval-*, which measure what is promised; compare, of two builds; programs-inputs, \
                   which writes the inputs of a list of programs; tables*, which make the embedded instruction tables.";

fn main() -> Result<ExitCode> {
    match Command::parse() {
        Command::Run(args) => return run::run(&args),
        Command::Test(args) => return test::run(&args),
        Command::Setup(args) => setup::run(&args)?,
        Command::Install(args) => install::run(&args)?,
        Command::Package(args) => package::run(&args)?,
        Command::Lab(arguments) => return lab(&arguments),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a command of mcad-lab in the caller's directory.
fn lab(arguments: &[OsString]) -> Result<ExitCode> {
    let arguments = match arguments.split_first() {
        Some((first, rest)) if first == "lab" => rest,
        _ => arguments,
    };
    let mut lab = cargo();
    lab.current_dir(".").arg("run").arg("--quiet");
    lab.arg("--manifest-path").arg(root().join("Cargo.toml"));
    let status = lab
        .args(["--package", "mcad-lab", "--"])
        .args(arguments)
        .status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
