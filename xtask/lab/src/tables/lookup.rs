//! `cargo xtask tables-find`: the forms of instructions given as hexadecimal bytes.

use anyhow::{Result, bail};
use iced_x86::{Decoder, DecoderOptions};
use mcad_isa::machine::table::{FormTable, embedded_cpus};

use super::operands::spelled;

/// Arguments of `cargo xtask tables-find`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this CPU (repeatable).
    #[arg(long)]
    cpu: Vec<String>,
    /// Instructions, for example `4801d8`.
    #[arg(required = true)]
    instructions: Vec<String>,
    /// Also operands and latencies.
    #[arg(long)]
    long: bool,
}

/// Prints the forms.
///
/// # Errors
/// When bytes are not an instruction.
pub fn run(args: &Args) -> Result<()> {
    let mut out = String::new();
    for hex in &args.instructions {
        let Some(bytes) = super::coverage::from_hex(hex) else {
            bail!("'{hex}' is not hexadecimal");
        };
        let instruction = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            bail!("'{hex}' is no instruction");
        }
        for cpu in embedded_cpus() {
            if !args.cpu.is_empty() && !args.cpu.iter().any(|c| c == cpu) {
                continue;
            }
            out += &match FormTable::for_cpu(cpu)?.find(&instruction) {
                None => format!("{cpu}\t{hex}\t{instruction}\tno form\n"),
                Some(form) => {
                    let source = form.approximated_from.as_deref();
                    let mut text = format!(
                        "{cpu}\t{hex}\t{instruction}\t{}\t{}\t{}\n",
                        form.name,
                        form.perf.ports_text(),
                        source.map_or(String::new(), |s| format!("approximated from {s}")),
                    );
                    if args.long {
                        for o in &form.operands {
                            let access = match (o.read, o.written) {
                                (true, true) => "rw",
                                (true, false) => "r",
                                (false, true) => "w",
                                (false, false) => "-",
                            };
                            text += &format!("\t{} {:?} {access}\n", spelled(o.name), o.binding);
                        }
                        text += &format!("\t{:#?}\n", (&form.perf, &form.indexed, &form.same_reg));
                    }
                    text
                }
            };
        }
    }
    eprint!("{out}");
    Ok(())
}
