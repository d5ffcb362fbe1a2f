//! The thread that predicts a CPU model's branches for all others that simulate it.
//!
//! It takes chunks in the order of the stream, and what becomes of their branches goes with them to
//! those who execute them; it waits for nobody but the stream.

use std::io;
use std::sync::Arc;

use mcad_isa::machine::CpuModel;
use mcad_isa::machine::params::branch::Branch;
use mcad_proto::word::StreamId;

use super::chunk::Chunk;
use super::follower::{Follower, ToDo};
use super::threads::{Folds, Threads};
use super::workers::{Definition, OnThread};
use crate::pipeline::fold::{Empty, Folded, Folding};
use crate::pipeline::frontend::predict::Steer;
use crate::pipeline::frontend::predict::foretell::{Branches, Foreteller};

/// Orders that may wait.
const QUEUE: usize = 8;

enum Order {
    Execute(Promise),
    EndThread(StreamId),
}

/// A chunk whose branches are predicted here. Whoever waits for that is told also when it comes to
/// nothing, since a panic ended this thread; [`Oracle::finish`] passes that on.
struct Promise {
    chunk: Arc<Chunk>,
    model: usize,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.chunk.tell(self.model, &[], &[]);
    }
}

/// Its owner's side.
pub(super) struct Oracle {
    /// Number of its model.
    model: usize,
    thread: Follower<Order>,
}

impl Oracle {
    /// Starts the thread of the model with that number, if that has predictors.
    ///
    /// # Errors
    /// When the system gives none.
    pub(super) fn start(
        number: usize,
        model: &Arc<CpuModel>,
        on_thread: &OnThread,
    ) -> io::Result<Option<Self>> {
        let branch = model.core.branch.clone();
        let Some(branch) = branch.filter(|_| model.core.in_order.is_none()) else {
            return Ok(None);
        };
        let name = format!("predict {}", model.name);
        let thread = Follower::start(name, QUEUE, on_thread, move |to_do| work(&branch, to_do))?;
        Ok(Some(Self {
            model: number,
            thread,
        }))
    }

    pub(super) fn define(&self, definition: &Arc<Definition>) {
        self.thread.define(definition);
    }

    pub(super) fn execute(&self, chunk: &Arc<Chunk>) {
        let chunk = Arc::clone(chunk);
        let model = self.model;
        self.thread.order(Order::Execute(Promise { chunk, model }));
    }

    pub(super) fn end_thread(&self, stream: StreamId) {
        self.thread.order(Order::EndThread(stream));
    }

    /// Waits until it has done everything.
    pub(super) fn finish(self) {
        self.thread.finish();
    }
}

impl Folds for Foreteller {
    fn fold(&mut self) -> (Folded, Empty) {
        let mut folding = Folding::fold();
        Foreteller::fold(self, &mut folding);
        folding.folded()
    }

    fn unfold(&mut self, folded: Folded, empty: Empty) {
        Foreteller::fold(self, &mut Folding::unfold(folded, empty));
    }
}

fn work(p: &Branch, mut to_do: ToDo<Order>) {
    let mut branches: Vec<Branches> = Vec::new();
    let mut threads = Threads::<Foreteller>::default();
    let mut steers: Vec<Steer> = Vec::new();
    while let Some(order) = to_do.next() {
        let promise = match order {
            Order::Execute(promise) => promise,
            Order::EndThread(stream) => {
                threads.remove(stream.into());
                continue;
            }
        };
        let chunk = &promise.chunk;
        to_do.define_to(chunk.defined, |definition| {
            let place = definition.id.0 as usize;
            if branches.len() <= place {
                branches.resize(place + 1, Branches::default());
            }
            branches[place] = Branches::new(&definition.decoded);
        });
        steers.clear();
        let mut ends = Vec::new();
        for (stream, executions) in chunk.threads() {
            let thread = threads.get_or_insert_with(stream.into(), || Foreteller::new(p));
            for execution in executions {
                let id = execution.block;
                if let (Some(block), Some(branches)) =
                    (to_do.dictionary.get(id), branches.get(id.0 as usize))
                {
                    let (first, end) = (execution.first, execution.end.min(block.len()));
                    let address = block.address_of(first);
                    thread.pass(branches, (first, end), address, &mut steers);
                    if end == block.len() && !execution.kernel.is_empty() {
                        thread.kernel_ran();
                    }
                }
            }
            ends.push(steers.len());
        }
        chunk.tell(promise.model, &steers, &ends);
    }
}
