//! The thread that keeps a CPU model's long memory for the intervals of the others.
//!
//! It takes chunks in the order of the stream and answers when it has come to where a copy was
//! asked for; it waits for nobody but the stream, so that who waits for it waits in vain never.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use mcad_isa::machine::CpuModel;
use mcad_proto::word::StreamId;

use super::chunk::Chunk;
use super::dictionary::Dictionary;
use super::execution::Execution;
use super::homes::Change;
use super::warming::Walker;
use super::workers::{Definition, OnThread};
use crate::pipeline::frontend::predict::stream::Steers;
use crate::pipeline::functional::Warm;

/// Orders that may wait.
const QUEUE: usize = 8;

enum Order {
    Change(Change),
    Execute(Promise),
    Snapshot(StreamId, SyncSender<Warm>),
    EndThread(StreamId),
}

/// A chunk whose branches are predicted here. Whoever waits for that is told also when it comes to
/// nothing, since a panic ended this thread; [`Warmer::finish`] passes that on.
struct Promise {
    chunk: Arc<Chunk>,
    model: usize,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.chunk.tell(self.model, Steers::default());
    }
}

/// Its owner's side.
pub(super) struct Warmer {
    /// Number of its model.
    model: usize,
    orders: SyncSender<Order>,
    definitions: Sender<Arc<Definition>>,
    thread: JoinHandle<()>,
}

impl Warmer {
    /// Starts the thread of the model with that number; `memory`: accesses are looked at.
    ///
    /// # Errors
    /// When the system gives none.
    pub(super) fn start(
        number: usize,
        model: &Arc<CpuModel>,
        memory: bool,
        on_thread: &OnThread,
    ) -> io::Result<Self> {
        let (orders, to_do) = sync_channel(QUEUE);
        let (definitions, defined) = channel();
        let (model, on_thread) = (Arc::clone(model), Arc::clone(on_thread));
        let thread = Builder::new()
            .name(format!("warm {}", model.name))
            .spawn(move || {
                let _held = on_thread();
                work(Walker::new(&model, memory), &to_do, &defined);
            })?;
        Ok(Self {
            model: number,
            orders,
            definitions,
            thread,
        })
    }

    /// Waits while the queue is full. A thread that is gone has panicked, which
    /// [`Warmer::finish`] passes on.
    fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    pub(super) fn define(&self, definition: &Arc<Definition>) {
        let _ = self.definitions.send(Arc::clone(definition));
    }

    pub(super) fn change(&self, change: &Change) {
        self.order(Order::Change(change.clone()));
    }

    pub(super) fn execute(&self, chunk: &Arc<Chunk>) {
        let chunk = Arc::clone(chunk);
        let model = self.model;
        self.order(Order::Execute(Promise { chunk, model }));
    }

    /// Where what a thread's core remembers now will come.
    pub(super) fn snapshot(&self, stream: StreamId) -> Receiver<Warm> {
        let (answer, there) = sync_channel(1);
        self.order(Order::Snapshot(stream, answer));
        there
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

fn work(mut walker: Walker, orders: &Receiver<Order>, defined: &Receiver<Arc<Definition>>) {
    let mut dictionary = Dictionary::default();
    let mut scratch = Execution::default();
    for order in orders {
        match order {
            Order::Change(change) => walker.change(&change),
            Order::Execute(promise) => {
                let chunk = &promise.chunk;
                while dictionary.defined() < chunk.defined
                    && let Ok(definition) = defined.recv()
                {
                    let shared = definition.made.get(promise.model);
                    walker.define(definition.id, &definition.decoded, shared);
                    dictionary.insert(definition.id, Arc::clone(&definition.block));
                }
                walker.execute(chunk, &dictionary, &mut scratch);
                if let Some(stream) = chunk.stream() {
                    chunk.tell(promise.model, walker.steers(stream));
                }
            }
            // Nobody waits for a part that was given up.
            Order::Snapshot(stream, answer) => drop(answer.send(walker.snapshot(stream))),
            Order::EndThread(stream) => walker.end_thread(stream),
        }
    }
}
