//! `cargo xtask package`: a Debian package and a tarball of what a user runs, and, with `--try`, a
//! run of the package in a bare system.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::{as_root, command, execute, execute_aside, exists, output, root};
use crate::{build, install};

/// Options of `cargo xtask package`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the packages are made
    #[arg(long, value_name = "DIR", default_value = "target/package")]
    out: PathBuf,
    /// Also install the package in a bare Debian (made by debootstrap, as root) and run it there
    #[arg(long = "try")]
    bare: bool,
}

/// What must run in a bare system once the package is there. A minimal Debian leaves man pages and
/// completions of packages in place, and has no reader of either.
const TRIALS: &[&str] = &[
    "mcad --version",
    "mcad doctor",
    "mcad-run --cpu zen5 -- sh -c 'exit 3'; test $? = 3",
    "cp /usr/bin/gzip /tmp/FILE && mcad-run --cpu skl -- gzip -k /tmp/FILE && gzip -t /tmp/FILE.gz",
    "mcad block --cpu glc --hex 4801d8480fafc0",
    "test -s /usr/share/man/man1/mcad-run.1.gz",
    "bash -c '. /usr/share/bash-completion/completions/mcad-run && complete -p mcad-run'",
    "bash -c '. /usr/share/bash-completion/completions/mcad && complete -p mcad'",
];

/// And without the package, from the tarball unpacked anywhere, once QEMU is there.
const TARBALL_TRIALS: &[&str] = &[
    "apt-get remove --yes --quiet mcad && tar -C /opt -xzf /tmp/mcad.tar.gz",
    "/opt/mcad-*/bin/mcad-run --cpu skl -- gzip -kf /tmp/FILE",
    "/opt/mcad-*/bin/mcad block --cpu glc --hex 4801d8480fafc0",
];

/// Builds, and makes both packages.
pub fn run(args: &Args) -> Result<()> {
    if !exists("dpkg-deb") {
        bail!("dpkg-deb is missing: the package can be made on Debian and its relatives only");
    }
    let out = std::path::absolute(root().join(&args.out))?;
    let version = env!("CARGO_PKG_VERSION");
    let machine = std::env::consts::ARCH;
    let name = format!("mcad-{version}-{machine}-linux");
    let built = build::release()?;

    let tree = fresh(&out.join(&name))?;
    stage(&built, &tree)?;
    let tarball = out.join(format!("{name}.tar.gz"));
    execute_aside(
        command("tar")
            .args([
                "--create",
                "--gzip",
                "--owner=0",
                "--group=0",
                "--sort=name",
            ])
            .arg("--file")
            .arg(&tarball)
            .arg("--directory")
            .arg(&out)
            .arg(&name),
    )?;

    let arch = output(command("dpkg").arg("--print-architecture"))
        .context("dpkg does not tell this machine's architecture")?;
    let debian = fresh(&out.join("debian"))?;
    stage(&built, &debian.join("usr"))?;
    for page in files(&debian.join("usr/share/man/man1"))? {
        execute_aside(command("gzip").args(["--best", "--no-name"]).arg(page))?;
    }
    let control = debian.join("DEBIAN/control");
    write(&control, &describe(&debian, version, arch.trim())?)?;
    let package = out.join(format!("mcad_{version}_{}.deb", arch.trim()));
    execute_aside(
        command("dpkg-deb")
            .args(["--build", "--root-owner-group"])
            .args([&debian, &package]),
    )?;
    fs::remove_dir_all(&debian).context("cannot clear away what the package was made of")?;
    fs::remove_dir_all(&tree).context("cannot clear away what the tarball was made of")?;
    eprintln!("made {}\n     {}", package.display(), tarball.display());
    match args.bare {
        true => in_bare_system(&package, &tarball, &out.join("bare")),
        false => Ok(()),
    }
}

/// An empty directory of this name.
fn fresh(path: &Path) -> Result<PathBuf> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot clear {}", path.display()))
        }
        _ => {
            fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
            Ok(path.to_owned())
        }
    }
}

/// Puts everything below a prefix, without debugging information.
fn stage(built: &Path, prefix: &Path) -> Result<()> {
    install::into(built, prefix)?;
    let programs = build::PROGRAMS.map(|program| prefix.join("bin").join(program));
    let libraries = files(&prefix.join("lib/mcad"))?;
    for file in programs.into_iter().chain(libraries) {
        execute_aside(command("strip").arg("--strip-unneeded").arg(file))?;
    }
    let doc = prefix.join("share/doc/mcad");
    for (from, to) in [
        ("README.md", "README.md"),
        ("LICENSE", "copyright"),
        ("LICENSE-MIT", "LICENSE-MIT"),
        ("LICENSE-APACHE", "LICENSE-APACHE"),
    ] {
        let text =
            fs::read_to_string(root().join(from)).with_context(|| format!("cannot read {from}"))?;
        write(&doc.join(to), &text)?;
    }
    Ok(())
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let list = || {
        fs::read_dir(directory)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    };
    let files: std::io::Result<Vec<PathBuf>> = list();
    files.with_context(|| format!("cannot list {}", directory.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The package's control file. It needs the C library that it was built with, or a later one.
fn describe(debian: &Path, version: &str, arch: &str) -> Result<String> {
    let mcad = debian.join("usr/bin/mcad");
    let symbols = output(command("objdump").arg("--dynamic-syms").arg(mcad))
        .context("objdump cannot read the program")?;
    let glibc = newest_glibc(&symbols).context("the program names no version of the C library")?;
    Ok(format!(
        "Package: mcad\n\
         Version: {version}\n\
         Architecture: {arch}\n\
         Maintainer: mcad developers <mcad@localhost>\n\
         Section: devel\n\
         Priority: optional\n\
         Depends: libc6 (>= {}.{}), libgcc-s1, qemu-user\n\
         Recommends: binutils\n\
         Description: how many cycles a program takes on a CPU\n \
         Runs a program under QEMU, simulates a CPU's core on what it executes and reports its\n \
         cycles, where they go and what a change did to them. Also predicts single basic blocks,\n \
         measures them on the host, and compares versions.\n",
        glibc.0, glibc.1
    ))
}

/// The newest `GLIBC_x.y` that is named.
fn newest_glibc(symbols: &str) -> Option<(u32, u32)> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let mut numbers = rest[..end.unwrap_or(rest.len())].split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    versions.max()
}

/// Installs the package where nothing else is, and runs what must run.
fn in_bare_system(package: &Path, tarball: &Path, at: &Path) -> Result<()> {
    if !exists("debootstrap") {
        bail!("debootstrap is missing: apt-get install debootstrap");
    }
    let _ = as_root("rm")?.args(["-rf"]).arg(at).status();
    execute_aside(
        as_root("debootstrap")?
            .args(["--variant=minbase", "bookworm"])
            .arg(at),
    )?;
    execute_aside(as_root("cp")?.arg(package).arg(at.join("tmp/mcad.deb")))?;
    execute_aside(as_root("cp")?.arg(tarball).arg(at.join("tmp/mcad.tar.gz")))?;
    execute_aside(
        as_root("cp")?
            .arg("/etc/resolv.conf")
            .arg(at.join("etc/resolv.conf")),
    )?;
    let install = "apt-get install --yes --quiet --no-install-recommends /tmp/mcad.deb";
    for line in [install].iter().chain(TRIALS).chain(TARBALL_TRIALS) {
        eprintln!("in {}:", at.display());
        let mut inside = as_root("unshare")?;
        inside
            .args(["--mount", "--pid", "--fork", "--mount-proc"])
            .arg(format!("--root={}", at.display()))
            .args(["env", "-i", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"])
            .arg("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .args(["sh", "-c", line]);
        execute(&mut inside)?;
    }
    execute_aside(as_root("rm")?.args(["-rf"]).arg(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_c_library_counts() {
        let symbols = "(GLIBC_2.2.5) free\n(GLIBC_2.34) dlsym\n(GLIBC_2.9) x\n";
        assert_eq!(newest_glibc(symbols), Some((2, 34)));
        assert_eq!(newest_glibc("nothing"), None);
    }
}
