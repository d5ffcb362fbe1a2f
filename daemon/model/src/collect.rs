//! Collects a [`Profile`] while a program executes.

use std::ops::Range;

use mcad_proto::event::Arch;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::distance::{Distances, Hint, LINE, Misses};
use crate::events::{Event, Site, Tally};
use crate::predictors::{Ending, Predictors};
use crate::profile::{Bytes, CONTEXT, Inst, MAX_BLOCKS, Path, Profile};
use crate::stretches::Keeper;
use crate::uses::{self, Accessed, Touched, Unread};

/// Code that is executed for the first time.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// Its instructions.
    pub insts: Vec<Inst>,
    /// Where they lie; empty if that is not known, and then their fetches are not looked at.
    pub addresses: Vec<u64>,
    /// The branch that it ends with, if it was executed up to there.
    pub ending: Option<Ending>,
    /// Its bytes, where they are to be kept.
    pub bytes: Vec<u8>,
}

impl From<Vec<Inst>> for Piece {
    fn from(insts: Vec<Inst>) -> Self {
        Self {
            insts,
            ..Self::default()
        }
    }
}

/// A run of executed code without a jump in it, as far as it was executed: place of the block in
/// its session, first and last instruction executed.
type Part = (u32, u32, u32);

/// What each execution of a piece asks for, in one line of a cache: large programs have more of them than
/// caches hold.
#[derive(Debug)]
#[repr(align(64))]
struct Followed {
    address: Option<u64>,
    ending: Option<Ending>,
    /// How often it jumped at its end, with all predictors right.
    jumps: u64,
    len: u32,
    /// Places in [`Collector::lines`].
    lines: Range<u32>,
    /// Where its instructions begin among all, in [`Collector::site_numbers`] and [`Collector::accessed`].
    base: u32,
}

impl Followed {
    /// Its instructions among all.
    fn all(&self) -> Range<usize> {
        let base = self.base as usize;
        base..base + self.len as usize
    }
}

/// A line of a piece's code.
#[derive(Debug)]
struct Fetched {
    line: u64,
    /// The first instruction in it.
    instruction: u32,
    /// Where it stood when it was fetched last.
    hint: Hint,
}

/// How often a path was taken, and the pieces that followed it last with the paths that these were, the
/// last one first.
#[derive(Debug)]
struct Taken {
    count: u64,
    next: [(u32, u32); 2],
}

/// Pieces in the order of execution, and what befell their instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Numbers of pieces.
    pub pieces: Vec<u32>,
    /// Events, in the same order.
    pub events: Vec<Event>,
}

impl Order {
    /// Something befell the last piece.
    pub fn befall(&mut self, event: Event) {
        let execution = self.pieces.len().saturating_sub(1) as u32;
        self.events.push(Event { execution, ..event });
    }
}

/// Collects a profile.
#[derive(Debug, Default)]
pub struct Collector {
    blocks: Vec<Vec<Inst>>,
    arch: Option<Arch>,
    bytes: Vec<Bytes>,
    followed: Vec<Followed>,
    /// Registers of pieces.
    touched: Vec<Touched>,
    /// Those of their instructions, piece by piece.
    accessed: Vec<Accessed>,
    /// Lines of pieces, piece by piece.
    lines: Vec<Fetched>,
    /// By instruction, piece by piece: its site, or [`NONE`].
    site_numbers: Vec<u32>,
    parts: FxHashMap<Part, u32>,
    /// By block of the session: the part of it that was executed last.
    last_part: Vec<(Part, u32)>,
    /// The piece executed last. Those before it are in the path taken last.
    latest: Option<u32>,
    /// Places of paths in [`Collector::paths`].
    places: FxHashMap<[u32; MAX_BLOCKS], u32>,
    /// By place, the pieces of each path.
    keys: Vec<[u32; MAX_BLOCKS]>,
    paths: Vec<Taken>,
    /// The path taken last; [`NONE`] at the begin of a thread.
    path: Option<u32>,
    instructions: u64,
    sites: Vec<Site>,
    /// What befell each of them since it was added to it.
    tallies: Vec<Tally>,
    unread: Unread,
    data: Distances,
    code: Distances,
    predictors: Predictors,
    order: Option<Order>,
    stretches: Keeper,
}

/// Numbers of blocks that may be left out before one that is remembered by number.
const MOST_SKIPPED: usize = 1 << 16;

/// No block.
const NONE: u32 = u32::MAX;

/// Counts how far behind a load its value was read.
fn count_use(sites: &mut [Site], (site, misses): (u32, Misses), class: usize) {
    let uses = sites.get_mut(site as usize).map(|site| &mut site.uses);
    let uses = uses.and_then(|uses| uses.get_mut(uses::group(misses)));
    if let Some(count) = uses.and_then(|uses| uses.get_mut(class)) {
        *count += 1;
    }
}

impl Collector {
    /// A collector that keeps the order of execution, too.
    #[must_use]
    pub fn with_order() -> Self {
        Self {
            order: Some(Order::default()),
            ..Self::default()
        }
    }

    /// Keeps the bytes of blocks, which are of this instruction set.
    pub fn keep_code(&mut self, arch: Arch) {
        self.arch = Some(arch);
    }

    /// Takes an executed block: instructions `first` to `end` of block `id` of its session;
    /// `make` gives them when they are new. Gives the number of that piece of code.
    pub fn execute<P: Into<Piece>>(
        &mut self,
        id: u32,
        first: u32,
        end: u32,
        make: impl FnOnce() -> P,
    ) -> u32 {
        let number = self.number((id, first, end), make);
        self.branch_to(number);
        self.read(number);
        self.stretches.execute(number, self.instructions);
        self.instructions += self.instructions_of(number) as u64;
        self.latest = Some(number);
        self.take_path(number);
        if let Some(order) = &mut self.order {
            order.pieces.push(number);
        }
        self.fetch(number);
        number
    }

    /// Instructions of a piece.
    #[inline]
    fn instructions_of(&self, number: u32) -> usize {
        let piece = self.followed.get(number as usize);
        piece.map_or(0, |f| f.len as usize)
    }

    /// The number of a part of a block, most often the one that was executed when it was last.
    #[inline]
    fn number<P: Into<Piece>>(&mut self, part: Part, make: impl FnOnce() -> P) -> u32 {
        let id = part.0 as usize;
        if let Some((last, number)) = self.last_part.get(id)
            && *last == part
        {
            return *number;
        }
        let number = match self.parts.get(&part) {
            Some(&number) => number,
            None => {
                let number = self.define(make().into());
                self.parts.insert(part, number);
                number
            }
        };
        // Blocks are numbered as they are defined; a number that comes from nowhere is looked up.
        if id <= self.last_part.len() + MOST_SKIPPED {
            if id >= self.last_part.len() {
                self.last_part.resize(id + 1, ((NONE, 0, 0), NONE));
            }
            if let Some(last) = self.last_part.get_mut(id) {
                *last = (part, number);
            }
        }
        number
    }

    /// Counts the path that ends with the piece executed last, most often one that followed the path
    /// before the last times.
    #[inline]
    fn take_path(&mut self, number: u32) {
        let before = self.path.and_then(|path| self.paths.get_mut(path as usize));
        let place = match before.map(|taken| &mut taken.next) {
            Some([(piece, place), _]) if *piece == number => *place,
            Some(next) if next[1].0 == number => {
                next.swap(0, 1);
                next[0].1
            }
            _ => self.find_path(number),
        };
        if let Some(taken) = self.paths.get_mut(place as usize) {
            taken.count += 1;
        }
        self.path = Some(place);
    }

    /// The pieces of the path that a piece ends which is executed behind the path taken last: as many before it as
    /// are needed as its context.
    fn pieces_up_to(&self, number: u32) -> [u32; MAX_BLOCKS] {
        let before = self.path.and_then(|path| self.keys.get(path as usize));
        let before = before.map_or(&[][..], |key| &key[..]);
        let mut key = [NONE; MAX_BLOCKS];
        let mut places = key.iter_mut().rev();
        if let Some(last) = places.next() {
            *last = number;
        }
        let mut context = 0;
        for (place, &piece) in places.zip(before.iter().rev()) {
            if piece == NONE || context >= CONTEXT {
                break;
            }
            *place = piece;
            context += self.instructions_of(piece);
        }
        key
    }

    /// The place of the path of the recent pieces, which follows the one before from now on.
    #[inline(never)]
    fn find_path(&mut self, number: u32) -> u32 {
        let key = self.pieces_up_to(number);
        let (paths, keys) = (&mut self.paths, &mut self.keys);
        let place = *self.places.entry(key).or_insert_with(|| {
            keys.push(key);
            paths.push(Taken {
                count: 0,
                next: [(NONE, NONE); 2],
            });
            (paths.len() - 1) as u32
        });
        let before = self.path.and_then(|path| self.paths.get_mut(path as usize));
        if let Some(before) = before {
            before.next = [(number, place), before.next[0]];
        }
        place
    }

    fn define(&mut self, piece: Piece) -> u32 {
        let number = self.blocks.len() as u32;
        let first_line = self.lines.len();
        for (n, address) in piece.addresses.iter().enumerate() {
            let line = address / LINE;
            if n == 0 || self.lines.last().is_none_or(|l| l.line != line) {
                self.lines.push(Fetched {
                    line,
                    instruction: n as u32,
                    hint: Hint::default(),
                });
            }
        }
        self.followed.push(Followed {
            address: piece.addresses.first().copied(),
            ending: piece.ending,
            jumps: 0,
            len: piece.insts.len() as u32,
            lines: first_line as u32..self.lines.len() as u32,
            base: self.site_numbers.len() as u32,
        });
        let all = self.site_numbers.len() + piece.insts.len();
        self.site_numbers.resize(all, NONE);
        let accessed = piece.insts.iter().map(Accessed::from);
        let first = self.accessed.len();
        self.accessed.extend(accessed);
        let accessed = self.accessed.get(first..).unwrap_or(&[]);
        self.touched.push(Touched::by(accessed));
        self.blocks.push(piece.insts);
        if self.arch.is_some() {
            self.bytes.push(Bytes(piece.bytes));
        }
        number
    }

    /// The lines of a piece are fetched.
    #[inline]
    fn fetch(&mut self, number: u32) {
        let Some(piece) = self.followed.get(number as usize) else {
            return;
        };
        for n in piece.lines.clone() {
            let Some(fetched) = self.lines.get_mut(n as usize) else {
                return;
            };
            let fetch = self.code.access_near(fetched.line, &mut fetched.hint);
            if fetch > 0 {
                let instruction = fetched.instruction;
                self.befall(Event {
                    instruction,
                    fetch,
                    ..Event::default()
                });
            }
        }
    }

    /// An instruction of the piece executed last accesses memory.
    #[inline]
    pub fn access(&mut self, instruction: u32, address: u64, bytes: u32, load: bool) {
        let line = address / LINE;
        let mut data = self.data.access(line);
        let end = address.wrapping_add(u64::from(bytes.max(1)) - 1) / LINE;
        if end != line {
            data = data.max(self.data.access(end));
        }
        if load && data > 0 {
            self.befall(Event {
                instruction,
                data,
                ..Event::default()
            });
        }
    }

    /// The piece executed last has gone on at another.
    #[inline]
    fn branch_to(&mut self, number: u32) {
        let Some(before) = self.latest else {
            return;
        };
        let next = self.followed.get(number as usize).and_then(|p| p.address);
        let before = self.followed.get_mut(before as usize);
        let (Some(next), Some(before)) = (next, before) else {
            return;
        };
        let Some(ending) = &before.ending else {
            return;
        };
        let instruction = before.len.saturating_sub(1);
        let went = self.predictors.branch(ending, next);
        if !went.taken && went.wrong == 0 {
            return;
        }
        let event = Event {
            instruction,
            taken: went.taken,
            wrong: went.wrong,
            ..Event::default()
        };
        if went.wrong == 0 {
            // The most by far: they are booked in the end.
            before.jumps += 1;
            if before.jumps == 1 {
                self.site(instruction);
            }
            self.keep(event);
        } else {
            self.befall(event);
        }
    }

    /// A piece is about to be executed, which may read what loads before it had missed.
    #[inline]
    fn read(&mut self, number: u32) {
        if self.unread.is_empty() {
            return;
        }
        let touched = self.touched.get(number as usize);
        let code = self.followed.get(number as usize).map(Followed::all);
        let code = code.and_then(|all| self.accessed.get(all));
        let (Some(touched), Some(code)) = (touched, code) else {
            return;
        };
        let sites = &mut self.sites;
        let settled = |load: (u32, Misses), class: usize| count_use(sites, load, class);
        (self.unread).execute(code, touched, self.instructions, settled);
    }

    /// A load of the piece executed last has missed.
    fn missed(&mut self, load: (u32, Misses), instruction: u32) {
        let code = self
            .latest
            .and_then(|block| self.followed.get(block as usize));
        let code = code.and_then(|piece| self.accessed.get(piece.all()));
        let Some(code) = code else {
            return;
        };
        let position = self.instructions - code.len() as u64;
        let known = (self.unread).load(load, code, instruction as usize, position);
        if let Some(class) = known {
            count_use(&mut self.sites, load, class);
        }
    }

    /// The number of the site of an instruction of the piece executed last.
    #[inline]
    fn site(&mut self, instruction: u32) -> Option<u32> {
        let block = self.latest?;
        let piece = self.followed.get(block as usize)?;
        let place = (instruction < piece.len).then(|| piece.base + instruction)?;
        let number = self.site_numbers.get_mut(place as usize)?;
        if *number == NONE {
            *number = self.sites.len() as u32;
            self.sites.push(Site {
                block,
                instruction,
                ..Site::default()
            });
            self.tallies.push(Tally::default());
        }
        Some(*number)
    }

    /// Books an event of the piece executed last.
    fn befall(&mut self, event: Event) {
        let Some(number) = self.site(event.instruction) else {
            return;
        };
        if let Some(tally) = self.tallies.get_mut(number as usize)
            && tally.book(&event)
            && let Some(site) = self.sites.get_mut(number as usize)
        {
            site.take(tally);
        }
        if event.data >= uses::FOLLOWED {
            self.missed((number, event.data), event.instruction);
        }
        self.keep(event);
    }

    /// Keeps an event of the piece executed last, where the order is kept.
    #[inline]
    fn keep(&mut self, event: Event) {
        if let Some(order) = &mut self.order {
            order.befall(event);
        }
        self.stretches.befall(event);
    }

    /// Adds what was counted to the sites.
    fn take_tallies(&mut self) {
        for (site, tally) in self.sites.iter_mut().zip(&mut self.tallies) {
            site.take(tally);
        }
    }

    /// Books the jumps that all predictors foresaw.
    fn book_jumps(&mut self) {
        for piece in &self.followed {
            let branch = piece.base + piece.len.saturating_sub(1);
            let number = self.site_numbers.get(branch as usize);
            let site = number.and_then(|&number| self.sites.get_mut(number as usize));
            if let Some(site) = site.filter(|_| piece.jumps > 0) {
                site.book_jumps(piece.jumps);
            }
        }
    }

    /// Another thread goes on.
    pub fn switch(&mut self) {
        self.latest = None;
        self.unread.clear();
        self.stretches.switch();
        self.path = None;
    }

    /// Ends the execution.
    #[must_use]
    pub fn finish(self, source: String) -> Profile {
        self.finish_with_order(source).0
    }

    /// The same with the order of execution, if it was to be kept.
    #[must_use]
    pub fn finish_with_order(mut self, source: String) -> (Profile, Order) {
        self.take_tallies();
        self.book_jumps();
        let mut executions = vec![0; self.blocks.len()];
        let mut paths: Vec<Path> = Vec::with_capacity(self.paths.len());
        for (taken, key) in self.paths.into_iter().zip(self.keys) {
            let last = key.last().and_then(|&b| executions.get_mut(b as usize));
            if let Some(executions) = last {
                *executions += taken.count;
            }
            paths.push(Path {
                blocks: key.into_iter().filter(|&b| b != NONE).collect(),
                count: taken.count,
            });
        }
        paths.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.blocks.cmp(&b.blocks)));
        let profile = Profile {
            source,
            instructions: self.instructions,
            arch: self.arch.map(|arch| arch.name().to_owned()),
            blocks: self.blocks,
            code: self.bytes,
            executions,
            sites: self.sites,
            paths,
            stretches: self.stretches.finish(),
        };
        (profile, self.order.unwrap_or_default())
    }
}
