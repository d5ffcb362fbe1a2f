//! Chrome's trace events (JSON), for Perfetto and `chrome://tracing`. One cycle is shown as one
//! microsecond.
//!
//! A guest thread is a process. Its instructions in flight overlap without nesting, which the
//! format has no track for, so each goes to the first of the thread's lanes that is free when it
//! is delivered: slices of one lane never overlap. One more lane shows the functions by retirement;
//! counters show instructions per cycle and the µops between issue and retirement. The exact cycles
//! of all µops are among a slice's arguments. An in-order core has one lane more: what kept the oldest
//! instruction from issuing, one slice for each that waited.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};

use serde::Serialize;

use super::labels::{Append, Labels};
use super::read::Reader;
use super::{ANY_PORT, Code, Header, Instruction, Late, NO_PORT, TimelineError, terminal};
use crate::escape::json;

/// Cycles between two values of a counter.
const BUCKET: u64 = 32;

/// Lane of the functions.
const FUNCTIONS: u32 = 0;

/// Lane of what an in-order core waits for.
const STALLS: u32 = 1;

/// What was exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Slices of instructions.
    pub instructions: u64,
    /// Slices of functions.
    pub functions: u64,
    /// Lanes of instructions over all threads.
    pub lanes: u64,
    /// Slices of what an in-order core waited for.
    pub stalls: u64,
}

#[derive(Serialize)]
struct Slice<'a> {
    name: &'a str,
    cat: &'static str,
    ph: &'static str,
    ts: u64,
    dur: u64,
    pid: u32,
    tid: u32,
    args: First,
}

#[derive(Serialize)]
struct First {
    number: u64,
}

#[derive(Serialize)]
struct Meta<'a> {
    name: &'static str,
    ph: &'static str,
    pid: u32,
    tid: u32,
    args: Name<'a>,
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct Counter {
    name: &'static str,
    ph: &'static str,
    ts: u64,
    pid: u32,
    args: Value,
}

#[derive(Serialize)]
struct Value {
    value: f64,
}

/// A function that retires instructions.
struct Span {
    function: String,
    first: u64,
    begin: u64,
    end: u64,
}

#[derive(Default)]
struct Thread {
    /// Cycle from which each lane is free.
    lanes: Vec<u64>,
    span: Option<Span>,
    /// Cycle in which the last instruction retired.
    retired: u64,
    /// Instructions retired, and µops issued and retired, by bucket.
    buckets: BTreeMap<u64, [u64; 3]>,
    in_flight: i128,
    after: Option<u64>,
    /// Cycle of the last issue on an in-order core.
    turn: Option<u64>,
}

struct Events<'o> {
    out: &'o mut dyn Write,
    any: bool,
    line: Vec<u8>,
}

impl Events<'_> {
    fn write(&mut self, event: &impl Serialize) -> io::Result<()> {
        self.out.write_all(if self.any { b",\n" } else { b"\n" })?;
        self.any = true;
        json::compact(self.out, event).map_err(Into::into)
    }

    /// Writes the slice of an instruction. By hand: these are nearly all of a file, and with
    /// serde they take twice the time.
    fn instruction(&mut self, i: &Instruction, lane: u32, label: &[u8]) -> io::Result<()> {
        let (begin, end) = (i.begin(), i.retired[1].saturating_add(1));
        let line = &mut self.line;
        line.clear();
        line.text(if self.any { ",\n" } else { "\n" });
        self.any = true;
        line.text("{\"name\":");
        // The name, and after a zero byte what is the same among the arguments.
        let mut texts = label.splitn(2, |byte| *byte == 0);
        line.extend_from_slice(texts.next().unwrap_or(b"\"\""));
        line.text(",\"cat\":\"instruction\",\"ph\":\"X\",\"ts\":");
        line.number(begin).text(",\"dur\":").number(end - begin);
        line.text(",\"pid\":").number(i.thread);
        line.text(",\"tid\":").number(lane);
        line.text(",\"args\":{\"number\":").number(i.number);
        line.extend_from_slice(texts.next().unwrap_or(&[]));
        for uop in i.uops.iter().filter(|uop| uop.late != Late::No).take(1) {
            line.text(",\"late\":\"").text(uop.late.text()).text("\"");
        }
        line.text(",\"uops\":[");
        for (n, uop) in i.uops.iter().enumerate() {
            line.text(if n == 0 { "[" } else { ",[" });
            match uop.port {
                NO_PORT | ANY_PORT => line.text("-1"),
                port => line.number(port),
            };
            for (n, cycle) in [
                uop.delivered,
                uop.issued,
                uop.ready,
                uop.dispatched,
                uop.executed,
                uop.retired,
            ]
            .into_iter()
            .enumerate()
            {
                line.text(if n == 0 { ",[" } else { "," }).number(cycle);
            }
            line.text("]]");
        }
        line.text("]}}");
        self.out.write_all(line)
    }
}

/// A code's name, and after a zero byte its address and function, all as JSON. Nothing of JSON is
/// a zero byte.
fn label(code: &Code, label: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let json = |text: &String, label: &mut Vec<u8>| drop(json::compact(label, text));
    json(&code.text, label);
    label.text(&format!("\0,\"address\":\"{:#x}\"", code.address));
    if !code.function.is_empty() {
        label.text(",\"function\":");
        json(&code.function, label);
    }
}

/// Writes the trace of all threads.
///
/// # Errors
/// [`TimelineError`] of the file or the output.
pub fn write<R: Read>(
    timeline: &mut Reader<R>,
    out: &mut dyn Write,
) -> Result<Exported, TimelineError> {
    let header = timeline.header().clone();
    let data = serde_json::to_string(&header).map_err(io::Error::from)?;
    write!(out, "{{\"otherData\":{data},\"traceEvents\":[")?;
    let first_lane = if header.in_order { STALLS } else { FUNCTIONS } + 1;
    let mut events = Events {
        out,
        any: false,
        line: Vec::new(),
    };
    let mut labels = Labels::default();
    let mut exported = Exported::default();
    let mut threads: HashMap<u32, Thread> = HashMap::new();
    let mut i = Instruction::default();
    let unknown = Code::default();
    while timeline.next(&mut i)? {
        let code = timeline.code(i.code).unwrap_or(&unknown);
        if !threads.contains_key(&i.thread) {
            name(
                &mut events,
                "process_name",
                i.thread,
                0,
                &format!("thread {}", i.thread),
            )?;
            name(&mut events, "thread_name", i.thread, FUNCTIONS, "functions")?;
            if header.in_order {
                name(
                    &mut events,
                    "thread_name",
                    i.thread,
                    STALLS,
                    "waits to issue",
                )?;
            }
        }
        let thread = threads.entry(i.thread).or_default();
        let begin = i.begin();
        thread.count(&i, header.in_order);
        if header.in_order {
            exported.stalls += thread.stalls(&header, &i, &mut events)?;
        }
        exported.functions += thread.functions(&i, code, &mut events)?;
        thread.counters(i.thread, begin, &mut events)?;
        let lane = match thread.lanes.iter().position(|free| *free <= begin) {
            Some(lane) => lane,
            None => {
                let lane = thread.lanes.len();
                let text = format!("in flight {}", lane + 1);
                let number = lane as u32 + first_lane;
                name(&mut events, "thread_name", i.thread, number, &text)?;
                thread.lanes.push(0);
                exported.lanes += 1;
                lane
            }
        };
        let end = i.retired[1].saturating_add(1);
        if let Some(free) = thread.lanes.get_mut(lane) {
            *free = end;
        }
        exported.instructions += 1;
        let number = lane as u32 + first_lane;
        events.instruction(&i, number, labels.get(i.code, Some(code), label))?;
    }
    let mut rest: Vec<(u32, Thread)> = threads.into_iter().collect();
    rest.sort_by_key(|(number, _)| *number);
    for (number, mut thread) in rest {
        exported.functions += thread.end_span(number, &mut events)?;
        thread.counters(number, u64::MAX, &mut events)?;
    }
    out.write_all(b"\n]}\n")?;
    Ok(exported)
}

fn name(
    events: &mut Events<'_>,
    what: &'static str,
    pid: u32,
    tid: u32,
    name: &str,
) -> io::Result<()> {
    events.write(&Meta {
        name: what,
        ph: "M",
        pid,
        tid,
        args: Name { name },
    })
}

impl Thread {
    /// Counts an instruction. On an in-order core it is in flight from when it starts.
    fn count(&mut self, i: &Instruction, in_order: bool) {
        let bucket = |cycle: u64| cycle / BUCKET;
        let retired = self.buckets.entry(bucket(i.retired[1])).or_default();
        retired[0] += 1 + u64::from(i.pair);
        for uop in &i.uops {
            let issued = if in_order { uop.dispatched } else { uop.issued };
            self.buckets.entry(bucket(issued)).or_default()[1] += 1;
            self.buckets.entry(bucket(uop.retired)).or_default()[2] += 1;
        }
    }

    /// Writes what an in-order core waited for until an instruction issued, and returns the slices. They
    /// never overlap: it is the oldest one from the issue of the one before on.
    fn stalls(
        &mut self,
        header: &Header,
        i: &Instruction,
        events: &mut Events<'_>,
    ) -> io::Result<u64> {
        let mut written = 0;
        for uop in &i.uops {
            let before = self.turn.replace(terminal::turn(header, uop));
            let begin = terminal::first_cycle(header, uop, before);
            let dur = uop.dispatched.saturating_sub(begin);
            if uop.late == Late::No || dur == 0 {
                continue;
            }
            written += 1;
            events.write(&Slice {
                name: uop.late.text(),
                cat: "wait",
                ph: "X",
                ts: begin,
                dur,
                pid: i.thread,
                tid: STALLS,
                args: First { number: i.number },
            })?;
        }
        Ok(written)
    }

    /// Writes the counters of buckets to which nothing after `cycle` can add. A bucket without
    /// events after one with some has its value too, so that no old value stays on the screen.
    fn counters(&mut self, pid: u32, cycle: u64, events: &mut Events<'_>) -> io::Result<()> {
        while let Some(entry) = self.buckets.first_entry() {
            let bucket = *entry.key();
            if (bucket + 1) * BUCKET > cycle {
                break;
            }
            let [instructions, issued, retired] = entry.remove();
            if let Some(after) = self.after.filter(|after| *after < bucket) {
                self.counter(pid, after, 0.0, events)?;
            }
            self.in_flight += i128::from(issued) - i128::from(retired);
            self.counter(pid, bucket, instructions as f64 / BUCKET as f64, events)?;
            self.after = Some(bucket + 1);
        }
        Ok(())
    }

    fn counter(&self, pid: u32, bucket: u64, ipc: f64, events: &mut Events<'_>) -> io::Result<()> {
        for (name, value) in [("IPC", ipc), ("µops in flight", self.in_flight as f64)] {
            events.write(&Counter {
                name,
                ph: "C",
                ts: bucket * BUCKET,
                pid,
                args: Value { value },
            })?;
        }
        Ok(())
    }

    /// Goes on with the function of `i` or begins it; returns the slices written.
    fn functions(
        &mut self,
        i: &Instruction,
        code: &Code,
        events: &mut Events<'_>,
    ) -> io::Result<u64> {
        let end = i.retired[1];
        let mut written = 0;
        match &mut self.span {
            Some(span) if span.function == code.function => span.end = end,
            _ => {
                written = self.end_span(i.thread, events)?;
                let begin = if self.retired == 0 {
                    i.begin()
                } else {
                    self.retired
                };
                self.span = Some(Span {
                    function: code.function.clone(),
                    first: i.number,
                    begin,
                    end,
                });
            }
        }
        self.retired = end;
        Ok(written)
    }

    fn end_span(&mut self, pid: u32, events: &mut Events<'_>) -> io::Result<u64> {
        let Some(span) = self.span.take() else {
            return Ok(0);
        };
        // A function that retires in the cycle of the one before takes no time of its own.
        if span.end <= span.begin {
            return Ok(0);
        }
        let shown = if span.function.is_empty() {
            "[unknown]"
        } else {
            &span.function
        };
        events.write(&Slice {
            name: shown,
            cat: "function",
            ph: "X",
            ts: span.begin,
            dur: span.end - span.begin,
            pid,
            tid: FUNCTIONS,
            args: First { number: span.first },
        })?;
        Ok(1)
    }
}
