//! Groups of instructions whose way through the µop cache is known.
//!
//! A group is what is fetched at once: consecutive instructions in one 64-byte line, up to a taken
//! branch. The same ones come again and again, so into which blocks of code a group falls and how
//! these lie in the cache's lines is kept until another group takes its place. It is used only for
//! exactly the same instructions at the same place of a line, left the same way: nothing else has a
//! part in it. There is room for few groups, as a block has, until more have come than that.

use super::super::predict::stream::LINE_SHIFT;
use super::pack::{Entry, Line, Open, Packed, lines_of, pack};
use crate::lists::part;
use crate::pipeline::fold::Folding;
use crate::pipeline::inst::Inst;
use crate::pipeline::window::Window;
use mcad_isa::machine::params::Frontend;
use mcad_isa::program::{Program, flag};

/// Groups that are kept to begin with, and at most, powers of two: with its entries one takes half a
/// KiB.
const FEW: usize = 1 << 8;
const MANY: usize = 1 << 13;

/// Pieces of the program that a group is told from others by; a group of more is not kept.
const PIECES: usize = 6;

/// Knuth, "The Art of Computer Programming", volume 3, section 6.4: 2^64 over the golden ratio.
const HASH: u64 = 0x9e37_79b9_7f4a_7c15;

/// What of an address a group depends on, since it lies in one line.
#[inline]
fn in_line(address: u64) -> u64 {
    address & ((1 << LINE_SHIFT) - 1)
}

/// Which instructions a group has: pieces of the program, each of consecutive static instructions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pieces {
    /// First instruction and how many, in the upper and the lower half; what is behind the last one
    /// is of no use.
    pieces: [u64; PIECES],
    /// How many pieces there are, which may be more than are told here.
    count: usize,
}

impl Pieces {
    /// `count` instructions from number `first` of the program on are added.
    #[inline]
    pub fn add(&mut self, first: u32, count: u64) {
        if let Some(last) = (self.count.checked_sub(1)).and_then(|n| self.pieces.get_mut(n))
            && (*last >> 32) + (*last & 0xffff_ffff) == u64::from(first)
        {
            *last += count;
            return;
        }
        if let Some(piece) = self.pieces.get_mut(self.count) {
            *piece = u64::from(first) << 32 | count;
        }
        self.count += 1;
    }

    /// Nothing: another group begins.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Those that are told.
    #[inline]
    fn told(&self) -> &[u64] {
        self.pieces.get(..self.count).unwrap_or(&self.pieces)
    }

    /// Whether these are exactly the instructions of the others, as far as can be told.
    #[inline]
    fn same(&self, other: &Self) -> bool {
        let pieces = || self.told().iter().zip(other.told());
        self.count == other.count
            && self.count <= PIECES
            && pieces().all(|(piece, other)| piece == other)
    }

    /// What its place depends on.
    #[inline]
    fn hash(&self, address: u64, taken: bool, open: Open) -> u64 {
        let mut hash = (in_line(address) << 1 | u64::from(taken)) ^ open.key().wrapping_mul(HASH);
        for piece in self.told() {
            hash = (hash ^ piece).wrapping_mul(HASH);
        }
        hash >> 40
    }
}

/// A block of code's part of a group.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Address of its first instruction.
    pub address: u64,
    /// Address behind its last one.
    pub end: u64,
    /// Its instructions.
    pub instructions: u64,
    /// How it lies in the cache.
    pub packed: Packed,
    /// Entries up to its last one.
    entries: usize,
    /// Lines up to its last one.
    lines: usize,
}

/// A group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Of which program, 0: of none.
    program: u32,
    address: u64,
    /// Control goes elsewhere behind it.
    pub taken: bool,
    pieces: Pieces,
    /// What the line before has room for.
    before: Open,
    /// What its last line has room for.
    pub open: Open,
    /// Its parts, first to last.
    pub parts: Vec<Part>,
    /// All of them can be in the cache.
    pub cacheable: bool,
    /// Its last instruction is a branch.
    pub ends_in_branch: bool,
    entries: Vec<Entry>,
    lines: Vec<Line>,
}

impl Group {
    /// What is added to addresses of one that begins at `address`.
    #[inline]
    pub fn moved_to(&self, address: u64) -> u64 {
        address.wrapping_sub(self.address)
    }

    /// Its parts, each with its entries and lines, numbered from its first instruction.
    #[inline]
    pub fn parts(&self) -> impl Iterator<Item = (&Part, &[Entry], &[Line])> {
        let (mut entry, mut line) = (0, 0);
        self.parts.iter().map(move |of| {
            let entries = part(&self.entries, entry..of.entries);
            let lines = part(&self.lines, line..of.lines);
            (entry, line) = (of.entries, of.lines);
            (of, entries, lines)
        })
    }

    fn fill(&mut self, program: &Program, p: &Frontend, insts: &Window<Inst>, from: u64, to: u64) {
        let shift = p.uop_cache_block_bytes.trailing_zeros();
        self.parts.clear();
        self.entries.clear();
        self.lines.clear();
        self.cacheable = true;
        self.open = self.before;
        let mut at = from;
        while at < to {
            let Some(first) = insts.get(at) else { break };
            let block = first.address >> shift;
            let other = |n: &u64| insts.get(*n).is_none_or(|i| i.address >> shift != block);
            let end = (at + 1..to).find(other).unwrap_or(to);
            let known = self.entries.len();
            let packed = pack(
                program,
                p,
                insts,
                (at, end, to),
                &mut self.open,
                &mut self.entries,
            );
            lines_of(
                part(&self.entries, known..self.entries.len()),
                &mut self.lines,
            );
            self.cacheable &= packed.cacheable;
            self.parts.push(Part {
                address: first.address,
                end: behind(program, insts.get(end - 1)),
                instructions: end - at,
                packed,
                entries: self.entries.len(),
                lines: self.lines.len(),
            });
            at = end;
        }
        let last = insts.get(to.wrapping_sub(1));
        let last = last.and_then(|i| program.instrs.get(i.instr as usize));
        self.ends_in_branch = last.is_some_and(|i| i.is(flag::BRANCH));
    }
}

/// The address behind an instruction.
fn behind(program: &Program, inst: Option<&Inst>) -> u64 {
    let len = |inst: &Inst| program.instrs.get(inst.instr as usize).map_or(1, |i| i.len);
    inst.map_or(0, |inst| inst.address.wrapping_add(u64::from(len(inst))))
}

/// Groups that were seen lately.
pub struct Groups {
    /// As many as a power of two.
    kept: Vec<Group>,
    /// Groups that were not there, since there is so much room.
    missed: usize,
    /// Programs so far: what was kept for another one is not used.
    program: u32,
}

impl Groups {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kept: vec![Group::default(); FEW],
            missed: 0,
            program: 1,
        }
    }

    /// Forgets what it keeps: another program follows.
    pub fn reset(&mut self) {
        self.program = self.program.wrapping_add(1);
    }

    /// Shows what it keeps, which comes back empty: it is found out again.
    pub fn fold(&mut self, folding: &mut Folding) {
        let take = |groups: &mut Self| {
            groups.missed = 0;
            let mut kept = std::mem::take(&mut groups.kept);
            kept.truncate(FEW);
            kept.iter_mut().for_each(|group| group.program = 0);
            ((), kept)
        };
        folding.any(self, take, |groups, (), empty| {
            groups.kept = empty.unwrap_or_else(|| vec![Group::default(); FEW]);
        });
    }

    /// The group of the instructions from number `from` to before `to`, which `pieces` tell; `open` is
    /// what the line before has room for. Its addresses may be those of another line
    /// ([`Group::moved_to`]).
    #[inline]
    pub fn group(
        &mut self,
        program: &Program,
        p: &Frontend,
        insts: &Window<Inst>,
        (from, to): (u64, u64),
        pieces: &Pieces,
        open: Open,
    ) -> Option<&Group> {
        let address = insts.get(from)?.address;
        let taken = insts.get(to.wrapping_sub(1))?.taken;
        self.find(program, p, (address, taken), pieces, open, || {
            (insts, from, to)
        })
    }

    /// The same of instructions from `address` on that are left by a jump if `taken`; what they are is
    /// asked for only where they are not known: the list that they are in, and from and to which number.
    #[inline]
    pub fn find<'a>(
        &mut self,
        program: &Program,
        p: &Frontend,
        (address, taken): (u64, bool),
        pieces: &Pieces,
        open: Open,
        insts: impl FnOnce() -> (&'a Window<Inst>, u64, u64),
    ) -> Option<&Group> {
        let place = pieces.hash(address, taken, open) as usize & self.kept.len().wrapping_sub(1);
        let group = self.kept.get_mut(place)?;
        let same = group.program == self.program
            && in_line(group.address) == in_line(address)
            && group.taken == taken
            && group.before == open
            && group.pieces.same(pieces);
        if !same {
            self.missed += 1;
            group.program = self.program;
            (group.address, group.taken, group.pieces) = (address, taken, *pieces);
            group.before = open;
            let (insts, from, to) = insts();
            group.fill(program, p, insts, from, to);
            if self.missed > self.kept.len() && self.kept.len() < MANY {
                return self.grow(place);
            }
        }
        self.kept.get(place)
    }

    /// Makes room for more, where what is kept now is lost but for the one at `place`.
    #[cold]
    fn grow(&mut self, place: usize) -> Option<&Group> {
        let group = std::mem::take(self.kept.get_mut(place)?);
        self.missed = 0;
        let room = self.kept.len() * 2;
        self.kept.clear();
        self.kept.resize(room, Group::default());
        let hash = group.pieces.hash(group.address, group.taken, group.before);
        let place = hash as usize & (room - 1);
        *self.kept.get_mut(place)? = group;
        self.kept.get(place)
    }
}

impl Default for Groups {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcad_isa::x86::build::{Builder, decode};

    #[test]
    fn a_kept_group_is_as_a_new_one_would_be() {
        let model = mcad_isa::machine::cpu("skl").unwrap();
        // add rax, rbx; cmp rax, rcx; jne; mov rax, 2^40; inc rcx
        let code = [
            0x48, 0x01, 0xd8, 0x48, 0x39, 0xc8, 0x75, 0x00, 0x48, 0xb8, 0, 0, 0, 0, 0, 1, 0, 0,
            0x48, 0xff, 0xc1,
        ];
        let mut program = Program::default();
        Builder::new(&model).append(&mut program, &decode(&code, 0).0);
        let (program, p) = (&program, &model.core.frontend);
        let mut groups = Groups::new();
        let mut insts = Window::new(64);
        let all: [(&[u32], u64, bool); 9] = [
            (&[0, 1, 2, 3, 4], 0, false),
            (&[0, 1, 2, 3, 4], 0, false),
            (&[0, 1, 2], 0, true),
            (&[0, 1, 2], 0, false),
            (&[0, 1, 2], 24, false),
            (&[0, 3, 4], 0, false),
            (&[0, 1, 2, 3, 4], 2048, false),
            (&[0, 1, 2, 3, 4], 0, false),
            // More pieces than are told.
            (&[0, 2, 4, 3, 1, 0, 2, 4, 0, 4], 0, false),
        ];
        for (instrs, mut address, taken) in all {
            let (from, mut pieces) = (insts.end(), Pieces::default());
            for instr in instrs {
                insts.push(Inst::new(*instr, address));
                address += u64::from(program.instrs[*instr as usize].len);
                pieces.add(*instr, 1);
            }
            insts.back_mut().unwrap().taken = taken;
            let to = insts.end();
            let mut new = Group::default();
            new.fill(program, p, &insts, from, to);
            let group = groups.group(program, p, &insts, (from, to), &pieces, Open::default());
            let group = group.unwrap();
            let moved = group.moved_to(insts.get(from).unwrap().address);
            let entries = group.entries.iter().map(|entry| Entry {
                address: entry.address.wrapping_add(moved),
                ..*entry
            });
            assert_eq!(entries.collect::<Vec<_>>(), new.entries, "{instrs:?}");
            assert_eq!(group.lines, new.lines);
            assert!(!group.entries.is_empty());
            let mut instructions = 0;
            for (of, entries, lines) in group.parts() {
                let in_lines: usize = lines.iter().map(|line| usize::from(line.left)).sum();
                assert_eq!(in_lines, entries.len());
                instructions += of.instructions;
            }
            assert_eq!(instructions, to - from);
        }
    }
}
