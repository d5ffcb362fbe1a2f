//! Holds `src/ffi.rs` to `include/mcad_broker.h`: a C program that includes the header prints its
//! sizes, offsets and constants, which must be those of the Rust mirror.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may fail loudly

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use mcad_broker_abi::ffi::*;

macro_rules! layout {
    ($out:ident, $ty:ident { $($field:ident),* $(,)? }) => {
        $out.push((format!("sizeof({})", stringify!($ty)), size_of::<$ty>() as u64));
        $($out.push((
            format!("offsetof({}, {})", stringify!($ty), stringify!($field)),
            std::mem::offset_of!($ty, $field) as u64,
        ));)*
    };
}

macro_rules! constants {
    ($out:ident, $($name:ident),* $(,)?) => {
        $($out.push((stringify!($name).to_owned(), $name as u64));)*
    };
}

fn mirror() -> Vec<(String, u64)> {
    let mut out = Vec::new();
    layout!(out, mcad_str { data, len });
    layout!(
        out,
        mcad_event {
            size,
            kind,
            arch,
            stream,
            id,
            address,
            end,
            offset,
            count,
            data,
            len,
            text,
            strings,
            strings_len,
            reason,
            status,
            features,
        }
    );
    layout!(
        out,
        mcad_broker {
            size,
            abi_version,
            reserved,
            features,
            name,
            help,
            open,
            next,
            stop,
            close,
            sources,
        }
    );
    constants!(
        out,
        MCAD_BROKER_ABI_VERSION,
        MCAD_BROKER_MEMORY,
        MCAD_BROKER_MODULES,
        MCAD_BROKER_PROCESS,
        MCAD_EVENT_NONE,
        MCAD_EVENT_SESSION,
        MCAD_EVENT_BLOCK,
        MCAD_EVENT_MODULE,
        MCAD_EVENT_REGION,
        MCAD_EVENT_STREAM_START,
        MCAD_EVENT_RECORDS,
        MCAD_EVENT_STREAM_END,
        MCAD_EVENT_LOST,
        MCAD_EVENT_NOTICE,
        MCAD_EVENT_END,
        MCAD_EVENT_PROCESS_FORKED,
        MCAD_EVENT_PROCESS_ENTERED,
        MCAD_EVENT_PROCESS_REPLACED,
        MCAD_EVENT_PROCESS_ENDED,
        MCAD_END_EXITED,
        MCAD_END_SIGNALED,
        MCAD_END_EXEC,
        MCAD_END_PRODUCER_DIED,
        MCAD_END_TRUNCATED,
        MCAD_END_COMPLETE,
        MCAD_ARCH_X86_64,
        MCAD_ARCH_AARCH64,
        MCAD_ARCH_RISCV64,
        MCAD_ARCH_RISCV32,
    );
    out
}

#[test]
fn the_mirror_is_the_header() {
    let expected = mirror();
    let mut program =
        String::from("#include <stdio.h>\n#include \"mcad_broker.h\"\nint main(void) {\n");
    for (expression, _) in &expected {
        writeln!(
            program,
            "    printf(\"%llu\\n\", (unsigned long long)({expression}));"
        )
        .unwrap();
    }
    program.push_str("    return 0;\n}\n");

    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("layout.c");
    let binary = dir.path().join("layout");
    std::fs::write(&source, program).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let compiled = Command::new("cc")
        .args([
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-I",
        ])
        .arg(include)
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .output()
        .expect("this test needs a C compiler: apt-get install gcc");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let printed = Command::new(&binary).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let found: Vec<(String, u64)> = expected
        .iter()
        .map(|(name, _)| name.clone())
        .zip(printed.lines().map(|line| line.parse().unwrap()))
        .collect();
    assert_eq!(found, expected);
}

/// Every constant of the header is in the mirror, so a new one cannot be forgotten.
#[test]
fn the_mirror_is_complete() {
    let header = include_str!("../include/mcad_broker.h");
    let known: Vec<String> = mirror().into_iter().map(|(name, _)| name).collect();
    let mut checked = 0;
    for line in header.lines() {
        let line = line.trim();
        let name = match line.strip_prefix("#define MCAD_") {
            Some(rest) => rest.split_whitespace().next().unwrap(),
            None => match line.strip_prefix("MCAD_") {
                Some(rest) if rest.contains(" = ") => rest.split(" = ").next().unwrap(),
                _ => continue,
            },
        };
        if name == "BROKER_H" {
            continue;
        }
        assert!(known.contains(&format!("MCAD_{name}")), "MCAD_{name}");
        checked += 1;
    }
    let layouts = known.iter().filter(|name| name.contains('(')).count();
    assert_eq!(checked + layouts, known.len(), "constants in the header");
}
