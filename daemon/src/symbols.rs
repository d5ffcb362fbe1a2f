//! Names and source lines for code addresses, from the ELF files that the guest had mapped.
//!
//! The way of an address: mapping that holds it → offset in the file → ELF address by the program
//! headers → function (symbol table, dynamic symbols, separate debug file by build id, the
//! ranges of `.eh_frame` where a stripped file has no name, and what is called where it has not
//! even these) and line (DWARF). Files are read once
//! and lazily; one that is missing or broken costs its names, never the run. Only regular files
//! are opened and so much of each is read, since paths may come from a peer ([`image`]).

mod calls;
mod data;
mod demangle;
mod elf;
mod image;
mod lines;
mod modules;
mod unwind;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use mcad_core::simulation::{Image, Symbol, Symbolizer};
use mcad_proto::event::{ModuleDef, ProcessEvent, RegionDef};
use mcad_proto::word::{BlockId, GuestAddr, ProcessId};

use elf::ElfSymbols;
use lines::Lines;
use modules::{Mapping, ModuleMap};

use mcad_isa::near::nearest;

/// One file with what was read of it.
struct ImageFile {
    path: PathBuf,
    symbols: Option<ElfSymbols>,
    lines: OnceCell<Option<Lines>>,
}

impl ImageFile {
    fn open(path: &str) -> Self {
        let path = PathBuf::from(path);
        let symbols = match ElfSymbols::read(&path) {
            Ok(symbols) => Some(symbols),
            Err(reason) => {
                tracing::debug!(path = %path.display(), %reason, "no symbols");
                None
            }
        };
        Self {
            path,
            symbols,
            lines: OnceCell::new(),
        }
    }

    fn lines(&self) -> Option<&Lines> {
        let read = || {
            let debug_file = self.symbols.as_ref()?.debug_file();
            let candidates = debug_file.into_iter().chain([self.path.as_path()]);
            candidates.into_iter().find_map(Lines::read)
        };
        self.lines.get_or_init(read).as_ref()
    }
}

/// What one process has mapped.
#[derive(Default)]
struct Space {
    /// What was mapped anew with the first block that it holds for, in order: a later one hides
    /// what earlier ones have at its addresses.
    epochs: Vec<(BlockId, ModuleMap)>,
    /// Everything that was mapped so far.
    mapped: ModuleMap,
    /// It was the first to have some block, which is looked for in what it has mapped.
    defines: bool,
}

impl Space {
    /// What a process has that begins as a copy.
    fn fork(&self) -> Self {
        Self {
            epochs: vec![(BlockId(0), self.mapped.clone())],
            mapped: self.mapped.clone(),
            defines: false,
        }
    }

    fn add(&mut self, first: BlockId, mapping: Mapping) {
        let overlaps = self.mapped.overlaps(&mapping);
        self.mapped.insert(mapping.clone());
        match self.epochs.last_mut() {
            // No block so far can lie where nothing was mapped.
            Some((since, map)) if *since == first || !overlaps => map.insert(mapping),
            _ => {
                let mut map = ModuleMap::default();
                map.insert(mapping);
                self.epochs.push((first, map));
            }
        }
    }

    /// How many epochs had begun when a block was defined.
    fn epoch(&self, block: BlockId) -> usize {
        self.epochs.partition_point(|(first, _)| *first <= block)
    }

    /// What was mapped at an address after so many epochs.
    fn mapping(&self, epoch: usize, address: u64) -> Option<&Mapping> {
        let begun = self.epochs.get(..epoch)?;
        begun.iter().rev().find_map(|(_, map)| map.get(address))
    }
}

/// Where a block was defined: the process, and how many epochs of it had begun.
type When = (ProcessId, usize);

/// The symbols of one session's modules.
#[derive(Default)]
pub struct Symbols {
    spaces: HashMap<ProcessId, Space>,
    /// The process that events belong to.
    entered: ProcessId,
    /// The processes that defined blocks, each with the first of a row of them.
    owners: Vec<(BlockId, ProcessId)>,
    next_block: u32,
    files: RefCell<HashMap<String, Rc<ImageFile>>>,
    known: RefCell<HashMap<(When, u64), Option<Symbol>>>,
}

impl Symbols {
    /// No modules yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Learns of a block's definition; the modules that the process has by then are those that its
    /// code is from.
    pub fn defined(&mut self, block: BlockId) {
        self.next_block = self.next_block.max(block.0.saturating_add(1));
        let entered = self.entered;
        if self
            .owners
            .last()
            .map_or(ProcessId::FIRST, |(_, owner)| *owner)
            != entered
        {
            self.owners.push((block, entered));
        }
        self.spaces.entry(entered).or_default().defines = true;
    }

    /// Learns of a mapped file; for the blocks that the process defines from now on it replaces what
    /// was mapped at its addresses.
    pub fn add(&mut self, module: &ModuleDef) {
        let mapping = Mapping {
            path: module.path.as_str().into(),
            start: module.start.0,
            end: module.end.0,
            file_offset: module.file_offset,
        };
        let first = BlockId(self.next_block);
        let space = self.spaces.entry(self.entered).or_default();
        space.add(first, mapping);
        self.known.get_mut().clear();
    }

    /// What a mapped file has in memory when it is loaded; none of those that cannot be read.
    #[must_use]
    pub fn image(&self, module: &ModuleDef) -> Option<Image> {
        data::read(module, self.file(&module.path)?.symbols.as_ref()?)
    }

    /// Learns what becomes of a process.
    pub fn process(&mut self, id: ProcessId, what: &ProcessEvent) {
        match what {
            ProcessEvent::Entered => self.entered = id,
            ProcessEvent::Forked { parent } => {
                if let Some(parent) = self.spaces.get(parent) {
                    let space = parent.fork();
                    self.spaces.entry(id).or_insert(space);
                }
            }
            // Its new program's files are told of. Where it has defined nothing so far, nobody asks
            // for what it had.
            ProcessEvent::Replaced { .. } | ProcessEvent::Ended(_) => {
                if self.spaces.get(&id).is_some_and(|space| !space.defines) {
                    self.spaces.remove(&id);
                }
            }
        }
    }

    fn when(&self, block: BlockId) -> Option<When> {
        let before = self.owners.partition_point(|(first, _)| *first <= block);
        let last = before.checked_sub(1).and_then(|last| self.owners.get(last));
        let owner = last.map_or(ProcessId::FIRST, |(_, owner)| *owner);
        Some((owner, self.spaces.get(&owner)?.epoch(block)))
    }

    fn mapping(&self, (process, epoch): When, address: u64) -> Option<&Mapping> {
        self.spaces.get(&process)?.mapping(epoch, address)
    }

    /// The addresses of a function as this mapping shows it, if the mapping has it.
    ///
    /// The name may be the linker's or the demangled one.
    #[must_use]
    pub fn find(&self, name: &str, module: &ModuleDef) -> Option<RegionDef> {
        let file = self.file(&module.path)?;
        let symbols = file.symbols.as_ref()?;
        symbols
            .named(name)
            .find_map(|range| mapped(symbols, range, name, module))
    }

    /// The same for a function that reports name by its module and address, such as `gzip+0x4290`.
    #[must_use]
    pub fn find_place(&self, name: &str, module: &ModuleDef) -> Option<RegionDef> {
        let (file, address) = name.rsplit_once("+0x")?;
        if file != file_name(&module.path) {
            return None;
        }
        let address = u64::from_str_radix(address, 16).ok()?;
        let file = self.file(&module.path)?;
        let symbols = file.symbols.as_ref()?;
        let function = symbols.function(address)?;
        mapped(symbols, function.range, name, module)
    }

    /// Where this mapping has a range of addresses of its file's code.
    #[must_use]
    pub fn find_range(
        &self,
        range: Range<u64>,
        name: &str,
        module: &ModuleDef,
    ) -> Option<RegionDef> {
        let file = self.file(&module.path)?;
        let symbols = file.symbols.as_ref()?;
        if !symbols.is_code(range.start) {
            return None;
        }
        mapped(symbols, range, name, module)
    }

    /// The names of functions that look most like one that is none.
    #[must_use]
    pub fn near(&self, name: &str) -> Vec<String> {
        let files = self.files.borrow();
        let symbols = files.values().filter_map(|file| file.symbols.as_ref());
        nearest(
            name,
            symbols.flat_map(ElfSymbols::names).map(demangle::demangle),
        )
    }

    fn file(&self, path: &str) -> Option<Rc<ImageFile>> {
        // Special mappings ([vdso], anonymous memory) have no file.
        if !path.starts_with('/') {
            return None;
        }
        let mut files = self.files.borrow_mut();
        let file = files
            .entry(path.to_owned())
            .or_insert_with(|| Rc::new(ImageFile::open(path)));
        Some(Rc::clone(file))
    }

    fn look_up(&self, when: When, address: u64) -> Option<Symbol> {
        let mapping = self.mapping(when, address)?;
        let module = file_name(&mapping.path);
        let offset_in_file = mapping.file_offset.checked_add(address - mapping.start)?;
        let Some(file) = self.file(&mapping.path) else {
            return Some(unnamed(module, offset_in_file));
        };
        let Some(symbols) = file.symbols.as_ref() else {
            return Some(unnamed(module, offset_in_file));
        };
        let Some(virtual_address) = symbols.address(offset_in_file) else {
            return Some(unnamed(module, offset_in_file));
        };
        let Some(function) = symbols.function(virtual_address) else {
            return Some(unnamed(module, virtual_address));
        };
        Some(Symbol {
            near: function.near.map(demangle::demangle),
            name: match function.name {
                Some(name) => demangle::demangle(name),
                None => format!("{module}+{:#x}", function.range.start),
            },
            offset: virtual_address - function.range.start,
            module,
        })
    }
}

/// Where a mapping has a range of its file's addresses, if it has its start.
fn mapped(
    symbols: &ElfSymbols,
    range: Range<u64>,
    name: &str,
    module: &ModuleDef,
) -> Option<RegionDef> {
    let length = module.end.0.checked_sub(module.start.0)?;
    let in_mapping = symbols
        .file_offset(range.start)?
        .checked_sub(module.file_offset)
        .filter(|offset| *offset < length)?;
    let start = module.start.0.checked_add(in_mapping)?;
    Some(RegionDef {
        name: name.to_owned(),
        start: GuestAddr(start),
        end: GuestAddr(start.checked_add(range.end.checked_sub(range.start)?)?),
    })
}

/// Code that belongs to no known function: one entry per module, told apart by the offset.
fn unnamed(module: String, offset: u64) -> Symbol {
    Symbol {
        name: format!("[{module}]"),
        offset,
        module,
        near: None,
    }
}

fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(
        || path.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

impl Symbolizer for Symbols {
    fn symbol(&self, block: BlockId, address: GuestAddr) -> Option<Symbol> {
        let when = self.when(block)?;
        let key = (when, address.0);
        if let Some(symbol) = self.known.borrow().get(&key) {
            return symbol.clone();
        }
        let symbol = self.look_up(when, address.0);
        self.known.borrow_mut().insert(key, symbol.clone());
        symbol
    }

    fn line(&self, block: BlockId, address: GuestAddr) -> Option<String> {
        let mapping = self.mapping(self.when(block)?, address.0)?;
        let file = self.file(&mapping.path)?;
        let offset = mapping.file_offset.checked_add(address.0 - mapping.start)?;
        let virtual_address = file.symbols.as_ref()?.address(offset)?;
        file.lines()?.line(virtual_address)
    }
}

#[cfg(test)]
mod tests;
