//! Two compilers at the same work: clang-14 and clang-19 of Debian 12, nearly all of whose code is
//! in stripped libraries that export a part of their functions.

use std::ffi::OsStr;

use anyhow::Result;

use super::{Figure, Limit, Place};
use xtask::setup::{ensure, package};

const SOURCE: &str = "#include <stdio.h>\n\
    static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n\
    int main(void) { printf(\"%d\\n\", fib(5)); return 0; }\n";

pub(super) fn measure(place: &Place) -> Result<Vec<Figure>> {
    ensure(&[
        package("clang-14", "clang-14"),
        package("clang-19", "clang-19"),
    ])?;
    let source = place.work.join("small.c");
    std::fs::write(&source, SOURCE)?;
    let object = place.work.join("small.o");
    let report = |compiler: &str| {
        let words = [compiler, "-O2", "-c", "-o"].map(OsStr::new);
        let program = [&words[..], &[object.as_os_str(), source.as_os_str()]].concat();
        place.report(compiler, &program)
    };
    let (old, new) = (report("clang-14")?, report("clang-19")?);
    let compared = place.compare([&old, &new])?;
    let what = "clang-14 to clang-19";
    let mut figures = vec![
        Figure::new(
            format!("{what}: change in functions named"),
            compared.share(|f| f.named || f.near),
            "%",
            Limit::Least(80.0),
        ),
        Figure::new(
            format!("{what}: … by a name of their own"),
            compared.share(|f| f.named),
            "%",
            Limit::None,
        ),
        Figure::new(
            format!("{what}: change in functions of both"),
            compared.share(|f| f.found),
            "%",
            Limit::None,
        ),
    ];
    figures.extend(place.rules(what, &compared, &old)?);
    Ok(figures)
}
