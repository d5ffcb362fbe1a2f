//! One pass over a trace, for `mcad model profile` and `mcad eval --in-order`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use mcad_core::pipeline::access::Address;
use mcad_core::pipeline::inorder::code::Code;
use mcad_core::simulation::dictionary::{Dictionary, TranslatedBlock};
use mcad_core::simulation::execution::{Assembler, Execution};
use mcad_isa::code::{Code as Decoded, Flow};
use mcad_isa::machine;
use mcad_isa::x86::inorder::{Class, Translator, classify};
use mcad_model::collect::{Collector, Order, Piece};
use mcad_model::kind::Kind;
use mcad_model::predictors::{Ending, Jump};
use mcad_model::profile::{Inst, Profile};
use mcad_proto::event::{Arch, EndReason, Event};
use mcad_proto::word::StreamId;
use rustc_hash::FxHashMap;

use crate::cli::replay;
use crate::source::Source;

/// What is wanted of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The profile alone.
    Profile,
    /// Also the executed pieces of code in order, up to so many instructions.
    Order(u64),
}

/// What a trace gave.
pub struct Collected {
    /// The profile; of the first instructions only where an order was wanted.
    pub profile: Profile,
    /// Pieces of code in the order of execution, where that was wanted.
    pub order: Order,
}

/// Reads a trace.
pub fn collect(trace: &Path, wanted: Wanted) -> anyhow::Result<Collected> {
    let (mut source, _) = replay::open(trace)?;
    let mut pass = Pass::new(wanted)?;
    let mut over = None;
    while over.is_none() && !pass.full() {
        source
            .pull(Duration::from_secs(1), &mut |event| {
                if let Event::End(reason) = &event {
                    over = Some(reason.clone());
                }
                if let Err(e) = pass.event(&event) {
                    pass.error.get_or_insert(e);
                }
            })
            .map_err(anyhow::Error::msg)?;
        if let Some(error) = pass.error.take() {
            return Err(error).with_context(|| trace.display().to_string());
        }
    }
    if over.is_none() {
        source.stop();
    }
    let _: Option<EndReason> = over;
    pass.end();
    if pass.instructions == 0 {
        bail!("{}: nothing was executed", trace.display());
    }
    let source = trace.display().to_string();
    let (profile, order) = pass.collector.finish_with_order(source);
    Ok(Collected { profile, order })
}

struct Pass {
    wanted: Wanted,
    dictionary: Dictionary,
    threads: FxHashMap<StreamId, Assembler>,
    current: Option<StreamId>,
    collector: Collector,
    instructions: u64,
    translator: Translator,
    error: Option<anyhow::Error>,
}

impl Pass {
    fn new(wanted: Wanted) -> anyhow::Result<Self> {
        // Whose latencies these are does not matter: only registers are taken.
        let model = machine::cpu("atom")?;
        let core = model.core.in_order.as_ref().context("no in-order core")?;
        Ok(Self {
            wanted,
            dictionary: Dictionary::default(),
            threads: FxHashMap::default(),
            current: None,
            collector: match wanted {
                Wanted::Profile => Collector::default(),
                Wanted::Order(_) => Collector::with_order(),
            },
            instructions: 0,
            translator: Translator::new(core).map_err(anyhow::Error::msg)?,
            error: None,
        })
    }

    /// Whether enough was read.
    fn full(&self) -> bool {
        matches!(self.wanted, Wanted::Order(most) if self.instructions >= most)
    }

    fn event(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        match event {
            Event::Session(info) => {
                self.dictionary = Dictionary::new(info.arch);
                // x86-64's in-order CPUs have no scheduling model.
                if info.arch != Arch::X86_64 {
                    self.collector.keep_code(info.arch);
                }
            }
            Event::Block(def) => {
                self.dictionary.define(def).map_err(anyhow::Error::msg)?;
            }
            Event::Records { stream, words } => self.records(*stream, words)?,
            Event::StreamEnd(stream) => {
                if let Some(mut assembler) = self.threads.remove(stream) {
                    self.finish(*stream, &mut assembler);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn records(&mut self, stream: StreamId, words: &[u64]) -> anyhow::Result<()> {
        let new = || Assembler::new(false);
        let mut assembler = self.threads.remove(&stream).unwrap_or_else(new);
        self.turn_to(stream);
        let dictionary = std::mem::take(&mut self.dictionary);
        let mut failed = false;
        for &word in words {
            let emit = &mut |block: &TranslatedBlock, execution: &Execution<'_>| {
                self.execute(block, execution)
            };
            if assembler.word(word, &dictionary, emit).is_err() {
                failed = true;
                break;
            }
        }
        self.dictionary = dictionary;
        self.threads.insert(stream, assembler);
        if failed {
            bail!("a record that belongs to no block");
        }
        Ok(())
    }

    fn turn_to(&mut self, stream: StreamId) {
        if self.current.replace(stream) != Some(stream) {
            self.collector.switch();
        }
    }

    fn finish(&mut self, stream: StreamId, assembler: &mut Assembler) {
        self.turn_to(stream);
        let dictionary = std::mem::take(&mut self.dictionary);
        assembler.end(
            &dictionary,
            &mut |block: &TranslatedBlock, execution: &Execution<'_>| {
                self.execute(block, execution);
            },
        );
        self.dictionary = dictionary;
    }

    fn end(&mut self) {
        let mut rest: Vec<(StreamId, Assembler)> = self.threads.drain().collect();
        rest.sort_by_key(|thread| thread.0);
        for (stream, mut assembler) in rest {
            self.finish(stream, &mut assembler);
        }
    }

    fn execute(&mut self, block: &TranslatedBlock, execution: &Execution<'_>) {
        if self.full() {
            return;
        }
        let (first, end) = (execution.first, execution.end.min(block.len()));
        if first >= end {
            return;
        }
        let translator = &mut self.translator;
        let make = || piece(translator, block, first, end);
        (self.collector).execute(execution.block.0, first as u32, end as u32, make);
        self.instructions += (end - first) as u64;
        for span in execution.spans {
            let index = usize::from(span.index);
            let loads = usize::from(span.loads);
            let count = loads + usize::from(span.stores);
            let start = span.start as usize;
            let accesses = execution.accesses.get(start..start + count);
            for (n, access) in accesses.unwrap_or(&[]).iter().enumerate() {
                if let Address::Known(address) = access.address
                    && let Some(instruction) = index.checked_sub(first)
                {
                    let bytes = u32::from(access.size);
                    (self.collector).access(instruction as u32, address, bytes, n < loads);
                }
            }
        }
    }
}

/// Instructions `first` to `end` of a block.
fn piece(translator: &mut Translator, block: &TranslatedBlock, first: usize, end: usize) -> Piece {
    let decoded = block.decode();
    let part = decoded.get(first..end).unwrap_or(&[]);
    let last = part.last();
    Piece {
        insts: part.iter().map(|code| inst(translator, code)).collect(),
        addresses: (first..end).map(|n| block.address_of(n)).collect(),
        bytes: match block.arch {
            Arch::X86_64 => Vec::new(),
            _ => bytes(block, first, end).to_vec(),
        },
        ending: last.filter(|_| end == block.len()).and_then(ending),
    }
}

/// Their bytes.
fn bytes(block: &TranslatedBlock, first: usize, end: usize) -> &[u8] {
    let offset = |n: usize| block.offsets.get(n).map_or(0, |&o| usize::from(o));
    block.bytes.get(offset(first)..offset(end)).unwrap_or(&[])
}

/// The branch that an instruction is.
fn ending(instruction: &Decoded) -> Option<Ending> {
    let address = instruction.address();
    let (jump, backward) = match instruction.flow() {
        Flow::Conditional(target) => (Jump::Conditional, target.is_some_and(|to| to <= address)),
        Flow::Jump(Some(_)) => (Jump::Direct, false),
        Flow::Jump(None) => (Jump::Indirect, false),
        Flow::Call(Some(_)) => (Jump::Call, false),
        Flow::Call(None) => (Jump::IndirectCall, false),
        Flow::Return => (Jump::Return, false),
        Flow::Next | Flow::System | Flow::Exception => return None,
    };
    Some(Ending {
        jump,
        address,
        after: address.wrapping_add(instruction.len() as u64),
        backward,
    })
}

/// An instruction as the models see it.
fn inst(translator: &mut Translator, instruction: &Decoded) -> Inst {
    let mut inst = match instruction {
        Decoded::X86(decoded) => of_x86(translator, &decoded.instruction),
        Decoded::Llvm(instruction) => Inst::of_llvm(instruction),
    };
    inst.reads.sort_unstable();
    inst.reads.dedup();
    inst
}

fn of_x86(translator: &mut Translator, instruction: &iced_x86::Instruction) -> Inst {
    let mut code = Code::default();
    translator.append(&mut code, instruction);
    let class = classify(instruction);
    let loads = class == Class::AluMemory
        || class != Class::Lea
            && (0..instruction.op_count())
                .skip(1)
                .any(|n| instruction.op_kind(n) == iced_x86::OpKind::Memory);
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    if let Some(instr) = code.instrs.first() {
        reads.extend(code.sources(instr).iter().map(|s| s.register));
        writes.extend(code.targets(instr).iter().map(|t| t.register));
    }
    Inst {
        kind: Kind::of(class, loads),
        reads,
        writes,
    }
}
