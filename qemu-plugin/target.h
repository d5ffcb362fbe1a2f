/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What differs from guest to guest: one record for each emulator that the plugin runs in.
 */
#ifndef MCAD_PLUGIN_TARGET_H
#define MCAD_PLUGIN_TARGET_H

#include <stdbool.h>
#include <stdint.h>

/* Numbers of the guest's system calls, not of the host's. */
struct guest_calls {
    int64_t mmap, munmap, mremap, rt_sigreturn, execve, execveat, exit, exit_group;
    int64_t fork, vfork, clone, clone3, wait4; /* -1: there is none, or it is not followed */
    int64_t brk, madvise;
};

/* A system call that reads or writes a buffer of the program's. */
struct guest_transfer {
    int64_t number;
    bool writes;       /* the kernel writes it */
    bool vector;       /* it is a list of buffers, whose length is the argument after it */
    uint8_t argument;  /* where the buffer is, from 0 */
    uint16_t bytes;    /* how long it is; 0: as long as what the call returns */
};

struct guest_target {
    const char *name; /* QEMU's: qemu-NAME */
    uint32_t arch;    /* MCAD_RING_ARCH_... */
    uint16_t machine;  /* ELF's e_machine */
    uint8_t elf_class; /* ELFCLASS64 or ELFCLASS32 */
    struct guest_calls calls;
    const struct guest_transfer *transfers; /* up to one whose number is -1 */
    /* QEMU saves the floating-point state for a signal by functions that report accesses. */
    bool reports_signal_frames;
};

/* The target that the plugin runs in. Set once, before anything else. */
extern const struct guest_target *mcad_target;

/* Chooses it; false if the emulator is none of those known. */
bool mcad_target_choose(const char *name);

#endif
