//! Delivery of whole lines, as AMD's op cache does it. Blocks of code are looked up, one a cycle and at
//! its start, and a look-up gives two or three lines that begin in the block; what needs more of them is
//! looked up again some cycles later. On some cores a block is looked up also where all of it comes with
//! a line of the one before. The target of a taken branch is looked up in the same cycle as the branch's block, as the second of two,
//! when it needs one look-up of another block or, where several lines come a cycle, lies farther on in its own, and is left by a
//! taken branch. Where it goes on in the next block, it must take fewer lines than come a cycle, or as many if the branch's line begins in
//! the branch's block and that one goes on there, too.
//! Lines come in program order, a few a cycle. docs/ZEN5.md has the measurements.

use super::pack::{Entry, NO_UOP};
use crate::pipeline::frontend::microcode::Microcode;
use crate::pipeline::frontend::target::Target;
use crate::pipeline::inst::Source;
use crate::pipeline::observer::{Delivery, Observer};
use crate::pipeline::state::{Fingerprint, Moment};
use mcad_isa::machine::params::Frontend;

/// Where delivery is.
#[derive(Debug, Default)]
pub struct State {
    /// Cycles in which nothing is delivered.
    idle: u32,
    /// Block of code that lines come from.
    block: u64,
    /// Cycle of its first look-up.
    looked_up: u64,
    /// That was the second one of its cycle.
    second: bool,
    /// Lines that have come from it.
    lines: u32,
    /// What was delivered last.
    last: Option<Last>,
}

/// The end of a line.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// Number of the instruction that follows in the feed.
    next: u64,
    /// Its instruction goes on.
    within: bool,
    /// Block of code of its last byte.
    block: u64,
    /// Address of that byte.
    end: u64,
    /// Control goes elsewhere behind it.
    taken: bool,
}

/// How the entries of a line ended.
enum End {
    /// With the line.
    Line,
    /// At a taken branch.
    Taken,
    /// Nothing more can be delivered in this cycle.
    Cycle,
}

/// What is behind a block's code.
enum Behind {
    /// A taken branch.
    Taken,
    /// The next block, where fewer lines come before than a cycle has.
    Few,
    /// The next block, where as many lines as a cycle has come before, and one begins there.
    All,
}

impl State {
    /// One cycle.
    pub fn cycle<O: Observer>(&mut self, t: &mut Target<'_, O>, microcode: &mut Microcode) {
        if self.idle > 0 {
            self.idle -= 1;
            return;
        }
        let shift = t.p.uop_cache_block_bytes.trailing_zeros();
        if t.p.uop_cache_refill > 0
            && let Some(first) = t.queue.entries.front()
            && t.queue
                .refills
                .come(first.address >> shift, t.back.visits())
        {
            self.idle = match t.p.uop_cache_refill_decodes {
                true => decoding(t, first.address >> shift),
                false => t.p.uop_cache_refill,
            };
            if self.idle > 0 {
                self.idle -= 1;
                return;
            }
        }
        let mut delivered = 0;
        while let (Some(&line), Some(&first)) = (t.queue.lines.front(), t.queue.entries.front()) {
            let number = line.from + u64::from(first.number);
            let last = self.last.filter(|last| last.follows(number));
            if last.is_none() && delivered > 0 {
                // The decoders come in between.
                return;
            }
            if delivered > 0
                && t.p.uop_cache_refill > 0
                && (t.queue.refills).lacks(first.address >> shift, t.back.visits())
            {
                return;
            }
            if line.begins {
                self.look_up(t, first.address, last);
                let there = self.looked_up + comes_after(t.p, self.lines);
                if delivered == t.p.uop_cache_lines_per_cycle || there > t.clock {
                    return;
                }
                delivered += 1;
                self.lines += 1;
            }
            match self.line(t, microcode) {
                End::Line | End::Taken => {}
                End::Cycle => return,
            }
        }
    }

    /// Finds out when the line at the front, which begins at `address`, can come; `last` is what was
    /// delivered before it.
    fn look_up<O: Observer>(&mut self, t: &Target<'_, O>, address: u64, last: Option<Last>) {
        let block = address >> t.p.uop_cache_block_bytes.trailing_zeros();
        let Some(last) = last else {
            (self.block, self.looked_up, self.second, self.lines) = (block, t.clock, false, 0);
            return;
        };
        if block == self.block && !last.taken {
            return;
        }
        let own = 1 + comes_after(t.p, self.lines.saturating_sub(1));
        // Blocks of which no line begins.
        let covered = match (t.p.uop_cache_looks_up_all, last.taken) {
            (false, _) => 0,
            (true, true) => last.block.saturating_sub(self.block),
            (true, false) => block.saturating_sub(self.block + 1),
        };
        let follows = last.taken
            && t.p.uop_cache_follows_taken
            && (!self.second || covered > 0)
            && (block != self.block || t.p.uop_cache_lines_per_cycle > 1 && address > last.end)
            && match self.comes_at_once(t, block) {
                Some(Behind::Taken) => true,
                Some(Behind::Few) => true,
                Some(Behind::All) => covered == 0,
                None => false,
            };
        let at = self.looked_up + own + covered - u64::from(follows);
        self.second = follows && at >= t.clock;
        (self.block, self.looked_up, self.lines) = (block, at.max(t.clock), 0);
        // The way is taken.
        self.last = Some(Last {
            taken: false,
            ..last
        });
    }

    /// What is behind all that is to come of `block`, if that comes in the cycle of its look-up.
    fn comes_at_once<O: Observer>(&self, t: &Target<'_, O>, block: u64) -> Option<Behind> {
        let shift = t.p.uop_cache_block_bytes.trailing_zeros();
        let a_cycle = t.p.uop_cache_lines_per_cycle;
        let (mut lines, mut at) = (0, 0);
        for piece in 0.. {
            let line = t.queue.lines.get(piece)?;
            if line.begins {
                if t.queue.entries.get(at)?.address >> shift != block {
                    return match lines {
                        0 => None,
                        few if few < a_cycle => Some(Behind::Few),
                        _ => Some(Behind::All),
                    };
                }
                lines += 1;
            }
            if lines > a_cycle {
                break;
            }
            at += usize::from(line.left);
            let last = t.queue.entries.get(at.checked_sub(1)?)?;
            if last.taken {
                return match last.address >> shift == block {
                    true => Some(Behind::Taken),
                    false if (1..a_cycle).contains(&lines) => Some(Behind::Few),
                    false => None,
                };
            }
        }
        None
    }

    /// Delivers what is left of the line at the front.
    fn line<O: Observer>(&mut self, t: &mut Target<'_, O>, microcode: &mut Microcode) -> End {
        let shift = t.p.uop_cache_block_bytes.trailing_zeros();
        let Some(&line) = t.queue.lines.front() else {
            return End::Cycle;
        };
        // Nobody else looks at them before the line ends.
        let mut entries = std::mem::take(&mut t.queue.entries);
        let all = entries.all();
        let all = all.get(..usize::from(line.left)).unwrap_or(all);
        let (fetchable, mut delivered, mut end) = (t.queue.fetchable(), 0, End::Line);
        let mut last = None;
        for entry in all {
            let number = line.from + u64::from(entry.number);
            let (next, bytes, taken) = match entry.bytes {
                0 => extent(t, number, entry),
                bytes => {
                    let next = number + 1 + u64::from(entry.pair);
                    (next, u64::from(bytes), entry.leaves())
                }
            };
            if next > fetchable {
                end = End::Cycle;
                break;
            }
            delivered += 1;
            last = Some((entry, next, bytes, taken));
            if entry.laminated != NO_UOP {
                let from = Delivery::Of(Source::UopCache);
                t.deliver_here(number, entry.laminated, entry.place, from);
            }
            if entry.microcode {
                microcode.start(entry.rest(), t.p.uop_cache_to_microcode_stall, 0);
                end = End::Cycle;
                break;
            }
            if taken {
                end = End::Taken;
                break;
            }
        }
        if let Some((entry, next, bytes, taken)) = last {
            let end = entry.address + bytes.saturating_sub(1);
            self.last = Some(Last {
                next,
                within: !entry.ends_instruction || entry.microcode,
                block: end >> shift,
                end,
                taken,
            });
        }
        entries.pop(delivered);
        t.queue.entries = entries;
        match usize::from(line.left).saturating_sub(delivered) {
            0 => t.queue.lines.pop(1),
            left => {
                if let Some(line) = t.queue.lines.front_mut() {
                    line.left = left as u8;
                }
            }
        }
        end
    }

    /// Adds what later deliveries depend on.
    pub fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            idle,
            block,
            looked_up,
            second,
            lines,
            last,
        } = self;
        h.add(u64::from(*idle) << 32 | u64::from(*lines) << 1 | u64::from(*second));
        h.add(*block);
        h.add((looked_up + AGO).saturating_sub(at.clock));
        h.add(last.map_or(0, |last| last.end << 2 | u64::from(last.taken) << 1 | 1));
    }
}

/// Of an entry of instruction `number`, which is the last of its group: the number of the next
/// instruction, the bytes up to there, and whether control goes elsewhere then.
#[inline(never)]
fn extent<O: Observer>(t: &Target<'_, O>, number: u64, entry: &Entry) -> (u64, u64, bool) {
    let next = t.next_number(number);
    // The second half of a fused pair belongs to it.
    let instr = |n: u64| t.program.instrs.get(t.queue.get(n)?.instr as usize);
    let bytes = (number..next).filter_map(|n| Some(u64::from(instr(n)?.len)));
    // A pair's jump may lie in the next block, of which the entry knows nothing.
    let jump = t.queue.get(next - 1);
    let taken = entry.ends_instruction && jump.is_some_and(|jump| jump.taken);
    (next, bytes.sum(), taken)
}

/// Cycles longer than from the µop cache that the decoders take for what comes next of a block of code, up to where
/// control goes elsewhere.
fn decoding<O: Observer>(t: &Target<'_, O>, block: u64) -> u32 {
    let shift = t.p.uop_cache_block_bytes.trailing_zeros();
    let (mut instructions, mut lines, mut end) = (0, 0, 0);
    let mut first = None;
    for n in 0.. {
        let Some(entry) = t.queue.entries.get(n) else {
            break;
        };
        if entry.address >> shift != block || first.is_some_and(|first| entry.address < first) {
            break;
        }
        first = first.or(Some(entry.address));
        lines += u32::from(entry.starts_line);
        if entry.ends_instruction {
            instructions += 1 + u64::from(entry.pair);
            end = entry.address + u64::from(entry.bytes.max(1));
        }
        if entry.leaves() {
            break;
        }
    }
    let piece = u64::from(t.p.predecode_block_bytes.max(1));
    let bytes = end.saturating_sub(first.unwrap_or(end));
    let width = u64::from(t.p.predecode_width.min(t.p.decoders).max(1));
    let cycles = bytes.div_ceil(piece).max(instructions.div_ceil(width));
    let from_here = u64::from(lines.div_ceil(t.p.uop_cache_lines_per_cycle.max(1)));
    cycles.saturating_sub(from_here.max(1)) as u32
}

impl Last {
    /// Whether what begins with instruction `number` is next in the program.
    fn follows(&self, number: u64) -> bool {
        self.next == number || (self.within && self.next == number + 1)
    }
}

/// Cycles from a block's first look-up until it gives line number `line` (from 0).
fn comes_after(p: &Frontend, line: u32) -> u64 {
    let (a_cycle, a_look_up) = (
        p.uop_cache_lines_per_cycle.max(1),
        p.uop_cache_lines_per_look_up.max(1),
    );
    if line < a_cycle.min(a_look_up) {
        return 0;
    }
    let again = a_look_up.div_ceil(a_cycle) + p.uop_cache_same_block_stall;
    (line / a_look_up * again + line % a_look_up / a_cycle).into()
}

/// A look-up so many cycles ago has no effect any more.
const AGO: u64 = 64;
