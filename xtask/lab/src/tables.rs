//! `cargo xtask tables`: makes the embedded instruction tables from the rows that uops.info
//! published.
//!
//! The steps, one module each: `source` reads rows, `spec` takes their names apart, `mapping`
//! finds the codes of iced-x86 that a row applies to, `operands` binds XED's operand names,
//! `figures` settles the numbers, `draft` puts a CPU's table together, `fill` borrows what it
//! lacks (`evex` corrects what Golden Cove borrows, `redwood` what its own rows have of its
//! successor, `crossings` what it has from its chains; `zen` adds what AMD's rows leave out), `analogy` and `estimate` add what nobody measured, `write` packs it. docs/TABLES.md has the rules.

mod analogy;
pub mod coverage;
mod cpus;
mod crossings;
mod draft;
mod estimate;
mod evex;
mod explicit;
mod figures;
mod fill;
mod implicit;
mod kinds;
pub mod lookup;
mod mapping;
mod operands;
mod redwood;
mod report;
mod source;
mod spec;
#[cfg(test)]
mod tests;
mod write;
mod zen;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use mcad_isa::machine::table::{FormTable, wire};

use cpus::CPUS;
use draft::Draft;
use mapping::Catalogue;
use operands::Lists;

/// Arguments of `cargo xtask tables`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder with the published rows (CPU.jsonl.xz).
    #[arg(long)]
    from: PathBuf,
    /// Only this CPU (repeatable).
    #[arg(long)]
    cpu: Vec<String>,
    /// Write nothing; fail if a committed file is not what would be written.
    #[arg(long)]
    check: bool,
    /// Write the full list of what could not be mapped or had to be settled.
    #[arg(long)]
    report: Option<PathBuf>,
}

/// Where the tables lie.
pub fn folder() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../daemon/isa/data"
    ))
}

/// Makes or checks the tables.
///
/// # Errors
/// When rows cannot be read, a table cannot be written, or `--check` finds a stale one.
pub fn run(args: &Args) -> Result<()> {
    for name in &args.cpu {
        if cpus::find(name).is_none() {
            let names: Vec<_> = CPUS.iter().map(|c| c.name).collect();
            bail!("--cpu {name}: unknown; there are: {}", names.join(" "));
        }
    }
    let mut lists = Lists::default();
    for name in cpus::OPERAND_LISTS {
        lists.add(&source::read(&args.from, name)?);
    }
    let catalogue = Catalogue::new();
    let mut drafts = Vec::new();
    for cpu in &CPUS {
        let mut rows = source::read(&args.from, cpu.source)?;
        if cpu.layout.is_zen() {
            zen::rename(&mut rows);
        }
        let mut draft = Draft::new(cpu, &rows, &catalogue, &lists);
        if cpu.name == "glc" {
            redwood::to_golden_cove(&mut draft.forms);
        }
        zen::complete(cpu, &mut draft.forms);
        drafts.push(draft);
    }
    fill::borrow(&mut drafts);
    for draft in &mut drafts {
        if crossings::CPUS.contains(&draft.cpu.name) {
            crossings::settle(&mut draft.forms);
        }
        analogy::offer(draft, &catalogue);
        estimate::offer(draft, &catalogue);
        if cpus::MEASURED.contains(&draft.cpu.name) {
            let file = format!("measured/{}.csv.xz", draft.cpu.name);
            zen::overlay(draft, &folder().join(file))?;
        }
    }
    let mut text = String::new();
    let mut stale = Vec::new();
    for draft in &mut drafts {
        let name = draft.cpu.name;
        if !args.cpu.is_empty() && !args.cpu.iter().any(|c| c == name) {
            continue;
        }
        let file = write::file(draft)?;
        let bytes = wire::encode(&file).map_err(anyhow::Error::msg)?;
        let table = FormTable::decode(&bytes).map_err(anyhow::Error::msg)?;
        report::find_again(draft, &table);
        let path = folder().join(format!("{name}.table"));
        if args.check {
            // The compressor may change; what counts is the content.
            let committed = fs::read(&path).with_context(|| path.display().to_string())?;
            if wire::decode(&committed).as_ref() != Ok(&file) {
                stale.push(name);
            }
        } else {
            fs::create_dir_all(folder())?;
            fs::write(&path, &bytes).with_context(|| path.display().to_string())?;
        }
        eprintln!("{}", report::summary(draft, bytes.len()));
        text += &report::full(draft);
    }
    if let Some(path) = &args.report {
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    if !stale.is_empty() {
        bail!(
            "stale: {}; run `cargo xtask tables --from {}`",
            stale.join(" "),
            args.from.display()
        );
    }
    Ok(())
}
