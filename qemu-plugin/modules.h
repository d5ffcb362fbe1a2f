/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Which file guest code comes from.
 */
#ifndef MCAD_PLUGIN_MODULES_H
#define MCAD_PLUGIN_MODULES_H

#include <stdbool.h>
#include <stdint.h>

/* Remembers the emulator's own mappings, which are no modules of the guest. Once, before the
 * guest's program is loaded. `follows`: modules of a replaced program may be known anywhere. */
void mcad_modules_init(bool follows);

/* The extent of the emulator's file that `inside` lies in; false if there is none. */
bool mcad_modules_emulator(const void *inside, uint64_t *start, uint64_t *end);

/* The guest changed its mappings: look again before the next definition. Any thread. */
void mcad_modules_changed(void);

/* Sends the module that holds guest address `address` (at `host` in this process), unless it was
 * sent. Not for use by two threads at once. */
void mcad_modules_cover(uint64_t address, uint64_t host);

#endif
