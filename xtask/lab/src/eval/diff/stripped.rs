//! Two releases of a stripped program that exports nothing: clang-format as PyPI has it.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Figure, Limit, Place, percent};
use crate::eval::wheel::Wheel;

const VERSIONS: [Wheel; 2] = [
    Wheel {
        requirement: "clang-format==13.0.1",
        sha256: "58e91debc2b2d14d174c73c678ffac676cb171152ee3f4239b6cbe6975e4ede1",
        tags: &["--platform=manylinux_2_12_x86_64"],
    },
    Wheel {
        requirement: "clang-format==23.1.5",
        sha256: "d97ce49911ba8c89ef3f3c0735a9c7818e4780ab4812c67d1c5fcd829d16ae52",
        tags: &["--platform=manylinux_2_28_x86_64"],
    },
];

pub(super) fn measure(place: &Place, source: &Path) -> Result<Vec<Figure>> {
    let source = std::path::absolute(xtask::command::root().join(source))?;
    let mut reports = Vec::new();
    let mut figures = Vec::new();
    for wheel in VERSIONS {
        let name = wheel.requirement.replace("==", "-");
        let program = wheel.fetch(&place.work)?;
        let program = program.join("clang_format/data/bin/clang-format");
        executable(&program)?;
        let report = place.report(&name, &[program.as_os_str() as &OsStr, source.as_os_str()])?;
        figures.push(Figure::new(
            format!(
                "{}: cycles in function ranges",
                wheel.requirement.replace("==", " ")
            ),
            in_functions(&report)?,
            "%",
            Limit::Least(80.0),
        ));
        reports.push(report);
    }
    let [old, new] = reports.as_slice() else {
        return Ok(figures);
    };
    let compared = place.compare([old, new])?;
    let what = "clang-format 13 to 23";
    figures.push(Figure::new(
        format!("{what}: change in functions of both"),
        compared.share(|f| f.found),
        "%",
        Limit::None,
    ));
    figures.extend(place.rules(what, &compared, old)?);
    Ok(figures)
}

/// Unpacking loses it.
fn executable(program: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let rights = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(program, rights)
        .with_context(|| format!("cannot make {} executable", program.display()))
}

/// Percentage of the program's own cycles that fall into the range of a function.
fn in_functions(report: &Path) -> Result<f64> {
    let report: Value = serde_json::from_slice(&std::fs::read(report)?)?;
    let functions = report
        .pointer("/cpus/0/functions")
        .and_then(Value::as_array);
    let (mut all, mut inside) = (0, 0);
    for f in functions.context("the report has no functions")? {
        let text = |key: &str| f.get(key).and_then(Value::as_str).unwrap_or("");
        if text("module") != "clang-format" {
            continue;
        }
        let cycles = f.get("cycles").and_then(Value::as_u64).unwrap_or(0);
        all += cycles;
        // Code outside all functions goes by the module's name, sections by theirs.
        if !text("name").starts_with(['[', '.']) {
            inside += cycles;
        }
    }
    Ok(percent(inside, all))
}
