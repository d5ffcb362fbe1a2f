// Core cycles from the time-stamp counter.
//
// The counter's ticks are not the core's cycles, and a core changes its clock. So a chain of
// dependent multiplications of 64 bits is timed directly before and after what is measured, on the
// same core: each takes three cycles on every x86-64 core since Nehalem and Zen (uops.info).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <sched.h>
#include <x86intrin.h>

namespace core_clock {

constexpr int CHAIN_SAMPLES = 20;
constexpr int CHAIN_TURNS = 2000;
constexpr int CHAIN_CYCLES = CHAIN_TURNS * 5 * 3;

// The last CPU that this process may run on, -1 when that is not known.
inline int last_cpu() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return -1;
    int cpu = CPU_SETSIZE - 1;
    while (cpu >= 0 && !CPU_ISSET(cpu, &allowed))
        cpu--;
    return cpu;
}

// Keeps this process on a CPU; whether that worked.
inline bool pin(int cpu) {
    if (cpu < 0 || cpu >= CPU_SETSIZE)
        return false;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    return sched_setaffinity(0, sizeof only, &only) == 0;
}

// Ticks of the time-stamp counter in a core cycle: the least of some chains, each of which an
// interrupt may have lengthened.
inline double ticks_per_cycle() {
    uint64_t least = std::numeric_limits<uint64_t>::max();
    for (int sample = 0; sample < CHAIN_SAMPLES; sample++) {
        uint64_t value = 3;
        uint64_t start = __rdtsc();
        for (int turn = 0; turn < CHAIN_TURNS; turn++)
            asm volatile("imul %0, %0\n"
                         "imul %0, %0\n"
                         "imul %0, %0\n"
                         "imul %0, %0\n"
                         "imul %0, %0\n"
                         : "+r"(value));
        least = std::min<uint64_t>(least, __rdtsc() - start);
    }
    return double(least) / CHAIN_CYCLES;
}

// By how much the clock before and after what is measured may differ: more, and nobody knows which of them it was.
constexpr double STEADY = 0.005;

// Ticks in which a clock is likely to stay: what takes longer is measured a few turns at a time.
constexpr double SHORT = 1e6;

// The least core cycles of a turn over some repeats of `turns` turns of `run`, which is warm by then; of those with a
// steady clock, if there are any.
template <typename Run> double cycles_per_turn(Run run, long turns, long repeats) {
    double least = std::numeric_limits<double>::infinity();
    double least_unsteady = least;
    const long all = turns * repeats;
    run(turns / 4 + 1);
    uint64_t one = __rdtsc();
    run(1);
    one = __rdtsc() - one;
    turns = std::clamp(long(SHORT / double(one + 1)), 1L, turns);
    for (long done = 0; done < all; done += turns) {
        double before = ticks_per_cycle();
        uint64_t start = __rdtsc();
        run(turns);
        uint64_t ticks = __rdtsc() - start;
        double after = ticks_per_cycle();
        double cycles = 2.0 * double(ticks) / (before + after) / double(turns);
        bool steady = std::abs(before - after) <= STEADY * after;
        double &kept = steady ? least : least_unsteady;
        kept = std::min(kept, cycles);
    }
    return std::isfinite(least) ? least : least_unsteady;
}

} // namespace core_clock
