//! The report's part on memory: what accesses found, and whose they were.

use std::collections::BTreeMap;

use mcad_proto::word::BlockId;
use mcad_report::memory::{CodeMisses, LISTED, LevelCounts, MemoryReport};

use super::Symbolizer;
use super::core::Core;
use super::dictionary::TranslatedBlock;
use crate::memory::counts::Misses;

/// A block with the function and the module that it belongs to.
pub(super) type Named<'a> = (BlockId, &'a TranslatedBlock, &'a str, &'a str);

/// The report of a core whose caches are modelled.
pub(super) fn report<'a>(
    core: &Core,
    blocks: impl Iterator<Item = Named<'a>>,
    symbols: &dyn Symbolizer,
) -> Option<MemoryReport> {
    core.model.core.cache.as_ref()?;
    let mut functions: BTreeMap<(&str, &str), Misses> = BTreeMap::new();
    let mut lines: BTreeMap<String, Misses> = BTreeMap::new();
    for (id, block, function, module) in blocks {
        for (n, place) in core.range(id).enumerate() {
            let Some(misses) = core.misses.get(&(place as u32)) else {
                continue;
            };
            functions.entry((function, module)).or_default().add(misses);
            if let Some(line) = symbols.line(id, mcad_proto::word::GuestAddr(block.address_of(n))) {
                lines.entry(line).or_default().add(misses);
            }
        }
    }
    let counts = &core.totals.memory;
    let levels = |[l1, l2, l3, dram]: [u64; 4]| LevelCounts { l1, l2, l3, dram };
    Some(MemoryReport {
        loads: levels(counts.loads),
        stores: levels(counts.stores),
        fetches: levels(counts.fetches),
        tlb_misses: counts.tlb_misses,
        walks: counts.walks,
        fetch_walks: counts.fetch_walks,
        prefetches: counts.prefetches,
        useful_prefetches: counts.useful_prefetches,
        page_faults: counts.faults,
        functions: ranked(
            functions
                .iter()
                .map(|((name, module), m)| of(name, module, m)),
        ),
        lines: ranked(lines.iter().map(|(line, m)| of(line, "", m))),
    })
}

fn of(name: &str, module: &str, misses: &Misses) -> CodeMisses {
    CodeMisses {
        name: name.to_owned(),
        module: module.to_owned(),
        l1: misses.l1,
        l2: misses.l2,
        l3: misses.l3,
        walks: misses.walks,
    }
}

/// Most misses first, then by name.
fn ranked(all: impl Iterator<Item = CodeMisses>) -> Vec<CodeMisses> {
    let mut all: Vec<CodeMisses> = all.collect();
    all.sort_by(|a, b| {
        (b.l1.cmp(&a.l1)).then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module)))
    });
    all.truncate(LISTED);
    all
}
