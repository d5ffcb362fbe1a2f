/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * System calls of an x86-64 Linux guest: file mappings change the module map, execve may end the
 * session without any further callback, and a thread about to block may have to give up its chunk.
 */
#include "syscalls.h"

#include "follow.h"
#include "guest.h"
#include "modules.h"
#include "ring.h"
#include "signals.h"

/* Numbers of the x86-64 guest, not of the host. */
enum {
    GUEST_MMAP = 9,
    GUEST_MUNMAP = 11,
    GUEST_RT_SIGRETURN = 15,
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

/* `path`, `argv`, `envp`: the guest's pointers. Comes back if the new program does not run under the
 * emulator; then the guest's own call does what it can. */
static void on_exec(uint64_t path, const uint64_t *argv, uint64_t envp)
{
    struct mcad_ring_header *ring = mcad_ring();
    mcad_guest_string(path, (char *)ring->exec_path, sizeof(ring->exec_path));
    __atomic_store_n(&ring->exec_state, MCAD_EXEC_TRIED, __ATOMIC_RELEASE);
    if (argv != NULL && (ring->options & MCAD_RING_FOLLOW) != 0) {
        mcad_follow(path, *argv, envp);
    }
}

static void on_syscall(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1,
                       uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                       uint64_t a7, uint64_t a8)
{
    (void)id, (void)vcpu, (void)a5, (void)a6, (void)a7, (void)a8;
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
    case GUEST_RT_SIGRETURN:
        mcad_signals_return(true);
        break;
    case GUEST_EXECVE:
        on_exec(a1, &a2, a3);
        break;
    case GUEST_EXECVEAT:
        on_exec(a2, NULL, 0);
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
    case GUEST_RT_SIGRETURN:
        mcad_signals_return(false);
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
