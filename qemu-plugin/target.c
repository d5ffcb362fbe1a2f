/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * System calls: Linux, arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h
 * (AArch64 and RISC-V use the generic table).
 */
#include "target.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "mcad_ring.h"

#define GENERIC_CALLS                                                                              \
    {                                                                                              \
        .mmap = 222, .munmap = 215, .mremap = 216, .rt_sigreturn = 139, .execve = 221,             \
        .execveat = 281, .exit = 93, .exit_group = 94, .fork = -1, .vfork = -1, .clone = 220,      \
        .clone3 = 435, .wait4 = 260                                                                \
    }

static const struct guest_target targets[] = {
    {
        .name = "x86_64",
        .arch = MCAD_RING_ARCH_X86_64,
        .machine = EM_X86_64,
        .calls = {.mmap = 9,
                  .munmap = 11,
                  .mremap = 25,
                  .rt_sigreturn = 15,
                  .execve = 59,
                  .execveat = 322,
                  .exit = 60,
                  .exit_group = 231,
                  .fork = 57,
                  .vfork = 58,
                  .clone = 56,
                  .clone3 = 435,
                  .wait4 = 61},
        .reports_signal_frames = true,
    },
    {
        .name = "aarch64",
        .arch = MCAD_RING_ARCH_AARCH64,
        .machine = EM_AARCH64,
        .calls = GENERIC_CALLS,
    },
    {
        .name = "riscv64",
        .arch = MCAD_RING_ARCH_RISCV64,
        .machine = EM_RISCV,
        .calls = GENERIC_CALLS,
    },
};

const struct guest_target *mcad_target;

bool mcad_target_choose(const char *name)
{
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        if (strcmp(targets[i].name, name) == 0) {
            mcad_target = &targets[i];
            return true;
        }
    }
    return false;
}
