//! Records a window of a run's µop stamps into a timeline file.
//!
//! Code is named when it is first executed in the window, so the file holds only what the window
//! needs. A file that cannot be written any more is given up with one message; the analysis goes
//! on.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;

use mcad_core::pipeline::backend::topdown::{Stall, Wait};
use mcad_core::pipeline::inst::Source as InstSource;
use mcad_core::pipeline::observer::{Delivery, UopStamps};
use mcad_core::simulation::Symbolizer;
use mcad_core::simulation::timeline::{Timed, TimelineSink, Window};
use mcad_isa::machine::CpuModel;
use mcad_proto::word::{BlockId, GuestAddr};
use mcad_viewers::timeline::write::Writer;
use mcad_viewers::timeline::{Code, Header, Instruction, Kind, Late, Source, Uop};

use crate::recorder::RecordingError;
use crate::symbols::Symbols;

/// A timeline to be recorded.
#[derive(Debug)]
pub struct TimelinePlan {
    /// Where to.
    pub file: File,
    /// The file's path, for messages.
    pub path: PathBuf,
    /// Which part of the run.
    pub window: WindowSpec,
    /// Most instructions.
    pub limit: u64,
}

/// Instructions of a window around the hottest block, unless the command line has another number.
const HOTTEST: u64 = 2000;

/// Most of them: they are kept in memory until the run is over.
const MAX_HOTTEST: u64 = 20_000;

/// A window as the command line has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSpec {
    text: String,
    /// What it stands for.
    pub window: Window,
}

impl WindowSpec {
    /// Around the hottest block.
    pub(crate) fn hottest() -> Self {
        Self {
            text: "hottest".to_owned(),
            window: Window::Hottest(HOTTEST),
        }
    }
}

/// A window that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a window: use all, instructions:FIRST-END, cycles:FIRST-END, region:SYMBOL[:OCCURRENCE] \
     or hottest[:INSTRUCTIONS] with at most {MAX_HOTTEST} instructions"
)]
pub struct BadWindow;

impl FromStr for WindowSpec {
    type Err = BadWindow;

    fn from_str(text: &str) -> Result<Self, BadWindow> {
        let range = |range: &str| {
            let (first, end) = range.split_once('-').ok_or(BadWindow)?;
            let number = |text: &str| text.replace('_', "").parse::<u64>().map_err(|_| BadWindow);
            let (first, end) = (number(first)?, number(end)?);
            (first < end).then_some(first..end).ok_or(BadWindow)
        };
        let window = match text.split_once(':') {
            None if text == "all" => Window::Instructions(0..u64::MAX),
            None if text == "hottest" => return Ok(Self::hottest()),
            Some(("hottest", rest)) => match rest.replace('_', "").parse() {
                Ok(instructions @ 1..=MAX_HOTTEST) => Window::Hottest(instructions),
                _ => return Err(BadWindow),
            },
            Some(("instructions", rest)) => Window::Instructions(range(rest)?),
            Some(("cycles", rest)) => Window::Cycles(range(rest)?),
            Some(("region", rest)) if !rest.is_empty() => {
                // A C++ name has colons of its own: only a number after the last is an occurrence.
                let (name, occurrence) = match rest.rsplit_once(':') {
                    Some((name, number)) if !name.is_empty() && !name.ends_with(':') => {
                        match number.parse() {
                            Ok(occurrence) => (name, occurrence),
                            Err(_) => (rest, 0),
                        }
                    }
                    _ => (rest, 0),
                };
                Window::Region {
                    name: name.to_owned(),
                    occurrence,
                }
            }
            _ => return Err(BadWindow),
        };
        Ok(Self {
            text: text.to_owned(),
            window,
        })
    }
}

/// What a recording came to.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    error: Option<io::Error>,
    instructions: u64,
    left_out: u64,
}

impl Recorded {
    /// What the report should say about it.
    pub(crate) fn note(&self) -> Option<String> {
        if self.error.is_none() && self.instructions == 0 {
            return Some("the timeline is empty: nothing fell into its window".to_owned());
        }
        (self.left_out > 0).then(|| {
            format!(
                "the timeline has the first {} records of its window; {} more are left out \
                 (--timeline-limit raises the limit)",
                self.instructions, self.left_out
            )
        })
    }

    /// The recorded file, if it is whole.
    pub(crate) fn into_result(self, plan: TimelinePlan) -> Result<File, RecordingError> {
        match self.error {
            None => Ok(plan.file),
            Some(error) => Err(RecordingError {
                path: plan.path,
                reason: error.to_string(),
            }),
        }
    }
}

/// A code that was not executed in the window so far.
#[derive(Clone)]
struct Unwritten {
    block: BlockId,
    address: u64,
    text: Box<str>,
}

/// The sink that writes the file.
pub(crate) struct FileSink {
    writer: Option<Writer<BufWriter<File>>>,
    /// Not yet written codes.
    codes: Vec<Option<Unwritten>>,
    symbols: Rc<RefCell<Symbols>>,
    recorded: Rc<RefCell<Recorded>>,
    scratch: Instruction,
}

impl FileSink {
    /// What makes the sink once the CPU model is known.
    pub(crate) fn for_model(
        plan: &TimelinePlan,
        symbols: Rc<RefCell<Symbols>>,
        recorded: Rc<RefCell<Recorded>>,
    ) -> impl FnOnce(&CpuModel) -> Box<dyn TimelineSink> + 'static {
        let (file, window) = (plan.file.try_clone(), plan.window.text.clone());
        move |model| Box::new(Self::new(file, window, model, symbols, recorded))
    }

    fn new(
        file: io::Result<File>,
        window: String,
        model: &CpuModel,
        symbols: Rc<RefCell<Symbols>>,
        recorded: Rc<RefCell<Recorded>>,
    ) -> Self {
        let in_order = model.core.in_order.as_ref();
        let header = Header {
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            cpu: model.name.clone(),
            name: model.full_name.clone(),
            issue_width: in_order.map_or(model.core.rename.issue_width, |core| core.width),
            reorder_buffer: in_order.map_or(model.core.retire.reorder_buffer, |_| 0),
            ports: model.core.port_names().len() as u32,
            port_names: model.core.port_names(),
            window,
            in_order: in_order.is_some(),
        };
        let writer = file.and_then(|file| Writer::new(BufWriter::new(file), &header));
        let mut sink = Self {
            writer: None,
            codes: Vec::new(),
            symbols,
            recorded,
            scratch: Instruction::default(),
        };
        match writer {
            Ok(writer) => sink.writer = Some(writer),
            Err(error) => sink.give_up(error),
        }
        sink
    }

    fn give_up(&mut self, error: io::Error) {
        self.recorded.borrow_mut().error = Some(error);
        self.writer = None;
    }

    fn write(&mut self, timed: &Timed<'_>) -> io::Result<()> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let place = self.codes.get_mut(timed.code as usize);
        if let Some(unwritten) = place.and_then(Option::take) {
            let address = GuestAddr(unwritten.address);
            let symbol = self.symbols.borrow().symbol(unwritten.block, address);
            let (function, module) = symbol.map_or_else(Default::default, |s| (s.name, s.module));
            let code = Code {
                address: address.0,
                text: unwritten.text.into(),
                function,
                module,
            };
            writer.code(timed.code, &code)?;
        }
        let i = &mut self.scratch;
        i.thread = timed.thread.0;
        i.number = timed.number;
        i.code = timed.code;
        i.pair = timed.pair;
        i.retired = [timed.retired.first, timed.retired.last];
        i.uops.clear();
        i.uops.extend(timed.uops.iter().map(uop));
        writer.instruction(i)?;
        self.recorded.borrow_mut().instructions += 1;
        Ok(())
    }
}

fn uop(stamps: &UopStamps) -> Uop {
    Uop {
        kind: match stamps.uop {
            UopStamps::SYNC => Kind::StackSync,
            UopStamps::MERGE => Kind::Merge,
            _ => Kind::Own,
        },
        source: match stamps.source {
            Delivery::Of(InstSource::Decoders) => Source::Decoders,
            Delivery::Of(InstSource::UopCache) => Source::UopCache,
            Delivery::Of(InstSource::LoopStream) => Source::LoopStream,
            Delivery::Microcode => Source::Microcode,
            Delivery::Inserted => Source::Inserted,
        },
        late: match stamps.late {
            None => stamps.held.map_or(Late::No, Late::from),
            Some(Stall::BadSpeculation) => Late::Redirect,
            Some(Stall::Memory(Wait::L2)) => Late::L2,
            Some(Stall::Memory(Wait::L3)) => Late::L3,
            Some(Stall::Memory(Wait::Dram)) => Late::Dram,
            Some(Stall::Memory(Wait::Translation)) => Late::Translation,
            _ => Late::No,
        },
        port: stamps.port,
        delivered: stamps.delivered,
        issued: stamps.issued,
        ready: stamps.ready,
        dispatched: stamps.dispatched,
        executed: stamps.executed,
        retired: stamps.retired,
    }
}

impl TimelineSink for FileSink {
    fn code(&mut self, code: u32, block: BlockId, address: u64, text: &str) {
        let place = code as usize;
        if self.codes.len() <= place {
            self.codes.resize(place + 1, None);
        }
        if let Some(entry) = self.codes.get_mut(place) {
            *entry = Some(Unwritten {
                block,
                address,
                text: text.into(),
            });
        }
    }

    fn instruction(&mut self, timed: &Timed<'_>) {
        if let Err(error) = self.write(timed) {
            self.give_up(error);
        }
    }

    fn end(&mut self, cycles: u64, left_out: u64) {
        self.recorded.borrow_mut().left_out = left_out;
        if let Some(writer) = self.writer.take() {
            let finished = writer
                .finish(cycles, left_out)
                .and_then(|mut out| out.flush());
            if let Err(error) = finished {
                self.give_up(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_as_they_are_meant() {
        let window = |text: &str| text.parse::<WindowSpec>().map(|spec| spec.window);
        assert_eq!(window("all"), Ok(Window::Instructions(0..u64::MAX)));
        assert_eq!(window("cycles:1_000-2_000"), Ok(Window::Cycles(1000..2000)));
        let region = |name: &str, occurrence| {
            let name = name.to_owned();
            Ok(Window::Region { name, occurrence })
        };
        assert_eq!(window("region:main"), region("main", 0));
        assert_eq!(window("region:main:17"), region("main", 17));
        assert_eq!(window("region:a::b"), region("a::b", 0));
        assert_eq!(window("region:a::b:3"), region("a::b", 3));
        assert_eq!(window("region:0x10-0x20:1"), region("0x10-0x20", 1));
        assert_eq!(window("hottest"), Ok(Window::Hottest(HOTTEST)));
        assert_eq!(window("hottest:1_000"), Ok(Window::Hottest(1000)));
        for wrong in [
            "",
            "hottest:",
            "hottest:0",
            "hottest:20001",
            "cycles:5-5",
            "cycles:9",
            "instructions:a-b",
            "region:",
            "some",
        ] {
            assert_eq!(window(wrong), Err(BadWindow), "{wrong}");
        }
    }
}
