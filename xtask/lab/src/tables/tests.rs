//! Rows as published, mapped: which codes and traits they select, what their figures become.

use iced_x86::Code;
use mcad_isa::machine::table::{Binding, OperandName, Traits};

use super::cpus::CPUS;
use super::draft::Draft;
use super::figures::{self, Settled};
use super::fill::translate;
use super::mapping::{Catalogue, Fit, Target};
use super::operands::Lists;
use super::source::Row;
use super::spec;

fn row(json: &str) -> Row {
    serde_json::from_str(json).expect("row")
}

fn targets(json: &str) -> Vec<Target> {
    let row = row(json);
    Catalogue::new().targets(&row, &spec::parse(&row))
}

#[test]
fn the_opcode_in_the_name_picks_the_encoding() {
    let found = targets(
        r#"{"iform":"ADD_GPRv_GPRv_01","string":"ADD_01 (R64, R64)","attrs":{"eosz":"3"}}"#,
    );
    let exact: Vec<_> = found.iter().filter(|t| t.fit == Fit::Exact).collect();
    assert_eq!(exact.len(), 1);
    assert_eq!(exact[0].code, Code::Add_rm64_r64);
    assert_eq!(exact[0].selector.mask & Traits::MEMORY, Traits::MEMORY);
    assert_eq!(exact[0].selector.value & Traits::MEMORY, 0);
    // The other encoding of the same operation is served behind it.
    assert!(
        found
            .iter()
            .any(|t| t.code == Code::Add_r64_rm64 && t.fit == Fit::OtherEncoding)
    );
}

#[test]
fn evex_attributes_become_traits() {
    let found = targets(
        r#"{"iform":"VADDPD_ZMMf64_MASKmskw_ZMMf64_MEMf64_AVX512","string":"VADDPD_Z (ZMM, K, ZMM, M64_1to8)",
            "attrs":{"bcast":"5","mask":"1","zeroing":"1"}}"#,
    );
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].code, Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er);
    let expected = Traits::MEMORY | Traits::MASKED | Traits::ZEROING | Traits::BROADCAST;
    assert_eq!(found[0].selector.value, expected);
    // The size of a broadcast picks the code where the registers do not.
    let found = targets(
        r#"{"iform":"VCVTPD2PS_XMMf32_MASKmskw_MEMf64_AVX512_VL256","string":"VCVTPD2PS_EVEX (XMM, M64_1to4)",
            "attrs":{"bcast":"13","mask":"0","zeroing":"0"}}"#,
    );
    let codes: Vec<_> = found.iter().map(|t| t.code).collect();
    assert_eq!(codes, [Code::EVEX_Vcvtpd2ps_xmm_k1z_ymmm256b64]);
}

#[test]
fn conditions_are_spelled_as_iced_does() {
    let found = targets(r#"{"iform":"JNBE_RELBRb","string":"JNBE (Rel8)"}"#);
    assert_eq!(found[0].code, Code::Ja_rel8_64);
    assert_eq!(spec::condition_bit("JNBE (Rel8)"), Some(1 << 7));
    assert_eq!(spec::condition_bit("JMP (Rel8)"), None);
}

#[test]
fn an_address_that_no_encoding_has_is_reported() {
    let rows = [row(
        r#"{"iform":"LEA_GPRv_AGEN","string":"LEA_R_D8 (R64)","attrs":{"agen":"R_D8","eosz":"3"}}"#,
    )];
    let draft = Draft::new(&CPUS[4], &rows, &Catalogue::new(), &Lists::default());
    assert_eq!(draft.report.unmapped.len(), 1);
    assert!(draft.candidates.is_empty());
}

#[test]
fn a_push_has_its_operands() {
    let rows = [row(
        r#"{"iform":"PUSH_GPRv_50","string":"PUSH (R64)","attrs":{"eosz":"3"},"uops":2,
            "ports":{"237":1,"4":1},"lat":[["REG0","MEM0","reg",2]]}"#,
    )];
    let draft = Draft::new(&CPUS[4], &rows, &Catalogue::new(), &Lists::default());
    assert!(
        draft.report.disagreements.is_empty(),
        "{:?}",
        draft.report.disagreements
    );
    let bindings: Vec<_> = draft.forms[0]
        .operands
        .iter()
        .map(|o| (o.name, o.binding))
        .collect();
    let expected = [
        (OperandName::Reg(0), Binding::Explicit(0)),
        (OperandName::Reg(1), Binding::StackEngine),
        (OperandName::Mem(0), Binding::ImplicitMemory(0)),
    ];
    assert_eq!(bindings, expected);
}

#[test]
fn a_latency_of_an_operand_that_does_not_exist_is_a_disagreement() {
    let rows = [row(
        r#"{"iform":"PUSH_GPRv_50","string":"PUSH (R64)","attrs":{"eosz":"3"},"lat":[["REG7","MEM0","reg",2]]}"#,
    )];
    let draft = Draft::new(&CPUS[4], &rows, &Catalogue::new(), &Lists::default());
    assert_eq!(draft.report.disagreements.len(), 1);
}

#[test]
fn variants_are_completed_from_the_base() {
    let row = row(
        r#"{"iform":"TEST_MEMv_IMMz_F7r0","string":"TEST (M32, I32)","uops":2,"retire_slots":1,
            "ports":{"0156B":1,"23A":1},"indexed":{"uops":2,"retire_slots":2,"ports":{"23A":1}},
            "same_reg":{"uops":0}}"#,
    );
    let mut settled = Settled::default();
    let perf = figures::of_row(&row, &mut settled).expect("figures");
    let indexed = perf.indexed.expect("differs");
    assert_eq!(
        (indexed.retire_slots, indexed.ports),
        (2, perf.base.ports.clone())
    );
    assert_eq!(settled.ports_from_base, 1);
    // No µops, no ports.
    assert!(perf.same_reg.expect("differs").ports.is_empty());
    assert_eq!((perf.base.uops_mite, perf.base.uops_ms), (1, 0));
}

#[test]
fn ports_are_translated_by_what_they_are_for() {
    use super::cpus::Layout::{GoldenCove, Haswell, IceLake, SandyBridge};
    let set = |names| figures::port_set(names).expect("ports");
    for (names, from, to, expected) in [
        ("237", Haswell, IceLake, "78"),
        ("4", Haswell, IceLake, "49"),
        ("78", IceLake, Haswell, "237"),
        ("23", IceLake, GoldenCove, "23A"),
        ("0156", IceLake, GoldenCove, "0156B"),
        ("0156", Haswell, SandyBridge, "015"),
        ("06", Haswell, SandyBridge, "05"),
        ("015", Haswell, GoldenCove, "015"),
        ("23A", GoldenCove, Haswell, "23"),
    ] {
        assert_eq!(
            translate(set(names), from, to),
            set(expected),
            "{names} {from:?} {to:?}"
        );
    }
    assert!(figures::port_set("0G").is_err() && figures::port_set("x").is_err());
}
