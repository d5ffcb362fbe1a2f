//! A session: a program under QEMU, its ring drained into events.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcad_broker_abi::{Broker, Config, Features, StopFn};
use mcad_proto::event::{Arch, BlockDef, EndReason, Event, ModuleDef, SessionInfo};
use mcad_proto::word::{BlockId, GuestAddr, StreamId};

use crate::phantom;
use crate::plugin::{self, PluginError};
use crate::process::{Emulator, Start, shell_status};
use crate::program::{self, ProgramError};
use crate::qemu::{self, NoQemu, Qemu};
use crate::ring::RingError;
use crate::ring::control::Message;
use crate::ring::layout::{EXEC_TRIED, OPTION_MEMORY};
use crate::ring::memory::Memory;
use crate::ring::reader::{Reader, Sink};

/// Default size of the ring: enough to ride out pauses of the reader, small beside its own limit.
const DEFAULT_RING_MIB: u64 = 32;
/// Longest sleep between two looks at the emulator, should its end's wake-up be missed.
const NAP: Duration = Duration::from_millis(10);

const KEYS: &[&str] = &["arg", "qemu", "plugin", "memory", "ring_mib"];

/// A session that cannot start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] mcad_broker_abi::ConfigError),
    /// The program cannot be traced.
    #[error(transparent)]
    Program(#[from] ProgramError),
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
    #[error("{path}: {source}")]
    Process {
        /// The emulator.
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
}

/// A program that runs under QEMU, as a source of events.
#[derive(Debug)]
pub struct Session {
    qemu: Qemu,
    plugin: String,
    command: Vec<String>,
    emulator: Emulator,
    memory: Arc<Memory>,
    reader: Reader,
    queue: Queue,
    /// What the last event borrowed.
    held: Option<Pending>,
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
    /// Starts the program that the configuration names.
    ///
    /// # Errors
    /// [`SessionError`]; nothing runs then.
    pub fn start(config: &Config) -> Result<Self, SessionError> {
        config.expect_keys(KEYS)?;
        let command: Vec<String> = config.get_all("arg").map(str::to_owned).collect();
        let program = program::resolve(&command)?;
        let qemu = qemu::find(config.get("qemu").map(Path::new))?;
        let plugin = plugin::find(config.get("plugin").map(Path::new))?;
        let options = match config.flag("memory")? {
            Some(false) => 0,
            _ => OPTION_MEMORY,
        };
        let mib = config.number("ring_mib")?.unwrap_or(DEFAULT_RING_MIB);
        let ring = Memory::create(mib, options)?;
        let memory = Arc::new(ring.memory);
        let start = Start {
            qemu: &qemu.path,
            plugin: &plugin,
            program: &program,
        };
        let emulator = start
            .spawn(std::os::fd::AsFd::as_fd(&ring.fd), Arc::clone(&memory))
            .map_err(|source| SessionError::Process {
                path: qemu.path.display().to_string(),
                source,
            })?;
        let mut queue = Queue::default();
        if let Some(notice) = ring.notice {
            queue.0.push_back(Pending::Notice(notice));
        }
        Ok(Self {
            qemu,
            plugin: plugin.display().to_string(),
            command,
            emulator,
            reader: Reader::new(Arc::clone(&memory)),
            memory,
            queue,
            held: None,
            stopped: Arc::new(AtomicBool::new(false)),
            stage: Stage::Starting,
        })
    }

    /// Waits up to `timeout` for the next event.
    ///
    /// # Errors
    /// [`SessionError`]; the session is over then.
    pub fn next_event(&mut self, timeout: Duration) -> Result<Option<Event<'_>>, SessionError> {
        let deadline = Instant::now() + timeout;
        while self.stage == Stage::Starting && !self.start_up()? {
            if !self.sleep_until(deadline) {
                return Ok(None);
            }
        }
        while self.queue.0.is_empty() && self.stage == Stage::Running {
            // Whether it has ended must be known before the last look at the ring.
            let ended = self.emulator.ended();
            if self.reader.step(&mut self.queue)? {
                continue;
            }
            if ended {
                self.finish()?;
            } else if !self.sleep_until(deadline) {
                return Ok(None);
            }
        }
        self.held = self.queue.0.pop_front();
        Ok(self.held.as_ref().map(Pending::event))
    }

    /// Kills the program; what it wrote is still delivered.
    pub fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let (killer, stopped) = (self.emulator.killer(), Arc::clone(&self.stopped));
        move || {
            stopped.store(true, Ordering::Release);
            killer.kill();
        }
    }

    /// How often the program had to wait for the reader.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.memory.header().stalls.load(Ordering::Relaxed)
    }

    /// The emulator's process id.
    #[must_use]
    pub fn emulator_id(&self) -> u32 {
        self.emulator.id()
    }

    /// False when the time is over.
    fn sleep_until(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        self.reader.wait(left.min(NAP));
        true
    }

    /// Queues the session's start once the plugin is there.
    fn start_up(&mut self) -> Result<bool, SessionError> {
        let ended = self.emulator.ended();
        let header = self.memory.header();
        if header.attached.load(Ordering::Acquire) == 0 {
            if ended {
                let status = self.reap()?;
                return Err(SessionError::NeverAttached {
                    path: self.qemu.path.display().to_string(),
                    plugin: self.plugin.clone(),
                    how: status.to_string(),
                });
            }
            return Ok(false);
        }
        let api = |field: &std::sync::atomic::AtomicU32| field.load(Ordering::Relaxed);
        let producer = format!(
            "qemu {}, plugin API {} of {}..{}",
            self.qemu.version,
            api(&header.api_used),
            api(&header.api_min),
            api(&header.api_current)
        );
        self.queue.0.push_front(Pending::Session(SessionInfo {
            arch: Arch::X86_64,
            producer,
            command: self.command.clone(),
            memory: api(&header.options) & OPTION_MEMORY != 0,
        }));
        self.stage = Stage::Running;
        Ok(true)
    }

    /// The emulator is gone: takes what is left and says how it ended.
    fn finish(&mut self) -> Result<(), SessionError> {
        self.stage = Stage::Over;
        let salvaged = self.reader.salvage(&mut self.queue);
        let status = self.reap()?;
        let reason = match salvaged {
            Err(error) => EndReason::Truncated(error.to_string()),
            Ok(()) => self.end_reason(status),
        };
        self.queue.0.push_back(Pending::End(reason));
        Ok(())
    }

    fn end_reason(&mut self, status: std::process::ExitStatus) -> EndReason {
        use std::os::unix::process::ExitStatusExt;
        let header = self.memory.header();
        if self.stopped.load(Ordering::Acquire) {
            return EndReason::ProducerDied("stopped on request".into());
        }
        if header.exec_state.load(Ordering::Acquire) == EXEC_TRIED {
            let path: Vec<u8> = header
                .exec_path
                .iter()
                .map(|byte| byte.load(Ordering::Relaxed))
                .take_while(|&byte| byte != 0)
                .collect();
            self.queue.0.push_back(Pending::Notice(format!(
                "the program replaced itself by {}, which ran untraced",
                String::from_utf8_lossy(&path)
            )));
            return EndReason::Exec(shell_status(status));
        }
        match (status.code(), status.signal()) {
            (_, Some(signal)) => EndReason::Signaled(signal),
            (Some(code), _) if header.ended.load(Ordering::Acquire) != 0 => EndReason::Exited(code),
            _ => EndReason::ProducerDied(format!(
                "the emulator ended with {status} in the middle of the program"
            )),
        }
    }

    fn reap(&mut self) -> Result<std::process::ExitStatus, SessionError> {
        self.emulator
            .reap()
            .map_err(|source| SessionError::Process {
                path: self.qemu.path.display().to_string(),
                source,
            })
    }
}

impl Broker for Session {
    const NAME: &'static str = "qemu";
    const HELP: &'static str = "\
arg=TEXT       the command, one line per word, program first (required)
qemu=PATH      the emulator (else $MCAD_QEMU, mcad's cache directory, $PATH)
plugin=PATH    the QEMU plugin (else $MCAD_PLUGIN, mcad's cache directory, where it is built)
memory=0|1     record memory accesses (1)
ring_mib=N     size of the shared ring in MiB (32)";
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

/// An event with its data.
#[derive(Debug)]
enum Pending {
    Session(SessionInfo),
    Block {
        id: u32,
        address: u64,
        instructions: u16,
        code: Vec<u8>,
    },
    Module(ModuleDef),
    StreamStart(u32),
    Records(u32, Vec<u64>),
    StreamEnd(u32),
    Lost(u64, String),
    Notice(String),
    End(EndReason),
}

impl Pending {
    fn event(&self) -> Event<'_> {
        match self {
            Self::Session(info) => Event::Session(info.clone()),
            Self::Block {
                id,
                address,
                instructions,
                code,
            } => Event::Block(BlockDef {
                id: BlockId(*id),
                address: GuestAddr(*address),
                instructions: *instructions,
                bytes: code,
            }),
            Self::Module(module) => Event::Module(module.clone()),
            Self::StreamStart(stream) => Event::StreamStart(StreamId(*stream)),
            Self::Records(stream, words) => Event::Records {
                stream: StreamId(*stream),
                words,
            },
            Self::StreamEnd(stream) => Event::StreamEnd(StreamId(*stream)),
            Self::Lost(count, reason) => Event::Lost {
                count: *count,
                reason: reason.clone(),
            },
            Self::Notice(text) => Event::Notice(text.clone()),
            Self::End(reason) => Event::End(reason.clone()),
        }
    }
}

#[derive(Debug, Default)]
struct Queue(VecDeque<Pending>);

impl Sink for Queue {
    fn message(&mut self, message: Message<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.0.push_back(match message {
            Message::Block {
                address,
                id,
                instructions,
                last_bytes,
                code,
            } => {
                let last_at = code.len().saturating_sub(last_bytes as usize);
                let (before, last) = code.split_at(last_at);
                let last_address = address.wrapping_add(last_at as u64);
                let mut instructions = u16::try_from(instructions).unwrap_or(u16::MAX);
                let mut code = code.to_vec();
                if instructions > 1 && phantom::is_phantom(last_address, last) {
                    instructions -= 1;
                    code = before.to_vec();
                }
                Pending::Block {
                    id,
                    address,
                    instructions,
                    code,
                }
            }
            Message::Module {
                start,
                end,
                file_offset,
                path,
            } => Pending::Module(ModuleDef {
                path: text(path),
                start: GuestAddr(start),
                end: GuestAddr(end),
                file_offset,
            }),
            Message::Notice(bytes) => Pending::Notice(text(bytes)),
        });
    }

    fn stream_start(&mut self, stream: u32) {
        self.0.push_back(Pending::StreamStart(stream));
    }

    fn lost(&mut self, stream: u32, chunks: u64) {
        self.0.push_back(Pending::Lost(
            chunks,
            format!("{chunks} chunks of thread {stream} never arrived"),
        ));
    }

    fn words(&mut self, stream: u32, words: Vec<u64>) {
        self.0.push_back(Pending::Records(stream, words));
    }

    fn stream_end(&mut self, stream: u32) {
        self.0.push_back(Pending::StreamEnd(stream));
    }
}
