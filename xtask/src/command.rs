//! Running other programs: what is run is shown, failures name it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The workspace's directory.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The cargo that runs this.
pub fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root());
    command
}

/// A command in the workspace's directory.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// A command as root: through sudo where this is not root already.
pub fn as_root(program: &str) -> Result<Command> {
    if rustix::process::geteuid().is_root() {
        return Ok(command(program));
    }
    if !exists("sudo") {
        bail!("{program} needs root and there is no sudo; run `cargo xtask setup` as root once");
    }
    let mut sudo = command("sudo");
    sudo.arg(program);
    Ok(sudo)
}

/// Whether a program is in `PATH`.
pub fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Shows and runs a command; fails unless it succeeds.
pub fn execute(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command
        .status()
        .with_context(|| format!("cannot run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Like [`execute`], for set-up: what the command prints goes to stderr, since stdout belongs to the
/// program that is run afterwards.
pub fn execute_aside(command: &mut Command) -> Result<()> {
    execute(command.stdout(std::io::stderr()))
}

/// Runs a command quietly and gives what it prints on stdout; `None` when it fails.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let mut shown = name.to_string_lossy().into_owned();
    for argument in command.get_args() {
        shown.push(' ');
        shown.push_str(&argument.to_string_lossy());
    }
    shown
}

/// What a command took.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Processor time over all its threads: unlike wall-clock time it does not depend on what else
    /// the machine does.
    pub seconds: f64,
    /// Most memory that it had at a time.
    pub peak_bytes: u64,
}

/// Shows and runs a command and measures it; fails unless it succeeds.
pub fn measured(command: &mut Command) -> Result<Usage> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let child = command
        .spawn()
        .with_context(|| format!("cannot run `{shown}`"))?;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let mut status = 0;
    // SAFETY: the child is not waited for elsewhere; the usage is plain data, all zeros until the
    // call fills it in.
    let (waited, usage) = unsafe {
        let waited = libc::wait4(child.id() as i32, &raw mut status, 0, usage.as_mut_ptr());
        (waited, usage.assume_init())
    };
    if waited < 0 || status != 0 {
        bail!("`{shown}` failed (wait status {status:#x})");
    }
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Ok(Usage {
        seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        // Linux counts kibibytes.
        peak_bytes: usage.ru_maxrss as u64 * 1024,
    })
}

/// The processor time of [`measured`].
pub fn cpu_seconds(command: &mut Command) -> Result<f64> {
    Ok(measured(command)?.seconds)
}
