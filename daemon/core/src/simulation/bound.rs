//! What bounds the hottest blocks of a run, by the analysis of single blocks.

use std::sync::Arc;

use crate::block::{Block, Mode, Options};
use mcad_isa::machine::CpuModel;
use mcad_report::BlockBound;
use mcad_report::block::{Limit, Part};

/// Longer blocks are not looked at: their bounds take time and say little.
const MAX_BYTES: usize = 1024;

/// µops per execution on each port, by instruction.
pub(super) type PortUops = Vec<Vec<f64>>;

/// The bound of a block as a loop by itself, with the ports that its instructions take then;
/// `None` when it cannot be predicted alone, for lack of figures.
pub(super) fn of(model: &Arc<CpuModel>, bytes: &[u8]) -> Option<(BlockBound, PortUops)> {
    // The parts that an in-order core lacks bound nothing there.
    if bytes.len() > MAX_BYTES || model.core.in_order.is_some() {
        return None;
    }
    let block = Block::new(model, bytes).ok()?;
    let options = Options {
        mode: Mode::Loop,
        ..Options::default()
    };
    let detail = block.explain(options, 0, &|_| String::new());
    let limits = || detail.limits.iter().filter(|limit| limit.used);
    let bounding = |limit: &&Limit| detail.bottlenecks.contains(&limit.part);
    let mut instructions: Vec<u32> = limits()
        .filter(bounding)
        .flat_map(|limit| limit.instructions.iter().copied())
        .collect();
    instructions.sort_unstable();
    instructions.dedup();
    let bound = BlockBound {
        cycles: detail.cycles,
        parts: detail
            .bottlenecks
            .iter()
            .map(|part| name(*part).to_owned())
            .collect(),
        explained: detail.explained,
        evidence: limits()
            .filter(bounding)
            .map(|limit| limit.evidence.clone())
            .collect(),
        instructions,
        next: limits()
            .filter(|limit| !bounding(limit))
            .map(|limit| limit.cycles)
            .fold(0.0, f64::max),
    };
    // More digits would be those of the summation.
    let rounded = |uops: f64| (uops * 1e4).round() / 1e4;
    let ports = detail.instructions.into_iter();
    let ports = ports.map(|i| i.port_uops.into_iter().map(rounded).collect());
    Some((bound, ports.collect()))
}

/// As the JSON of `mcad block` spells it.
fn name(part: Part) -> &'static str {
    match part {
        Part::Predecoder => "predecoder",
        Part::Decoders => "decoders",
        Part::UopCache => "uop_cache",
        Part::LoopStream => "loop_stream",
        Part::Issue => "issue",
        Part::Ports => "ports",
        Part::Divider => "divider",
        Part::Throughput => "throughput",
        Part::Dependencies => "dependencies",
        Part::Retirement => "retirement",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcad_isa::machine;

    #[test]
    fn a_chain_of_multiplications_bounds_its_loop() {
        let model = machine::cpu("skl").unwrap();
        // imul rax,rax; imul rax,rax; nop; dec rcx; jne
        let code = [
            0x48, 0x0f, 0xaf, 0xc0, 0x48, 0x0f, 0xaf, 0xc0, 0x90, 0x48, 0xff, 0xc9, 0x75, 0xf2,
        ];
        let (bound, ports) = of(&model, &code).unwrap();
        assert!((bound.cycles - 6.0).abs() < 0.1, "{bound:?}");
        assert_eq!(bound.parts, ["dependencies"]);
        assert!(bound.explained);
        assert_eq!(bound.instructions, [0, 1]);
        // Two multiplications on their only port.
        assert!((1.9..3.0).contains(&bound.next), "{bound:?}");
        assert_eq!(ports.len(), 5);
        assert!((ports[0][1] - 1.0).abs() < 1e-9, "{ports:?}");
        assert_eq!(of(&model, &[0x90; MAX_BYTES + 1]), None);
        assert_eq!(of(&model, &[0x06]), None);
    }
}
