//! Regions of ELF files: functions, sections, or what lies between IACA's markers.

use object::{
    Architecture, BinaryFormat, File, Object as _, ObjectKind, ObjectSection, ObjectSymbol,
    SectionIndex, SectionKind, SymbolSection,
};

use crate::markers;
use crate::{AssembleError, Machine, Options, Region};

/// Least likeness of a name to one that does not exist (Jaro and Winkler's, 0 to 1).
const ALIKE: f64 = 0.85;
/// Suggestions in the message about a symbol that is not there.
const MAX_SUGGESTIONS: usize = 8;

pub fn regions(input: &[u8], name: &str, options: &Options) -> Result<Vec<Region>, AssembleError> {
    let object = Object::parse(input, name, options.machine)?;
    match (&options.symbol, &options.section) {
        (Some(symbol), _) => Ok(vec![object.function(symbol)?]),
        (None, Some(section)) => Ok(vec![object.section(section)?]),
        (None, None) => object.all(),
    }
}

/// A parsed ELF file.
pub struct Object<'a> {
    file: File<'a>,
    name: &'a str,
}

impl<'a> Object<'a> {
    pub fn parse(input: &'a [u8], name: &'a str, machine: Machine) -> Result<Self, AssembleError> {
        let error = |what: String| AssembleError::Elf {
            name: name.to_owned(),
            what,
        };
        let file = File::parse(input).map_err(|e| error(format!("not a usable ELF file: {e}")))?;
        if file.format() != BinaryFormat::Elf {
            return Err(error("not an ELF file".to_owned()));
        }
        let wanted = match machine {
            Machine::X86_64 => Architecture::X86_64,
            Machine::AArch64 => Architecture::Aarch64,
            Machine::RiscV64 => Architecture::Riscv64,
            Machine::RiscV32 => Architecture::Riscv32,
        };
        let found = file.architecture();
        if found != wanted {
            return Err(error(format!(
                "it is for {found:?}; asked for is {wanted:?}"
            )));
        }
        Ok(Self { file, name })
    }

    fn error(&self, what: impl Into<String>) -> AssembleError {
        AssembleError::Elf {
            name: self.name.to_owned(),
            what: what.into(),
        }
    }

    fn linked(&self) -> bool {
        self.file.kind() != ObjectKind::Relocatable
    }

    /// Section and address of a symbol of the file itself.
    pub fn label(&self, name: &str) -> Result<(SectionIndex, u64), AssembleError> {
        let symbol = self.file.symbols().find(|s| s.name() == Ok(name));
        let symbol = symbol.ok_or_else(|| self.error(format!("it has no symbol {name}")))?;
        match symbol.section() {
            SymbolSection::Section(section) => Ok((section, symbol.address())),
            _ => Err(self.error(format!("the symbol {name} is not defined in it"))),
        }
    }

    /// The code between two addresses of a section.
    pub fn bytes(
        &self,
        section: SectionIndex,
        start: u64,
        end: u64,
    ) -> Result<Vec<u8>, AssembleError> {
        let section = self
            .file
            .section_by_index(section)
            .map_err(|e| self.error(e.to_string()))?;
        let data = section.data().map_err(|e| self.error(e.to_string()))?;
        let range = || {
            let from = usize::try_from(start.checked_sub(section.address())?).ok()?;
            let to = usize::try_from(end.checked_sub(section.address())?).ok()?;
            data.get(from..to)
        };
        range().map(<[u8]>::to_vec).ok_or_else(|| {
            self.error(format!(
                "{start:#x} to {end:#x} lie outside of the section they should be in"
            ))
        })
    }

    fn function(&self, name: &str) -> Result<Region, AssembleError> {
        let symbols = || self.file.symbols().chain(self.file.dynamic_symbols());
        let found = symbols().find(|s| s.name() == Ok(name) && s.is_definition());
        let Some(symbol) = found else {
            let names = symbols().filter(|s| s.is_definition());
            let likeness = |n: &str| match n.contains(name) {
                true => 1.0,
                false => strsim::jaro_winkler(n, name),
            };
            let mut like: Vec<(f64, &str)> = names
                .filter_map(|s| s.name().ok())
                .map(|n| (likeness(n), n))
                .filter(|(likeness, _)| *likeness >= ALIKE)
                .collect();
            like.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
            like.dedup();
            let like = like.iter().take(MAX_SUGGESTIONS).map(|(_, n)| *n);
            let like: Vec<&str> = like.collect();
            let like = match &*like {
                [] => "; `nm` lists those it has".to_owned(),
                like => format!("; it has {}", like.join(", ")),
            };
            return Err(self.error(format!("it defines no symbol {name}{like}")));
        };
        let SymbolSection::Section(index) = symbol.section() else {
            return Err(self.error(format!("the symbol {name} is in no section")));
        };
        let start = symbol.address();
        let end = match symbol.size() {
            0 => self.next_symbol(index, start)?,
            size => start.saturating_add(size),
        };
        Ok(Region {
            name: name.to_owned(),
            address: start,
            linked: self.linked(),
            bytes: self.bytes(index, start, end)?,
        })
    }

    /// Where a symbol without a size ends: at the next one or with its section.
    fn next_symbol(&self, index: SectionIndex, start: u64) -> Result<u64, AssembleError> {
        let section = self
            .file
            .section_by_index(index)
            .map_err(|e| self.error(e.to_string()))?;
        let end = section.address().saturating_add(section.size());
        Ok(self
            .file
            .symbols()
            .filter(|s| s.section_index() == Some(index) && s.address() > start)
            .map(|s| s.address())
            .fold(end, u64::min))
    }

    fn section(&self, name: &str) -> Result<Region, AssembleError> {
        let section = self.file.section_by_name(name);
        let section = section.ok_or_else(|| self.error(format!("it has no section {name}")))?;
        let start = section.address();
        Ok(Region {
            name: name.to_owned(),
            address: start,
            linked: self.linked(),
            bytes: self.bytes(section.index(), start, start.saturating_add(section.size()))?,
        })
    }

    /// What is between IACA's markers; without any, the code sections of an object file.
    fn all(&self) -> Result<Vec<Region>, AssembleError> {
        let mut marked = Vec::new();
        let mut whole = Vec::new();
        let sections = self.file.sections();
        for section in sections.filter(|s| s.kind() == SectionKind::Text && s.size() > 0) {
            let name = section.name().unwrap_or("");
            let region = |range: std::ops::Range<usize>, data: &[u8]| Region {
                name: name.to_owned(),
                address: section.address() + range.start as u64,
                linked: self.linked(),
                bytes: data[range].to_vec(),
            };
            let data = section.data().map_err(|e| self.error(e.to_string()))?;
            let ranges = markers::iaca(data).map_err(|what| AssembleError::Marker {
                name: self.name.to_owned(),
                what: format!("section {name}: {what}"),
            })?;
            marked.extend(ranges.into_iter().map(|range| region(range, data)));
            if !data.is_empty() && !self.linked() {
                whole.push(region(0..data.len(), data));
            }
        }
        if !marked.is_empty() {
            return Ok(marked);
        }
        if self.linked() {
            return Err(self.error(
                "a linked file without IACA markers: choose a function (symbol=NAME; mcad block --symbol NAME) or section",
            ));
        }
        Ok(whole)
    }
}
