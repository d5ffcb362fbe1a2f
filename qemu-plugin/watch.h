/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Ending with the reader. The first process is its child and has the kernel's death signal; a
 * process that another one made has not, so a thread of its own waits for the reader's end.
 */
#ifndef MCAD_PLUGIN_WATCH_H
#define MCAD_PLUGIN_WATCH_H

/* Starts the thread if it does not run yet. */
void mcad_watch_reader(void);

/* This is a fork's child, which has none of its parent's threads. */
void mcad_watch_forked(void);

#endif
