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
        .clone3 = 435, .wait4 = 260, .brk = 214, .madvise = 233                                    \
    }

/* Sizes of what is not counted by the result: struct stat of asm/stat.h, struct statx of
 * linux/stat.h, the word of a futex, and of a path its first byte. */
static const struct guest_transfer transfers_x86_64[] = {
    {.number = 0 /* read */, .writes = true, .argument = 1},
    {.number = 1 /* write */, .argument = 1},
    {.number = 2 /* open */, .argument = 0, .bytes = 1},
    {.number = 4 /* stat */, .writes = true, .argument = 1, .bytes = 144},
    {.number = 5 /* fstat */, .writes = true, .argument = 1, .bytes = 144},
    {.number = 6 /* lstat */, .writes = true, .argument = 1, .bytes = 144},
    {.number = 17 /* pread64 */, .writes = true, .argument = 1},
    {.number = 18 /* pwrite64 */, .argument = 1},
    {.number = 19 /* readv */, .writes = true, .vector = true, .argument = 1},
    {.number = 20 /* writev */, .vector = true, .argument = 1},
    {.number = 44 /* sendto */, .argument = 1},
    {.number = 45 /* recvfrom */, .writes = true, .argument = 1},
    {.number = 78 /* getdents */, .writes = true, .argument = 1},
    {.number = 79 /* getcwd */, .writes = true, .argument = 0},
    {.number = 89 /* readlink */, .writes = true, .argument = 1},
    {.number = 202 /* futex */, .argument = 0, .bytes = 4},
    {.number = 217 /* getdents64 */, .writes = true, .argument = 1},
    {.number = 257 /* openat */, .argument = 1, .bytes = 1},
    {.number = 262 /* newfstatat */, .writes = true, .argument = 2, .bytes = 144},
    {.number = 267 /* readlinkat */, .writes = true, .argument = 2},
    {.number = 295 /* preadv */, .writes = true, .vector = true, .argument = 1},
    {.number = 296 /* pwritev */, .vector = true, .argument = 1},
    {.number = 318 /* getrandom */, .writes = true, .argument = 0},
    {.number = 332 /* statx */, .writes = true, .argument = 4, .bytes = 256},
    {.number = -1},
};

static const struct guest_transfer transfers_generic[] = {
    {.number = 17 /* getcwd */, .writes = true, .argument = 0},
    {.number = 56 /* openat */, .argument = 1, .bytes = 1},
    {.number = 61 /* getdents64 */, .writes = true, .argument = 1},
    {.number = 63 /* read */, .writes = true, .argument = 1},
    {.number = 64 /* write */, .argument = 1},
    {.number = 65 /* readv */, .writes = true, .vector = true, .argument = 1},
    {.number = 66 /* writev */, .vector = true, .argument = 1},
    {.number = 67 /* pread64 */, .writes = true, .argument = 1},
    {.number = 68 /* pwrite64 */, .argument = 1},
    {.number = 69 /* preadv */, .writes = true, .vector = true, .argument = 1},
    {.number = 70 /* pwritev */, .vector = true, .argument = 1},
    {.number = 78 /* readlinkat */, .writes = true, .argument = 2},
    {.number = 79 /* newfstatat */, .writes = true, .argument = 2, .bytes = 128},
    {.number = 80 /* fstat */, .writes = true, .argument = 1, .bytes = 128},
    {.number = 98 /* futex */, .argument = 0, .bytes = 4},
    {.number = 206 /* sendto */, .argument = 1},
    {.number = 207 /* recvfrom */, .writes = true, .argument = 1},
    {.number = 278 /* getrandom */, .writes = true, .argument = 0},
    {.number = 291 /* statx */, .writes = true, .argument = 4, .bytes = 256},
    {.number = -1},
};

/* Lists of buffers are left out: their pointers have 32 bits. */
static const struct guest_transfer transfers_generic_32[] = {
    {.number = 17 /* getcwd */, .writes = true, .argument = 0},
    {.number = 56 /* openat */, .argument = 1, .bytes = 1},
    {.number = 61 /* getdents64 */, .writes = true, .argument = 1},
    {.number = 63 /* read */, .writes = true, .argument = 1},
    {.number = 64 /* write */, .argument = 1},
    {.number = 67 /* pread64 */, .writes = true, .argument = 1},
    {.number = 68 /* pwrite64 */, .argument = 1},
    {.number = 78 /* readlinkat */, .writes = true, .argument = 2},
    {.number = 206 /* sendto */, .argument = 1},
    {.number = 207 /* recvfrom */, .writes = true, .argument = 1},
    {.number = 278 /* getrandom */, .writes = true, .argument = 0},
    {.number = 291 /* statx */, .writes = true, .argument = 4, .bytes = 256},
    {.number = 422 /* futex_time64 */, .argument = 0, .bytes = 4},
    {.number = -1},
};

static const struct guest_target targets[] = {
    {
        .name = "x86_64",
        .arch = MCAD_RING_ARCH_X86_64,
        .machine = EM_X86_64,
        .elf_class = ELFCLASS64,
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
                  .wait4 = 61,
                  .brk = 12,
                  .madvise = 28},
        .transfers = transfers_x86_64,
        .reports_signal_frames = true,
    },
    {
        .name = "aarch64",
        .arch = MCAD_RING_ARCH_AARCH64,
        .machine = EM_AARCH64,
        .elf_class = ELFCLASS64,
        .calls = GENERIC_CALLS,
        .transfers = transfers_generic,
    },
    {
        .name = "riscv64",
        .arch = MCAD_RING_ARCH_RISCV64,
        .machine = EM_RISCV,
        .elf_class = ELFCLASS64,
        .calls = GENERIC_CALLS,
        .transfers = transfers_generic,
    },
    {
        .name = "riscv32",
        .arch = MCAD_RING_ARCH_RISCV32,
        .machine = EM_RISCV,
        .elf_class = ELFCLASS32,
        /* Lists of pointers are of 32 bits there and addresses not those of the emulator: new
         * programs are not followed. wait4 came to an end before this instruction set. */
        .calls = {.mmap = 222, .munmap = 215, .mremap = 216, .rt_sigreturn = 139, .execve = -1,
                  .execveat = -1, .exit = 93, .exit_group = 94, .fork = -1, .vfork = -1,
                  .clone = 220, .clone3 = 435, .wait4 = -1, .brk = 214, .madvise = 233},
        .transfers = transfers_generic_32,
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
