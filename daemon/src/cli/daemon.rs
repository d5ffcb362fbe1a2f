//! `mcad daemon`: serve sessions to other processes and machines.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::token::{TokenArgs, generate};
use crate::remote::Address;
use crate::server::{self, Config};

/// Options of `mcad daemon`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to listen; port 0 lets the system choose
    #[arg(long, value_name = "unix:PATH|tcp:HOST:PORT")]
    listen: Address,
    /// Allow an address that other machines can reach
    #[arg(long)]
    allow_remote: bool,
    #[command(flatten)]
    token: TokenArgs,
    /// Most sessions at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    max_sessions: u32,
    /// Memory for all sessions together, in MiB; each gets its share
    #[arg(long, value_name = "MIB", default_value_t = 8192, value_parser = clap::value_parser!(u64).range(64..=1 << 24))]
    max_memory: u64,
    /// Seconds that a client has for its greeting
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    handshake_timeout: u64,
    /// Seconds that a client may be silent
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    idle_timeout: u64,
    /// Keep every session's JSON report in this directory
    #[arg(long, value_name = "DIR")]
    reports: Option<PathBuf>,
}

/// Serves until it is told to end.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut token = args.token.get()?;
    if token.is_none() && matches!(args.listen, Address::Tcp { .. }) {
        let new = generate()?;
        crate::say!("mcad: token for clients (MCAD_TOKEN): {new}");
        token = Some(new);
    }
    if let Some(directory) = &args.reports {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
    }
    let config = Config {
        listen: args.listen.clone(),
        allow_remote: args.allow_remote,
        token,
        max_sessions: args.max_sessions,
        max_memory: args.max_memory << 20,
        handshake_timeout: Duration::from_secs(args.handshake_timeout),
        idle_timeout: Duration::from_secs(args.idle_timeout),
        reports: args.reports.clone(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the daemon's threads")?;
    runtime.block_on(server::run(config, |address| {
        crate::say!("mcad: listening on {address}");
    }))?;
    // Threads of sessions that were cut off do not hold up the end.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}
