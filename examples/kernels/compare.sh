#!/bin/sh
# What a model makes of small programs, beside what they take here.
#
#   compare.sh [CPU [KERNEL…]]
#
# Builds kernels.c, measures each kernel and predicts it with the model CPU (default native, this machine's); needs mcad in PATH.
# Of the runs' user cycles it prints the fastest tenth's last and the median, in millions, and compares the predictions with
# each: where another guest's thread shares the core, all but what waits for a chain of instructions is 5 to 25 % slower, for
# seconds or minutes, so that medians do not say what the core takes; the very least has what the clock was wrong in.
# ROUNDS (default 5): all kernels in turn in each, RUNS (default 10) times.
# The kernel nothing is what all have in common. It is short, so that its figure here has what Linux does for a process in it, half
# a million cycles and more that the model does not count, as the others' have.
# The compiler is part of the result: CC (default cc), CFLAGS (default -O2).
set -eu

cpu=${1:-native}
[ $# -eq 0 ] || shift
here=$(cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2086 # flags are words
"${CC:-cc}" ${CFLAGS:--O2} -o "$work/kernels" "$here/kernels.c"
# shellcheck disable=SC2046 # names are words
[ $# -gt 0 ] || set -- $("$work/kernels")

quietly() {
    "$@" 2>"$work/log" || {
        cat "$work/log" >&2
        exit 2
    }
}

round=0
while [ "$round" -lt "${ROUNDS:-5}" ]; do
    round=$((round + 1))
    for kernel in "$@"; do
        quietly mcad profile program --runs "${RUNS:-10}" --csv -- "$work/kernels" "$kernel" >"$work/runs.csv"
        awk -F, '$NF == "counts" { print $2 }' "$work/runs.csv" >>"$work/$kernel.cycles"
    done
done
for list in median fast; do
    echo package,version,program,command,user_cycles,interquartile_over_median,runs >"$work/$list.csv"
done
for kernel in "$@"; do
    sort -n "$work/$kernel.cycles" | awk -v row="$kernel,1,$work/kernels,$work/kernels $kernel," -v kernel="$kernel" -v to="$work" '
        { cycles[NR] = $1 }
        END {
            median = cycles[int((NR + 1) / 2)]
            fast = cycles[int((NR + 9) / 10)]
            spread = (cycles[int((3 * NR + 3) / 4)] - cycles[int((NR + 3) / 4)]) / median
            printf "%-15s %8.2f %8.2f  of %d\n", kernel, fast / 1e6, median / 1e6, NR
            print row median "," spread "," NR >> (to "/median.csv")
            print row fast "," spread "," NR >> (to "/fast.csv")
        }'
done

for list in median fast; do
    echo "against the $list one:"
    quietly mcad eval --programs --predict "$cpu" --inputs "$work" --at-once "${AT_ONCE:-1}" --results "$work/results" "$work/$list.csv"
done
