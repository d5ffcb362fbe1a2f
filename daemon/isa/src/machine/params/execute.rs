//! Schedulers and the memory pipeline.

use serde::{Deserialize, Serialize};

use super::check::{Bounds, Checked, MAX_DELAY};
use super::{is_default, is_yes, yes};

/// Smallest bank of the first-level cache, in bytes.
pub const MIN_BANK_BYTES: u32 = 4;

/// Which stores start in one cycle and, of those in a row, are written to the first-level cache in one. Where
/// there is a [`Execute::store_buffer`] it is that which minds lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoresTogether {
    /// Any two.
    #[default]
    AnyTwo,
    /// Two to the same line.
    TwoToALine,
    /// Those that start in one cycle to the same line; any number to the same aligned 32 bytes.
    #[serde(rename = "any_number_to_32_bytes")]
    AnyNumberTo32Bytes,
    /// None: each is written alone, 16 bytes of it at a time, those over the end of aligned 16 bytes in two cycles.
    Alone,
}

/// How a word of four bytes of which a store writes only a part is read first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartialStores {
    /// Cycles before its turn to be written.
    pub ahead: u32,
    /// Cycles to read it once more, if it was written since; 0: none of it is modelled.
    pub again: u32,
}

/// Which loads go ahead of older stores whose addresses are not known yet (Doweck, "Inside Intel Core Microarchitecture and
/// Smart Memory Access", 2006): a load that needed such a store waits for the addresses of all older ones from then on, until
/// it needed none so many times in a row. Whole programs only: a block's loads know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disambiguation {
    /// Loads that are told apart, by the low bits of their addresses; a power of two.
    pub loads: u32,
    /// Executions without such a store after which a load goes ahead again, at most 127.
    pub waits: u8,
    /// Cycles from when all addresses are known to when a load that waited for them starts.
    pub delay: u64,
    /// Cycles from when the address is known of a store that a load needed, and had gone ahead of, to when the load
    /// and all behind it issue anew.
    pub restart: u64,
    /// From the dispatch of a store's address to when loads know it; none: `store_address_latency`, which blocks have in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    /// Cycles before loads know a store's address from which on they do not go ahead of it in vain.
    #[serde(default, skip_serializing_if = "is_default")]
    pub early: u64,
    /// Cycles from the dispatch of a load that needs a store whose address it does not know yet to its data, at least.
    #[serde(default, skip_serializing_if = "is_default")]
    pub again: u64,
    /// A load that waits, and meets a store whose address is known, waits for those of the stores between alone, not for older ones'.
    #[serde(default, skip_serializing_if = "is_default")]
    pub between_alone: bool,
    /// Times in a row that a load has to meet the store as far back as the time before until it is renamed to that
    /// (`memory_renaming_learnt`). One that then meets another or none issues anew, and is learnt anew.
    #[serde(default = "once")]
    pub renamed_after: u8,
}

/// What a locked instruction waits for: that all older instructions have retired and all older stores are written, and the last
/// locked one, which takes as long as its form's throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    /// Cycles by which it starts before the last older instruction retires and the last older store is written.
    pub ahead: u32,
    /// Cycles more behind the last one where a store, or more than `near` fused µops, came in between.
    pub apart: u32,
    /// Fused µops, the next one's first not among them.
    pub near: u32,
}

/// How long a locked instruction keeps all else from retiring, from when everything older has retired and its stores are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedRetirement {
    /// Cycles that it takes to be written and to retire.
    pub takes: u64,
    /// Cycles by which that begins after the last older store, another locked one's among them, was written.
    pub behind_writes: u64,
}

/// What a load costs that crosses the end of an aligned part of memory, which the first level of cache reads at a time: it goes to
/// its port twice. Whole programs only: a block's addresses are assumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossingLoads {
    /// Bytes of such a part, a power of two; a load that is wider always crosses its end.
    pub bytes: u32,
    /// Cycles by which its data is there later.
    pub later: u8,
    /// The same of vectors; none: as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vectors_later: Option<u8>,
}

const fn once() -> u8 {
    1
}

impl StoresTogether {
    /// Whether it matters where they go.
    #[must_use]
    pub fn by_line(self) -> bool {
        self != Self::AnyTwo
    }

    /// Bytes of the aligned parts of memory of which those that are written together go to one.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::AnyTwo | Self::TwoToALine => 64,
            Self::AnyNumberTo32Bytes => 32,
            Self::Alone => 16,
        }
    }

    /// Whether more than two are written together.
    #[must_use]
    pub fn any_number(self) -> bool {
        self == Self::AnyNumberTo32Bytes
    }
}

/// Schedulers and the memory pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execute {
    /// Entries of the scheduler, unfused, for the ports that have none of their own.
    pub scheduler: u32,
    /// Least cycles from issue to dispatch.
    pub issue_to_dispatch: u64,
    /// Loads whose base comes straight from a load take a cycle less.
    pub fast_pointer_chasing: bool,
    /// 256-bit accesses block their port twice.
    pub slow_256: bool,
    /// Latency of a load that hits the first-level cache, of its own µop.
    pub load_latency: u64,
    /// What of the instruction table's latencies from addresses is the load: the latency of a load
    /// where the table was measured.
    pub table_load_latency: u16,
    /// More cycles of a load by an instruction that uses vector registers, in the table and in the
    /// core.
    #[serde(default)]
    pub vector_load_extra: u16,
    /// The same of 64 bytes, if it is more.
    #[serde(default, skip_serializing_if = "is_default")]
    pub vector_load_extra_64: u16,
    /// More cycles of a load whose index register is multiplied; tables are measured without.
    #[serde(default)]
    pub scaled_load_extra: u16,
    /// The same of one that is not multiplied, with a displacement beside it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub displaced_index_load_extra: u16,
    /// Which stores go together.
    #[serde(default)]
    pub stores_together: StoresTogether,
    /// How stores of less than a word of four bytes read the word.
    #[serde(default, skip_serializing_if = "is_default")]
    pub partial_stores: PartialStores,
    /// Which loads go ahead of stores with unknown addresses; none: they go as if all addresses were known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disambiguation: Option<Disambiguation>,
    /// Floating-point additions have one more cycle of latency for inputs that do not come from
    /// floating-point additions.
    #[serde(default)]
    pub fast_add_chains: bool,
    /// Extra cycles of a shift or rotation with an operand that has a sum from rename.
    #[serde(default)]
    pub sum_to_shift: u64,
    /// An input from which an instruction takes longer than from others delays its only µop, which
    /// else takes as long as from the others.
    #[serde(default)]
    pub input_delays: bool,
    /// A µop of an unbound port whose input comes from one of one cycle there is woken as if that one
    /// had not to wait for a port: it starts in vain, once, when the input is not there by then.
    #[serde(default)]
    pub vain_starts: bool,
    /// Loads wait for older stores to the same bytes.
    #[serde(default = "yes")]
    pub dependencies_through_memory: bool,
    /// The same of up to 16, 32 and 64 bytes where caches are modelled, thus in whole programs, beside what `vector_load_extra` says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub vector_load_later: [u8; 3],
    /// There, too: so many cycles later than loads can take it the data of a store is done with, of an instruction that uses vector registers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub vector_store_later: u8,
    /// From a store's address and data being there to a load's result.
    pub store_forward: u64,
    /// More cycles of that for a load by an instruction that uses vector registers.
    #[serde(default)]
    pub vector_forward_extra: u8,
    /// The same of a load of 64 bytes, if it is more.
    #[serde(default, skip_serializing_if = "is_default")]
    pub vector_forward_extra_64: u8,
    /// More cycles of that behind a store of a vector register of up to 16, 32 and 64 bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub vector_store_extra: [u8; 3],
    /// What a store under a mask writes is not there for loads until it is written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked_stores_written: bool,
    /// A load that takes its data from a store to the same address is renamed to the store's
    /// source: it has no latency of its own.
    #[serde(default)]
    pub memory_renaming: bool,
    /// All loads to and stores from general-purpose registers can, and no others, whatever the table's
    /// latencies through memory are.
    #[serde(default)]
    pub memory_renaming_general: bool,
    /// Of those the loads of instructions that compute nothing with what they load, and of updates.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_renaming_of_moves: bool,
    /// Updates of 8 and 16 bits can be renamed.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub memory_renaming_of_parts: bool,
    /// Locked updates can be renamed.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub memory_renaming_of_locked: bool,
    /// Loads can be renamed to what locked instructions write.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub memory_renaming_from_locked: bool,
    /// Loads that are renamed since they took their data from a store before, though rename cannot know
    /// that the addresses are equal: they are not made of the same values of the same registers, or
    /// [`Execute::memory_renaming_kept`] forbids it. 0: what addresses are made of does not matter.
    #[serde(default)]
    pub memory_renaming_learnt: u32,
    /// Sets that these are in, one or two.
    #[serde(default = "two", skip_serializing_if = "is_two")]
    pub memory_renaming_learnt_sets: u32,
    /// Rename knows of no addresses that they are equal but of those relative to the stack pointer; loads by other registers
    /// are renamed once they have been learnt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_renaming_knows_stack: bool,
    /// Loads are learnt also where their and the store's addresses are constants.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_renaming_of_constants: bool,
    /// Rename knows the address of no load for which one of so many instructions, itself and those behind
    /// it, writes a register of its address.
    #[serde(default)]
    pub memory_renaming_kept: u32,
    /// A load is renamed only to one of the last so many stores before it, whatever the others write; 0: to any in flight.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_renaming_stores: u32,
    /// A load that is learnt is known with instructions, and renamed to the last store of these; else to the store so many before
    /// it. Where loads go ahead of stores, thus in whole programs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_renaming_of_instructions: bool,
    /// The loads of instructions that update memory can be renamed too.
    #[serde(default)]
    pub memory_renaming_updates: bool,
    /// In code that the decoders deliver: least bytes of code per load that is renamed.
    #[serde(default)]
    pub memory_renaming_spacing: u64,
    /// Where caches are modelled, thus in whole programs: loads are renamed that met a store so many times on end while fetch was never
    /// sent elsewhere than it had gone; 0: all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_renaming_steady: u8,
    /// Instructions that start only every so many cycles are held apart when they are ready; else when
    /// their inputs are known, and they are ready a cycle later.
    #[serde(default)]
    pub spacing_when_ready: bool,
    /// Locked instructions start one behind the other, whatever their forms; else those of one form.
    #[serde(default)]
    pub locked_in_turn: bool,
    /// How long locked instructions keep all else from retiring, which is all that holds them apart then; none: they start as
    /// their forms' throughput says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub locked_retirement: Option<LockedRetirement>,
    /// What locked instructions wait for where caches are modelled, thus in whole programs; none: what their forms' throughput says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub locked: Option<Locked>,
    /// Divisions and square roots of floating-point numbers start one after the other, whatever their forms: they share a
    /// divider, which each keeps as long as the table has it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub float_divisions_in_turn: bool,
    /// Extra cycles of a load that cannot be renamed to the store that it takes its data from,
    /// though others could.
    #[serde(default)]
    pub memory_renaming_miss: u64,
    /// What loads cost that cross the end of a part of a line; none: nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub crossing_loads: Option<CrossingLoads>,
    /// Loads that have started, whose data or that of older loads is not there yet, in whole programs, but those by the stack
    /// pointer; 0: any number.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started_loads: u32,
    /// Entries of the store buffer, which writes stores to the first-level cache in program order,
    /// those of a row that [go together](Execute::stores_together) in one cycle, the others in one
    /// each, those to two lines in two; 0: it is no limit.
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
    /// Cycles by which the data of an instruction that updates memory is there sooner.
    #[serde(default)]
    pub store_update_sooner: u64,
    /// Extra cycles of a load that overlaps an older store without being contained in it: it waits
    /// for the store to leave the store buffer.
    pub store_forward_blocked: u64,
    /// Where caches are modelled, thus in whole programs: a load that lies in two parts of a store, each as wide as the load and no
    /// less than eight bytes, waits as if the store had a part of it only (Intel, *Optimization Reference Manual*, "Store Forwarding
    /// Conditions"; measured on Redwood Cove: docs/REDWOOD-COVE.md).
    #[serde(default)]
    pub store_forward_parts: bool,
    /// What `store_forward_blocked` says where the store buffer is modelled: from when the youngest of these stores is
    /// written to its line, which is after it retired, until the load has its data; 0: what
    /// `store_forward_blocked` says. Measured on Zen 5: docs/MEMORY.md.
    #[serde(default)]
    pub store_forward_written: u64,
    /// Bytes per cycle of `rep movs` and `rep stos` beyond their start-up, first-level cache.
    #[serde(default = "rep_bytes_per_cycle")]
    pub rep_bytes_per_cycle: u64,
    /// The same for the first `rep_burst_bytes`, which buffers take.
    #[serde(default = "rep_bytes_per_cycle")]
    pub rep_burst_bytes_per_cycle: u64,
    /// How many these are.
    #[serde(default)]
    pub rep_burst_bytes: u64,
    /// Only `rep stos` has such a burst: `rep movs` takes as long to read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rep_burst_of_stores: bool,
    /// Cycles from when the count and the addresses of `rep movs` and `rep stos` are known until
    /// what is behind them can issue; 0: that does not wait for them. Measured on Zen 5: docs/MEMORY.md.
    #[serde(default)]
    pub rep_known: u64,
    /// Up to so many bytes nothing waits for the count: it is predicted.
    #[serde(default)]
    pub rep_predicted_bytes: u64,
    /// The same for `rep movs` of elements of more than a byte, if it is more.
    #[serde(default)]
    pub rep_move_predicted_bytes: u64,
    /// Counts of elements of more than a byte are never predicted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rep_predicts_bytes_alone: bool,
    /// Hundredths of a cycle from one `rep movs` with a predicted count of two and more to the
    /// next, for elements of 1, 2, 4 and 8 bytes; 0: as the table says.
    #[serde(default)]
    pub rep_move_spacing: [u32; 4],
    /// The same of `rep stos`.
    #[serde(default)]
    pub rep_store_spacing: [u32; 4],
    /// Fewer elements than this `rep movs` and `rep stos` take one a cycle; 0: they take bytes however few there are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rep_single_elements: u64,
    /// Cycles that it takes `rep movs` (first) and `rep stos` to begin with bytes, besides `rep_known`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rep_bytes_begin: [u64; 2],
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

impl Execute {
    /// Bytes up to which the count of `rep movs` (`moves`) or `rep stos` is predicted, whose elements
    /// have `element` bytes.
    #[must_use]
    pub fn rep_predicted(&self, moves: bool, element: u64) -> u64 {
        match (element > 1, moves) {
            (true, _) if self.rep_predicts_bytes_alone => 0,
            (true, true) => self.rep_move_predicted_bytes.max(self.rep_predicted_bytes),
            _ => self.rep_predicted_bytes,
        }
    }

    /// Hundredths of a cycle from one such instruction to the next; 0: as the table says.
    #[must_use]
    pub fn rep_spacing(&self, moves: bool, element: u16) -> u64 {
        let by_size = match moves {
            true => &self.rep_move_spacing,
            false => &self.rep_store_spacing,
        };
        let spacing = by_size.get(element.max(1).ilog2() as usize);
        spacing.copied().map_or(0, u64::from)
    }

    pub(super) fn check(&self) -> Checked {
        let b = Bounds("execute");
        b.within("scheduler", self.scheduler, 16, 1024)?;
        let sets = self.memory_renaming_learnt_sets;
        b.within("memory_renaming_learnt_sets", sets, 1, 2)?;
        b.within("partial_stores.ahead", self.partial_stores.ahead, 0, 8)?;
        b.within("partial_stores.again", self.partial_stores.again, 0, 64)?;
        if let Some(d) = &self.disambiguation {
            b.within("disambiguation.loads", d.loads, 1, 1 << 16)?;
            b.holds("disambiguation.loads", d.loads.is_power_of_two(), || {
                format!("{} is not a power of two", d.loads)
            })?;
            b.within("disambiguation.waits", u32::from(d.waits), 1, 127)?;
            let after = u32::from(d.renamed_after);
            b.within("disambiguation.renamed_after", after, 1, 255)?;
            b.at_most(&[
                ("disambiguation.delay", d.delay, MAX_DELAY),
                ("disambiguation.address", d.address.unwrap_or(0), MAX_DELAY),
                ("disambiguation.early", d.early, MAX_DELAY),
                ("disambiguation.again", d.again, MAX_DELAY),
                ("disambiguation.restart", d.restart, MAX_DELAY),
            ])?;
        }
        if let Some(crossing) = &self.crossing_loads {
            b.power_of_two("crossing_loads.bytes", crossing.bytes, 8, 64)?;
        }
        let locked = self.locked_retirement.unwrap_or_default();
        b.at_most(&[
            ("locked_retirement.takes", locked.takes, MAX_DELAY),
            (
                "locked_retirement.behind_writes",
                locked.behind_writes,
                MAX_DELAY,
            ),
        ])?;
        if let Some(locked) = &self.locked {
            b.at_most(&[
                ("locked.ahead", locked.ahead.into(), MAX_DELAY),
                ("locked.apart", locked.apart.into(), MAX_DELAY),
                ("locked.near", locked.near.into(), 4096),
            ])?;
        }
        let latency = self.load_latency;
        b.holds("load_latency", (1..=1000).contains(&latency), || {
            format!("{latency} is not in 1..=1000")
        })?;
        let table = u32::from(self.table_load_latency);
        b.within("table_load_latency", table, 1, 1000)?;
        self.check_strings(b)?;
        for (name, extra) in [
            ("vector_load_extra", self.vector_load_extra),
            ("vector_load_extra_64", self.vector_load_extra_64),
            ("scaled_load_extra", self.scaled_load_extra),
            (
                "displaced_index_load_extra",
                self.displaced_index_load_extra,
            ),
        ] {
            b.at_most(&[(name, extra.into(), MAX_DELAY)])?;
        }
        for (name, delay) in [
            ("issue_to_dispatch", self.issue_to_dispatch),
            ("sum_to_shift", self.sum_to_shift),
            ("store_forward", self.store_forward),
            ("store_forward_blocked", self.store_forward_blocked),
            ("store_forward_written", self.store_forward_written),
            ("memory_renaming_miss", self.memory_renaming_miss),
            ("store_address_latency", self.store_address_latency),
            ("store_data_latency", self.store_data_latency),
            ("store_update_sooner", self.store_update_sooner),
        ] {
            b.at_most(&[(name, delay, MAX_DELAY)])?;
        }
        b.at_most(&[
            (
                "memory_renaming_learnt",
                self.memory_renaming_learnt.into(),
                4096,
            ),
            ("memory_renaming_kept", self.memory_renaming_kept.into(), 64),
            (
                "memory_renaming_stores",
                self.memory_renaming_stores.into(),
                512,
            ),
            ("memory_renaming_spacing", self.memory_renaming_spacing, 64),
            ("started_loads", self.started_loads.into(), 4096),
            ("store_buffer", self.store_buffer.into(), 512),
            ("loads_per_bank", self.loads_per_bank.into(), 2),
            ("bank_bytes", self.bank_bytes.into(), 64),
        ])?;
        if self.loads_per_bank > 0 {
            b.power_of_two("bank_bytes", self.bank_bytes, MIN_BANK_BYTES, 64)?;
        }
        Ok(())
    }

    /// Checks what `rep movs` and its like have.
    fn check_strings(&self, b: Bounds) -> Checked {
        const MAX_BYTES: u64 = 1 << 20;
        for (name, bytes) in [
            ("rep_bytes_per_cycle", self.rep_bytes_per_cycle),
            ("rep_burst_bytes_per_cycle", self.rep_burst_bytes_per_cycle),
        ] {
            b.holds(name, (1..=4096).contains(&bytes), || {
                format!("{bytes} is not in 1..=4096")
            })?;
        }
        b.at_most(&[
            ("rep_known", self.rep_known, MAX_DELAY),
            ("rep_bytes_begin[0]", self.rep_bytes_begin[0], MAX_DELAY),
            ("rep_bytes_begin[1]", self.rep_bytes_begin[1], MAX_DELAY),
            ("rep_burst_bytes", self.rep_burst_bytes, MAX_BYTES),
            ("rep_predicted_bytes", self.rep_predicted_bytes, MAX_BYTES),
            (
                "rep_move_predicted_bytes",
                self.rep_move_predicted_bytes,
                MAX_BYTES,
            ),
            ("rep_single_elements", self.rep_single_elements, MAX_BYTES),
        ])?;
        for spacing in self.rep_move_spacing.iter().chain(&self.rep_store_spacing) {
            b.within(
                "rep_move_spacing and rep_store_spacing",
                *spacing,
                0,
                100_000,
            )?;
        }
        Ok(())
    }
}

fn two() -> u32 {
    2
}

fn is_two(sets: &u32) -> bool {
    *sets == 2
}
