//! Rename and allocation.

use serde::{Deserialize, Serialize};

use super::check::{Bounds, Checked, MAX_DELAY};
use super::{is_default, is_yes, yes};

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
    /// Constants that the µops of a cycle have room for: displacements, jumps' targets and immediates,
    /// of which one with more than 32 bits is two; 0: any number.
    #[serde(default)]
    pub constants_per_cycle: u32,
    /// Instructions that issue in a cycle, a fused pair as one; 0: any number.
    #[serde(default, skip_serializing_if = "is_default")]
    pub instructions_per_cycle: u32,
    /// Slots of its cycle that must follow each µop that accesses memory.
    #[serde(default)]
    pub slots_behind_memory: u32,
    /// High-8 registers are renamed apart and need a merge µop.
    pub high8_renamed: bool,
    /// `movzx` from a register whose encoding could be a high-8 one can be eliminated.
    pub movzx_high8_alias_eliminated: bool,
    /// Who only reads rsp takes over the stack engine's offset itself; it is synchronised for who
    /// changes it.
    #[serde(default)]
    pub stack_offset_folded: bool,
    /// Whoever has rsp as an operand finds it in a µop's slot of its own, which synchronises it where the stack
    /// engine has an offset: all but moves of it to another register and `lea` of it and a constant, which take the offset over
    /// themselves as addresses do.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stack_operand_slot: bool,
    /// One such slot a cycle.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stack_operands_in_turn: bool,
    /// ALUs that the µop takes which synchronises rsp, of those of which each is given one µop in an issue cycle.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stack_sync_alus: u32,
    /// Moves from the stack pointer can be eliminated.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub move_elimination_of_rsp: bool,
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
    /// Integer registers that µops which have not retired may have, in whole programs: those of the file, less what the state
    /// between instructions takes; 0: any number.
    #[serde(default, skip_serializing_if = "is_default")]
    pub integer_registers: u32,
    /// The same of vector registers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub vector_registers: u32,
    /// Flags are kept in integer registers: what writes no register but them takes one, too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flags_take_registers: bool,
    /// Loads that have issued and not retired, in whole programs; 0: any number.
    #[serde(default, skip_serializing_if = "is_default")]
    pub load_queue: u32,
}

impl Rename {
    /// Whether an addition of `step` may be done at rename.
    #[must_use]
    pub fn may_add(&self, step: i64) -> bool {
        let range = self.add_immediate_range;
        (-range..range).contains(&step)
    }

    /// The most that a cycle has room for of what it counts beside slots, constants or instructions; 0: any number.
    #[must_use]
    pub fn most_counted(&self) -> u32 {
        self.constants_per_cycle.max(self.instructions_per_cycle)
    }

    pub(super) fn check(&self) -> Checked {
        let b = Bounds("rename");
        b.within("issue_width", self.issue_width, 1, 16)?;
        b.within("constants_per_cycle", self.constants_per_cycle, 0, 64)?;
        let least = self.constants_per_cycle == 0 || self.constants_per_cycle >= 3;
        b.holds("constants_per_cycle", least, || {
            "must be 0 or at least 3, since one µop may have so many".to_owned()
        })?;
        b.within("instructions_per_cycle", self.instructions_per_cycle, 0, 16)?;
        let one = self.constants_per_cycle == 0 || self.instructions_per_cycle == 0;
        b.holds("instructions_per_cycle", one, || {
            "must be 0 where constants_per_cycle is not".to_owned()
        })?;
        let behind = self.issue_width.saturating_sub(1);
        b.within("slots_behind_memory", self.slots_behind_memory, 0, behind)?;
        b.within("stack_sync_alus", self.stack_sync_alus, 0, 4)?;
        for (name, most) in [
            ("integer_registers", self.integer_registers),
            ("vector_registers", self.vector_registers),
            ("load_queue", self.load_queue),
        ] {
            b.within(name, most, 0, 1 << 16)?;
            // Of what issues in a cycle each may take up to three.
            b.holds(name, most == 0 || most >= 3 * self.issue_width, || {
                format!(
                    "{most} is less than the µops that issue in a cycle may take, {}",
                    3 * self.issue_width
                )
            })?;
        }
        for (name, slots) in [
            ("move_elimination_gpr", self.move_elimination_gpr),
            ("move_elimination_simd", self.move_elimination_simd),
        ] {
            if let Slots::Limited(slots) = slots {
                b.within(name, slots, 0, 1024)?;
            }
        }
        let pipeline = self.move_elimination_pipeline;
        b.at_most(&[("move_elimination_pipeline", pipeline.into(), MAX_DELAY)])?;
        let range = self.add_immediate_range;
        b.holds(
            "add_immediate_range",
            (0..=1 << 32).contains(&range),
            || format!("{range} is not in 0..=2^32"),
        )?;
        b.within(
            "add_overflow_slots",
            self.add_overflow_slots,
            0,
            self.issue_width,
        )
    }
}
