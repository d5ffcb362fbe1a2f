//! What all measurements take from the command line: on which CPU, and how careful.

use mcad_profile::block::{Profiler, Settings};
use mcad_profile::cell::Sandbox;
use mcad_profile::clock::{Cpu, pin};
use mcad_profile::init;

use super::super::block::Init;

/// Where to measure.
#[derive(Debug, clap::Args)]
pub(super) struct MachineArgs {
    /// The CPU to measure on [default: the last one allowed]
    #[arg(long, value_name = "N")]
    pin: Option<u32>,
    /// Go on where the kernel refuses a seccomp filter; for code that is trusted
    #[arg(long)]
    no_seccomp: bool,
}

/// How to measure blocks.
#[derive(Debug, clap::Args)]
pub(super) struct BlockArgs {
    /// Registers and memory at the start
    #[arg(long, value_enum, default_value_t = Init::Distinct)]
    init: Init,
    /// Measure blocks, too, that cross cache lines or may alias
    #[arg(long)]
    unfiltered: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

impl BlockArgs {
    /// As [`MachineArgs::profiler`], for blocks.
    ///
    /// # Errors
    /// When nothing can be measured.
    pub(super) fn profiler(&self) -> anyhow::Result<Profiler> {
        let init = match self.init {
            Init::Distinct => init::Init::Distinct,
            Init::Equal => init::Init::Equal,
            Init::Stack => init::Init::Stack,
            Init::Filled => init::Init::Filled,
        };
        self.machine.start(init, self.unfiltered)
    }
}

impl MachineArgs {
    /// Pins the thread and starts the measuring process; what is missing is told.
    ///
    /// # Errors
    /// When nothing can be measured.
    pub(super) fn profiler(&self) -> anyhow::Result<Profiler> {
        self.start(init::Init::Equal, true)
    }

    fn start(&self, init: init::Init, unfiltered: bool) -> anyhow::Result<Profiler> {
        if let Err(error) = pin(self.pin.map(Cpu)) {
            if self.pin.is_some() {
                return Err(error.into());
            }
            crate::say!("mcad: {error}; measuring unpinned");
        }
        let profiler = Profiler::new(Settings {
            init,
            sandbox: if self.no_seccomp {
                Sandbox::IfPossible
            } else {
                Sandbox::Required
            },
            unfiltered,
        })?;
        if !profiler.filtered() {
            crate::say!(
                "mcad: without a seccomp filter: only decoding keeps the code from the kernel"
            );
        }
        Ok(profiler)
    }
}
