//! Symbols of a real file: the running test itself, mapped as the system has mapped it.

use mcad_core::simulation::Symbolizer;
use mcad_proto::event::ModuleDef;
use mcad_proto::word::{BlockId, GuestAddr};

use super::Symbols;

/// Mappings of this process, as a broker would report them.
fn own_modules() -> Vec<ModuleDef> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let parse = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let offset = fields.nth(1)?;
        let path = fields.nth(2)?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(ModuleDef {
            path: path.to_owned(),
            start: GuestAddr(hex(start)?),
            end: GuestAddr(hex(end)?),
            file_offset: hex(offset)?,
        })
    };
    maps.lines().filter_map(parse).collect()
}

#[inline(never)]
fn a_function_to_be_found(seed: u64) -> u64 {
    seed ^ 0x5555
}

std::arch::global_asm!(
    ".pushsection .text.mcad_untyped, \"ax\", @progbits",
    ".globl mcad_untyped",
    "mcad_untyped:",
    ".byte 0x90, 0x90, 0x90, 0x90",
    ".popsection",
);

// SAFETY: only its address is taken.
unsafe extern "C" {
    safe fn mcad_untyped();
}

#[test]
fn functions_of_assembly_are_found_that_say_no_type() {
    let mut symbols = Symbols::new();
    let modules = own_modules();
    for module in &modules {
        symbols.add(module);
    }
    let address = GuestAddr(mcad_untyped as *const () as u64);
    let symbol = symbols.symbol(BlockId(0), address).unwrap();
    assert_eq!((symbol.name.as_str(), symbol.offset), ("mcad_untyped", 0));
    let find = |module: &ModuleDef| symbols.find("mcad_untyped", module);
    let region = modules.iter().find_map(find).unwrap();
    assert_eq!(region.start, address);
    assert!(region.end.0 >= address.0 + 4);
}

#[test]
fn own_functions_and_lines_are_found() {
    let mut symbols = Symbols::new();
    let modules = own_modules();
    for module in &modules {
        symbols.add(module);
    }
    assert_eq!(a_function_to_be_found(0), 0x5555);
    let address = GuestAddr(a_function_to_be_found as *const () as u64);
    let symbol = symbols.symbol(BlockId(0), address).unwrap();
    assert!(
        symbol
            .name
            .ends_with("symbols::tests::a_function_to_be_found"),
        "{symbol:?}"
    );
    assert_eq!(symbol.offset, 0);
    let line = symbols.line(BlockId(0), address).unwrap();
    assert!(line.contains("symbols/tests.rs:"), "{line}");

    let region = modules
        .iter()
        .find_map(|module| symbols.find(&symbol.name, module))
        .unwrap();
    assert_eq!(region.start, address);
    assert!(region.end > region.start);
}

#[test]
fn library_functions_are_found_by_dynamic_symbols() {
    let mut symbols = Symbols::new();
    for module in &own_modules() {
        symbols.add(module);
    }
    let address = GuestAddr(libc::getpid as *const () as u64);
    let symbol = symbols.symbol(BlockId(0), address).unwrap();
    assert!(symbol.name.contains("getpid"), "{symbol:?}");
    assert!(symbol.module.starts_with("libc"), "{symbol:?}");
}

#[test]
fn unknown_places_and_foreign_files_give_no_names() {
    let mut symbols = Symbols::new();
    assert_eq!(symbols.symbol(BlockId(0), GuestAddr(0x1234)), None);
    for path in ["/nowhere/at/all", "/dev/zero", "[vdso]", "/proc/self/maps"] {
        symbols.add(&ModuleDef {
            path: path.to_owned(),
            start: GuestAddr(0x1000),
            end: GuestAddr(0x2000),
            file_offset: 0,
        });
        let symbol = symbols.symbol(BlockId(0), GuestAddr(0x1234)).unwrap();
        assert_eq!(symbol.offset, 0x234);
        assert!(symbol.name.starts_with('['), "{symbol:?}");
        assert_eq!(symbols.line(BlockId(0), GuestAddr(0x1234)), None);
    }
}

#[test]
fn a_block_keeps_the_file_that_it_came_from() {
    let module = |path: &str, start: u64| ModuleDef {
        path: path.to_owned(),
        start: GuestAddr(start),
        end: GuestAddr(start + 0x1000),
        file_offset: 0,
    };
    let mut symbols = Symbols::new();
    symbols.add(&module("/nowhere/old", 0x1000));
    symbols.defined(BlockId(0));
    // Elsewhere: nothing is replaced.
    symbols.add(&module("/nowhere/library", 0x8000));
    symbols.defined(BlockId(1));
    symbols.add(&module("/nowhere/new", 0x1000));
    symbols.defined(BlockId(2));
    for (block, address, expected) in [
        (0, 0x1234, "old"),
        (1, 0x1234, "old"),
        (2, 0x1234, "new"),
        (1, 0x8234, "library"),
        (2, 0x8234, "library"),
    ] {
        let symbol = symbols.symbol(BlockId(block), GuestAddr(address)).unwrap();
        assert_eq!(symbol.module, expected, "block {block} at {address:#x}");
    }
}
