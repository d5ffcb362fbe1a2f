//! The timeline in the page: an excerpt of a recorded file as JSON, drawn by `timeline.js`.

use std::io::{self, Read, Write};

use mcad_report::Report;
use mcad_report::block::{Detail, InstructionDetail};
use serde::Serialize;

use crate::escape::{escape, html as esc};
use crate::layout::{grouped, percent};
use crate::timeline::read::Reader;
use crate::timeline::{
    ANY_PORT, Code, Header, Instruction, Kind, Late, NO_PORT, TimelineError, Uop, terminal,
};

/// Most µops: some 40 bytes each in the page.
const MAX_UOPS: usize = 20_000;

/// A µop in the page: number of its instruction, place in the codes, kind, port, cycles, the
/// first one from the excerpt's first and each other from the one before.
type Row = (u64, u32, u8, i8, [u64; 6], u8);

/// The part of a recorded timeline that a page shows: the first µops of one thread.
#[derive(Debug)]
pub struct Excerpt {
    data: Data,
    /// Short name of the CPU.
    cpu: String,
    window: String,
    thread: u32,
    first_cycle: u64,
    /// Instructions that the file has and the excerpt has not.
    left_out: u64,
    /// µop-cycles in each of the states of the legend.
    states: [u64; terminal::STATES.len()],
    /// Those of them, on an in-order core, in which it waited for the front end or for something else, by
    /// what that was.
    waits: [u64; Late::ALL.len()],
}

/// What the script gets.
#[derive(Debug, Default, Serialize)]
struct Data {
    /// First cycle.
    base: u64,
    /// Glyph and meaning of each state.
    states: Vec<(char, &'static str)>,
    /// Address, text, function, whether it is of the hottest block.
    codes: Vec<(String, String, String, bool)>,
    rows: Vec<Row>,
    /// Names of ports.
    ports: Vec<String>,
    /// What may make a µop late, by number.
    late: Vec<&'static str>,
    /// Which of these are the front end.
    front_end: Vec<bool>,
    /// The core issues in order.
    in_order: bool,
    /// The letters of what such a core waits for, by the number of [`Late`]; empty for what has none.
    letters: Vec<Option<char>>,
}

impl Data {
    fn new(in_order: bool) -> Self {
        Self {
            states: terminal::states(in_order).to_vec(),
            late: Late::ALL.iter().map(|late| late.text()).collect(),
            front_end: Late::ALL.iter().map(|late| late.is_front_end()).collect(),
            letters: (Late::ALL.iter())
                .map(|late| terminal::letter(*late).filter(|_| in_order))
                .collect(),
            in_order,
            ..Self::default()
        }
    }
}

impl Excerpt {
    /// Reads a timeline for the page of this report.
    ///
    /// # Errors
    /// [`TimelineError`] when the file is damaged or belongs to another run.
    pub fn read<R: Read>(reader: &mut Reader<R>, report: &Report) -> Result<Self, TimelineError> {
        let header = reader.header().clone();
        let of_model = |c: &&mcad_report::CpuReport| c.cpu == header.cpu;
        let pipeline = report.cpus.iter().filter(|c| c.analysis == "pipeline");
        let cpu = pipeline.clone().find(of_model);
        let hottest = cpu.and_then(|cpu| cpu.blocks.first());
        let hot: Vec<&str> = hottest.map_or_else(Vec::new, |block| {
            block.listing.iter().map(|i| i.address.as_str()).collect()
        });
        let mut excerpt = Self {
            data: Data {
                ports: (0..header.ports.min(NO_PORT.into()))
                    .map(|port| header.port_name(port as u8))
                    .collect(),
                ..Data::new(header.in_order)
            },
            cpu: header.cpu.clone(),
            window: header.window.clone(),
            thread: 0,
            first_cycle: 0,
            left_out: 0,
            states: [0; terminal::STATES.len()],
            waits: [0; Late::ALL.len()],
        };
        let mut numbers = std::collections::HashMap::new();
        let mut before = None;
        let mut i = Instruction::default();
        while reader.next(&mut i)? {
            if excerpt.data.rows.is_empty() {
                excerpt.thread = i.thread;
                excerpt.first_cycle = i.begin();
                excerpt.data.base = i.begin();
            }
            let full = excerpt.data.rows.len() + i.uops.len() > MAX_UOPS;
            if i.thread != excerpt.thread || excerpt.left_out > 0 || full {
                excerpt.left_out += 1;
                continue;
            }
            let codes = &mut excerpt.data.codes;
            let code = *numbers.entry(i.code).or_insert_with(|| {
                codes.push(shown(reader.code(i.code), &hot));
                codes.len() as u32 - 1
            });
            for (n, uop) in i.uops.iter().enumerate() {
                let first = terminal::first_cycle(&header, uop, before);
                before = Some(terminal::turn(&header, uop));
                excerpt.count(uop, first);
                let kind = kind_of(&i, n, uop);
                let row = row(i.number, kind, uop, code, excerpt.first_cycle);
                excerpt.data.rows.push(row);
            }
        }
        let cycles = reader.end().map_or(0, |end| end.cycles);
        match cpu {
            Some(cpu) if cpu.cycles == cycles => Ok(excerpt),
            Some(cpu) => Err(TimelineError::OtherRun {
                cycles,
                report: cpu.cycles,
            }),
            None => Err(TimelineError::OtherCpu(escape(&header.cpu).into_owned())),
        }
    }

    /// The first iterations of a block; none where there is no timeline.
    pub(super) fn of_block(d: &Detail) -> Option<Self> {
        let hot = |n: u32| {
            let steps = d.chain.iter().flat_map(|chain| &chain.steps);
            steps.into_iter().any(|step| step.instruction == n)
        };
        let code = |(n, i): (u32, &InstructionDetail)| {
            let offset = format!("+{:#x}", i.offset);
            (offset, escape(&i.text).into_owned(), String::new(), hot(n))
        };
        let header = Header {
            in_order: d.in_order,
            ..Header::default()
        };
        let mut excerpt = Self {
            data: Data {
                codes: (0..).zip(&d.instructions).map(code).collect(),
                ports: d.port_names.clone(),
                ..Data::new(header.in_order)
            },
            cpu: d.cpu.clone(),
            window: String::new(),
            thread: 0,
            first_cycle: 0,
            left_out: 0,
            states: [0; terminal::STATES.len()],
            waits: [0; Late::ALL.len()],
        };
        let mut before = None;
        let mut last = None;
        for t in d.timeline.iter().take(MAX_UOPS) {
            let place = (t.iteration, t.instruction);
            let kind = match t.inserted {
                true => 2,
                false if last == Some(place) => 1,
                false => {
                    last = Some(place);
                    0
                }
            };
            let uop = Uop::from(t);
            let first = terminal::first_cycle(&header, &uop, before);
            before = Some(terminal::turn(&header, &uop));
            excerpt.count(&uop, first);
            let count = d.instructions.len() as u64;
            let number = u64::from(t.iteration) * count + u64::from(t.instruction);
            let row = row(number, kind, &uop, t.instruction, 0);
            excerpt.data.rows.push(row);
        }
        (!excerpt.data.rows.is_empty()).then_some(excerpt)
    }

    /// Counts the cycles of a µop drawn from `first`.
    fn count(&mut self, uop: &Uop, first: u64) {
        let cycles = terminal::cycles(uop, first);
        for (sum, cycles) in self.states.iter_mut().zip(cycles) {
            *sum += cycles;
        }
        let late = Late::ALL.iter().position(|late| *late == uop.late);
        let waits = late.and_then(|late| self.waits.get_mut(late));
        if let Some(waits) = waits.filter(|_| self.data.in_order) {
            for (state, cycles) in (self.data.states.iter()).zip(cycles) {
                *waits += if matches!(state.0, '.' | '=') {
                    cycles
                } else {
                    0
                };
            }
        }
    }

    /// The legend: class, glyph, meaning and µop-cycles of what occurs. Of an in-order core each thing that
    /// it waits for stands for itself.
    fn legend(&self) -> Vec<(usize, char, &'static str, u64)> {
        let mut all = Vec::new();
        for (class, ((glyph, meaning), cycles)) in
            (self.data.states.iter()).zip(self.states).enumerate()
        {
            let mut left = cycles;
            if matches!(glyph, '.' | '=') {
                for (late, cycles) in Late::ALL.into_iter().zip(self.waits) {
                    let here = late.is_front_end() == (*glyph == '.');
                    if let Some(letter) = terminal::letter(late).filter(|_| here && cycles > 0) {
                        all.push((class, letter, late.text(), cycles));
                        left = left.saturating_sub(cycles);
                    }
                }
            }
            if left > 0 {
                all.push((class, *glyph, *meaning, left));
            }
        }
        all
    }

    pub(super) fn section(&self, out: &mut dyn Write) -> io::Result<()> {
        let title = match self.window.as_str() {
            window if window.starts_with("hottest") => "around the hottest block".to_owned(),
            window => esc(window),
        };
        writeln!(
            out,
            "<section id=\"timeline\"><h2>Timeline <small>{title}, on {}</small></h2>",
            esc(&self.cpu)
        )?;
        self.chart(out)?;
        writeln!(out, "</section>")
    }

    /// The legend, the chart and its data.
    pub(super) fn chart(&self, out: &mut dyn Write) -> io::Result<()> {
        let total: u64 = self.states.iter().sum();
        writeln!(out, "<ul class=\"legend states\">")?;
        // What occurs nowhere needs no explanation.
        for (class, glyph, meaning, cycles) in self.legend() {
            writeln!(
                out,
                "<li><i class=\"s{class}\">{}</i><span>{meaning}</span> <b>{}</b></li>",
                esc(&glyph.to_string()),
                percent(cycles, total)
            )?;
        }
        writeln!(
            out,
            "</ul>\n<div class=\"timeline\" data-ready=\"false\"><div class=\"bar-of-tools\">\
             <button type=\"button\" data-do=\"in\" aria-label=\"Zoom in\">+</button>\
             <button type=\"button\" data-do=\"out\" aria-label=\"Zoom out\">−</button>\
             <button type=\"button\" data-do=\"fit\">Whole</button>\
             <button type=\"button\" data-do=\"hot\">Middle</button>\
             <output></output></div>\
             <canvas class=\"map\" height=\"56\" aria-hidden=\"true\"></canvas>\
             <canvas class=\"chart\" tabindex=\"0\" role=\"img\" aria-label=\"Pipeline timeline: a \
             row per µop, a column per cycle. Arrow keys move, plus and minus zoom, 0 shows \
             everything.\"></canvas><div class=\"tip\" role=\"tooltip\" hidden></div></div>\n\
             <p class=\"dim\">A row is a µop, a column a cycle; shares are of the µops' cycles. \
             Drag to move; wheel (after a click, or with Ctrl), pinch, double click or + and − to \
             zoom; drag along the cycle numbers to zoom into them; arrow keys follow the \
             program, 0 shows everything.{}</p>\n<noscript><p class=\"warn\">The timeline needs \
             scripts.</p></noscript>",
            if self.left_out > 0 {
                format!(
                    " {} more instructions of the recorded window are not in this page: `mcad \
                     view` shows the whole file.",
                    grouped(self.left_out)
                )
            } else {
                String::new()
            }
        )?;
        let json = serde_json::to_string(&self.data)?;
        writeln!(
            out,
            "<script type=\"application/json\" class=\"timeline-data\">{}</script>",
            embedded(&json)
        )
    }
}

/// JSON that may stand in a script element: no `<` ends or opens anything.
fn embedded(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

fn shown(code: Option<&Code>, hot: &[&str]) -> (String, String, String, bool) {
    let Some(code) = code else {
        return Default::default();
    };
    let address = format!("{:#x}", code.address);
    let is_hot = hot.contains(&address.as_str());
    let text = escape(&code.text).into_owned();
    (address, text, escape(&code.function).into_owned(), is_hot)
}

/// What µop `n` of an instruction is, by number.
fn kind_of(i: &Instruction, n: usize, uop: &Uop) -> u8 {
    match uop.kind {
        Kind::StackSync => 2,
        Kind::Merge => 3,
        Kind::Own if n != i.first_own() => 1,
        Kind::Own if i.pair => 4,
        Kind::Own => 0,
    }
}

/// A µop of an instruction of this number.
fn row(number: u64, kind: u8, uop: &Uop, code: u32, base: u64) -> Row {
    let port = match uop.port {
        NO_PORT => -1,
        ANY_PORT => -2,
        port => port as i8,
    };
    let stamps = [
        uop.delivered,
        uop.issued,
        uop.ready,
        uop.dispatched,
        uop.executed,
        uop.retired,
    ];
    let mut before = base;
    let steps = stamps.map(|stamp| {
        let step = stamp.saturating_sub(before);
        before = stamp.max(before);
        step
    });
    let late = Late::ALL.iter().position(|late| *late == uop.late);
    (number, code, kind, port, steps, late.unwrap_or(0) as u8)
}
