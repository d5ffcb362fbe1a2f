/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The plugin's end of the ring: a lane per guest thread, the control log, going silent.
 */
#ifndef MCAD_PLUGIN_RING_H
#define MCAD_PLUGIN_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mcad_ring.h"

/* Where a guest thread writes its next word. In user-mode QEMU a vCPU is a host thread, so the
 * lane is thread-local and the reuse of vCPU indexes does not matter. */
struct lane {
    uint64_t *cursor;
    uint64_t *end;
    uint64_t seq;    /* of the next chunk */
    uint64_t *deaf_at; /* see signals.h: valid when `deaf` */
    bool deaf;
    uint32_t stream; /* valid when `known` */
    uint32_t chunk;  /* index plus 1; 0 when the lane has none */
    bool known;
    bool untold;     /* its thread has no place in the ring and is not traced */
};

extern __thread struct lane mcad_lane __attribute__((tls_model("initial-exec")));

/* Appends a word after giving the calling thread's lane room. */
void mcad_push_refill(uint64_t word);

/* Appends a record word: the hot path. The rare case is a tail call, so that the common one saves
 * no registers. */
static inline void mcad_push(uint64_t word)
{
    uint64_t *cursor = mcad_lane.cursor;
    if (__builtin_expect(cursor == mcad_lane.end, 0)) {
        mcad_push_refill(word);
        return;
    }
    mcad_lane.cursor = cursor + 1;
    /* The reader of a dead process takes what is there, so the word must appear whole. */
    __atomic_store_n(cursor, word, __ATOMIC_RELAXED);
}

/* Hands over the calling thread's chunk if so many threads hold chunks that a blocked one with a
 * chunk could starve the others. Called before system calls. */
void mcad_lane_yield_if_crowded(void);

/* Maps the rings and takes the one of `slot`; false with a message on stderr. `follows`: this program
 * replaced a traced one. */
bool mcad_ring_attach(int fd, const char *path, unsigned long slot, int api_min, int api_current,
                      int api_used, bool *follows);

/* Whether the reader has let this process go: it runs on untraced when that one ends. */
bool mcad_released(void);

/* The reader's process. */
pid_t mcad_reader(void);

/* Records no more. */
void mcad_go_silent(void);

/* A system call that may make a process came back, in the process that called it. */
void mcad_forked(int64_t result);

/* Tells how a child ended. */
void mcad_waited(uint32_t pid, uint32_t status);

/* Leaves the ring in a state that another emulator in this process can go on with, and keeps all
 * other threads from changing it, until the process is replaced or takes it back. */
void mcad_ring_hand_over(void);
void mcad_ring_take_back(void);

/* Whether this process no longer records: a fork's child, or the reader is gone. */
bool mcad_silent(void);

/* This process's header, for the single flags. */
struct mcad_ring_header *mcad_ring(void);

/* Appends a message whose head is `message` (of `head_bytes`) and whose tail is `tail`. */
void mcad_control(struct mcad_message *message, size_t head_bytes, const void *tail,
                  size_t tail_bytes);

/* Tells people something that changes no result. */
void mcad_notice(const char *text);

#endif
