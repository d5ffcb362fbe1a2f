/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What system calls do to the program's memory: buffers that the kernel reads and writes, and
 * mappings that come and go (words of tag 3, proto/src/word.rs). Only what a call has done is told,
 * when it comes back.
 */
#include "kernel.h"

#include <stdbool.h>
#include <sys/uio.h>

#include "guest.h"
#include "ring.h"
#include "target.h"

#define TAG_KERNEL (3ull << 61)
#define WORK_SHIFT 58
#define ADDRESS_MASK ((1ull << 48) - 1)
#define LINE_SHIFT 6
#define LINE_BITS 42
#define PAGE_SHIFT 12
#define PAGE_BITS 36

/* What is longer than so many words say is cut: 256 MiB of buffers, 1 TiB of mappings. */
#define MAX_WORDS 64
/* Buffers of a list that are looked at. */
#define MAX_BUFFERS 64

#define GUEST_MAP_ANONYMOUS 0x20
#define GUEST_MADV_DONTNEED 4
#define GUEST_MADV_REMOVE 9

enum work { READ, WROTE, FRESH, MAPPED_FILE, MOVED };

/* The end of the program's heap, of all threads; 0 while it is not known. */
static uint64_t heap_end;

static void record(enum work work, uint64_t address, uint64_t bytes)
{
    if (bytes == 0) {
        return;
    }
    unsigned shift = work <= WROTE ? LINE_SHIFT : PAGE_SHIFT;
    unsigned bits = work <= WROTE ? LINE_BITS : PAGE_BITS;
    uint64_t most = 1ull << (WORK_SHIFT - bits);
    uint64_t start = address & ADDRESS_MASK;
    if (bytes > ADDRESS_MASK - start) {
        bytes = ADDRESS_MASK - start;
    }
    uint64_t first = start >> shift;
    uint64_t left = ((start + bytes - 1) >> shift) - first + 1;
    for (int n = 0; n < MAX_WORDS && left > 0; n++) {
        uint64_t count = left < most ? left : most;
        mcad_push(TAG_KERNEL | (uint64_t)work << WORK_SHIFT | (count - 1) << bits | first);
        first += count;
        left -= count;
    }
}

/* Buffers of a list, of which `bytes` were used. */
static void record_vector(enum work work, uint64_t list, uint64_t count, uint64_t bytes)
{
    for (uint64_t n = 0; n < count && n < MAX_BUFFERS && bytes > 0; n++) {
        struct iovec buffer;
        if (!mcad_guest_read(list + n * sizeof(buffer), &buffer, sizeof(buffer))) {
            return;
        }
        uint64_t used = buffer.iov_len < bytes ? buffer.iov_len : bytes;
        record(work, (uint64_t)(uintptr_t)buffer.iov_base, used);
        bytes -= used;
    }
}

static void on_brk(uint64_t end)
{
    uint64_t before = __atomic_exchange_n(&heap_end, end, __ATOMIC_RELAXED);
    uint64_t gone = (end + 4095) & ~4095ull; /* the page of the end stays */
    if (gone < before) {
        record(FRESH, gone, before - gone);
    }
}

static void on_mremap(uint64_t from, uint64_t from_bytes, uint64_t to_bytes, uint64_t to)
{
    uint64_t kept = from_bytes < to_bytes ? from_bytes : to_bytes;
    if (to != from) {
        record(FRESH, from, from_bytes);
        record(FRESH, to, to_bytes);
        record(MOVED, to, kept);
    } else if (from_bytes > kept) {
        record(FRESH, from + kept, from_bytes - kept);
    } else {
        record(FRESH, to + kept, to_bytes - kept);
    }
}

void mcad_kernel_record(int64_t number, const uint64_t arguments[MCAD_CALL_ARGUMENTS],
                        int64_t result)
{
    const struct guest_calls *calls = &mcad_target->calls;
    const uint64_t *a = arguments;
    if (number == calls->mmap) {
        bool file = (a[3] & GUEST_MAP_ANONYMOUS) == 0;
        record(file ? MAPPED_FILE : FRESH, (uint64_t)result, a[1]);
    } else if (number == calls->munmap) {
        record(FRESH, a[0], a[1]);
    } else if (number == calls->mremap) {
        on_mremap(a[0], a[1], a[2], (uint64_t)result);
    } else if (number == calls->brk) {
        on_brk((uint64_t)result);
    } else if (number == calls->madvise) {
        if (a[2] == GUEST_MADV_DONTNEED || a[2] == GUEST_MADV_REMOVE) {
            record(FRESH, a[0], a[1]);
        }
    } else {
        const struct guest_transfer *t = mcad_target->transfers;
        while (t->number != -1 && t->number != number) {
            t++;
        }
        if (t->number == -1) {
            return;
        }
        enum work work = t->writes ? WROTE : READ;
        uint64_t bytes = t->bytes != 0 ? t->bytes : (uint64_t)result;
        if (t->vector) {
            record_vector(work, a[t->argument], a[t->argument + 1], bytes);
        } else {
            record(work, a[t->argument], bytes);
        }
    }
}
