//! What system calls do to a program's memory: the kernel reads and writes buffers, through the
//! same caches, and maps pages anew.
//!
//! Copies go through the first level; what is left of a buffer is in the second. Who first touches a
//! page that the kernel has written need not fault. Lines of pages that are mapped anew may stay
//! where they are: nobody gets at them before the page's tables are walked, which says that it is
//! touched first.
//!
//! A call that does any of this goes through enough of the kernel's code and data to push the
//! program's out of the first level (`tlb.call_code_lines`); one that does not, such as `getpid`, does
//! too little to matter.

use mcad_isa::machine::hierarchy::LINE_BYTES;
use mcad_proto::word::{Kernel, Work};

use super::sets::{Key, State};
use super::{Level, Memory, PAGE_LINES};

/// Lines of the kernel's are told from the program's by a bit that no user address has.
const KERNEL: u64 = 1 << 57;
/// Spreads numbers over lines; from the golden ratio (Knuth, TAOCP 3, section 6.4).
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The kernel's line of code of a number: functions lie in a row, so that sets get equally many.
fn kernel_code(number: u32) -> Key {
    Key(KERNEL | u64::from(number).wrapping_mul(SCATTER) >> 32)
}

/// Its line of data of a number: scattered like chance, so that some sets get several (the finaliser
/// of Steele, Lea & Flood's SplitMix, OOPSLA 2014).
fn kernel_data(number: u32) -> Key {
    let x = u64::from(number).wrapping_mul(SCATTER);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    Key(KERNEL | x >> 32)
}

impl Memory {
    /// The kernel ran: what it needed, so many lines of code and of data, is in the first level, the
    /// same lines every time, scattered over the sets.
    pub(super) fn kernel_ran(&mut self, (code, data): (u32, u32), at: u64) {
        let there = State::new(at, Level::L2);
        for line in (0..code).map(kernel_code) {
            if self.l1i.find(line).is_none() {
                self.l1i.insert(line, there);
            }
        }
        for line in (0..data).map(kernel_data) {
            if self.l1d.find(line).is_none() {
                self.place_l1(line.0, there);
            }
        }
    }

    /// A system call in cycle `at` does all this.
    pub fn enter_kernel(&mut self, work: &[Kernel], at: u64) {
        let at = at + self.epoch;
        if !work.is_empty() {
            self.kernel_ran(self.call_lines, at);
        }
        for Kernel {
            work,
            address,
            bytes,
        } in work
        {
            let addresses = address.0..address.0.saturating_add(*bytes);
            match work {
                Work::Read | Work::Wrote => {
                    for line in addresses.start / LINE_BYTES..addresses.end.div_ceil(LINE_BYTES) {
                        self.copy(line, *work == Work::Wrote, at);
                    }
                }
                Work::Fresh | Work::File => {
                    if let Some(tlb) = &mut self.tlb {
                        tlb.forget(addresses.start >> 12..addresses.end.div_ceil(1 << 12));
                    }
                    self.shared.pages.forget(addresses.clone());
                    if *work == Work::File {
                        self.shared.pages.map_file(addresses);
                    }
                }
                Work::Moved => {
                    for page in addresses.start >> 12..addresses.end.div_ceil(1 << 12) {
                        self.shared.pages.touch(page);
                    }
                }
            }
        }
    }

    /// The kernel copies a line from or to the program.
    fn copy(&mut self, line: u64, write: bool, at: u64) {
        self.shared.pages.touch(line / PAGE_LINES);
        match self.l2.find(Key(line)) {
            Some(place) => {
                let state = self.l2.state(place);
                *state = state.dirty(write);
            }
            None => self.place_l2(line, State::new(at, Level::L2).dirty(write)),
        }
    }
}
