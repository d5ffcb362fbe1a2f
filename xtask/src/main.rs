//! Developer commands.

mod tables;

use anyhow::Result;
use clap::Parser;

/// Developer commands of mcad.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Command {
    /// Make the embedded instruction tables from published rows.
    Tables(tables::Args),
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Tables(args) => tables::run(&args),
    }
}
