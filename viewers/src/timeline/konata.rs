//! Konata's log (Kanata 0004), one row per µop.
//!
//! Stages in lane 0, each from its first cycle to the next one's: `Q` in the decode queue, `D`
//! waiting for inputs, `P` waiting for its port, `X` executing, `C` done and waiting to retire. A
//! µop without a port goes from `Q` to `C`. The format wants events in the order of cycles: they
//! are kept until no earlier one can come, which is when the next µop is delivered. Konata knows
//! one clock, so one guest thread is shown; the others are counted.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use super::read::Reader;
use super::{Code, Instruction, Kind, NO_PORT, TimelineError, Uop};
use crate::escape::escape;

/// What was exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Instruction records shown.
    pub records: u64,
    /// Records of other threads.
    pub other_threads: u64,
}

/// Events by cycle that are not written yet.
#[derive(Default)]
struct Pending {
    cycles: BTreeMap<u64, Vec<u8>>,
    spare: Vec<Vec<u8>>,
    now: Option<u64>,
}

impl Pending {
    fn at(&mut self, cycle: u64) -> &mut Vec<u8> {
        let spare = &mut self.spare;
        self.cycles
            .entry(cycle)
            .or_insert_with(|| spare.pop().unwrap_or_default())
    }

    /// Writes what happens before `cycle`.
    fn flush(&mut self, cycle: u64, out: &mut dyn Write) -> io::Result<()> {
        while let Some(first) = self.cycles.first_entry() {
            if *first.key() >= cycle {
                break;
            }
            let (at, mut events) = first.remove_entry();
            match self.now {
                None => writeln!(out, "C=\t{at}")?,
                Some(now) => writeln!(out, "C\t{}", at - now)?,
            }
            self.now = Some(at);
            out.write_all(&events)?;
            events.clear();
            self.spare.push(events);
        }
        Ok(())
    }
}

/// Writes the log of the first thread in the file.
///
/// # Errors
/// [`TimelineError`] of the file or the output.
pub fn write<R: Read>(
    timeline: &mut Reader<R>,
    out: &mut dyn Write,
) -> Result<Exported, TimelineError> {
    out.write_all(b"Kanata\t0004\n")?;
    let mut pending = Pending::default();
    let mut exported = Exported::default();
    let mut thread = None;
    let mut row = 0u64;
    let mut i = Instruction::default();
    while timeline.next(&mut i)? {
        if *thread.get_or_insert(i.thread) != i.thread {
            exported.other_threads += 1;
            continue;
        }
        exported.records += 1;
        pending.flush(i.begin(), out)?;
        if let Some(code) = timeline.code(i.code) {
            for (n, uop) in i.uops.iter().enumerate() {
                add(&mut pending, row, &i, n, uop, code)?;
                row += 1;
            }
        }
    }
    pending.flush(u64::MAX, out)?;
    Ok(exported)
}

fn add(
    pending: &mut Pending,
    row: u64,
    i: &Instruction,
    n: usize,
    uop: &Uop,
    code: &Code,
) -> io::Result<()> {
    let start = pending.at(uop.delivered);
    writeln!(start, "I\t{row}\t{}\t{}", i.number, i.thread)?;
    let text = escape(&code.text);
    match (uop.kind, n) {
        (Kind::StackSync, _) => writeln!(start, "L\t{row}\t0\t(rsp synchronisation for {text})")?,
        (Kind::Merge, _) => writeln!(start, "L\t{row}\t0\t(register merge for {text})")?,
        (Kind::Own, n) if n == i.first_own() => {
            writeln!(start, "L\t{row}\t0\t{:x}: {text}", code.address)?
        }
        (Kind::Own, _) => writeln!(start, "L\t{row}\t0\t{:x}:   … {text}", code.address)?,
    }
    let function = escape(&code.function);
    if uop.port == NO_PORT {
        writeln!(start, "L\t{row}\t1\t{function}, no port")?;
    } else {
        writeln!(start, "L\t{row}\t1\t{function}, port {:X}", uop.port)?;
    }
    for (stage, from, to) in stages(uop) {
        writeln!(pending.at(from), "S\t{row}\t0\t{stage}")?;
        writeln!(pending.at(to), "E\t{row}\t0\t{stage}")?;
    }
    writeln!(pending.at(uop.retired), "R\t{row}\t{row}\t0")
}

/// The stages of a µop that last at least a cycle, with their first cycle and the one after.
fn stages(uop: &Uop) -> impl Iterator<Item = (&'static str, u64, u64)> {
    let all = if uop.port == NO_PORT {
        [
            ("Q", uop.delivered, uop.issued),
            ("C", uop.issued, uop.retired),
            ("", 0, 0),
            ("", 0, 0),
            ("", 0, 0),
        ]
    } else {
        [
            ("Q", uop.delivered, uop.issued),
            ("D", uop.issued, uop.ready),
            ("P", uop.ready, uop.dispatched),
            ("X", uop.dispatched, uop.executed),
            ("C", uop.executed, uop.retired),
        ]
    };
    all.into_iter().filter(|(_, from, to)| from < to)
}
