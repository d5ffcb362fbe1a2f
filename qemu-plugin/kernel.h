/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Recording what system calls do to the program's memory.
 */
#ifndef MCAD_PLUGIN_KERNEL_H
#define MCAD_PLUGIN_KERNEL_H

#include <stdint.h>

/* Arguments of a system call that may matter here. */
#define MCAD_CALL_ARGUMENTS 5

/* The guest's call came back, not having failed. Appends words behind those of the block that ends
 * with it. */
void mcad_kernel_record(int64_t number, const uint64_t arguments[MCAD_CALL_ARGUMENTS],
                        int64_t result);

#endif
