/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Reading the guest's memory through pointers that may be wild: the kernel does the copying. Guest
 * and host addresses are the same (user-mode QEMU, 64-bit guests on a 64-bit host).
 */
#ifndef MCAD_PLUGIN_GUEST_H
#define MCAD_PLUGIN_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies `bytes` from the guest; false if they are not all there. */
bool mcad_guest_read(uint64_t pointer, void *to, size_t bytes);

/* Copies a zero-terminated string of less than `capacity` bytes; false, and an empty string, if
 * there is none. */
bool mcad_guest_string(uint64_t pointer, char *to, size_t capacity);

#endif
