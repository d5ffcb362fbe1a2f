//! Closed forms of the in-order core: what single rules cost, on EH1's parameters.

#![allow(clippy::unwrap_used)]

use mcad_core::pipeline::inorder::code::Code;
use mcad_core::pipeline::inorder::slots::Slots;
use mcad_core::pipeline::inorder::{Core, Executed, Stamps};
use mcad_isa::machine::{self, inorder::InOrder};
use mcad_isa::riscv::divider::{self, Operands};
use mcad_isa::riscv::{self, inorder::Riscv};

/// Code is laid out from here on, in lines that are fetched once before.
const BASE: u64 = 0x1000;

/// Runs `code` `times` times; gives the cycles of issue of the last run, and the slots.
fn run(core: &InOrder, words: &[u32], times: usize) -> (Vec<Stamps>, Slots) {
    let riscv = Riscv::new(core).unwrap();
    let mut code = Code::default();
    let mut layout = Vec::new();
    let mut address = BASE;
    for &word in words {
        let inst = riscv::decode(word).unwrap();
        riscv.append(&mut code, &inst);
        code.lies_at(address);
        layout.push((address, inst.op));
        address += u64::from(inst.len);
    }
    let mut stamps = Vec::new();
    let mut model = Core::new(core, |_: &Executed, s: &Stamps| stamps.push(*s));
    for _ in 0..times {
        for (n, &(address, op)) in layout.iter().enumerate() {
            let memory = matches!(op, riscv::Op::Load { .. } | riscv::Op::Store(_));
            let executed = Executed {
                instr: n as u32,
                address,
                access: memory.then_some((0x8000 + 4 * n as u64, 4)),
                ..Executed::default()
            };
            model.push(&code, executed);
        }
    }
    model.flush(&code);
    let slots = model.slots();
    drop(model);
    (stamps.split_off(stamps.len() - words.len()), slots)
}

fn eh1() -> InOrder {
    machine::cpu("eh1").unwrap().core.in_order.clone().unwrap()
}

/// A core whose front end never holds anything up.
fn ideal() -> InOrder {
    let mut core = eh1();
    core.icache = None;
    core.predictor = None;
    core
}

/// Cycles between the issue of the first and of each instruction.
fn issued(words: &[u32]) -> Vec<u64> {
    let core = ideal();
    // What comes before fills the queue, so that fetch is ahead: independent instructions that
    // issue in pairs, behind each other.
    let mut all = vec![0x0000_0013; 64];
    all.extend_from_slice(words);
    let (stamps, _) = run(&core, &all, 1);
    let first = stamps[64].issued;
    stamps[64..].iter().map(|s| s.issued - first).collect()
}

const fn add(rd: u32, rs1: u32, rs2: u32) -> u32 {
    0x33 | rd << 7 | rs1 << 15 | rs2 << 20
}

const fn mul(rd: u32, rs1: u32, rs2: u32) -> u32 {
    add(rd, rs1, rs2) | 1 << 25
}

const fn load(rd: u32, rs1: u32) -> u32 {
    0x03 | 2 << 12 | rd << 7 | rs1 << 15
}

const fn store(rs2: u32, rs1: u32) -> u32 {
    0x23 | 2 << 12 | rs1 << 15 | rs2 << 20
}

#[test]
fn independent_additions_issue_in_pairs_and_a_chain_one_by_one() {
    let independent: Vec<u32> = (0..8).map(|n| add(5 + n, 1, 2)).collect();
    assert_eq!(issued(&independent), [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(issued(&[add(5, 5, 2); 8]), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn what_a_load_costs_depends_on_what_its_value_is_for() {
    // (who uses it, cycles from the load to that)
    let cases: [(&str, u32, u64); 4] = [
        ("an addition executes late beside it", add(6, 5, 2), 0),
        ("store data comes a cycle later", store(5, 2), 1),
        ("an address two cycles later", load(6, 5), 2),
        ("a factor two cycles later", mul(6, 5, 2), 2),
    ];
    for (what, user, cycles) in cases {
        assert_eq!(issued(&[load(5, 1), user]), [0, cycles], "{what}");
    }
}

#[test]
fn a_late_result_can_be_used_late_at_once_and_early_after_four_cycles() {
    // The load and the addition that executes late issue together; the second addition then
    // executes late too.
    assert_eq!(issued(&[load(5, 1), add(6, 5, 2), add(7, 6, 2)]), [0, 0, 1]);
    assert_eq!(issued(&[load(5, 1), add(6, 5, 2), load(7, 6)]), [0, 0, 4]);
    assert_eq!(issued(&[load(5, 1), add(6, 5, 2), store(6, 2)]), [0, 0, 1]);
}

#[test]
fn an_addition_waits_rather_than_make_the_next_multiplication_wait_longer() {
    // Beside the load stands something else, so that the addition comes first in its cycle and
    // sees the multiplication that needs it.
    let words = [load(5, 1), add(9, 1, 2), add(6, 5, 2), mul(7, 6, 2)];
    assert_eq!(issued(&words), [0, 0, 3, 4]);
}

#[test]
fn units_are_shared_and_multiplications_pipelined() {
    assert_eq!(issued(&[load(5, 1), load(6, 1), load(7, 1)]), [0, 1, 2]);
    assert_eq!(issued(&[mul(5, 1, 2), mul(6, 1, 2), load(7, 1)]), [0, 1, 1]);
    assert_eq!(issued(&[mul(5, 1, 2), mul(6, 5, 2)]), [0, 3]);
}

#[test]
fn divisions_skip_what_must_be_zero() {
    let p = ideal().divider.unwrap();
    let cycles = |dividend: u32, divisor: u32, signed, remainder| {
        let operands = Operands {
            dividend,
            divisor,
            signed,
            remainder,
        };
        divider::cycles(&p, &operands)
    };
    for (dividend, divisor, expected) in [
        (15, 3, 2),
        (0, 0x8000_0000, 2),
        (5, 0, 34),
        (0x8000_0000, 1, 34),
        (0x80_0000, 1, 27),
        (0x8000, 1, 19),
        (0x80, 1, 11),
        (0x80, 0x100, 4),
        (0x8000_0000, 0x100, 27),
        (0x8000_0000, 0x8000_0000, 11),
    ] {
        assert_eq!(
            cycles(dividend, divisor, false, false),
            expected,
            "{dividend:x}/{divisor:x}"
        );
    }
    assert_eq!(
        cycles(15, 3, false, true),
        12,
        "remainders are computed, a cycle longer"
    );
    // -1 has no bit that differs from its sign; neither has the 7 bits of -128.
    assert_eq!(cycles(-1i32 as u32, 16, true, false), 11);
    assert_eq!(cycles(-128i32 as u32, 16, true, false), 11);
    assert_eq!(cycles(-129i32 as u32, 16, true, false), 19);
    assert_eq!(cycles(0x80, -256i32 as u32, true, false), 11);
}

#[test]
fn a_loop_is_mispredicted_until_the_history_is_full() {
    let mut core = eh1();
    core.icache = None;
    // addi a0, a0, 1; bnez a0, -4
    let words = [0x0015_0513, 0xfe05_1ee3];
    let riscv = Riscv::new(&core).unwrap();
    let mut code = Code::default();
    for (n, word) in words.iter().enumerate() {
        riscv.append(&mut code, &riscv::decode(*word).unwrap());
        code.lies_at(BASE + 4 * n as u64);
    }
    let mut mispredicted = 0;
    let mut model = Core::new(&core, |_: &Executed, s: &Stamps| {
        mispredicted += u32::from(s.mispredicted);
    });
    for _ in 0..1000 {
        for n in 0..2 {
            let executed = Executed {
                instr: n,
                address: BASE + 4 * u64::from(n),
                ..Executed::default()
            };
            model.push(&code, executed);
        }
    }
    model.flush(&code);
    drop(model);
    // History 0, 1, 11, 111, 1111 each find a counter that has seen nothing; 11111 shares the
    // counter of 111, since the row has one bit less.
    assert_eq!(mispredicted, 5);
}

#[test]
fn every_slot_is_booked_once() {
    let core = eh1();
    let words: Vec<u32> = (0..200u32)
        .map(|n| match n * 7 % 11 {
            0 | 5 => load(5 + n % 20, 1 + n % 7),
            1 => mul(5 + n % 20, 5 + n % 13, 2),
            2 => store(5 + n % 9, 1),
            _ => add(5 + n % 20, 5 + n % 3, 5 + n % 17),
        })
        .collect();
    let riscv = Riscv::new(&core).unwrap();
    let mut code = Code::default();
    for (n, &word) in words.iter().enumerate() {
        riscv.append(&mut code, &riscv::decode(word).unwrap());
        code.lies_at(BASE + 4 * n as u64);
    }
    let mut stamps: Vec<Stamps> = Vec::new();
    let mut model = Core::new(&core, |_: &Executed, s: &Stamps| stamps.push(*s));
    for n in 0..words.len() as u32 {
        let executed = Executed {
            instr: n,
            address: BASE + 4 * u64::from(n),
            access: Some((0x8000 + u64::from(n) * 12, 4)),
            ..Executed::default()
        };
        model.push(&code, executed);
    }
    model.flush(&code);
    let slots = model.slots();
    drop(model);
    let (first, last) = (stamps[0].issued, stamps.last().unwrap().issued);
    let in_last = stamps.iter().filter(|s| s.issued == last).count() as u64;
    assert_eq!(slots.used, words.len() as u64);
    assert_eq!(
        slots.total(),
        (last - first) * u64::from(core.width) + in_last
    );
    // In order, and never more than the core is wide.
    for pair in stamps.windows(2) {
        assert!(pair[0].issued <= pair[1].issued && pair[0].retired <= pair[1].retired);
    }
    for triple in stamps.windows(3) {
        assert!(triple[0].issued < triple[2].issued);
    }
}

#[test]
fn senseless_parameters_are_refused_by_name() {
    let change = |change: &dyn Fn(&mut InOrder)| {
        let mut core = eh1();
        change(&mut core);
        core.check().unwrap_err()
    };
    assert!(change(&|c| c.width = 0).contains("width"));
    assert!(change(&|c| c.fetch.bytes = 12).contains("fetch.bytes"));
    assert!(change(&|c| c.units.clear()).contains("there is no unit memory"));
    assert!(change(&|c| c.late = None).contains("late"));
    let error = |text: &str| {
        let model = machine::model_from("x.toml", text, &|name| Err(name.to_owned()));
        model.unwrap_err().to_string()
    };
    let unknown = error("base = \"eh1\"\n[in_order]\nwidth = 2\nretyre = 3\n");
    assert!(unknown.starts_with("x.toml:4:"), "{unknown}");
    // A class that instructions ask for, in the model's own words.
    let classes = "[[in_order.classes]]\nname = \"alu\"\n";
    for (base, lacking) in [("eh1", "arithmetic"), ("cortex-a8", "load")] {
        let error = error(&format!("base = \"{base}\"\n\n{classes}"));
        assert!(error.starts_with("x.toml:3:"), "{error}");
        assert!(
            error.ends_with(&format!("no class \"{lacking}\"")),
            "{error}"
        );
    }
}
