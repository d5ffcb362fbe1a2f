//! The broker's configuration.

use std::io::Read;
use std::path::Path;

use mcad_assemble::{
    AssembleError, Format, MAX_INPUT_BYTES, Options, Region, Syntax, assemble, assemble_file,
};
use mcad_broker_abi::Config;

/// One line per key.
pub const HELP: &str = "\
file=PATH      assembly text, ELF file or hex bytes; - for standard input
hex=BYTES      hex bytes themselves, instead of a file
format=FORMAT  auto (default), asm, hex or elf
syntax=SYNTAX  of assembly text: att (default) or intel
symbol=NAME    only this function
section=NAME   only this section
repeat=N       how often each region is executed (default 1)
base=ADDRESS   where code is placed that has no address of its own (default 0x400000)";

/// Where code without an address of its own is placed.
pub const BASE: u64 = 0x40_0000;

/// Most repetitions: a session of them takes days.
const MAX_REPEAT: u64 = 1 << 40;

/// The configuration, checked.
pub struct Settings {
    /// What messages call the input.
    pub name: String,
    /// How often each region is executed.
    pub repeat: u64,
    /// Where code is placed.
    pub base: Option<u64>,
    input: Input,
    options: Options,
}

enum Input {
    Bytes(Vec<u8>),
    Stdin,
    File(String),
}

impl Settings {
    /// Reads a configuration.
    ///
    /// # Errors
    /// A text that names the key.
    pub fn read(config: &Config) -> Result<Self, String> {
        config.expect_keys(&[
            "file", "hex", "format", "syntax", "symbol", "section", "repeat", "base",
        ])?;
        let mut format = match config.get("format") {
            None | Some("auto") => Format::Auto,
            Some("asm") => Format::Asm,
            Some("hex") => Format::Hex,
            Some("elf") => Format::Elf,
            Some(other) => {
                return Err(Config::bad("format", other, "expected auto, asm, hex or elf").into());
            }
        };
        let syntax = match config.get("syntax") {
            None | Some("att") => Syntax::Att,
            Some("intel") => Syntax::Intel,
            Some(other) => return Err(Config::bad("syntax", other, "expected att or intel").into()),
        };
        let (name, input) = match (config.get("file"), config.get("hex")) {
            (Some(_), Some(_)) => return Err("file and hex are both given; choose one".into()),
            (None, None) => return Err("no input given: set file=PATH, file=- or hex=BYTES".into()),
            (None, Some(hex)) => {
                if !matches!(format, Format::Auto | Format::Hex) {
                    return Err("hex bytes cannot have another format; leave it out".into());
                }
                format = Format::Hex;
                ("hex bytes".to_owned(), Input::Bytes(hex.into()))
            }
            (Some("-"), None) => ("standard input".to_owned(), Input::Stdin),
            (Some(file), None) => (file.to_owned(), Input::File(file.to_owned())),
        };
        let repeat = config.number("repeat")?.unwrap_or(1);
        if repeat == 0 || repeat > MAX_REPEAT {
            let what = format!("expected 1 to {MAX_REPEAT}");
            return Err(Config::bad("repeat", &repeat.to_string(), &what).into());
        }
        if config.get("symbol").is_some() && config.get("section").is_some() {
            return Err("symbol and section are both given; choose one".into());
        }
        Ok(Self {
            name,
            repeat,
            base: config.number("base")?,
            input,
            options: Options {
                machine: mcad_assemble::Machine::X86_64,
                format,
                syntax,
                symbol: config.get("symbol").map(str::to_owned),
                section: config.get("section").map(str::to_owned),
                include: None,
            },
        })
    }

    /// Reads the input.
    ///
    /// # Errors
    /// As [`assemble`].
    pub fn regions(&self) -> Result<Vec<Region>, AssembleError> {
        match &self.input {
            Input::Bytes(bytes) => assemble(bytes, &self.name, &self.options),
            Input::File(path) => assemble_file(Path::new(path), &self.options),
            Input::Stdin => {
                let mut bytes = Vec::new();
                let mut stdin = std::io::stdin().lock().take(MAX_INPUT_BYTES + 1);
                stdin
                    .read_to_end(&mut bytes)
                    .map_err(|source| AssembleError::Read {
                        path: "standard input".into(),
                        source,
                    })?;
                if bytes.len() as u64 > MAX_INPUT_BYTES {
                    return Err(AssembleError::Size {
                        name: self.name.clone(),
                        what: format!("more than {MAX_INPUT_BYTES} bytes"),
                    });
                }
                assemble(&bytes, &self.name, &self.options)
            }
        }
    }
}
