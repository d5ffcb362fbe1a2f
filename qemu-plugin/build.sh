#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the plugin: build.sh OUTDIR makes OUTDIR/libmcad-plugin.so. CC and CFLAGS are honoured.
set -eu
if [ $# -ne 1 ]; then
    echo "usage: $0 OUTDIR" >&2
    exit 2
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p -- "$1"
out=$1/libmcad-plugin.so
# What the reader of a ring compares (brokers/qemu/src/plugin.rs has the same sum).
sources=$(cd -- "$here" && export LC_ALL=C && cat build.sh ./*.c ./*.h | sha256sum | cut -c 1-16)
# shellcheck disable=SC2086 # CC and CFLAGS are lists of words
${CC:-cc} -std=gnu11 -O2 -g -Wall -Wextra -Werror -fPIC -fvisibility=hidden -pthread \
    "-DMCAD_PLUGIN_SOURCES=0x${sources}ull" \
    ${CFLAGS:-} -shared -o "$out.$$" \
    "$here/plugin.c" "$here/dict.c" "$here/ring.c" "$here/modules.c" "$here/syscalls.c" \
    "$here/follow.c" "$here/guest.c" "$here/kernel.c" "$here/signals.c" "$here/target.c" "$here/watch.c" ${LDLIBS:--ldl}
# Renamed into place: an emulator that has the old one mapped keeps it.
mv -- "$out.$$" "$out"
