//! How blocks of code lie in the µop cache's lines.

use crate::pipeline::inst::Inst;
use crate::pipeline::state::Fingerprint;
use crate::pipeline::window::Window;
use mcad_isa::machine::params::Frontend;
use mcad_isa::program::{Program, flag};

/// Laminated µop of an entry without one: an instruction whose µops all come from microcode.
pub const NO_UOP: u16 = u16::MAX;

/// One entry of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Instruction, by number from the first of the block of code.
    pub number: u64,
    /// Address of the instruction.
    pub address: u64,
    /// Laminated µop of the instruction.
    pub laminated: u16,
    /// Place in the line.
    pub slot: u8,
    /// Microcode follows.
    pub microcode: bool,
    /// Takes two entries.
    pub extra: bool,
    /// Control goes elsewhere after the instruction.
    pub taken: bool,
    /// First of its line.
    pub starts_line: bool,
    /// Fused µops of the laminated µop.
    pub fused: u8,
    /// Last of its instruction.
    pub ends_instruction: bool,
}

impl Entry {
    /// Whether no µop of its instruction comes before it.
    #[must_use]
    pub fn starts_instruction(&self) -> bool {
        self.laminated == 0 || self.laminated == NO_UOP
    }

    /// The first laminated µop of its instruction that comes from microcode, where some do.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> u16 {
        match self.laminated {
            NO_UOP => 0,
            laminated => laminated + 1,
        }
    }

    /// Adds what it is, relative to instruction `head`.
    pub fn fingerprint(&self, from: u64, head: u64, h: &mut Fingerprint) {
        h.add((from + self.number).wrapping_sub(head));
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

/// Blocks of code whose packing is kept, a power of two: with its entries one takes half a KiB.
const KEPT: usize = 1 << 10;

/// Packs blocks of code into lines. The same ones come again and again, so what came out for a
/// block is kept until another one takes its place.
pub struct Packer {
    kept: Vec<Kept>,
    /// Programs so far: what was kept for another one is not used.
    program: u32,
}

/// A block that was packed, and how.
#[derive(Clone, Default)]
pub struct Kept {
    program: u32,
    /// Address of its first instruction.
    address: u64,
    /// Its instructions: their addresses follow one another.
    instrs: Vec<u32>,
    /// They also follow one another in the program.
    run: bool,
    /// It ends where the next instruction, in the same line, lies in another block of code.
    cut: bool,
    /// Whether control goes elsewhere after the last one, and after the one that follows it.
    taken: [bool; 2],
    /// How it lies in the cache.
    pub packed: Packed,
    /// Numbered from its first instruction.
    pub entries: Vec<Entry>,
    /// Entries of each line.
    pub lines: Vec<u8>,
}

/// A line on its way to the front end.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Entries that are left.
    pub left: u8,
    /// Number of the instruction that its entries' numbers count from.
    pub from: u64,
}

/// Consecutive instructions that wait, all in one block of code.
#[derive(Clone, Copy)]
pub struct Stretch<'a> {
    /// All that wait.
    pub insts: &'a Window<Inst>,
    /// Number of the first.
    pub from: u64,
    /// Number behind the last.
    pub to: u64,
    /// Number behind the last of their 64-byte line.
    pub end: u64,
    /// They are known to follow one another in the program.
    pub run: bool,
}

impl Packer {
    /// One that keeps nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kept: vec![Kept::default(); KEPT],
            program: 1,
        }
    }

    /// Forgets what it keeps: another program follows.
    pub fn reset(&mut self) {
        self.program = self.program.wrapping_add(1);
    }

    /// Packs a block of code; returns where it is kept, which is none of `others`.
    pub fn pack(
        &mut self,
        program: &Program,
        p: &Frontend,
        stretch: Stretch<'_>,
        others: &[usize],
    ) -> usize {
        let Stretch {
            insts,
            from,
            to,
            end: _,
            run,
        } = stretch;
        let first = insts.get(from).copied().unwrap_or_default();
        let taken = [to.wrapping_sub(1), to].map(|n| insts.get(n).is_some_and(|i| i.taken));
        let mut place = place(first.instr, taken[0]);
        while others.contains(&place) {
            place = (place + 1) % KEPT;
        }
        let Some(kept) = self.kept.get_mut(place) else {
            return 0;
        };
        let length = (to - from) as usize;
        let same = kept.program == self.program
            && kept.address == first.address
            && kept.taken == taken
            && kept.instrs.len() == length
            && kept.instrs.first() == Some(&first.instr)
            && (run && kept.run || {
                let instrs = (from..to).filter_map(|n| insts.get(n)).map(|i| i.instr);
                kept.instrs.iter().copied().eq(instrs)
            });
        if !same {
            kept.program = self.program;
            (kept.address, kept.taken) = (first.address, taken);
            kept.instrs.clear();
            let instrs = (from..to).filter_map(|n| insts.get(n)).map(|i| i.instr);
            kept.instrs.extend(instrs);
            let mut next = kept.instrs.windows(2);
            kept.run = next.all(|pair| pair[0] + 1 == pair[1]);
            kept.cut = !taken[0] && to < stretch.end;
            kept.entries.clear();
            kept.packed = pack(program, p, insts, from, to, &mut kept.entries);
            kept.lines.clear();
            for entry in &mut kept.entries {
                entry.number -= from;
                match kept.lines.last_mut() {
                    Some(count) if !entry.starts_line => *count += 1,
                    _ => kept.lines.push(1),
                }
            }
        }
        place
    }

    /// Where the block of code is kept that begins with instruction `from` of a run, which goes on
    /// to number `end` in the same 64-byte line, and how many instructions it has: the same as
    /// [`Packer::pack`] with the stretch that ends where the block does, without looking for that.
    #[inline]
    #[must_use]
    pub fn recall(&self, insts: &Window<Inst>, from: u64, end: u64) -> Option<(usize, u64)> {
        let first = insts.get(from)?;
        let last_taken = insts.get(end - 1)?.taken;
        let matches = |taken: bool| {
            let place = place(first.instr, taken);
            let kept = self.kept.get(place)?;
            let to = from + kept.instrs.len() as u64;
            let there = if taken || !kept.cut {
                to == end
            } else {
                to < end
            };
            let same = there
                && kept.program == self.program
                && kept.run
                && kept.address == first.address
                && kept.instrs.first() == Some(&first.instr)
                && kept.taken == [taken, to + 1 == end && last_taken];
            same.then_some((place, to))
        };
        // All but the last instruction of the line go straight on.
        matches(false)
            .filter(|(_, to)| *to < end || !last_taken)
            .or_else(|| matches(true).filter(|_| last_taken))
    }

    /// A block that was packed.
    #[inline]
    #[must_use]
    pub fn kept(&self, place: usize) -> Option<&Kept> {
        self.kept.get(place)
    }
}

/// Where a block of code is kept, by its first instruction and whether control goes elsewhere after
/// the last.
#[inline]
fn place(first: u32, taken: bool) -> usize {
    (first as usize * 2 + usize::from(taken)) % KEPT
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
        let wide = p.uop_cache_wide_immediates || p.uop_cache_two_constants;
        let extra = wide && instr.is(flag::EXTRA_SLOT);
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
        let mut push = |laminated: u16, slot: u8, microcode: bool, last: bool, starts: bool| {
            let place = instr.laminated as usize + usize::from(laminated);
            let fused = program.laminated.get(place).map_or(1, |l| l.fused);
            out.push(Entry {
                number,
                address: inst.address,
                laminated,
                slot,
                microcode,
                extra: last && extra && laminated != NO_UOP,
                taken,
                starts_line: starts,
                fused: fused.min(255) as u8,
                ends_instruction: last,
            });
        };
        if instr.uops_mite > 0 {
            let count = instr.laminated_mite.max(1);
            for n in 0..count {
                let last = n + 1 == count;
                let microcode = last && instr.laminated_len > instr.laminated_mite;
                push(n, slot, microcode, last, starts_line && n == 0);
                slot += 1;
                left -= 1;
            }
        } else {
            push(NO_UOP, slot, instr.microcoded, true, starts_line);
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
            let mut new = Vec::new();
            let to = insts.end();
            let packed = pack(program, p, &insts, from, to, &mut new);
            for entry in &mut new {
                entry.number -= from;
            }
            for run in [false, instrs.windows(2).all(|i| i[0] + 1 == i[1])] {
                let stretch = Stretch {
                    insts: &insts,
                    from,
                    to,
                    end: to,
                    run,
                };
                let place = packer.pack(program, p, stretch, &[]);
                let kept = packer.kept(place).unwrap();
                assert_eq!(packed, kept.packed);
                assert_eq!(kept.entries, new, "{instrs:?}");
                assert!(!kept.entries.is_empty());
                let lines: usize = kept.lines.iter().map(|n| usize::from(*n)).sum();
                assert_eq!(lines, kept.entries.len());
            }
        }
    }
}
