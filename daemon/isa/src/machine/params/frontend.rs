//! Fetch, predecode, decode, µop cache, loop stream detector.

use serde::{Deserialize, Serialize};

use super::check::{Bounds, Checked, MAX_DELAY};
use super::{is_default, is_two, is_yes, two, yes};

/// Which µops the µop cache delivers in one cycle beyond the end of a line. The rules of Intel's
/// cores are uiCA's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinePairing {
    /// As many as the width allows, from two lines.
    #[default]
    Free,
    /// At the end of a block of code so many as depends on those that came before (Ice Lake on).
    Counted,
    /// And none when a loop's body ends within its block (Skylake).
    CountedInBody,
}

/// What of a block of code is in the µop cache once some of it was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UopCacheHolds {
    /// All of the block.
    #[default]
    Blocks,
    /// What was executed, from where control came to it to where control left it: what is executed of it
    /// besides takes lines of its own.
    Executed,
    /// Lines that are found by the address that they begin at alone, which follows from where control came
    /// to the code: other ways into it leave lines of their own, unless they come to where a line begins.
    Lines,
}

/// Fetch to instruction decode queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frontend {
    /// Everything is delivered as soon as there is room for it (ablation: a front end without
    /// limits of its own).
    #[serde(default)]
    pub ideal: bool,
    /// A move between general-purpose registers and the simple operation behind it that works on
    /// its destination are fused.
    #[serde(default)]
    pub move_fusion: bool,
    /// An instruction without vector registers and the no-operation behind it are fused, where they have at
    /// most 15 bytes together.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nop_fusion: bool,
    /// Compare and jump are fused.
    #[serde(default = "yes")]
    pub macro_fusion: bool,
    /// Bytes that the predecoder takes at a time (aligned).
    pub predecode_block_bytes: u32,
    /// Instructions predecoded per cycle.
    pub predecode_width: u32,
    /// The same in whole programs, whose µop cache is known line by line; 0: the same as in blocks, of
    /// which some of what does not fit still comes from there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub decoded_alone: u32,
    /// And so many bytes of code a cycle: what begins within them of the first; 0: a whole block. The line to
    /// which a taken branch goes comes by whole blocks, those that follow it do not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub decoded_alone_bytes: u32,
    /// Branches, behind the last of which a cycle of the decoders ends in whole programs; 0: behind the first, as in blocks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub decoded_branches: u32,
    /// Cycles from predecode to decode.
    pub predecode_to_decode: u64,
    /// In whole programs the predecoder works on code that is not kept as µops while the µop cache still delivers what is before
    /// it: decoding goes on at once, unless that code has only just come.
    #[serde(default, skip_serializing_if = "is_default")]
    pub decoders_run_ahead: bool,
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
    /// All decoders handle all instructions that need no microcode.
    #[serde(default)]
    pub decoders_alike: bool,
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
    /// Lines that all ways through one such block may take together in whole programs, or none of it is kept; 0: each way
    /// what the block may, as in blocks, and together what a set has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uop_cache_lines_of_ways: u32,
    /// Entries of a line.
    pub uop_cache_line_entries: u32,
    /// Branches that a line has room for in whole programs; 0: any number, as in blocks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uop_cache_line_branches: u32,
    /// Sets of the µop cache (whole programs only; single blocks always fit).
    pub uop_cache_sets: u32,
    /// Ways of the µop cache.
    pub uop_cache_ways: u32,
    /// What else the µop cache delivers in the cycle in which a line ends.
    #[serde(default)]
    pub uop_cache_pairing: LinePairing,
    /// The same in whole programs, where it was found there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uop_cache_pairing_in_programs: Option<LinePairing>,
    /// Bytes of straight code that measurements of single blocks run again and again: where so much
    /// of a block's copies fits the µop cache, it delivers them; 0: the decoders do.
    #[serde(default)]
    pub uop_cache_straight_bytes: u32,
    /// A delivery cycle of the µop cache ends at a taken branch.
    #[serde(default)]
    pub uop_cache_taken_ends_cycle: bool,
    /// Where it does: unless the branch goes on or to another block, whose line can come in the same
    /// cycle.
    #[serde(default)]
    pub uop_cache_follows_taken: bool,
    /// In whole programs it ends at a branch that goes back in its block, whose lines are not read twice in a cycle, and at one that
    /// leads to where the branch before it led: the end of a loop's turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uop_cache_blocks_once: bool,
    /// Lines that the µop cache delivers in a cycle, whole, while it looks up a block of code a cycle; 0:
    /// it delivers up to its width out of two lines by uiCA's rules.
    #[serde(default)]
    pub uop_cache_lines_per_cycle: u32,
    /// Blocks of code are looked up also where all of them comes with a line of the one before.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub uop_cache_looks_up_all: bool,
    /// Lines of a block that a look-up gives.
    #[serde(default = "two", skip_serializing_if = "is_two")]
    pub uop_cache_lines_per_look_up: u32,
    /// A line goes on with the code of the next block, as far as it has room, and belongs to the block
    /// in which it begins.
    #[serde(default)]
    pub uop_cache_lines_flow: bool,
    /// A line that begins where a block does has no instruction that reaches the block's end: that begins another.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uop_cache_lines_end_before_blocks: bool,
    /// Cycles between two look-ups of one block, which more lines need than come in a cycle.
    #[serde(default)]
    pub uop_cache_same_block_stall: u32,
    /// Cycles that a block of code takes to come back into the µop cache, by the decoders, when it is
    /// needed for the first time after a page fault; 0: it stays there.
    #[serde(default)]
    pub uop_cache_refill: u32,
    /// In place of that many it takes as many cycles as the decoders take for what is executed of the block (`predecode_block_bytes`
    /// bytes or `decoders` instructions each), less those in which the µop cache delivers it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uop_cache_refill_decodes: bool,
    /// What of a block of code is in the µop cache once it was executed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uop_cache_holds: UopCacheHolds,
    /// Blocks of code that come from the decoders behind one that was not in the µop cache, whether they are there or not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uop_cache_leaves_for: u32,
    /// Code that comes from the µop cache needs its address translated, too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uop_cache_translates: bool,
    /// Constants that a line has room for: displacements, targets of jumps and immediates, of which one
    /// of 64 bits is two; 0: they are no limit.
    #[serde(default)]
    pub uop_cache_constants: u32,
    /// Each of so many last entries of a line takes the room of two constants, if there is an instruction in it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uop_cache_entries_for_constants: u32,
    /// Constants of no-operations and of moves that rename eliminates take no room.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uop_cache_constants_of_executed: bool,
    /// An instruction takes one entry of a line, however many µops are made of it.
    #[serde(default)]
    pub uop_cache_whole_instructions: bool,
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
    /// Turns alike before the loop stream detector takes a loop over. Where it is not published: small against the turns
    /// of loops that matter.
    #[serde(default = "two")]
    pub loop_stream_turns: u32,
    /// In whole programs taken branches of turns alike instead, where these count; 0: turns do.
    #[serde(default, skip_serializing_if = "is_default")]
    pub loop_stream_taken_branches: u32,
    /// Taken branches of the loops that it takes over, the one back among them; 0: any number.
    #[serde(default)]
    pub loop_stream_branches: u32,
    /// Copies that the loop stream detector makes of a loop: pairs of a number of µops and the
    /// copies of loops of up to so many, ascending; longer loops are not copied.
    #[serde(default)]
    pub loop_stream_unroll: Vec<(u32, u32)>,
}

impl Frontend {
    /// Without what only whole programs have: labels of single blocks were matched so.
    #[must_use]
    pub fn of_blocks(&self) -> Self {
        Self {
            decoded_alone_bytes: 0,
            decoded_branches: 0,
            uop_cache_lines_of_ways: 0,
            uop_cache_line_branches: 0,
            uop_cache_blocks_once: false,
            loop_stream_taken_branches: 0,
            ..self.clone()
        }
    }

    /// As whole programs have it.
    #[must_use]
    pub fn of_programs(&self) -> Self {
        Self {
            predecode_width: match self.decoded_alone {
                0 => self.predecode_width,
                width => width,
            },
            uop_cache_pairing: self
                .uop_cache_pairing_in_programs
                .unwrap_or(self.uop_cache_pairing),
            ..self.clone()
        }
    }

    /// Constants whose room in a line its instructions take, when `left` entries are.
    #[inline]
    #[must_use]
    pub fn constants_taken(&self, left: i32) -> u32 {
        let last = self.uop_cache_entries_for_constants;
        2 * last.saturating_sub(left.max(0) as u32)
    }

    pub(super) fn check(&self) -> Checked {
        let b = Bounds("frontend");
        b.power_of_two("predecode_block_bytes", self.predecode_block_bytes, 16, 64)?;
        b.within("predecode_width", self.predecode_width, 1, 32)?;
        b.within("decoded_alone", self.decoded_alone, 0, 32)?;
        b.within("decoded_alone_bytes", self.decoded_alone_bytes, 0, 64)?;
        b.within("decoded_branches", self.decoded_branches, 0, 16)?;
        b.within(
            "uop_cache_lines_of_ways",
            self.uop_cache_lines_of_ways,
            0,
            64,
        )?;
        b.within(
            "uop_cache_line_branches",
            self.uop_cache_line_branches,
            0,
            16,
        )?;
        // The predecoder waits until there is room for as many as it handles.
        let least = self.predecode_width.max(2);
        b.within("instruction_queue", self.instruction_queue, least, 1024)?;
        b.within("decoders", self.decoders, 1, 16)?;
        b.within("uop_cache_width", self.uop_cache_width, 1, 16)?;
        b.power_of_two("uop_cache_block_bytes", self.uop_cache_block_bytes, 16, 64)?;
        b.within("uop_cache_line_entries", self.uop_cache_line_entries, 1, 16)?;
        b.within("uop_cache_sets", self.uop_cache_sets, 1, 1 << 16)?;
        b.within("uop_cache_ways", self.uop_cache_ways, 1, 64)?;
        b.within("uop_cache_refill", self.uop_cache_refill, 0, 64)?;
        b.within("uop_cache_leaves_for", self.uop_cache_leaves_for, 0, 255)?;
        let straight = self.uop_cache_straight_bytes;
        b.within("uop_cache_straight_bytes", straight, 0, 1 << 20)?;
        b.within("uop_cache_constants", self.uop_cache_constants, 0, 64)?;
        let most = self.uop_cache_constants == 0 || self.uop_cache_constants >= 3;
        b.holds("uop_cache_constants", most, || {
            "an instruction may have three".into()
        })?;
        let most = (self.uop_cache_constants / 2).min(self.uop_cache_line_entries);
        let entries = self.uop_cache_entries_for_constants;
        b.within("uop_cache_entries_for_constants", entries, 0, most)?;
        b.within("microcode_width", self.microcode_width, 1, 16)?;
        for (name, delay) in [
            ("predecode_to_decode", self.predecode_to_decode),
            ("lcp_stall", self.lcp_stall.into()),
            (
                "uop_cache_same_block_stall",
                self.uop_cache_same_block_stall.into(),
            ),
            (
                "uop_cache_to_microcode_stall",
                self.uop_cache_to_microcode_stall.into(),
            ),
            (
                "decoder_to_microcode_stall",
                self.decoder_to_microcode_stall.into(),
            ),
        ] {
            b.at_most(&[(name, delay, MAX_DELAY)])?;
        }
        let lines = self.uop_cache_lines_per_block;
        b.within("uop_cache_lines_per_block", lines, 1, 64)?;
        let lines = self.uop_cache_lines_per_cycle;
        b.within("uop_cache_lines_per_cycle", lines, 0, 16)?;
        let lines = self.uop_cache_lines_per_look_up;
        b.within("uop_cache_lines_per_look_up", lines, 1, 16)?;
        b.within("loop_stream_turns", self.loop_stream_turns, 0, 4096)?;
        let branches = self.loop_stream_taken_branches;
        b.within("loop_stream_taken_branches", branches, 0, 4096)?;
        b.within("loop_stream_branches", self.loop_stream_branches, 0, 4096)?;
        b.within("idq", self.idq, 8.max(self.uop_cache_width), 4096)?;
        let pairs = &self.loop_stream_unroll;
        let ascend = pairs.windows(2).all(|w| w[0].0 < w[1].0);
        let copied = pairs.iter().all(|(uops, copies)| *uops > 0 && *copies > 0);
        b.holds("loop_stream_unroll", ascend && copied, || {
            "these are no ascending numbers of µops with their copies, as [[6, 4], [28, 2]]".into()
        })?;
        for (uops, copies) in pairs {
            b.within("loop_stream_unroll", *uops, 1, 4096)?;
            b.within("loop_stream_unroll", *copies, 1, 64)?;
        }
        Ok(())
    }

    /// Copies that the loop stream detector makes of a loop of so many µops.
    #[must_use]
    pub fn loop_stream_copies(&self, uops: u32) -> u32 {
        let mut pairs = self.loop_stream_unroll.iter();
        let found = pairs.find(|(most, _)| uops <= *most && uops > 0);
        found.map_or(1, |(_, copies)| *copies)
    }
}
