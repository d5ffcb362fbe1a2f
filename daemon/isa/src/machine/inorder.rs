//! The parameters of an in-order core, one documented field each.
//!
//! *Issue* is the cycle in which an instruction leaves decode for execution, in program order;
//! every delay counts from there unless it says otherwise. Delays are in core cycles, sizes in
//! entries or bytes.

use serde::{Deserialize, Serialize};

use super::hierarchy::{Caches, Dram, Prefetch, Tlbs};

/// An in-order core, part by part in program order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InOrder {
    /// Instructions issued per cycle.
    pub width: u32,
    /// Cycles from issue to retirement.
    pub retire: u32,
    /// Fetch, up to the queue before decode.
    pub fetch: Fetch,
    /// The same in whole programs; absent: `fetch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_fetch: Option<Fetch>,
    /// First-level instruction cache; absent: all code is there.
    pub icache: Option<InstructionCache>,
    /// How branches are resolved.
    pub branch: Branch,
    /// How branches are predicted; absent: all of them rightly.
    pub predictor: Option<Predictor>,
    /// The store buffer; absent: it never fills.
    pub store_buffer: Option<StoreBuffer>,
    /// What lies behind loads, stores and fetches, whole programs only; absent: every data access hits the
    /// first level.
    #[serde(default)]
    pub memory: Option<Hierarchy>,
    /// The divider; absent: its class says how long it takes.
    pub divider: Option<Divider>,
    /// Issue follows the scheduling model of the CPU's table, which has units and classes of its
    /// own; of predictors it goes with [`Predictor::Gshare`] alone.
    #[serde(default)]
    pub scheduled: bool,
    /// Units that execute; at most 16.
    #[serde(default)]
    pub units: Vec<Unit>,
    /// Classes of instructions; at most 64.
    #[serde(default)]
    pub classes: Vec<Class>,
    /// Late execution; absent: there is none.
    pub late: Option<Late>,
}

/// Fetch to issue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// Every instruction is there when it could issue; all else here means nothing.
    #[serde(default)]
    pub ideal: bool,
    /// Bytes of an aligned group that is fetched at once.
    pub bytes: u32,
    /// Groups under way or waiting to be cut into instructions.
    pub groups: u32,
    /// Of these, how many the aligner sees at once.
    pub visible_groups: u32,
    /// Cycles from the start of a fetch to the aligner.
    pub to_align: u32,
    /// Instructions that the aligner cuts out per cycle.
    pub align_width: u32,
    /// Cycles from the aligner to the earliest issue.
    pub align_to_issue: u32,
    /// Entries of the queue between.
    pub queue: u32,
    /// Cycles without fetch after a group that ends at a branch predicted taken.
    pub taken_bubble: u32,
}

/// An instruction cache that serves one miss at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstructionCache {
    /// Bytes.
    pub size: u32,
    /// Bytes of a line.
    pub line: u32,
    /// Ways, replaced by pseudo-LRU.
    pub ways: u32,
    /// Cycles from the start of a fetch to knowing of a miss.
    pub detect: u32,
    /// Cycles from there until the group that missed is fetched once more, past the cache.
    pub first: u32,
    /// Cycles from there until fetch that waited for the line goes on; it is complete a cycle before.
    pub complete: u32,
    /// Cycles at the end of a fill in which the cache is written and nothing can be fetched.
    pub writing: u32,
}

/// Branch resolution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// Cycles from issue to the fetch at the right address, for branches that execute early.
    pub redirect: u32,
    /// The same for branches that execute late.
    pub redirect_late: u32,
    /// Cycles from issue to the update of the predictor with a branch that was predicted rightly.
    pub update: u32,
    /// Bits of the distance of direct jumps that are predicted.
    pub distance_bits: u32,
}

/// Branch predictors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "snake_case")]
pub enum Predictor {
    /// One look-up for a whole fetch group: a target buffer that is banked by the place in the
    /// group, counters under a hash of group and global history, a return stack that is not
    /// repaired.
    GroupGshare(GroupGshare),
    /// A look-up for each branch, with its outcome at once; whole programs only.
    Gshare(Gshare),
    /// All are predicted rightly: what a file says that takes its base's predictor away.
    Perfect,
}

/// Sizes of [`Predictor::Gshare`]: counters under the address and the directions of the last conditional
/// branches (McFarling, "Combining branch predictors", 1993), a target buffer with branches that were taken, a
/// return stack that wraps around.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gshare {
    /// Counters.
    pub counters: u32,
    /// Bits of a counter, which predicts a taken branch from its upper half on.
    #[serde(default = "two")]
    pub counter_bits: u32,
    /// Bits of history. Fewer than a counter's number has change the upper ones of that.
    pub history: u32,
    /// Bits that are made of these by a multiplication, in their place; absent: they are taken as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hashed_history: Option<u32>,
    /// Lowest bits of the address that do not matter.
    #[serde(default)]
    pub skipped_bits: u32,
    /// Entries of the target buffer, replaced by least recent use.
    pub targets: u32,
    /// Its ways.
    pub target_ways: u32,
    /// Only indirect branches have entries there: where direct ones go fetch finds by itself.
    #[serde(default)]
    pub targets_of_indirect: bool,
    /// Entries of the return stack.
    pub returns: u32,
    /// Cycles without fetch behind a direct branch that is rightly predicted to be taken and that the target
    /// buffer has not: decode finds where it goes.
    pub decode_bubble: u32,
}

/// Caches, translation and memory, as those of other cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hierarchy {
    /// Caches. Code comes from them too, in the place of [`InOrder::icache`]. Misses overlap as far as there
    /// are buffers: what needs a value that is missing waits, and everything behind it.
    pub cache: Caches,
    /// Memory.
    pub dram: Dram,
    /// Translation; absent: it takes no time.
    #[serde(default)]
    pub tlb: Option<Tlbs>,
    /// Prefetchers.
    #[serde(default)]
    pub prefetch: Prefetch,
}

/// Sizes of [`Predictor::GroupGshare`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupGshare {
    /// Entries of the target buffer.
    pub targets: u32,
    /// Its ways.
    pub target_ways: u32,
    /// Its banks; a bank has an even part of a fetch group.
    pub target_banks: u32,
    /// Two-bit counters.
    pub counters: u32,
    /// Bits of history.
    pub history: u32,
    /// Entries of the return stack.
    pub returns: u32,
}

/// A store buffer that drains into banked memory in cycles when loads leave the bank alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreBuffer {
    /// Entries.
    pub entries: u32,
    /// Stores are held at issue when fewer entries than this are free, with one counted as taken
    /// for every access that is on its way.
    pub reserve: u32,
    /// Cycles from issue until a store has its entry.
    pub enter: u32,
    /// Cycles from issue until it may drain.
    pub drain: u32,
    /// Cycles from issue until an access reads memory.
    pub read: u32,
    /// Banks of the memory.
    pub banks: u32,
    /// Bytes of a bank's entry; stores of fewer read it first.
    pub bank_bytes: u32,
}

/// A divider whose time depends on its operands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Divider {
    /// Cycles of a division where nothing is skipped, from issue to retirement.
    pub full: u32,
    /// More for a remainder.
    pub remainder: u32,
    /// Cycles that finding out how much can be skipped takes.
    pub skip_cost: u32,
    /// Bits of the quotient that are skipped together when the operands' sizes show them zero.
    pub skip_bits: u32,
    /// Operands of so many bits are divided in `small_cycles` (no remainders).
    pub small_bits: u32,
    /// See `small_bits`.
    pub small_cycles: u32,
    /// Cycles from retirement to the issue of what follows, less those from issue to retirement.
    pub issue_after: i32,
}

/// Units of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// Name, for classes and reports.
    pub name: String,
    /// How many there are.
    pub count: u32,
}

/// What an operand is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// An operand of an operation that executes early.
    Operand,
    /// One of an operation that executes late.
    Late,
    /// An address.
    Address,
    /// Data to be stored.
    StoreData,
    /// An operand of the multiplier.
    Multiply,
    /// An operand of the divider.
    Divide,
}

/// Number of [`Use`]s.
pub const USES: usize = 6;

/// Cycles from the issue of a producer to the earliest issue of a consumer, by what the consumer
/// needs the value for; 0: in the same cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// See [`Use::Operand`].
    pub operand: u8,
    /// See [`Use::Late`].
    pub late: u8,
    /// See [`Use::Address`].
    pub address: u8,
    /// See [`Use::StoreData`].
    pub store_data: u8,
    /// See [`Use::Multiply`].
    pub multiply: u8,
    /// See [`Use::Divide`].
    pub divide: u8,
}

impl Latency {
    /// By [`Use`].
    #[must_use]
    pub fn by_use(&self) -> [u8; USES] {
        [
            self.operand,
            self.late,
            self.address,
            self.store_data,
            self.multiply,
            self.divide,
        ]
    }
}

/// A class of instructions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Name, as the instruction set's decoder asks for it.
    pub name: String,
    /// The unit that it takes; absent: none that could be short.
    pub unit: Option<String>,
    /// Cycles that it keeps the unit.
    #[serde(default = "one")]
    pub interval: u32,
    /// When its result can be used; absent: it has none.
    pub latency: Option<Latency>,
    /// Cycles from issue to the write of its result, where that waits for the results of older
    /// instructions; absent: it does not.
    #[serde(default)]
    pub write_back: u32,
    /// Its part in memory accesses; absent: none.
    pub access: Option<AccessKind>,
    /// May execute late.
    #[serde(default)]
    pub late: bool,
    /// Issues in a cycle of its own.
    #[serde(default)]
    pub alone: bool,
    /// Issues so many cycles after the instruction before it, at least.
    #[serde(default)]
    pub before: u32,
    /// What follows issues so many cycles after it, at least.
    #[serde(default)]
    pub after: u32,
}

/// A class's part in memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// It loads.
    Load,
    /// It stores.
    Store,
}

fn one() -> u32 {
    1
}

fn two() -> u32 {
    2
}

/// Execution at the end of the pipeline, of what came too early for its operands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Late {
    /// When the result can be used.
    pub latency: Latency,
    /// An instruction waits rather than execute late if the next one needs its result early.
    pub spares_next: bool,
    /// No load issues in one cycle with a branch that executes late.
    pub branch_blocks_load: bool,
}

fn in_range(name: &str, value: u32, low: u32, high: u32) -> Result<(), String> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name} = {value}: must be {low} to {high}"))
    }
}

fn power(name: &str, value: u32) -> Result<(), String> {
    if value.is_power_of_two() {
        Ok(())
    } else {
        Err(format!("{name} = {value}: must be a power of two"))
    }
}

fn check_predictor(p: &GroupGshare, fetch: &Fetch) -> Result<(), String> {
    in_range("predictor.target_ways", p.target_ways, 1, 2)?;
    in_range("predictor.target_banks", p.target_banks, 1, fetch.bytes / 2)?;
    power("predictor.target_banks", p.target_banks)?;
    let lanes = fetch.bytes / 2;
    let sets = p.targets / p.target_ways / p.target_banks;
    power("predictor.targets in a bank's way", sets)?;
    in_range("predictor.history", p.history, 2, 32)?;
    in_range("predictor.returns", p.returns, 1, 64)?;
    let rows = p.counters / lanes;
    power("predictor.counters in a row of a group", rows)?;
    if rows.ilog2() + 1 != p.history || rows.ilog2() < sets.ilog2() {
        return Err(format!(
            "predictor.history = {}: must be one more than the {} bits of a counter's \
                 row, which must be at least the {} bits of a target's set",
            p.history,
            rows.ilog2(),
            sets.ilog2()
        ));
    }
    Ok(())
}

fn check_gshare(p: &Gshare) -> Result<(), String> {
    in_range("predictor.counters", p.counters, 2, 1 << 20)?;
    in_range("predictor.counter_bits", p.counter_bits, 1, 7)?;
    in_range("predictor.history", p.history, 1, 31)?;
    let hashed = p.hashed_history.unwrap_or(p.history);
    in_range("predictor.hashed_history", hashed, 1, p.history)?;
    in_range("predictor.skipped_bits", p.skipped_bits, 0, 6)?;
    in_range("predictor.target_ways", p.target_ways, 1, 64)?;
    power("predictor.targets in a way", p.targets / p.target_ways)?;
    in_range("predictor.targets", p.targets, p.target_ways, 1 << 16)?;
    in_range("predictor.returns", p.returns, 1, 64)?;
    in_range("predictor.decode_bubble", p.decode_bubble, 0, 64)
}

impl Fetch {
    /// Checks what the types cannot say, in a core that issues so many instructions a cycle.
    ///
    /// # Errors
    /// The parameter, as one of `section`, that makes no sense, and its bounds.
    fn check(&self, section: &str, width: u32) -> Result<(), String> {
        let key = |name: &str| format!("{section}.{name}");
        power(&key("bytes"), self.bytes)?;
        for (name, value, low, high) in [
            ("bytes", self.bytes, 4, 64),
            ("groups", self.groups, 1, 16),
            ("visible_groups", self.visible_groups, 1, self.groups),
            ("align_width", self.align_width, 1, 8),
            ("queue", self.queue, width, 64),
            ("to_align", self.to_align, 0, 64),
            ("align_to_issue", self.align_to_issue, 0, 64),
            ("taken_bubble", self.taken_bubble, 0, 64),
        ] {
            in_range(&key(name), value, low, high)?;
        }
        Ok(())
    }
}

impl Hierarchy {
    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// The parameter that makes no sense, and its bounds.
    fn check(&self) -> Result<(), String> {
        self.cache.check()?;
        self.dram.check(&self.cache)?;
        if let Some(tlb) = &self.tlb {
            tlb.check()?;
        }
        self.prefetch.check()
    }
}

impl InOrder {
    /// The same for single blocks, which are measured with their branches predicted.
    #[must_use]
    pub fn of_blocks(&self) -> Self {
        let of_programs = matches!(self.predictor, Some(Predictor::Gshare(_)));
        Self {
            predictor: self.predictor.clone().filter(|_| !of_programs),
            ..self.clone()
        }
    }

    /// The same for whole programs.
    #[must_use]
    pub fn of_programs(&self) -> Self {
        Self {
            fetch: self.program_fetch().clone(),
            ..self.clone()
        }
    }

    /// Fetch in whole programs.
    #[must_use]
    pub fn program_fetch(&self) -> &Fetch {
        self.program_fetch.as_ref().unwrap_or(&self.fetch)
    }

    /// Cycles without issue behind a branch that executed early and was predicted wrongly.
    #[must_use]
    pub fn mispredicted(&self) -> u32 {
        let fetch = self.program_fetch();
        match fetch.ideal {
            true => self.branch.redirect,
            false => {
                let issued = self.branch.redirect + fetch.to_align + fetch.align_to_issue;
                issued.saturating_sub(1)
            }
        }
    }

    /// Names of its units, each copy on its own: what views call ports. None where issue follows the
    /// scheduling model of the CPU's table.
    #[must_use]
    pub fn ports(&self) -> Vec<String> {
        let names = self.units.iter().flat_map(|unit| {
            (0..unit.count).map(|copy| match unit.count {
                1 => unit.name.clone(),
                _ => format!("{} {copy}", unit.name),
            })
        });
        names.collect()
    }

    /// Whether the parameters make sense together.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), String> {
        in_range("width", self.width, 1, 8)?;
        in_range("retire", self.retire, 0, 64)?;
        self.fetch.check("fetch", self.width)?;
        if let Some(fetch) = &self.program_fetch {
            fetch.check("program_fetch", self.width)?;
        }
        for (name, value) in [
            ("branch.redirect", self.branch.redirect),
            ("branch.redirect_late", self.branch.redirect_late),
            ("branch.update", self.branch.update),
        ] {
            in_range(name, value, 0, 64)?;
        }
        in_range("branch.distance_bits", self.branch.distance_bits, 1, 64)?;
        match &self.predictor {
            Some(Predictor::GroupGshare(predictor)) => check_predictor(predictor, &self.fetch)?,
            Some(Predictor::Gshare(predictor)) => check_gshare(predictor)?,
            Some(Predictor::Perfect) | None => {}
        }
        if let Some(memory) = &self.memory {
            memory.check()?;
        }
        self.check_buffers()?;
        self.check_classes()
    }

    fn check_buffers(&self) -> Result<(), String> {
        if let Some(cache) = &self.icache {
            power("icache.line", cache.line)?;
            in_range("icache.line", cache.line, self.fetch.bytes, 4096)?;
            in_range("icache.ways", cache.ways, 1, 64)?;
            let sets = cache.size / cache.line.max(1) / cache.ways.max(1);
            in_range("icache sets", sets, 1, 1 << 20)?;
            power("icache sets", sets)?;
            in_range("icache.complete", cache.complete, cache.first, 1 << 16)?;
            in_range("icache.writing", cache.writing, 0, cache.complete)?;
            in_range("icache.detect", cache.detect, 0, 1 << 16)?;
        }
        if let Some(buffer) = &self.store_buffer {
            in_range("store_buffer.entries", buffer.entries, 1, 64)?;
            in_range("store_buffer.reserve", buffer.reserve, 0, buffer.entries)?;
            in_range("store_buffer.enter", buffer.enter, 1, 64)?;
            in_range("store_buffer.drain", buffer.drain, buffer.enter, 64)?;
            in_range("store_buffer.read", buffer.read, 0, 64)?;
            in_range("store_buffer.banks", buffer.banks, 1, 1024)?;
            power("store_buffer.banks", buffer.banks)?;
            in_range("store_buffer.bank_bytes", buffer.bank_bytes, 1, 64)?;
            power("store_buffer.bank_bytes", buffer.bank_bytes)?;
        }
        if let Some(divider) = &self.divider {
            in_range("divider.full", divider.full, 1, 1 << 10)?;
            in_range("divider.skip_bits", divider.skip_bits, 1, 32)?;
            in_range("divider.small_bits", divider.small_bits, 0, 31)?;
            for (name, cycles) in [
                ("divider.remainder", divider.remainder),
                ("divider.skip_cost", divider.skip_cost),
                ("divider.small_cycles", divider.small_cycles),
                (
                    "divider.issue_after without its sign",
                    divider.issue_after.unsigned_abs(),
                ),
            ] {
                in_range(name, cycles, 0, 1000)?;
            }
        }
        Ok(())
    }

    fn check_classes(&self) -> Result<(), String> {
        in_range("number of units", self.units.len() as u32, 0, 16)?;
        let least = if self.scheduled { 0 } else { 1 };
        in_range("number of classes", self.classes.len() as u32, least, 64)?;
        let by_group = matches!(self.predictor, Some(Predictor::GroupGshare(_)));
        if self.scheduled && (by_group || self.late.is_some()) {
            return Err("scheduled: goes with neither a predictor of groups nor [late]".into());
        }
        let by_branch = matches!(self.predictor, Some(Predictor::Gshare(_)));
        if by_branch && self.program_fetch().ideal {
            let what = "predictor: has no effect where fetch is ideal; [in_order.program_fetch] \
                        is what whole programs have";
            return Err(what.into());
        }
        for unit in &self.units {
            in_range(&format!("count of unit {}", unit.name), unit.count, 1, 8)?;
        }
        for class in &self.classes {
            if let Some(unit) = &class.unit
                && !self.units.iter().any(|u| u.name == *unit)
            {
                return Err(format!("class {}: there is no unit {unit}", class.name));
            }
            if class.late && self.late.is_none() {
                return Err(format!("class {}: late without [late]", class.name));
            }
            in_range(
                &format!("interval of {}", class.name),
                class.interval,
                1,
                4096,
            )?;
            for (name, cycles) in [
                ("write_back", class.write_back),
                ("before", class.before),
                ("after", class.after),
            ] {
                in_range(&format!("{name} of {}", class.name), cycles, 0, 4096)?;
            }
        }
        Ok(())
    }
}
