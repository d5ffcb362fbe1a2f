//! Who starts on Zen 4's address units (docs/ZEN4.md, "Address units").

use super::*;

/// Cycles of a loop of `block`, in the mean over eight that begin with zero to seven `lea rsi, [rdi + 1]`: what meets what in a loop
/// depends on how long it is.
fn in_the_mean(block: &str) -> f64 {
    let zen4 = cpu("zen4").unwrap();
    let cycles = (0..8).map(|n| {
        let body = "488d7701".repeat(n) + block;
        // dec r15; jnz to the start
        let back = -(body.len() as i32 / 2 + 9);
        let text = format!("{body}49ffcf0f85{}", hex::encode(back.to_le_bytes()));
        let filled = Options {
            init: Init::Filled,
            ..options(Mode::Loop)
        };
        let block = Block::new(&zen4, &bytes(&text)).unwrap();
        block.predict(filled).cycles
    });
    cycles.sum::<f64>() / 8.0
}

/// By how many cycles a loop takes longer whose eight loads beside a chain have rsp for a base instead of r12.
#[track_caller]
fn longer(measured: f64, chain: &str, [by_rsp, by_r12]: [&str; 2]) {
    let more = in_the_mean(&format!("{chain}{by_rsp}")) - in_the_mean(&format!("{chain}{by_r12}"));
    near(more, measured, 0.3, chain);
}

/// Eight loads `mov r, [rsp + 256 + 8n]`, by r12 in the second, a `lea rsi, [rdi + n]` or two behind each.
const LOADS: [&str; 2] = [
    "488b8c2400010000488d7701488b942408010000488d7701488d77024c8b842410010000488d77014c8b8c2418010000488d7701488d77024c8b942420010000488d77014c8b9c2428010000488d7701488d7702488b8c2430010000488d7701488b942438010000488d7701488d7702",
    "498b8c2400010000488d7701498b942408010000488d7701488d77024d8b842410010000488d77014d8b8c2418010000488d7701488d77024d8b942420010000488d77014d8b9c2428010000488d7701488d7702498b8c2430010000488d7701498b942438010000488d7701488d7702",
];

/// Natively 8.84 and 8.31 cycles, 9.40 and 8.99.
#[test]
fn loads_by_the_stack_pointer_delay_older_chains() {
    // mov r14, [rbx+80]; cmp byte [rbx+72], 5; mov rax, [rbx+64]; mov rbx, [rax]
    longer(0.53, "4c8b7350807b4805488b4340488b18", LOADS);
    // mov rbx, [rbx+64]; and rbx, rbx; mov r14, [rbx+80]; mov rbx, [rbx+72]
    longer(0.41, "488b5b404821db4c8b7350488b5b48", LOADS);
}

/// No cycle of a unit is lost for it.
#[test]
fn three_loads_a_cycle_are_had_all_the_same() {
    in_loops(
        "zen4",
        |_| 0.02,
        &[(
            "488b44240880784800488b44240880784800488b4424088078480049ffcf75e0",
            1.99,
            "three times mov rax, [rsp+8]; cmp byte [rax+72], 0",
        )],
    );
}
