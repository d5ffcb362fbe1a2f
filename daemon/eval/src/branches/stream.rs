//! A recorded program's branches: in program order of each thread, with where they went.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, anyhow};
use mcad_core::pipeline::frontend::predict::Executed;
use mcad_core::pipeline::frontend::predict::stream::Branch;
use mcad_core::simulation::dictionary::{Dictionary, TranslatedBlock};
use mcad_core::simulation::execution::{Assembler, Execution};
use mcad_isa::code::Code;
use mcad_proto::event::{Event, SessionInfo};
use mcad_proto::trace::TraceReader;
use mcad_proto::word::{BlockId, StreamId};
use rustc_hash::FxHashMap;

/// A block's branches, each with its place and the address behind it in the block.
type Branches = Box<[(usize, Branch, u64)]>;

/// Blocks of a program.
#[derive(Default)]
struct Blocks {
    dictionary: Dictionary,
    branches: FxHashMap<BlockId, Branches>,
}

/// A thread that is followed.
struct Thread<T> {
    assembler: Assembler,
    walk: Walk<T>,
}

/// What is done with a thread's branches.
struct Walk<T> {
    watcher: T,
    /// The branch that was executed last, of which nobody knows where it went.
    pending: Option<Branch>,
}

impl<T: FnMut(&Executed)> Walk<T> {
    fn execute(&mut self, branches: &Branches, block: &TranslatedBlock, execution: &Execution<'_>) {
        let executed = execution.first..execution.end.min(block.len());
        if executed.is_empty() {
            return;
        }
        if let Some(branch) = self.pending.take() {
            (self.watcher)(&branch.went(block.address_of(executed.start)));
        }
        for (place, branch, behind) in branches {
            if !executed.contains(place) {
                continue;
            }
            match place + 1 < executed.end {
                true => (self.watcher)(&branch.went(*behind)),
                false => self.pending = Some(*branch),
            }
        }
    }
}

fn branches(code: &[Code]) -> Branches {
    let behind = code.iter().skip(1).map(Code::address).chain([0]);
    let all = code.iter().zip(behind).enumerate();
    let branch = |(place, (code, behind)): (usize, (&Code, u64))| {
        let branch = Branch::new(code.address(), code.len(), code.branch()?);
        Some((place, branch, behind))
    };
    all.filter_map(branch).collect()
}

/// Shows each thread's branches to a watcher of its own. Returns the executed instructions.
///
/// # Errors
/// When the file cannot be read, or is no trace.
pub fn walk<T: FnMut(&Executed)>(
    path: &Path,
    mut watcher: impl FnMut() -> T,
) -> anyhow::Result<u64> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let mut reader = TraceReader::new(BufReader::new(file), &*name)?;
    let mut blocks = Blocks::default();
    let mut memory = false;
    let mut threads: FxHashMap<StreamId, Thread<T>> = FxHashMap::default();
    let mut instructions = 0;
    while let Some(event) = reader.next()? {
        match event {
            Event::Session(SessionInfo {
                arch, memory: has, ..
            }) => {
                blocks.dictionary = Dictionary::new(arch);
                memory = has;
            }
            Event::Block(def) => {
                let defined = blocks.dictionary.define(&def);
                if let Some(code) = defined.map_err(|bad| anyhow!("{name}: {bad}"))? {
                    blocks.branches.insert(def.id, branches(&code));
                }
            }
            Event::Records { stream, words } => {
                let thread = threads.entry(stream).or_insert_with(|| Thread {
                    assembler: Assembler::new(memory),
                    walk: Walk {
                        watcher: watcher(),
                        pending: None,
                    },
                });
                let walk = &mut thread.walk;
                let mut emit = |block: &TranslatedBlock, execution: &Execution<'_>| {
                    if let Some(branches) = blocks.branches.get(&execution.block) {
                        walk.execute(branches, block, execution);
                    }
                };
                for word in words {
                    let taken = thread.assembler.word(*word, &blocks.dictionary, &mut emit);
                    taken.map_err(|bad| anyhow!("{name} has a bad record: {bad:?}"))?;
                }
            }
            _ => {}
        }
    }
    for thread in threads.values_mut() {
        let walk = &mut thread.walk;
        thread
            .assembler
            .end(&blocks.dictionary, &mut |block, execution| {
                if let Some(branches) = blocks.branches.get(&execution.block) {
                    walk.execute(branches, block, execution);
                }
            });
        instructions += thread.assembler.counts.instructions;
    }
    Ok(instructions)
}
