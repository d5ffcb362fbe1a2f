//! An installed llvm-mca, as a reference: what text it takes, and the cycles it prints.
//!
//! Blocks are handed over as llvm-mc disassembles their words, so that both sides see the same
//! instructions. One run takes many blocks; where it refuses one it gives none of them, and they
//! are asked for one by one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};
use mcad_isa::llvm::Instruction;
use mcad_proto::event::Arch;
use serde::Deserialize;

/// Names under which it is looked for: Debian's packages carry the version.
const NAMES: [&str; 2] = ["llvm-mca-22", "llvm-mca"];

/// Behind each block of x86-64 code: `nopl 0x5a17c3d1(%rax,%rax)`, and what its text has.
const END: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, 0xd1, 0xc3, 0x17, 0x5a];
const END_TEXT: &str = "1511506897(";

/// llvm-mca and llvm-mc.
#[derive(Debug)]
pub(crate) struct Tool {
    mca: PathBuf,
    mc: PathBuf,
}

#[derive(Deserialize)]
struct Printed {
    #[serde(rename = "CodeRegions")]
    regions: Vec<Region>,
}

#[derive(Deserialize)]
struct Region {
    #[serde(rename = "SummaryView")]
    summary: Summary,
}

#[derive(Deserialize)]
struct Summary {
    #[serde(rename = "TotalCycles")]
    cycles: u64,
}

/// How LLVM names an instruction set, and the extensions that the tables were made with.
fn target(arch: Arch) -> anyhow::Result<(&'static str, &'static str)> {
    match arch {
        Arch::AArch64 => Ok(("aarch64-unknown-linux-gnu", "+all")),
        Arch::RiscV64 => Ok((
            "riscv64-unknown-linux-gnu",
            "+m,+a,+f,+d,+c,+v,+zba,+zbb,+zbc,+zbs,+zicond,+zfh,+zvfh,+zicbom,+zicboz,+zicbop,\
             +zfa,+zcb,+zicsr,+zifencei,+zihintpause",
        )),
        Arch::X86_64 => Ok(("x86_64-unknown-linux-gnu", "")),
        other => bail!("llvm-mca is no reference for {other} here"),
    }
}

/// The lines of a text that are instructions.
fn code_lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with('.'));
    code.map(str::to_owned).collect()
}

impl Tool {
    /// The program of this name, or one that is installed.
    pub(crate) fn find(program: Option<&Path>) -> anyhow::Result<Self> {
        let runs = |name: &Path| {
            let output = Command::new(name).arg("--version").output();
            output.is_ok_and(|output| output.status.success())
        };
        let names = NAMES.iter().map(PathBuf::from);
        let mut names: Vec<PathBuf> = match program {
            Some(program) => vec![program.to_owned()],
            None => names.collect(),
        };
        names.retain(|name| runs(name));
        let Some(mca) = names.into_iter().next() else {
            bail!(
                "llvm-mca does not run; install LLVM 22 (apt.llvm.org: apt-get install llvm-22) or \
                 name it with --llvm-mca-program"
            );
        };
        let name = mca.file_name().and_then(|name| name.to_str());
        let mc = name
            .context("the program's name is not UTF-8")?
            .replace("llvm-mca", "llvm-mc");
        let mc = mca.with_file_name(mc);
        if !runs(&mc) {
            bail!("{} does not run; it comes with llvm-mca", mc.display());
        }
        Ok(Self { mca, mc })
    }

    /// Figures of another version of LLVM are no reference.
    pub(crate) fn check_version(&self, wanted: &str) -> anyhow::Result<()> {
        let output = Command::new(&self.mca).arg("--version").output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains(&format!("LLVM version {wanted}")) {
            return Ok(());
        }
        let found = text.lines().find(|line| line.contains("LLVM version"));
        bail!(
            "{} is of {}; the tables are LLVM {wanted}'s",
            self.mca.display(),
            found.unwrap_or("an unknown version").trim()
        )
    }

    /// The text of each instruction of each block.
    pub(crate) fn disassemble(
        &self,
        arch: Arch,
        blocks: &[Vec<Instruction>],
    ) -> anyhow::Result<Vec<Vec<String>>> {
        let (triple, features) = target(arch)?;
        let mut input = String::new();
        for instruction in blocks.iter().flatten() {
            let bytes = instruction.encoded.to_le_bytes();
            for byte in bytes.iter().take(instruction.len()) {
                input.push_str(&format!("{byte:#04x} "));
            }
            input.push('\n');
        }
        let lines = |options: &[&str]| -> anyhow::Result<Vec<String>> {
            let mut command = Command::new(&self.mc);
            command.args(options);
            command.arg(format!("-triple={triple}"));
            command.arg(format!("-mattr={features}"));
            let output = piped(command, &input)?;
            if !output.status.success() {
                bail!("llvm-mc: {}", String::from_utf8_lossy(&output.stderr));
            }
            Ok(code_lines(&String::from_utf8_lossy(&output.stdout)))
        };
        let mut all = lines(&["--disassemble", "-M", "no-aliases"])?;
        // LLVM 22 prints an index of A64 that is not shifted as if it were, without aliases: where
        // the text is another instruction the usual text stands.
        let usual = lines(&["--disassemble"])?;
        let encoded = self.encoded(triple, features, &all)?;
        let instructions = blocks.iter().flatten();
        if usual.len() == all.len() && encoded.len() == all.len() {
            let each = instructions.zip(encoded).zip(&usual);
            for (text, ((instruction, encoded), usual)) in all.iter_mut().zip(each) {
                let bytes = instruction.encoded.to_le_bytes();
                if bytes.get(..instruction.len()) != Some(encoded.as_slice()) {
                    text.clone_from(usual);
                }
            }
        }
        let mut lines = all.into_iter();
        let mut texts = Vec::new();
        for block in blocks {
            let text: Vec<String> = lines.by_ref().take(block.len()).collect();
            if text.len() != block.len() {
                bail!("llvm-mc has not disassembled all instructions");
            }
            texts.push(text);
        }
        Ok(texts)
    }

    /// The bytes that each line of a text is assembled to; an operand that is left open has none.
    fn encoded(
        &self,
        triple: &str,
        features: &str,
        text: &[String],
    ) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut command = Command::new(&self.mc);
        command.args(["-show-encoding", "-M", "no-aliases"]);
        command.arg(format!("-triple={triple}"));
        command.arg(format!("-mattr={features}"));
        let output = piped(command, &text.join("\n"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let encodings = text.lines().filter_map(|line| {
            let (_, bytes) = line.split_once("encoding: [")?;
            let bytes = bytes.trim_end().strip_suffix(']')?.split(',');
            let byte = |byte: &str| u8::from_str_radix(byte.strip_prefix("0x")?, 16).ok();
            Some(bytes.map(byte).collect::<Option<_>>().unwrap_or_default())
        });
        Ok(encodings.collect())
    }

    /// The text of each instruction of each block of x86-64 code; `None` where one has none, or
    /// another number of lines.
    pub(crate) fn disassemble_x86(
        &self,
        blocks: &[Vec<Vec<u8>>],
    ) -> anyhow::Result<Vec<Option<Vec<String>>>> {
        let (triple, _) = target(Arch::X86_64)?;
        let line = |bytes: &[u8]| {
            let bytes = bytes.iter().map(|byte| format!("{byte:#04x} "));
            bytes.chain(["\n".to_owned()]).collect::<String>()
        };
        let input = blocks.iter().map(|block| {
            let lines = block.iter().map(|bytes| line(bytes));
            lines.chain([line(&END)]).collect::<String>()
        });
        let mut command = Command::new(&self.mc);
        command.arg("--disassemble");
        command.arg(format!("-triple={triple}"));
        let output = piped(command, &input.collect::<String>())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('.'))
            .collect();
        let mut parts = lines.split(|line| line.contains(END_TEXT));
        let mut texts = Vec::with_capacity(blocks.len());
        for block in blocks {
            let part = parts.next().context("llvm-mc has lost blocks")?;
            let whole = part.len() == block.len();
            texts.push(whole.then(|| part.iter().map(|&line| line.to_owned()).collect()));
        }
        Ok(texts)
    }

    /// Cycles of each block on a CPU; `None` where it is refused.
    pub(crate) fn cycles(
        &self,
        arch: Arch,
        cpu: &str,
        blocks: &[&[String]],
        iterations: u32,
    ) -> anyhow::Result<Vec<Option<u64>>> {
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let (triple, features) = target(arch)?;
        let comment = if arch == Arch::AArch64 { "//" } else { "#" };
        let mut input = String::new();
        for (n, block) in blocks.iter().enumerate() {
            input.push_str(&format!("{comment} LLVM-MCA-BEGIN b{n}\n"));
            for line in *block {
                input.push_str(line);
                input.push('\n');
            }
            input.push_str(&format!("{comment} LLVM-MCA-END b{n}\n"));
        }
        let mut command = Command::new(&self.mca);
        command.args([
            "--json",
            "--instruction-info=false",
            "--resource-pressure=false",
        ]);
        command.arg(format!("-mtriple={triple}"));
        if !features.is_empty() {
            command.arg(format!("-mattr={features}"));
        }
        command.arg(format!("-mcpu={cpu}"));
        command.arg(format!("-iterations={iterations}"));
        let output = piped(command, &input)?;
        if output.status.success() {
            let printed: Printed = serde_json::from_slice(&output.stdout)
                .context("llvm-mca has printed something else than expected")?;
            if printed.regions.len() == blocks.len() {
                let cycles = printed
                    .regions
                    .iter()
                    .map(|region| Some(region.summary.cycles));
                return Ok(cycles.collect());
            }
        }
        if blocks.len() == 1 {
            return Ok(vec![None]);
        }
        let (left, right) = blocks.split_at(blocks.len() / 2);
        let mut all = self.cycles(arch, cpu, left, iterations)?;
        all.extend(self.cycles(arch, cpu, right, iterations)?);
        Ok(all)
    }
}

/// Runs a program with an input.
fn piped(mut command: Command, input: &str) -> anyhow::Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {name}"))?;
    let mut stdin = child.stdin.take().context("it has an input")?;
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that stops reading says why in its status.
            let _: std::io::Result<()> = stdin.write_all(input.as_bytes());
        });
        child.wait_with_output()
    });
    output.with_context(|| format!("running {name}"))
}
