//! Two versions of a small program with debug information: which function and which line changed.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::Result;

use super::{Figure, Limit, Place, percent};
use xtask::command::{command, execute};

/// The program; the marked line differs between the versions.
const SOURCE: &str = "\
#include <stdio.h>
static unsigned table[256];
__attribute__((noinline)) static void fill(unsigned seed) {
    for (unsigned i = 0; i < 256; i++)
        table[i] = seed = seed * 1664525 + 1013904223;
}
__attribute__((noinline)) static unsigned sum(unsigned steps, unsigned size) {
    unsigned total = 0;
    for (unsigned i = 0; i < steps; i++) {
        total += table[i % 256];
        total = @;
    }
    return total;
}
int main(int count, char **words) {
    (void)words;
    fill((unsigned)count);
    printf(\"%u\\n\", sum(100000, 255 + (unsigned)count));
    return 0;
}
";

/// What stands in the marked line.
const VERSIONS: [(&str, &str); 2] = [
    ("masked", "total & (size - 1)"),
    ("divided", "total % size"),
];

pub(super) fn measure(place: &Place) -> Result<Vec<Figure>> {
    let mut reports: Vec<PathBuf> = Vec::new();
    for (name, text) in VERSIONS {
        // Of one name, since it is the same file in two versions.
        let directory = place.work.join(name);
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join("sum.c"), SOURCE.replace('@', text))?;
        let program = directory.join(name);
        execute(
            command("cc")
                .args(["-O2", "-g", "-o"])
                .arg(&program)
                .arg("sum.c")
                .current_dir(&directory),
        )?;
        reports.push(place.report(name, &[program.as_os_str() as &OsStr])?);
    }
    let [old, new] = reports.as_slice() else {
        return Ok(Vec::new());
    };
    let compared = place.compare([old, new])?;
    let marked = SOURCE.lines().position(|line| line.contains('@'));
    let marked = format!("sum.c:{}", marked.map_or(0, |n| n + 1));
    let there = compared.lines.iter();
    let there = there.filter(|(line, _)| line.rsplit('/').next() == Some(&marked));
    let what = "small program";
    let mut figures = vec![
        Figure::new(
            format!("{what}: change in functions named"),
            compared.share(|f| f.named),
            "%",
            Limit::Least(80.0),
        ),
        Figure::new(
            format!("{what}: change at the line that changed"),
            percent(there.map(|(_, size)| size).sum(), compared.change()),
            "%",
            Limit::Least(80.0),
        ),
    ];
    figures.extend(place.rules(what, &compared, old)?);
    Ok(figures)
}
