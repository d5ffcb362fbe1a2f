//! Runs programs under QEMU through the broker, checks that the stream of events keeps its
//! promises, and collects what tests look at.

#![allow(dead_code)] // Every test binary uses its own part.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // As in the tests themselves.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic};
use mcad_broker_abi::Config;
use mcad_broker_qemu::Session;
use mcad_proto::event::{Arch, EndReason, Event, ModuleDef, ProcessEvent, SessionInfo};
use mcad_proto::word::{Access, Kernel, ProcessId, Record, decode_word};

/// A block as the stream defined it.
#[derive(Clone, Debug)]
pub struct Block {
    pub address: u64,
    pub instructions: u16,
    pub bytes: Vec<u8>,
    /// By instruction: whether it may access memory.
    touches: Vec<bool>,
    /// The address of the first and last instruction if it is a rep string instruction.
    first_rep: Option<u64>,
    last_rep: Option<u64>,
}

/// A process as the stream told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    pub parent: Option<u32>,
    /// Of the programs that it replaced itself with.
    pub commands: Vec<Vec<String>>,
    pub end: Option<EndReason>,
}

/// Everything that a session told.
#[derive(Debug, Default)]
pub struct Trace {
    pub info: Option<SessionInfo>,
    pub blocks: Vec<Block>,
    pub modules: Vec<ModuleDef>,
    pub notices: Vec<String>,
    /// Words by stream, when asked to keep them.
    pub words: BTreeMap<u32, Vec<u64>>,
    pub executions: HashMap<u32, u64>,
    pub processes: BTreeMap<u32, Process>,
    pub streams: u32,
    pub block_words: u64,
    pub access_words: u64,
    /// Instructions of executed blocks, iterations of string instructions included.
    pub executed: u64,
    /// The same by the rule of docs/COUNTING.md.
    pub instructions: u64,
    pub end: Option<EndReason>,
}

impl Trace {
    /// Block executions whose block begins at `address`.
    pub fn executions_at(&self, address: u64) -> u64 {
        let at = |id: &u32| self.blocks[*id as usize].address == address;
        self.executions
            .iter()
            .filter(|(id, _)| at(id))
            .map(|(_, count)| count)
            .sum()
    }

    /// What system calls did to memory, stream by stream.
    pub fn kernel(&self) -> impl Iterator<Item = Kernel> + '_ {
        self.words
            .values()
            .flatten()
            .filter_map(|&word| match decode_word(word) {
                Ok(Record::Kernel(kernel)) => Some(kernel),
                _ => None,
            })
    }

    /// All accesses, stream by stream.
    pub fn accesses(&self) -> impl Iterator<Item = Access> + '_ {
        self.words
            .values()
            .flatten()
            .filter_map(|&word| match decode_word(word) {
                Ok(Record::Access(access)) => Some(access),
                _ => None,
            })
    }
}

/// How to run a program.
#[derive(Debug, Default)]
pub struct Run {
    pub keep_words: bool,
    pub config: Vec<(&'static str, String)>,
    /// Sleep after each batch of records.
    pub lag: Option<Duration>,
}

impl Run {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn keep_words(mut self) -> Self {
        self.keep_words = true;
        self
    }

    pub fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.config.push((key, value.into()));
        self
    }

    /// Reads more slowly than programs write.
    pub fn slow(mut self) -> Self {
        self.lag = Some(Duration::from_millis(20));
        self
    }

    /// Starts a session.
    pub fn start<S: AsRef<str>>(&self, command: &[S]) -> Session {
        let mut config = Config::new();
        config.push("plugin", plugin().to_str().unwrap()).unwrap();
        for (key, value) in &self.config {
            config.push(*key, value.as_str()).unwrap();
        }
        for word in command {
            config.push("arg", word.as_ref()).unwrap();
        }
        Session::start(&config).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs a command to its end.
    pub fn run<S: AsRef<str>>(&self, command: &[S]) -> Trace {
        let mut session = self.start(command);
        self.collect(&mut session, |_, _| {})
    }

    /// Drains a session; `meanwhile` sees it after each round.
    pub fn collect(
        &self,
        session: &mut Session,
        mut meanwhile: impl FnMut(&Session, &Trace),
    ) -> Trace {
        let mut check = Check::default();
        while check.trace.end.is_none() {
            match session.next_event(Duration::from_millis(50)) {
                Ok(Some(event)) => {
                    let records = matches!(event, Event::Records { .. });
                    check.event(event, self.keep_words);
                    if let (true, Some(lag)) = (records, self.lag) {
                        std::thread::sleep(lag);
                    }
                }
                Ok(None) => {}
                Err(error) => panic!("{error}"),
            }
            meanwhile(session, &check.trace);
        }
        assert!(
            session.next_event(Duration::ZERO).unwrap().is_none(),
            "an event after the end"
        );
        check.finish()
    }
}

/// Holds a stream of events to the promises of `mcad_proto::event`.
#[derive(Default)]
struct Check {
    trace: Trace,
    open: HashMap<u32, State>,
    seen: HashSet<u32>,
    factory: Option<InstructionInfoFactory>,
}

/// Where a stream is.
#[derive(Default)]
struct State {
    block: Option<u32>,
}

impl Check {
    fn event(&mut self, event: Event<'_>, keep: bool) {
        assert!(self.trace.end.is_none(), "{event:?} after the end");
        if self.trace.info.is_none() {
            assert!(matches!(event, Event::Session(_)), "begins with {event:?}");
        }
        match event {
            Event::Session(info) => {
                assert!(self.trace.info.is_none(), "a second session");
                self.trace.info = Some(info);
            }
            Event::Block(block) => {
                assert_eq!(
                    block.id.0 as usize,
                    self.trace.blocks.len(),
                    "ids are dense"
                );
                let block = self.decode(block.address.0, block.instructions, block.bytes);
                self.trace.blocks.push(block);
            }
            Event::Module(module) => {
                assert!(module.start < module.end);
                self.trace.modules.push(module);
            }
            Event::Region(region) => panic!("{region:?}"),
            Event::StreamStart(stream) => {
                assert!(self.seen.insert(stream.0), "{stream:?} is reused");
                self.trace.streams += 1;
                self.open.insert(stream.0, State::default());
            }
            Event::Records { stream, words } => {
                assert!(!words.is_empty());
                for &word in words {
                    self.word(stream.0, word);
                }
                if keep {
                    self.trace
                        .words
                        .entry(stream.0)
                        .or_default()
                        .extend_from_slice(words);
                }
            }
            Event::StreamEnd(stream) => {
                assert!(
                    self.open.remove(&stream.0).is_some(),
                    "{stream:?} ended twice"
                );
            }
            Event::Process { id, what } => self.process(id, what),
            Event::Lost { count, reason } => panic!("lost {count}: {reason}"),
            Event::Notice(text) => self.trace.notices.push(text),
            Event::End(reason) => self.trace.end = Some(reason),
        }
    }

    fn process(&mut self, id: ProcessId, what: ProcessEvent) {
        if id == ProcessId::FIRST && what == ProcessEvent::Entered {
            return;
        }
        let process = self.trace.processes.entry(id.0).or_default();
        let process = match what {
            ProcessEvent::Forked { parent } => {
                assert!(parent < id, "{id:?} begins before its parent");
                assert_eq!(*process, Process::default(), "{id:?} begins twice");
                process.parent = Some(parent.0);
                return;
            }
            _ if id != ProcessId::FIRST => {
                assert!(process.parent.is_some(), "{id:?} never began");
                process
            }
            _ => process,
        };
        assert_eq!(process.end, None, "{what:?} after the end of {id:?}");
        match what {
            ProcessEvent::Replaced { command } => process.commands.push(command),
            ProcessEvent::Ended(end) => process.end = Some(end),
            ProcessEvent::Entered | ProcessEvent::Forked { .. } => {}
        }
    }

    fn word(&mut self, stream: u32, word: u64) {
        let state = self
            .open
            .get_mut(&stream)
            .unwrap_or_else(|| panic!("records of stream {stream}, which is not open"));
        match decode_word(word).unwrap_or_else(|error| panic!("{error}")) {
            Record::Block(id) => {
                let block = self
                    .trace
                    .blocks
                    .get(id.0 as usize)
                    .unwrap_or_else(|| panic!("{id:?} is not defined"));
                let before = state.block.map(|id| &self.trace.blocks[id as usize]);
                let continues = block.first_rep.is_some()
                    && before.is_some_and(|before| before.last_rep == block.first_rep);
                self.trace.block_words += 1;
                self.trace.executed += u64::from(block.instructions);
                self.trace.instructions += u64::from(block.instructions) - u64::from(continues);
                *self.trace.executions.entry(id.0).or_default() += 1;
                state.block = Some(id.0);
            }
            Record::Access(access) => {
                let id = state.block.expect("an access before the first block");
                let block = &self.trace.blocks[id as usize];
                assert!(
                    access.index < block.instructions,
                    "{access:?} in {block:x?}"
                );
                assert!(
                    block.touches[usize::from(access.index)],
                    "{access:?} of an instruction without memory in {block:x?}"
                );
                self.trace.access_words += 1;
            }
            Record::Kernel(_) => assert!(state.block.is_some(), "a system call before any block"),
        }
    }

    fn decode(&mut self, address: u64, count: u16, bytes: &[u8]) -> Block {
        let arch = self.trace.info.as_ref().map(|info| info.arch);
        let touches = match arch {
            Some(Arch::AArch64) => words(bytes).iter().map(|w| a64_touches(*w)).collect(),
            Some(Arch::RiscV64) => parcels(bytes).into_iter().map(riscv_touches).collect(),
            _ => return self.decode_x86(address, count, bytes),
        };
        let block = Block {
            address,
            instructions: count,
            bytes: bytes.to_vec(),
            touches,
            first_rep: None,
            last_rep: None,
        };
        assert_eq!(block.touches.len(), usize::from(count), "{block:x?}");
        block
    }

    fn decode_x86(&mut self, address: u64, count: u16, bytes: &[u8]) -> Block {
        let factory = self.factory.get_or_insert_with(InstructionInfoFactory::new);
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let mut instructions: Vec<Instruction> = Vec::new();
        while decoder.can_decode() {
            instructions.push(decoder.decode());
        }
        assert_eq!(
            instructions.len(),
            usize::from(count),
            "instructions in {bytes:x?} at {address:#x}"
        );
        let touches = instructions
            .iter()
            .map(|instruction| {
                // Instructions that iced does not know may do anything. Cache control and
                // save areas are reported with the sizes that QEMU implements.
                instruction.code() == Code::INVALID
                    || !factory.info(instruction).used_memory().is_empty()
                    || matches!(
                        instruction.mnemonic(),
                        Mnemonic::Xsave | Mnemonic::Xsavec | Mnemonic::Xrstor
                    )
            })
            .collect();
        let rep = |instruction: Option<&Instruction>| {
            instruction
                .filter(|i| {
                    i.is_string_instruction() && (i.has_rep_prefix() || i.has_repne_prefix())
                })
                .map(Instruction::ip)
        };
        Block {
            address,
            instructions: count,
            bytes: bytes.to_vec(),
            touches,
            first_rep: rep(instructions.first()),
            last_rep: rep(instructions.last()),
        }
    }

    fn finish(self) -> Trace {
        assert!(self.open.is_empty(), "streams that never ended");
        self.trace
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let (words, rest) = bytes.as_chunks();
    assert!(rest.is_empty(), "{bytes:x?}");
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// Loads and stores (Arm ARM, C4.1: op0 is x1x0), and `dc zva`, which writes.
fn a64_touches(word: u32) -> bool {
    word & 0x0a00_0000 == 0x0800_0000 || word & 0xffff_ffe0 == 0xd50b_7420
}

/// RISC-V instructions of two or four bytes.
fn parcels(bytes: &[u8]) -> Vec<u32> {
    let mut all = Vec::new();
    let mut rest = bytes;
    while let [a, b, ..] = *rest {
        let low = u32::from(u16::from_le_bytes([a, b]));
        let (word, len) = match *rest {
            [_, _, c, d, ..] if low & 3 == 3 => {
                (low | u32::from(u16::from_le_bytes([c, d])) << 16, 4)
            }
            _ => (low, 2),
        };
        all.push(word);
        rest = &rest[len..];
    }
    all
}

/// Loads, stores and atomics (RISC-V unprivileged ISA, opcode map; compressed quadrants 0 and 2).
fn riscv_touches(word: u32) -> bool {
    let funct3 = word >> 13 & 7;
    match word & 3 {
        0 => funct3 != 0,
        2 => !matches!(funct3, 0 | 4),
        1 => false,
        _ => matches!(word & 0x7f, 0x03 | 0x07 | 0x23 | 0x27 | 0x2f),
    }
}

/// Runs a build script of the repository once; it replaces its result atomically.
fn build(script: &str, result: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugins");
    let output = Command::new("sh")
        .arg(root.join(script))
        .arg(&out)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    out.join(result)
}

/// mcad's plugin, built by its own script.
pub fn plugin() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("qemu-plugin/build.sh", "libmcad-plugin.so"))
}

/// The counting plugin.
pub fn count_plugin() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("tests/plugin/build.sh", "libcount-plugin.so"))
}

/// A directory with compiled test programs.
#[derive(Debug)]
pub struct Programs {
    pub dir: tempfile::TempDir,
}

impl Programs {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// Compiles a C program; returns its path.
    pub fn c(&self, name: &str, flags: &[&str], source: &str) -> String {
        self.compile("cc", name, flags, source)
    }

    /// The same for another instruction set, by Debian's cross compiler.
    pub fn cross(&self, arch: Arch, name: &str, flags: &[&str], source: &str) -> String {
        self.compile(&format!("{arch}-linux-gnu-gcc"), name, flags, source)
    }

    fn compile(&self, compiler: &str, name: &str, flags: &[&str], source: &str) -> String {
        let file = self.path(&format!("{name}.c"));
        std::fs::write(&file, source).unwrap();
        let out = self.path(name);
        let output = Command::new(compiler)
            .args(["-O1", "-w", "-pthread", "-o", &out, &file])
            .args(flags)
            .output()
            .unwrap_or_else(|error| {
                panic!("{compiler}: {error} (`cargo xtask setup --tests` installs it)")
            });
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        out
    }

    /// Address of a symbol in a program that is not position-independent.
    pub fn symbol(&self, program: &str, name: &str) -> u64 {
        let nm = Command::new("nm").arg(program).output().unwrap();
        String::from_utf8(nm.stdout)
            .unwrap()
            .lines()
            .find_map(|line| line.strip_suffix(&format!(" {name}"))?.get(..16))
            .map(|address| u64::from_str_radix(address, 16).unwrap())
            .unwrap_or_else(|| panic!("no {name} in {program}"))
    }

    /// An executable shell script.
    pub fn script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        // Another process writes it: a descriptor open for writing here would be inherited by
        // whatever other tests fork at that moment, and the file could not be executed as long
        // as they have it.
        let write = [
            "-c",
            "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"",
            &path,
            text,
        ];
        assert!(Command::new("sh").args(write).status().unwrap().success());
        path
    }

    /// An emulator that loads the counting plugin beside mcad's, so that both count one run; and
    /// the file that the count goes to.
    pub fn counting_qemu(&self, arch: Arch) -> (String, PathBuf) {
        let qemu = mcad_broker_qemu::qemu::find(None, arch).unwrap_or_else(|e| panic!("{e}"));
        let out = self.dir.path().join("count.txt");
        let script = format!(
            "#!/bin/sh\nexec '{}' -plugin 'file={},out={}' \"$@\"\n",
            qemu.path.display(),
            count_plugin().display(),
            out.display()
        );
        (
            self.script(&mcad_broker_qemu::qemu::name(arch), &script),
            out,
        )
    }
}

/// Reads the counting plugin's result: instructions, executions.
pub fn read_count(path: &Path) -> (u64, u64) {
    let text = std::fs::read_to_string(path).expect("the counting plugin wrote its result");
    let number = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
            .unwrap_or_else(|| panic!("{key} in {text}"))
    };
    (number("instructions"), number("executions"))
}
