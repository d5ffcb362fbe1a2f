//! `cargo xtask tables-llvm`: makes the embedded files of AArch64 and RISC-V from an installed LLVM.
//!
//! `dump.cpp` is compiled against LLVM's library and prints what it knows (`json` reads that), and
//! `pack` makes the file of it. `--prove` decodes every instruction word with the committed file
//! and with LLVM and counts the differences. Only developers need this: nothing of LLVM is linked
//! into the product. docs/ISA.md has the rules.

mod json;
mod pack;
mod prove;
mod rv32;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mcad_isa::llvm::wire;

use crate::tables::folder;
use xtask::command::{command, execute_aside, output};

/// Arguments of `cargo xtask tables-llvm`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this instruction set: aarch64, riscv, or, to prove, riscv32
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// LLVM's configuration program, of a version whose development files are installed
    #[arg(long, value_name = "PROGRAM", default_value = "llvm-config-22")]
    llvm_config: String,
    /// Keep the survey of all instruction words here, which takes minutes
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Write nothing: decode all instruction words with the committed file and with LLVM
    #[arg(long)]
    prove: bool,
}

/// An instruction set as LLVM names it.
struct Source {
    /// Name of the file, and of the register banks.
    arch: &'static str,
    triple: &'static str,
    features: &'static str,
    cpus: &'static [&'static str],
}

/// RV32IMC, whose decoder is written by hand: there is no file of it.
const ARCHITECTURE_32: Source = Source {
    arch: "riscv32",
    triple: "riscv32-unknown-linux-gnu",
    features: "+m,+c,+zicsr,+zifencei",
    cpus: &[],
};

const SOURCES: [Source; 2] = [
    Source {
        arch: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        features: "+all",
        cpus: &[
            "cortex-a35",
            "cortex-a53",
            "cortex-a55",
            "cortex-a57",
            "cortex-a72",
            "cortex-a76",
            "cortex-a78",
            "cortex-a320",
            "cortex-a510",
            "cortex-x4",
            "neoverse-n1",
            "neoverse-n2",
            "neoverse-n3",
            "neoverse-v1",
            "neoverse-v2",
            "neoverse-v3",
            "a64fx",
            "apple-m1",
            "ampere1",
            "ampere1b",
            "exynos-m3",
            "exynos-m4",
            "exynos-m5",
            "falkor",
            "kryo",
            "oryon-1",
            "olympus",
            "thunderx",
            "thunderx2t99",
            "thunderx3t110",
            "tsv110",
        ],
    },
    // RV64GCV with the extensions that compilers use with it.
    Source {
        arch: "riscv",
        triple: "riscv64-unknown-linux-gnu",
        features: "+m,+a,+f,+d,+c,+v,+zba,+zbb,+zbc,+zbs,+zicond,+zfh,+zvfh,+zicbom,+zicboz,\
                   +zicbop,+zfa,+zcb,+zicsr,+zifencei,+zihintpause",
        cpus: &[
            "sifive-u74",
            "sifive-x280",
            "sifive-x390",
            "sifive-p450",
            "sifive-p550",
            "sifive-p670",
            "sifive-p870",
            "rocket-rv64",
            "syntacore-scr3-rv64",
            "syntacore-scr4-rv64",
            "syntacore-scr5-rv64",
            "syntacore-scr7",
            "spacemit-x60",
            "xiangshan-nanhu",
            "andes-ax45",
            "mips-p8700",
            "tt-ascalon-d8",
        ],
    },
];

/// Makes or proves the files.
///
/// # Errors
/// When LLVM is not there, a file cannot be written, or a proof finds a difference that is none
/// of the explained ones.
pub fn run(args: &Args) -> Result<()> {
    let work = tempfile::tempdir()?;
    let dump = compile(&args.llvm_config, work.path())?;
    let wanted = |source: &&Source| args.arch.as_deref().is_none_or(|arch| arch == source.arch);
    let sources: Vec<&Source> = SOURCES.iter().filter(wanted).collect();
    let by_hand = args.prove && wanted(&&ARCHITECTURE_32);
    if sources.is_empty() && !by_hand {
        bail!("--arch: there are aarch64 and riscv, and riscv32 with --prove");
    }
    if by_hand {
        rv32::run(&dump)?;
    }
    for source in sources {
        let path = folder().join(format!("{}.isa", source.arch));
        if args.prove {
            let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
            let file = wire::decode(&bytes).map_err(anyhow::Error::msg)?;
            prove::run(&dump, source, &file)?;
            continue;
        }
        let mut program = command(&dump);
        program
            .args([source.triple, source.features])
            .args(source.cpus);
        if let Some(cache) = &args.cache {
            fs::create_dir_all(cache)?;
            program.env("SURVEY", cache.join(format!("{}.survey", source.arch)));
        }
        let text = output(&mut program).with_context(|| format!("dumping {}", source.arch))?;
        let dump: json::Dump = serde_json::from_str(&text)?;
        let (file, gaps) = pack::pack(&dump, source.arch)?;
        let bytes = wire::encode(&file).map_err(anyhow::Error::msg)?;
        fs::write(&path, &bytes).with_context(|| path.display().to_string())?;
        eprintln!(
            "{}: LLVM {}, {} instructions, {} forms, {} CPUs, {} bytes; {} operands in no field \
             of the word; not tracked: {}",
            source.arch,
            file.llvm,
            file.opcodes.len(),
            file.forms,
            file.cpus.len(),
            bytes.len(),
            gaps.operands.len(),
            gaps.untracked.join(" "),
        );
    }
    Ok(())
}

/// Builds the program that dumps.
fn compile(llvm_config: &str, into: &Path) -> Result<PathBuf> {
    let ask = |what: &[&str]| {
        output(command(llvm_config).args(what)).with_context(|| {
            format!(
                "{llvm_config} does not run; install LLVM's development files (Debian: apt-get \
                 install llvm-22-dev g++) or name it with --llvm-config"
            )
        })
    };
    let flags = ask(&["--cxxflags"])?;
    let libraries = ask(&["--ldflags", "--libs"])?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tables_llvm/dump.cpp");
    let program = into.join("dump");
    let mut compiler = command("c++");
    compiler.args(
        flags
            .split_whitespace()
            .filter(|flag| *flag != "-fno-exceptions"),
    );
    compiler
        .args(["-std=c++17", "-O2", "-w", "-pthread", "-o"])
        .arg(&program)
        .arg(source);
    compiler.args(libraries.split_whitespace());
    execute_aside(&mut compiler)?;
    Ok(program)
}
