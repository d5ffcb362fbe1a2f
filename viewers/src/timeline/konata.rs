//! Konata's log (Kanata 0004), one row per µop.
//!
//! Stages in lane 0, each from its first cycle to the next one's: `Q` in the decode queue, `D`
//! waiting for inputs, `P` waiting for its port, `X` executing, `C` done and waiting to retire. A
//! µop without a port goes from `Q` to `C`. On an in-order core a µop issues when `X` begins, and the
//! stage in which it waits for that has the letter of what it waits for where the terminal has one. The format wants events in the order of cycles: they
//! are kept until no earlier one can come, which is when the next µop is delivered.
//!
//! Konata knows one clock, and the cycles of threads say nothing of each other: threads follow one
//! another, each shifted by where the one before ended. A row's thread is the one of the guest.

mod pending;

use std::collections::BTreeSet;
use std::io::{Read, Write};

use self::pending::Pending;
use super::labels::{Append, Labels};
use super::read::Reader;
use super::terminal::letter;
use super::{Code, Header, Instruction, Kind, Late, NO_PORT, TimelineError, Uop};
use crate::escape::escape;

/// A log being written, thread by thread.
pub struct Log<'o> {
    out: &'o mut dyn Write,
    pending: Pending,
    row: u64,
    /// First cycle after the threads so far.
    end: u64,
    /// Cycles by which the thread is shifted.
    shift: u64,
}

/// What a pass over a timeline came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The thread that was written; none in an empty timeline.
    pub thread: Option<u32>,
    /// Its instruction records.
    pub records: u64,
    /// Cycles that were added to its own.
    pub shift: u64,
    /// Other threads in the file.
    pub others: BTreeSet<u32>,
}

impl<'o> Log<'o> {
    /// Begins a log.
    ///
    /// # Errors
    /// What the output says.
    pub fn new(out: &'o mut dyn Write) -> Result<Self, TimelineError> {
        out.write_all(b"Kanata\t0004\n")?;
        Ok(Self {
            out,
            pending: Pending::default(),
            row: 0,
            end: 0,
            shift: 0,
        })
    }

    /// Adds one thread of a timeline: this one, or the first in the file.
    ///
    /// # Errors
    /// [`TimelineError`] of the file or the output.
    pub fn thread<R: Read>(
        &mut self,
        timeline: &mut Reader<R>,
        thread: Option<u32>,
    ) -> Result<Exported, TimelineError> {
        let mut labels = Labels::default();
        let header = timeline.header().clone();
        let mut exported = Exported {
            thread,
            ..Exported::default()
        };
        let mut i = Instruction::default();
        while timeline.next(&mut i)? {
            if *exported.thread.get_or_insert(i.thread) != i.thread {
                exported.others.insert(i.thread);
                continue;
            }
            exported.records += 1;
            let begin = i.begin();
            if exported.records == 1 {
                self.shift = self.end.saturating_sub(begin);
            }
            self.pending
                .flush(begin.saturating_add(self.shift), self.out)?;
            let label = labels.get(i.code, timeline.code(i.code), label);
            for (n, uop) in i.uops.iter().enumerate() {
                self.add(&header, &i, n, uop, label);
            }
        }
        self.end = self.pending.finish(self.out)?;
        exported.shift = self.shift;
        Ok(exported)
    }

    fn add(&mut self, header: &Header, i: &Instruction, n: usize, uop: &Uop, label: &[u8]) {
        let Self {
            pending,
            row,
            shift,
            ..
        } = self;
        let shifted = |cycle: u64| cycle.saturating_add(*shift);
        let start = pending.at(shifted(uop.delivered));
        start.text("I\t").number(*row).text("\t").number(i.number);
        start.text("\t").number(i.thread).text("\nL\t");
        start.number(*row).text(match (uop.kind, n) {
            (Kind::StackSync, _) => "\t0\t(rsp synchronisation) ",
            (Kind::Merge, _) => "\t0\t(register merge) ",
            (Kind::Own, n) if n == i.first_own() => "\t0\t",
            (Kind::Own, _) => "\t0\t… ",
        });
        // Two texts, of which the second is shown when asked for.
        let mut texts = label.splitn(2, |byte| *byte == 0);
        start.extend_from_slice(texts.next().unwrap_or(&[]));
        start.text("\nL\t").number(*row).text("\t1\t");
        start.extend_from_slice(texts.next().unwrap_or(&[]));
        if uop.late != Late::No {
            start.text(", ").text(uop.late.text());
        }
        if uop.port == NO_PORT {
            start.text(", no port\n");
        } else {
            start.text(", port ");
            start.text(&header.port_name(uop.port)).text("\n");
        }
        let letter = letter(uop.late).filter(|_| header.in_order);
        for (stage, from, to) in stages(uop) {
            let stage = letter.filter(|_| stage == 'D').unwrap_or(stage);
            for (event, cycle) in [("S\t", from), ("E\t", to)] {
                let events = pending.at(shifted(cycle));
                events.text(event).number(*row).text("\t0\t");
                events.text(stage.encode_utf8(&mut [0; 4])).text("\n");
            }
        }
        let end = pending.at(shifted(uop.retired));
        end.text("R\t").number(*row).text("\t").number(*row);
        end.text("\t0\n");
        *row += 1;
    }
}

/// Address and text, and after a zero byte the function.
fn label(code: &Code, label: &mut Vec<u8>) {
    let (text, function) = (escape(&code.text), escape(&code.function));
    label.text(&format!("{:x}: {text}\0{function}", code.address));
}

/// The stages of a µop that last at least a cycle, with their first cycle and the one after.
fn stages(uop: &Uop) -> impl Iterator<Item = (char, u64, u64)> {
    let all = if uop.port == NO_PORT {
        [
            ('Q', uop.delivered, uop.issued),
            ('C', uop.issued, uop.retired),
            (' ', 0, 0),
            (' ', 0, 0),
            (' ', 0, 0),
        ]
    } else {
        [
            ('Q', uop.delivered, uop.issued),
            ('D', uop.issued, uop.ready),
            ('P', uop.ready, uop.dispatched),
            ('X', uop.dispatched, uop.executed),
            ('C', uop.executed, uop.retired),
        ]
    };
    all.into_iter().filter(|(_, from, to)| from < to)
}
