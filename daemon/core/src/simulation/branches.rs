//! The report's part on branches: how they were predicted, and whose the wrong ones were.

use std::collections::BTreeMap;

use mcad_isa::machine::inorder::Predictor;
use mcad_proto::word::{BlockId, GuestAddr};
use mcad_report::branches::{BranchReport, CodeBranches};
use mcad_report::memory::LISTED;

use super::Symbolizer;
use super::core::Core;
use super::misses::Named;
use crate::pipeline::frontend::predict::stream::BranchCounts;

/// Wrong predictions, and branches that the decoders found.
type Sums = (u64, u64);

fn add(sums: &mut Sums, counts: &BranchCounts) {
    sums.0 += counts.wrong_direction + counts.wrong_target;
    sums.1 += counts.decoded;
}

/// The report of a core whose branch prediction is modelled.
pub(super) fn report<'a>(
    core: &Core,
    blocks: impl Iterator<Item = Named<'a>>,
    symbols: &dyn Symbolizer,
) -> Option<BranchReport> {
    let in_order = core.model.core.in_order.as_ref();
    let levels = match in_order.and_then(|in_order| in_order.predictor.as_ref()) {
        Some(Predictor::Gshare(_)) => 1,
        _ => core.model.core.branch.as_ref()?.btb.len(),
    };
    let mut functions: BTreeMap<(&str, &str), Sums> = BTreeMap::new();
    let mut lines: BTreeMap<String, Sums> = BTreeMap::new();
    let mut branches: BTreeMap<(u64, &str), (Sums, BlockId)> = BTreeMap::new();
    for (id, block, function, module) in blocks {
        for (n, place) in core.range(id).enumerate() {
            let Some(counts) = core.branches.by_instruction.get(&(place as u32)) else {
                continue;
            };
            let address = block.address_of(n);
            add(functions.entry((function, module)).or_default(), counts);
            let branch = branches.entry((address, module));
            add(
                &mut branch.or_insert_with(|| (Sums::default(), id)).0,
                counts,
            );
            if let Some(line) = symbols.line(id, GuestAddr(address)) {
                add(lines.entry(line).or_default(), counts);
            }
        }
    }
    let counts = &core.branches;
    // Only of those that are listed is it looked up where they are.
    let mut wrong: Vec<u64> = branches.values().map(|(sums, _)| sums.0).collect();
    wrong.sort_unstable_by(|a, b| b.cmp(a));
    let least = wrong.get(LISTED).copied().unwrap_or(0);
    Some(BranchReport {
        executed: counts.branches,
        taken: counts.taken,
        wrong_directions: counts.wrong_direction,
        wrong_targets: counts.wrong_indirect,
        wrong_returns: counts.wrong_return,
        btb: counts.btb.iter().copied().take(levels).collect(),
        decoded: counts.decoded,
        overridden: counts.overridden,
        functions: ranked(
            functions
                .iter()
                .map(|((f, m), s)| of((*f).to_owned(), m, *s)),
        ),
        lines: ranked(lines.iter().map(|(line, s)| of(line.clone(), "", *s))),
        branches: ranked(
            (branches.iter())
                .filter(|(_, (sums, _))| sums.0 >= least)
                .map(|((a, m), (s, id))| of_branch(*a, m, *s, *id, symbols)),
        ),
    })
}

fn of(name: String, module: &str, (wrong, decoded): Sums) -> CodeBranches {
    CodeBranches {
        name,
        module: module.to_owned(),
        place: None,
        line: None,
        wrong,
        decoded,
    }
}

fn of_branch(
    address: u64,
    module: &str,
    sums: Sums,
    id: BlockId,
    symbols: &dyn Symbolizer,
) -> CodeBranches {
    let at = GuestAddr(address);
    let symbol = symbols.symbol(id, at);
    CodeBranches {
        place: symbol.map(|symbol| match symbol.offset {
            0 => symbol.name,
            offset => format!("{}+{offset:#x}", symbol.name),
        }),
        line: symbols.line(id, at),
        ..of(format!("{address:#x}"), module, sums)
    }
}

/// Most wrong predictions first, then by name.
fn ranked(all: impl Iterator<Item = CodeBranches>) -> Vec<CodeBranches> {
    let mut all: Vec<CodeBranches> = all.collect();
    all.sort_by(|a, b| {
        (b.wrong.cmp(&a.wrong)).then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module)))
    });
    all.truncate(LISTED);
    all
}
