//! What one ELF file says about its functions. All addresses here are the file's own (ELF virtual
//! addresses), all offsets are offsets in the file.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadRef, SectionKind, SegmentFlags,
    SymbolKind,
};

use super::{calls, demangle, image, unwind};

/// Loader granularity on x86-64: a segment is mapped from the page that holds its first byte.
const PAGE: u64 = 4096;

/// Least part of the code that the functions of a file which tells of them cover.
const COVERED: f64 = 0.5;

/// Where distributions put separate debug files, by build id.
const DEBUG_ROOT: &str = "/usr/lib/debug/.build-id";

/// A loaded segment.
#[derive(Debug)]
struct Segment {
    address: u64,
    offset: u64,
    size: u64,
    executable: bool,
}

/// A function as found; the name is absent where only unwind information tells of it.
#[derive(Debug)]
struct Found {
    range: Range<u64>,
    name: Option<Box<str>>,
    /// Where there is no name: place of the nearest function before it that has one.
    near: Option<usize>,
}

impl Found {
    fn new(range: Range<u64>, name: Option<&str>) -> Self {
        Self {
            range,
            name: name.map(Into::into),
            near: None,
        }
    }
}

/// A function at an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function<'a> {
    /// Its ELF addresses.
    pub range: Range<u64>,
    /// Linker name.
    pub name: Option<&'a str>,
    /// Where there is no name: the linker name of the nearest function before it that has one.
    pub near: Option<&'a str>,
}

/// The functions of one ELF file, sorted and without overlap of starts.
#[derive(Debug)]
pub(super) struct ElfSymbols {
    segments: Vec<Segment>,
    functions: Vec<Found>,
    debug_file: Option<PathBuf>,
}

impl ElfSymbols {
    /// Reads a file.
    ///
    /// # Errors
    /// A text for the log when it is no regular file or no ELF file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let cache = image::open(path)?;
        let file = object::File::parse(&cache).map_err(|error| error.to_string())?;
        let mut segments = segments(&file);
        // Where two segments share a page of the file, code addresses mean the executable one.
        segments.sort_by_key(|segment| !segment.executable);

        let mut functions = Vec::new();
        named(&file, &mut functions);
        let debug_file = debug_file(&file);
        if let Some(path) = &debug_file
            && let Ok(debug_cache) = image::open(path)
            && let Ok(debug) = object::File::parse(&debug_cache)
        {
            named(&debug, &mut functions);
        }
        functions.extend(
            unwind::ranges(&file)
                .into_iter()
                .map(|range| Found::new(range, None)),
        );
        let sections = code_sections(&file);
        if covered(&functions) < COVERED * covered(&sections) {
            let starts = calls::starts(&file).into_iter();
            functions.extend(starts.map(|start| Found::new(start..start, None)));
        }
        Ok(Self {
            segments,
            functions: tidy(functions, &sections),
            debug_file,
        })
    }

    /// The separate debug file, if one is installed.
    pub(super) fn debug_file(&self) -> Option<&Path> {
        self.debug_file.as_deref()
    }

    /// The ELF address of a place in the file.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let first = segment.offset & !(PAGE - 1);
            let last = segment.offset.checked_add(segment.size)?;
            // Mapped from the page start on, so the base may be below the segment's own address.
            (first <= offset && offset < last).then(|| {
                segment
                    .address
                    .wrapping_sub(segment.offset)
                    .wrapping_add(offset)
            })
        })
    }

    /// Whether an ELF address is in a segment that is executed.
    pub(super) fn is_code(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| {
            let into = address.checked_sub(segment.address);
            segment.executable && into.is_some_and(|into| into < segment.size)
        })
    }

    /// The place in the file of an ELF address.
    pub(super) fn file_offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let into = address.checked_sub(segment.address)?;
            (into < segment.size).then(|| segment.offset.wrapping_add(into))
        })
    }

    /// The function at an address.
    pub(super) fn function(&self, address: u64) -> Option<Function<'_>> {
        let after = self
            .functions
            .partition_point(|entry| entry.range.start <= address);
        let entry = self.functions.get(after.checked_sub(1)?)?;
        (address < entry.range.end).then(|| Function {
            range: entry.range.clone(),
            name: entry.name.as_deref(),
            near: entry
                .near
                .and_then(|near| self.functions.get(near)?.name.as_deref()),
        })
    }

    /// The linker's names of all functions.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.functions
            .iter()
            .filter_map(|entry| entry.name.as_deref())
    }

    /// The addresses of functions of this name, as the linker or the source spells it.
    pub(super) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Range<u64>> + 'a {
        let matches = move |entry: &&Found| {
            entry.name.as_deref().is_some_and(|own| {
                own == name || (own.starts_with('_') && demangle::demangle(own) == name)
            })
        };
        self.functions
            .iter()
            .filter(matches)
            .map(|entry| entry.range.clone())
    }
}

fn segments<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> Vec<Segment> {
    let segment = |segment: object::Segment<'d, '_, R>| {
        let (offset, size) = segment.file_range();
        let executable = matches!(
            segment.flags(),
            SegmentFlags::Elf { p_flags, .. } if p_flags.0 & object::elf::PF_X.0 != 0
        );
        Segment {
            address: segment.address(),
            offset,
            size,
            executable,
        }
    };
    file.segments().map(segment).collect()
}

/// Executable sections: they bound functions of unknown size, and name code such as `.plt` that
/// has no symbol.
fn code_sections<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> Vec<Found> {
    let sections = file.sections();
    let code = sections.filter(|section| section.kind() == SectionKind::Text);
    code.filter_map(|section| {
        let end = section.address().checked_add(section.size())?;
        Some(Found::new(section.address()..end, section.name().ok()))
    })
    .collect()
}

/// Named functions: symbols of that type, and global ones of no type in code, as assembly without
/// `.type NAME, @function` has them. Of the latter not those inside of one of the former: places in it.
fn named<'d, R: ReadRef<'d>>(file: &object::File<'d, R>, functions: &mut Vec<Found>) {
    let in_code = |symbol: &object::Symbol<'d, '_, R>| {
        let section = symbol.section_index();
        let section = section.and_then(|index| file.section_by_index(index).ok());
        section.is_some_and(|section| {
            // What linkers define at a section's end is none of its functions.
            let inside = symbol.address().checked_sub(section.address());
            section.kind() == SectionKind::Text && inside.is_some_and(|at| at < section.size())
        })
    };
    let mut untyped = Vec::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let found = match symbol.kind() {
            SymbolKind::Text if !symbol.is_undefined() => &mut *functions,
            SymbolKind::Unknown if symbol.is_global() && in_code(&symbol) => &mut untyped,
            _ => continue,
        };
        let Ok(name) = symbol.name() else { continue };
        let Some(end) = symbol.address().checked_add(symbol.size()) else {
            continue;
        };
        if !name.is_empty() {
            found.push(Found::new(symbol.address()..end, Some(name)));
        }
    }
    let inside = |typed: &[Found], at: u64| {
        let after = typed.partition_point(|entry| entry.range.start <= at);
        let before = typed.get(..after).and_then(<[Found]>::last);
        before.is_some_and(|entry| entry.range.contains(&at))
    };
    functions.sort_by_key(|entry| (entry.range.start, entry.range.end));
    untyped.retain(|entry| !inside(functions, entry.range.start));
    functions.append(&mut untyped);
}

fn debug_file<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> Option<PathBuf> {
    let id = file.build_id().ok()??;
    let (first, rest) = id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let rest = hex::encode(rest);
    let path = PathBuf::from(format!("{DEBUG_ROOT}/{first:02x}/{rest}.debug"));
    path.is_file().then_some(path)
}

/// Bytes of code in these ranges; where several begin at the same place the longest counts.
fn covered(entries: &[Found]) -> f64 {
    let mut lengths: HashMap<u64, u64> = HashMap::new();
    for Found { range, .. } in entries {
        let length = lengths.entry(range.start).or_default();
        *length = (*length).max(range.end.saturating_sub(range.start));
    }
    lengths.values().map(|length| *length as f64).sum()
}

/// Which of several names of one function is told: the one with fewest leading underscores
/// (`malloc` before `__libc_malloc`), then the shortest, then the first, the same every time.
fn spelling(entry: &Found) -> (usize, usize, &str) {
    let name = entry.name.as_deref().unwrap_or("");
    let bare = name.trim_start_matches('_');
    (name.len() - bare.len(), name.len(), name)
}

/// Sorts, keeps one entry per start (named before unnamed, then the largest, then by `spelling`),
/// gives symbols without size an end, drops unwind ranges inside named functions, adds the rest of
/// code sections that nothing covers, and finds the neighbours of what has no name.
fn tidy(mut functions: Vec<Found>, sections: &[Found]) -> Vec<Found> {
    functions.sort_by(|a, b| {
        let key = |entry: &Found| (entry.range.start, entry.name.is_none());
        key(a)
            .cmp(&key(b))
            .then(b.range.end.cmp(&a.range.end))
            .then_with(|| spelling(a).cmp(&spelling(b)))
    });
    let unwound: HashSet<u64> = functions
        .iter()
        .filter(|entry| entry.name.is_none())
        .map(|entry| entry.range.start)
        .collect();
    functions.dedup_by_key(|entry| entry.range.start);
    let starts: Vec<u64> = functions.iter().map(|entry| entry.range.start).collect();
    for (i, entry) in functions.iter_mut().enumerate() {
        if entry.range.end > entry.range.start {
            continue;
        }
        let section = sections
            .iter()
            .find(|s| s.range.contains(&entry.range.start));
        let next = starts.get(i + 1).copied();
        let limits = next.into_iter().chain(section.map(|s| s.range.end));
        entry.range.end = limits.min().unwrap_or(entry.range.start);
    }
    let mut covered = 0;
    functions.retain(|entry| {
        // Unwind ranges that start inside a named function describe a part of it.
        let inside = entry.name.is_none() && entry.range.start < covered;
        if !inside && (entry.name.is_some() || unwound.contains(&entry.range.start)) {
            covered = covered.max(entry.range.end);
        }
        !inside
    });
    for section in sections {
        let after = functions.partition_point(|e| e.range.start < section.range.start);
        let empty = functions
            .get(after)
            .is_none_or(|e| e.range.start >= section.range.end);
        if empty {
            functions.insert(
                after,
                Found::new(section.range.clone(), section.name.as_deref()),
            );
        }
    }
    let mut near = None;
    for (place, entry) in functions.iter_mut().enumerate() {
        match &entry.name {
            None => entry.near = near,
            // A section is no function, and what follows is of another one.
            Some(name) => near = (!name.starts_with('.')).then_some(place),
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(start: u64, end: u64, name: Option<&str>) -> Found {
        Found::new(start..end, name)
    }

    #[test]
    fn names_come_before_unwind_ranges_and_sizes_are_filled() {
        let text = entry(0x1000, 0x2000, Some(".text"));
        let plt = entry(0x800, 0x900, Some(".plt"));
        let functions = tidy(
            vec![
                entry(0x1000, 0x1100, None),
                entry(0x1000, 0x1100, Some("main")),
                entry(0x1000, 0x1100, Some("__main")),
                entry(0x1000, 0x1100, Some("longer")),
                entry(0x1080, 0x1090, None),
                entry(0x1100, 0x1200, None),
                entry(0x1200, 0x1300, None),
                entry(0xf00, 0x1000, None),
                entry(0x1f00, 0x1f00, Some("assembly")),
            ],
            &[text, plt],
        );
        let found: Vec<_> = functions
            .iter()
            .map(|e| (e.range.start, e.range.end, e.name.as_deref(), e.near))
            .collect();
        assert_eq!(
            found,
            [
                (0x800, 0x900, Some(".plt"), None),
                (0xf00, 0x1000, None, None),
                (0x1000, 0x1100, Some("main"), None),
                (0x1100, 0x1200, None, Some(2)),
                (0x1200, 0x1300, None, Some(2)),
                (0x1f00, 0x2000, Some("assembly"), None),
            ]
        );
    }
}
