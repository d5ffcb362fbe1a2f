//! `cargo xtask install --prefix DIR`: programs, brokers, the plugin, man pages, completions.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::build;
use crate::command::{command, execute, output};

/// Options of `cargo xtask install`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to: bin, lib/mcad and share are made below it
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
}

/// Builds and copies.
pub fn run(args: &Args) -> Result<()> {
    let built = build::release()?;
    let prefix = std::path::absolute(&args.prefix)?;
    into(&built, &prefix)?;
    eprintln!(
        "installed into {}; try: {} doctor",
        prefix.display(),
        prefix.join("bin/mcad").display()
    );
    Ok(())
}

/// Copies what was built below a prefix, and makes man pages and completions there.
pub fn into(built: &Path, prefix: &Path) -> Result<()> {
    let bin = prefix.join("bin");
    let lib = prefix.join("lib/mcad");
    for program in build::PROGRAMS {
        place(&built.join(program), &bin.join(program))?;
    }
    for broker in build::BROKERS {
        place(&built.join(broker), &lib.join(broker))?;
    }
    let plugin = mcad_broker_qemu::plugin::find(None)?;
    if let Some(name) = plugin.file_name() {
        place(&plugin, &lib.join(name))?;
    }
    let mcad = bin.join("mcad");
    execute(command(&mcad).arg("man").arg(prefix.join("share/man/man1")))?;
    for (shell, directory, pattern) in [
        ("bash", "share/bash-completion/completions", "{}"),
        ("zsh", "share/zsh/site-functions", "_{}"),
        ("fish", "share/fish/vendor_completions.d", "{}.fish"),
    ] {
        for program in build::PROGRAMS {
            let arguments = ["completions", shell, "--command", program];
            let script = output(command(&mcad).args(arguments))
                .with_context(|| format!("no {shell} completions for {program}"))?;
            let path = prefix.join(directory).join(pattern.replace("{}", program));
            make_parent(&path)?;
            fs::write(&path, script).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))
}

/// Copies through a rename, so that programs in use keep what they have.
fn place(from: &Path, to: &Path) -> Result<()> {
    make_parent(to)?;
    let scratch = to.with_extension("new");
    fs::copy(from, &scratch)
        .and_then(|_| fs::rename(&scratch, to))
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}
