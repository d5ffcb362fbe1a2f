//! Where things are in a cell's address space.
//!
//! The harness has one range far from everything that registers are set to; all the rest of user
//! space belongs to the measured code and is mapped as it is touched.

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// Begin of the harness's range.
pub(crate) const HARNESS: u64 = 0x3f3f_0000_0000;
/// End of the harness's range.
pub(crate) const HARNESS_END: u64 = HARNESS + (1 << 30);

/// The program that a cell starts as: `syscall; int3`, read and execute only.
pub(crate) const GADGET_PAGE: u64 = HARNESS;
/// Generated code, read and execute only.
pub(crate) const CODE: u64 = HARNESS + 0x0100_0000;
/// Bytes for generated code.
pub(crate) const CODE_BYTES: u64 = 1 << 18;
/// Numbers in and out, writable.
pub(crate) const CONTROL: u64 = HARNESS + 0x0200_0000;
/// Bytes of the control area.
pub(crate) const CONTROL_BYTES: u64 = 1 << 16;
/// What the measured code's pages are filled with before each run, read only: memory, stack.
pub(crate) const PATTERN: u64 = HARNESS + 0x0300_0000;
/// The measured code's two physical pages, for filling them: memory, stack.
pub(crate) const PHYSICAL: u64 = HARNESS + 0x0400_0000;
/// The page of the counter of cycles, where there is one.
pub(crate) const COUNTER: u64 = HARNESS + 0x0500_0000;

/// Offsets in the control area.
pub(crate) mod control {
    /// Where the next result goes.
    pub(crate) const CURSOR: u64 = 8;
    /// Runs that are left.
    pub(crate) const COUNT: u64 = 16;
    /// Ticks when the run began.
    pub(crate) const START: u64 = 0;
    /// Control and status of floating-point operations, set before each run.
    pub(crate) const MXCSR: u64 = 24;
    /// The seccomp filter while it is installed.
    pub(crate) const FILTER: u64 = 64;
    /// Results.
    pub(crate) const RESULTS: u64 = 4096;
}

/// Results that there is room for.
pub(crate) const MAX_RESULTS: usize = ((CONTROL_BYTES - control::RESULTS) / 8) as usize;

/// Lowest address that is mapped: Linux keeps what is below from unprivileged processes.
pub(crate) const LOWEST: u64 = 0x1_0000;
/// End of user space with four-level page tables.
pub(crate) const USER_END: u64 = 0x7fff_ffff_f000;

/// Middle of the measured code's stack: a page of its own, physically too.
pub(crate) const STACK: u64 = 0x6000_0800;
/// What `fs` and `gs` point to: in the stack's physical page, far from where the stack begins, so
/// that thread-local accesses as compilers make them (`fs:0x28`) meet nothing else.
pub(crate) const SEGMENTS: u64 = 0x6040_0000;
/// How far around [`STACK`] addresses belong to the stack's page.
const STACK_REACH: u64 = 0x0800_0000;

/// Whether the address belongs to the stack's physical page.
pub(crate) fn is_stack(address: u64) -> bool {
    address.abs_diff(STACK) < STACK_REACH
}

/// Whether the address belongs to the harness.
pub(crate) fn is_harness(address: u64) -> bool {
    (HARNESS..HARNESS_END).contains(&address)
}
