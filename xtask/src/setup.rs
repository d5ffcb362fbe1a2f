//! `cargo xtask setup`: what mcad needs beyond Rust and a C compiler.
//!
//! Packages come from the distribution, without questions, with sudo only where this is not root.
//! A QEMU that is there already is never replaced: where it loads no plugins, another one is built
//! into the cache directory (see [`crate::qemu`]).

use std::process::Stdio;

use anyhow::{Result, anyhow, bail};

use crate::command::{as_root, command, execute_aside, exists, output};
use crate::qemu;

/// Options of `cargo xtask setup`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// Also install what the tests run
    #[arg(long)]
    pub tests: bool,
    /// Build a QEMU from the distribution's source package even if a usable one is found
    #[arg(long)]
    pub build_qemu: bool,
}

/// A package, known by a file or program that it brings.
pub struct Package {
    name: &'static str,
    /// A program in `PATH` that shows that it is there.
    program: &'static str,
}

/// A package and a program that shows that it is there.
pub const fn package(name: &'static str, program: &'static str) -> Package {
    Package { name, program }
}

/// Needed to run.
const BASE: &[Package] = &[package("gcc", "cc"), package("binutils", "as")];

/// Needed by the tests.
const TESTS: &[Package] = &[
    package("ffmpeg", "ffmpeg"),
    package("g++", "c++"),
    package("gzip", "gzip"),
    package("make", "make"),
    package("sqlite3", "sqlite3"),
    package("python3", "python3"),
    package("xz-utils", "xz"),
    package("zstd", "zstd"),
    package("capnproto", "capnp"),
    package("llvm", "llvm-mca"),
    package("valgrind", "valgrind"),
    package("gcc-aarch64-linux-gnu", "aarch64-linux-gnu-gcc"),
    package("libc6-dev-arm64-cross", "/usr/aarch64-linux-gnu/lib/libc.a"),
    package("gcc-riscv64-linux-gnu", "riscv64-linux-gnu-gcc"),
    package(
        "libc6-dev-riscv64-cross",
        "/usr/riscv64-linux-gnu/lib/libc.a",
    ),
    package("chromium", "chromium"),
];

/// What Chromium needs besides: a helper that is root's where a user may not make namespaces.
/// Root runs it without a sandbox.
fn sandbox() -> &'static [Package] {
    const HELPER: &[Package] = &[package(
        "chromium-sandbox",
        "/usr/lib/chromium/chrome-sandbox",
    )];
    let namespaces = output(command("unshare").args(["--user", "true"])).is_some();
    match rustix::process::geteuid().is_root() || namespaces {
        true => &[],
        false => HELPER,
    }
}

/// Installs what is missing.
pub fn run(args: &Args) -> Result<()> {
    ensure(BASE)?;
    if args.tests {
        ensure(TESTS)?;
        ensure(sandbox())?;
    }
    if args.build_qemu {
        return qemu::build();
    }
    qemu::ensure()
}

/// Installs those packages whose programs are missing.
pub fn ensure(packages: &[Package]) -> Result<()> {
    let missing = packages.iter().filter(|package| !exists(package.program));
    let names: Vec<&str> = missing.map(|package| package.name).collect();
    install(&names)
}

/// Installs packages with apt; other systems get their names.
pub fn install(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    if !exists("apt-get") {
        bail!(
            "missing: {}. There is no apt-get here: install your system's packages of these \
             (Debian's names) and start again",
            packages.join(" ")
        );
    }
    // Refused before anything is fetched or built.
    let mut install = as_root("env").map_err(|_| {
        let missing = packages.join(" ");
        anyhow!("installing {missing} needs root and there is no sudo; run `cargo xtask setup` as root once")
    })?;
    let simulate = ["install", "--simulate", "--no-install-recommends"];
    if output(command("apt-get").args(simulate).args(packages)).is_none() {
        // No package lists yet, as in a fresh container.
        execute_aside(as_root("apt-get")?.args(["update", "--quiet"]))?;
    }
    eprintln!("installing {}", packages.join(" "));
    if let Some(sizes) = sizes(packages) {
        eprintln!("{sizes}");
    }
    // Through env, since sudo drops the environment.
    execute_aside(
        install
            .args([
                "DEBIAN_FRONTEND=noninteractive",
                "apt-get",
                "install",
                "--yes",
            ])
            .args(["--quiet", "--no-install-recommends"])
            .args(packages),
    )
}

/// What apt says of the sizes of packages and of what they bring along.
fn sizes(packages: &[&str]) -> Option<String> {
    let mut ask = command("apt-get");
    ask.env("LC_ALL", "C").args(["install", "--assume-no"]);
    ask.arg("--no-install-recommends").args(packages);
    // It fails, since the answer is no.
    let answer = ask.stdin(Stdio::null()).output().ok()?;
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    let told = |line: &&str| line.starts_with("Need to get") || line.starts_with("After this op");
    let lines: Vec<&str> = answer.lines().filter(told).collect();
    (!lines.is_empty()).then(|| format!("  {}", lines.join("\n  ")))
}

/// Installs the newest llvm-mca that the distribution has: what comparisons are made with.
pub fn install_newest_llvm() -> Result<()> {
    let mut search = command("apt-cache");
    search.args(["search", "--names-only", "^llvm-[0-9]+$"]);
    let found = output(&mut search).unwrap_or_default();
    let newest = found
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter_map(|name| Some((name.strip_prefix("llvm-")?.parse::<u32>().ok()?, name)))
        .max();
    match newest {
        Some((version, package)) if !exists(&format!("llvm-mca-{version}")) => install(&[package]),
        _ => Ok(()),
    }
}
