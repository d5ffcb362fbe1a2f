//! Which blocks are meant: what `mcad block` and `mcad profile block` have in common.

use std::io::{self, Read};
use std::path::PathBuf;

use anyhow::{Context, bail};
use mcad_assemble::{Format, Machine, Region, assemble, assemble_file};
use mcad_proto::event::Arch;

use super::Syntax;
use super::cut::by_control_flow;

/// Where blocks come from. The commands have an option `--batch` beside these.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct InputArgs {
    /// Assembly text, or an ELF object, with markers around the blocks if not everything is meant;
    /// - is stdin
    #[arg(value_name = "FILE", conflicts_with_all = ["hex", "batch"])]
    file: Option<PathBuf>,
    /// The block's bytes in hexadecimal
    #[arg(long, value_name = "HEX", conflicts_with = "batch")]
    hex: Option<String>,
    /// Only this function of FILE; one with branches is cut into its blocks
    #[arg(long, value_name = "NAME", requires = "file")]
    symbol: Option<String>,
}

impl InputArgs {
    /// The same, with a function that has branches cut into its blocks; the name of the function if it
    /// was.
    ///
    /// # Errors
    /// As [`InputArgs::regions`].
    pub(in crate::cli) fn blocks(
        &self,
        syntax: Option<Syntax>,
        arch: Arch,
    ) -> anyhow::Result<(Vec<Region>, Option<&str>)> {
        let regions = self.regions(syntax, arch)?;
        let Some(symbol) = &self.symbol else {
            return Ok((regions, None));
        };
        let pieces = |region: &Region| by_control_flow(region, arch);
        let blocks: Vec<Region> = regions.iter().flat_map(pieces).collect();
        let cut = blocks.len() > regions.len();
        Ok((blocks, cut.then_some(symbol)))
    }

    /// The blocks that are asked for: of a file, AT&T syntax unless told otherwise, or written in
    /// hexadecimal.
    ///
    /// # Errors
    /// When there are none, or they cannot be read or assembled.
    pub(in crate::cli) fn regions(
        &self,
        syntax: Option<Syntax>,
        arch: Arch,
    ) -> anyhow::Result<Vec<Region>> {
        let machine = match arch {
            Arch::X86_64 => Machine::X86_64,
            Arch::AArch64 => Machine::AArch64,
            Arch::RiscV64 => Machine::RiscV64,
            Arch::RiscV32 => Machine::RiscV32,
            other => bail!("blocks of {other} code are not read here"),
        };
        let mut options = mcad_assemble::Options {
            machine,
            symbol: self.symbol.clone(),
            syntax: match syntax {
                Some(Syntax::Intel) => mcad_assemble::Syntax::Intel,
                Some(Syntax::Att) | None => mcad_assemble::Syntax::Att,
            },
            ..mcad_assemble::Options::default()
        };
        match (&self.file, &self.hex) {
            (Some(path), _) if path.as_os_str() == "-" => {
                let mut input = Vec::new();
                let limit = mcad_assemble::MAX_INPUT_BYTES;
                io::stdin()
                    .lock()
                    .take(limit + 1)
                    .read_to_end(&mut input)
                    .context("cannot read stdin")?;
                if input.len() as u64 > limit {
                    bail!("stdin has more than {limit} bytes");
                }
                Ok(assemble(&input, "stdin", &options)?)
            }
            (Some(path), _) => {
                let text = path.display().to_string();
                if text.contains(' ') && !path.exists() {
                    bail!(
                        "there is no file '{text}'; if that is code, it comes from stdin: echo '{text}' | \
                         mcad block --syntax intel -"
                    );
                }
                Ok(assemble_file(path, &options)?)
            }
            (None, Some(text)) => {
                options.format = Format::Hex;
                Ok(assemble(text.as_bytes(), "--hex", &options)?)
            }
            (None, None) => bail!("no block: give FILE, --hex HEX or --batch FILE.csv"),
        }
    }
}
