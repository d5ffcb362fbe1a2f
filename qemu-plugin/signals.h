/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Telling the emulator's own accesses from the program's.
 *
 * To deliver a signal and to return from its handler, QEMU saves and restores the floating-point
 * state by the functions that report accesses to plugins. QEMU 7.2 then reports them, as those of
 * the last instruction that used such a function (it keeps what it
 * reports to beyond the end of the block; 10.0 does not). They are no accesses of that instruction and must not be recorded.
 *
 * Accesses of translated code call the plugin from the code buffer. Those made by functions of
 * QEMU, ours to judge here, call it from QEMU's own text. While QEMU delivers a signal it has all
 * signals blocked, SIGSEGV too, which it never has while guest code runs; saving the state begins
 * with a 2-byte access at a 16-byte boundary (the control word), which guest code seldom makes by
 * such functions, so the question costs nothing to speak of. Nothing else is recorded until the
 * handler's first block, so the rest of the save is what comes before the cursor moves on.
 */
#ifndef MCAD_PLUGIN_SIGNALS_H
#define MCAD_PLUGIN_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* QEMU's text: from the start, and its size. Set before the first access. */
extern uint64_t mcad_emulator_start;
extern uint64_t mcad_emulator_bytes;

/* Whether a callback that returns to `caller` was made by a function of QEMU. */
static inline bool mcad_by_emulator(const void *caller)
{
    return (uint64_t)(uintptr_t)caller - mcad_emulator_start < mcad_emulator_bytes;
}

/* Finds QEMU's text. After mcad_modules_init. */
void mcad_signals_init(void);

/* The guest entered or left rt_sigreturn. */
void mcad_signals_return(bool inside);

/* Whether an access by a function of QEMU (of 2^log2 bytes) is the emulator's own. */
bool mcad_signals_foreign(unsigned log2, uint64_t address);

#endif
