//! Blocks that were measured on Golden Cove and Zen 5 (docs/GOLDEN-COVE.md, docs/ZEN5.md), each the
//! experiment that showed a mechanism.

use super::*;

/// As measured (docs/ZEN5.md): seven µops of one cycle, of which none to five need the result of the
/// first, in a loop on six ALUs.
#[test]
fn a_uop_that_is_woken_too_soon_takes_an_alu_in_vain_on_zen_5() {
    // lea rcx, [rax+8]; lea rdx, [rcx+8] …; lea rsi, [rax+8] …; dec r15; jnz
    let block = |consumers: usize| {
        let others = "488d7008".repeat(5 - consumers);
        format!("488d4808{}{others}49ffcf75e3", "488d5108".repeat(consumers))
    };
    let exact = changed(
        "zen5",
        "[execute]\nvain_starts = false\n[ports]\ndisorder = 1\n",
    );
    for (consumers, measured) in [1.19, 1.38, 1.56, 1.74, 1.88, 2.0].into_iter().enumerate() {
        let what = format!("{consumers} consumers");
        let hex = block(consumers);
        let zen5 = cpu("zen5").unwrap();
        near(cycles(&zen5, Mode::Loop, &hex), measured, 0.08, &what);
        near(cycles(&exact, Mode::Loop, &hex), 7.0 / 6.0, 0.01, &what);
    }
    // Behind a load, whose result is known to come: mov rcx, [rbp]; test rcx, rcx, six times
    let loaded = "488b4d00".to_owned() + &"4885c9".repeat(6) + "49ffcf75e5";
    near(
        cycles(&cpu("zen5").unwrap(), Mode::Loop, &loaded),
        1.19,
        0.03,
        "load",
    );
}

/// As measured (docs/GOLDEN-COVE.md): two cycles to a conditional move or set that issues with the
/// logical operation or the fused jump that its flags come from, else one.
#[test]
fn late_flags_lengthen_chains_in_loops_on_golden_cove() {
    let model = cpu("glc").unwrap();
    for (hex, want) in [
        // test r11, r11; cmovne rcx, r11, three times, and the branch: 5 of 6 pairs issue together
        ("4d85db490f45cb4d85db490f45cb4d85db490f45cb49ffcf75e6", 5.5),
        // setg bl; movzx ebx, bl, three times: 1, 3 and 5 uops behind the branch
        ("0f9fc30fb6db0f9fc30fb6db0f9fc30fb6db49ffcf75e9", 7.5),
        // mov eax, 0; cmove r12, rax, three times: 2, 4 and 6 uops behind
        (
            "b8000000004c0f44e0b8000000004c0f44e0b8000000004c0f44e049ffcf75e0",
            4.0,
        ),
    ] {
        near(cycles(&model, Mode::Loop, hex), want, 0.01, hex);
    }
}

/// As measured: loads whose address another one gives fill the load scheduler, so that three
/// load ports do not do three a cycle; independent ones do.
#[test]
fn chains_of_loads_fill_the_load_scheduler_on_golden_cove() {
    let model = cpu("glc").unwrap();
    // mov rdx, [rbx+0x10]; cmp qword [rdx], 8, three times, and the branch
    let pairs = "488b531048833a08488b531048833a08488b531048833a0849ffcf75e3";
    // mov rsi, [rbp-0x10]; mov rdi, [rbp-0x20], three times, and the branch
    let independent = "488b75f0488b7de0488b75f0488b7de0488b75f0488b7de049ffcf75e3";
    let pairs = cycles(&model, Mode::Loop, pairs);
    assert!((2.05..2.3).contains(&pairs), "{pairs}");
    near(
        cycles(&model, Mode::Loop, independent),
        2.0,
        0.01,
        independent,
    );
}

/// As measured: two of the six slots are lost for each 1024 that a register is moved by small
/// steps; two registers that reach it together cost no more than one.
#[test]
fn sums_of_immediates_that_overflow_take_slots_on_golden_cove() {
    let model = cpu("glc").unwrap();
    for (hex, step) in [
        // add rbx, 8; cmp rbx, r12, three times, and the branch: 1.167 as measured
        ("4883c3084c39e34883c3084c39e34883c3084c39e349ffcf75e6", 24.0),
        // add r14, 0x18; add rbx, 0x18; cmp rbp, r14, twice: 1.174 as measured
        (
            "4983c6184883c3184c39f54983c6184883c3184c39f549ffcf75e5",
            48.0,
        ),
    ] {
        let want = (7.0 + 2.0 * step / 1024.0) / 6.0;
        near(cycles(&model, Mode::Loop, hex), want, 0.005, hex);
    }
    // mov rsi, rbx; cmp rbp, r14, three times, and the branch: no sums
    let none = "4889de4c39f54889de4c39f54889de4c39f549ffcf75e9";
    near(cycles(&model, Mode::Loop, none), 7.0 / 6.0, 1e-3, none);
}

/// As measured (3.080 cycles): the last µop of a cycle and the first one of the next can get the
/// same port, so that a comparison delays the chain whose value it reads.
#[test]
fn slots_choose_ports_on_golden_cove() {
    let model = cpu("glc").unwrap();
    // sub edi, 1; cmp edi, -1, three times, and the branch
    let hex = "83ef0183ffff83ef0183ffff83ef0183ffff49ffcf75e9";
    let got = cycles(&model, Mode::Loop, hex);
    assert!((3.03..3.13).contains(&got), "{got}");
}

/// docs/ZEN5.md, front end: two lines of six a cycle, the next two of the same block of code behind a
/// taken branch two cycles later, and two entries for who has two constants.
#[test]
fn lines_of_six_are_delivered_two_at_a_time_on_zen_5() {
    let model = cpu("zen5").unwrap();
    let in_loop = |instruction: &str, count: usize| {
        let back = -((bytes(instruction).len() * count + 5) as i64) as u8;
        let body = instruction.repeat(count);
        cycles(&model, Mode::Loop, &format!("{body} 49ffcf 75{back:02x}"))
    };
    for (count, expected) in [(11, 1.5), (12, 3.0), (23, 3.0), (24, 5.0), (35, 5.0)] {
        assert_eq!(in_loop("90", count), expected, "{count} nop");
    }
    // cmp dword [rbx+8], 5; cmp dword [rbx], 5
    for (compare, count, expected) in [
        ("837b0805", 5, 1.5),
        ("837b0805", 6, 3.0),
        ("833b05", 6, 1.5),
    ] {
        assert_eq!(in_loop(compare, count), expected, "{count} {compare}");
    }
}

/// As measured: forms that start every so many parts of a cycle, also those with an input that comes
/// late, and independent of their latency.
#[test]
fn forms_start_at_intervals_of_parts_of_a_cycle_on_zen_5() {
    let model = cpu("zen5").unwrap();
    for (hex, want) in [
        ("c5fee6c7", 0.8),     // vcvtdq2pd ymm0, xmm7
        ("62f245282cc7", 1.0), // vscalefps ymm0, ymm7, ymm7
        ("f30f51c7", 4.5),     // sqrtss xmm0, xmm7
    ] {
        let targets: Vec<String> = (0..6)
            .map(|n| {
                let mut code = bytes(hex);
                let modrm = code.last_mut().unwrap();
                *modrm = 0xc7 | n << 3;
                code.iter().map(|b| format!("{b:02x}")).collect()
            })
            .collect();
        let got = cycles(&model, Mode::Unrolled, &targets.concat()) / 6.0;
        near(got, want, 0.05, hex);
    }
}

/// As measured (docs/ZEN5.md): lines go on in the next 64 bytes of code, of which each takes a look-up.
#[test]
fn lines_go_on_in_the_next_block_of_code_on_zen_5() {
    let model = cpu("zen5").unwrap();
    let nop = |bytes: usize| "66".repeat(bytes - 1) + "90";
    // Equal nops that fill 64 bytes.
    let straight = |count: usize| {
        let longer = 64 % count;
        nop(64 / count + 1).repeat(longer) + &nop(64 / count).repeat(count - longer)
    };
    for (count, sixths) in [(8, 6), (15, 12), (16, 14), (17, 16), (18, 18)] {
        let got = cycles(&model, Mode::Unrolled, &straight(count));
        near(
            got,
            f64::from(sixths) / 6.0,
            0.02,
            &format!("{count} in 64 bytes"),
        );
    }
    // nop dword [rax], with a prefix, or nop dword [rax+rax+0]; dec r15; jnz with 32 bits
    for (nop, count, want) in [
        ("660f1f00", 13, 3.0),
        ("660f1f00", 14, 4.0),
        ("660f1f00", 29, 4.0),
        ("660f1f00", 30, 7.0),
        ("0f1f840000000000", 11, 2.0),
        ("0f1f840000000000", 13, 14.0 / 8.0),
        ("0f1f840000000000", 16, 3.0),
        ("0f1f840000000000", 20, 21.0 / 8.0),
    ] {
        let body = nop.repeat(count);
        let back = -((body.len() / 2 + 9) as i32);
        let back: String = back
            .to_le_bytes()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let got = cycles(&model, Mode::Loop, &format!("{body}49ffcf0f85{back}"));
        near(got, want, 0.02, &format!("{count} of {nop}"));
    }
}

/// As measured (docs/ZEN5.md): no access to memory issues in the last of a cycle's eight slots. Each
/// time a load comes there, all behind it are a slot later.
#[test]
fn accesses_do_not_issue_in_the_last_slot_on_zen_5() {
    let model = cpu("zen5").unwrap();
    for (loads, want) in [
        (&[][..], 9.0 / 8.0),
        (&[3], 8.0 / 7.0),
        (&[3, 4], 8.0 / 7.0),
        (&[1, 4], 7.0 / 6.0),
        (&[0, 2, 4, 6], 5.0 / 4.0),
    ] {
        let mut body = ["90"; 8];
        for load in loads {
            body[*load] = "488b03"; // mov rax, [rbx]
        }
        let body = body.concat();
        let back = 256 - body.len() / 2 - 5;
        let got = cycles(&model, Mode::Loop, &format!("{body}49ffcf75{back:02x}"));
        near(got, want, 0.01, &format!("loads at {loads:?}"));
    }
}

/// As measured (docs/ZEN5.md): loads are bound to no address unit when they issue, so chains of two do
/// four loads a cycle, and none starts in vain behind an ALU that was late.
#[test]
fn address_units_start_the_oldest_load_first_on_zen_5() {
    let model = cpu("zen5").unwrap();
    let chain = "488b03488b00"; // mov rax, [rbx]; mov rax, [rax]
    let twice = format!("{chain}4885c0").repeat(2); // test rax, rax
    // lea rcx, [rax+8]; mov rdx, [rcx] twice; lea rsi, [rax+8] five times
    let behind = "488d4808488b11488b11".to_owned() + &"488d7008".repeat(5);
    for (body, want) in [(chain.repeat(3), 1.5), (twice, 1.0), (behind, 1.19)] {
        let back = 256 - body.len() / 2 - 5;
        let got = cycles(&model, Mode::Loop, &format!("{body}49ffcf75{back:02x}"));
        near(got, want, 0.05, &body);
    }
}

/// As measured (docs/ZEN5.md): an address of three parts is two macro-ops, one after the other, but one
/// instruction of a line.
#[test]
fn addresses_of_three_parts_are_two_macro_ops_on_zen_5() {
    let model = cpu("zen5").unwrap();
    // lea rsi, [rbx+rbp+8], nop
    for (addresses, nops, want) in [(2, 5, 10.0 / 8.0), (4, 7, 2.0), (4, 8, 3.0)] {
        let body = "488d742b08".repeat(addresses) + &"90".repeat(nops);
        let back = 256 - body.len() / 2 - 5;
        let got = cycles(&model, Mode::Loop, &format!("{body}49ffcf75{back:02x}"));
        // The second macro-ops of four start in vain too often.
        near(got, want, 0.11 * want, &format!("{addresses} and {nops}"));
    }
}

/// As measured (docs/ZEN5.md): constants of a cycle and of a line.
#[test]
fn constants_take_room_in_lines_and_cycles_on_zen_5() {
    let model = cpu("zen5").unwrap();
    // cmp qword [rdi+0x48], 0 three times, and others
    let compares = "48837f4800".repeat(3);
    for (others, count, want) in [
        ("48837f4800", 1, 1.25),
        ("90", 4, 1.0),       // nop
        ("89d1", 4, 1.0),     // mov ecx, edx
        ("c5e858cb", 2, 1.0), // vaddps xmm1, xmm2, xmm3
        ("488d4808", 2, 1.2), // lea rcx, [rax+8]
        ("488d4808", 4, 1.5),
    ] {
        let body = compares.clone() + &others.repeat(count);
        let back = 256 - body.len() / 2 - 5;
        let got = cycles(&model, Mode::Loop, &format!("{body}49ffcf75{back:02x}"));
        near(got, want, 0.03, &format!("{count} of {others}"));
    }
    // test byte [rax+0x10], 0xa; mov dword [rsp+0x24], 2, three times, and the branch: three lines
    let hex = "f640100ac744242402000000".repeat(3) + "49ffcf75d7";
    near(cycles(&model, Mode::Loop, &hex), 3.0, 0.0, &hex);
}

/// As measured (docs/ZEN5.md): a load that a store covers in part waits until that is written, which it
/// is only behind the retirement of the load before it, so that iterations wait for one another; pairs
/// do, too, but for two stores in front of two loads.
#[test]
fn partly_covered_loads_follow_one_another_on_zen_5() {
    let model = cpu("zen5").unwrap();
    let filled = Options {
        init: Init::Filled,
        ..options(Mode::Loop)
    };
    // mov byte [rbx+1], 0 and mov rax, [rbx]; the same 64 bytes on
    let (store, load) = ("c6430100", "488b03");
    let (other_store, other_load) = ("c6434100", "488b4b40");
    // mov byte [rbx], 0: where the load starts
    let at_start = "c60300";
    for (body, want) in [
        (vec![store, load], 14.0),
        (vec![at_start, load], 14.0),
        (vec![store, load, other_store, other_load], 28.0),
        (vec![store, other_store, load, other_load], 14.0),
    ] {
        let body = body.concat();
        let back = 256 - body.len() / 2 - 5;
        let block = Block::new(&model, &bytes(&format!("{body}49ffcf75{back:02x}"))).unwrap();
        near(block.predict(filled).cycles, want, 0.01, &body);
    }
}

/// As measured (docs/ZEN5.md): there and back between registers of both kinds and through memory.
#[test]
fn ways_between_kinds_of_registers_add_up_on_zen_5() {
    let model = cpu("zen5").unwrap();
    for (hex, want) in [
        ("c4e1f97ec0c4e1f96ec0", 7.0),     // vmovq rax, xmm0; vmovq xmm0, rax
        ("c5fb2cc0c5f96ec0", 10.0),        // vcvttsd2si eax, xmm0; vmovd xmm0, eax
        ("c5fb11442440c5fb10442440", 9.0), // vmovsd [rsp+64], xmm0; vmovsd xmm0, [rsp+64]
        ("4889442440c5fa7e442440c4e1f97ec0", 12.0), // mov [m], rax; vmovq xmm0, [m]; vmovq rax, xmm0
        ("c5fb11442440488b442440c4e1f96ec0", 11.0), // vmovsd [m], xmm0; mov rax, [m]; vmovq xmm0, rax
        ("62f17c481144240162f17c4810442401", 11.0), // vmovups [m], zmm0; vmovups zmm0, [m]
        ("0fb644244083e03f83c80188442440", 9.0), // movzx eax, byte [m]; and eax, 63; or eax, 1; mov [m], al
    ] {
        near(cycles(&model, Mode::Unrolled, hex), want, 0.01, hex);
    }
}

/// As measured (docs/ZEN5.md): floating-point sums take two cycles from one another and three from other
/// operations.
#[test]
fn sums_follow_sums_sooner_on_zen_5() {
    let model = cpu("zen5").unwrap();
    let (multiply, add) = ("c5fb59c1", "c5fb58c2"); // vmulsd xmm0, xmm0, xmm1; vaddsd xmm0, xmm0, xmm2
    for (body, want) in [
        (vec![add, add], 4.0),
        (vec![multiply, add], 6.0),
        (vec![multiply, add, add], 8.0),
    ] {
        let body = body.concat();
        near(cycles(&model, Mode::Unrolled, &body), want, 0.01, &body);
    }
}

/// As measured (docs/ZEN5.md): moves of 64-bit immediates take the three ALUs that branch.
#[test]
fn wide_immediates_share_three_units_with_jumps_on_zen_5() {
    let model = cpu("zen5").unwrap();
    // mov rax, 0x1122334455667788
    let wide = "48b88877665544332211";
    for (count, want) in [(2, 1.0), (3, 4.0 / 3.0), (5, 2.0)] {
        let back = 256 - 10 * count - 5;
        let body = format!("{}49ffcf75{back:02x}", wide.repeat(count));
        near(cycles(&model, Mode::Loop, &body), want, 0.08, &body);
    }
}
