//! What a prediction takes for granted: parts of a core that the model has not, and what no model
//! has. Reports state it beside the figures.

use mcad_isa::machine::params::Core;

use super::evidence::Evidence;
use super::{AnalysisKind, Options};

/// Whether a core has caches for data, and branch prediction.
fn has(core: &Core) -> (bool, bool) {
    match &core.in_order {
        Some(in_order) => (core.cache.is_some(), in_order.predictor.is_some()),
        None => (core.cache.is_some(), core.branch.is_some()),
    }
}

/// Whether an analysis takes something for granted that [`Evidence`] can speak against.
pub(super) fn are_worth_a_look(options: &Options) -> bool {
    let mut cores = options.pipelines().iter().map(|model| has(&model.core));
    options.analyses.contains(&AnalysisKind::Block) || cores.any(|has| has != (true, true))
}

/// What the program speaks against, of what is taken for granted of whole programs on this core.
pub(super) fn doubts_of_programs(core: &Core, evidence: Option<&Evidence>) -> Vec<String> {
    let (caches, predictor) = has(core);
    evidence.map_or_else(Vec::new, |e| e.against(caches, predictor))
}

/// The same of the analysis block by block.
pub(super) fn doubts_of_blocks(evidence: Option<&Evidence>) -> Vec<String> {
    evidence.map_or_else(Vec::new, |e| e.against(false, false))
}

/// What the analysis of whole programs on this core assumes, for people; most important first. `mixed`: threads of a process have a
/// core together.
pub(super) fn of_programs(core: &Core, mixed: bool) -> Vec<String> {
    let mut all = Vec::new();
    let mut unless = |modelled: bool, text: &str| {
        if !modelled {
            all.push(text.to_owned());
        }
    };
    match &core.in_order {
        Some(in_order) => {
            // Stores drain into the banks of a memory of the core's own.
            unless(
                core.cache.is_some(),
                match in_order.store_buffer {
                    Some(_) => "all data lies in the closely coupled memory",
                    None => "every load hits the first-level cache",
                },
            );
            let all_code = "all code is in the first-level cache";
            let ideal = in_order.program_fetch().ideal;
            unless(
                in_order.icache.is_some() || core.cache.is_some() || ideal,
                all_code,
            );
            unless(in_order.predictor.is_some(), "every branch is predicted");
            unless(
                !in_order.program_fetch().ideal,
                "the front end always delivers",
            );
            unless(core.cache.is_none() || core.tlb.is_some(), "no page walks");
            unless(
                in_order.divider.is_none(),
                "operands of divisions that cannot be known are as large as they can be, or give quotients of a few bits",
            );
        }
        None => {
            unless(
                core.cache.is_some(),
                "every load and fetch hits the first-level caches",
            );
            unless(core.branch.is_some(), "every branch is predicted");
            unless(!core.frontend.ideal, "the front end always delivers");
            let translated = core.cache.is_none() || core.tlb.is_some();
            unless(translated, "no page walks");
        }
    }
    let whose = match mixed {
        false => "each thread has a core of its own",
        true => "the threads of a process share a core",
    };
    all.push(whose.to_owned());
    all.push("the kernel's work is left out".to_owned());
    all
}

/// What the analysis block by block assumes.
pub(super) fn of_blocks() -> Vec<String> {
    let all = [
        "each block repeats by itself, in a loop",
        "every load and fetch hits the first-level caches",
        "every branch is predicted",
    ];
    all.map(str::to_owned).into()
}
