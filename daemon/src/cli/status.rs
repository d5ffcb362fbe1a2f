//! `mcad status` and `mcad stop`: a running daemon's state and end.

use std::io::Write;
use std::process::ExitCode;

use mcad_viewers::escape::escape;
use mcad_viewers::layout::{Align, Table, grouped};

use super::output::style_of;
use super::token::TokenArgs;
use crate::remote::{Address, control};

/// Which daemon.
#[derive(Debug, clap::Args)]
pub(super) struct DaemonArgs {
    /// The daemon's address
    #[arg(long, value_name = "ADDR", env = "MCAD_DAEMON")]
    daemon: Address,
    #[command(flatten)]
    token: TokenArgs,
}

/// Options of `mcad status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Options of `mcad stop`.
#[derive(Debug, clap::Args)]
pub(super) struct StopArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Cut running sessions off instead of finishing them with what they have
    #[arg(long)]
    now: bool,
}

/// Shows the daemon's sessions with instructions and rate.
pub(super) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let token = args.daemon.token.get()?.unwrap_or_default();
    let status = control::status(&args.daemon.daemon, &token)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(
        stdout,
        "mcad {} at {}: up {} s, {} MiB, {} of {} sessions, {} finished, {} incomplete or failed",
        escape(&status.version),
        args.daemon.daemon,
        status.uptime_seconds,
        status.resident_bytes >> 20,
        status.sessions.len(),
        status.max_sessions,
        status.finished_sessions,
        status.failed_sessions,
    )?;
    if status.sessions.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new([
        ("session", Align::Right),
        ("seconds", Align::Right),
        ("instructions", Align::Right),
        ("M/s", Align::Right),
        ("queued KiB", Align::Right),
        ("state", Align::Left),
        ("client", Align::Left),
        ("command", Align::Left),
    ]);
    for session in &status.sessions {
        let rate = session.instructions as f64 / 1e6 / session.seconds.max(1) as f64;
        table.row(vec![
            session.id.to_string(),
            session.seconds.to_string(),
            grouped(session.instructions),
            format!("{rate:.1}"),
            (session.queued_bytes >> 10).to_string(),
            escape(&session.state).into_owned(),
            escape(&session.peer).into_owned(),
            escape(&session.command).into_owned(),
        ]);
    }
    table.write(style_of(&std::io::stdout()), &mut stdout)?;
    Ok(ExitCode::SUCCESS)
}

/// Ends the daemon.
pub(super) fn stop(args: &StopArgs) -> anyhow::Result<ExitCode> {
    let token = args.daemon.token.get()?.unwrap_or_default();
    let running = control::shutdown(&args.daemon.daemon, &token, args.now)?;
    let what = if args.now {
        "cut off"
    } else {
        "being finished"
    };
    writeln!(
        std::io::stdout(),
        "the daemon ends; {running} sessions are {what}"
    )?;
    Ok(ExitCode::SUCCESS)
}
