//! The options that say what to analyse, shared by every command that analyses a trace.

use anyhow::{Context, bail};
use clap::ValueEnum;
use mcad_core::simulation::{AnalysisKind, Options};
use mcad_isa::machine;

use crate::regions::RegionSpec;

/// The model used when none is asked for.
const DEFAULT_CPU: &str = "skl";

/// What to analyse, as parsed.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AnalysisArgs {
    /// CPU model (repeatable: all in one pass); `mcad cpus` lists them, native is this machine's
    #[arg(long = "cpu", value_name = "NAME")]
    cpus: Vec<String>,
    /// How to analyse (repeatable)
    #[arg(long = "analysis", value_name = "KIND")]
    analyses: Vec<Kind>,
    /// Region of interest, a function or a range of addresses in hexadecimal (repeatable)
    #[arg(long = "region", value_name = "SYMBOL|START-END")]
    regions: Vec<RegionSpec>,
    /// Ignore memory addresses: no dependencies through memory
    #[arg(long)]
    no_memory: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The out-of-order core, instruction by instruction
    Pipeline,
    /// Every block on its own in a loop, times its executions
    Block,
}

/// What to analyse, validated.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// CPU models, analyses, memory.
    pub options: Options,
    /// Regions of interest.
    pub regions: Vec<RegionSpec>,
}

impl AnalysisArgs {
    /// Looks everything up.
    ///
    /// # Errors
    /// When a CPU is unknown; the message lists the names.
    pub fn resolve(&self) -> anyhow::Result<Analysis> {
        let names = if self.cpus.is_empty() {
            vec![DEFAULT_CPU.to_owned()]
        } else {
            self.cpus.clone()
        };
        let analyses = if self.analyses.is_empty() {
            vec![Kind::Pipeline]
        } else {
            self.analyses.clone()
        };
        resolve(&names, &analyses, &self.regions, !self.no_memory)
    }

    /// The same as key and value texts, for a daemon elsewhere. CPU names are checked there.
    #[must_use]
    pub fn to_pairs(&self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        let mut add = |key: &str, value: String| pairs.push((key.to_owned(), value));
        for cpu in &self.cpus {
            add("cpu", super::model::resolved(cpu).to_owned());
        }
        for kind in &self.analyses {
            if let Some(value) = kind.to_possible_value() {
                add("analysis", value.get_name().to_owned());
            }
        }
        for region in &self.regions {
            add("region", region.to_string());
        }
        if self.no_memory {
            add("memory", "off".to_owned());
        }
        pairs
    }

    /// Reads what [`AnalysisArgs::to_pairs`] wrote.
    ///
    /// # Errors
    /// When a key or value is unknown.
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> anyhow::Result<Self> {
        let mut args = Self::default();
        for (key, value) in pairs {
            match (key, value) {
                ("cpu", name) => args.cpus.push(name.to_owned()),
                ("analysis", name) => {
                    let kind = Kind::from_str(name, false)
                        .map_err(|_| anyhow::anyhow!("unknown analysis '{name}'"))?;
                    args.analyses.push(kind);
                }
                ("region", text) => args.regions.push(text.parse()?),
                ("memory", "off") => args.no_memory = true,
                ("memory", "on") => args.no_memory = false,
                _ => bail!("unknown option {key}={value}"),
            }
        }
        Ok(args)
    }

    /// Whether any of the options was given.
    #[must_use]
    pub fn given(&self) -> bool {
        !self.to_pairs().is_empty()
    }

    /// Whether memory accesses are wanted at all.
    #[must_use]
    pub fn memory(&self) -> bool {
        !self.no_memory
    }
}

fn resolve(
    names: &[String],
    kinds: &[Kind],
    regions: &[RegionSpec],
    memory: bool,
) -> anyhow::Result<Analysis> {
    let mut cpus = Vec::new();
    for name in names {
        let model = super::model::model(name).with_context(|| {
            let known: Vec<&str> = machine::cpus().iter().map(|cpu| cpu.name).collect();
            format!("--cpu {name} (known: {})", known.join(" "))
        })?;
        cpus.push(model);
    }
    let mut analyses = Vec::new();
    for kind in kinds {
        let kind = match kind {
            Kind::Pipeline => AnalysisKind::Pipeline,
            Kind::Block => AnalysisKind::Block,
        };
        if !analyses.contains(&kind) {
            analyses.push(kind);
        }
    }
    Ok(Analysis {
        options: Options {
            cpus,
            analyses,
            memory,
        },
        regions: regions.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_survive_the_wire() {
        let args = AnalysisArgs {
            cpus: vec!["skl".into(), "glc".into()],
            analyses: vec![Kind::Block],
            regions: vec!["main".parse().unwrap(), "0x10-0x20".parse().unwrap()],
            no_memory: true,
        };
        let pairs = args.to_pairs();
        let pairs = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        let back = AnalysisArgs::from_pairs(pairs).unwrap();
        assert_eq!(format!("{back:?}"), format!("{args:?}"));
        assert!(AnalysisArgs::from_pairs([("cpus", "skl")]).is_err());
    }

    #[test]
    fn unknown_cpus_are_answered_with_the_known_ones() {
        let args = AnalysisArgs {
            cpus: vec!["z80".into()],
            ..AnalysisArgs::default()
        };
        let message = format!("{:#}", args.resolve().unwrap_err());
        assert!(
            message.contains("z80") && message.contains("skl"),
            "{message}"
        );
    }
}
