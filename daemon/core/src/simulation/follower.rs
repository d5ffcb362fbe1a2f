//! A thread that follows the stream: it takes orders in the order of the stream from a bounded queue,
//! and blocks' code from a second one, so that a definition never waits behind an order.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::dictionary::Dictionary;
use super::workers::{Definition, OnThread};

/// Its owner's side. `T` is what the thread gives at its end.
pub(super) struct Follower<Order, T = ()> {
    orders: SyncSender<Order>,
    definitions: Sender<Arc<Definition>>,
    thread: JoinHandle<T>,
}

impl<Order: Send + 'static, T: Send + 'static> Follower<Order, T> {
    /// Starts a thread where `queue` orders may wait.
    ///
    /// # Errors
    /// When the system gives none.
    pub(super) fn start(
        name: String,
        queue: usize,
        on_thread: &OnThread,
        work: impl FnOnce(ToDo<Order>) -> T + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, to_do) = sync_channel(queue);
        let (definitions, defined) = channel();
        let on_thread = Arc::clone(on_thread);
        let thread = Builder::new().name(name).spawn(move || {
            let _held = on_thread();
            work(ToDo {
                orders: to_do,
                defined,
                dictionary: Dictionary::default(),
            })
        })?;
        Ok(Self {
            orders,
            definitions,
            thread,
        })
    }

    /// Waits while the queue is full. A thread that is gone has panicked, which
    /// [`Follower::finish`] passes on.
    pub(super) fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// A block was defined.
    pub(super) fn define(&self, definition: &Arc<Definition>) {
        let _ = self.definitions.send(Arc::clone(definition));
    }

    /// Says that nothing follows; what it gives waits until the thread has done everything.
    pub(super) fn end(self) -> impl FnOnce() -> T {
        drop((self.orders, self.definitions));
        let thread = self.thread;
        || thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Waits until it has done everything.
    pub(super) fn finish(self) -> T {
        self.end()()
    }
}

/// The thread's side.
pub(super) struct ToDo<Order> {
    orders: Receiver<Order>,
    defined: Receiver<Arc<Definition>>,
    /// Blocks that were defined so far, as far as they were asked for.
    pub(super) dictionary: Dictionary,
}

impl<Order> ToDo<Order> {
    /// Waits for the next order; none when nothing follows.
    pub(super) fn next(&self) -> Option<Order> {
        self.orders.recv().ok()
    }

    /// Takes definitions until there are so many; fewer if no more come.
    pub(super) fn define_to(&mut self, count: usize, mut define: impl FnMut(&Definition)) {
        while self.dictionary.defined() < count
            && let Ok(definition) = self.defined.recv()
        {
            define(&definition);
            self.dictionary
                .insert(definition.id, Arc::clone(&definition.block));
        }
    }
}
