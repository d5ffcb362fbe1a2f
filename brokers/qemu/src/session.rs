//! A session: a program under QEMU, its ring drained into events, and those of the processes that it
//! makes.
//!
//! The session starts the emulator (`arg=`), or waits at a named ring for one that someone else
//! starts (`ring=`). It ends with the first process, as the command does for whoever called it:
//! processes that outlive it have `linger_ms` to end, too, and what they do after that is not
//! recorded. They are left alone then, unless the session was stopped, which kills them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcad_broker_abi::{Broker, Config, Features, StopFn};
use mcad_proto::event::{Arch, EndReason, Event, SessionInfo};

use crate::accept::Accepted;
use crate::executable::{self, ExecutableError};
use crate::family::{Family, exec_path};
use crate::pack::Pack;
use crate::plugin::{self, PluginError};
use crate::process::Start;
use crate::producer::{Ended, Producer};
use crate::qemu::{self, NoQemu};
use crate::ring::RingError;
use crate::ring::layout::{EXEC_TRIED, OPTION_FOLLOW, OPTION_MEMORY};
use crate::ring::memory::{MOST_THREADS, Memory, SLOTS};
use crate::ring::reader;
use crate::translator::MAX_PROCESSES;

/// Default size of the ring: enough to ride out pauses of the reader, small beside its own limit.
const DEFAULT_RING_MIB: u64 = 32;
/// Longest sleep between two looks at the emulator, should its end's wake-up be missed.
const NAP: Duration = Duration::from_millis(10);
/// How long processes that outlive the first one are waited for: long enough for those that are
/// about to end, short enough for a daemon not to hold up whoever waits for the command.
const LINGER: Duration = Duration::from_secs(3);

const KEYS: &[&str] = &[
    "arg",
    "qemu",
    "plugin",
    "memory",
    "ring_mib",
    "ring",
    "follow_exec",
    "follow_children",
    "linger_ms",
    "max_processes",
    "max_threads",
    "sysroot",
    "qemu_cpu",
    "stdout_to_stderr",
];

/// A session that cannot start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] mcad_broker_abi::ConfigError),
    /// The program cannot be traced.
    #[error(transparent)]
    Executable(#[from] ExecutableError),
    /// There is no emulator.
    #[error(transparent)]
    Qemu(#[from] NoQemu),
    /// There is no plugin.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The ring cannot be created or is damaged.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The emulator cannot be started or waited for.
    #[error("the emulator{}: {source}", if .path.is_empty() { String::new() } else { format!(" {}", .path) })]
    Process {
        /// The emulator, if it is ours.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It ended before the plugin could say anything.
    #[error(
        "{path} ended with {how} before it loaded the plugin {plugin}; its own message says why"
    )]
    NeverAttached {
        /// The emulator.
        path: String,
        /// The plugin.
        plugin: String,
        /// Exit status or signal.
        how: String,
    },
    /// The session was stopped while it waited for someone else's emulator.
    #[error("stopped before an emulator came to the ring")]
    NobodyCame,
}

/// A program that runs under QEMU, as a source of events.
#[derive(Debug)]
pub struct Session {
    producer: Producer,
    memory: Arc<Memory>,
    family: Family,
    pack: Pack,
    /// Notices for behind the session's start.
    notices: Vec<String>,
    linger: Duration,
    /// How the first process ended, and until when others are waited for.
    first: Option<(EndReason, Instant)>,
    stopped: Arc<AtomicBool>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    Running,
    Over,
}

impl Session {
    /// Starts the program that the configuration names, or waits for one at the ring that it
    /// names.
    ///
    /// # Errors
    /// [`SessionError`]; nothing runs then.
    pub fn start(config: &Config) -> Result<Self, SessionError> {
        config.expect_keys(KEYS)?;
        let mut options = 0;
        for (key, option) in [("memory", OPTION_MEMORY), ("follow_exec", OPTION_FOLLOW)] {
            if config.flag(key)? != Some(false) {
                options |= option;
            }
        }
        let mib = config.number("ring_mib")?.unwrap_or(DEFAULT_RING_MIB);
        let linger = config.number("linger_ms")?.map(Duration::from_millis);
        let linger = linger.unwrap_or(LINGER);
        match config.get("ring") {
            None => Self::spawn(config, mib, options, linger),
            Some(ring) => {
                if let Some(key) = ["arg", "qemu", "plugin", "sysroot", "qemu_cpu"]
                    .iter()
                    .find(|key| config.get(key).is_some())
                {
                    let what = format!("does not go with {key}=: who starts the emulator?");
                    return Err(Config::bad("ring", ring, &what).into());
                }
                let accepted = Accepted::create(Path::new(ring), mib, options)?;
                let memory = accepted.memory();
                let family = Family::new(Arc::clone(&memory), Vec::new(), Pack::default(), 1);
                let producer = Producer::Accepted(accepted);
                Ok(Self::new(producer, memory, family, Pack::default(), linger))
            }
        }
    }

    fn spawn(
        config: &Config,
        mib: u64,
        options: u32,
        linger: Duration,
    ) -> Result<Self, SessionError> {
        let command: Vec<String> = config.get_all("arg").map(str::to_owned).collect();
        let program = executable::resolve(&command)?;
        let qemu = qemu::find(config.get("qemu").map(Path::new), program.arch)?;
        let plugin = plugin::find(config.get("plugin").map(Path::new))?;
        let slots = match config.flag("follow_children")? {
            Some(false) => 0,
            _ => SLOTS,
        };
        let ring = Memory::create(mib, options, slots)?;
        let memory = Arc::new(ring.memory);
        let pack = Pack::of(&ring.fd);
        if let Some(most) = config.number("max_threads")? {
            let most = u32::try_from(most)
                .unwrap_or(u32::MAX)
                .clamp(1, MOST_THREADS);
            memory.header().most_threads.store(most, Ordering::Relaxed);
        }
        let most = match config.number("max_processes")? {
            None => MAX_PROCESSES,
            Some(most) => u32::try_from(most).map_or(MAX_PROCESSES, |n| n.clamp(1, MAX_PROCESSES)),
        };
        let family = Family::new(Arc::clone(&memory), ring.slots, pack.clone(), most);
        let start = Start {
            qemu: &qemu.path,
            plugin: &plugin,
            program: &program,
            sysroot: config.get("sysroot").map(Path::new),
            cpu: config.get("qemu_cpu"),
            stdout_to_stderr: config.flag("stdout_to_stderr")? == Some(true),
        };
        let emulator = start
            .spawn(ring.fd, Arc::clone(&memory))
            .map_err(|source| SessionError::Process {
                path: qemu.path.display().to_string(),
                source,
            })?;
        let producer = Producer::Spawned {
            plugin: plugin.display().to_string(),
            qemu,
            command,
            emulator,
        };
        let mut session = Self::new(producer, memory, family, pack, linger);
        session.notices.extend(ring.notice);
        if program.sets_id() {
            session.notices.push(format!(
                "{} is set-user-id or set-group-id: under the emulator it runs with the caller's \
                 rights alone",
                program.file.display()
            ));
        }
        Ok(session)
    }

    fn new(
        producer: Producer,
        memory: Arc<Memory>,
        family: Family,
        pack: Pack,
        linger: Duration,
    ) -> Self {
        Self {
            producer,
            memory,
            family,
            pack,
            notices: Vec::new(),
            linger,
            first: None,
            stopped: Arc::new(AtomicBool::new(false)),
            stage: Stage::Starting,
        }
    }

    /// Waits up to `timeout` for the next event.
    ///
    /// # Errors
    /// [`SessionError`]; the session is over then.
    pub fn next_event(&mut self, timeout: Duration) -> Result<Option<Event<'_>>, SessionError> {
        let deadline = Instant::now() + timeout;
        while self.stage == Stage::Starting && !self.start_up()? {
            if !self.sleep_until(reader::bell(&self.memory), deadline) {
                return Ok(None);
            }
        }
        while self.family.queue().is_empty() && self.stage == Stage::Running {
            let bell = reader::bell(&self.memory);
            // Whether it has ended must be known before the last look at the ring.
            let ended = self.first.is_some() || self.ended()?;
            let came = self.family.step()?;
            // A process that always has more to take must not keep the session from its end.
            if came && !self.is_due(ended) {
                continue;
            }
            if self.family.bury() {
                continue;
            }
            self.family.hear();
            if ended && self.first.is_none() {
                let reason = self.finish_first()?;
                self.first = Some((reason, Instant::now() + self.linger));
            } else if self.first.is_some() && (self.family.others() == 0 || self.is_due(ended)) {
                self.finish();
            } else if !came && !self.sleep_until(bell, deadline) {
                return Ok(None);
            }
        }
        Ok(self.family.queue().pop())
    }

    /// Kills the program; what it wrote is still delivered.
    pub fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let (kill, stopped) = (self.producer.killer(), Arc::clone(&self.stopped));
        let pack = self.pack.clone();
        move || {
            stopped.store(true, Ordering::Release);
            kill();
            pack.kill();
        }
    }

    /// How often the program had to wait for the reader.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.memory.header().stalls.load(Ordering::Relaxed)
    }

    /// The emulator's process id; 0 while it is unknown.
    #[must_use]
    pub fn emulator_id(&self) -> u32 {
        match &self.producer {
            Producer::Spawned { emulator, .. } => emulator.id(),
            Producer::Accepted(_) => self.memory.header().producer_pid.load(Ordering::Relaxed),
        }
    }

    /// Whether something is to be done whatever processes still write: the session was stopped, or the
    /// first process has ended and nobody has looked after it, or its children's time is over.
    fn is_due(&self, ended: bool) -> bool {
        let over = match &self.first {
            None => ended,
            Some((_, until)) => *until <= Instant::now(),
        };
        over || self.stopped.load(Ordering::Acquire)
    }

    fn ended(&self) -> Result<bool, SessionError> {
        self.producer.ended().map_err(|e| self.process_error(e))
    }

    /// False when the time is over.
    fn sleep_until(&self, bell: u32, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        reader::wait(&self.memory, bell, left.min(NAP));
        true
    }

    /// Queues the session's start once the plugin is there.
    fn start_up(&mut self) -> Result<bool, SessionError> {
        let ended = self.ended()?;
        let memory = Arc::clone(&self.memory);
        let header = memory.header();
        if !header.is_attached() {
            match &self.producer {
                Producer::Accepted(_) if self.stopped.load(Ordering::Acquire) => {
                    return Err(SessionError::NobodyCame);
                }
                Producer::Spawned { qemu, plugin, .. } if ended => {
                    let (path, plugin) = (qemu.path.display().to_string(), plugin.clone());
                    let how = match self.reap()? {
                        Ended::Status(status) => status.to_string(),
                        Ended::Announced(_) => String::new(),
                    };
                    return Err(SessionError::NeverAttached { path, plugin, how });
                }
                _ => return Ok(false),
            }
        }
        let value = |field: &std::sync::atomic::AtomicU32| field.load(Ordering::Relaxed);
        let (version, command) = self.producer.describe();
        let producer = format!(
            "qemu {version}, plugin API {} of {}..{}",
            value(&header.api_used),
            value(&header.api_min),
            value(&header.api_current)
        );
        let arch = header.arch();
        self.family.common.phantoms = arch == Arch::X86_64;
        let queue = self.family.queue();
        queue.push(&Event::Session(SessionInfo {
            arch,
            producer,
            command,
            memory: value(&header.options) & OPTION_MEMORY != 0,
        }));
        for notice in std::mem::take(&mut self.notices) {
            queue.push(&Event::Notice(notice));
        }
        self.stage = Stage::Running;
        Ok(true)
    }

    /// The first process is gone: takes what is left of it and says how it ended.
    fn finish_first(&mut self) -> Result<EndReason, SessionError> {
        let salvaged = self.family.salvage_first();
        let ended = self.reap()?;
        Ok(match salvaged {
            Err(error) => EndReason::Truncated(error.to_string()),
            Ok(()) if self.stopped.load(Ordering::Acquire) => {
                EndReason::ProducerDied("stopped on request".into())
            }
            Ok(()) => {
                let header = self.memory.header();
                let replaced = header.exec_state.load(Ordering::Acquire) == EXEC_TRIED;
                if replaced {
                    let notice = format!(
                        "the program replaced itself by {}, which ran untraced",
                        exec_path(header)
                    );
                    self.family.queue().push(&Event::Notice(notice));
                }
                ended.reason(header.ended.load(Ordering::Acquire) != 0, replaced)
            }
        })
    }

    /// The session is over, whoever still runs.
    fn finish(&mut self) {
        self.stage = Stage::Over;
        let header = self.memory.header();
        if self.stopped.load(Ordering::Acquire) {
            self.pack.kill();
        }
        header.released.store(1, Ordering::Release);
        let left = self.family.part();
        let untraced = header.children.load(Ordering::Relaxed);
        let queue = self.family.queue();
        if left > 0 {
            let are = if left == 1 {
                "process was"
            } else {
                "processes were"
            };
            queue.push(&Event::Notice(format!(
                "{left} {are} still running {} s after the first one's end: what they do from then \
                 on is not in the figures",
                self.linger.as_secs_f64()
            )));
        }
        let threads = header.threads.load(Ordering::Relaxed);
        if threads > 0 {
            let queue = self.family.queue();
            let notice = format!(
                "{threads} threads were not traced, or not to their end: more lived at once than a \
                 recording has places for"
            );
            queue.push(&Event::Notice(notice));
        }
        let (untold, most) = (self.family.common.untold, self.family.common.most);
        let queue = self.family.queue();
        if untold > 0 {
            let notice =
                format!("{untold} processes beyond the first {most} are not in the figures");
            queue.push(&Event::Notice(notice));
        }
        if untraced > 0 {
            let were = if untraced == 1 {
                "child process was"
            } else {
                "child processes were"
            };
            let why = match self.memory.slot_count() {
                0 => String::new(),
                rings => format!(" (at most {rings} are at the same time)"),
            };
            let notice = format!("{untraced} {were} not traced{why}");
            queue.push(&Event::Notice(notice));
        }
        let reason = self.first.take().map(|(reason, _)| reason);
        queue.push(&Event::End(reason.unwrap_or(EndReason::Complete)));
    }

    fn reap(&mut self) -> Result<Ended, SessionError> {
        let ended = self.producer.reap();
        ended.map_err(|e| self.process_error(e))
    }

    fn process_error(&self, source: std::io::Error) -> SessionError {
        let path = match &self.producer {
            Producer::Spawned { qemu, .. } => qemu.path.display().to_string(),
            Producer::Accepted(_) => String::new(),
        };
        SessionError::Process { path, source }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A session that came to its end has let them go, or has killed them.
        if self.stage != Stage::Over {
            self.pack.kill();
        }
    }
}

impl Broker for Session {
    const NAME: &'static str = "qemu";
    const HELP: &'static str = "\
arg=TEXT       the command, one line per word, program first
qemu=PATH      the emulator (else $MCAD_QEMU, mcad's cache directory, $PATH)
plugin=PATH    the QEMU plugin (else $MCAD_PLUGIN, mcad's cache directory, where it is built)
memory=0|1     record memory accesses (1)
sysroot=DIR    where the program's own loader and libraries are, for another instruction set
qemu_cpu=NAME  CPU that the emulator shows the program
stdout_to_stderr=0|1  what the program writes to stdout goes to stderr (0)
follow_exec=0|1  go on with the program that the traced one replaces itself by (1)
follow_children=0|1  trace the processes that the program makes, and theirs (1)
max_processes=N  how many processes are traced, at most 65536; others run and are counted
max_threads=N  how many threads of a process are traced at once (4000); others run and are counted
linger_ms=N    how long processes that outlive the first one are waited for (3000)
ring_mib=N     size of the shared ring in MiB (32)
ring=PATH      instead of arg: wait for an emulator that someone else starts with
               -plugin libmcad-plugin.so,ring=PATH; the file must not exist yet";
    const FEATURES: Features = Features::MEMORY
        .and(Features::MODULES)
        .and(Features::PROCESS);

    fn open(config: &Config) -> Result<Self, String> {
        Self::start(config).map_err(|error| error.to_string())
    }

    fn next(&mut self, timeout: Duration) -> Result<Option<Event<'_>>, String> {
        self.next_event(timeout).map_err(|error| error.to_string())
    }

    fn stopper(&self) -> Option<StopFn> {
        Some(Arc::new(self.killer()))
    }
}
