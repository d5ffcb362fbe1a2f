//! The thread that keeps a CPU model's long memory for the intervals of the others.
//!
//! It takes chunks in the order of the stream and answers when it has come to where a copy was
//! asked for; it waits for the stream and for who predicts its branches, who waits for nobody else,
//! so that who waits for it waits in vain never.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use mcad_isa::machine::CpuModel;
use mcad_proto::word::StreamId;

use super::chunk::Chunk;
use super::dictionary::Dictionary;
use super::homes::Change;
use super::warming::Walker;
use super::workers::{Definition, OnThread};
use crate::pipeline::functional::Warm;

/// Orders that may wait.
const QUEUE: usize = 8;

enum Order {
    Change(Change),
    Execute(Arc<Chunk>),
    Snapshot(StreamId, SyncSender<Warm>),
    EndThread(StreamId),
}

/// Its owner's side.
pub(super) struct Warmer {
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
                work(number, Walker::new(&model, memory), &to_do, &defined);
            })?;
        Ok(Self {
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
        self.order(Order::Execute(Arc::clone(chunk)));
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

/// `model`: number of its model.
fn work(
    model: usize,
    mut walker: Walker,
    orders: &Receiver<Order>,
    defined: &Receiver<Arc<Definition>>,
) {
    let mut dictionary = Dictionary::default();
    for order in orders {
        match order {
            Order::Change(change) => walker.change(&change),
            Order::Execute(chunk) => {
                while dictionary.defined() < chunk.defined
                    && let Ok(definition) = defined.recv()
                {
                    let shared = definition.made.get(model);
                    walker.define(definition.id, &definition.decoded, shared);
                    dictionary.insert(definition.id, Arc::clone(&definition.block));
                }
                for (n, (stream, executions)) in chunk.threads().enumerate() {
                    let steers = chunk.steers(model, n);
                    walker.execute(stream, executions, steers, &dictionary);
                }
            }
            // Nobody waits for a part that was given up.
            Order::Snapshot(stream, answer) => drop(answer.send(walker.snapshot(stream))),
            Order::EndThread(stream) => walker.end_thread(stream),
        }
    }
}
