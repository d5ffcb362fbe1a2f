//! Events that are not written yet, by cycle.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::timeline::labels::Append;

/// Cycles ahead that have a place of their own; what is in flight rarely reaches further.
const AHEAD: u64 = 1 << 12;

/// Events by cycle.
pub(super) struct Pending {
    /// First cycle that is not written.
    base: u64,
    /// Events of [`AHEAD`] cycles from `base` on, each at the cycle's remainder.
    near: Vec<Vec<u8>>,
    /// Events of later cycles.
    far: BTreeMap<u64, Vec<u8>>,
    /// The cycle written last.
    now: Option<u64>,
    /// The last cycle that has events.
    last: u64,
    line: Vec<u8>,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            base: 0,
            near: vec![Vec::new(); AHEAD as usize],
            far: BTreeMap::new(),
            now: None,
            last: 0,
            line: Vec::new(),
        }
    }
}

impl Pending {
    /// Where to add events of a cycle. What is before all that may still be written, which no
    /// core gives, happens now.
    pub(super) fn at(&mut self, cycle: u64) -> &mut Vec<u8> {
        let cycle = cycle.max(self.base);
        self.last = self.last.max(cycle);
        if cycle - self.base < AHEAD
            && let Some(events) = self.near.get_mut((cycle % AHEAD) as usize)
        {
            return events;
        }
        self.far.entry(cycle).or_default()
    }

    /// Writes what happens before `cycle`.
    pub(super) fn flush(&mut self, cycle: u64, out: &mut dyn Write) -> io::Result<()> {
        let near = cycle.min(self.base.saturating_add(AHEAD));
        while self.base < near {
            let at = self.base;
            if self
                .far
                .first_key_value()
                .is_some_and(|(far, _)| *far == at)
                && let Some((_, events)) = self.far.pop_first()
            {
                self.write(at, &events, out)?;
            }
            if let Some(place) = self.near.get_mut((at % AHEAD) as usize)
                && !place.is_empty()
            {
                let mut events = std::mem::take(place);
                self.write(at, &events, out)?;
                events.clear();
                // Its memory is used again.
                if let Some(place) = self.near.get_mut((at % AHEAD) as usize) {
                    *place = events;
                }
            }
            self.base += 1;
        }
        while let Some(first) = self.far.first_entry() {
            if *first.key() >= cycle {
                break;
            }
            let (at, events) = first.remove_entry();
            self.write(at, &events, out)?;
        }
        self.base = self.base.max(cycle);
        Ok(())
    }

    /// Writes everything; gives the first cycle without events.
    pub(super) fn finish(&mut self, out: &mut dyn Write) -> io::Result<u64> {
        let end = self.last.saturating_add(1);
        self.flush(end, out)?;
        Ok(end)
    }

    fn write(&mut self, at: u64, events: &[u8], out: &mut dyn Write) -> io::Result<()> {
        self.line.clear();
        match self.now {
            None => self.line.text("C=\t").number(at),
            Some(now) if now < at => self.line.text("C\t").number(at - now),
            Some(_) => &mut self.line,
        };
        if !self.line.is_empty() {
            self.line.text("\n");
            out.write_all(&self.line)?;
        }
        self.now = Some(at);
        out.write_all(events)
    }
}
