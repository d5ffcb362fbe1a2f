/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "signals.h"

#include <signal.h>
#include <stddef.h>

#include "modules.h"
#include "qemu_api.h"
#include "ring.h"
#include "target.h"

uint64_t mcad_emulator_start;
uint64_t mcad_emulator_bytes;

static __thread bool returning;

void mcad_signals_init(void)
{
    uint64_t end;
    if (mcad_target->reports_signal_frames &&
        mcad_modules_emulator((const void *)(uintptr_t)qemu_plugin_tb_n_insns,
                              &mcad_emulator_start, &end)) {
        mcad_emulator_bytes = end - mcad_emulator_start;
    }
}

void mcad_signals_return(bool inside)
{
    returning = inside;
}

bool mcad_signals_foreign(unsigned log2, uint64_t address)
{
    struct lane *lane = &mcad_lane;
    if (returning || (lane->deaf && lane->deaf_at == lane->cursor)) {
        return true;
    }
    if (log2 != 1 || address % 16 != 0) {
        return false;
    }
    sigset_t blocked;
    if (pthread_sigmask(SIG_BLOCK, NULL, &blocked) != 0 || sigismember(&blocked, SIGSEGV) != 1) {
        return false;
    }
    lane->deaf = true;
    lane->deaf_at = lane->cursor;
    return true;
}
