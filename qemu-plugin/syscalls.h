/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the plugin needs to know of the guest's system calls.
 */
#ifndef MCAD_PLUGIN_SYSCALLS_H
#define MCAD_PLUGIN_SYSCALLS_H

#include "qemu_api.h"

void mcad_syscalls_register(qemu_plugin_id_t id);

#endif
