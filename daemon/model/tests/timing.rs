//! Instructions that a CPU tells apart though they are of one kind.

#![allow(clippy::unwrap_used)]

use mcad_isa::code::{self, Code};
use mcad_isa::machine;
use mcad_model::chain::Chain;
use mcad_model::collect::{Collector, Piece};
use mcad_model::machine::Machine;
use mcad_model::profile::{Inst, Profile};
use mcad_model::rows::Rows;
use mcad_model::timing::Timing;
use mcad_proto::event::Arch;

/// A loop of these words.
fn repeated(words: &[u32], times: u32) -> Profile {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let (decoded, _) = code::decode(Arch::AArch64, &bytes, 0);
    let insts = decoded.iter().map(|code| {
        let Code::Llvm(instruction) = code else {
            unreachable!("decoded as A64");
        };
        Inst::of_llvm(instruction)
    });
    let piece = Piece {
        insts: insts.collect(),
        bytes,
        ..Piece::default()
    };
    let mut collector = Collector::default();
    collector.keep_code(Arch::AArch64);
    for _ in 0..times {
        collector.execute(0, 0, words.len() as u32, || piece.clone());
    }
    collector.finish("loop".into())
}

/// Cycles of an iteration on a Cortex-A55.
fn on_a55(words: &[u32]) -> f64 {
    let model = machine::cpu("cortex-a55").unwrap();
    let profile = repeated(words, 1000);
    let timing = Timing::of(&model, &profile).unwrap();
    let chain = Chain::new(&Rows::on(&profile, &timing));
    chain.predict(&Machine::of(&model).unwrap()).total() / 1000.0
}

#[test]
fn selects_wait_longer_for_flags_than_sums_for_values() {
    // cmp x0, x4; csel x0, x0, x4, hs: AArch64SchedA55.td has three cycles and one.
    let each = on_a55(&[0xeb04_001f, 0x9a84_2000]);
    assert!((each - 4.0).abs() < 0.05, "{each}");
    // add x0, x0, x4, twice.
    let each = on_a55(&[0x8b04_0000, 0x8b04_0000]);
    assert!((each - 2.0).abs() < 0.05, "{each}");
}

#[test]
fn pairs_of_loads_keep_the_unit_for_both() {
    // ldp x1, x2, [x0]; ldp x3, x4, [x0]: two each.
    let pairs = on_a55(&[0xa940_0801, 0xa940_1003]);
    // ldr x1, [x0]; ldr x3, [x0].
    let singles = on_a55(&[0xf940_0001, 0xf940_0003]);
    assert!((singles - 2.0).abs() < 0.05, "{singles}");
    assert!((pairs - 4.0).abs() < 0.1, "{pairs}");
}

#[test]
fn other_instruction_sets_are_left_to_kinds() {
    let profile = repeated(&[0x8b04_0000], 10);
    for cpu in ["sifive-u74", "atom", "cortex-a8"] {
        let model = machine::cpu(cpu).unwrap();
        assert!(Timing::of(&model, &profile).is_none(), "{cpu}");
    }
}
