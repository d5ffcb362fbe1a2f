//! Random numbers of probes: Marsaglia's xorshift64 ("Xorshift RNGs", 2003), the same ones every
//! time, in the generator and in the generated programs.

/// Where the numbers begin.
const SEED: u64 = 88_172_645_463_325_252;

/// Text that begins in rax.
pub(super) fn begin() -> String {
    format!("    mov rax, {SEED}\n")
}

/// Text that goes from one number to the next in rax and leaves rdx undefined.
pub(super) const NEXT: &str = "    mov rdx, rax
    shl rdx, 13
    xor rax, rdx
    mov rdx, rax
    shr rdx, 7
    xor rax, rdx
    mov rdx, rax
    shl rdx, 17
    xor rax, rdx
";

/// So many numbers below `below`.
pub(super) fn numbers(count: u64, below: u64) -> impl Iterator<Item = u64> {
    let mut x = SEED;
    (0..count).map(move |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) % below
    })
}
