/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The thread leaves the process's table of descriptors, so that the guest neither finds what it
 * opens nor has its own kept open by it.
 */
#define _GNU_SOURCE
#include "watch.h"

#include <errno.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ring.h"

#define STACK_BYTES (256 * 1024)

static bool watched; /* atomic */

static bool lives(pid_t pid)
{
    return kill(pid, 0) == 0 || errno != ESRCH;
}

/* Comes back when the process has ended. */
static void wait_for(pid_t pid)
{
    int fd = -1;
    if (syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE) == 0) {
        fd = (int)syscall(SYS_pidfd_open, pid, 0);
    }
    if (fd >= 0) {
        struct pollfd end = {.fd = fd, .events = POLLIN};
        while (poll(&end, 1, -1) < 0) {
        }
        close(fd);
        return;
    }
    while (lives(pid)) {
        nanosleep(&(struct timespec){.tv_nsec = 250 * 1000 * 1000}, NULL);
    }
}

static void *watch(void *unused)
{
    (void)unused;
    wait_for(mcad_reader());
    if (mcad_released()) {
        mcad_go_silent();
    } else {
        kill(getpid(), SIGKILL);
    }
    return NULL;
}

void mcad_watch_reader(void)
{
    if (__atomic_load_n(&watched, __ATOMIC_RELAXED) ||
        __atomic_exchange_n(&watched, true, __ATOMIC_ACQ_REL)) {
        return;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) == 0) {
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        /* Without it the process ends when it finds the ring full and nobody to read it. */
        pthread_create(&thread, &attributes, watch, NULL);
        pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void mcad_watch_forked(void)
{
    watched = false;
}
