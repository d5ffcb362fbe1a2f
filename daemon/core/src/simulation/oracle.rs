//! The thread that predicts a CPU model's branches for all others that simulate it.
//!
//! It takes chunks in the order of the stream, and what becomes of their branches goes with them to
//! those who execute them; it waits for nobody but the stream.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use mcad_isa::machine::CpuModel;
use mcad_isa::machine::params::branch::Branch;
use mcad_proto::word::StreamId;

use super::chunk::Chunk;
use super::dictionary::Dictionary;
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
    orders: SyncSender<Order>,
    definitions: Sender<Arc<Definition>>,
    thread: JoinHandle<()>,
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
        let (orders, to_do) = sync_channel(QUEUE);
        let (definitions, defined) = channel();
        let on_thread = Arc::clone(on_thread);
        let thread = Builder::new()
            .name(format!("predict {}", model.name))
            .spawn(move || {
                let _held = on_thread();
                work(&branch, &to_do, &defined);
            })?;
        Ok(Some(Self {
            model: number,
            orders,
            definitions,
            thread,
        }))
    }

    /// Waits while the queue is full. A thread that is gone has panicked, which
    /// [`Oracle::finish`] passes on.
    fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    pub(super) fn define(&self, definition: &Arc<Definition>) {
        let _ = self.definitions.send(Arc::clone(definition));
    }

    pub(super) fn execute(&self, chunk: &Arc<Chunk>) {
        let chunk = Arc::clone(chunk);
        let model = self.model;
        self.order(Order::Execute(Promise { chunk, model }));
    }

    pub(super) fn end_thread(&self, stream: StreamId) {
        self.order(Order::EndThread(stream));
    }

    /// Waits until it has done everything.
    pub(super) fn finish(self) {
        drop((self.orders, self.definitions));
        if let Err(panic) = self.thread.join() {
            resume_unwind(panic);
        }
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

fn work(p: &Branch, orders: &Receiver<Order>, defined: &Receiver<Arc<Definition>>) {
    let mut dictionary = Dictionary::default();
    let mut branches: Vec<Branches> = Vec::new();
    let mut threads = Threads::<Foreteller>::default();
    let mut steers: Vec<Steer> = Vec::new();
    for order in orders {
        let promise = match order {
            Order::Execute(promise) => promise,
            Order::EndThread(stream) => {
                threads.remove(stream.into());
                continue;
            }
        };
        let chunk = &promise.chunk;
        while dictionary.defined() < chunk.defined
            && let Ok(definition) = defined.recv()
        {
            let place = definition.id.0 as usize;
            if branches.len() <= place {
                branches.resize(place + 1, Branches::default());
            }
            branches[place] = Branches::new(&definition.decoded);
            dictionary.insert(definition.id, Arc::clone(&definition.block));
        }
        steers.clear();
        let mut ends = Vec::new();
        for (stream, executions) in chunk.threads() {
            let thread = threads.get_or_insert_with(stream.into(), || Foreteller::new(p));
            for execution in executions {
                let id = execution.block;
                if let (Some(block), Some(branches)) =
                    (dictionary.get(id), branches.get(id.0 as usize))
                {
                    let (first, end) = (execution.first, execution.end.min(block.len()));
                    let address = block.address_of(first);
                    thread.pass(branches, (first, end), address, &mut steers);
                }
            }
            ends.push(steers.len());
        }
        chunk.tell(promise.model, &steers, &ends);
    }
}
