/* SPDX-License-Identifier: GPL-2.0-or-later */
#define _GNU_SOURCE
#include "guest.h"

#include <sys/uio.h>
#include <unistd.h>

bool mcad_guest_read(uint64_t pointer, void *to, size_t bytes)
{
    struct iovec local = {.iov_base = to, .iov_len = bytes};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)pointer, .iov_len = bytes};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

bool mcad_guest_string(uint64_t pointer, char *to, size_t capacity)
{
    /* Byte by byte: what lies behind a short string near the end of a mapping is no business of
     * ours. */
    for (size_t at = 0; at < capacity; at++) {
        if (!mcad_guest_read(pointer + at, &to[at], 1)) {
            break;
        }
        if (to[at] == '\0') {
            return true;
        }
    }
    to[0] = '\0';
    return false;
}
