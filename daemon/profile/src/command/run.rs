//! One run of a command: started, counted, waited for.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, PipeReader, PipeWriter, Read, Seek, SeekFrom, Write};
use std::mem;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::intercepted;
use super::priority::{self, Level};
use super::sampled::{Clock, Samples};
use super::task_clock::TaskClock;
use super::{CommandError, Experiment, Input};
use crate::clock::{Cpu, Scope, UserCycles};

/// Bytes of stderr that an error shows.
const SHOWN: i64 = 2000;

/// What a run took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ran {
    /// User cycles, where there is a counter.
    pub counted: Option<f64>,
    /// Processor time in seconds that the kernel says was spent in user mode: from `exec` on where that is known.
    pub user: f64,
    /// And in itself.
    pub system: f64,
    /// Seconds from start to end.
    pub wall: f64,
    /// How often something else took the CPU away.
    pub preempted: i64,
}

/// Where a run writes.
struct Written {
    /// Its stdout, where that is compared.
    output: Option<File>,
    /// Its stderr.
    errors: File,
}

/// Runs the command of an experiment again and again.
pub(super) struct Runner<'p> {
    experiment: &'p Experiment,
    /// Whether the command goes ahead of everything else on its CPU.
    pub(super) ahead: bool,
    program: String,
    runs: u32,
    /// Length and hash of what the first run wrote.
    output: Option<(u64, u64)>,
    /// Why cycles could not be counted in the last run of which they were not.
    pub(super) no_counter: Option<String>,
    /// Why the last run's time is not known from `exec` on.
    pub(super) no_clock: Option<String>,
}

impl<'p> Runner<'p> {
    pub(super) fn new(experiment: &'p Experiment, ahead: bool) -> Self {
        Self {
            experiment,
            ahead,
            program: experiment
                .command
                .first()
                .map_or(String::new(), |p| p.to_string_lossy().into_owned()),
            runs: 0,
            output: None,
            no_counter: None,
            no_clock: None,
        }
    }

    /// Runs it once.
    ///
    /// # Errors
    /// When it does not start or does not succeed.
    pub(super) fn run(&mut self) -> Result<Ran, CommandError> {
        let (command, written) = self.next()?;
        let started = Instant::now();
        let counters = |pid| {
            let cycles = UserCycles::open(Scope::Command { pid });
            (cycles, TaskClock::open(pid))
        };
        let (child, (mut counter, clock)) = self.start(command, counters)?;
        let (status, usage) = wait(&child).map_err(doing("wait for the command"))?;
        let wall = started.elapsed().as_secs_f64();
        self.check(status, written)?;
        let counted = counter.as_mut().map_err(|e| e.to_string());
        let counted = counted.and_then(|c| c.read().map_err(|e| e.to_string()));
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        let (user, system) = (seconds(usage.ru_utime), seconds(usage.ru_stime));
        // What the kernel says has all that the child did before it became the program, too.
        let charged = user + system;
        let since_exec = clock.and_then(TaskClock::seconds);
        self.no_clock = since_exec.as_ref().err().map(ToString::to_string);
        let all = since_exec.unwrap_or(charged);
        let (user, system) = divided(all, user, system);
        Ok(Ran {
            counted: counted.map_err(|why| self.no_counter = Some(why)).ok(),
            user,
            system,
            wall,
            preempted: usage.ru_nivcsw,
        })
    }

    /// Runs it once and samples it on that CPU, once a period; an error inside says why it was not.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub(super) fn run_sampled(
        &mut self,
        cpu: Cpu,
        period: Duration,
    ) -> Result<io::Result<Samples>, CommandError> {
        let (command, written) = self.next()?;
        let (child, clock) = self.start(command, |pid| Clock::open(pid, cpu, period))?;
        let (status, _) = wait(&child).map_err(doing("wait for the command"))?;
        self.check(status, written)?;
        Ok(clock.map(Clock::samples))
    }

    /// Runs it once and counts how often it executes `cpuid`; none where that cannot be known.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub(super) fn run_counting_cpuid(&mut self) -> Result<Option<u64>, CommandError> {
        let (command, written) = self.next()?;
        let Ok((status, executions)) = intercepted::count(command) else {
            // It cannot be traced, or not started at all, which is said so.
            self.runs -= 1;
            return self.run().map(|_| None);
        };
        self.check(status, written)?;
        Ok(executions)
    }

    /// The command for the next run, and where it writes.
    fn next(&mut self) -> Result<(Command, Written), CommandError> {
        self.runs += 1;
        let written = Written {
            output: self.experiment.same_output.then(scratch).transpose()?,
            errors: scratch()?,
        };
        let mut command = self.command()?;
        command
            .stdin(self.input()?)
            .stderr(copy_of(&written.errors)?);
        command.stdout(match &written.output {
            Some(file) => copy_of(file)?,
            None => sink()?,
        });
        Ok((command, written))
    }

    /// Whether a run succeeded, and wrote what the others did where that is asked for.
    fn check(&mut self, status: ExitStatus, mut written: Written) -> Result<(), CommandError> {
        if !status.success() {
            return Err(self.failed(status, &mut written.errors));
        }
        if let Some(file) = &mut written.output {
            let written = fingerprint(file).map_err(doing("read the command's output"))?;
            if *self.output.get_or_insert(written) != written {
                return Err(CommandError::OutputDiffers {
                    run: self.runs,
                    program: self.program.clone(),
                });
            }
        }
        Ok(())
    }

    fn command(&self) -> Result<Command, CommandError> {
        let (program, arguments) = self
            .experiment
            .command
            .split_first()
            .ok_or(CommandError::Empty)?;
        let mut command = Command::new(program);
        let environment = self.experiment.environment.iter();
        command
            .args(arguments)
            .envs(environment.map(|(n, v)| (n, v)));
        if let Some(directory) = &self.experiment.directory {
            command.current_dir(directory);
        }
        Ok(command)
    }

    fn input(&self) -> Result<Stdio, CommandError> {
        let failed = |what: String| move |source| CommandError::Input { what, source };
        match &self.experiment.input {
            Input::Nothing => Ok(Stdio::null()),
            Input::Inherited => Ok(Stdio::inherit()),
            Input::File(path) => {
                let file = File::open(path).map_err(failed(path.display().to_string()))?;
                Ok(file.into())
            }
            Input::OwnFile { offset } => {
                // Opened anew, so that the offset is the run's own.
                let own = || failed("the file that stdin is".to_owned());
                let mut file = File::open("/proc/self/fd/0").map_err(own())?;
                file.seek(SeekFrom::Start(*offset)).map_err(own())?;
                Ok(file.into())
            }
        }
    }

    /// Starts the command with something that is attached to its process: the child waits before it
    /// becomes the program until that is there.
    fn start<T>(
        &self,
        mut command: Command,
        attach: impl FnOnce(libc::pid_t) -> T,
    ) -> Result<(Child, T), CommandError> {
        let pipe = || io::pipe().map_err(doing("make a pipe"));
        let ((mut hear, say), (wait, mut go)) = (pipe()?, pipe()?);
        let ahead = self.ahead;
        let before = move || {
            await_answer(&say, &wait)?;
            if ahead {
                priority::set(Level::Command)?;
            }
            Ok(())
        };
        // SAFETY: what it calls is allowed between fork and exec.
        unsafe { command.pre_exec(before) };
        // The thread is in `spawn` until the program runs.
        let (child, attached) = std::thread::scope(|scope| {
            let spawning = scope.spawn(move || {
                let child = command.spawn();
                // Lets go of the pipe's end if there was no child to write to it.
                drop(command);
                child
            });
            let mut pid = [0; 4];
            let attached = hear.read_exact(&mut pid).ok().map(|()| {
                let attached = attach(libc::pid_t::from_ne_bytes(pid));
                // A child that is gone is told by `spawn`.
                let _ = go.write_all(&[1]);
                attached
            });
            (spawning.join(), attached)
        });
        let child = child.unwrap_or_else(|_| Err(io::Error::other("the thread panicked")));
        let started = child.and_then(|child| {
            let attached = attached.ok_or_else(|| io::Error::other("it did not report itself"))?;
            Ok((child, attached))
        });
        started.map_err(|source| CommandError::Start {
            program: self.program.clone(),
            source,
        })
    }

    fn failed(&self, status: ExitStatus, errors: &mut File) -> CommandError {
        let mut text = Vec::new();
        let length = errors.metadata().map_or(0, |m| m.len()) as i64;
        let from = SeekFrom::Start(length.saturating_sub(SHOWN).max(0) as u64);
        // What cannot be read is not shown.
        let _ = errors
            .seek(from)
            .and_then(|_| errors.read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        CommandError::Failed {
            run: self.runs,
            program: self.program.clone(),
            how: match (status.code(), status.signal()) {
                (Some(code), _) => format!("status {code}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => "an unknown status".to_owned(),
            },
            said: match text.trim_end() {
                "" => String::new(),
                text => format!(":\n{text}"),
            },
        }
    }
}

/// Keeps the kernel from randomising the addresses of what this thread starts, while it lives.
pub(super) struct FixedAddresses(libc::c_int);

impl FixedAddresses {
    /// # Errors
    /// When the system forbids it, as the filters of containers do.
    pub(super) fn set() -> Result<Self, CommandError> {
        // SAFETY: reads the thread's personality.
        let before = unsafe { libc::personality(0xffff_ffff) };
        let fixed = before | libc::ADDR_NO_RANDOMIZE;
        // SAFETY: holds for what is started from here on only.
        if before == -1 || unsafe { libc::personality(fixed as libc::c_ulong) } == -1 {
            let source = io::Error::last_os_error();
            return Err(doing("fix the command's addresses")(source));
        }
        Ok(Self(before))
    }
}

impl Drop for FixedAddresses {
    fn drop(&mut self) {
        // SAFETY: as above. It was so before, so a failure has no cause that could be helped.
        unsafe { libc::personality(self.0 as libc::c_ulong) };
    }
}

/// In the child: says its number and waits for an answer.
fn await_answer(mut say: &PipeWriter, mut wait: &PipeReader) -> io::Result<()> {
    // SAFETY: no arguments.
    let pid = unsafe { libc::getpid() };
    say.write_all(&pid.to_ne_bytes())?;
    wait.read_exact(&mut [0])
}

fn wait(child: &Child) -> io::Result<(ExitStatus, libc::rusage)> {
    let mut status = 0;
    // SAFETY: plain data, all zeros until the call fills it in.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    loop {
        // SAFETY: both places live through the call; the child was not waited for.
        let done = unsafe {
            libc::wait4(
                child.id() as libc::pid_t,
                &raw mut status,
                0,
                &raw mut usage,
            )
        };
        if done >= 0 {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// So much time, divided into the program's and the kernel's as what the kernel charged of both.
fn divided(all: f64, user: f64, system: f64) -> (f64, f64) {
    let charged = user + system;
    // A part of one, so that rounding makes none of it more than all.
    let share = if charged > 0.0 { user / charged } else { 1.0 };
    let user = all * share;
    (user, all - user)
}

/// Where output goes that nobody reads. Not `/dev/null`, for which GNU `grep` ends at the first match
/// and `tar` reads no file: they would do less than in the run that was predicted.
fn sink() -> Result<Stdio, CommandError> {
    let device = File::options().write(true).open("/dev/zero");
    Ok(device.map_err(doing("open /dev/zero for output"))?.into())
}

/// A file without a name. A pipe's reader would take part of the CPU.
fn scratch() -> Result<File, CommandError> {
    tempfile::tempfile().map_err(doing("make a temporary file"))
}

fn copy_of(file: &File) -> Result<Stdio, CommandError> {
    let copy = file.try_clone().map_err(doing("make a temporary file"))?;
    Ok(copy.into())
}

fn fingerprint(file: &mut File) -> io::Result<(u64, u64)> {
    file.rewind()?;
    let (mut hasher, mut length) = (DefaultHasher::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((length, hasher.finish())),
            n => {
                hasher.write(buffer.get(..n).unwrap_or(&[]));
                length += n as u64;
            }
        }
    }
}

fn doing(doing: &'static str) -> impl FnOnce(io::Error) -> CommandError {
    move |source| CommandError::System { doing, source }
}

#[cfg(test)]
mod tests {
    use super::divided;

    #[test]
    fn no_part_of_the_time_is_more_than_all() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100_000 {
            let all = random.f64();
            let user = f64::from(random.u32(0..100_000)) / 1e6;
            for system in [0.0, f64::from(random.u32(0..100)) / 1e6] {
                let (program, kernel) = divided(all, user, system);
                assert!(
                    program <= program + kernel && kernel >= 0.0,
                    "{all}: {user}, {system}"
                );
                assert!(system > 0.0 || (program, kernel) == (all, 0.0));
            }
        }
    }
}
