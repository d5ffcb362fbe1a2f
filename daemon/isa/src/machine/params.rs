//! The parameters of a core, one documented field each. A CPU is a TOML file of these.
//!
//! Names follow Abel & Reineke, "uiCA" (ICS 2022), and Intel's optimisation manual. *Issue* is
//! rename and allocation, in order; *dispatch* is the scheduler sending a µop to a port. Widths
//! are per cycle, sizes in entries, delays in core cycles.

pub mod branch;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hierarchy::{Caches, Dram, Prefetch, Tlbs};

/// A core, part by part in program order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Fetch, predecode, decode, µop cache, loop stream detector.
    pub frontend: Frontend,
    /// Rename and allocation.
    pub rename: Rename,
    /// Scheduler, ports and memory pipeline.
    pub execute: Execute,
    /// Re-order buffer and retirement.
    pub retire: Retire,
    /// Caches; without them every access hits the first level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Caches>,
    /// Memory behind the caches, without which they make no sense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram: Option<Dram>,
    /// Translation of addresses; without it, it takes no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tlb: Option<Tlbs>,
    /// Prefetchers.
    #[serde(default)]
    pub prefetch: Prefetch,
    /// Branch prediction of whole programs; absent: every branch is predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<branch::Branch>,
}

/// Fetch to instruction decode queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frontend {
    /// Everything is delivered as soon as there is room for it (ablation: a front end without
    /// limits of its own).
    #[serde(default)]
    pub ideal: bool,
    /// Compare and jump are fused.
    #[serde(default = "yes")]
    pub macro_fusion: bool,
    /// Bytes that the predecoder takes at a time (aligned).
    pub predecode_block_bytes: u32,
    /// Instructions predecoded per cycle.
    pub predecode_width: u32,
    /// Cycles from predecode to decode.
    pub predecode_to_decode: u64,
    /// Stall cycles of one length-changing prefix.
    pub lcp_stall: u32,
    /// Entries of the instruction queue between predecode and decode.
    pub instruction_queue: u32,
    /// The predecoder's instructions enter the queue as soon as it has room for them; else it does
    /// not begin before there is room for as many as it can handle.
    #[serde(default)]
    pub predecoder_fills_queue: bool,
    /// Decoders; the first handles complex instructions.
    pub decoders: u32,
    /// A macro-fusible instruction may be decoded by the last decoder.
    pub fusible_may_decode_last: bool,
    /// `pop rsp` and `pop r12` need the complex decoder.
    pub pop_rsp_complex: bool,
    /// Nothing is decoded beside `pop rsp` and `pop r12`.
    pub pop_rsp_ends_group: bool,
    /// µops per cycle from the µop cache.
    pub uop_cache_width: u32,
    /// Bytes of code that share the lines of one block in the µop cache.
    pub uop_cache_block_bytes: u32,
    /// Lines that one such block may take.
    pub uop_cache_lines_per_block: u32,
    /// Entries of a line.
    pub uop_cache_line_entries: u32,
    /// Sets of the µop cache (whole programs only; single blocks always fit).
    pub uop_cache_sets: u32,
    /// Ways of the µop cache.
    pub uop_cache_ways: u32,
    /// A delivery cycle of the µop cache ends at a taken branch.
    #[serde(default)]
    pub uop_cache_taken_ends_cycle: bool,
    /// Unlamination comes before the µop cache's width counts.
    #[serde(default)]
    pub uop_cache_delivers_unlaminated: bool,
    /// Large immediates take an extra entry, which ends the delivery cycle.
    #[serde(default = "yes")]
    pub uop_cache_wide_immediates: bool,
    /// Too many fusible instructions with length-changing prefixes keep a block out of the µop
    /// cache.
    #[serde(default = "yes")]
    pub uop_cache_prefix_limit: bool,
    /// A 32-byte block is cached only if the other half of its 64-byte line can be.
    pub uop_cache_both_halves: bool,
    /// Blocks with a jump that crosses or ends at a 32-byte boundary are not cached.
    pub jcc_erratum: bool,
    /// µops per cycle from the microcode sequencer.
    pub microcode_width: u32,
    /// Stall cycles when the µop cache hands over to the microcode sequencer.
    pub uop_cache_to_microcode_stall: u32,
    /// Stall cycles before and after microcode when it is entered from the decoders.
    pub decoder_to_microcode_stall: u32,
    /// Entries of the instruction decode queue, in µops before unlamination.
    pub idq: u32,
    /// Whether the loop stream detector is on.
    pub loop_stream: bool,
    /// Copies that the loop stream detector makes of a loop of so many µops; 1 where absent.
    #[serde(default)]
    pub loop_stream_unroll: BTreeMap<String, u32>,
}

fn yes() -> bool {
    true
}

/// A number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Slots {
    /// So many.
    Limited(u32),
    /// No limit was ever observed.
    Unlimited(Unlimited),
}

/// The word `unlimited`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unlimited {
    /// No limit.
    Unlimited,
}

/// Rename and allocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// Fused µops issued per cycle.
    pub issue_width: u32,
    /// µops of one instruction share slots as the tables have it.
    #[serde(default = "yes")]
    pub micro_fusion: bool,
    /// High-8 registers are renamed apart and need a merge µop.
    pub high8_renamed: bool,
    /// `movzx` from a register whose encoding could be a high-8 one can be eliminated.
    pub movzx_high8_alias_eliminated: bool,
    /// Moves between general-purpose registers in flight that may be eliminated.
    pub move_elimination_gpr: Slots,
    /// Moves between vector registers in flight that may be eliminated.
    pub move_elimination_simd: Slots,
    /// Cycles until the use of elimination slots is seen.
    pub move_elimination_pipeline: u32,
    /// A slot is freed only when all aliases are overwritten (else when one is left).
    pub move_elimination_all_aliases: bool,
    /// Additions of immediates to 64-bit registers, and of the stack engine's offset to rsp, are
    /// done at rename while their running sum stays within this distance; 0: they are all
    /// executed.
    #[serde(default)]
    pub add_immediate_range: i64,
    /// Issue slots that are lost when such a sum would leave the distance. All registers' sums
    /// start anew then.
    #[serde(default)]
    pub add_overflow_slots: u32,
    /// A conditional move or set starts a cycle later than its inputs allow if it issues in one
    /// cycle with the logical operation or the fused jump that its flags come from.
    #[serde(default)]
    pub late_flags: bool,
}

/// How a port is chosen among a µop's ports at issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortChoice {
    /// Sandy and Ivy Bridge, six ports.
    SixPorts,
    /// Haswell to Cascade Lake, eight ports.
    EightPorts,
    /// Ice Lake on: counters of the previous cycle, slot-dependent order.
    TenPorts,
    /// Golden Cove: counters as for Ice Lake, and the slot alone says which of the order's ports
    /// (docs/GOLDEN-COVE.md).
    TwelvePorts,
    /// Every port in turn (ablation: no knowledge of the real rule).
    RoundRobin,
}

/// Longest time, in cycles, that a load may keep its scheduler entry after it has started.
pub const MAX_LOAD_HOLD: u32 = 63;

/// Smallest bank of the first-level cache, in bytes.
pub const MIN_BANK_BYTES: u32 = 4;

/// Scheduler, ports and memory pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execute {
    /// Number of ports.
    pub ports: u32,
    /// How a port is chosen.
    pub port_choice: PortChoice,
    /// Ports of the integer ALUs (bit n = port n).
    pub alu_ports: String,
    /// Entries of the scheduler, unfused.
    pub scheduler: u32,
    /// Entries of the scheduler that loads have for themselves; 0: they wait with the others.
    #[serde(default)]
    pub load_scheduler: u32,
    /// Cycles that a load keeps its entry in that after it has started.
    #[serde(default)]
    pub load_scheduler_hold: u32,
    /// Least cycles from issue to dispatch.
    pub issue_to_dispatch: u64,
    /// Loads whose base comes straight from a load take a cycle less.
    pub fast_pointer_chasing: bool,
    /// 256-bit accesses block their port twice.
    pub slow_256: bool,
    /// Latency of a load that hits the first-level cache, of its own µop.
    pub load_latency: u64,
    /// Floating-point additions have one more cycle of latency for inputs that do not come from
    /// floating-point additions.
    #[serde(default)]
    pub fast_add_chains: bool,
    /// Extra cycles of a shift or rotation with an operand that has a sum from rename.
    #[serde(default)]
    pub sum_to_shift: u64,
    /// Loads wait for older stores to the same bytes.
    #[serde(default = "yes")]
    pub dependencies_through_memory: bool,
    /// From a store's address and data being there to a load's result.
    pub store_forward: u64,
    /// A load that takes its data from a store to the same address is renamed to the store's
    /// source: it has no latency of its own.
    #[serde(default)]
    pub memory_renaming: bool,
    /// The loads of instructions that update memory can be renamed too.
    #[serde(default)]
    pub memory_renaming_updates: bool,
    /// In code that the decoders deliver: least bytes of code per load that is renamed.
    #[serde(default)]
    pub memory_renaming_spacing: u64,
    /// Extra cycles of a load that cannot be renamed to the store that it takes its data from,
    /// though others could.
    #[serde(default)]
    pub memory_renaming_miss: u64,
    /// Entries of the store buffer, which writes stores to the first-level cache in program order,
    /// those to one line in a row together, one line a cycle, those to two lines in two; 0: it is no limit, and stores to
    /// different lines cannot be dispatched together instead.
    #[serde(default)]
    pub store_buffer: u32,
    /// Loads of one cycle that may touch the same bank of the first-level cache, 1 or 2; 0: banks
    /// do not matter.
    #[serde(default)]
    pub loads_per_bank: u32,
    /// Bytes of such a bank.
    #[serde(default)]
    pub bank_bytes: u32,
    /// From the dispatch of a store-address µop to the address being there.
    pub store_address_latency: u64,
    /// From the dispatch of a store-data µop to the data being there.
    pub store_data_latency: u64,
    /// Extra cycles of a load that overlaps an older store without being contained in it: it waits
    /// for the store to leave the store buffer.
    pub store_forward_blocked: u64,
    /// Bytes per cycle of `rep movs` and `rep stos` beyond their start-up, first-level cache.
    #[serde(default = "rep_bytes_per_cycle")]
    pub rep_bytes_per_cycle: u64,
    /// Cycles of one iteration of `rep cmps` and `rep scas`.
    #[serde(default = "rep_compare_cycles")]
    pub rep_compare_cycles: u64,
}

/// Agner Fog, "Instruction tables": fast string moves copy 32 bytes a cycle at best.
fn rep_bytes_per_cycle() -> u64 {
    32
}

/// Agner Fog, "Instruction tables": about two cycles for each element compared.
fn rep_compare_cycles() -> u64 {
    2
}

/// Re-order buffer and retirement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retire {
    /// Entries of the re-order buffer, fused µops.
    pub reorder_buffer: u32,
    /// Fused µops retired per cycle.
    pub width: u32,
}

impl Core {
    /// Bytes of a bank, where banks matter.
    fn bank_bytes(&self) -> u32 {
        match self.execute.loads_per_bank {
            0 => MIN_BANK_BYTES,
            _ => self.execute.bank_bytes,
        }
    }

    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// A text that names the parameter and its bound.
    pub fn check(&self) -> Result<(), String> {
        let bounds = [
            (
                "frontend.predecode_block_bytes",
                self.frontend.predecode_block_bytes,
                16,
                64,
            ),
            (
                "frontend.predecode_width",
                self.frontend.predecode_width,
                1,
                32,
            ),
            (
                "frontend.instruction_queue",
                self.frontend.instruction_queue,
                1,
                1024,
            ),
            ("frontend.decoders", self.frontend.decoders, 1, 16),
            (
                "frontend.uop_cache_width",
                self.frontend.uop_cache_width,
                1,
                16,
            ),
            (
                "frontend.uop_cache_block_bytes",
                self.frontend.uop_cache_block_bytes,
                16,
                64,
            ),
            (
                "frontend.uop_cache_line_entries",
                self.frontend.uop_cache_line_entries,
                1,
                16,
            ),
            (
                "frontend.uop_cache_sets",
                self.frontend.uop_cache_sets,
                1,
                1 << 16,
            ),
            (
                "frontend.uop_cache_ways",
                self.frontend.uop_cache_ways,
                1,
                64,
            ),
            (
                "frontend.microcode_width",
                self.frontend.microcode_width,
                1,
                16,
            ),
            ("frontend.idq", self.frontend.idq, 8, 4096),
            ("rename.issue_width", self.rename.issue_width, 1, 16),
            (
                "rename.add_overflow_slots",
                self.rename.add_overflow_slots,
                0,
                self.rename.issue_width.min(16),
            ),
            ("execute.ports", self.execute.ports, 1, 16),
            ("execute.scheduler", self.execute.scheduler, 16, 1024),
            (
                "execute.load_scheduler",
                match self.execute.load_scheduler {
                    0 => self.execute.scheduler,
                    entries => entries,
                },
                16,
                1024,
            ),
            (
                "execute.load_scheduler_hold",
                self.execute.load_scheduler_hold,
                0,
                MAX_LOAD_HOLD,
            ),
            ("execute.bank_bytes", self.bank_bytes(), MIN_BANK_BYTES, 64),
            (
                "retire.reorder_buffer",
                self.retire.reorder_buffer,
                16,
                4096,
            ),
            ("retire.width", self.retire.width, 1, 32),
        ];
        for (name, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                return Err(format!("{name} = {value} is not in {least}..={most}"));
            }
        }
        for (name, value) in [
            (
                "frontend.predecode_block_bytes",
                self.frontend.predecode_block_bytes,
            ),
            (
                "frontend.uop_cache_block_bytes",
                self.frontend.uop_cache_block_bytes,
            ),
            ("execute.bank_bytes", self.bank_bytes()),
        ] {
            if !value.is_power_of_two() {
                return Err(format!("{name} = {value} is not a power of two"));
            }
        }
        if let Some(branch) = &self.branch {
            branch.check()?;
        }
        if self.frontend.idq < self.frontend.uop_cache_width {
            return Err("frontend.idq is smaller than frontend.uop_cache_width".into());
        }
        for (uops, copies) in &self.frontend.loop_stream_unroll {
            if uops.parse::<u32>().is_err() || *copies == 0 {
                return Err(format!(
                    "frontend.loop_stream_unroll.{uops} = {copies} makes no sense"
                ));
            }
        }
        if self.alu_ports().is_none() {
            return Err(format!(
                "execute.alu_ports = \"{}\" names a port that does not exist",
                self.execute.alu_ports
            ));
        }
        match (&self.cache, &self.dram) {
            (Some(cache), Some(dram)) => {
                cache.check()?;
                dram.check(cache)?;
            }
            (None, None) => {}
            (Some(_), None) => return Err("[cache] without [dram]".into()),
            (None, Some(_)) => return Err("[dram] without [cache]".into()),
        }
        if let Some(tlb) = &self.tlb {
            tlb.check()?;
        }
        self.prefetch.check()
    }

    /// The integer ALU ports.
    #[must_use]
    pub fn alu_ports(&self) -> Option<super::table::PortSet> {
        let mut set = 0u16;
        for c in self.execute.alu_ports.chars() {
            let port = c.to_digit(16)?;
            if port >= self.execute.ports {
                return None;
            }
            set |= 1 << port;
        }
        (set != 0).then_some(super::table::PortSet(set))
    }
}

impl Execute {
    /// Ports of loads and stores, told from the number of ports.
    #[must_use]
    pub fn memory_ports(&self) -> crate::x86::generic::MemoryPorts {
        let set = super::table::PortSet;
        let (load, store_address, store_data) = match self.ports {
            0..=6 => (0b1100, 0b1100, 1 << 4),
            7..=8 => (0b1100, 0b1000_1100, 1 << 4),
            9..=10 => (0b1100, 0b1_1000_0000, 0b10_0001_0000),
            _ => (0b100_0000_1100, 0b1_1000_0000, 0b10_0001_0000),
        };
        crate::x86::generic::MemoryPorts {
            load: set(load),
            store_address: set(store_address),
            store_data: set(store_data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_make_no_sense_are_refused_by_name() {
        type Change = fn(&mut Core);
        let wrong: [(&str, Change); 6] = [
            ("execute.bank_bytes", |c| c.execute.bank_bytes = 2),
            ("execute.bank_bytes", |c| c.execute.bank_bytes = 24),
            ("execute.load_scheduler_hold", |c| {
                c.execute.load_scheduler_hold = MAX_LOAD_HOLD + 1;
            }),
            ("rename.add_overflow_slots", |c| {
                c.rename.add_overflow_slots = c.rename.issue_width + 1;
            }),
            ("frontend.predecode_block_bytes", |c| {
                c.frontend.predecode_block_bytes = 20;
            }),
            ("execute.alu_ports", |c| c.execute.alu_ports = "0G".into()),
        ];
        for (name, change) in wrong {
            let mut core = crate::machine::cpu("glc").unwrap().core.clone();
            assert_eq!(core.check(), Ok(()));
            change(&mut core);
            let error = core.check().unwrap_err();
            assert!(error.contains(name), "{error}");
        }
    }
}
