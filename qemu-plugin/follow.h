/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Running the new program of an execve under the emulator, too.
 */
#ifndef MCAD_PLUGIN_FOLLOW_H
#define MCAD_PLUGIN_FOLLOW_H

#include <stdint.h>

/* Replaces the process by an emulator with this plugin that runs the program of the guest's
 * execve(path, argv, envp). Comes back if that is not possible: a program for another machine,
 * one with set-user-id, one that is not there, a ring out of reach. */
void mcad_follow(uint64_t path, uint64_t argv, uint64_t envp);

/* In the new program: sends its command line. */
void mcad_follow_tell(void);

#endif
