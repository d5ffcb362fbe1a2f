//! `mcad-run`: run a program under QEMU and predict its cycles.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcad_daemon::cli::mcad_run(std::env::args_os())
}
