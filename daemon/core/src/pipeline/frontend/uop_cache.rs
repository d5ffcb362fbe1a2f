//! The µop cache ("DSB"): placement of µops into lines, capacity, and delivery.
//!
//! Placement after Agner Fog's microarchitecture manual, section 9.3, and uiCA: lines of six
//! entries, an instruction does not straddle lines, a large immediate takes an extra entry, a
//! microcoded instruction ends a line; so many lines per block of code. Delivery and the pairing
//! of lines in one cycle follow uiCA.

mod by_lines;
pub mod contents;
pub mod groups;
pub mod pack;
pub mod refills;

use super::microcode::Microcode;
use super::target::Target;
use crate::pipeline::inst::Source;
use crate::pipeline::observer::{Delivery, Observer};
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::LinePairing;
use pack::{Entry, Line, NO_UOP};

/// Delivery from the µop cache.
#[derive(Debug, Default)]
pub struct UopCacheDelivery {
    /// It delivered an entry of double size in the last cycle.
    delayed: bool,
    /// Where the last taken branch led, once that is known.
    target: Option<u64>,
    /// What delivery by lines goes on with.
    by_lines: by_lines::State,
}

/// How far a cycle of delivery has come.
struct Cycle<'a> {
    /// Entries that have not been delivered.
    rest: &'a [Entry],
    /// The line that they come from.
    line: Line,
    /// Number behind the last instruction that is fetched.
    fetchable: u64,
    /// Fused µops that may still be delivered.
    remaining: u32,
    /// Entries delivered.
    delivered: u32,
    /// The cycle began at the start of a line.
    new_line: bool,
    /// It has gone on to a second line.
    second_line: bool,
    /// Number of the instruction that the last entry was of.
    last: Option<u64>,
}

impl UopCacheDelivery {
    /// One cycle.
    #[inline]
    pub fn cycle<O: Observer>(&mut self, t: &mut Target<'_, O>, microcode: &mut Microcode) {
        if t.p.uop_cache_lines_per_cycle > 0 {
            self.by_lines.cycle(t, microcode);
            return;
        }
        let Some(&line) = t.queue.lines.front() else {
            return;
        };
        // Nobody else looks at them before the cycle ends.
        let mut entries = std::mem::take(&mut t.queue.entries);
        let all = entries.all();
        if t.p.uop_cache_blocks_once && self.target.is_none() {
            self.target = all.first().map(|e| e.address);
        }
        let mut c = Cycle {
            rest: all,
            line,
            fetchable: t.queue.fetchable(),
            remaining: t.p.uop_cache_width,
            delivered: 0,
            new_line: all.first().is_some_and(|e| e.slot == 0),
            second_line: false,
            last: None,
        };
        self.entries(&mut c, t, microcode);
        let (gone, left) = (all.len() - c.rest.len(), c.line.left);
        entries.pop(gone);
        t.queue.entries = entries;
        if left > 0
            && let Some(line) = t.queue.lines.front_mut()
        {
            line.left = left;
        }
    }

    /// Delivers entries as long as the cycle takes them.
    #[inline]
    fn entries<O: Observer>(
        &mut self,
        c: &mut Cycle<'_>,
        t: &mut Target<'_, O>,
        microcode: &mut Microcode,
    ) {
        let delayed = std::mem::take(&mut self.delayed);
        while c.remaining > 0 {
            if c.line.left == 0 && !c.load_second_line(t) {
                return;
            }
            let entry = match Self::deliver_usual(c, t) {
                Some(last) => last,
                None => {
                    let Some((entry, rest)) = c.rest.split_first() else {
                        return;
                    };
                    if !self.deliver(c, t, entry, microcode) {
                        return;
                    }
                    c.rest = rest;
                    c.line.left -= 1;
                    entry
                }
            };
            if c.line.left == 0 {
                t.queue.lines.pop(1);
            }
            if entry.leaves() {
                // A line is not read twice in a cycle.
                let again = c.rest.first().is_some_and(|next| {
                    next.shares_block(entry, t.p) && next.address <= entry.address
                });
                let follows = t.p.uop_cache_follows_taken && !again;
                let ends = t.p.uop_cache_taken_ends_cycle && !follows;
                if ends || (t.p.uop_cache_blocks_once && (again | self.turns(c.rest.first()))) {
                    return;
                }
            }
            if c.line.left == 0 && c.remaining > 0 {
                c.end_line(t, entry, delayed);
            }
        }
    }

    /// Whether a taken branch leads to where the one before it led, which begins another turn of a loop.
    fn turns(&mut self, next: Option<&Entry>) -> bool {
        let target = next.map(|next| next.address);
        target == std::mem::replace(&mut self.target, target) && target.is_some()
    }

    /// Delivers as much of a usual line as the cycle takes, up to where control goes elsewhere;
    /// returns the last entry. `None`, and nothing has happened, where more must be looked at.
    #[inline(always)]
    fn deliver_usual<'a, O: Observer>(
        c: &mut Cycle<'a>,
        t: &mut Target<'_, O>,
    ) -> Option<&'a Entry> {
        if !c.line.usual {
            return None;
        }
        let (mut count, mut left) = (0, c.remaining);
        for entry in c.rest.get(..usize::from(c.line.left))? {
            let width = u32::from(entry.width);
            if width > left && c.delivered + count > 0 {
                break;
            }
            left = left.saturating_sub(width);
            count += 1;
            if left == 0 || entry.leaves() {
                break;
            }
        }
        let (now, rest) = c.rest.split_at(count as usize);
        let last = now.last()?;
        let number = c.line.from + u64::from(last.number);
        if number >= c.fetchable {
            return None;
        }
        for entry in now {
            let number = c.line.from + u64::from(entry.number);
            let from = Delivery::Of(Source::UopCache);
            t.deliver_here(number, entry.laminated, entry.place, from);
        }
        c.delivered += count;
        c.remaining = left;
        c.line.left -= count as u8;
        c.last = Some(number);
        c.rest = rest;
        Some(last)
    }

    /// Delivers an entry, unless it does not fit into the cycle.
    #[inline(never)]
    fn deliver<O: Observer>(
        &mut self,
        c: &mut Cycle<'_>,
        t: &mut Target<'_, O>,
        entry: &Entry,
        microcode: &mut Microcode,
    ) -> bool {
        let number = c.line.from + u64::from(entry.number);
        let width = u32::from(entry.width);
        if number >= c.fetchable || (width > c.remaining && c.delivered > 0) {
            return false;
        }
        if entry.extra && c.remaining < 2 {
            return false;
        }
        c.last = Some(number);
        if entry.laminated != NO_UOP {
            let from = Delivery::Of(Source::UopCache);
            t.deliver(number, entry.laminated, entry.place, from);
            c.delivered += 1;
            c.remaining = c.remaining.saturating_sub(width);
            if entry.extra {
                c.remaining = 0;
                self.delayed = true;
            }
        }
        if entry.microcode {
            microcode.start(entry.rest(), t.p.uop_cache_to_microcode_stall, 0);
            c.remaining = 0;
        }
        true
    }
}

impl Cycle<'_> {
    /// Goes on to the next line, if one can be delivered from in the same cycle.
    fn load_second_line<O: Observer>(&mut self, t: &Target<'_, O>) -> bool {
        let Some(&next) = t.queue.lines.front() else {
            return false;
        };
        let last = usize::from(next.left).saturating_sub(1);
        let ends_in_microcode = self.rest.get(last).is_some_and(|e| e.microcode);
        if self.second_line || ends_in_microcode {
            return false;
        }
        self.second_line = true;
        self.line = next;
        // It must be next in the program; the decoders may come in between.
        let first = self.rest.first().map(|e| next.from + u64::from(e.number));
        first.is_some() && first == self.last.map(|last| t.next_number(last))
    }

    /// What of the cycle is left for another line behind a line's last entry.
    fn end_line<O: Observer>(&mut self, t: &Target<'_, O>, entry: &Entry, delayed: bool) {
        let pairing = t.p.uop_cache_pairing;
        let next = self.rest.first();
        let Some(next) = next.filter(|_| pairing != LinePairing::Free) else {
            return;
        };
        let same_block = next.shares_block(entry, t.p);
        let ends_body = entry.taken;
        if pairing == LinePairing::CountedInBody && same_block && ends_body && !delayed {
            self.remaining = 0;
        } else if !same_block && self.new_line {
            self.remaining = match self.delivered {
                1 | 2 => 4,
                3 | 4 => 2,
                5 => 1,
                _ => self.remaining,
            };
        } else if !same_block && ends_body {
            let few = self.delivered == 1 || (self.delivered == 2 && entry.slot >= 4);
            self.remaining = if few { 4 } else { self.remaining.min(2) };
        }
    }
}

impl Part for UopCacheDelivery {
    fn reset(&mut self, _: &Moment) {
        *self = Self::default();
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            delayed,
            target,
            by_lines,
        } = self;
        by_lines.fingerprint(at, h);
        h.add(u64::from(*delayed));
        h.add(target.unwrap_or_default());
    }
}
