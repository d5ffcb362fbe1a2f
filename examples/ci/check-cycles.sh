#!/bin/sh
# A CI job that fails when a function gets slower on a CPU that the CI machine need not have.
#
#   check-cycles.sh BASELINE.json FUNCTION PERCENT CMD [ARGS…]
#
# Runs CMD under mcad and compares with the baseline: exit status 0 if FUNCTION takes at most
# PERCENT more cycles, 1 if it takes more, 2 on errors. Without a baseline this run becomes it.
# The figures are predicted from the executed instructions, so they do not depend on how busy the
# machine is; what differs from run to run is only what the program itself does differently.
#
# MCAD_CPU is the CPU model (default skl). SUMMARY is a file to which the comparison is appended
# as Markdown, for example "$GITHUB_STEP_SUMMARY".
set -eu

if [ $# -lt 4 ]; then
    sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
baseline=$1 function=$2 percent=$3
shift 3

new=$(mktemp)
trap 'rm -f "$new" "$new.md"' EXIT

# The program's own failure is not a slow-down: pass it on as an error.
mcad-run -q --cpu "${MCAD_CPU:-skl}" --region "$function" --json "$new" -- "$@" || {
    echo "check-cycles: '$*' failed" >&2
    exit 2
}

if [ ! -e "$baseline" ]; then
    cp "$new" "$baseline"
    echo "check-cycles: $baseline is the new baseline" >&2
    exit 0
fi

status=0
mcad diff "$baseline" "$new" --fail-above "$percent" --watch "$function" \
    --markdown -o "$new.md" || status=$?
if [ "$status" -le 1 ]; then
    cat "$new.md" >> "${SUMMARY:-/dev/stderr}"
fi
exit "$status"
