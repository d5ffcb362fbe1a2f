/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * System calls of an x86-64 Linux guest: file mappings change the module map, execve may end the
 * session without any further callback, and a thread about to block may have to give up its chunk.
 */
#define _GNU_SOURCE
#include "syscalls.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "modules.h"
#include "ring.h"

/* Numbers of the x86-64 guest, not of the host. */
enum {
    GUEST_MMAP = 9,
    GUEST_MUNMAP = 11,
    GUEST_MREMAP = 25,
    GUEST_EXECVE = 59,
    GUEST_EXIT = 60,
    GUEST_EXIT_GROUP = 231,
    GUEST_EXECVEAT = 322,
};

#define GUEST_MAP_FIXED 0x10
#define GUEST_MAP_ANONYMOUS 0x20

/* Whether the call under way can change where files are mapped. */
static __thread bool moves_files;

/* The guest's pointer may be wild, so the kernel does the copying. */
static void note_exec_path(uint64_t pointer)
{
    struct mcad_ring_header *ring = mcad_ring();
    /* A short path near the end of a mapping must not fail for what lies behind it. */
    for (size_t at = 0; at + 1 < MCAD_RING_PATH_BYTES; at++) {
        struct iovec to = {.iov_base = &ring->exec_path[at], .iov_len = 1};
        struct iovec from = {.iov_base = (void *)(uintptr_t)(pointer + at), .iov_len = 1};
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1) {
            ring->exec_path[at] = 0;
            return;
        }
        if (ring->exec_path[at] == 0) {
            return;
        }
    }
    ring->exec_path[MCAD_RING_PATH_BYTES - 1] = 0;
}

static void on_syscall(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1,
                       uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                       uint64_t a7, uint64_t a8)
{
    (void)id, (void)vcpu, (void)a3, (void)a5, (void)a6, (void)a7, (void)a8;
    if (mcad_silent()) {
        return;
    }
    switch (number) {
    case GUEST_MMAP:
        moves_files = (a4 & GUEST_MAP_ANONYMOUS) == 0 || (a4 & GUEST_MAP_FIXED) != 0;
        break;
    case GUEST_MUNMAP:
    case GUEST_MREMAP:
        moves_files = true;
        break;
    case GUEST_EXECVE:
    case GUEST_EXECVEAT:
        note_exec_path(number == GUEST_EXECVE ? a1 : a2);
        __atomic_store_n(&mcad_ring()->exec_state, MCAD_EXEC_TRIED, __ATOMIC_RELEASE);
        break;
    case GUEST_EXIT: /* of the last thread it is the program's */
    case GUEST_EXIT_GROUP:
        __atomic_store_n(&mcad_ring()->exit_status, a1 & 0xff, __ATOMIC_RELAXED);
        break;
    default:
        break;
    }
    mcad_lane_yield_if_crowded();
}

static void on_syscall_return(qemu_plugin_id_t id, unsigned vcpu, int64_t number, int64_t result)
{
    (void)id, (void)vcpu, (void)result;
    if (mcad_silent()) {
        return;
    }
    switch (number) {
    case GUEST_MMAP:
    case GUEST_MUNMAP:
    case GUEST_MREMAP:
        if (moves_files) {
            mcad_modules_changed();
        }
        break;
    case GUEST_EXECVE:
    case GUEST_EXECVEAT:
        __atomic_store_n(&mcad_ring()->exec_state, MCAD_EXEC_NONE, __ATOMIC_RELEASE);
        break;
    default:
        break;
    }
}

void mcad_syscalls_register(qemu_plugin_id_t id)
{
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
}
