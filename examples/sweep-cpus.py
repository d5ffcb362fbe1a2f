#!/usr/bin/env python3
"""Predicts one recorded trace on many CPU models and prints a CSV table.

    mcad record -o TRACE -- CMD [ARGS...]
    sweep-cpus.py TRACE [CPU...]

All models run in one pass over the trace; without names, all x86-64 ones that `mcad cpus` lists. Columns: CPU,
cycles, instructions per cycle, cycles relative to the first CPU, and where the issue slots went.
"""

import csv
import json
import subprocess
import sys

SLOTS = ["retiring", "bad_speculation", "frontend", "backend_memory", "backend_core", "other"]


def known_cpus():
    command = ["mcad", "cpus", "--names", "--arch", "x86_64"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    trace, cpus = sys.argv[1], sys.argv[2:] or known_cpus()
    command = ["mcad", "replay", "-q", "--json", "-", trace]
    for cpu in cpus:
        command += ["--cpu", cpu]
    run = subprocess.run(command, stdout=subprocess.PIPE)
    if run.returncode > 1:
        sys.exit(run.returncode)
    report = json.loads(run.stdout)
    if not report["program"]["complete"]:
        print(f"incomplete trace: {report['program']['end']}", file=sys.stderr)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["cpu", "cycles", "ipc", "relative"] + SLOTS)
    first = report["cpus"][0]["cycles"]
    for cpu in report["cpus"]:
        slots = cpu["topdown"]
        shares = [f"{slots[name] / max(slots['slots'], 1):.4f}" for name in SLOTS]
        relative = cpu["cycles"] / max(first, 1)
        out.writerow([cpu["cpu"], cpu["cycles"], f"{cpu['ipc']:.4f}", f"{relative:.4f}"] + shares)


main()
