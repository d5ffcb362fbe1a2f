//! Builds the programs, brokers and helper plugins once per test binary.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What mcad consists of, as packages.
const PACKAGES: [&str; 4] = [
    "mcad-daemon",
    "mcad-broker-qemu",
    "mcad-broker-asm",
    "mcad-broker-replay",
];

/// Where the built files are.
#[derive(Debug)]
pub struct Programs {
    /// The directory with programs and brokers: `target/PROFILE`.
    pub dir: PathBuf,
}

impl Programs {
    /// A program's file.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The counting plugin.
    #[must_use]
    pub fn count_plugin(&self) -> PathBuf {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        let build = || {
            let out = self.dir.join("count-plugin");
            let script = root().join("tests/plugin/build.sh");
            let built = Command::new("sh").arg(script).arg(&out).status();
            assert!(
                built.is_ok_and(|status| status.success()),
                "the counting plugin does not build: is there a C compiler (apt-get install gcc)?"
            );
            out.join("libcount-plugin.so")
        };
        BUILT.get_or_init(build).clone()
    }
}

/// The workspace.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The programs, built now if they are not.
pub fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(build)
}

/// Cargo gives tests of one package no binaries of another, so they are built here: the same
/// target directory and profile, which is no work when `cargo xtask test` has built already.
fn build() -> Programs {
    let exe = std::env::current_exe().unwrap();
    let dir = exe
        .ancestors()
        .skip(1)
        .find(|dir| !dir.ends_with("deps"))
        .unwrap()
        .to_owned();
    let name = dir.file_name().unwrap().to_str().unwrap();
    let profile = if name == "debug" { "dev" } else { name };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(root())
        .args(["build", "--quiet", "--locked", "--profile", profile])
        .arg("--target-dir")
        .arg(dir.parent().unwrap());
    for package in PACKAGES {
        command.args(["--package", package]);
    }
    let built = command.status().expect("cargo runs");
    assert!(
        built.success(),
        "mcad does not build; try `cargo build --profile {profile} --workspace`"
    );
    Programs { dir }
}
