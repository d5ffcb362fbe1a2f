//! The blocks of a session, decoded once.

use std::ops::Range;
use std::sync::Arc;

use mcad_proto::event::{Arch, BlockDef, is_shared_object};
use mcad_proto::word::{BlockId, GuestAddr, MAX_BLOCK_INSTRUCTIONS};

use mcad_isa::code::{Code, Flow, decode};
use mcad_isa::riscv::image::Image;

/// Most distinct blocks of one session: bounds the memory that a hostile stream can claim.
pub const MAX_BLOCKS: usize = 1 << 24;

/// Most mapped files that are kept in mind for the blocks that follow.
const MAX_FILES: usize = 4096;

/// Most files whose images are kept.
const MAX_IMAGES: usize = 16;

/// How far an id may be beyond the number of blocks so far. Ids are dense; threads that define
/// blocks at the same time may overtake each other by a few.
const MAX_AHEAD: usize = 256;

/// How a block ends, for following calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Falls through or jumps.
    Plain,
    /// Calls.
    Call,
    /// Returns.
    Return,
}

/// A block. What each execution asks for is in the first line of a cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct TranslatedBlock {
    /// Address of its first instruction.
    pub address: GuestAddr,
    /// One past its last byte.
    pub end: GuestAddr,
    /// Where its last instruction can jump, if that is fixed.
    pub target: Option<GuestAddr>,
    /// Which instructions access memory (for telling blocks that a fault left).
    pub accesses: Box<[bool]>,
    /// How it ends.
    pub ending: Ending,
    /// Control can go on at `end`.
    pub falls_through: bool,
    /// Control can go anywhere: return, indirect jump or call, system call.
    pub leaves_anywhere: bool,
    /// The first instruction is a string instruction with a repeat prefix.
    pub starts_with_rep: bool,
    /// So is the last one.
    pub ends_with_rep: bool,
    /// Its instruction set.
    pub arch: Arch,
    /// Its code.
    pub bytes: Box<[u8]>,
    /// Offset of each instruction, and of the end.
    pub offsets: Box<[u16]>,
    /// What its file has in memory, where that matters and is known.
    pub image: Option<Arc<Image>>,
}

impl TranslatedBlock {
    /// Number of instructions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.accesses.len()
    }

    /// Whether `next` can follow when the whole block has executed.
    #[must_use]
    pub fn may_lead_to(&self, next: GuestAddr) -> bool {
        self.leaves_anywhere
            || (self.falls_through && next == self.end)
            || self.target == Some(next)
            || (self.ends_with_rep && next.0 == self.address_of(self.len() - 1))
    }

    /// The instruction that begins at `address`.
    #[must_use]
    pub fn instruction_at(&self, address: GuestAddr) -> Option<usize> {
        let offset = address.0.checked_sub(self.address.0)?;
        let starts = self.offsets.get(..self.len())?;
        starts.iter().position(|o| u64::from(*o) == offset)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accesses.is_empty()
    }

    /// Address of instruction `n`.
    #[must_use]
    pub fn address_of(&self, n: usize) -> u64 {
        self.address
            .0
            .wrapping_add(u64::from(self.offsets.get(n).copied().unwrap_or(0)))
    }

    /// The instructions, decoded anew.
    #[must_use]
    pub fn decode(&self) -> Vec<Code> {
        decode(self.arch, &self.bytes, self.address.0).0
    }
}

/// Blocks by id.
#[derive(Debug)]
pub struct Dictionary {
    arch: Arch,
    /// Shared with those that simulate on other threads.
    blocks: Vec<Option<Arc<TranslatedBlock>>>,
    defined: usize,
    /// Mapped files, latest last, and whether they are shared objects.
    files: Vec<(Range<u64>, bool)>,
    /// What some of them have in memory.
    images: Vec<(Range<u64>, Arc<Image>)>,
}

impl Default for Dictionary {
    fn default() -> Self {
        Self::new(Arch::X86_64)
    }
}

impl Dictionary {
    /// No blocks yet, of this instruction set.
    #[must_use]
    pub fn new(arch: Arch) -> Self {
        Self {
            arch,
            blocks: Vec::new(),
            defined: 0,
            files: Vec::new(),
            images: Vec::new(),
        }
    }

    /// Whether values are followed, for which it matters what files have in memory.
    #[must_use]
    pub fn wants_images(&self) -> bool {
        self.arch == Arch::RiscV32
    }

    /// The file that is mapped at these addresses has this in memory, there and elsewhere.
    pub fn load(&mut self, addresses: Range<u64>, image: Image) {
        if self.images.len() < MAX_IMAGES {
            self.images.push((addresses, Arc::new(image)));
        }
    }

    /// The image of the file that code is from. One that has other code there is of another version, and
    /// forgotten.
    fn image(&mut self, def: &BlockDef<'_>) -> Option<Arc<Image>> {
        let mut of = self.images.iter();
        let at = of.rposition(|(file, _)| file.contains(&def.address.0))?;
        let (_, image) = self.images.get(at)?;
        if image.holds(def.address.0, def.bytes) {
            return Some(Arc::clone(image));
        }
        self.images.remove(at);
        None
    }

    /// A file is mapped at these addresses: what is defined there from now on is its code.
    pub fn map(&mut self, path: &str, addresses: Range<u64>) {
        if self.files.len() >= MAX_FILES {
            self.files.remove(0);
        }
        self.files.push((addresses, is_shared_object(path)));
    }

    /// Whether code at `address` lies where shared objects do; so does, on Linux, what is in no file but made as the
    /// program runs.
    fn among_shared_objects(&self, address: u64) -> bool {
        let of = |(file, shared): &(Range<u64>, bool)| file.contains(&address).then_some(*shared);
        let known = self.files.iter().rev().find_map(of);
        known.unwrap_or(!self.files.is_empty())
    }

    /// A block.
    #[inline]
    #[must_use]
    pub fn get(&self, id: BlockId) -> Option<&TranslatedBlock> {
        self.blocks.get(id.0 as usize)?.as_deref()
    }

    /// A block, to share.
    #[must_use]
    pub fn share(&self, id: BlockId) -> Option<Arc<TranslatedBlock>> {
        self.blocks.get(id.0 as usize)?.clone()
    }

    /// Takes a block of another dictionary.
    pub fn insert(&mut self, id: BlockId, block: Arc<TranslatedBlock>) {
        let place = id.0 as usize;
        if place >= self.blocks.len() {
            self.blocks.resize(place + 1, None);
        }
        self.blocks[place] = Some(block);
        self.defined += 1;
    }

    /// Number of defined blocks.
    #[must_use]
    pub fn defined(&self) -> usize {
        self.defined
    }

    /// All blocks with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (BlockId, &TranslatedBlock)> {
        self.blocks
            .iter()
            .enumerate()
            .filter_map(|(n, b)| Some((BlockId(n as u32), b.as_deref()?)))
    }

    /// Takes a definition; returns the decoded instructions, `None` for one that was there before.
    ///
    /// # Errors
    /// A text when the definition cannot be true.
    pub fn define(&mut self, def: &BlockDef<'_>) -> Result<Option<Vec<Code>>, String> {
        let place = def.id.0 as usize;
        if place >= MAX_BLOCKS {
            return Err(format!("block id {} is beyond {MAX_BLOCKS}", def.id.0));
        }
        if place > self.defined + MAX_AHEAD {
            return Err(format!(
                "block id {} comes after {} blocks; ids count from 0 without gaps",
                def.id.0, self.defined
            ));
        }
        let count = usize::from(def.instructions);
        if count == 0 || count > MAX_BLOCK_INSTRUCTIONS || def.bytes.len() > count * 15 {
            return Err(format!(
                "block {} at {:#x} has {count} instructions in {} bytes",
                def.id.0,
                def.address.0,
                def.bytes.len()
            ));
        }
        if let Some(old) = self.get(def.id) {
            if old.address == def.address && *old.bytes == *def.bytes {
                return Ok(None);
            }
            return Err(format!(
                "block id {} is defined twice with different code",
                def.id.0
            ));
        }
        let (mut decoded, bad) = decode(self.arch, def.bytes, def.address.0);
        // A guest may run into bytes that are no instruction and handle the fault, and the
        // emulator may know an instruction that the decoder does not: what comes before counts.
        let cut = bad.is_some();
        if decoded.len() > count || (decoded.len() < count && !cut) {
            return Err(format!(
                "block {} at {:#x}: its {} bytes are not {count} instructions",
                def.id.0,
                def.address.0,
                def.bytes.len()
            ));
        }
        let mut offsets = Vec::with_capacity(count + 1);
        let mut offset = 0u16;
        for code in &decoded {
            offsets.push(offset);
            offset += code.len() as u16;
        }
        offsets.push(offset);
        let last = decoded.last().filter(|_| !cut);
        let flow = match cut {
            true => Flow::Exception,
            false => last.map_or(Flow::Next, Code::flow),
        };
        let target = match flow {
            Flow::Jump(target) | Flow::Conditional(target) | Flow::Call(target) => target,
            Flow::Next | Flow::Return | Flow::System | Flow::Exception => None,
        };
        let block = TranslatedBlock {
            arch: self.arch,
            address: def.address,
            end: GuestAddr(def.address.0.wrapping_add(def.bytes.len() as u64)),
            bytes: def.bytes.into(),
            offsets: offsets.into(),
            ending: match flow {
                Flow::Call(_) => Ending::Call,
                Flow::Return => Ending::Return,
                _ => Ending::Plain,
            },
            leaves_anywhere: match flow {
                Flow::Jump(target) | Flow::Conditional(target) | Flow::Call(target) => {
                    target.is_none()
                }
                Flow::Return | Flow::Exception => true,
                Flow::Next | Flow::System => false,
            },
            starts_with_rep: decoded.first().is_some_and(Code::repeats),
            ends_with_rep: last.is_some_and(Code::repeats),
            accesses: decoded.iter().map(Code::always_accesses).collect(),
            target: target.map(GuestAddr),
            falls_through: matches!(flow, Flow::Next | Flow::Conditional(_) | Flow::System),
            image: self.image(def),
        };
        if self.among_shared_objects(def.address.0) {
            decoded.iter_mut().for_each(Code::put_in_shared_object);
        }
        self.insert(def.id, Arc::new(block));
        Ok(Some(decoded))
    }
}
