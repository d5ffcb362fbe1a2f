//! A design space: every combination of listed parameters.

use serde::Deserialize;

use crate::machine::Machine;
use crate::predictors::Predictor;

/// Most machines of a space.
const MAX_MACHINES: usize = 1 << 20;

/// Values of parameters; what is left out is as in the base.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Space {
    /// What the parameters change.
    #[serde(default)]
    pub base: Machine,
    /// Widths.
    #[serde(default)]
    pub width: Vec<u8>,
    /// Stages of the front end.
    #[serde(default)]
    pub depth: Vec<u8>,
    /// Branch predictors.
    #[serde(default)]
    pub predictor: Vec<Predictor>,
    /// Cycles without issue behind a taken branch.
    #[serde(default)]
    pub taken_bubble: Vec<u8>,
    /// KiB of the instruction cache.
    #[serde(default)]
    pub l1i_kib: Vec<u32>,
    /// KiB of the data cache.
    #[serde(default)]
    pub l1d_kib: Vec<u32>,
    /// KiB of the second level.
    #[serde(default)]
    pub l2_kib: Vec<u32>,
    /// Cycles of misses that the second level serves.
    #[serde(default)]
    pub l2_latency: Vec<u8>,
    /// Cycles of misses that memory serves.
    #[serde(default)]
    pub memory_latency: Vec<u16>,
    /// Latencies of loads.
    #[serde(default)]
    pub load_latency: Vec<u8>,
    /// Load units.
    #[serde(default)]
    pub load_units: Vec<u8>,
    /// Integer units.
    #[serde(default)]
    pub alu_units: Vec<u8>,
    /// Latencies of integer multiplications.
    #[serde(default)]
    pub multiply_latency: Vec<u8>,
    /// Integer multipliers.
    #[serde(default)]
    pub multiply_units: Vec<u8>,
    /// Integer multipliers start an instruction every cycle.
    #[serde(default)]
    pub multiply_pipelined: Vec<bool>,
    /// Latencies of integer divisions.
    #[serde(default)]
    pub divide_latency: Vec<u8>,
    /// Latencies of floating-point additions.
    #[serde(default)]
    pub fp_add_latency: Vec<u8>,
    /// Latencies of floating-point multiplications.
    #[serde(default)]
    pub fp_multiply_latency: Vec<u8>,
    /// Floating-point multipliers.
    #[serde(default)]
    pub fp_multiply_units: Vec<u8>,
}

impl Space {
    /// All machines of the space.
    ///
    /// # Errors
    /// When there are too many, or one makes no sense.
    pub fn machines(&self) -> Result<Vec<Machine>, String> {
        let mut machines = vec![self.base.clone()];
        vary(&mut machines, &self.width, |m, v| m.width = v)?;
        vary(&mut machines, &self.depth, |m, v| m.depth = v)?;
        vary(&mut machines, &self.predictor, |m, v| m.predictor = v)?;
        vary(&mut machines, &self.taken_bubble, |m, v| {
            m.taken_bubble = Some(v)
        })?;
        vary(&mut machines, &self.l1i_kib, |m, v| m.l1i_kib = Some(v))?;
        vary(&mut machines, &self.l1d_kib, |m, v| m.l1d_kib = Some(v))?;
        vary(&mut machines, &self.l2_kib, |m, v| m.l2_kib = Some(v))?;
        vary(&mut machines, &self.l2_latency, |m, v| m.l2_latency = v)?;
        vary(&mut machines, &self.memory_latency, |m, v| {
            m.memory_latency = v
        })?;
        vary(&mut machines, &self.load_latency, |m, v| m.load.latency = v)?;
        vary(&mut machines, &self.load_units, |m, v| m.load.count = v)?;
        vary(&mut machines, &self.alu_units, |m, v| m.alu.count = v)?;
        vary(&mut machines, &self.multiply_latency, |m, v| {
            m.multiply.latency = v
        })?;
        vary(&mut machines, &self.multiply_units, |m, v| {
            m.multiply.count = v
        })?;
        vary(&mut machines, &self.multiply_pipelined, |m, v| {
            m.multiply.pipelined = v
        })?;
        vary(&mut machines, &self.divide_latency, |m, v| {
            m.divide.latency = v
        })?;
        vary(&mut machines, &self.fp_add_latency, |m, v| {
            m.fp_add.latency = v
        })?;
        vary(&mut machines, &self.fp_multiply_latency, |m, v| {
            m.fp_multiply.latency = v
        })?;
        vary(&mut machines, &self.fp_multiply_units, |m, v| {
            m.fp_multiply.count = v
        })?;
        for machine in &machines {
            machine.check()?;
        }
        Ok(machines)
    }
}

/// Every machine with every value.
fn vary<T: Copy>(
    machines: &mut Vec<Machine>,
    values: &[T],
    set: impl Fn(&mut Machine, T),
) -> Result<(), String> {
    if values.is_empty() {
        return Ok(());
    }
    if machines.len().saturating_mul(values.len()) > MAX_MACHINES {
        return Err(format!("the space has more than {MAX_MACHINES} machines"));
    }
    *machines = machines
        .iter()
        .flat_map(|machine| {
            values.iter().map(|&value| {
                let mut machine = machine.clone();
                set(&mut machine, value);
                machine
            })
        })
        .collect();
    Ok(())
}
