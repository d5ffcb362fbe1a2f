//! Assembly text, through the system assembler.

use std::io::ErrorKind;
use std::process::Command;

use object::{Object as _, ObjectSymbol};

use crate::elf::{self, Object};
use crate::markers::{self, Marked};
use crate::{AssembleError, Machine, Options, Region, Syntax};

/// How the assembler is told that x86 text is in Intel syntax.
const INTEL: [&str; 2] = ["-msyntax=intel", "-mnaked-reg"];

/// Most of the assembler's messages that are passed on, in bytes.
const MAX_MESSAGES: usize = 4096;

pub fn regions(input: &[u8], name: &str, options: &Options) -> Result<Vec<Region>, AssembleError> {
    let marker_error = |what| AssembleError::Marker {
        name: name.to_owned(),
        what,
    };
    // Comments may be in any encoding; the markers are ASCII.
    let text = String::from_utf8_lossy(input);
    let (text, marked) = markers::llvm(&text).map_err(marker_error)?;
    let code = run(&text, name, options)?;
    if marked.is_empty() {
        return elf::regions(&code, name, options);
    }
    let object = Object::parse(&code, name, options.machine)?;
    marked
        .iter()
        .map(|region| between(&object, region, name))
        .collect()
}

fn between(object: &Object<'_>, region: &Marked, name: &str) -> Result<Region, AssembleError> {
    let (section, start) = object.label(&region.start)?;
    let (last, end) = object.label(&region.end)?;
    if section != last || start > end {
        return Err(AssembleError::Marker {
            name: name.to_owned(),
            what: format!(
                "the region {:?} begins in one section and ends in another, or before its begin",
                region.name
            ),
        });
    }
    Ok(Region {
        name: region.name.clone(),
        address: start,
        linked: false,
        bytes: object.bytes(section, start, end)?,
    })
}

/// Assembles text to an object file.
fn run(text: &str, name: &str, options: &Options) -> Result<Vec<u8>, AssembleError> {
    let dir = tempfile::tempdir().map_err(AssembleError::Run)?;
    let source = dir.path().join("input.s");
    let object = dir.path().join("output.o");
    std::fs::write(&source, text).map_err(AssembleError::Run)?;
    // Branches within the text are resolved by the assembler, not by a linker.
    let (program, package, arguments) = match options.machine {
        Machine::X86_64 => ("as", "binutils", ["--64"].as_slice()),
        Machine::AArch64 => (
            "aarch64-linux-gnu-as",
            "binutils-aarch64-linux-gnu",
            ["-march=armv8.6-a+sve2+crypto"].as_slice(),
        ),
        Machine::RiscV64 => (
            "riscv64-linux-gnu-as",
            "binutils-riscv64-linux-gnu",
            ["-mno-relax", "-march=rv64gcv_zba_zbb_zbc_zbs"].as_slice(),
        ),
        Machine::RiscV32 => (
            "riscv64-linux-gnu-as",
            "binutils-riscv64-linux-gnu",
            ["-mno-relax", "-march=rv32imc_zicsr_zifencei", "-mabi=ilp32"].as_slice(),
        ),
    };
    let mut command = Command::new(program);
    command.args(arguments).arg("-o").arg(&object);
    if options.machine == Machine::X86_64 && options.syntax == Syntax::Intel {
        command.args(INTEL);
    }
    if let Some(include) = &options.include {
        command.arg("-I").arg(include);
    }
    let output = command.arg(&source).output();
    let output = output.map_err(|error| match error.kind() {
        ErrorKind::NotFound => AssembleError::NoAssembler { program, package },
        _ => AssembleError::Run(error),
    })?;
    if !output.status.success() {
        // What was written in the other syntax is most often why.
        let other =
            (options.syntax == Syntax::Att && options.machine == Machine::X86_64).then(|| {
                let mut intel = Command::new(program);
                intel.args(arguments).args(INTEL).arg("-o").arg(&object);
                intel
                    .arg(&source)
                    .output()
                    .is_ok_and(|o| o.status.success())
            });
        let messages = String::from_utf8_lossy(&output.stderr);
        let messages = messages.replace(&*source.to_string_lossy(), name);
        let mut shown: String = messages.chars().take(MAX_MESSAGES).collect();
        if shown.len() < messages.len() {
            shown.push('…');
        }
        return Err(AssembleError::Refused {
            name: name.to_owned(),
            messages: shown.trim_end().to_owned(),
            hint: match other {
                Some(true) => "\nit does in Intel syntax: --syntax intel",
                _ => "",
            },
        });
    }
    let object = std::fs::read(&object).map_err(AssembleError::Run)?;
    if options.machine == Machine::X86_64 && options.syntax == Syntax::Att {
        no_bare_registers(&object, name)?;
    }
    Ok(object)
}

/// Refuses text in which a register without its `%` was taken for a symbol: `inc rax` would be an
/// increment of memory.
fn no_bare_registers(object: &[u8], name: &str) -> Result<(), AssembleError> {
    let Ok(file) = object::File::parse(object) else {
        return Ok(());
    };
    let undefined = file.symbols().filter(|s| s.is_undefined());
    let mut names = undefined.filter_map(|s| s.name().ok().map(str::to_ascii_uppercase));
    let register = names.find(|symbol| {
        let mut all = iced_x86::Register::values();
        all.any(|register| format!("{register:?}") == *symbol)
    });
    match register {
        Some(register) => Err(AssembleError::Refused {
            name: name.to_owned(),
            messages: format!(
                "{} is a register without its %",
                register.to_ascii_lowercase()
            ),
            hint: BARE,
        }),
        None => Ok(()),
    }
}

/// What to do about registers without `%`.
const BARE: &str = "\nin Intel syntax they have none: --syntax intel";
