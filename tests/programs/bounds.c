/* One program, four ways to be slow: what its argument says.
   chase: a list over 64 MiB in no order, each element of which must be there before the next one
   is known. sort: random numbers, whose comparisons nobody can predict. code: more code than the
   first-level cache holds, run from end to end. sums: additions side by side. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252u;

static uint64_t rnd(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

__attribute__((noinline)) static uint64_t chase(char *memory, uint64_t steps) {
    /* Steps of a full period through all lines: 64 MiB are 2^20 lines. */
    uint64_t line = 1, sum = 0;
    while (steps--) {
        uint64_t *at = (uint64_t *)(memory + line * 64);
        line = (line * 69069 + 12345 + *at) & 0xfffff;
        sum += line;
    }
    return sum;
}

__attribute__((noinline)) static void sort(uint32_t *v, int n) {
    /* Shell's sort: comparisons and moves, no calls. */
    for (int gap = n / 2; gap > 0; gap /= 2)
        for (int i = gap; i < n; i++) {
            uint32_t x = v[i];
            int j = i;
            for (; j >= gap && v[j - gap] > x; j -= gap)
                v[j] = v[j - gap];
            v[j] = x;
        }
}

__attribute__((noinline)) static uint64_t sums(const uint32_t *v, int n) {
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (int i = 0; i + 4 <= n; i += 4) {
        a += v[i];
        b ^= v[i + 1];
        c -= v[i + 2];
        d |= v[i + 3];
    }
    return a + b + c + d;
}

/* 4 096 functions of some 60 bytes. */
#define F(n)                                                                                       \
    __attribute__((noinline, aligned(64))) static uint64_t f##n(uint64_t x, uint64_t y) {           \
        __asm__ volatile("" : "+r"(x), "+r"(y));                                                    \
        return (x ^ 0x1234567 ^ (0x##n##u << 3)) + (y | 0x7654321) + (x & 0x1111111) + (y >> 7);   \
    }
#define F4(n) F(n##0) F(n##1) F(n##2) F(n##3)
#define F16(n) F4(n##0) F4(n##1) F4(n##2) F4(n##3)
#define F64(n) F16(n##0) F16(n##1) F16(n##2) F16(n##3)
#define F256(n) F64(n##0) F64(n##1) F64(n##2) F64(n##3)
#define F1024(n) F256(n##0) F256(n##1) F256(n##2) F256(n##3)
F1024(0)
F1024(1)
F1024(2)
F1024(3)
#define C(n) x = f##n(x, y);
#define C4(n) C(n##0) C(n##1) C(n##2) C(n##3)
#define C16(n) C4(n##0) C4(n##1) C4(n##2) C4(n##3)
#define C64(n) C16(n##0) C16(n##1) C16(n##2) C16(n##3)
#define C256(n) C64(n##0) C64(n##1) C64(n##2) C64(n##3)
#define C1024(n) C256(n##0) C256(n##1) C256(n##2) C256(n##3)

__attribute__((noinline)) static uint64_t code(uint64_t x, uint64_t y) {
    C1024(0) C1024(1) C1024(2) C1024(3) return x;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    uint64_t out = 0;
    if (!strcmp(what, "chase")) {
        char *memory = calloc(1 << 20, 64);
        if (!memory)
            return 1;
        for (uint64_t page = 0; page < 1 << 14; page++)
            memory[page << 12] = 0;
        out = chase(memory, 60000);
    } else if (!strcmp(what, "sort")) {
        static uint32_t v[20000];
        for (int i = 0; i < 20000; i++)
            v[i] = (uint32_t)rnd();
        sort(v, 20000);
        out = v[10000];
    } else if (!strcmp(what, "code")) {
        for (int i = 0; i < 40; i++)
            out = code(out, (uint64_t)i);
    } else {
        static uint32_t v[4096];
        for (int i = 0; i < 4096; i++)
            v[i] = (uint32_t)i;
        for (int i = 0; i < 2400; i++) {
            v[i] = (uint32_t)i;
            out += sums(v, 4096);
        }
    }
    printf("%lx\n", (unsigned long)out);
    return 0;
}
