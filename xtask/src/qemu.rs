//! A QEMU that loads plugins: the distribution's where it does, else one built from the
//! distribution's source package into the cache directory, where `mcad-run` finds it.
//!
//! Debian 12's `qemu-user` is dynamic and loads plugins. Those of Debian 13 and of
//! bookworm-backports are statically linked and have no `-plugin`; installing one would not help
//! and replacing the other would hurt, so neither is touched.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mcad_broker_qemu::qemu as finder;
use mcad_proto::event::Arch;

use crate::command::{as_root, command, execute_aside, exists, output};
use crate::setup::install;

/// What building a user-mode QEMU takes.
const BUILD_PACKAGES: &[&str] = &[
    "bison",
    "dpkg-dev",
    "flex",
    "gcc",
    "libc6-dev",
    "libglib2.0-dev",
    "make",
    "meson",
    "ninja-build",
    "pkg-config",
    "python3",
    "python3-venv",
    "xz-utils",
    "zlib1g-dev",
];

/// Instruction sets that programs are traced of.
const ARCHES: [Arch; 4] = Arch::ALL;

/// Makes sure that there is one for each instruction set.
pub fn ensure() -> Result<()> {
    let all = || {
        ARCHES
            .iter()
            .map(|arch| finder::find(None, *arch))
            .collect()
    };
    let found: Result<Vec<_>, _> = all();
    let found = match found {
        Ok(found) => found,
        Err(_) if !exists(&finder::name(Arch::X86_64)) && package_loads_plugins() => {
            install(&["qemu-user"])?;
            let found: Result<Vec<_>, _> = all();
            found.context("the installed qemu-user is of no use")?
        }
        Err(_) => {
            eprintln!(
                "The distribution's qemu-user is built without plugins (so are Debian 13's and \
                 later ones). Building a user-mode QEMU from its source package; this takes about \
                 10 minutes on two cores and is done once."
            );
            return build();
        }
    };
    for found in found {
        eprintln!("QEMU: {} ({})", found.path.display(), found.version);
    }
    Ok(())
}

/// Whether the package that apt would install is the dynamically linked one: plugins need glib's
/// module loader, and only that one depends on glib.
fn package_loads_plugins() -> bool {
    let show = || output(command("apt-cache").args(["show", "--no-all-versions", "qemu-user"]));
    let mut text = show();
    if text.as_deref().is_none_or(|text| text.trim().is_empty()) && exists("apt-get") {
        let updated =
            as_root("apt-get").and_then(|mut apt| execute_aside(apt.args(["update", "--quiet"])));
        if updated.is_ok() {
            text = show();
        }
    }
    let text = text.unwrap_or_default();
    let mut depends = text
        .lines()
        .filter_map(|line| line.strip_prefix("Depends:"));
    depends.any(|list| list.contains("libglib2.0"))
}

/// Builds one into the cache directory.
pub fn build() -> Result<()> {
    let bin = finder::cache_dir().context("no cache directory: set HOME")?;
    let prefix = bin.parent().unwrap_or(&bin).to_owned();
    install(BUILD_PACKAGES)?;
    let work = prefix.with_file_name("qemu-build");
    // What an interrupted build left would only confuse.
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("cannot clear {}", work.display()))?;
    }
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let source = fetch(&work)?;
    configure_and_build(&source, &prefix)?;
    for arch in ARCHES {
        let built =
            finder::check(&bin.join(finder::name(arch)), arch).map_err(anyhow::Error::msg)?;
        eprintln!("QEMU: {} ({})", built.path.display(), built.version);
    }
    fs::remove_dir_all(&work).with_context(|| format!("cannot clear {}", work.display()))
}

/// Fetches and unpacks the distribution's source package with package lists of our own, so that
/// the system's configuration stays as it is and no root is needed.
fn fetch(work: &Path) -> Result<PathBuf> {
    let lists = work.join("lists");
    let cache = work.join("cache");
    for directory in [lists.join("partial"), cache.join("archives/partial")] {
        fs::create_dir_all(&directory)?;
    }
    let sources = work.join("deb-src.sources");
    fs::write(&sources, source_entries()?)?;
    let options = [
        format!("-oDir::Etc::sourcelist={}", sources.display()),
        "-oDir::Etc::sourceparts=-".to_owned(),
        format!("-oDir::State::lists={}", lists.display()),
        format!("-oDir::Cache={}", cache.display()),
        "-oAPT::Sandbox::User=".to_owned(),
    ];
    execute_aside(
        command("apt-get")
            .args(&options)
            .args(["update", "--quiet"]),
    )?;
    execute_aside(
        command("apt-get")
            .args(&options)
            .args(["source", "--quiet", "--only-source", "qemu"])
            .current_dir(work),
    )?;
    let entries = fs::read_dir(work)?
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    let mut trees = entries.filter(|path| path.join("configure").is_file());
    trees.next().with_context(|| {
        format!(
            "the source package left no source tree in {}",
            work.display()
        )
    })
}

/// The system's package sources of Debian itself, turned into entries for source packages.
fn source_entries() -> Result<String> {
    let mut entries = String::new();
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(directory) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(directory.filter_map(Result::ok).map(|entry| entry.path()));
    }
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        if file
            .extension()
            .is_some_and(|extension| extension == "sources")
        {
            for stanza in text.split("\n\n").filter(|stanza| is_debian(stanza)) {
                let lines = stanza.lines().filter(|line| !line.starts_with('#'));
                for line in lines {
                    let types = line.starts_with("Types:");
                    entries.push_str(if types { "Types: deb-src" } else { line });
                    entries.push('\n');
                }
                entries.push('\n');
            }
        } else {
            entries.extend(
                text.lines()
                    .filter(|line| is_debian(line))
                    .filter_map(one_line),
            );
        }
    }
    if entries.is_empty() {
        bail!("no Debian package source is configured in /etc/apt; qemu's source is not to be had");
    }
    Ok(entries)
}

/// Archives of other vendors have no qemu and may fail.
fn is_debian(entry: &str) -> bool {
    entry.contains("debian.org") || entry.contains("/debian")
}

/// `deb [options] URI suite components…` as a stanza.
fn one_line(line: &str) -> Option<String> {
    let rest = line.trim().strip_prefix("deb ")?.trim();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace();
    let (uri, suite) = (words.next()?, words.next()?);
    let components: Vec<&str> = words.collect();
    let mut stanza = format!("Types: deb-src\nURIs: {uri}\nSuites: {suite}\n");
    stanza.push_str(&format!("Components: {}\n", components.join(" ")));
    if let Some(key) = options
        .split_whitespace()
        .find_map(|o| o.strip_prefix("signed-by="))
    {
        stanza.push_str(&format!("Signed-By: {key}\n"));
    }
    stanza.push('\n');
    Some(stanza)
}

fn configure_and_build(source: &Path, prefix: &Path) -> Result<()> {
    let build = source.join("build-mcad");
    fs::create_dir_all(&build)?;
    let targets: Vec<String> = ARCHES
        .iter()
        .map(|arch| format!("{arch}-linux-user"))
        .collect();
    let names: Vec<String> = ARCHES.iter().map(|arch| finder::name(*arch)).collect();
    execute_aside(
        command(source.join("configure"))
            .arg(format!("--prefix={}", prefix.display()))
            .arg(format!("--target-list={}", targets.join(",")))
            .arg("--enable-plugins")
            .args([
                "--without-default-features",
                "--disable-system",
                "--disable-docs",
                // The distribution's source comes without firmware.
                "--disable-install-blobs",
            ])
            .args(["--disable-werror"])
            .current_dir(&build),
    )?;
    let jobs = std::thread::available_parallelism().map_or(2, usize::from);
    execute_aside(
        command("ninja")
            .arg(format!("-j{jobs}"))
            .args(&names)
            .current_dir(&build),
    )?;
    let bin = prefix.join("bin");
    fs::create_dir_all(&bin)?;
    for name in &names {
        let (from, to) = (build.join(name), bin.join(name));
        fs::copy(&from, &to)
            .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_entries_become_stanzas() {
        let stanza = one_line("deb [arch=amd64 signed-by=/k.gpg] http://d/debian sid main contrib");
        assert_eq!(
            stanza.as_deref(),
            Some(
                "Types: deb-src\nURIs: http://d/debian\nSuites: sid\nComponents: main contrib\n\
                 Signed-By: /k.gpg\n\n"
            )
        );
        assert_eq!(one_line("# deb http://d/debian sid main"), None);
        assert_eq!(one_line("deb-src http://d/debian sid main"), None);
    }
}
