//! Machine code from assembly text, ELF files and hex bytes.
//!
//! [`assemble`] finds the regions to look at: those between markers when there are any
//! (`# LLVM-MCA-BEGIN [name]` and `# LLVM-MCA-END [name]` in text, IACA's byte sequences in ELF
//! files and text), a function or section that was asked for, or everything. [`basic_blocks`] cuts
//! a region at its branches, of x86-64 only. Input is untrusted: lengths are limited and nothing
//! panics.

mod blocks;
mod elf;
mod hex;
mod markers;
mod text;

pub use blocks::{BasicBlock, basic_blocks};
pub use hex::parse_hex;

use std::path::{Path, PathBuf};

/// Longest input, in bytes.
pub const MAX_INPUT_BYTES: u64 = 256 << 20;
/// Longest region, in bytes.
pub const MAX_REGION_BYTES: usize = 16 << 20;
/// Most regions in one input.
pub const MAX_REGIONS: usize = 4096;

/// Syntax of assembly text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// Operands as Intel's manuals write them, registers without `%`.
    Intel,
    /// The assembler's own; compilers write it.
    #[default]
    Att,
}

/// What the input is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Decided by the first bytes: ELF's magic, else hex digits only, else assembly text.
    #[default]
    Auto,
    /// Assembly text for the system assembler.
    Asm,
    /// Hexadecimal bytes.
    Hex,
    /// An ELF object, shared library or program.
    Elf,
}

/// The instruction set of the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Machine {
    /// x86-64.
    #[default]
    X86_64,
    /// AArch64.
    AArch64,
    /// 64-bit RISC-V.
    RiscV64,
    /// 32-bit RISC-V: RV32IMC.
    RiscV32,
}

/// What to read, and which part of it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What the input is.
    pub format: Format,
    /// Syntax of assembly text, of x86-64.
    pub syntax: Syntax,
    /// The instruction set.
    pub machine: Machine,
    /// Only this function (ELF and assembly text).
    pub symbol: Option<String>,
    /// Only this section (ELF and assembly text).
    pub section: Option<String>,
    /// Directory that `.include` in assembly text starts from.
    pub include: Option<PathBuf>,
}

/// A piece of machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Name of the marker, function or section; empty for bytes without one.
    pub name: String,
    /// Address in the file: where it runs for programs, the offset in its section for objects, 0
    /// for hex bytes.
    pub address: u64,
    /// Whether `address` is where the code runs.
    pub linked: bool,
    /// The instructions.
    pub bytes: Vec<u8>,
}

/// Input that gives no machine code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// There is no assembler.
    #[error("the assembler `{program}` was not found; install it: apt-get install {package}")]
    NoAssembler {
        /// What was looked for.
        program: &'static str,
        /// Debian's package that has it.
        package: &'static str,
    },
    /// The assembler could not be run, or its result could not be read.
    #[error("cannot run the assembler: {0}")]
    Run(std::io::Error),
    /// The assembler refused the text.
    #[error("{name} does not assemble:\n{messages}{hint}")]
    Refused {
        /// Name of the input.
        name: String,
        /// What the assembler said.
        messages: String,
        /// What would make it assemble, on a line of its own; empty where that is not known.
        hint: &'static str,
    },
    /// Text that is no hexadecimal.
    #[error("{name}: {what}")]
    Hex {
        /// Name of the input.
        name: String,
        /// Where and what.
        what: String,
    },
    /// An ELF file that cannot be used.
    #[error("{name}: {what}")]
    Elf {
        /// Name of the input.
        name: String,
        /// What is wrong, and the way out.
        what: String,
    },
    /// Markers that do not fit together.
    #[error("{name}: {what}")]
    Marker {
        /// Name of the input.
        name: String,
        /// Where and what.
        what: String,
    },
    /// Bytes that are no instruction.
    #[error("{region}: no instruction at byte {offset} of {length}: {bytes}")]
    Undecodable {
        /// Name of the region.
        region: String,
        /// Place in the region.
        offset: usize,
        /// Length of the region.
        length: usize,
        /// The bytes there.
        bytes: String,
    },
    /// There is nothing, or too much.
    #[error("{name}: {what}")]
    Size {
        /// Name of the input.
        name: String,
        /// What is too small or too large.
        what: String,
    },
}

/// Finds the regions of an input, which messages call `name`.
///
/// # Errors
/// [`AssembleError`].
pub fn assemble(input: &[u8], name: &str, options: &Options) -> Result<Vec<Region>, AssembleError> {
    let format = match options.format {
        Format::Auto => guess(input),
        format => format,
    };
    let regions = match format {
        Format::Elf => elf::regions(input, name, options)?,
        Format::Hex => {
            let what = |what| AssembleError::Hex {
                name: name.to_owned(),
                what,
            };
            let text = str::from_utf8(input).map_err(|e| what(format!("no hex bytes: {e}")))?;
            vec![Region {
                name: String::new(),
                address: 0,
                linked: false,
                bytes: parse_hex(text).map_err(what)?,
            }]
        }
        Format::Asm | Format::Auto => text::regions(input, name, options)?,
    };
    let size = |what: String| {
        Err(AssembleError::Size {
            name: name.to_owned(),
            what,
        })
    };
    if regions.len() > MAX_REGIONS {
        return size(format!(
            "{} regions; at most {MAX_REGIONS} are taken",
            regions.len()
        ));
    }
    if regions.is_empty() {
        return size("there are no instructions in it".into());
    }
    for region in &regions {
        if region.bytes.is_empty() {
            return size(format!("the region {:?} is empty", region.name));
        }
        if region.bytes.len() > MAX_REGION_BYTES {
            return size(format!(
                "the region {:?} has {} bytes; at most {MAX_REGION_BYTES} are taken",
                region.name,
                region.bytes.len()
            ));
        }
    }
    Ok(regions)
}

/// Reads a file and finds its regions.
///
/// # Errors
/// [`AssembleError`].
pub fn assemble_file(path: &Path, options: &Options) -> Result<Vec<Region>, AssembleError> {
    let failed = |source| AssembleError::Read {
        path: path.to_owned(),
        source,
    };
    let about = std::fs::metadata(path).map_err(failed)?;
    if about.len() > MAX_INPUT_BYTES {
        return Err(AssembleError::Size {
            name: path.display().to_string(),
            what: format!("{} bytes; at most {MAX_INPUT_BYTES} are read", about.len()),
        });
    }
    let input = std::fs::read(path).map_err(failed)?;
    let mut options = options.clone();
    if options.include.is_none() {
        options.include = path.parent().map(Path::to_owned);
    }
    assemble(&input, &path.display().to_string(), &options)
}

/// Takes any bytes as an ELF file and looks at it in every way; for fuzzers and tests.
pub fn fuzz_elf(input: &[u8]) {
    let by = |symbol: Option<&str>, section: Option<&str>| Options {
        format: Format::Elf,
        symbol: symbol.map(str::to_owned),
        section: section.map(str::to_owned),
        ..Options::default()
    };
    for options in [by(None, None), by(Some("f"), None), by(None, Some(".text"))] {
        for region in assemble(input, "input", &options).unwrap_or_default() {
            let _ = basic_blocks(&region);
        }
    }
}

/// Takes any text as hex bytes and as assembly text with markers, without the assembler; for
/// fuzzers and tests.
pub fn fuzz_text(text: &str) {
    let _ = parse_hex(text);
    let _ = markers::llvm(text);
    let _ = markers::iaca(text.as_bytes());
}

fn guess(input: &[u8]) -> Format {
    if input.starts_with(b"\x7fELF") {
        return Format::Elf;
    }
    let hex = |text: &str| parse_hex(text).is_ok_and(|bytes| !bytes.is_empty());
    match str::from_utf8(input) {
        Ok(text) if hex(text) => Format::Hex,
        _ => Format::Asm,
    }
}
