//! Throughput of a block on this CPU, in the two notions of Abel and Reineke (uiCA, ICS 2022,
//! section 6.1): *unrolled*, from r and 2r copies end to end, and *loop*, from 10 000 and 20 000
//! iterations; the difference is free of what surrounds the block.
//!
//! A round is one uninterrupted program: calibrating chains, runs of the shorter and of the longer
//! code, the chains again. Rounds during which the core clock drifted are repeated. Of unrolled code the
//! result is the median over rounds, with their interquartile range. Of loops it is what the least of
//! all runs of the two codes differ by, once several rounds have found it: whether a loop runs at its full rate
//! may depend on how it began (eight loads on Zen 5: 2.00 cycles in one run of ten, 2.05 in the others),
//! and neighbours only slow it down. Either is taken at that of several places of the code where it is
//! least, loops in several processes, too: some run at one of two rates and keep to it in a process.

mod minima;
mod places;
mod runs;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use minima::{MAX_LOOP_ROUNDS, Minima};
use places::{DISTANCE, Places};
pub(crate) use runs::steady;
use runs::{chains, least, rate};

use crate::accesses::Watch;
use crate::cell::{Cell, CellError, RunError, Sandbox, layout::control};
use crate::clock::{Quartiles, Source};
use crate::code::{Body, CodeBuffer, Loop, Timer, TooLarge};
use crate::fetch;
use crate::init::{Init, REGISTERS};
use crate::prefetched;
use crate::reject::Reject;
use crate::screen::{Refusal, Screened};

/// Which notion of throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Notion {
    /// Copies end to end in memory.
    Unrolled,
    /// A loop.
    Loop,
}

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Registers and memory at the start.
    pub init: Init,
    /// What to do without seccomp.
    pub sandbox: Sandbox,
    /// Keep blocks that cross cache lines, and those that may alias.
    pub unfiltered: bool,
}

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Measured {
    /// Core cycles per block.
    pub cycles: f64,
    /// Interquartile range over rounds, in cycles per block.
    pub spread: f64,
    /// Rounds that the figure rests on.
    pub rounds: usize,
    /// Rounds that were thrown away because the core clock drifted, or only one code was disturbed.
    pub drifted: usize,
}

/// Cells that are tried for comparison at the start, and in a row before one is taken as it is.
const REFERENCE_CELLS: u32 = 3;
const MAX_CELLS: u32 = 16;
/// Cells in which a loop is measured, at most: some run at one of two rates, and keep to it in a process.
const CELLS: usize = 4;
/// MXCSR with flush-to-zero and denormals-are-zero, all exceptions masked.
pub(crate) const MXCSR: u32 = 0x9fc0;
/// Instructions of the shorter unrolled code: at least, and where it fits.
const LEAST_INSTRUCTIONS: u32 = 500;
const WANTED_INSTRUCTIONS: u32 = 4000;
/// Bytes of the shorter unrolled code; both stay in a first-level instruction cache of 32 KiB.
const WANTED_BYTES: u32 = 10_000;
/// Iterations of the shorter loop.
const ITERATIONS: u32 = 10_000;
/// Iterations of generated loops, whose body is long.
const GENERATED_ITERATIONS: u32 = 500;
/// The same for slow ones.
const MIN_GENERATED_ITERATIONS: u64 = 10;
/// Time after which no block is tried any further.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of r15.
const R15: u8 = 15;
/// Instructions that are run one at a time to see their addresses, but at least three copies.
const WATCHED: u32 = 48;
/// Rounds at least and at most.
const ROUNDS: usize = 5;
const MAX_ROUNDS: usize = 21;
/// Times that an unsteady block is measured again from the beginning.
const RETRIES: u32 = 2;
/// Rounds in which the clock drifted, at most.
const MAX_DRIFTED: usize = 200;
/// Drift of the core clock within a round that spoils it.
const DRIFT: f64 = 0.004;
/// Interquartile range over the median up to which a figure is taken at once, and at all.
const STEADY: f64 = 0.005;
const UNSTEADY: f64 = 0.03;
/// Ticks for the runs of one round.
const BUDGET: u64 = 400_000;
/// Runs of one code in a round.
const MIN_RUNS: u64 = 3;
const MAX_RUNS: u64 = 300;
/// Cells, kept for as long as measured code leaves them whole.
#[derive(Debug)]
pub struct Profiler {
    settings: Settings,
    cells: VecDeque<Cell>,
    timer: Timer,
    filtered: bool,
    /// Ticks of the quickest fetch seen so far (`crate::fetch`).
    fetch: f64,
}

/// How to lay out a block.
struct Layout<'a> {
    block: &'a Screened,
    registers: [u64; 16],
    notion: Notion,
    copies: u32,
    counter: u8,
    iterations: u32,
    /// Whether addresses are looked at.
    watched: bool,
}

impl Layout<'_> {
    /// The shorter (1) or the longer (2) code.
    fn body(&self, times: u32) -> Body<'_> {
        let (copies, counted) = match self.notion {
            Notion::Unrolled => (self.copies * times, None),
            Notion::Loop => {
                let counted = Loop {
                    register: self.counter,
                    iterations: self.iterations * times,
                };
                (1, Some(counted))
            }
        };
        Body {
            block: &self.block.bytes,
            copies,
            counted,
            registers: &self.registers,
        }
    }

    /// The same with fewer iterations where the longer code, at so many ticks, takes far longer than
    /// a round need; blocks have the iterations that the notion says.
    fn fitting(&self, ticks: u64) -> Self {
        let mut layout = Self { ..*self };
        if !layout.watched && ticks > BUDGET {
            let fewer = u64::from(layout.iterations) * BUDGET / ticks;
            layout.iterations = fewer.max(MIN_GENERATED_ITERATIONS) as u32;
        }
        layout
    }

    /// Blocks by which the two codes differ.
    fn difference(&self) -> f64 {
        f64::from(match self.notion {
            Notion::Unrolled => self.copies,
            Notion::Loop => self.iterations,
        })
    }
}

/// Either the block's fault or the system's.
enum Failure {
    Reject(Reject),
    System(CellError),
}

impl From<Reject> for Failure {
    fn from(reject: Reject) -> Self {
        Self::Reject(reject)
    }
}

impl From<CellError> for Failure {
    fn from(error: CellError) -> Self {
        Self::System(error)
    }
}

impl From<TooLarge> for Failure {
    fn from(_: TooLarge) -> Self {
        Self::Reject(Reject::Refused(Refusal::TooLong(crate::screen::MAX_BYTES)))
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Stop(stop) => Self::Reject(Reject::of_stop(stop, |_| None)),
            RunError::System(source) => Self::System(lost(source)),
        }
    }
}

fn lost(cause: std::io::Error) -> CellError {
    CellError::System {
        what: "trace the measuring process",
        cause,
        hint: "",
    }
}

impl Profiler {
    /// Starts the measuring process and finds out where cycles come from. The calling thread is to
    /// be the one that measures.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn new(settings: Settings) -> Result<Self, CellError> {
        let mut profiler = Self {
            settings,
            timer: Timer::TimeStamp,
            filtered: false,
            fetch: f64::INFINITY,
            cells: VecDeque::new(),
        };
        // What the others are compared with.
        for _ in 0..REFERENCE_CELLS {
            let mut cell = Cell::start(settings.sandbox)?;
            profiler.fetch = profiler.fetch.min(fetch::ticks(&mut cell).map_err(lost)?);
        }
        let mut cell = profiler.sound_cell()?;
        if cell.counter && counter_agrees(&mut cell).map_err(lost)? {
            profiler.timer = Timer::Counter;
        }
        profiler.filtered = cell.filtered;
        profiler.cells.push_back(cell);
        Ok(profiler)
    }

    /// A cell that fetches code as quickly as others.
    fn sound_cell(&mut self) -> Result<Cell, CellError> {
        let mut slowest = f64::INFINITY;
        for _ in 0..MAX_CELLS {
            let mut cell = Cell::start(self.settings.sandbox)?;
            let ticks = fetch::ticks(&mut cell).map_err(lost)?;
            if ticks <= self.fetch * fetch::TOLERANCE {
                self.fetch = self.fetch.min(ticks);
                return Ok(cell);
            }
            slowest = slowest.min(ticks);
        }
        // The clock is another one now, or the core is shared for good.
        self.fetch = slowest;
        Cell::start(self.settings.sandbox)
    }

    /// Where cycles come from.
    #[must_use]
    pub fn source(&self) -> Source {
        match self.timer {
            Timer::Counter => Source::Counter,
            Timer::TimeStamp => Source::TimeStamp,
        }
    }

    /// Whether seccomp keeps measured code from system calls.
    #[must_use]
    pub fn filtered(&self) -> bool {
        self.filtered
    }

    /// Measures a block.
    ///
    /// # Errors
    /// The outer error is the system's and ends a batch; the inner one is the block's reason.
    pub fn measure(
        &mut self,
        bytes: &[u8],
        notion: Notion,
    ) -> Result<Result<Measured, Reject>, CellError> {
        let block = match Screened::new(bytes) {
            Ok(block) => block,
            Err(refusal) => return Ok(Err(Reject::Refused(refusal))),
        };
        let counter = match block.counter.or_else(|| block.free_register()) {
            Some(register) => REGISTERS.iter().position(|r| *r == register).unwrap_or(15) as u8,
            None if notion == Notion::Loop => return Ok(Err(Reject::NoCounter)),
            None => 0,
        };
        let instructions = (block.instructions.len() as u32).max(1);
        let bytes = (block.bytes.len() as u32).max(1);
        let least = LEAST_INSTRUCTIONS.div_ceil(instructions);
        let wanted = WANTED_INSTRUCTIONS.div_ceil(instructions);
        self.measure_plan(&Layout {
            block: &block,
            registers: self.settings.init.registers(),
            notion,
            copies: wanted.min(WANTED_BYTES / bytes).max(least),
            counter,
            iterations: ITERATIONS,
            watched: true,
        })
    }

    /// Measures code that was generated to be measured: a loop, counted with r15, that starts with
    /// these register values.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub(crate) fn measure_generated(
        &mut self,
        bytes: &[u8],
        registers: [u64; 16],
    ) -> Result<Result<Measured, Reject>, CellError> {
        let block = match Screened::new(bytes) {
            Ok(block) => block,
            Err(refusal) => return Ok(Err(Reject::Refused(refusal))),
        };
        self.measure_plan(&Layout {
            block: &block,
            registers,
            notion: Notion::Loop,
            copies: 1,
            counter: R15,
            iterations: GENERATED_ITERATIONS,
            watched: false,
        })
    }

    fn measure_plan(&mut self, layout: &Layout<'_>) -> Result<Result<Measured, Reject>, CellError> {
        let loops = layout.watched && layout.notion == Notion::Loop;
        let most = if loops { CELLS } else { 1 };
        let mut figures = Vec::with_capacity(most);
        let mut least: Option<Measured> = None;
        for number in 0..most {
            let mut cell = match self.cells.pop_front() {
                Some(cell) => cell,
                None => self.sound_cell()?,
            };
            match self.measure_in(&mut cell, layout) {
                Ok(found) => {
                    // The next block begins with the next one.
                    self.cells.push_back(cell);
                    figures.push(found.cycles);
                    if least.is_none_or(|least| found.cycles < least.cycles) {
                        least = Some(found);
                    }
                }
                // Whatever the code has done to the cell goes with it.
                Err(Failure::Reject(reject)) if number == 0 => return Ok(Err(reject)),
                Err(Failure::Reject(_)) => break,
                Err(Failure::System(error)) => return Err(error),
            }
            if Places::of(layout.notion).settled(&figures) {
                break;
            }
            if self.cells.len() <= number + 1 && number + 1 < most {
                let cell = self.sound_cell()?;
                self.cells.push_front(cell);
            }
        }
        Ok(least.ok_or(Reject::Clock))
    }

    fn measure_in(&self, cell: &mut Cell, layout: &Layout<'_>) -> Result<Measured, Failure> {
        let init = self.settings.init;
        cell.set_patterns(&init.memory(), &init.stack())
            .map_err(lost)?;
        cell.set_control(control::MXCSR, &MXCSR.to_le_bytes())
            .map_err(lost)?;
        if layout.watched {
            self.watch(cell, layout)?;
        }
        let ticks = self.warm(cell, layout)?;
        let layout = &layout.fitting(ticks);
        let started = Instant::now();
        // Some code has a slow way to run and a quick one, and keeps to it where it lies.
        let mut least: Option<Measured> = None;
        let mut drifted = 0;
        let places = Places::of(layout.notion);
        let mut figures = Vec::with_capacity(places.most);
        for place in 0..places.most {
            let found = self.rounds(cell, layout, ticks, place, started)?;
            drifted += found.drifted;
            figures.push(found.cycles);
            if least.is_none_or(|least| found.cycles < least.cycles) {
                least = Some(found);
            }
            if places.settled(&figures) || !layout.watched {
                break;
            }
        }
        let least = least.ok_or(Reject::Clock)?;
        cell.forget_pages().map_err(lost)?;
        Ok(Measured { drifted, ..least })
    }

    /// Measures until enough rounds agree, in code that lies at a place of its own.
    fn rounds(
        &self,
        cell: &mut Cell,
        layout: &Layout<'_>,
        ticks: u64,
        place: usize,
        started: Instant,
    ) -> Result<Measured, Failure> {
        // The shorter code and the setting of the state take about as long again.
        let runs = (BUDGET / (2 * ticks).max(1)).clamp(MIN_RUNS, MAX_RUNS) as u32;
        let mut program = CodeBuffer::new(self.timer);
        program.leave_out(place * DISTANCE);
        let before = chains(&mut program)?;
        let short = program.measure(layout.body(1), runs)?;
        let long = program.measure(layout.body(2), runs)?;
        let after = chains(&mut program)?;
        let end = program.finish()?;
        cell.load(program.bytes()).map_err(lost)?;
        let mut figures: Vec<f64> = Vec::with_capacity(MAX_ROUNDS);
        let (mut drifted, mut own) = (0, Minima::default());
        let mut retries = RETRIES;
        loop {
            cell.run(crate::cell::layout::CODE, end)?;
            let (first, last) = (rate(cell, before), rate(cell, after));
            if (last / first - 1.0).abs() > DRIFT {
                drifted += 1;
                if drifted > MAX_DRIFTED || started.elapsed() > PATIENCE {
                    return Err(Reject::Clock.into());
                }
                continue;
            }
            let rate = match self.timer {
                Timer::TimeStamp => (first + last) / 2.0,
                Timer::Counter => 1.0,
            };
            let patient = started.elapsed() < PATIENCE;
            if layout.notion == Notion::Loop {
                // Generated loops take so few cycles that a step of the counter shows.
                let of = if layout.watched { least } else { steady };
                let (short, long) = (of(cell, short) * rate, of(cell, long) * rate);
                own.add(short, long);
                let most = if patient { MAX_LOOP_ROUNDS } else { 0 };
                if own.rounds() < ROUNDS || !own.are_confirmed() && own.rounds() < most {
                    continue;
                }
                let figure = own.difference(layout.difference(), drifted);
                return figure.ok_or(Reject::Clock.into());
            }
            let (short, long) = (steady(cell, short) * rate, steady(cell, long) * rate);
            figures.push((long - short) / layout.difference());
            if figures.len() < ROUNDS {
                continue;
            }
            let quartiles = Quartiles::of(&mut figures);
            let spread = quartiles.relative().abs();
            if spread > STEADY && figures.len() < MAX_ROUNDS && patient {
                continue;
            }
            if spread > UNSTEADY && retries > 0 && patient {
                // Others may have been busy for a moment.
                retries -= 1;
                figures.clear();
                continue;
            }
            if spread > UNSTEADY || quartiles.median <= 0.0 {
                return Err(Reject::Unsteady { spread }.into());
            }
            return Ok(Measured {
                cycles: quartiles.median,
                spread: quartiles.high - quartiles.low,
                rounds: figures.len(),
                drifted,
            });
        }
    }

    /// Runs some copies one instruction at a time and judges the addresses.
    fn watch(&self, cell: &mut Cell, layout: &Layout<'_>) -> Result<(), Failure> {
        let instructions = layout.block.instructions.len() as u32;
        let copies = (WATCHED / instructions.max(1)).max(3);
        let mut program = CodeBuffer::new(self.timer);
        let body = Body {
            copies,
            counted: None,
            ..layout.body(1)
        };
        let observed = program.observe(body)?;
        cell.load(program.bytes()).map_err(lost)?;
        cell.run(observed.entry, observed.ready)?;
        let mut registers = cell.fresh_registers(observed.begin);
        set_registers(&mut registers, &layout.registers);
        let length = layout.block.bytes.len() as u64;
        let mut watch = Watch::new(&layout.block.instructions, observed.begin, length);
        // Repeated string instructions stop at each repetition.
        let mut left = (copies + 1) * instructions + WATCHED;
        let result = cell.step(&registers, observed.end, |registers| {
            left = left.saturating_sub(1);
            left > 0 && watch.see(registers)
        });
        match result {
            Ok(()) => {}
            Err(RunError::Stop(stop)) => {
                return Err(Reject::of_stop(stop, |at| watch.offset(at)).into());
            }
            Err(RunError::System(error)) => return Err(lost(error).into()),
        }
        match watch.found() {
            Some(Reject::SplitLine { .. } | Reject::MayAlias { .. })
                if self.settings.unfiltered =>
            {
                Ok(())
            }
            Some(reject) => Err(reject.into()),
            None => Ok(()),
        }
    }

    /// Runs the longer code so that all its pages are mapped; says how many ticks it takes.
    fn warm(&self, cell: &mut Cell, layout: &Layout<'_>) -> Result<u64, Failure> {
        let mut program = CodeBuffer::new(self.timer);
        let touches = prefetched::touches(&layout.block.instructions);
        if !touches.is_empty() {
            let touching = Body {
                block: &touches,
                copies: 1,
                counted: None,
                registers: &layout.registers,
            };
            program.measure(touching, 1)?;
        }
        let section = program.measure(layout.body(2), 2)?;
        let end = program.finish()?;
        cell.load(program.bytes()).map_err(lost)?;
        cell.run(crate::cell::layout::CODE, end)?;
        Ok(section.results().map(|n| cell.result(n)).min().unwrap_or(0))
    }
}

/// Largest deviation of a usable counter from the chain's known length.
const COUNTER_TOLERANCE: f64 = 0.02;

/// Whether the counter gives what a chain of known length takes.
fn counter_agrees(cell: &mut Cell) -> std::io::Result<bool> {
    let mut program = CodeBuffer::new(Timer::Counter);
    let built = chains(&mut program).and_then(|chains| Ok((chains, program.finish()?)));
    let Ok((chains, end)) = built else {
        return Ok(false);
    };
    cell.load(program.bytes())?;
    match cell.run(crate::cell::layout::CODE, end) {
        Ok(()) => Ok((rate(cell, chains) - 1.0).abs() < COUNTER_TOLERANCE),
        Err(RunError::Stop(_)) => Ok(false),
        Err(RunError::System(error)) => Err(error),
    }
}

fn set_registers(registers: &mut crate::cell::Registers, values: &[u64; 16]) {
    [
        registers.rax,
        registers.rcx,
        registers.rdx,
        registers.rbx,
        registers.rsp,
        registers.rbp,
        registers.rsi,
        registers.rdi,
        registers.r8,
        registers.r9,
        registers.r10,
        registers.r11,
        registers.r12,
        registers.r13,
        registers.r14,
        registers.r15,
    ] = *values;
}
