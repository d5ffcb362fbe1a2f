//! A ring full of nonsense: the guest shares the emulator's memory and may write anywhere. The
//! reader may say that it is damaged; it may not panic, hang or run outside.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use mcad_broker_qemu::ring::RingError;
use mcad_broker_qemu::ring::control::Message;
use mcad_broker_qemu::ring::layout::{ATTACHED, CONTROL, DATA, FULL, OPEN};
use mcad_broker_qemu::ring::memory::Memory;
use mcad_broker_qemu::ring::reader::{Reader, Sink};

#[derive(Default)]
struct Count(u64);

impl Sink for Count {
    fn message(&mut self, _: Message<'_>) -> Result<(), RingError> {
        self.0 += 1;
        Ok(())
    }
    fn replaced(&mut self) {
        self.0 += 1;
    }
    fn stream_start(&mut self, _: u32) {
        self.0 += 1;
    }
    fn lost(&mut self, _: u32, _: u64) {
        self.0 += 1;
    }
    fn words(&mut self, _: u32, words: Vec<u64>) -> Result<(), RingError> {
        assert!(words.iter().all(|&word| word != 0));
        self.0 += 1;
        Ok(())
    }
    fn stream_end(&mut self, _: u32) {
        self.0 += 1;
    }
}

/// Marsaglia's xorshift: the same nonsense in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Mostly small and plausible, sometimes anything.
    fn field(&mut self, plausible: u32) -> u32 {
        let value = self.next();
        if value.is_multiple_of(8) {
            (value >> 32) as u32
        } else {
            (value >> 32) as u32 % plausible.max(1)
        }
    }
}

#[test]
fn nonsense_is_survived() {
    let mut delivered = 0;
    for seed in 1..=400u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let memory = Arc::new(Memory::create(1, 0, 0).unwrap().memory);
        let count = memory.chunk_count() as u32;
        let header = memory.header();
        for index in 0..count {
            let desc = memory.desc(index).unwrap();
            desc.state
                .store([OPEN, FULL][random.field(2) as usize % 2], Relaxed);
            desc.kind
                .store([DATA, CONTROL][random.field(2) as usize % 2], Relaxed);
            desc.stream.store(random.field(4), Relaxed);
            desc.flags.store(random.field(2), Relaxed);
            desc.program.store(random.field(3), Relaxed);
            desc.seq.store(random.field(3).into(), Relaxed);
            desc.used.store(random.field(33_000) & !7, Relaxed);
            desc.next.store(random.field(count + 1), Relaxed);
            memory.ready_slot(index).store(random.field(count), Relaxed);
            let words = memory.words(index).unwrap();
            for word in words.iter().take(random.field(300) as usize) {
                // Some words look like the head of a message.
                let head = u64::from(random.field(8)) | u64::from(random.field(12)) << 35;
                word.store([head, random.next()][random.field(2) as usize % 2], Relaxed);
            }
        }
        header.first_control.store(random.field(count), Relaxed);
        header.attached.store(ATTACHED, Relaxed);
        header.ready_tail.store(random.field(2 * count), Relaxed);
        let mut reader = Reader::new(Arc::clone(&memory));
        let mut sink = Count::default();
        // The first damage ends a session; a reader that is asked again must not mind.
        for _ in 0..3 {
            let _ = reader.step(&mut sink);
            let _ = reader.drain_control(&mut sink);
            let _ = reader.salvage(&mut sink);
        }
        delivered += sink.0;
    }
    assert!(delivered > 0, "the nonsense was never plausible enough");
}
