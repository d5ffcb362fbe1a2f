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

/// Puts them in a random order (Fisher and Yates).
pub(super) fn shuffle(order: &mut [u64]) {
    let count = order.len() as u64;
    for (last, at) in (1..order.len()).rev().zip(numbers(count, 1 << 32)) {
        order.swap(last, (at % (last as u64 + 1)) as usize);
    }
}

/// Of so many places in one random order: the first one, and after each the next one, but for the last.
pub(super) fn path(places: u64) -> (u64, Vec<Option<u64>>) {
    let mut order: Vec<u64> = (0..places).collect();
    shuffle(&mut order);
    let mut next = vec![None; order.len()];
    for pair in order.windows(2) {
        if let &[from, to] = pair
            && let Some(next) = next.get_mut(from as usize)
        {
            *next = Some(to);
        }
    }
    (order.first().copied().unwrap_or(0), next)
}
