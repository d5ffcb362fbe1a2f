//! A cell: the process in which measured code runs.
//!
//! It starts as a program of one page (`image`), unmaps all the kernel gave it, and from then on
//! does only what the profiler makes it do through `ptrace`. Whatever measured code does to
//! registers, stack or memory concerns the cell alone: the harness keeps nothing in it but a page
//! of code and a list of numbers. So after anything but an orderly end a cell is thrown away.
//!
//! Measured code can neither write code (no page is both writable and executable) nor enter the
//! kernel (`filter`), and a timer ends what does not end. A page that it touches is mapped to one
//! of two physical pages, as BHive's profiler does (Chen et al., IISWC 2019, section 3).

mod filter;
mod image;
pub(crate) mod layout;
mod shared;
#[cfg(test)]
mod tests;
mod trace;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use rustix::process::{Resource, Rlimit, prlimit};

use crate::clock::{Scope, UserCycles};
use layout::{
    CODE, CODE_BYTES, CONTROL, CONTROL_BYTES, COUNTER, HARNESS, HARNESS_END, LOWEST, MAX_RESULTS,
    PAGE, PATTERN, PHYSICAL, SEGMENTS, USER_END, control, is_harness, is_stack,
};
use shared::Shared;
pub(crate) use trace::Registers;
use trace::{Stopped, Tracee};

/// Pages that one run may touch; beyond it translation would be what is measured.
pub const MAX_PAGES: u32 = 1024;
/// Time slices, in user mode, after which a run is stopped.
const SLICES: u32 = 4;
const SLICE_MICROSECONDS: i64 = 50_000;

const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;

/// What to do when the kernel refuses a cell its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// No cell then.
    Required,
    /// A cell without: only the decoder keeps measured code from system calls.
    IfPossible,
}

/// Why there is no cell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// The system refused something without which there is no cell.
    #[error("cannot {what}: {cause}{hint}")]
    System {
        /// What.
        what: &'static str,
        /// What the system says.
        cause: io::Error,
        /// The way out.
        hint: &'static str,
    },
    /// No seccomp.
    #[error(
        "the kernel refuses a seccomp filter ({0}); --no-seccomp measures without, for code that \
         is trusted"
    )]
    NoFilter(io::Error),
    /// The process ended on its own.
    #[error("the measuring process ended unexpectedly")]
    Gone,
}

/// Why a run did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Touched what cannot be mapped.
    Unmappable(u64),
    /// Touched an address that no page can have.
    NonCanonical,
    /// Wrote where only the harness does.
    Harness(u64),
    /// More than [`MAX_PAGES`].
    Pages,
    /// Did not end.
    Endless,
    /// Another signal, at an address of the code.
    Signal(i32, u64),
    /// The process is gone.
    Gone,
}

/// What goes wrong with a run.
#[derive(Debug)]
pub(crate) enum RunError {
    /// The measured code's doing.
    Stop(Stop),
    /// The system's.
    System(io::Error),
}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<Stop> for RunError {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// The process, stopped whenever no method runs.
#[derive(Debug)]
pub(crate) struct Cell {
    tracee: Tracee,
    /// Registers to start from: segments and flags as the kernel set them.
    base: Registers,
    code: Shared,
    control: Shared,
    /// Patterns and physical pages: memory's pattern, the stack's, memory, stack.
    pages: Shared,
    mapped: u32,
    /// Whether system calls are filtered.
    pub(crate) filtered: bool,
    /// Whether a counter of cycles can be read in it.
    pub(crate) counter: bool,
}

const PATTERN_AT: u64 = 0;
const PHYSICAL_AT: u64 = 2 * PAGE;

fn system(what: &'static str) -> impl Fn(io::Error) -> CellError {
    move |cause| CellError::System {
        what,
        hint: match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                " (a container's filter, or kernel.yama.ptrace_scope above 1, may forbid it)"
            }
            _ => "",
        },
        cause,
    }
}

impl Cell {
    /// Starts a cell. It is bound to the calling thread, and dies with it.
    ///
    /// # Errors
    /// When the system forbids a part of it.
    pub(crate) fn start(sandbox: Sandbox) -> Result<Self, CellError> {
        let memory = system("create shared memory");
        let mut program = Shared::new(c"mcad-cell", PAGE).map_err(&memory)?;
        program.write(0, &image::elf()).map_err(&memory)?;
        let code = Shared::new(c"mcad-code", CODE_BYTES).map_err(&memory)?;
        let control = Shared::new(c"mcad-control", CONTROL_BYTES).map_err(&memory)?;
        let pages = Shared::new(c"mcad-pages", 4 * PAGE).map_err(&memory)?;
        // Its number is where the child puts its counter.
        let counter = File::open("/dev/null").map_err(system("open /dev/null"))?;
        let tracee = launch(
            &program.file,
            [&code.file, &control.file, &pages.file],
            &counter,
        )
        .map_err(system("start the measuring process under ptrace"))?;
        let mut cell = Self {
            tracee,
            // SAFETY: plain numbers; set below.
            base: unsafe { std::mem::zeroed() },
            code,
            control,
            pages,
            mapped: 0,
            filtered: false,
            counter: false,
        };
        if cell.tracee.wait().map_err(system("wait for it"))? != Stopped::Signal(Signal::SIGTRAP) {
            return Err(CellError::Gone);
        }
        cell.prepare(counter.as_raw_fd(), sandbox)?;
        Ok(cell)
    }

    fn prepare(&mut self, counter: i32, sandbox: Sandbox) -> Result<(), CellError> {
        let trace = system("trace the measuring process");
        self.tracee.bind().map_err(&trace)?;
        self.base = self.tracee.registers().map_err(&trace)?;
        let map = system("map the harness");
        let (read, write, execute) = (libc::PROT_READ, libc::PROT_WRITE, libc::PROT_EXEC);
        let fds = [&self.code, &self.control, &self.pages].map(|s| s.file.as_raw_fd());
        let [code, control, pages] = fds;
        for (address, bytes, access, fd, offset) in [
            (CODE, CODE_BYTES, read | execute, code, 0),
            (CONTROL, CONTROL_BYTES, read | write, control, 0),
            (PATTERN, 2 * PAGE, read, pages, PATTERN_AT),
            (PHYSICAL, 2 * PAGE, read | write, pages, PHYSICAL_AT),
        ] {
            self.map(address, bytes, access, fd, offset).map_err(&map)?;
        }
        self.counter = self.map(COUNTER, PAGE, read, counter, 0).is_ok()
            && self.counter_readable().map_err(&trace)?;
        self.unmap_all()
            .map_err(system("empty the measuring process"))?;
        self.limit()
            .map_err(system("limit the measuring process"))?;
        match self.filter() {
            Ok(()) => self.filtered = true,
            Err(error) if sandbox == Sandbox::Required => return Err(CellError::NoFilter(error)),
            Err(_) => {}
        }
        Ok(())
    }

    /// Whether the counter's page says that `rdpmc` works and which counter to read.
    fn counter_readable(&self) -> io::Result<bool> {
        let index = self.tracee.peek(COUNTER + 8)? >> 32;
        let capabilities = self.tracee.peek(COUNTER + 40)?;
        Ok(index != 0 && capabilities & 1 << 2 != 0)
    }

    fn limit(&mut self) -> io::Result<()> {
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        for resource in [Resource::Core, Resource::Nproc, Resource::Fsize] {
            prlimit(self.tracee.pid(), resource, none)?;
        }
        let slice: Vec<u8> = [0, SLICE_MICROSECONDS, 0, SLICE_MICROSECONDS]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect();
        self.control.write(control::FILTER, &slice)?;
        let timer = CONTROL + control::FILTER;
        self.system_call(
            libc::SYS_setitimer,
            [libc::ITIMER_VIRTUAL as u64, timer, 0, 0, 0, 0],
        )?;
        let dumpable = libc::PR_SET_DUMPABLE as u64;
        self.system_call(libc::SYS_prctl, [dumpable, 0, 0, 0, 0, 0])?;
        Ok(())
    }

    fn filter(&mut self) -> io::Result<()> {
        let address = CONTROL + control::FILTER;
        self.control
            .write(control::FILTER, &filter::bytes(address))?;
        let privileges = libc::PR_SET_NO_NEW_PRIVS as u64;
        self.system_call(libc::SYS_prctl, [privileges, 1, 0, 0, 0, 0])?;
        let mode = u64::from(libc::SECCOMP_SET_MODE_FILTER);
        // Without this flag kernels before 5.16 forbid filtered processes to speculate past stores,
        // which is measured then.
        let speculate = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
        self.system_call(libc::SYS_seccomp, [mode, speculate, address, 0, 0, 0])?;
        Ok(())
    }

    /// Writes generated code, to [`CODE`].
    pub(crate) fn load(&mut self, code: &[u8]) -> io::Result<()> {
        self.code.write(0, code)
    }

    /// Sets what the two physical pages are filled with.
    pub(crate) fn set_patterns(&mut self, memory: &[u8], stack: &[u8]) -> io::Result<()> {
        self.pages.write(PATTERN_AT, memory)?;
        self.pages.write(PATTERN_AT + PAGE, stack)?;
        self.pages.write(PHYSICAL_AT, memory)?;
        self.pages.write(PHYSICAL_AT + PAGE, stack)
    }

    /// Writes a number to the control area.
    pub(crate) fn set_control(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.control.write(offset, bytes)
    }

    /// The n-th result.
    pub(crate) fn result(&self, n: usize) -> u64 {
        if n < MAX_RESULTS {
            self.control.read(control::RESULTS + 8 * n as u64)
        } else {
            0
        }
    }

    /// Registers at the start of a run: nothing but segments and flags.
    pub(crate) fn fresh_registers(&self, pointer: u64) -> Registers {
        Registers {
            rip: pointer,
            orig_rax: u64::MAX,
            eflags: 0x202,
            fs_base: SEGMENTS,
            gs_base: SEGMENTS,
            ..self.base
        }
    }

    /// Runs code from `entry` until the breakpoint that ends before `end`.
    pub(crate) fn run(&mut self, entry: u64, end: u64) -> Result<(), RunError> {
        self.tracee.set_registers(&self.fresh_registers(entry))?;
        let mut slices = 0;
        loop {
            self.tracee.go_on()?;
            match self.tracee.wait()? {
                Stopped::Signal(Signal::SIGTRAP) => {
                    let at = self.tracee.registers()?.rip;
                    if at == end {
                        return Ok(());
                    }
                    return Err(Stop::Signal(libc::SIGTRAP, at).into());
                }
                Stopped::Signal(signal) => self.signal(signal, &mut slices)?,
                Stopped::Gone => return Err(Stop::Gone.into()),
            }
        }
    }

    /// Runs code one instruction at a time from these registers until `end`, or until `each`,
    /// which sees the registers before every instruction, says that it is enough.
    pub(crate) fn step(
        &mut self,
        from: &Registers,
        end: u64,
        mut each: impl FnMut(&Registers) -> bool,
    ) -> Result<(), RunError> {
        self.tracee.set_registers(from)?;
        let mut slices = 0;
        let mut registers = *from;
        loop {
            if registers.rip == end || !each(&registers) {
                return Ok(());
            }
            loop {
                self.tracee.step()?;
                match self.tracee.wait()? {
                    Stopped::Signal(Signal::SIGTRAP) => break,
                    Stopped::Signal(signal) => self.signal(signal, &mut slices)?,
                    Stopped::Gone => return Err(Stop::Gone.into()),
                }
            }
            registers = self.tracee.registers()?;
        }
    }

    /// Deals with a signal: maps a page, counts a slice, or ends the run.
    fn signal(&mut self, signal: Signal, slices: &mut u32) -> Result<(), RunError> {
        match signal {
            Signal::SIGSEGV => Ok(self.fault()?),
            Signal::SIGVTALRM => {
                *slices += 1;
                if *slices > SLICES {
                    return Err(Stop::Endless.into());
                }
                Ok(())
            }
            Signal::SIGFPE | Signal::SIGILL | Signal::SIGBUS | Signal::SIGSYS => {
                let at = self.tracee.registers()?.rip;
                Err(Stop::Signal(signal as i32, at).into())
            }
            // Whatever else somebody sends to the process is not the code's doing.
            _ => Ok(()),
        }
    }

    fn fault(&mut self) -> Result<(), RunError> {
        let info = self.tracee.signal_info()?;
        match info.code {
            SEGV_MAPERR if is_harness(info.address) => Err(Stop::Harness(info.address).into()),
            SEGV_MAPERR if (LOWEST..USER_END).contains(&info.address) => {
                if self.mapped >= MAX_PAGES {
                    return Err(Stop::Pages.into());
                }
                let registers = self.tracee.registers()?;
                let stack = u64::from(is_stack(info.address));
                let access = libc::PROT_READ | libc::PROT_WRITE;
                let page = info.address & !(PAGE - 1);
                let fd = self.pages.file.as_raw_fd();
                let offset = PHYSICAL_AT + stack * PAGE;
                self.map(page, PAGE, access, fd, offset)
                    .map_err(|_| Stop::Unmappable(info.address))?;
                self.mapped += 1;
                self.tracee.set_registers(&Registers {
                    orig_rax: u64::MAX,
                    ..registers
                })?;
                Ok(())
            }
            SEGV_MAPERR => Err(Stop::Unmappable(info.address).into()),
            SEGV_ACCERR if is_harness(info.address) => Err(Stop::Harness(info.address).into()),
            SEGV_ACCERR => Err(Stop::Unmappable(info.address).into()),
            _ => Err(Stop::NonCanonical.into()),
        }
    }

    /// Unmaps the pages that the measured code touched.
    pub(crate) fn forget_pages(&mut self) -> io::Result<()> {
        if self.mapped > 0 {
            self.unmap_all()?;
            self.mapped = 0;
        }
        Ok(())
    }

    fn unmap_all(&mut self) -> io::Result<()> {
        for (from, to) in [(0, HARNESS), (HARNESS_END, USER_END)] {
            self.system_call(libc::SYS_munmap, [from, to - from, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    fn map(
        &mut self,
        address: u64,
        bytes: u64,
        access: i32,
        fd: i32,
        offset: u64,
    ) -> io::Result<()> {
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let arguments = [
            address,
            bytes,
            access as u64,
            flags as u64,
            fd as u64,
            offset,
        ];
        self.system_call(libc::SYS_mmap, arguments).map(drop)
    }

    /// Makes the cell do a system call.
    fn system_call(&mut self, number: libc::c_long, arguments: [u64; 6]) -> io::Result<u64> {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let registers = Registers {
            rax: number as u64,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..self.fresh_registers(image::GADGET)
        };
        self.tracee.set_registers(&registers)?;
        loop {
            self.tracee.go_on()?;
            match self.tracee.wait()? {
                Stopped::Signal(Signal::SIGTRAP) => break,
                Stopped::Signal(Signal::SIGSYS | Signal::SIGSEGV) => {
                    return Err(io::Error::from_raw_os_error(libc::EPERM));
                }
                Stopped::Signal(_) => {}
                Stopped::Gone => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        }
        let result = self.tracee.registers()?.rax as i64;
        if (-4095..0).contains(&result) {
            return Err(io::Error::from_raw_os_error(-result as i32));
        }
        Ok(result as u64)
    }
}

/// Starts `program` under `ptrace`, stopped, with these files open.
fn launch(program: &File, kept: [&File; 3], counter: &File) -> io::Result<Tracee> {
    let program = program.as_raw_fd();
    let kept = kept.map(AsRawFd::as_raw_fd);
    let counter = counter.as_raw_fd();
    let mut command = Command::new("mcad-cell");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let become_cell = move || {
        let check = |result: libc::c_long| match result {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        };
        // SAFETY: system calls only, with arguments that live through them.
        unsafe {
            check(libc::setpgid(0, 0).into())?;
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into())?;
            for fd in kept {
                check(libc::fcntl(fd, libc::F_SETFD, 0).into())?;
            }
            if let Ok(cycles) = UserCycles::open(Scope::Thread) {
                check(libc::dup2(cycles.descriptor(), counter).into())?;
            }
            check(libc::ptrace(libc::PTRACE_TRACEME))?;
            let (arguments, environment) = (
                [c"mcad-cell".as_ptr(), std::ptr::null()],
                [std::ptr::null::<libc::c_char>()],
            );
            check(libc::syscall(
                libc::SYS_execveat,
                program,
                c"".as_ptr(),
                arguments.as_ptr(),
                environment.as_ptr(),
                libc::AT_EMPTY_PATH,
            ))
        }
    };
    // SAFETY: between fork and exec only system calls are made and nothing is allocated.
    unsafe { command.pre_exec(become_cell) };
    let child = command.spawn()?;
    // The handle is dropped without waiting: the cell does that itself.
    Ok(Tracee::child(child.id()))
}
