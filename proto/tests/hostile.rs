//! Damaged and random bytes at every reader of foreign bytes: no panic, memory in proportion.

#![allow(clippy::unwrap_used)] // helpers of tests may fail loudly

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use mcad_proto::fuzz;
use mcad_proto::trace::TraceReader;
use mcad_proto::wire::*;

mod support;
mod valid;
use fastrand::Rng;
use valid::{conversation, session, trace};

/// Counts what is allocated.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Readers may take this much, whatever the bytes say: a chunk of a trace and its state.
const LIMIT: usize = 160 << 20;

fn check_memory() {
    let peak = PEAK.load(Ordering::Relaxed);
    assert!(peak < LIMIT, "{peak} bytes were allocated at once");
}

/// One to eight changes of the kinds that happen: flipped bits, bytes of extreme values, bytes
/// lost, doubled or swapped in, a cut.
fn damage(bytes: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=random.u64(..8) {
        if out.is_empty() {
            break;
        }
        let at = random.usize(..out.len());
        match random.u8(..8) {
            0..=2 => out[at] ^= 1 << random.u8(..8),
            3 => out[at] = [0, 0xff, 0x7f, 0x80][random.usize(..4)],
            4 => {
                let value = random.u64(..).to_le_bytes();
                let len = value.len().min(out.len() - at);
                out[at..at + len].copy_from_slice(&value[..len]);
            }
            5 => {
                out.remove(at);
            }
            6 => {
                let len = random.usize(..64).min(out.len() - at);
                let copy = out[at..at + len].to_vec();
                out.splice(at..at, copy);
            }
            _ => out.truncate(at.max(out.len() * 3 / 4)),
        }
    }
    out
}

#[test]
fn damaged_conversations_do_no_harm() {
    let good = conversation();
    assert_eq!(fuzz::conversation(&good), session().len() + 1);
    let mut random = Rng::with_seed(1);
    let mut survived = 0;
    for _ in 0..20_000 {
        survived += fuzz::conversation(&damage(&good, &mut random));
    }
    assert!(
        survived > 0,
        "the damage is not so bad that nothing is read"
    );
    check_memory();
}

#[test]
fn damaged_messages_do_no_harm() {
    let good = conversation();
    let mut decoder = FrameDecoder::new("t");
    decoder.feed(&good);
    let mut random = Rng::with_seed(2);
    let mut payloads = Vec::new();
    while let Some(frame) = decoder.next_frame().unwrap() {
        payloads.push(frame.payload().to_vec());
    }
    for i in 0..30_000 {
        fuzz::message(&damage(&payloads[i % payloads.len()], &mut random));
    }
    check_memory();
}

#[test]
fn damaged_traces_do_no_harm() {
    let good = trace();
    assert!(fuzz::trace(&good) >= 3000);
    let mut random = Rng::with_seed(3);
    let mut survived = 0;
    for _ in 0..5_000 {
        survived += fuzz::trace(&damage(&good, &mut random));
    }
    assert!(survived > 0);
    check_memory();
}

/// Damage below the checksum: the columns are damaged and packed again, as a malicious writer
/// would do.
#[test]
fn damaged_columns_with_right_checksums_do_no_harm() {
    let good = trace();
    let mut reader = TraceReader::new(&*good, "t").unwrap();
    while reader.next().unwrap().is_some() {}
    let chunk = reader.chunks()[0];
    let header = chunk.offset as usize;
    let body = header + 44..header + chunk.length as usize;
    let plain = zstd::bulk::decompress(&good[body.clone()], 1 << 20).unwrap();
    let mut random = Rng::with_seed(4);
    let mut survived = 0;
    for _ in 0..5_000 {
        let mut columns = damage(&plain, &mut random);
        columns.resize(plain.len(), 0);
        let packed = zstd::bulk::compress(&columns, 1).unwrap();
        let mut bytes = good[..header].to_vec();
        let mut head = good[header..header + 44].to_vec();
        head[4..8].copy_from_slice(&(packed.len() as u32).to_le_bytes());
        let hash = head[..40].iter().fold(0x811c_9dc5u32, |hash, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
        head[40..].copy_from_slice(&hash.to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&packed);
        bytes.extend_from_slice(&good[body.end..]);
        survived += fuzz::trace(&bytes);
    }
    assert!(survived > 0);
    check_memory();
}

#[test]
fn random_bytes_do_no_harm() {
    let mut random = Rng::with_seed(5);
    for _ in 0..3_000 {
        let len = random.usize(..600);
        let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        fuzz::conversation(&bytes);
        fuzz::message(&bytes);
        fuzz::trace(&bytes);
        fuzz::words(&bytes);
    }
    check_memory();
}
