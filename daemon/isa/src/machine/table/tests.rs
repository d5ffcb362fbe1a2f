//! Lookups of hand-encoded instructions: the form's name and the figures that uops.info prints.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction};

mod cases;

use std::collections::HashSet;

use super::*;

fn decode(hex: &str) -> Instruction {
    let bytes = ::hex::decode(hex).unwrap();
    let mut decoder = Decoder::with_ip(64, &bytes, 0x1000, DecoderOptions::NONE);
    let instruction = decoder.decode();
    assert!(!instruction.is_invalid(), "{hex} does not decode");
    assert_eq!(instruction.len(), bytes.len(), "{hex} has bytes to spare");
    instruction
}

fn form(cpu: &str, hex: &str) -> &'static Form {
    let table = FormTable::for_cpu(cpu).expect("table");
    table
        .find(&decode(hex))
        .unwrap_or_else(|| panic!("{cpu}: {hex} has no form"))
}

fn latency(perf: &Perf, from: OperandName, to: OperandName) -> Option<u16> {
    let same = |l: &&Latency| l.from == from && l.to == to && l.kind == LatencyKind::Reg;
    perf.latencies.iter().find(same).map(|l| l.cycles)
}

const REG0: OperandName = OperandName::Reg(0);
const REG1: OperandName = OperandName::Reg(1);

const REG2: OperandName = OperandName::Reg(2);
const MEM0: OperandName = OperandName::Mem(0);

#[test]
fn names_and_ports_are_those_of_uops_info() {
    for (cpu, hex, name, expected) in cases::CASES {
        let form = form(cpu, hex);
        assert_eq!(&*form.name, *name, "{cpu}: {hex}");
        assert_eq!(form.perf.ports_text(), *expected, "{cpu}: {hex} {name}");
        assert_eq!(form.approximated_from, None, "{cpu}: {hex} {name}");
    }
}

#[test]
fn every_code_can_be_looked_up() {
    for cpu in embedded_cpus() {
        let table = FormTable::for_cpu(cpu).expect("table");
        for code in Code::values() {
            let mut instruction = Instruction::new();
            instruction.set_code(code);
            let _ = table.find(&instruction);
        }
    }
}

#[test]
fn an_unknown_cpu_is_an_error_that_names_the_known_ones() {
    let error = FormTable::for_cpu("z80").expect_err("no such table");
    let text = error.to_string();
    assert!(text.contains("z80") && text.contains("skl"), "{text}");
}

#[test]
fn a_damaged_file_is_an_error() {
    let good = include_bytes!("../../../data/skl.table");
    assert!(FormTable::decode(&good[..good.len() / 2]).is_err());
    assert!(FormTable::decode(b"nonsense").is_err());
    let mut file = wire::decode(good).expect("file");
    file.codes ^= 1;
    let error = FormTable::from_file(&file).expect_err("other iced");
    assert!(error.contains("iced"), "{error}");
}

/// What the pipeline relies on, for every form of every CPU.
#[test]
fn all_forms_are_consistent() {
    for cpu in embedded_cpus() {
        let all = match cpu {
            "snb" | "ivb" => 0b0011_1111,
            "hsw" | "bdw" | "skl" | "skx" | "clx" => 0b1111_1111,
            "glc" | "rwc" => 0b1111_1111_1111,
            _ if cpu.starts_with("zen") => 0x3_ffff,
            _ => 0b11_1111_1111,
        };
        for form in FormTable::for_cpu(cpu).expect("table").forms() {
            let what = format!("{cpu}: {}", form.name);
            let names: HashSet<_> = form.operands.iter().map(|o| o.name).collect();
            assert_eq!(names.len(), form.operands.len(), "{what}: names twice");
            let flags = form.operands.iter().find(|o| o.binding == Binding::Flags);
            let (reads, writes) = (form.flags_read, form.flags_written);
            assert_eq!(
                flags.is_some_and(|f| f.read),
                reads.c || reads.spazo,
                "{what}"
            );
            assert_eq!(
                flags.is_some_and(|f| f.written),
                writes.c || writes.spazo,
                "{what}"
            );
            let variants = [
                Some(&form.perf),
                form.indexed.as_ref(),
                form.same_reg.as_ref(),
            ];
            for perf in variants.into_iter().flatten() {
                assert!(perf.retire_slots >= 1, "{what}: slots");
                let total: u16 = perf.ports.iter().map(|p| p.1).sum();
                // `fxch` has µops that need no port, as eliminated moves have none at all.
                assert!(total == perf.uops || perf.ports.is_empty(), "{what}: µops");
                for (ports, _) in &perf.ports {
                    assert!(ports.0 != 0 && ports.0 & !all == 0, "{what}: {ports:?}");
                }
                if perf.uops_ms > 0 || perf.uops_mite > 1 {
                    assert!(perf.complex_decoder, "{what}: decoder");
                }
            }
        }
    }
}

#[test]
fn latencies_are_those_of_uops_info() {
    let add = form("skl", "4801d8");
    assert_eq!(latency(&add.perf, REG0, REG0), Some(1));
    assert_eq!(latency(&add.perf, REG1, REG0), Some(1));
    assert_eq!(latency(&form("skl", "480fafc3").perf, REG1, REG0), Some(3)); // imul
    assert_eq!(latency(&form("skl", "660f58c1").perf, REG1, REG0), Some(4)); // addpd
    assert_eq!(latency(&form("hsw", "660f58c1").perf, REG1, REG0), Some(3));
    assert_eq!(latency(&form("glc", "660f58c1").perf, REG1, REG0), Some(2));
    assert_eq!(
        latency(&form("hsw", "c4e2f5b8c2").perf, REG0, REG0),
        Some(5)
    ); // vfmadd231pd
    assert_eq!(
        latency(&form("skl", "c4e2f5b8c2").perf, REG0, REG0),
        Some(4)
    );
    // A load counts from the base register.
    let load = &form("skl", "488b06").perf.latencies;
    let base = load
        .iter()
        .find(|l| l.kind == LatencyKind::Addr && l.from == MEM0);
    assert_eq!(base.map(|l| l.cycles), Some(5));
}

#[test]
fn zero_idioms_and_eliminated_moves_need_no_port() {
    for cpu in embedded_cpus() {
        let xor = form(cpu, "31c0")
            .same_reg
            .as_ref()
            .expect("xor of one register");
        // Zen's take an ALU (docs/ZEN1.md).
        let taken = usize::from(cpu == "zen1");
        assert_eq!(
            (usize::from(xor.uops), xor.ports.len()),
            (taken, taken),
            "{cpu}"
        );
        assert_eq!(latency(xor, REG0, REG0), Some(0), "{cpu}");
    }
    for cpu in ["ivb", "hsw", "skl", "clx", "glc"] {
        let mov = form(cpu, "4889d8");
        assert_eq!(mov.perf.uops, 0, "{cpu}");
        let kept = mov
            .same_reg
            .as_ref()
            .expect("mov of one register to itself");
        assert_eq!(kept.uops, 1, "{cpu}");
        assert!(
            !kept.ports.is_empty(),
            "{cpu}: a move that is not eliminated has ports"
        );
    }
    // Ice Lake does not eliminate moves of general-purpose registers.
    assert_eq!(form("icl", "4889d8").perf.uops, 1);
}

#[test]
fn indexed_addresses_unlaminate() {
    let add = form("skl", "c5f5fe06"); // vpaddd ymm0, ymm1, [rsi]
    assert_eq!(add.perf.retire_slots, 1);
    assert_eq!(add.indexed.as_ref().map(|p| p.retire_slots), Some(2));
    assert_eq!(add.indexed.as_ref().map(|p| p.uops_mite), Some(1));
    // The incomplete ports of an indexed variant are completed from the base.
    let test = form("glc", "f70601000000"); // test dword ptr [rsi], 1
    for perf in [Some(&test.perf), test.indexed.as_ref()]
        .into_iter()
        .flatten()
    {
        assert_eq!(perf.ports.iter().map(|p| p.1).sum::<u16>(), 2);
    }
}

#[test]
fn operands_are_bound_in_the_order_of_xed() {
    let bindings = |cpu: &str, hex: &str| -> Vec<(OperandName, Binding, bool, bool)> {
        form(cpu, hex)
            .operands
            .iter()
            .map(|o| (o.name, o.binding, o.read, o.written))
            .collect()
    };
    use Binding::{Explicit, Flags, Implicit, ImplicitMemory, OpMask, StackEngine};
    let reg = OperandName::Reg;
    for cpu in ["snb", "skl", "glc"] {
        // mul rcx: the factor, rax, rdx, flags.
        let expected = [
            (REG0, Explicit(0), true, false),
            (REG1, Implicit(Register::RAX), true, true),
            (REG2, Implicit(Register::RDX), false, true),
            (reg(3), Flags, false, true),
        ];
        assert_eq!(bindings(cpu, "48f7e1"), expected, "{cpu}");
        // push rax: the register, the stack engine, the stack.
        let expected = [
            (REG0, Explicit(0), true, false),
            (REG1, StackEngine, true, true),
            (MEM0, ImplicitMemory(0), false, true),
        ];
        assert_eq!(bindings(cpu, "50"), expected, "{cpu}");
        // mov eax, ebx does not read eax, mov ax, bx does.
        assert!(!form(cpu, "89d8").operands[0].read, "{cpu}");
        assert!(form(cpu, "6689d8").operands[0].read, "{cpu}");
        // lea: an address, no access.
        assert_eq!(bindings(cpu, "488d040b")[1].0, OperandName::Agen, "{cpu}");
    }
    // vaddpd zmm0{k1}, zmm1, zmm2: merging reads the destination, the opmask is REG1.
    let expected = [
        (REG0, Explicit(0), true, true),
        (REG1, OpMask, true, false),
        (REG2, Explicit(1), true, false),
        (reg(3), Explicit(2), true, false),
    ];
    assert_eq!(bindings("icl", "62f1f54958c2"), expected);
    // Zeroing does not; without a mask the name stays, unread.
    assert!(!form("icl", "62f1f5c958c2").operands[0].read);
    assert!(!form("icl", "62f1f54858c2").operands[1].read);
    // rep movsb moves rsi, rdi and rcx.
    let moved: HashSet<_> = form("skl", "f3a4")
        .operands
        .iter()
        .filter_map(|o| match o.binding {
            Implicit(register) if o.written => Some(register),
            _ => None,
        })
        .collect();
    assert_eq!(
        moved,
        HashSet::from([Register::RSI, Register::RDI, Register::RCX])
    );
}

#[test]
fn implicit_memory_has_its_base() {
    let base = |hex: &str, n| implicit_memory_base(&decode(hex), n).0;
    assert_eq!(base("a4", 0), Register::RDI); // movsb
    assert_eq!(base("a4", 1), Register::RSI);
    assert_eq!(base("a6", 0), Register::RSI); // cmpsb
    assert_eq!(base("50", 0), Register::RSP); // push
    assert_eq!(base("c9", 0), Register::RBP); // leave
    assert_eq!(base("660ff7c1", 0), Register::RDI); // maskmovdqu
}

#[test]
fn flags_and_fusion() {
    let bit = |condition: u16| 1 << condition;
    for cpu in embedded_cpus() {
        let (test, add) = (form(cpu, "4885c0"), form(cpu, "4801d8"));
        assert_eq!(
            test.macro_fusible, 0xffff,
            "{cpu}: test fuses with every jump"
        );
        // add, cmp and sub do not fuse with js, jns, jo, jno, jp, jnp.
        let expected = match cpu {
            "zen1" | "zen2" => 0,
            "zen3" | "zen4" | "zen5" => 0xffff,
            _ => !(bit(0) | bit(1) | bit(8) | bit(9) | bit(10) | bit(11)),
        };
        assert_eq!(add.macro_fusible, expected, "{cpu}");
        assert_eq!(form(cpu, "480fafc3").macro_fusible, 0, "{cpu}: imul");
    }
    let groups = |c, spazo| FlagGroups { c, spazo };
    let inc = form("skl", "48ffc0");
    assert_eq!(inc.flags_written, groups(false, true));
    let cmovbe = form("skl", "480f46c3");
    assert_eq!(cmovbe.flags_read, groups(true, true));
    assert_eq!(form("skl", "480f42c3").flags_read, groups(true, false)); // cmovb
    assert!(form("skl", "f00106").locked && form("skl", "871e").locked);
    assert!(!form("skl", "0106").locked);
}

#[test]
fn every_form_names_whose_figures_it_has() {
    // vaddps ymm0, ymm1, ymm2
    let source = |cpu: &str| &*form(cpu, "c5f458c2").source;
    assert_eq!(source("skl"), "row of SKL");
    assert!(
        source("zen3").starts_with("row of ZEN3; "),
        "{}",
        source("zen3")
    );
    let measured = source("zen5");
    assert!(measured.contains("; measured: throughput, "), "{measured}");
    // vaddps zmm0, zmm1, zmm2: no row of a Zen 4 or 5 was published
    let wide = &*form("zen4", "62f1744858c2").source;
    assert!(wide.contains("macro-ops and pipes"), "{wide}");
    for cpu in ["zen1", "zen2", "zen3", "zen4", "zen5"] {
        let table = FormTable::for_cpu(cpu).expect("table");
        let nobody = table.forms().iter().find(|f| f.source.is_empty());
        assert!(nobody.is_none(), "{cpu}: {nobody:?}");
    }
}

/// Measured in a virtual machine it has the hypervisor's time, which no program on the CPU itself waits for.
#[test]
fn cpuid_takes_what_it_takes_without_a_hypervisor() {
    for cpu in embedded_cpus() {
        let perf = &form(cpu, "0fa2").perf;
        let cycles = perf.tp.map_or(0, |hundredths| hundredths / 100);
        let slowest = perf.latencies.iter().map(|l| u32::from(l.cycles)).max();
        let slowest = slowest.unwrap_or(0).max(cycles);
        assert!((20..1000).contains(&slowest), "{cpu}: {slowest}");
    }
}

#[test]
fn missing_forms_are_borrowed_and_say_so() {
    let fma = form("snb", "c4e2f5b8c2");
    assert_eq!(fma.approximated_from.as_deref(), Some("hsw"));
    // AVX-512 on a CPU that has none is unknown rather than invented.
    let avx512 = decode("62f1f54858c2");
    assert!(
        FormTable::for_cpu("skl")
            .expect("table")
            .find(&avx512)
            .is_none()
    );
    assert!(
        FormTable::for_cpu("glc")
            .expect("table")
            .find(&avx512)
            .is_some()
    );
    assert_eq!(
        form("skl", "d8c1").approximated_from.as_deref(),
        Some("estimate")
    );
}
