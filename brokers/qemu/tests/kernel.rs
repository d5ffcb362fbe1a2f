//! What system calls do to memory is told behind the block of the call.

mod support;

use std::ops::Range;

use mcad_proto::event::EndReason;
use mcad_proto::word::{Kernel, Work};
use support::{Programs, Run, Trace};

/// Prints where its mapping is, then maps, reads, writes, moves and unmaps there.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char *at = (char *)0x200000000000, *to = (char *)0x210000000000;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, both = PROT_READ | PROT_WRITE;
    if (mmap(at, 16 << 12, both, flags, -1, 0) != at) return 1;
    int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
    if (read(zero, at + 4096, 1000) != 1000) return 2;
    if (write(null, at + 8192, 64) != 64) return 3;
    if (write(-1, at + 12288, 64) != -1) return 4;
    struct iovec list[2] = {{at + 16384, 128}, {at + 20480, 256}};
    if (readv(zero, list, 2) != 384) return 5;
    if (madvise(at + 32768, 8192, MADV_DONTNEED) != 0) return 6;
    if (mremap(at, 16 << 12, 32 << 12, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) return 7;
    char *path = at + 40960;
    if (mmap(path, 4096, both, flags, -1, 0) != path) return 10;
    int self = open(strcpy(path, argv[0]), O_RDONLY);
    if (mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, self, 0) != at) return 8;
    if (munmap(at, 4096) != 0) return 9;
    return 0;
}
"#;

const AT: u64 = 0x2000_0000_0000;
const TO: u64 = 0x2100_0000_0000;

/// What was done between two addresses, relative to the first.
fn within(trace: &Trace, range: Range<u64>) -> Vec<(Work, u64, u64)> {
    let in_range = |k: &Kernel| range.contains(&k.address.0);
    let all = trace.kernel().filter(in_range);
    all.map(|k| (k.work, k.address.0 - range.start, k.bytes))
        .collect()
}

#[test]
fn buffers_and_mappings_are_told_in_order() {
    let programs = Programs::new();
    let program = programs.c("kernel", &[], SOURCE);
    let run = Run {
        keep_words: true,
        ..Run::new()
    };
    let trace = run.run(&[program]);
    assert!(matches!(trace.end, Some(EndReason::Exited(0))));
    assert_eq!(
        within(&trace, AT..AT + (1 << 32)),
        [
            (Work::Fresh, 0, 16 << 12),
            (Work::Wrote, 4096, 1024),
            (Work::Read, 8192, 64),
            (Work::Wrote, 16384, 128),
            (Work::Wrote, 20480, 256),
            (Work::Fresh, 32768, 8192),
            (Work::Fresh, 0, 16 << 12),
            (Work::Fresh, 40960, 4096),
            (Work::Read, 40960, 64),
            (Work::File, 0, 4096),
            (Work::Fresh, 0, 4096),
        ]
    );
    assert_eq!(
        within(&trace, TO..TO + (1 << 32)),
        [(Work::Fresh, 0, 32 << 12), (Work::Moved, 0, 16 << 12)]
    );
}

#[test]
fn without_accesses_nothing_of_that_is_told() {
    let programs = Programs::new();
    let program = programs.c("kernel", &[], SOURCE);
    let run = Run {
        keep_words: true,
        ..Run::new()
    };
    let trace = run.with("memory", "0".to_owned()).run(&[program]);
    assert!(matches!(trace.end, Some(EndReason::Exited(0))));
    assert_eq!(trace.kernel().count(), 0);
}
