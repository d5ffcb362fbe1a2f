/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * System calls of a Linux guest: what they do to memory is recorded (kernel.h), file mappings change the module map, execve may end the
 * session without any further callback, and a thread about to block may have to give up its chunk.
 */
#include "syscalls.h"

#include <string.h>
#include <sys/stat.h>

#include "follow.h"
#include "guest.h"
#include "kernel.h"
#include "modules.h"
#include "ring.h"
#include "signals.h"
#include "target.h"

#define GUEST_MAP_FIXED 0x10
#define GUEST_MAP_ANONYMOUS 0x20

/* Whether the call under way can change where files are mapped. */
static __thread bool moves_files;

/* Arguments of the call under way. */
static __thread uint64_t arguments[MCAD_CALL_ARGUMENTS];

static bool makes_process(int64_t number)
{
    const struct guest_calls *calls = &mcad_target->calls;
    return number == calls->clone || number == calls->fork || number == calls->vfork ||
           number == calls->clone3;
}

/* `path`, `argv`, `envp`: the guest's pointers. Comes back if the new program does not run under the
 * emulator; then the guest's own call does what it can. */
static void on_exec(uint64_t path, const uint64_t *argv, uint64_t envp)
{
    struct mcad_ring_header *ring = mcad_ring();
    struct stat status;
    mcad_guest_string(path, (char *)ring->exec_path, sizeof(ring->exec_path));
    ring->exec_sets_id = stat((const char *)ring->exec_path, &status) == 0 &&
                         (status.st_mode & (S_ISUID | S_ISGID)) != 0;
    __atomic_store_n(&ring->exec_state, MCAD_EXEC_TRIED, __ATOMIC_RELEASE);
    if (argv != NULL && (ring->options & MCAD_RING_FOLLOW) != 0) {
        mcad_follow(path, *argv, envp);
    }
}

static void on_syscall(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1,
                       uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                       uint64_t a7, uint64_t a8)
{
    (void)id, (void)vcpu, (void)a6, (void)a7, (void)a8;
    if (mcad_silent()) {
        return;
    }
    memcpy(arguments, (uint64_t[MCAD_CALL_ARGUMENTS]){a1, a2, a3, a4, a5}, sizeof(arguments));
    const struct guest_calls *calls = &mcad_target->calls;
    if (number == calls->mmap) {
        moves_files = (a4 & GUEST_MAP_ANONYMOUS) == 0 || (a4 & GUEST_MAP_FIXED) != 0;
    } else if (number == calls->munmap || number == calls->mremap) {
        moves_files = true;
    } else if (number == calls->rt_sigreturn) {
        mcad_signals_return(true);
    } else if (number == calls->execve) {
        on_exec(a1, &a2, a3);
    } else if (number == calls->execveat) {
        on_exec(a2, NULL, 0);
    } else if (number == calls->exit /* of the last thread it is the program's */ ||
               number == calls->exit_group) {
        __atomic_store_n(&mcad_ring()->exit_status, a1 & 0xff, __ATOMIC_RELAXED);
    }
    mcad_lane_yield_if_crowded();
}

static void on_syscall_return(qemu_plugin_id_t id, unsigned vcpu, int64_t number, int64_t result)
{
    (void)id, (void)vcpu;
    if (mcad_silent()) {
        return;
    }
    const struct guest_calls *calls = &mcad_target->calls;
    if ((mcad_ring()->options & MCAD_RING_MEMORY) != 0 && mcad_lane.known &&
        (result >= 0 || result < -4095)) {
        mcad_kernel_record(number, arguments, result);
    }
    if (number == calls->mmap || number == calls->munmap || number == calls->mremap) {
        if (moves_files) {
            mcad_modules_changed();
        }
    } else if (number == calls->rt_sigreturn) {
        mcad_signals_return(false);
    } else if (makes_process(number)) {
        mcad_forked(result);
    } else if (number == calls->wait4) {
        uint32_t status;
        if (result > 0 && arguments[1] != 0 &&
            mcad_guest_read(arguments[1], &status, sizeof(status))) {
            mcad_waited((uint32_t)result, status);
        }
    } else if (number == calls->execve || number == calls->execveat) {
        __atomic_store_n(&mcad_ring()->exec_state, MCAD_EXEC_NONE, __ATOMIC_RELEASE);
    }
}

void mcad_syscalls_register(qemu_plugin_id_t id)
{
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
}
