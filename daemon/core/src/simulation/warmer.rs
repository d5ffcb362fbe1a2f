//! The thread that keeps a CPU model's long memory for the intervals of the others.
//!
//! It takes chunks in the order of the stream and answers when it has come to where a copy was
//! asked for; it waits for the stream and for who predicts its branches, who waits for nobody else,
//! so that who waits for it waits in vain never.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use mcad_isa::machine::CpuModel;
use mcad_proto::word::StreamId;

use super::chunk::Chunk;
use super::follower::{Follower, ToDo};
use super::homes::Change;
use super::warming::Walker;
use super::workers::{Definition, OnThread};
use crate::pipeline::functional::Warm;

/// Orders that may wait.
const QUEUE: usize = 8;

enum Order {
    Change(Change),
    Execute(Arc<Chunk>),
    Snapshot(StreamId, u64, SyncSender<Warm>),
    EndThread(StreamId),
}

/// Its owner's side.
pub(super) struct Warmer(Follower<Order>);

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
        let name = format!("warm {}", model.name);
        let model = Arc::clone(model);
        let work = move |to_do| work(number, Walker::new(&model, memory), to_do);
        Ok(Self(Follower::start(name, QUEUE, on_thread, work)?))
    }

    pub(super) fn define(&self, definition: &Arc<Definition>) {
        self.0.define(definition);
    }

    pub(super) fn change(&self, change: &Change) {
        self.0.order(Order::Change(change.clone()));
    }

    pub(super) fn execute(&self, chunk: &Arc<Chunk>) {
        self.0.order(Order::Execute(Arc::clone(chunk)));
    }

    /// Where what a thread's core remembers now will come; the instruction at `next` comes next.
    pub(super) fn snapshot(&self, stream: StreamId, next: u64) -> Receiver<Warm> {
        let (answer, there) = sync_channel(1);
        self.0.order(Order::Snapshot(stream, next, answer));
        there
    }

    pub(super) fn end_thread(&self, stream: StreamId) {
        self.0.order(Order::EndThread(stream));
    }

    /// Waits until it has done everything.
    pub(super) fn finish(self) {
        self.0.finish();
    }
}

/// `model`: number of its model.
fn work(model: usize, mut walker: Walker, mut to_do: ToDo<Order>) {
    while let Some(order) = to_do.next() {
        match order {
            Order::Change(change) => walker.change(&change),
            Order::Execute(chunk) => {
                to_do.define_to(chunk.defined, |definition| {
                    let shared = definition.made.get(model);
                    walker.define(definition.id, &definition.decoded, shared);
                });
                for (n, (stream, executions)) in chunk.threads().enumerate() {
                    let steers = chunk.steers(model, n);
                    walker.execute(stream, executions, steers, &to_do.dictionary);
                }
            }
            // Nobody waits for a part that was given up.
            Order::Snapshot(stream, next, answer) => {
                drop(answer.send(walker.snapshot(stream, next)));
            }
            Order::EndThread(stream) => walker.end_thread(stream),
        }
    }
}
