/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Layout of the shared-memory ring between the plugin (writers: the guest's threads) and the
 * broker (the one reader). Little-endian, one machine, one session. The reader creates the memory
 * (zeroed), fills in the constant part of the header and starts the emulator; the plugin maps it
 * once and keeps no file descriptor. brokers/qemu/src/ring/layout.rs mirrors this file; a test
 * there compiles it and compares every offset and constant.
 *
 *   header | chunk descriptors | ready queue | free queue | chunks
 *
 * A pool of equal chunks. A guest thread owns one data chunk at a time and appends 8-byte words
 * (proto/src/word.rs) to it without any other bookkeeping. A word is never 0 and the reader zeroes
 * a chunk before it gives it back, so whatever way the emulator dies, the words of an unfinished
 * chunk are those before its first 0.
 *
 * Life of a chunk:  free queue -> OPEN (owned by a thread) -> FULL, in the ready queue -> read,
 * zeroed by the reader -> free queue. The writers take turns at both queues under a lock of their
 * own process, so each queue has one producer and one consumer at a time. A queue has chunk_count
 * slots and can never overflow. Heads and tails count up and wrap at 2^32; slot = counter modulo
 * chunk_count, a power of two.
 *
 * Control messages (block definitions, modules, notices) form one log of their own over control
 * chunks, linked by `next`; `used` is what is committed. A writer commits a definition before any
 * record that needs it can be written. The reader, having seen that a data chunk is FULL, reads
 * the log to its committed end before it looks into the chunk; so every definition is known when
 * a record names it.
 *
 * A program that replaces itself by another one of its instruction set takes the ring along, if the reader wants
 * that: the plugin itself makes the execve, of the same emulator with the same plugin, which
 * attaches again and goes on with the same control log and block ids. MCAD_MESSAGE_COMMAND separates
 * the programs in the control log, `program` in the chunk descriptors.
 *
 * Processes: the file holds the first process's ring and, behind it, slot_count smaller ones, for
 * the processes that it and its descendants make. Before a fork the parent claims a slot and says so
 * in its control log (MCAD_MESSAGE_FORK); the child, which inherits mapping, dictionary and
 * translated code, goes on in that ring: block ids up to the message's mean what they mean in the
 * parent's ring at that place of its log, later ones are its own. A process that finds no slot
 * makes its child silent and counts it in the first ring's `children`. The reader frees a slot when
 * its process is gone. Offsets in a header count from that header.
 *
 * Streams: each guest thread gets a stream id of its own, never reused; `seq` numbers the chunks
 * of a stream (and of the control log) from 0 without gaps. The last one carries
 * MCAD_CHUNK_LAST.
 *
 * Back-pressure: a writer that finds no free chunk sleeps on `free_tail` (futex); the reader wakes
 * it. It gives up and lets the guest run on unrecorded when the reader is gone. Processes that are not
 * the reader's children end with it, unless it has let them go (`released`).
 */
#ifndef MCAD_RING_H
#define MCAD_RING_H

#include <stdint.h>

#define MCAD_RING_MAGIC 0x31676e697244434dull /* "MCDring1" */
#define MCAD_RING_VERSION 4u
#define MCAD_RING_HEADER_BYTES 4096u
#define MCAD_RING_LINE 64u
#define MCAD_RING_PATH_BYTES 1024u

/* Options that the reader sets. */
#define MCAD_RING_MEMORY 1u /* record memory accesses */
#define MCAD_RING_FOLLOW 2u /* run the new program of an execve under the emulator as well */

/* mcad_ring_header.arch */
#define MCAD_RING_ARCH_X86_64 1u
#define MCAD_RING_ARCH_AARCH64 2u
#define MCAD_RING_ARCH_RISCV64 3u
#define MCAD_RING_ARCH_RISCV32 4u

/* mcad_ring_header.attached: a ring serves one emulator, once. */
#define MCAD_DETACHED 0u
#define MCAD_ATTACHED 1u
#define MCAD_ATTACHING 2u
#define MCAD_HANDOVER 3u /* inside an execve of another emulator, which will attach */

/* mcad_ring_header.claim, of the rings behind the first */
#define MCAD_SLOT_NONE 0u /* the reader prepares it */
#define MCAD_SLOT_FREE 1u
#define MCAD_SLOT_CLAIMED 2u /* by a process that is about to fork */
#define MCAD_SLOT_FAILED 3u  /* the fork failed */

/* mcad_ring_header.exec_state */
#define MCAD_EXEC_NONE 0u
#define MCAD_EXEC_TRIED 1u /* inside execve; it succeeded if the process never takes this back */

/* Field groups with different writers lie on cache lines of their own. */
struct mcad_ring_header {
    /* Written by the reader before the emulator starts. */
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t total_bytes;
    uint32_t chunk_count; /* power of two */
    uint32_t chunk_bytes; /* multiple of the page size */
    uint64_t descs_offset;
    uint64_t ready_offset; /* uint32_t[chunk_count]: chunk indexes */
    uint64_t free_offset;  /* uint32_t[chunk_count] */
    uint64_t chunks_offset;

    uint32_t reader_pid;
    uint32_t options;
    uint32_t slot;         /* which ring this is: 0 is the first */
    uint32_t slot_count;   /* rings behind the first */
    uint64_t slots_offset; /* of ring 1, from the file's start */
    uint64_t slot_bytes;   /* from ring to ring */
    uint64_t plugin_sources; /* fingerprint of the plugin's sources that the reader knows, see build.sh */
    uint32_t most_threads; /* first ring: that have a stream at once, of each process */
    uint8_t pad0[20];

    /* Written once by the plugin when it is loaded. */
    uint32_t attached; /* from MCAD_ATTACHED on the rest of this line is valid */
    uint32_t producer_pid;
    uint32_t api_min; /* plugin API versions of this QEMU */
    uint32_t api_current;
    uint32_t api_used;
    uint32_t first_control; /* index of the control log's first chunk */
    uint32_t arch;          /* MCAD_RING_ARCH_... */
    uint32_t program;       /* how many programs this process has replaced */
    uint32_t claim;         /* atomic: MCAD_SLOT_... */
    uint8_t pad1[28];

    /* Written by the plugin when the program ends or replaces itself. */
    uint32_t ended; /* 1: the emulator announced a regular end */
    uint32_t exec_state;
    uint32_t silenced; /* 1: the plugin stopped recording in the traced process */
    uint32_t exit_status; /* of the last exit or exit_group, as wait gives it: 0 to 255 */
    uint32_t children; /* first ring, atomic: processes that were made and are not traced */
    uint32_t released; /* first ring, reader: the session is over, whoever is left runs on untraced */
    uint32_t deaf; /* reader: it takes nothing from this ring any more */
    uint32_t exec_sets_id; /* 1: what the last execve named is set-user-id or set-group-id */
    uint32_t threads; /* first ring, atomic: threads that had no place, and are not traced */
    uint8_t pad2[28];

    /* Ready queue. */
    uint32_t ready_tail; /* writers */
    uint8_t pad3[60];
    uint32_t ready_head;     /* reader */
    uint32_t reader_waiting; /* first ring, reader: 1 while it sleeps or is about to */
    uint8_t pad4[56];
    uint32_t doorbell; /* first ring, atomic: counts what writers of all rings did; the reader sleeps on it */
    uint8_t pad8[60];

    /* Free queue. */
    uint32_t free_tail; /* reader; writers sleep on it */
    uint8_t pad5[60];
    uint32_t free_head;       /* writers */
    uint32_t writers_waiting; /* writers that sleep or are about to */
    uint64_t stalls;          /* how often a writer had to sleep */
    uint8_t pad6[48];

    /* The writers' own state, here so that it outlives an execve. */
    uint32_t control_chunk; /* last chunk of the control log */
    uint32_t control_used;
    uint64_t control_seq;
    uint32_t next_stream; /* atomic */
    uint32_t next_block;
    uint8_t pad7[40];

    uint8_t exec_path[MCAD_RING_PATH_BYTES]; /* of the last execve, zero-terminated */
    uint8_t ring_path[MCAD_RING_PATH_BYTES]; /* reader: where this ring can be opened again */
};

/* mcad_chunk_desc.state */
#define MCAD_CHUNK_FREE 0u
#define MCAD_CHUNK_OPEN 1u
#define MCAD_CHUNK_FULL 2u

/* mcad_chunk_desc.kind */
#define MCAD_CHUNK_DATA 1u
#define MCAD_CHUNK_CONTROL 2u

/* mcad_chunk_desc.flags */
#define MCAD_CHUNK_LAST 1u /* the stream ends with this chunk */

struct mcad_chunk_desc {
    uint32_t state;
    uint32_t kind;
    uint32_t stream; /* data */
    uint32_t flags;
    uint64_t seq;
    uint32_t used; /* data: bytes, valid when FULL; control: bytes committed so far */
    uint32_t next; /* control: index of the next control chunk plus 1, 0 while there is none */
    uint32_t program; /* data: mcad_ring_header.program when it was opened */
    uint8_t pad[28];
};

/* A control message: this head, then a body by kind, then zeroes to a multiple of 8 bytes. */
struct mcad_message {
    uint32_t kind;
    uint32_t bytes; /* of head, body and padding */
};

#define MCAD_MESSAGE_BLOCK 1u
#define MCAD_MESSAGE_MODULE 2u
#define MCAD_MESSAGE_NOTICE 3u
#define MCAD_MESSAGE_COMMAND 4u
#define MCAD_MESSAGE_FORK 5u
#define MCAD_MESSAGE_WAITED 6u

/* Followed by code_bytes of code. The last instruction may be a truncated one that never executes
 * (QEMU 7.2 at page ends); the reader, which can decode, drops it. */
struct mcad_message_block {
    struct mcad_message head;
    uint64_t address;
    uint32_t id;
    uint32_t instructions;
    uint32_t code_bytes;
    uint32_t last_bytes; /* size of the last instruction */
};

/* Followed by path_bytes of path. Sent before the first block definition inside the mapping; a
 * later module that overlaps an earlier one replaces it there for the definitions that follow;
 * memory without a file does so under the name [anonymous]. */
struct mcad_message_module {
    struct mcad_message head;
    uint64_t start;
    uint64_t end;
    uint64_t file_offset;
    uint32_t path_bytes;
    uint32_t pad;
};

/* The process runs a new program: what follows in the log is that one's. Followed by text_bytes of
 * its command line, each word with its terminator; what is too long is cut. */
struct mcad_message_command {
    struct mcad_message head;
    uint32_t text_bytes;
    uint32_t pad;
};

/* The process is about to fork. */
struct mcad_message_fork {
    struct mcad_message head;
    uint32_t slot;   /* the child's ring */
    uint32_t blocks; /* ids that it has in common with its parent */
};

/* The process learnt how a child of its ended. */
struct mcad_message_waited {
    struct mcad_message head;
    uint32_t pid;
    uint32_t status; /* as wait gives it */
};

/* Followed by text_bytes of UTF-8. */
struct mcad_message_notice {
    struct mcad_message head;
    uint32_t text_bytes;
    uint32_t pad;
};

#endif
