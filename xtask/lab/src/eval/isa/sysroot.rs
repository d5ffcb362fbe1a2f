//! Debian's programs of another instruction set with the libraries that they need, unpacked beside
//! each other: what `mcad-run --sysroot` takes. apt chooses and fetches the packages, with lists of
//! its own, so that this system's are left alone.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use xtask::command::{command, execute};

/// Where an instruction set's packages are.
pub struct Debian {
    /// QEMU's name of the instruction set.
    pub arch: &'static str,
    /// Debian's.
    architecture: &'static str,
    /// The first release that has it, or the one that tests run on.
    suite: &'static str,
}

pub const ARM64: Debian = Debian {
    arch: "aarch64",
    architecture: "arm64",
    suite: "bookworm",
};

pub const RISCV64: Debian = Debian {
    arch: "riscv64",
    architecture: "riscv64",
    suite: "trixie",
};

const PACKAGES: [&str; 4] = ["gzip", "sqlite3", "xz-utils", "python3-minimal"];

/// Makes it, or gives the one that was made.
pub fn make(debian: &Debian, work: &Path) -> Result<PathBuf> {
    let sysroot = work.join(format!("sysroot-{}", debian.architecture));
    let whole = sysroot.join("complete");
    if whole.is_file() {
        return Ok(sysroot);
    }
    let apt = work.join(format!("apt-{}", debian.architecture));
    for directory in ["lists/partial", "cache/archives/partial", "etc"] {
        fs::create_dir_all(apt.join(directory))?;
    }
    fs::write(apt.join("status"), "")?;
    fs::write(
        apt.join("etc/debian.sources"),
        format!(
            "Types: deb\nURIs: http://deb.debian.org/debian\nSuites: {}\nComponents: main\n\
             Architectures: {}\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
            debian.suite, debian.architecture
        ),
    )?;
    let get = |arguments: &[&str]| {
        let at = |name: &str| apt.join(name).display().to_string();
        let mut get = command("apt-get");
        for (option, value) in [
            ("APT::Architecture", debian.architecture.to_owned()),
            ("APT::Architectures::", debian.architecture.to_owned()),
            ("APT::Install-Recommends", "false".into()),
            ("APT::Sandbox::User", "root".into()),
            ("Dir::State::status", at("status")),
            ("Dir::State::lists", at("lists")),
            ("Dir::Cache", at("cache")),
            ("Dir::Etc::sourcelist", at("etc/debian.sources")),
            ("Dir::Etc::sourceparts", "/dev/null".into()),
            ("Debug::NoLocking", "true".into()),
        ] {
            get.arg("-o").arg(format!("{option}={value}"));
        }
        execute(get.args(arguments).stdout(std::io::stderr()))
    };
    get(&["-qq", "update"])?;
    let mut install = vec!["-qq", "-y", "--download-only", "install"];
    install.extend(PACKAGES);
    get(&install)?;
    // Packages name directories of old that are links in today's systems.
    for directory in ["bin", "lib", "sbin", "lib64"] {
        fs::create_dir_all(sysroot.join("usr").join(directory))?;
        let link = sysroot.join(directory);
        if !link.is_symlink() {
            std::os::unix::fs::symlink(format!("usr/{directory}"), link)?;
        }
    }
    for entry in fs::read_dir(apt.join("cache/archives"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            unpack(&path, &sysroot)?;
        }
    }
    fs::write(whole, "")?;
    Ok(sysroot)
}

/// Unpacks a package through the links that are there.
fn unpack(package: &Path, into: &Path) -> Result<()> {
    let mut files = command("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .context("cannot run dpkg-deb, which unpacks packages")?;
    let tar = files.stdout.take().context("it has an output")?;
    execute(
        command("tar")
            .args(["-x", "--keep-directory-symlink", "--no-same-owner", "-C"])
            .arg(into)
            .stdin(tar),
    )?;
    if !files.wait()?.success() {
        bail!("dpkg-deb cannot read {}", package.display());
    }
    Ok(())
}

/// A program of the unpacked packages; links that name it from the root are followed within.
pub fn program(sysroot: &Path, name: &str) -> Result<PathBuf> {
    let file = sysroot.join("usr/bin").join(name);
    fs::canonicalize(&file).with_context(|| format!("Debian has no {}", file.display()))
}
