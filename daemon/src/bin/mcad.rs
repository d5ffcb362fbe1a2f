//! `mcad`: the command-line front of the project.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcad_daemon::cli::mcad(std::env::args_os())
}
