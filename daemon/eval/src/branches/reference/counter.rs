//! Counters that stop at their ends.

/// A signed counter of `bits` bits after another outcome.
pub fn toward(counter: i32, bits: u32, up: bool) -> i32 {
    let end = 1 << (bits - 1);
    if up {
        (counter + 1).min(end - 1)
    } else {
        (counter - 1).max(-end)
    }
}

/// How far a counter is from changing its mind: 1, 3, 5, …
pub fn strength(counter: i32) -> i32 {
    centred(counter).abs()
}

/// The odd number that a counter stands for, so that none stands for nothing.
pub fn centred(counter: i32) -> i32 {
    2 * counter + 1
}
