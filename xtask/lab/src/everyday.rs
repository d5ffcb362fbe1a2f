//! `cargo xtask programs-inputs DIR`: the inputs of `docs/programs/debian-*.csv`.
//!
//! Everything follows from a generator written down here, so that the files are the same on every
//! machine: what was measured with them is what `mcad eval --programs --inputs DIR` predicts. The
//! programs' scripts are beside this file.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};
use xtask::command::{command, execute};

mod files;
mod random;

use random::{Random, Words};

/// Arguments of `cargo xtask programs-inputs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the inputs go; made if it is not there
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// What the programs run.
const SCRIPTS: [(&str, &str); 11] = [
    ("count.awk", include_str!("everyday/count.awk")),
    ("series.bc", include_str!("everyday/series.bc")),
    ("words.re", include_str!("everyday/words.re")),
    ("change.sed", include_str!("everyday/change.sed")),
    ("query.jq", include_str!("everyday/query.jq")),
    ("nbody.lua", include_str!("everyday/nbody.lua")),
    ("objects.py", include_str!("everyday/objects.py")),
    ("words.pl", include_str!("everyday/words.pl")),
    ("lists.tcl", include_str!("everyday/lists.tcl")),
    ("queries.sql", include_str!("everyday/queries.sql")),
    ("README", README),
];

/// What says where the directory is from.
const README: &str = "Made by `cargo xtask programs-inputs`; docs/PROGRAMS.md says what for.\n";

/// Writes the inputs.
///
/// # Errors
/// When the directory cannot be written, or `git` cannot be run.
pub fn run(args: &Args) -> Result<()> {
    let directory = &args.directory;
    let name = directory.display();
    fs::create_dir_all(directory).with_context(|| format!("cannot make {name}"))?;
    let put = |file: &str, text: &str| {
        let path = directory.join(file);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for (file, text) in SCRIPTS {
        put(file, text)?;
    }
    let words = Words::new(&mut Random::new(1), 6000);
    let text = files::text(&mut Random::new(2), &words, 1_500_000);
    put("text.txt", &text)?;
    put("small.txt", text.get(..300_000).unwrap_or(&text))?;
    put("changed.txt", &files::changed(&mut Random::new(3), &text))?;
    put("numbers.txt", &files::numbers(&mut Random::new(4), 100_000))?;
    put(
        "records.json",
        &files::records(&mut Random::new(5), &words, 6000),
    )?;
    put("functions.i", &files::functions(&mut Random::new(6), 12))?;
    put("assembly.s", &files::assembly(&mut Random::new(7), 40_000))?;
    put("targets.mk", &files::targets(&mut Random::new(8), 2500))?;
    tree(&directory.join("tree"))?;
    repository(directory, &files::commits(&mut Random::new(9), &words, 120))
}

/// Empty files in directories, which `find` walks through.
fn tree(root: &Path) -> Result<()> {
    for n in 0..60 {
        let directory = root.join(format!("part{}/of{n}", n % 7));
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        for file in 0..80 {
            let mut name = String::new();
            let kind = ["txt", "rs", "o", "html"];
            let kind = kind.get((file * 7 + n) % 4).unwrap_or(&"txt");
            let _ = write!(name, "file-{file}.{kind}");
            let path = directory.join(name);
            fs::write(&path, "").with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// A repository whose commits `git log` compares.
fn repository(directory: &Path, commits: &str) -> Result<()> {
    let stream = directory.join("commits.fi");
    fs::write(&stream, commits).with_context(|| format!("cannot write {}", stream.display()))?;
    let repository = directory.join("repository.git");
    if repository.exists() {
        fs::remove_dir_all(&repository)?;
    }
    execute(
        command("git")
            .args(["init", "--quiet", "--bare"])
            .arg(&repository),
    )?;
    let stream = fs::File::open(&stream)?;
    execute(
        command("git")
            .arg("--git-dir")
            .arg(&repository)
            .args(["fast-import", "--quiet"])
            .stdin(Stdio::from(stream)),
    )
}
