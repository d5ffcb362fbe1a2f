//! A point of the design space: width, latencies, units, caches and branch prediction of an in-order
//! core.

use mcad_isa::machine::inorder::{Branch, Class, Fetch, InOrder, Latency, Unit};
use serde::{Deserialize, Serialize};

use crate::distance;
use crate::kind::{KINDS, Kind};
use crate::predictors::Predictor;

/// The largest width.
pub const MAX_WIDTH: usize = 4;

/// Units of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// Cycles from issue to the result.
    pub latency: u8,
    /// How many there are.
    pub count: u8,
    /// Each can start an instruction every cycle.
    pub pipelined: bool,
    /// Cycles from issue to the write of the result, where results are written in program order: an
    /// instruction waits rather than write before an older one. Absent or 0: it may write any time.
    #[serde(default)]
    pub write_back: u8,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Instructions issued per cycle, 1 to [`MAX_WIDTH`].
    pub width: u8,
    /// Stages of the front end: cycles without issue behind a mispredicted branch.
    pub depth: u8,
    /// Branch predictor; absent: all branches are predicted rightly.
    #[serde(default)]
    pub predictor: Predictor,
    /// Cycles without issue behind a taken branch that was predicted; absent: what it leads to may
    /// issue with it.
    #[serde(default)]
    pub taken_bubble: Option<u8>,
    /// KiB of the instruction cache; absent: all code is there.
    #[serde(default)]
    pub l1i_kib: Option<u32>,
    /// KiB of the data cache; absent: all data are there.
    #[serde(default)]
    pub l1d_kib: Option<u32>,
    /// KiB of the second level, which holds as many of code and as many of data; absent: there is
    /// none.
    #[serde(default)]
    pub l2_kib: Option<u32>,
    /// Cycles of a miss that the second level serves, beyond those of a hit.
    #[serde(default)]
    pub l2_latency: u8,
    /// Cycles of a miss that memory serves, likewise.
    #[serde(default)]
    pub memory_latency: u16,
    /// Integer units.
    pub alu: Units,
    /// Load units.
    pub load: Units,
    /// Store units.
    pub store: Units,
    /// Branch units.
    pub branch: Units,
    /// Integer multipliers.
    pub multiply: Units,
    /// Integer dividers.
    pub divide: Units,
    /// Floating-point adders.
    pub fp_add: Units,
    /// Floating-point multipliers.
    pub fp_multiply: Units,
    /// Floating-point dividers.
    pub fp_divide: Units,
    /// Results that some kinds can use at another time than their unit's latency says.
    #[serde(default)]
    pub forward: Vec<Forward>,
}

/// When one kind can use results of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    /// The kind that has the result.
    pub from: Kind,
    /// The kind that uses it: as an address (loads) or as data (stores) where that differs.
    pub to: Kind,
    /// Cycles from issue to the earliest issue of what uses it.
    pub latency: u8,
}

impl Default for Machine {
    /// A two-wide core in the manner of Cortex-A8.
    fn default() -> Self {
        let pipelined = |latency, count| Units {
            latency,
            count,
            pipelined: true,
            write_back: 0,
        };
        let blocking = |latency| Units {
            latency,
            count: 1,
            pipelined: false,
            write_back: 0,
        };
        Self {
            width: 2,
            depth: 13,
            predictor: Predictor::Perfect,
            taken_bubble: None,
            l1i_kib: None,
            l1d_kib: None,
            l2_kib: None,
            l2_latency: 9,
            memory_latency: 100,
            alu: pipelined(1, 4),
            load: pipelined(2, 1),
            store: pipelined(1, 1),
            branch: pipelined(1, 1),
            multiply: pipelined(4, 1),
            divide: blocking(20),
            fp_add: pipelined(4, 1),
            fp_multiply: pipelined(5, 1),
            fp_divide: blocking(20),
            forward: Vec::new(),
        }
    }
}

impl Machine {
    /// Built-in machines.
    pub const BUILT_IN: [(&str, &str); 1] = [("cortex-a8", include_str!("cortex-a8.toml"))];

    /// A built-in machine.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let text = Self::BUILT_IN.iter().find(|m| m.0 == name)?.1;
        toml::from_str(text).ok()
    }

    /// The units of a kind.
    #[must_use]
    pub fn units(&self, kind: Kind) -> Units {
        match kind {
            Kind::Alu => self.alu,
            Kind::Load => self.load,
            Kind::Store => self.store,
            Kind::Branch => self.branch,
            Kind::Multiply => self.multiply,
            Kind::Divide => self.divide,
            Kind::FpAdd => self.fp_add,
            Kind::FpMultiply => self.fp_multiply,
            Kind::FpDivide => self.fp_divide,
        }
    }

    /// Whether the figures make sense.
    ///
    /// # Errors
    /// The one that does not.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=MAX_WIDTH as u8).contains(&self.width) {
            return Err(format!("width = {}: must be 1 to {MAX_WIDTH}", self.width));
        }
        for (name, kib) in [
            ("l1i_kib", self.l1i_kib),
            ("l1d_kib", self.l1d_kib),
            ("l2_kib", self.l2_kib),
        ] {
            if let Some(kib) = kib {
                distance::size(kib).map_err(|e| format!("{name} = {e}"))?;
            }
        }
        if (self.l1i_kib.or(self.l1d_kib)).is_some() && self.memory_latency == 0 {
            return Err("memory_latency: must be given where there are caches".into());
        }
        if self.l2_kib.is_some() && self.l2_latency == 0 {
            return Err("l2_latency: must be given where there is an l2_kib".into());
        }
        if let Some(never) = self.forward.iter().find(|forward| forward.latency == 0) {
            return Err(format!(
                "forward from {} to {}: latency must be at least 1",
                never.from.name(),
                never.to.name()
            ));
        }
        for kind in Kind::ALL {
            let units = self.units(kind);
            if units.latency == 0 || !(1..=8).contains(&units.count) {
                return Err(format!(
                    "{}: latency = {}, count = {}: must be at least 1, and 1 to 8",
                    kind.name(),
                    units.latency,
                    units.count
                ));
            }
        }
        Ok(())
    }

    /// Parameters of the stepwise core for the same machine. What misses and mispredictions cost comes
    /// with the instructions ([`crate::events`]).
    #[must_use]
    pub fn stepwise(&self) -> InOrder {
        let units = |kind: Kind| self.units(kind);
        let named = |kind: Kind| Unit {
            name: kind.name().to_owned(),
            count: u32::from(units(kind).count),
        };
        let class = |kind: Kind| {
            let Units {
                latency,
                pipelined,
                write_back,
                ..
            } = units(kind);
            Class {
                name: kind.name().to_owned(),
                unit: Some(kind.name().to_owned()),
                interval: if pipelined { 1 } else { u32::from(latency) },
                latency: Some(Latency {
                    operand: latency,
                    late: latency,
                    address: latency,
                    store_data: latency,
                    multiply: latency,
                    divide: latency,
                }),
                access: None,
                write_back: u32::from(write_back),
                late: false,
                alone: false,
                before: 0,
                after: 0,
            }
        };
        InOrder {
            scheduled: false,
            width: u32::from(self.width),
            retire: 1,
            program_fetch: None,
            fetch: Fetch {
                ideal: true,
                bytes: 64,
                groups: 2,
                visible_groups: 2,
                to_align: 0,
                align_width: 8,
                align_to_issue: 0,
                queue: 64,
                taken_bubble: 0,
            },
            icache: None,
            branch: Branch {
                redirect: 1,
                redirect_late: 1,
                update: 1,
                distance_bits: 64,
            },
            predictor: None,
            store_buffer: None,
            memory: None,
            divider: None,
            units: Kind::ALL.iter().map(|&kind| named(kind)).collect(),
            classes: Kind::ALL.iter().map(|&kind| class(kind)).collect(),
            late: None,
        }
    }

    /// The same machine with perfect caches and branch prediction. Those that differ in what misses and
    /// mispredictions cost alone are one.
    #[must_use]
    pub fn without_events(&self) -> Self {
        Self {
            depth: 0,
            predictor: Predictor::Perfect,
            taken_bubble: None,
            l1i_kib: None,
            l1d_kib: None,
            l2_kib: None,
            l2_latency: 0,
            memory_latency: 0,
            ..self.clone()
        }
    }

    /// Whether anything can miss, be mispredicted or cost something behind a jump.
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.predictor != Predictor::Perfect
            || self.taken_bubble.is_some()
            || self.l1i_kib.is_some()
            || self.l1d_kib.is_some()
    }

    /// Latencies of results, by their kind and the kind that uses them.
    #[must_use]
    pub fn latencies(&self) -> [[u8; KINDS]; KINDS] {
        let mut latencies = Kind::ALL.map(|from| [self.units(from).latency; KINDS]);
        for forward in &self.forward {
            latencies[forward.from as usize][forward.to as usize] = forward.latency;
        }
        latencies
    }
}
