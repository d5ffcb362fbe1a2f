//! The µop cache ("DSB"): placement of µops into lines, capacity, and delivery.
//!
//! Placement after Agner Fog's microarchitecture manual, section 9.3, and uiCA: lines of six
//! entries, an instruction does not straddle lines, a large immediate takes an extra entry, a
//! microcoded instruction ends a line; so many lines per block of code. Delivery and the pairing
//! of lines in one cycle follow uiCA.

use super::microcode::Microcode;
use super::target::Target;
use crate::pipeline::inst::{Inst, Source};
use crate::pipeline::observer::{Delivery, Observer};
use crate::pipeline::state::{Fingerprint, Moment, Part};
use crate::pipeline::window::Window;
use mcad_isa::machine::params::{Frontend, LinePairing};
use mcad_isa::program::{Program, flag};

/// Entry without a µop: an instruction whose µops all come from microcode.
const NO_UOP: u16 = u16::MAX;

/// One entry of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Instruction, by number in the feed.
    number: u64,
    /// Address of the instruction.
    address: u64,
    /// Laminated µop of the instruction.
    laminated: u16,
    /// Place in the line.
    slot: u8,
    /// Microcode follows.
    microcode: bool,
    /// Takes two entries.
    extra: bool,
    /// Control goes elsewhere after the instruction.
    taken: bool,
    /// First of its line.
    pub starts_line: bool,
}

impl Entry {
    /// Whether no µop of its instruction comes before it.
    #[must_use]
    pub fn starts_instruction(&self) -> bool {
        self.laminated == 0 || self.laminated == NO_UOP
    }

    /// Adds what it is, relative to instruction `head`.
    pub fn fingerprint(&self, head: u64, h: &mut Fingerprint) {
        h.add(self.number.wrapping_sub(head));
        h.add(u64::from(self.laminated) << 8 | u64::from(self.slot));
    }
}

/// How a block of code lies in the µop cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Lines it takes.
    pub lines: u32,
    /// Whether it can be cached at all.
    pub cacheable: bool,
}

/// Blocks of code whose packing is kept.
const KEPT: usize = 64;

/// Packs blocks of code into lines. A loop brings the same ones again and again, so what came out
/// for a block is kept until another one takes its place.
pub struct Packer {
    kept: Vec<Kept>,
}

/// A block that was packed, and how.
#[derive(Clone, Default)]
struct Kept {
    /// Address of its first instruction.
    address: u64,
    /// Its instructions: their addresses follow one another.
    instrs: Vec<u32>,
    /// Whether control goes elsewhere after the last one, and after the one that follows it.
    taken: [bool; 2],
    packed: Packed,
    /// Numbered from its first instruction.
    entries: Vec<Entry>,
}

impl Packer {
    /// One that keeps nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kept: vec![Kept::default(); KEPT],
        }
    }

    /// Forgets what it keeps: another program follows.
    pub fn reset(&mut self) {
        self.kept.iter_mut().for_each(|kept| kept.instrs.clear());
    }

    /// Packs instructions `from..to` of the feed, consecutive ones of one block of code; appends
    /// their entries to `out`.
    pub fn pack(
        &mut self,
        program: &Program,
        p: &Frontend,
        insts: &Window<Inst>,
        from: u64,
        to: u64,
        out: &mut Vec<Entry>,
    ) -> Packed {
        let address = insts.get(from).map_or(0, |inst| inst.address);
        let block = address / u64::from(p.uop_cache_block_bytes.max(1));
        let taken = [to.wrapping_sub(1), to].map(|n| insts.get(n).is_some_and(|i| i.taken));
        let instrs = (from..to).filter_map(|n| insts.get(n)).map(|i| i.instr);
        let Some(kept) = self.kept.get_mut(block as usize % KEPT) else {
            return pack(program, p, insts, from, to, out);
        };
        let same = kept.address == address
            && kept.taken == taken
            && kept.instrs.iter().copied().eq(instrs.clone());
        if same {
            out.extend(kept.entries.iter().map(|entry| Entry {
                number: entry.number + from,
                ..*entry
            }));
            return kept.packed;
        }
        let start = out.len();
        kept.packed = pack(program, p, insts, from, to, out);
        (kept.address, kept.taken) = (address, taken);
        kept.instrs.clear();
        kept.instrs.extend(instrs);
        kept.entries.clear();
        let entries = out.get(start..).unwrap_or(&[]);
        kept.entries.extend(entries.iter().map(|entry| Entry {
            number: entry.number - from,
            ..*entry
        }));
        kept.packed
    }
}

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

fn pack(
    program: &Program,
    p: &Frontend,
    insts: &Window<Inst>,
    from: u64,
    to: u64,
    out: &mut Vec<Entry>,
) -> Packed {
    let mut lines = 0;
    let mut left: i32 = 0;
    let mut slot = 0u8;
    let mut erratum = false;
    let mut lcp = LcpRule::default();
    for number in from..to {
        let Some(inst) = insts.get(number) else {
            continue;
        };
        let Some(instr) = program.instrs.get(inst.instr as usize) else {
            continue;
        };
        let end = inst.address.wrapping_add(u64::from(instr.len));
        if p.jcc_erratum && number + 1 == to {
            let pair_end = if instr.is(flag::FUSED_NEXT) {
                // The pair's jump may lie in the next block, which may not be known yet: its
                // length is that of the static successor.
                let jump = program
                    .instrs
                    .get(inst.instr as usize + 1)
                    .map_or(0, |j| j.len);
                Some(end + u64::from(jump))
            } else if instr.is(flag::BRANCH) {
                Some(end)
            } else {
                None
            };
            erratum |= pair_end.is_some_and(|e| inst.address >> 5 != e >> 5);
        }
        if p.uop_cache_prefix_limit {
            let counts = instr.is(flag::LCP) && instr.is(flag::FUSIBLE);
            lcp.add(inst.address, instr.nominal_opcode, counts);
        }
        if instr.is(flag::FUSED_PREVIOUS) {
            continue;
        }
        let needed = i32::from(instr.uops_mite.max(1));
        let extra = p.uop_cache_wide_immediates && instr.is(flag::EXTRA_SLOT);
        // A macro-fused pair is left when its jump is.
        let taken = inst.taken
            || (instr.is(flag::FUSED_NEXT) && insts.get(number + 1).is_some_and(|j| j.taken));
        let mut starts_line = false;
        if instr.microcoded || needed + i32::from(extra) > left {
            lines += 1;
            left = p.uop_cache_line_entries as i32;
            slot = 0;
            starts_line = true;
        }
        let mut push = |laminated: u16, slot: u8, microcode: bool, extra: bool, starts: bool| {
            out.push(Entry {
                number,
                address: inst.address,
                laminated,
                slot,
                microcode,
                extra,
                taken,
                starts_line: starts,
            });
        };
        if instr.uops_mite > 0 {
            let count = instr.laminated_mite.max(1);
            for n in 0..count {
                let last = n + 1 == count;
                let microcode = last && instr.laminated_len > instr.laminated_mite;
                push(n, slot, microcode, last && extra, starts_line && n == 0);
                slot += 1;
                left -= 1;
            }
        } else {
            push(NO_UOP, slot, instr.microcoded, false, starts_line);
            slot += 1;
            if !instr.microcoded {
                left -= 1;
            }
        }
        if extra {
            left -= 1;
        }
        if instr.microcoded {
            left = 0;
        }
    }
    Packed {
        lines,
        cacheable: lines <= p.uop_cache_lines_per_block && !erratum && !lcp.too_many(),
    }
}

/// A block with too many fusible instructions with length-changing prefixes is not cached: seen
/// by uiCA's authors, cause unknown. Counted per 16-byte half of each 32 bytes.
#[derive(Default)]
struct LcpRule {
    window: u64,
    first_last: bool,
    second: u32,
    hit: bool,
}

impl LcpRule {
    fn add(&mut self, address: u64, nominal: u8, lcp: bool) {
        if address >> 5 != self.window {
            self.hit |= self.first_last && self.second >= 2;
            *self = Self {
                window: address >> 5,
                hit: self.hit,
                ..Self::default()
            };
        }
        // An instruction whose opcode lies in the second half counts there.
        let second = address & 16 != 0 || (address & 15) + u64::from(nominal) >= 16;
        if second {
            self.second += u32::from(lcp);
        } else {
            self.first_last = lcp;
        }
    }

    fn too_many(&self) -> bool {
        self.hit || (self.first_last && self.second >= 2)
    }
}

/// Which blocks of code are in the µop cache: sets and ways, least recently used goes.
pub struct UopCache {
    warm: bool,
    sets: u64,
    ways: u32,
    /// Per set: blocks with the lines they take, most recent last.
    content: Vec<Vec<(u64, u32)>>,
}

impl UopCache {
    /// An empty cache, or one that has everything (`warm`).
    #[must_use]
    pub fn new(p: &Frontend, warm: bool) -> Self {
        let sets = u64::from(p.uop_cache_sets);
        Self {
            warm,
            sets,
            ways: p.uop_cache_ways,
            content: vec![Vec::new(); if warm { 0 } else { sets as usize }],
        }
    }

    /// Says whether it has everything, from the next reset on.
    pub fn warm(&mut self, warm: bool) {
        self.warm = warm;
    }

    /// Looks a block up and puts it in; whether it was there.
    pub fn access(&mut self, block: u64, lines: u32) -> bool {
        if self.warm {
            return true;
        }
        let Some(set) = self.content.get_mut((block % self.sets) as usize) else {
            return false;
        };
        if let Some(last) = set.last()
            && last.0 == block
        {
            return true;
        }
        if let Some(at) = set.iter().position(|e| e.0 == block) {
            let entry = set.remove(at);
            set.push(entry);
            return true;
        }
        let mut used: u32 = set.iter().map(|e| e.1).sum();
        while used + lines > self.ways && !set.is_empty() {
            used -= set.remove(0).1;
        }
        set.push((block, lines));
        false
    }
}

impl Part for UopCache {
    fn reset(&mut self, _: &Moment) {
        let Self {
            warm,
            sets,
            ways: _,
            content,
        } = self;
        if content.is_empty() && !*warm {
            *content = vec![Vec::new(); *sets as usize];
        }
        content.iter_mut().for_each(Vec::clear);
    }

    /// Who compares states lets everything be cached, or nothing.
    fn fingerprint(&self, _: &Moment, _: &mut Fingerprint) {
        let Self {
            warm: _,
            sets: _,
            ways: _,
            content: _,
        } = self;
    }
}

/// Delivery from the µop cache.
#[derive(Debug, Default)]
pub struct UopCacheDelivery {
    /// It delivered an entry of double size in the last cycle.
    delayed: bool,
    /// Cycles of delivery since the last taken branch, up to two.
    body: u32,
    /// Cycles for which it still delivers nothing.
    bubble: u32,
}

impl UopCacheDelivery {
    /// One cycle.
    pub fn cycle<O: Observer>(&mut self, t: &mut Target<'_, O>, microcode: &mut Microcode) {
        if self.bubble > 0 {
            self.bubble -= 1;
        } else {
            self.deliver(t, microcode);
        }
    }

    /// Control went elsewhere.
    fn leave(&mut self, p: &Frontend) {
        if self.body > 1 {
            self.bubble = p.uop_cache_taken_bubble;
        }
        self.body = 0;
    }

    fn deliver<O: Observer>(&mut self, t: &mut Target<'_, O>, microcode: &mut Microcode) {
        let from = Delivery::Of(Source::UopCache);
        let width = t.p.uop_cache_width;
        let block_bytes = u64::from(t.p.uop_cache_block_bytes);
        let pairing = t.p.uop_cache_pairing;
        let in_body = pairing == LinePairing::CountedInBody;
        let mut left_in_line = match t.queue.lines.front() {
            Some(n) => *n,
            None => return,
        };
        let new_line = t.queue.entries.front().is_some_and(|e| e.slot == 0);
        let mut second_loaded = false;
        let mut remaining = width;
        let delayed = std::mem::take(&mut self.delayed);
        let mut delivered = 0u32;
        let mut last: Option<Entry> = None;
        while remaining > 0 {
            if left_in_line == 0 {
                let Some(&next) = t.queue.lines.front() else {
                    return;
                };
                let ends_in_microcode = t
                    .queue
                    .entries
                    .get(usize::from(next).saturating_sub(1))
                    .is_some_and(|e| e.microcode);
                if second_loaded || ends_in_microcode {
                    return;
                }
                second_loaded = true;
                left_in_line = next;
                // The line must be next in the program; the decoders may come in between.
                let follows = t
                    .queue
                    .entries
                    .front()
                    .zip(last)
                    .is_some_and(|(e, last)| t.next_number(last.number) == e.number);
                if !follows {
                    return;
                }
            }
            let Some(&entry) = t.queue.entries.front() else {
                return;
            };
            if entry.number >= t.queue.fetchable() || (entry.extra && remaining < 2) {
                return;
            }
            let width_of = if t.p.uop_cache_delivers_unlaminated {
                fused_of(t, &entry)
            } else {
                1
            };
            if width_of > remaining && delivered > 0 {
                return;
            }
            if entry.laminated != NO_UOP {
                t.deliver(entry.number, entry.laminated, from);
                if delivered == 0 {
                    self.body = (self.body + 1).min(2);
                }
                delivered += 1;
                if entry.extra {
                    remaining = 0;
                    self.delayed = true;
                } else {
                    remaining = remaining.saturating_sub(width_of);
                }
            }
            if entry.microcode {
                let stall = t.p.uop_cache_to_microcode_stall;
                microcode.start(
                    if entry.laminated == NO_UOP {
                        0
                    } else {
                        entry.laminated + 1
                    },
                    stall,
                    0,
                );
                remaining = 0;
            }
            t.queue.entries.pop_front();
            left_in_line -= 1;
            last = Some(entry);
            if let Some(n) = t.queue.lines.front_mut() {
                *n = left_in_line;
            }
            let leaves = entry.taken
                && t.queue
                    .entries
                    .front()
                    .is_none_or(|e| e.number != entry.number);
            if leaves {
                self.leave(t.p);
            }
            if leaves && t.p.uop_cache_taken_ends_cycle {
                if left_in_line == 0 {
                    t.queue.lines.pop_front();
                }
                return;
            }
            if left_in_line == 0 {
                t.queue.lines.pop_front();
                if remaining > 0
                    && pairing != LinePairing::Free
                    && let Some(next) = t.queue.entries.front()
                {
                    let same_block = next.address / block_bytes == entry.address / block_bytes;
                    let ends_body = entry.taken;
                    if in_body && same_block && ends_body && !delayed {
                        remaining = 0;
                    } else if !same_block {
                        if new_line {
                            remaining = match delivered {
                                1 | 2 => 4,
                                3 | 4 => 2,
                                5 => 1,
                                _ => remaining,
                            };
                        } else if ends_body {
                            remaining = if delivered == 1 || (delivered == 2 && entry.slot >= 4) {
                                4
                            } else {
                                remaining.min(2)
                            };
                        }
                    }
                }
            }
        }
    }
}

impl Part for UopCacheDelivery {
    fn reset(&mut self, _: &Moment) {
        *self = Self::default();
    }

    fn fingerprint(&self, _: &Moment, h: &mut Fingerprint) {
        let Self {
            delayed,
            body,
            bubble,
        } = self;
        h.add(u64::from(*delayed) | u64::from(*body) << 8 | u64::from(*bubble) << 32);
    }
}

/// Fused µops of an entry.
fn fused_of<O: Observer>(t: &Target<'_, O>, entry: &Entry) -> u32 {
    t.queue
        .get(entry.number)
        .and_then(|i| t.program.instrs.get(i.instr as usize))
        .and_then(|i| {
            let place = i.laminated as usize + usize::from(entry.laminated);
            t.program.laminated.get(place)
        })
        .map_or(1, |l| u32::from(l.fused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcad_isa::x86::build::{Builder, decode};

    #[test]
    fn a_kept_block_is_packed_as_a_new_one_would_be() {
        let model = mcad_isa::machine::cpu("skl").unwrap();
        // add rax, rbx; cmp rax, rcx; jne; mov rax, 2^40; inc rcx
        let code = [
            0x48, 0x01, 0xd8, 0x48, 0x39, 0xc8, 0x75, 0x00, 0x48, 0xb8, 0, 0, 0, 0, 0, 1, 0, 0,
            0x48, 0xff, 0xc1,
        ];
        let mut program = Program::default();
        Builder::new(&model).append(&mut program, &decode(&code, 0).0);
        let (program, p) = (&program, &model.core.frontend);
        let mut packer = Packer::new();
        let mut insts = Window::new(64);
        let blocks: [(&[u32], u64, bool); 8] = [
            (&[0, 1, 2, 3, 4], 0, false),
            (&[0, 1, 2, 3, 4], 0, false),
            (&[0, 1, 2], 0, true),
            (&[0, 1, 2], 0, false),
            (&[0, 1, 2], 24, false),
            (&[0, 3, 4], 0, false),
            (&[0, 1, 2, 3, 4], 2048, false),
            (&[0, 1, 2, 3, 4], 0, false),
        ];
        for (instrs, mut address, taken) in blocks {
            let from = insts.end();
            for instr in instrs {
                insts.push(Inst::new(*instr, address));
                address += u64::from(program.instrs[*instr as usize].len);
            }
            insts.back_mut().unwrap().taken = taken;
            let (mut kept, mut new) = (Vec::new(), Vec::new());
            let to = insts.end();
            let packed = packer.pack(program, p, &insts, from, to, &mut kept);
            assert_eq!(packed, pack(program, p, &insts, from, to, &mut new));
            assert_eq!(kept, new, "{instrs:?}");
            assert!(!kept.is_empty());
        }
    }
}
