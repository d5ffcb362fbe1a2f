//! How much of the last level of cache the CPU at hand has to itself.
//!
//! A chain of loads through areas of growing size, in an order that no prefetcher follows: as long as the area fits, a load
//! takes what the last level does, else mostly what memory does. Between two sizes half of which the other is, one is
//! tried, so the answer is known within a third.

use std::fs;

use memmap2::{Advice, MmapMut};

use crate::clock::ticks;

const LINE: usize = 64;
const WORD: usize = 8;
const KIB: usize = 1024;
/// The largest area, in KiB. No guest has been seen to have more to itself, and it must be larger.
const LARGEST: usize = 96 * KIB;
/// Rounds through an area, of which the median counts.
const ROUNDS: usize = 3;
/// Most loads of a round.
const LOADS: usize = 1 << 17;
/// Factor and summand of a congruential sequence that has its full period modulo 2^a 3^b (Hull and Dobell, 1962: the
/// factor is one more than a multiple of 12, the summand prime to 6).
const FACTOR: usize = 0x9_e379 / 12 * 12 + 1;
const SUMMAND: usize = 0x5_1ed5;

/// KiB of the last level that the calling thread's CPU has; none where there is no memory to try it, the system does not
/// say how large the level before is, or no area is quicker than memory.
#[must_use]
pub(super) fn last_level_kib() -> Option<u32> {
    let mut area = MmapMut::map_anon(LARGEST * KIB).ok()?;
    // Walks of the page table would be timed, too. Where there are no large pages, they are a small part.
    let _ = area.advise(Advice::HugePage);
    let memory = through(&mut area, LARGEST)?;
    let sizes = sizes(2 * second_level_kib()?);
    let mut first = None;
    let mut share = None;
    for kib in sizes {
        let load = through(&mut area, kib)?;
        let nearest = *first.get_or_insert(load);
        // Half-way, as ratios go.
        if load * load > nearest * memory || 2.0 * nearest > memory {
            break;
        }
        share = u32::try_from(kib).ok();
    }
    share
}

/// Sizes from `least` KiB on, below the largest: powers of two, and three halves of them.
fn sizes(least: usize) -> impl Iterator<Item = usize> {
    let twos = (0..).map(|n: u32| 1usize << n);
    let both = twos.flat_map(|two| [two, two + two / 2]);
    both.skip_while(move |kib| *kib < least)
        .take_while(|kib| *kib < LARGEST)
}

/// Ticks of a load in a chain through so many KiB.
fn through(area: &mut MmapMut, kib: usize) -> Option<f64> {
    let lines = kib * KIB / LINE;
    let area = area.get_mut(..lines * LINE)?;
    for (line, place) in area.chunks_exact_mut(LINE).enumerate() {
        let word = place.first_chunk_mut::<WORD>()?;
        *word = following(line, lines).to_ne_bytes();
    }
    let mut line = 0;
    let mut walk = |loads: usize| {
        let started = ticks();
        for _ in 0..loads {
            let word = area.get(line * LINE..).and_then(<[u8]>::first_chunk);
            line = word.map_or(0, |word| usize::from_ne_bytes(*word));
        }
        line = std::hint::black_box(line);
        ticks().wrapping_sub(started) as f64 / loads as f64
    };
    walk(lines);
    let mut rounds = [0.0; ROUNDS];
    rounds.fill_with(|| walk(lines.min(LOADS)));
    rounds.sort_by(f64::total_cmp);
    rounds.get(ROUNDS / 2).copied()
}

fn following(line: usize, lines: usize) -> usize {
    (line.wrapping_mul(FACTOR).wrapping_add(SUMMAND)) % lines
}

/// KiB of the second level of cache.
fn second_level_kib() -> Option<usize> {
    (0..8).find_map(|index| {
        let of = |what: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
            fs::read_to_string(path).ok()
        };
        (of("level")?.trim() == "2").then_some(())?;
        of("size")?.trim().strip_suffix('K')?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_goes_through_every_line_of_each_size() {
        for kib in sizes(64).take_while(|kib| *kib <= 1024) {
            let lines = kib * KIB / LINE;
            let (mut line, mut steps) = (0, 0);
            loop {
                line = following(line, lines);
                steps += 1;
                if line == 0 {
                    break;
                }
            }
            assert_eq!(steps, lines, "{kib} KiB");
        }
    }

    #[test]
    fn sizes_are_powers_of_two_and_three_halves_of_them() {
        assert_eq!(
            sizes(2048).take(5).collect::<Vec<_>>(),
            [2048, 3072, 4096, 6144, 8192]
        );
        assert_eq!(sizes(2048).last(), Some(65536));
    }

    #[test]
    fn a_share_is_one_of_the_sizes() {
        if let Some(kib) = last_level_kib() {
            let least = 2 * second_level_kib().unwrap();
            assert!(sizes(least).any(|size| size == kib as usize), "{kib}");
        }
    }
}
