#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the counting plugin: build.sh OUTDIR makes OUTDIR/libcount-plugin.so. CC is honoured.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p -- "$1"
# shellcheck disable=SC2086 # CC is a list of words
${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared \
    -o "$1/libcount-plugin.so.$$" "$here/count.c"
mv -- "$1/libcount-plugin.so.$$" "$1/libcount-plugin.so"
