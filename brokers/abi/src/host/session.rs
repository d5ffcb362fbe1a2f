//! One session of a broker.

use std::ffi::c_char;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcad_proto::event::Event;

use crate::config::Config;
use crate::ffi::{self, mcad_event, mcad_session, mcad_str};
use crate::host::BrokerError;
use crate::host::check::{self, MAX_TEXT_BYTES};
use crate::host::library::Shared;

/// Longest message that `open` may give.
const OPEN_ERROR_BYTES: usize = 8192;

/// An open session; closed when dropped. Used by one thread at a time.
pub struct BrokerSession {
    link: Arc<Link>,
    session: *mut mcad_session,
    events: u64,
    over: bool,
}

// SAFETY: the header lets a session move between threads as long as one uses it at a time.
unsafe impl Send for BrokerSession {}

/// What a session shares with its stoppers.
struct Link {
    library: Arc<Shared>,
    /// The session while it is open; the lock keeps `stop` and `close` apart.
    open: Mutex<Option<Handle>>,
}

#[derive(Clone, Copy)]
struct Handle(*mut mcad_session);

// SAFETY: only `stop`, callable from any thread, and `close`, under the lock, go through it.
unsafe impl Send for Handle {}

/// Asks a session to end soon, from any thread; does nothing once the session is closed.
#[derive(Clone)]
pub struct Stopper(Arc<Link>);

impl Stopper {
    /// Asks; the rest of the events is still delivered by the session. `false` when the broker
    /// cannot stop or the session is closed.
    pub fn stop(&self) -> bool {
        let open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        match (*open, self.0.library.stop) {
            (Some(Handle(session)), Some(stop)) => {
                // SAFETY: the session is open, and stays so while the lock is held.
                unsafe { stop(session) };
                true
            }
            _ => false,
        }
    }
}

impl BrokerSession {
    pub(super) fn open(library: Arc<Shared>, config: &Config) -> Result<Self, BrokerError> {
        let text = config.encode();
        let mut session = std::ptr::null_mut();
        let mut error = [0u8; OPEN_ERROR_BYTES];
        let mut error_len = 0;
        // SAFETY: every pointer leads to as much memory as is said, for the time of the call.
        let status = unsafe {
            (library.open)(
                mcad_str::of(&text),
                &raw mut session,
                error.as_mut_ptr().cast::<c_char>(),
                error.len(),
                &raw mut error_len,
            )
        };
        let broker = library.name.clone();
        if status != 0 {
            let message = String::from_utf8_lossy(&error[..error_len.min(error.len())]);
            let message = match message.trim() {
                "" => format!("open failed with status {status} and no message"),
                message => message.to_owned(),
            };
            return Err(BrokerError::Open { broker, message });
        }
        if session.is_null() {
            let message = "open reported success without a session".into();
            return Err(BrokerError::Open { broker, message });
        }
        Ok(Self {
            link: Arc::new(Link {
                library,
                open: Mutex::new(Some(Handle(session))),
            }),
            session,
            events: 0,
            over: false,
        })
    }

    /// Name of the broker.
    #[must_use]
    pub fn broker(&self) -> &str {
        &self.link.library.name
    }

    /// Waits up to `timeout` (at most about 49 days) for the next event; `None` when there was
    /// none in time. Nothing follows [`Event::End`].
    ///
    /// # Errors
    /// The session is over after any error: [`BrokerError::Session`] with the broker's own
    /// message, [`BrokerError::BadEvent`] when the event breaks the ABI's rules,
    /// [`BrokerError::Over`] when called again.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event<'_>>, BrokerError> {
        let library = &self.link.library;
        if self.over {
            return Err(BrokerError::Over {
                broker: library.name.clone(),
            });
        }
        // A pause of less than a millisecond would make a busy loop of a waiting caller.
        let timeout_ms = timeout.as_micros().div_ceil(1000).min(u32::MAX.into()) as u32;
        let mut event = mcad_event::EMPTY;
        // SAFETY: an open session, used by this thread alone since `self` is borrowed mutably.
        let status = unsafe { (library.next)(self.session, timeout_ms, &raw mut event) };
        if status != 0 {
            self.over = true;
            // SAFETY: the broker's text lives until the next call.
            let message = match unsafe { check::text(event.text, MAX_TEXT_BYTES) } {
                Ok("") => format!("next failed with status {status} and no message"),
                Ok(text) => text.to_owned(),
                Err(why) => format!("next failed with status {status}; its message: {why}"),
            };
            return Err(BrokerError::Session {
                broker: library.name.clone(),
                events: self.events,
                message,
            });
        }
        if event.kind == ffi::MCAD_EVENT_NONE {
            return Ok(None);
        }
        self.events += 1;
        // SAFETY: what the event points at lives until the next call, which needs `self` again.
        match unsafe { check::event(&event) } {
            Ok(checked) => {
                self.over = matches!(checked, Event::End(_));
                Ok(Some(checked))
            }
            Err(what) => {
                self.over = true;
                Err(BrokerError::BadEvent {
                    broker: library.name.clone(),
                    event: self.events,
                    what,
                })
            }
        }
    }

    /// Asks the session to end soon; see [`Stopper::stop`].
    pub fn stop(&self) -> bool {
        self.stopper().stop()
    }

    /// A handle that stops this session from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.link))
    }
}

impl Drop for BrokerSession {
    fn drop(&mut self) {
        let mut open = self
            .link
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(Handle(session)) = open.take() {
            // SAFETY: open until now, and no stopper is inside `stop` while the lock is held.
            unsafe { (self.link.library.close)(session) };
        }
    }
}

impl std::fmt::Debug for BrokerSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrokerSession")
            .field("broker", &self.broker())
            .field("events", &self.events)
            .field("over", &self.over)
            .finish()
    }
}
