//! `mcad doctor`: what is found, what is missing, and the command that gets it.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use mcad_broker_qemu::{plugin, qemu};

use mcad_proto::event::Arch;

use super::exit::{NEGATIVE, exit_code};
use crate::install;

/// Options of `mcad doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// QEMU to check instead of the one that is found
    #[arg(long, value_name = "PATH")]
    qemu: Option<PathBuf>,
}

/// One thing that was looked at.
struct Finding {
    what: &'static str,
    /// What was found, or what is wrong and the way out.
    state: Result<String, String>,
    /// Whether `mcad-run` needs it.
    needed: bool,
}

/// Looks at everything and prints it; status 1 when something that is needed is missing.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let findings = findings(args);
    let mut stdout = std::io::stdout().lock();
    let mut complete = true;
    for finding in &findings {
        let (mark, text) = match (&finding.state, finding.needed) {
            (Ok(text), _) => ("ok     ", text),
            (Err(text), true) => {
                complete = false;
                ("MISSING", text)
            }
            (Err(text), false) => ("without", text),
        };
        let text = text.replace('\n', "\n                       ");
        writeln!(stdout, "{mark}  {:<13}  {text}", finding.what)?;
    }
    if complete {
        writeln!(stdout, "\nTry: mcad-run -- ls")?;
        Ok(ExitCode::SUCCESS)
    } else {
        Ok(exit_code(NEGATIVE))
    }
}

fn findings(args: &Args) -> Vec<Finding> {
    let emulators = [
        ("QEMU", Arch::X86_64, true),
        ("QEMU AArch64", Arch::AArch64, false),
        ("QEMU RISC-V", Arch::RiscV64, false),
        ("QEMU RV32", Arch::RiscV32, false),
    ];
    let mut findings: Vec<Finding> = emulators
        .into_iter()
        .map(|(what, arch, needed)| Finding {
            what,
            state: qemu::find(args.qemu.as_deref(), arch)
                .map(|found| format!("{} ({})", found.path.display(), found.version))
                .map_err(|error| error.to_string()),
            needed,
        })
        .collect();
    findings.push(Finding {
        what: "QEMU plugin",
        state: plugin::find(None)
            .map(|path| path.display().to_string())
            .map_err(|error| error.to_string()),
        needed: true,
    });
    for name in install::OWN {
        findings.push(Finding {
            what: match name {
                "qemu" => "qemu broker",
                "asm" => "asm broker",
                _ => "replay broker",
            },
            state: install::broker(name)
                .map(|library| library.path().display().to_string())
                .map_err(|error| error.to_string()),
            needed: true,
        });
    }
    findings.push(Finding {
        what: "assembler",
        state: on_path("as").ok_or_else(|| {
            "no `as`: assembly text cannot be read (hex bytes and objects can). \
             Debian: apt-get install binutils"
                .to_owned()
        }),
        needed: false,
    });
    findings.push(Finding {
        what: "shared memory",
        state: shared_memory(),
        needed: true,
    });
    findings
}

fn on_path(name: &str) -> Option<String> {
    let path = mcad_broker_qemu::executable::search_path();
    let found = std::env::split_paths(&path).map(|directory| directory.join(name));
    let found = found.into_iter().find(|file| file.is_file())?;
    Some(found.display().to_string())
}

/// The ring between plugin and broker is an anonymous memory file.
fn shared_memory() -> Result<String, String> {
    rustix::fs::memfd_create("mcad-doctor", rustix::fs::MemfdFlags::CLOEXEC)
        .map(|_| "anonymous memory files work".to_owned())
        .map_err(|error| {
            format!("memfd_create: {error}; a container's seccomp filter may forbid it")
        })
}
