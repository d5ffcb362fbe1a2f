//! Blocks that would harm the machine, the harness or later results: each has its reason, and an
//! ordinary block is measured afterwards as before. No timing is asserted.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use mcad_profile::block::{Measured, Notion, Profiler, Settings};
use mcad_profile::cell::Sandbox;
use mcad_profile::init::Init;
use mcad_profile::reject::Reject;

fn profiler(init: Init) -> Profiler {
    let settings = Settings {
        init,
        sandbox: Sandbox::Required,
        unfiltered: false,
    };
    Profiler::new(settings).unwrap()
}

/// Measures; on a machine so busy that nothing is steady, that is an answer too.
fn measured(profiler: &mut Profiler, bytes: &[u8], notion: Notion) -> Option<Measured> {
    match profiler.measure(bytes, notion).unwrap() {
        Ok(measured) => Some(measured),
        Err(Reject::Unsteady { .. } | Reject::Clock) => None,
        Err(reject) => panic!("{bytes:02x?} {notion:?}: {reject}"),
    }
}

/// An addition, a load, a store, a vector addition that is only fast with a clean state, and one
/// on the register stack: the harness does what it should.
fn all_is_well(profiler: &mut Profiler) {
    let ordinary: [&[u8]; 5] = [
        &[0x48, 0x01, 0xd8],
        &[0x48, 0x8b, 0x03],
        &[0x48, 0x89, 0x03],
        &[0xf2, 0x0f, 0x58, 0xc1],
        &[0xd9, 0xc0, 0xdd, 0xd8],
    ];
    for bytes in ordinary {
        for notion in [Notion::Unrolled, Notion::Loop] {
            if let Some(m) = measured(profiler, bytes, notion) {
                assert!(m.cycles > 0.0 && m.cycles.is_finite(), "{bytes:02x?} {m:?}");
            }
        }
    }
}

fn class(profiler: &mut Profiler, bytes: &[u8]) -> &'static str {
    let reject = profiler.measure(bytes, Notion::Unrolled).unwrap();
    reject.unwrap_err().class()
}

/// `mov rax, value` and then `code`.
fn with_rax(value: u64, code: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x48, 0xb8];
    bytes.extend(value.to_le_bytes());
    bytes.extend(code);
    bytes
}

/// Addresses of the harness, as `cell/layout.rs` has them.
const HARNESS: u64 = 0x3f3f_0000_0000;
const CODE: u64 = HARNESS + 0x0100_0000;
const CONTROL: u64 = HARNESS + 0x0200_0000;
const PHYSICAL: u64 = HARNESS + 0x0400_0000;

#[test]
fn hostile_blocks_have_reasons_and_do_no_harm() {
    let mut profiler = profiler(Init::Distinct);
    all_is_well(&mut profiler);
    let store = &[0x48, 0x89, 0x18]; // mov [rax], rbx
    let hostile: [(&str, &[u8], &str); 18] = [
        ("int 0x80", &[0xcd, 0x80], "refused"),
        ("syscall", &[0x0f, 0x05], "refused"),
        ("sysenter", &[0x0f, 0x34], "refused"),
        ("hlt", &[0xf4], "refused"),
        ("rdtsc", &[0x0f, 0x31], "refused"),
        ("jmp to itself", &[0xeb, 0xfe], "refused"),
        ("breakpoint", &[0xcc], "refused"),
        ("popf with the trap flag", &[0x9d], "refused"),
        // mov ecx, -1; rep movsb, again and again
        (
            "endless string",
            &[0xb9, 0xff, 0xff, 0xff, 0xff, 0xf3, 0xa4],
            "pages",
        ),
        (
            "writes over the control area",
            &with_rax(CONTROL, store),
            "harness",
        ),
        (
            "writes over the pages",
            &with_rax(PHYSICAL, store),
            "harness",
        ),
        ("writes over code", &with_rax(CODE, store), "harness"),
        (
            "reads code",
            &with_rax(CODE, &[0x48, 0x8b, 0x18]),
            "harness",
        ),
        // lea rax, [rip]; mov [rax], rbx
        (
            "changes itself",
            &[0x48, 0x8d, 0x05, 0, 0, 0, 0, 0x48, 0x89, 0x18],
            "harness",
        ),
        ("null pointer", &with_rax(0, store), "unmappable"),
        (
            "kernel's half",
            &with_rax(0xffff_8000_0000_0000, store),
            "unmappable",
        ),
        (
            "not canonical",
            &with_rax(0x8000_0000_0000_0000, store),
            "unmappable",
        ),
        // xor ecx, ecx; div ecx
        ("division by zero", &[0x31, 0xc9, 0xf7, 0xf1], "crash"),
    ];
    for (what, bytes, expected) in hostile {
        assert_eq!(class(&mut profiler, bytes), expected, "{what}");
    }
    all_is_well(&mut profiler);
}

#[test]
fn what_a_block_leaves_dirty_is_clean_for_the_next() {
    let mut profiler = profiler(Init::Distinct);
    let dirty: [(&str, &[u8]); 7] = [
        // xor esp, esp; mov ebp, 1
        ("stack pointer destroyed", &[0x31, 0xe4, 0xbd, 1, 0, 0, 0]),
        // fld1
        ("register stack full", &[0xd9, 0xe8]),
        ("mmx state", &[0x0f, 0x6f, 0xc8]),
        // mov dword [rsp-8], 0x7f80; ldmxcsr [rsp-8]
        (
            "rounding towards zero",
            &[
                0xc7, 0x44, 0x24, 0xf8, 0x80, 0x7f, 0, 0, 0x0f, 0xae, 0x54, 0x24, 0xf8,
            ],
        ),
        // mov word [rsp-8], 0x0c7f; fldcw [rsp-8]
        (
            "register stack's precision",
            &[
                0x66, 0xc7, 0x44, 0x24, 0xf8, 0x7f, 0x0c, 0xd9, 0x6c, 0x24, 0xf8,
            ],
        ),
        ("direction flag", &[0xfd]),
        // mov eax, 0x12345678; mov [rbx], rax
        ("memory", &[0xb8, 0x78, 0x56, 0x34, 0x12, 0x48, 0x89, 0x03]),
    ];
    for (_, bytes) in dirty {
        measured(&mut profiler, bytes, Notion::Unrolled);
        all_is_well(&mut profiler);
    }
}

#[test]
fn exceptions_that_code_unmasks_end_it_alone() {
    let mut profiler = profiler(Init::Distinct);
    // mov dword [rsp-8], 0; ldmxcsr [rsp-8]; xorps xmm0, xmm0; divss xmm0, xmm0
    let bytes = [
        0xc7, 0x44, 0x24, 0xf8, 0, 0, 0, 0, 0x0f, 0xae, 0x54, 0x24, 0xf8, 0x0f, 0x57, 0xc0, 0xf3,
        0x0f, 0x5e, 0xc0,
    ];
    let reject = profiler.measure(&bytes, Notion::Unrolled).unwrap();
    let reject = reject.unwrap_err();
    assert_eq!(reject.class(), "crash");
    assert!(
        reject.to_string().contains("SIGFPE) at byte 16"),
        "{reject}"
    );
    all_is_well(&mut profiler);
}

#[test]
fn what_the_cpu_lacks_is_said() {
    let mut profiler = profiler(Init::Distinct);
    // vaddps zmm0, zmm0, zmm1
    let wide = [0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc1];
    if is_x86_feature_detected!("avx512f") {
        measured(&mut profiler, &wide, Notion::Unrolled);
    } else {
        assert_eq!(class(&mut profiler, &wide), "unsupported");
    }
    // femms and montmul: no CPU has both 3DNow! and VIA's instructions.
    let absent: [&[u8]; 2] = [&[0x0f, 0x0f, 0xc1, 0x9e], &[0xf3, 0x0f, 0xa6, 0xc0]];
    assert!(absent.iter().any(|bytes| {
        let result = profiler.measure(bytes, Notion::Unrolled).unwrap();
        result.is_err_and(|reject| reject.class() == "unsupported")
    }));
    all_is_well(&mut profiler);
}

#[test]
fn filters_name_the_addresses() {
    let mut distinct = profiler(Init::Distinct);
    // mov rax, [rbx+0x3c]
    let split = distinct.measure(&[0x48, 0x8b, 0x43, 0x3c], Notion::Unrolled);
    let split = split.unwrap().unwrap_err();
    assert_eq!(split.class(), "split line");
    // mov [rbx], rax; mov rcx, [rsi-0x300]: rsi begins 0x300 further on in its page.
    let bytes = [0x48, 0x89, 0x03, 0x48, 0x8b, 0x8e, 0x00, 0xfd, 0xff, 0xff];
    let alias = distinct.measure(&bytes, Notion::Unrolled).unwrap();
    assert_eq!(alias.unwrap_err().class(), "alias");
    let mut equal = profiler(Init::Equal);
    // mov [rbx], rax; mov rcx, [rsi-0x1000]
    let page_before = [0x48, 0x89, 0x03, 0x48, 0x8b, 0x8e, 0x00, 0xf0, 0xff, 0xff];
    assert_eq!(class(&mut equal, &page_before), "alias");
    // Where all registers are equal, so are the addresses.
    measured(
        &mut equal,
        &[0x48, 0x89, 0x03, 0x48, 0x8b, 0x0e],
        Notion::Unrolled,
    );
    // mov rax, fs:[0x28]: as compilers read the canary
    let canary = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0];
    measured(&mut distinct, &canary, Notion::Unrolled);
    // A page further with each copy, forever.
    let strides = [0x48, 0x81, 0xc3, 0, 0x10, 0, 0, 0x8b, 0x03];
    assert_eq!(class(&mut distinct, &strides), "pages");
}

#[test]
fn what_takes_too_long_is_ended() {
    let mut profiler = profiler(Init::Distinct);
    // fsin, two thousand times in a loop: seconds
    let slow = [0xd9, 0xfe].repeat(2048);
    let result = profiler.measure(&slow, Notion::Loop).unwrap();
    assert_eq!(result, Err(Reject::Endless));
    all_is_well(&mut profiler);
}

#[test]
fn a_loop_needs_a_register_to_count_with() {
    let mut profiler = profiler(Init::Distinct);
    // mov rN, rN for all sixteen
    let all: Vec<u8> = (0..16_u8)
        .flat_map(|n| [0x48 | ((n >> 3) * 5), 0x89, 0xc0 | ((n & 7) * 9)])
        .collect();
    let result = profiler.measure(&all, Notion::Loop).unwrap();
    assert_eq!(result, Err(Reject::NoCounter));
    measured(&mut profiler, &all, Notion::Unrolled);
}
