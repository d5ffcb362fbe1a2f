//! What the terminal and the system ask of a running `mcad-run`.
//!
//! A traced program shares the terminal and gets Ctrl-C itself; it decides what to do, and its
//! report is still wanted. So the first SIGINT is left to it and the second ends the session, as the
//! first does where no program runs beside; SIGTERM and SIGHUP end it at once. Handlers, unlike ignored signals, are not inherited by the
//! traced program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use crate::session::State;

/// Whether there was a SIGINT, or what [`note_the_first`] notes, in the life of the process.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether a watched session was interrupted, by whatever its program made of that; or a command that
/// notes it.
pub(super) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// The first interrupt or request to end from here on is only what [`interrupted`] says, so that a
/// command can clear away what it would leave behind. The next one ends the process.
pub(super) fn note_the_first() {
    extern "C" fn note(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: plain data; the handler stores to an atomic and does nothing else.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Watches for the life of the process. `beside`: a program runs that is interrupted, too.
pub(super) fn stop_on_signals(state: &Arc<State>, beside: bool) {
    let state = Arc::clone(state);
    let watch = move || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            let mut hangup = signal(SignalKind::hangup())?;
            let mut left_to_the_program = beside;
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {
                        INTERRUPTED.store(true, Ordering::Relaxed);
                        if !std::mem::take(&mut left_to_the_program) {
                            state.stop();
                        }
                    }
                    _ = terminate.recv() => state.stop(),
                    _ = hangup.recv() => state.stop(),
                }
            }
        })
    };
    let spawned = thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if let Err(error) = watch() {
                tracing::warn!(%error, "signals are not watched");
            }
        });
    if let Err(error) = spawned {
        tracing::warn!(%error, "signals are not watched");
    }
}
