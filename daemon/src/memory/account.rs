//! What the threads of one session hold in memory, counted where memory is taken.
//!
//! A peer decides what a session keeps: blocks, threads, modules, texts, symbols of files. Sums of
//! estimates for each are wrong for what nobody thought of, so the allocator itself counts: every
//! thread that works for a session charges the session's [`Account`], and the session ends when
//! that is over its limit. Bytes are those asked for, without the allocator's own overhead.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

/// A thread tells its account when it took or gave this much since it did last.
const GRAIN: isize = 1 << 16;

/// The system's allocator, counted.
pub struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// What a thread has taken less what it gave since its account heard, and that account.
struct Local {
    since: Cell<isize>,
    /// Null, or an account that a [`Charge`] of this thread keeps alive.
    account: Cell<*const AtomicIsize>,
}

thread_local! {
    // Without a destructor, so that it can be used as long as the thread allocates.
    static LOCAL: Local = const {
        Local { since: Cell::new(0), account: Cell::new(ptr::null()) }
    };
}

#[inline]
fn count(bytes: isize) {
    LOCAL.with(|local| {
        let since = local.since.get().wrapping_add(bytes);
        local.since.set(since);
        if !(-GRAIN..=GRAIN).contains(&since) {
            tell(local);
        }
    });
}

#[cold]
fn tell(local: &Local) {
    let since = local.since.replace(0);
    // SAFETY: null, or kept alive by the charge that set it and resets it when it goes.
    if let Some(account) = unsafe { local.account.get().as_ref() } {
        account.fetch_add(since, Ordering::Relaxed);
    }
}

/// No layout is larger than `isize::MAX`.
const fn signed(bytes: usize) -> isize {
    bytes as isize
}

// SAFETY: all is done by the system's allocator; counting takes no memory.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size).wrapping_sub(signed(layout.size())));
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// Bytes that the threads of something hold together.
#[derive(Clone, Debug, Default)]
pub struct Account(Arc<AtomicIsize>);

impl Account {
    /// Charges what this thread takes from now on, until the charge is dropped.
    #[must_use]
    pub fn charge(&self) -> Charge {
        LOCAL.with(|local| {
            tell(local);
            Charge {
                before: local.account.replace(Arc::as_ptr(&self.0)),
                _account: self.clone(),
                _here: PhantomData,
            }
        })
    }

    /// Bytes held, as far as the threads have told: within 64 KiB for each but this one.
    #[must_use]
    pub fn held(&self) -> u64 {
        LOCAL.with(|local| {
            if local.since.get() != 0 && ptr::eq(local.account.get(), Arc::as_ptr(&self.0)) {
                tell(local);
            }
        });
        u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// A thread's duty to charge an account.
pub struct Charge {
    before: *const AtomicIsize,
    _account: Account,
    /// It belongs to the thread that made it.
    _here: PhantomData<*const ()>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        LOCAL.with(|local| {
            tell(local);
            local.account.set(self.before);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_charge_their_account_and_no_other() {
        let (ours, others) = (Account::default(), Account::default());
        let one = vec![1u8; 10 << 20];
        let held = {
            let _charge = ours.charge();
            let two = vec![1u8; 1 << 20];
            let inner = {
                let _charge = others.charge();
                vec![1u8; 3 << 20]
            };
            drop(one);
            let moved = std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    let _charge = ours.charge();
                    let kept = vec![1u8; 2 << 20];
                    drop(two);
                    kept
                });
                thread.join().unwrap()
            });
            let grown = vec![0u8; 20 << 20];
            assert!(others.held().abs_diff(3 << 20) < 1 << 18);
            // What was there before is given back on this account: it may not go below nothing.
            assert!(ours.held().abs_diff((2 + 20 - 10) << 20) < 1 << 18);
            drop((inner, moved));
            grown
        };
        let before = ours.held();
        drop(held);
        assert_eq!(ours.held(), before);
    }
}
