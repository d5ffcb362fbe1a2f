/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Writers' side of the ring that mcad_ring.h describes.
 */
#define _GNU_SOURCE
#include "ring.h"

#include "dict.h"
#include "target.h"
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__thread struct lane mcad_lane __attribute__((tls_model("initial-exec")));

static struct mcad_ring_header *session; /* the first ring, where all are mapped */
static struct mcad_ring_header *ring;    /* this process's */
static struct mcad_chunk_desc *descs;
static uint32_t *ready_queue;
static uint32_t *free_queue;
static uint8_t *chunks;
/* Copies: in a silent child the header is no longer there. */
static size_t session_bytes;
static uint32_t chunk_count;
static uint32_t chunk_bytes;

static pid_t owner;            /* the traced process */
static bool reader_is_parent;
static bool silent;            /* atomic */
static uint32_t live_lanes;    /* atomic: threads that have a stream */
static pthread_key_t lane_key; /* its destructor runs when a guest thread ends */

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t control_lock = PTHREAD_MUTEX_INITIALIZER;

bool mcad_silent(void)
{
    return __atomic_load_n(&silent, __ATOMIC_RELAXED);
}

struct mcad_ring_header *mcad_ring(void)
{
    return ring;
}

static long futex(uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

/* A child that is not traced shares the mapping with its parent, and its lanes' cursors are the
 * parent's: put private memory in its place, so that nothing the child does can reach the session.
 * Translated blocks keep their callbacks, which now write into that memory; new ones get none. */
static void silence_child(void)
{
    __atomic_store_n(&silent, true, __ATOMIC_RELAXED);
    mmap(session, session_bytes, PROT_READ | PROT_WRITE,
         MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static struct mcad_ring_header *ring_of(uint32_t slot)
{
    uint64_t offset =
        slot == 0 ? 0 : session->slots_offset + (uint64_t)(slot - 1) * session->slot_bytes;
    return (void *)((uint8_t *)session + offset);
}

static void use_ring(struct mcad_ring_header *header)
{
    uint8_t *base = (uint8_t *)header;
    ring = header;
    chunk_count = ring->chunk_count;
    chunk_bytes = ring->chunk_bytes;
    descs = (void *)(base + ring->descs_offset);
    ready_queue = (void *)(base + ring->ready_offset);
    free_queue = (void *)(base + ring->free_offset);
    chunks = base + ring->chunks_offset;
    owner = getpid();
}

/* Wakes the reader if it sleeps. */
static void ring_bell(void)
{
    __atomic_fetch_add(&session->doorbell, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&session->reader_waiting, __ATOMIC_SEQ_CST)) {
        futex(&session->doorbell, FUTEX_WAKE, 1, NULL);
    }
}

static uint64_t *chunk_words(uint32_t index)
{
    return (uint64_t *)(chunks + (size_t)index * chunk_bytes);
}

static bool reader_gone(void)
{
    if (reader_is_parent) {
        return getppid() != (pid_t)ring->reader_pid;
    }
    return kill((pid_t)ring->reader_pid, 0) != 0 && errno == ESRCH;
}

/* What a chunk is for. The control log's chunks are read and given back whatever threads do, so some
 * are kept for it. */
enum use { FOR_LOG = 0, FOR_RECORDS = 4 };

/* How often a thread looks for a chunk, 100 ms apart, while none is given back. */
enum { PATIENCE = 50 };

/* Takes a chunk from the free queue, sleeping while there is none. False: silent from now on; or, for
 * records, all chunks are with threads that wait, perhaps for what this one holds in QEMU, so it has to
 * go on without. */
static bool take_chunk(uint32_t *index, enum use use)
{
    uint32_t seen = 0;
    for (int looks = 0;;) {
        pthread_mutex_lock(&queue_lock);
        uint32_t head = ring->free_head;
        uint32_t tail = __atomic_load_n(&ring->free_tail, __ATOMIC_ACQUIRE);
        if (tail - head > (uint32_t)use) {
            *index = free_queue[head & (chunk_count - 1)];
            __atomic_store_n(&ring->free_head, head + 1, __ATOMIC_RELEASE);
            pthread_mutex_unlock(&queue_lock);
            return true;
        }
        ring->stalls++;
        bool unread = ring->ready_tail != __atomic_load_n(&ring->ready_head, __ATOMIC_ACQUIRE);
        pthread_mutex_unlock(&queue_lock);
        looks = tail == seen && !unread ? looks + 1 : 0;
        seen = tail;
        if (use == FOR_RECORDS && looks >= PATIENCE) {
            return false;
        }

        __atomic_fetch_add(&ring->writers_waiting, 1, __ATOMIC_SEQ_CST);
        struct timespec limit = {.tv_sec = 0, .tv_nsec = 100 * 1000 * 1000};
        futex(&ring->free_tail, FUTEX_WAIT, tail, &limit);
        __atomic_fetch_sub(&ring->writers_waiting, 1, __ATOMIC_SEQ_CST);

        if (mcad_silent()) {
            return false;
        }
        if (reader_gone() || mcad_released() ||
            __atomic_load_n(&ring->deaf, __ATOMIC_ACQUIRE) != 0) {
            __atomic_store_n(&ring->silenced, 1, __ATOMIC_RELAXED);
            __atomic_store_n(&silent, true, __ATOMIC_RELAXED);
            return false;
        }
    }
}

/* Opens a chunk for words or messages. */
static void open_chunk(uint32_t index, uint32_t kind, uint32_t stream, uint64_t seq)
{
    struct mcad_chunk_desc *desc = &descs[index];
    desc->kind = kind;
    desc->stream = stream;
    desc->flags = 0;
    desc->seq = seq;
    desc->used = 0;
    desc->next = 0;
    desc->program = ring->program;
    __atomic_store_n(&desc->state, MCAD_CHUNK_OPEN, __ATOMIC_RELEASE);
}

/* Hands the lane's chunk to the reader. */
static void publish(struct lane *lane, uint32_t flags)
{
    uint32_t index = lane->chunk - 1;
    struct mcad_chunk_desc *desc = &descs[index];
    desc->used = (uint32_t)((uint8_t *)lane->cursor -
                            (uint8_t *)chunk_words(index));
    desc->flags = flags;
    __atomic_store_n(&desc->state, MCAD_CHUNK_FULL, __ATOMIC_RELEASE);
    lane->chunk = 0;
    lane->cursor = lane->end = NULL;
    lane->deaf = false;

    pthread_mutex_lock(&queue_lock);
    uint32_t tail = ring->ready_tail;
    ready_queue[tail & (chunk_count - 1)] = index;
    __atomic_store_n(&ring->ready_tail, tail + 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&queue_lock);
    ring_bell();
}

/* Words of a process that does not record go round in memory that nobody reads. */
static void refill_silent(struct lane *lane)
{
    static __thread uint64_t scratch[64] __attribute__((tls_model("global-dynamic")));
    lane->chunk = 0;
    lane->cursor = scratch;
    lane->end = scratch + sizeof(scratch) / sizeof(scratch[0]);
}

/* A thread that has no place is not traced from here on, and counted. */
static void refill_untold(struct lane *lane)
{
    __atomic_fetch_add(&session->threads, 1, __ATOMIC_RELAXED);
    lane->untold = true;
    refill_silent(lane);
}

/* Gives a lane room for at least one word. */
static void refill(struct lane *lane)
{
    /* Second line of defence behind the fork handler: a child made in some other way. */
    if (!mcad_silent() && getpid() != owner) {
        silence_child();
    }
    if (mcad_silent() || lane->untold) {
        refill_silent(lane);
        return;
    }
    if (lane->chunk != 0) {
        publish(lane, 0);
    }
    if (ring != session) {
        mcad_watch_reader();
    }
    if (!lane->known) {
        if (__atomic_add_fetch(&live_lanes, 1, __ATOMIC_RELAXED) > session->most_threads) {
            __atomic_fetch_sub(&live_lanes, 1, __ATOMIC_RELAXED);
            refill_untold(lane);
            return;
        }
        lane->known = true;
        lane->stream = __atomic_fetch_add(&ring->next_stream, 1, __ATOMIC_RELAXED);
        pthread_setspecific(lane_key, lane);
    }
    uint32_t index;
    if (!take_chunk(&index, FOR_RECORDS)) {
        if (mcad_silent()) {
            refill_silent(lane);
        } else {
            refill_untold(lane);
        }
        return;
    }
    open_chunk(index, MCAD_CHUNK_DATA, lane->stream, lane->seq++);
    lane->chunk = index + 1;
    lane->cursor = chunk_words(index);
    lane->end = lane->cursor + chunk_bytes / sizeof(uint64_t);
}

void mcad_push_refill(uint64_t word)
{
    refill(&mcad_lane);
    mcad_push(word);
}

void mcad_lane_yield_if_crowded(void)
{
    struct lane *lane = &mcad_lane;
    if (lane->chunk != 0 && !mcad_silent() &&
        __atomic_load_n(&live_lanes, __ATOMIC_RELAXED) > chunk_count / 4) {
        publish(lane, 0);
    }
}

/* A guest thread ended. */
static void close_lane(void *value)
{
    struct lane *lane = value;
    if (mcad_silent() || getpid() != owner) {
        return;
    }
    if (lane->untold) {
        __atomic_fetch_sub(&live_lanes, 1, __ATOMIC_RELAXED);
        return;
    }
    if (lane->chunk == 0) {
        uint32_t index;
        if (!take_chunk(&index, FOR_RECORDS)) {
            __atomic_fetch_sub(&live_lanes, 1, __ATOMIC_RELAXED);
            return;
        }
        open_chunk(index, MCAD_CHUNK_DATA, lane->stream, lane->seq++);
        lane->chunk = index + 1;
        lane->cursor = chunk_words(index);
    }
    publish(lane, MCAD_CHUNK_LAST);
    lane->known = false;
    lane->seq = 0;
    __atomic_fetch_sub(&live_lanes, 1, __ATOMIC_RELAXED);
}

void mcad_control(struct mcad_message *message, size_t head_bytes, const void *tail,
                  size_t tail_bytes)
{
    if (mcad_silent()) {
        return;
    }
    size_t bytes = (head_bytes + tail_bytes + 7) & ~(size_t)7;
    message->bytes = (uint32_t)bytes;
    pthread_mutex_lock(&control_lock);
    if (bytes > chunk_bytes - ring->control_used) {
        uint32_t index;
        if (!take_chunk(&index, FOR_LOG)) {
            pthread_mutex_unlock(&control_lock);
            return;
        }
        open_chunk(index, MCAD_CHUNK_CONTROL, 0, ++ring->control_seq);
        __atomic_store_n(&descs[ring->control_chunk].next, index + 1, __ATOMIC_RELEASE);
        ring->control_chunk = index;
        ring->control_used = 0;
    }
    uint8_t *place = (uint8_t *)chunk_words(ring->control_chunk) + ring->control_used;
    memcpy(place, message, head_bytes);
    memcpy(place + head_bytes, tail, tail_bytes);
    ring->control_used += (uint32_t)bytes;
    __atomic_store_n(&descs[ring->control_chunk].used, ring->control_used, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&control_lock);
}

void mcad_notice(const char *text)
{
    size_t length = strlen(text);
    struct mcad_message_notice notice = {
        .head.kind = MCAD_MESSAGE_NOTICE,
        .text_bytes = (uint32_t)length,
    };
    mcad_control(&notice.head, sizeof(notice), text, length);
}

/* Whether all that a ring consists of lies in the `room` behind its header. */
static bool header_fits(const struct mcad_ring_header *header, uint64_t room)
{
    uint64_t count = header->chunk_count;
    return header->magic == MCAD_RING_MAGIC && header->version == MCAD_RING_VERSION &&
           count >= 4 && (count & (count - 1)) == 0 &&
           header->descs_offset + count * sizeof(struct mcad_chunk_desc) <= room &&
           header->ready_offset + count * 4 <= room && header->free_offset + count * 4 <= room &&
           header->chunk_bytes >= 16384 &&
           header->chunks_offset + count * header->chunk_bytes <= room;
}

/* The same for the whole file. */
static bool file_fits(unsigned long slot, size_t size)
{
    uint64_t slots = session->slot_count;
    return header_fits(session, size) && session->total_bytes == size && slot <= slots &&
           (slots == 0 || (session->slots_offset + slots * session->slot_bytes <= size &&
                           header_fits(ring_of((uint32_t)slot), slot == 0 ? size : session->slot_bytes)));
}

void mcad_ring_hand_over(void)
{
    struct lane *lane = &mcad_lane;
    if (lane->chunk != 0) {
        publish(lane, 0);
    }
    pthread_mutex_lock(&control_lock);
    pthread_mutex_lock(&queue_lock);
    __atomic_store_n(&ring->attached, MCAD_HANDOVER, __ATOMIC_RELEASE);
}

void mcad_ring_take_back(void)
{
    __atomic_store_n(&ring->attached, MCAD_ATTACHED, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&queue_lock);
    pthread_mutex_unlock(&control_lock);
}

/* Forks. The three handlers run in the thread that forks, while QEMU keeps all others out of guest
 * code; one fork is under way at a time. */
static uint32_t claimed;       /* the slot for the child, 0 if there is none */
static uint32_t shared_blocks; /* ids that it has in common with this process */
static __thread uint32_t forked; /* the slot of the calling thread's last fork, until it returns */

bool mcad_released(void)
{
    return __atomic_load_n(&session->released, __ATOMIC_ACQUIRE) != 0;
}

pid_t mcad_reader(void)
{
    return (pid_t)session->reader_pid;
}

void mcad_go_silent(void)
{
    __atomic_store_n(&silent, true, __ATOMIC_RELAXED);
}

static uint32_t claim_slot(void)
{
    for (uint32_t slot = 1; slot <= session->slot_count; slot++) {
        uint32_t expected = MCAD_SLOT_FREE;
        if (__atomic_compare_exchange_n(&ring_of(slot)->claim, &expected, MCAD_SLOT_CLAIMED, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            return slot;
        }
    }
    return 0;
}

static void before_fork(void)
{
    claimed = 0;
    if (!mcad_silent() && getpid() == owner) {
        claimed = claim_slot();
    }
    if (claimed != 0) {
        /* The reader follows the log up to where a chunk of the new program comes, see
         * MCAD_MESSAGE_COMMAND; and this process may wait for the child before it fills one. */
        if (mcad_lane.chunk != 0) {
            publish(&mcad_lane, 0);
        }
        shared_blocks = ring->next_block;
        struct mcad_message_fork fork = {
            .head.kind = MCAD_MESSAGE_FORK,
            .slot = claimed,
            .blocks = shared_blocks,
        };
        mcad_control(&fork.head, sizeof(fork), NULL, 0);
        ring_bell();
    }
    pthread_mutex_lock(&mcad_dict_lock);
    pthread_mutex_lock(&control_lock);
    pthread_mutex_lock(&queue_lock);
}

static void unlock_all(void)
{
    pthread_mutex_unlock(&queue_lock);
    pthread_mutex_unlock(&control_lock);
    pthread_mutex_unlock(&mcad_dict_lock);
}

static void after_fork_in_parent(void)
{
    unlock_all();
    forked = claimed;
    if (claimed == 0 && !mcad_silent()) {
        __atomic_fetch_add(&session->children, 1, __ATOMIC_RELAXED);
    }
}

/* What the first control chunk and the emulator's own line of the header say. */
static bool introduce(void)
{
    if (!take_chunk(&ring->control_chunk, FOR_LOG)) {
        return false;
    }
    open_chunk(ring->control_chunk, MCAD_CHUNK_CONTROL, 0, 0);
    ring->first_control = ring->control_chunk;
    ring->arch = mcad_target->arch;
    ring->producer_pid = (uint32_t)owner;
    return true;
}

static void after_fork_in_child(void)
{
    unlock_all();
    forked = 0;
    if (mcad_silent()) {
        return;
    }
    if (claimed == 0) {
        silence_child();
        return;
    }
    struct mcad_ring_header *parent = ring;
    use_ring(ring_of(claimed));
    ring->api_min = parent->api_min;
    ring->api_current = parent->api_current;
    ring->api_used = parent->api_used;
    ring->next_block = shared_blocks;
    reader_is_parent = false;
    live_lanes = 0;
    mcad_watch_forked();
    struct lane *lane = &mcad_lane;
    *lane = (struct lane){0};
    if (!introduce()) {
        silence_child();
        return;
    }
    __atomic_store_n(&ring->attached, MCAD_ATTACHED, __ATOMIC_RELEASE);
}

void mcad_forked(int64_t result)
{
    if (forked != 0 && result < 0) {
        __atomic_store_n(&ring_of(forked)->claim, MCAD_SLOT_FAILED, __ATOMIC_RELEASE);
        ring_bell();
    }
    forked = 0;
}

void mcad_waited(uint32_t pid, uint32_t status)
{
    if (session->slot_count == 0) {
        return;
    }
    struct mcad_message_waited waited = {
        .head.kind = MCAD_MESSAGE_WAITED,
        .pid = pid,
        .status = status,
    };
    mcad_control(&waited.head, sizeof(waited), NULL, 0);
}

bool mcad_ring_attach(int fd, const char *path, unsigned long slot, int api_min, int api_current,
                      int api_used, bool *follows)
{
    if (path != NULL) {
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0) {
            fprintf(stderr, "mcad plugin: cannot open the ring %s: %s\n", path, strerror(errno));
            return false;
        }
    }
    struct stat status;
    void *base = MAP_FAILED;
    size_t size = 0;
    if (fstat(fd, &status) == 0 && status.st_size >= (off_t)MCAD_RING_HEADER_BYTES) {
        size = (size_t)status.st_size;
        base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    /* The guest must not find a descriptor that it did not open, and may close all it finds. */
    close(fd);
    if (base == MAP_FAILED) {
        fprintf(stderr, "mcad plugin: cannot map the ring: %s\n", strerror(errno));
        return false;
    }
    session = base;
    session_bytes = size;
    if (!file_fits(slot, size)) {
        fprintf(stderr, "mcad plugin: the ring is of another version of mcad; "
                        "rebuild the plugin with qemu-plugin/build.sh\n");
        return false;
    }
    if (session->plugin_sources != MCAD_PLUGIN_SOURCES) {
        fprintf(stderr, "mcad plugin: this plugin was built from other sources than the mcad that made "
                        "the ring; rebuild it with that one's qemu-plugin/build.sh\n");
        return false;
    }
    use_ring(ring_of((uint32_t)slot));
    reader_is_parent = getppid() == (pid_t)ring->reader_pid;
    if (pthread_key_create(&lane_key, close_lane) != 0 ||
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
        fprintf(stderr, "mcad plugin: no room for a thread key or fork handler\n");
        return false;
    }
    uint32_t handover = MCAD_HANDOVER;
    if (__atomic_compare_exchange_n(&ring->attached, &handover, MCAD_ATTACHED, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        ring->program++;
        __atomic_store_n(&ring->exec_state, MCAD_EXEC_NONE, __ATOMIC_RELEASE);
        *follows = true;
        return true;
    }
    *follows = false;
    uint32_t detached = MCAD_DETACHED;
    if (!__atomic_compare_exchange_n(&ring->attached, &detached, MCAD_ATTACHING, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        fprintf(stderr, "mcad plugin: the ring %s serves another program\n",
                path != NULL ? path : "given");
        return false;
    }
    if (!introduce()) {
        return false;
    }
    ring->api_min = (uint32_t)api_min;
    ring->api_current = (uint32_t)api_current;
    ring->api_used = (uint32_t)api_used;
    __atomic_store_n(&ring->attached, MCAD_ATTACHED, __ATOMIC_RELEASE);
    return true;
}
