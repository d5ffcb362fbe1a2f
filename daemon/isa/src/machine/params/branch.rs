//! Branch prediction of a core: direction, targets, returns, branch target buffers, and what a
//! wrong or late prediction costs.
//!
//! The structure is that of the published predictors that real ones are taken to resemble:
//! TAGE with a loop predictor and a statistical corrector (Seznec, CBP-5, 2016), ITTAGE (Seznec,
//! JWAC-2, 2011). History is of taken branches, as "Half&Half" (Yavarzadeh et al., IEEE S&P 2023)
//! found it in Intel's cores; lengths are counted in them. Sizes are entries, delays core cycles.

mod check;

use serde::{Deserialize, Serialize};

use super::is_default;

/// Most tagged tables of one predictor.
pub const MAX_TABLES: u32 = 20;
/// Most levels of branch target buffers.
pub const MAX_BTB_LEVELS: usize = 4;
/// Most pages that [`NearPages`] hold.
pub const MAX_NEAR_PAGES: usize = 16;
/// Longest history, in taken branches.
pub const MAX_HISTORY: u32 = 2048;

/// What executed branches leave in the history that predictions of directions and targets depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Addresses and targets of taken branches ("Half&Half": Yavarzadeh et al., IEEE S&P 2023).
    #[default]
    Taken,
    /// Directions of conditional branches; for targets of indirect branches two bits of each of the last taken branches' addresses, and
    /// that of the branch that led into the line, besides (docs/BRANCHES.md, "Zen 4's history").
    Directions,
}

/// Which targets of indirect branches are not those that the branch target buffer has, where these are not in an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chosen {
    /// Other ones than the first.
    #[default]
    BehindFirst,
    /// All of a branch that has not gone to one place the last few times.
    Changing,
    /// All of a branch that has gone elsewhere, unless it is found in one cycle with the branch before it (`two_windows`), from which it
    /// has always gone there (`indirect.led_entries`).
    Elsewhere,
}

/// Loops that are replayed from the decode queue, which asks no predictor: what goes otherwise in them is never foreseen ("… until a branch
/// misprediction inevitably ends it": Intel's Optimization Reference Manual, "Loop Stream Detector").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamedLoops {
    /// Taken branches in a row, each the one of the turn before, after which a loop is replayed.
    pub taken_branches: u32,
    /// Bytes of code of the longest loop that is: what predicts knows of no µops, of which an instruction of four bytes
    /// has about one.
    pub bytes: u64,
}

/// Translations that a predictor has at hand, of pages of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NearPages {
    /// Pages that it holds.
    pub entries: u32,
    /// Cycles in which the predictor finds nothing more on its way to another page, those of the branch target buffer besides.
    pub bubbles: u64,
}

/// Translations of predicted lines, which are made in order before these are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageTurn {
    /// Cycles that a line of another page than the one before waits, the predictor going on.
    pub cycles: u64,
    /// Lines behind one that waited which do not, whatever pages they are of, as long as no branch was predicted wrongly.
    pub stays: u32,
}

/// Calls that wait since the return stack is nearly full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrowdedReturns {
    /// Addresses that it may have without that, the call's among them.
    pub entries: u32,
    /// Cycles in which the predictor finds nothing more behind such a call, besides its other ones.
    pub bubbles: u64,
}

/// Branch prediction, whole programs only: blocks are measured with every branch predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// Cycles from the execution of a branch that was predicted wrongly to the delivery of the
    /// first µop of the right path, when that comes from the µop cache.
    pub redirect: u64,
    /// How many cycles more it takes where that comes from the decoders, besides what these take.
    #[serde(default, skip_serializing_if = "is_default")]
    pub decoded_redirect: u64,
    /// Cycles that delivery pauses after a direct branch whose target only the decoders found.
    pub decode_redirect: u64,
    /// How many cycles more it takes where that is a conditional branch, whose direction they have to ask for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub decode_redirect_conditional: u64,
    /// A conditional branch that no branch target buffer has is taken not to be taken (AMD's
    /// optimisation guides); else the decoders ask the direction predictor.
    #[serde(default)]
    pub unknown_not_taken: bool,
    /// What branches leave in the history.
    #[serde(default, skip_serializing_if = "is_default")]
    pub history: History,
    /// Lines and targets that are predicted in a cycle.
    #[serde(default = "one")]
    pub starts_per_cycle: u32,
    /// Lines that the predictor may be ahead of delivery.
    pub ahead: u32,
    /// Lines that may be on their way into the first-level instruction cache.
    pub line_misses: u32,
    /// Least cycles from the arrival of one of these lines to that of the next.
    #[serde(default, skip_serializing_if = "is_default")]
    pub line_spacing: u64,
    /// Lines behind a taken branch for which that number may be on their way; 0: there is no end of
    /// them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub straight_lines: u32,
    /// Lines that may be on their way further on in straight code.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub straight_misses: u32,
    /// Translations of code that may be on their way from the second-level buffer or the tables.
    #[serde(default = "one")]
    pub translations: u32,
    /// Not 0: lines are looked up in order, two a cycle, and that many may wait for their translations, whether or not these are in the
    /// nearest buffer. Each waits for so many cycles at most: tables are walked aside.
    #[serde(default, skip_serializing_if = "is_default")]
    pub translations_hold: u64,
    /// One that the nearest buffer has not is asked for when all lines ahead have come into the first-level cache, with others of so
    /// many lines; 0: at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub translations_together: u32,
    /// Hundredths of a cycle from one start to the next in lines that the first-level cache had not when the predictor came to
    /// them, where the decoders deliver.
    #[serde(default, skip_serializing_if = "is_default")]
    pub missed_starts: u64,
    /// A buffer of translations before the first level's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_pages: Option<NearPages>,
    /// What calls wait for where the return stack is nearly full, which the kernel leaves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crowded_returns: Option<CrowdedReturns>,
    /// What a line of another page than the one before waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_turn: Option<PageTurn>,
    /// Cycles that a line of code takes longer to come from the second level than one of data.
    #[serde(default)]
    pub line_delay: u64,
    /// Cycles in which the predictor finds nothing more after a call, besides those of the branch
    /// target buffer.
    #[serde(default)]
    pub call_bubbles: u64,
    /// The same after a return.
    #[serde(default)]
    pub return_bubbles: u64,
    /// Cycles in which the predictor finds nothing more after a predicted indirect jump or call at least; those of the
    /// branch target buffer are among them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub indirect_bubbles: u64,
    /// The same after a return that the nearest branch target buffer has and that goes elsewhere than it did last, which is
    /// what that buffer has; `return_bubbles` come on top.
    #[serde(default, skip_serializing_if = "is_default")]
    pub changed_return_bubbles: u64,
    /// Behind a repeated string instruction whose count is not predicted fetch starts anew when the count is known
    /// (`execute.rep_known`), and code comes from the decoders until control goes elsewhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub string_restarts: bool,
    /// A system call takes its form's throughput, from so many cycles before the last instruction before it has retired; then
    /// fetch starts anew. None: it is an instruction as others are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub system_call_ahead: Option<u32>,
    /// Cycles in which the predictor finds nothing more after an indirect jump or call whose target is not the one in the
    /// branch target buffer (`chosen`); `indirect_bubbles` and a call's `call_bubbles` are among them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub chosen_bubbles: u64,
    /// Which targets the branch target buffer lacks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub chosen: Chosen,
    /// Bits of a target that its entry in the branch target buffer has; what is above them is the branch's own. 0: all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub target_bits: u32,
    /// Cycles in which the predictor finds nothing more after a branch, other than a return, that goes to a target with
    /// other bits above those. Linux has the program and its shared objects that far apart.
    #[serde(default, skip_serializing_if = "is_default")]
    pub far_bubbles: u64,
    /// Until the decoders find a branch that no buffer has, the predictor goes on behind it, a line a cycle: lines
    /// there are on their way when they do.
    #[serde(default, skip_serializing_if = "is_default")]
    pub runs_on: bool,
    /// Loads are executed on wrong paths that join the right one: what they asked for is there, or on its way, when the right path
    /// has been fetched.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wrong_path_loads: bool,
    /// What the predictor had lost by `chosen_bubbles` it makes up for in straight code behind that jump: so many lines take it no
    /// time. Fetch takes one line a cycle.
    #[serde(default, skip_serializing_if = "is_default")]
    pub makes_up_behind_chosen: bool,
    /// A start that a taken branch leads to takes a whole cycle, two if the branch lies in two lines, and only lines of straight code a
    /// share of one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub branches_alone: bool,
    /// So does a line that was come to in order, if a call leaves it, a return that goes elsewhere than the last time, or a conditional branch that goes
    /// either way and, other than a loop's, not back to the line where the last branch went.
    #[serde(default, skip_serializing_if = "is_default")]
    pub second_lines_alone: bool,
    /// A taken branch needs the line of its last byte, which is come to like any other line in order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fetched_to_last_byte: bool,
    /// Where a direct branch goes in its page is found together with what comes behind, unless it is the second of such a pair itself
    /// (docs/BRANCHES.md, "Pairs"): what the predictor had lost it makes up for, since fetch takes one a cycle.
    #[serde(default, skip_serializing_if = "is_default")]
    pub branches_in_pairs: bool,
    /// What is found in a cycle is two windows of code, the second one where a direct branch in the first goes (docs/BRANCHES.md,
    /// "Windows"), and not starts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub two_windows: bool,
    /// Loops that the loop stream detector replays, in whole programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streamed_loops: Option<StreamedLoops>,
    /// Directions and targets are always right (ablation).
    #[serde(default)]
    pub ideal: bool,
    /// Entries of the return stack.
    pub return_stack: u32,
    /// The kernel leaves nothing of the program's in it: after a page fault or a system call the returns
    /// of all calls from before are predicted wrongly.
    #[serde(default)]
    pub kernel_empties_returns: bool,
    /// System calls that do something leave more branches in the history than predictors see.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kernel_in_history: bool,
    /// A return with an empty return stack is predicted as an indirect branch.
    #[serde(default)]
    pub returns_fall_back: bool,
    /// What a path is where weights, counters or an array of targets depend on it by addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_path: Option<AddressPath>,
    /// Direction of conditional branches.
    pub direction: Direction,
    /// A smaller predictor of directions whose answer is there at once, if that one's comes later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick: Option<Quick>,
    /// Targets of indirect branches.
    pub indirect: Indirect,
    /// Branch target buffers, nearest first.
    pub btb: Vec<Btb>,
}

fn one() -> u32 {
    1
}

fn is_one(value: &u32) -> bool {
    *value == 1
}

fn two() -> u32 {
    2
}

fn is_two(value: &u32) -> bool {
    *value == 2
}

/// Direction of conditional branches: bimodal base, tagged tables of increasing history lengths, loop
/// predictor, statistical corrector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// Entries of the base table.
    pub base_entries: u32,
    /// Bits of their counters of branches that go both ways.
    #[serde(default = "two", skip_serializing_if = "is_two")]
    pub base_counter_bits: u32,
    /// Tagged tables.
    pub tables: u32,
    /// Entries of each.
    pub table_entries: u32,
    /// Entries of each where some have fewer, the shortest history first; sets of these are a hash of the history and the branch's address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<u32>,
    /// Entries of a set, among which a branch may take any.
    #[serde(default = "one")]
    pub ways: u32,
    /// The bit of a branch's address that is in the number of its set, which is of the history alone besides, so that all branches
    /// which have a history in common share two sets ("Half&Half", Yavarzadeh et al., IEEE S&P 2023); none: the whole address is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_bit: Option<u32>,
    /// The other bits of a set's number are a path history register's of 194 taken branches that "Half&Half" found, in turns of nine by
    /// exclusive or, and no hash of all of the history. Histories of indirect branches are then that register's lowest bits, two for each taken branch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path_register: bool,
    /// Of how many tables, those of the shortest histories, sets are a hash of the history and the branch's address all the same; where
    /// replacement is of what was used recently, a branch gets an entry among these and one among the others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hashed_tables: u32,
    /// In the tables from this one on, what a new entry says is believed; else whoever was right of late with such is: it, or the
    /// next shorter history. None: in no table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub believed_from: Option<u32>,
    /// Which entry a branch gets that was predicted wrongly.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replacement: Replacement,
    /// Bits of their tags, at most 12; of no use to weights.
    pub tag_bits: u32,
    /// The three tables have weights whose sum says where a branch goes, not entries with tags, and there is one more without a history. The
    /// first one sees as many of the lowest bits of the path's register of addresses ([`AddressPath`]) as the number of an entry has, the
    /// second one the others, and the third one `longest_history` bits of the register that is shifted by one bit; in turns of as many
    /// bits, with the branch's address, by exclusive or.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// History of the first tagged table, in taken branches.
    pub shortest_history: u32,
    /// History of the last one; those in between are in geometric steps.
    pub longest_history: u32,
    /// History of each, where the steps are known: the first one's and the last one's are then those
    /// above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histories: Vec<u32>,
    /// Entries of the loop predictor; 0: there is none.
    pub loops: u32,
    /// Entries of each of the statistical corrector's tables; 0: there is none.
    pub corrector_entries: u32,
}

/// Counters of two bits, chosen by a branch's address and the path to it, by exclusive or (McFarling, "Combining branch predictors", WRL TN-36,
/// 1993, with taken branches' addresses for directions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathCounters {
    /// How many.
    pub entries: u32,
    /// Bits of the path's register that is shifted by one bit.
    pub history_bits: u32,
}

/// What a hashed perceptron's tables hold (Tarjan & Skadron, TACO 2005).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Bits of a weight, 2 to 8.
    pub bits: u8,
    /// Size of a sum up to which weights learn from right predictions, too.
    pub threshold: u16,
    /// Bits of the path's register that the first two tables see.
    pub near_bits: u32,
}

/// Tables of weights with a history.
pub const WEIGHT_TABLES: u32 = 3;

/// What a path is to an array of targets, to weights and to a quick predictor's counters: a register, shifted by some bits with each taken branch, in which the address of
/// its last byte is left by exclusive or. A second one is shifted by one bit; bits that are a shift of the first apart lie one apart in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressPath {
    /// Bits by which a taken branch shifts the first one.
    pub shift: u32,
    /// The lowest and the highest bit of addresses that are taken.
    pub address_bits: [u32; 2],
}

/// Which entries of the tagged tables are given to a branch that was predicted wrongly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// Up to two, which were of no use and are not sure; new ones are neither (TAGE-SC-L, CBP-5 2016).
    #[default]
    Useful,
    /// One, in the first table in which any way of the set is of no use, from a longer history at random on (Seznec & Michaud, JILP 2006), and where what was
    /// wrong was one of the short histories or none, one of these and one of the others. A new one is of no use yet. What is of use stays, until
    /// of the branches that ask for an entry some 1 000 more got none than twice those that got one: then none is of use any more, as in TAGE-SC-L. Measured on
    /// Redwood Cove (docs/BRANCHES.md, "Which entry").
    Single,
}

/// The quick one of two predictors of directions: fetch goes on as it says, and begins anew where the other one, whose
/// answer comes later and counts, overrides it (Jiménez, Keckler and Lin, "The impact of delay on the design of branch
/// predictors", MICRO 2000). Branches that have gone one way alone so far are foreseen at once by both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Cycles in which the predictor finds nothing more after a branch of which the two disagree. Those of the branch
    /// target buffer are among them.
    pub bubbles: u64,
    /// What it predicts by, if not by counters. It has neither loops nor a corrector, and never more than the other one's base table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// What it predicts by, if not by tagged tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<PathCounters>,
    /// What it predicts by, if by neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Contexts>,
    /// It is the other one's base table, which learns only where nothing longer knew better.
    #[serde(default, skip_serializing_if = "is_default")]
    pub base: bool,
}

/// What branches did after the last directions, in tables with a history each, of which the longest one that has an entry counts once that was right.
/// A branch that was predicted wrongly gets an entry in the next table, in the place of the one in its set that was used least recently
/// (docs/BRANCHES.md, "The quick predictor").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// Counters of two bits, by address, which count where no table has an entry.
    pub base_entries: u32,
    /// Entries of each table.
    pub entries: u32,
    /// Entries of a set.
    pub ways: u32,
    /// Sets of a table that one branch comes to.
    pub sets_of_a_branch: u32,
    /// The tables' histories, the shortest first.
    pub histories: Vec<u32>,
}

/// An array of targets that is chosen from by the path alone, as measured on Zen (docs/ZEN1.md, "Targets"): a register takes some bits of
/// the address of each taken branch's last byte. With the branch's page it is the number of an entry, in turns of as many bits as that has, by
/// exclusive or; entries have the branch's line in the page for a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetArray {
    /// Its entries.
    pub entries: u32,
    /// Bits of the register.
    pub history_bits: u32,
    /// Taken branches in between until what a branch wrote is read.
    pub late: u32,
}

/// Targets of indirect branches: last target, and tagged tables or an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Indirect {
    /// Entries of the table of last targets.
    pub base_entries: u32,
    /// Entries of a set of it, among which a branch may take any. If there are several, they have tags:
    /// no two branches share one, as when last targets are kept in a branch target buffer.
    #[serde(default = "one")]
    pub base_ways: u32,
    /// Entries of a table of last targets by the branch and the one that was taken last before it, in sets of eight that the latter's
    /// address chooses; it counts where the longest history that knows the branch is not sure, before
    /// any other once it was right. 0: there is none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub led_entries: u32,
    /// In the place of tagged tables, which are of no use then, for branches that went to several places. The branch target buffer has where one went when it was
    /// last predicted wrongly, and all other targets are chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<TargetArray>,
    /// Tagged tables.
    pub tables: u32,
    /// Entries of each.
    pub table_entries: u32,
    /// Entries of a set of them. With several, the numbers of sets are, but for the shortest history, the lower bits of the history of
    /// `direction.path_register` in turns of nine, and one of a hash of the branch's address, and a new entry is in use; where all of a set
    /// are, those of one set cease to be (docs/BRANCHES.md, "Sets of targets").
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ways: u32,
    /// Bits of their tags, at most 16.
    pub tag_bits: u32,
    /// History of each tagged table, in taken branches, or in conditional ones where it is of directions; none: every second one of the direction
    /// predictor's, beginning with the shortest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histories: Vec<u32>,
    /// These are of a history of their own, whatever the direction predictor's is of: all taken branches, and of the address of each one's last
    /// byte the bits below this one, but the lowest (docs/BRANCHES.md, "Targets on Zen 5"). 0: they are the direction predictor's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub address_bits: u32,
    /// Taken branches (conditional ones where the history is of directions) that are too recent to be in it: a jump does not see the
    /// last so many. Of tables with `ways` none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub late: u32,
    /// A new entry of a tagged table is believed at once, else when it has been right once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub new_is_believed: bool,
}

/// One level of branch target buffer: where the taken branches are and where they go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Btb {
    /// Branches that it holds.
    pub entries: u32,
    /// Ways of a set; the sets are a power of two.
    pub ways: u32,
    /// Bytes of code that go to one set, a power of two.
    pub set_bytes: u32,
    /// The address's upper bits are folded into the number of the set by exclusive or: branches at equal
    /// distances go to all sets. Else only its lower bits choose it.
    #[serde(default)]
    pub hashed: bool,
    /// Cycles in which the predictor finds nothing more after a taken branch that hits here.
    pub bubbles: u64,
    /// In the nearest one: the same after a conditional branch that is in it and is not taken, for it is taken to be until the predictors of
    /// directions say otherwise. Such branches leave it when they are passed again and again. 0: it costs nothing, and they stay.
    #[serde(default, skip_serializing_if = "is_default")]
    pub passed_bubbles: u64,
    /// It has neither calls nor returns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub jumps_alone: bool,
    /// One of its two sets is for branches forward, the other one for those back.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by_direction: bool,
    /// A branch to another page of 4 KiB takes two entries.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other_page_takes_two: bool,
    /// A call or a return takes two entries.
    #[serde(default, skip_serializing_if = "is_default")]
    pub links_take_two: bool,
    /// Bubbles of a branch to another page besides those of all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other_page_bubbles: u64,
    /// Bubbles of a call besides those of all, wherever it goes; those of another page are among them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub call_bubbles: u64,
    /// Bubbles of a return besides those of all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub return_bubbles: u64,
    /// Which entry of a full set a branch gets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub victim: Victim,
    /// Behind the nearest one: it has what that has dropped, and no longer what has come back there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub holds_victims: bool,
    /// Not 0, in the last one: direct jumps that go no farther than so many bytes take one entry, other branches two.
    #[serde(default, skip_serializing_if = "is_default")]
    pub near_bytes: u64,
}

/// Which entry of a full set makes room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Victim {
    /// The least recently used.
    #[default]
    LeastRecent,
    /// Any: of more branches in turn than fit, some are found all the same.
    Random,
}
