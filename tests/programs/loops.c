/* Three kinds of hot loops: a chain of dependencies, additions side by side, divisions. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Every step needs the one before: the multiplier's latency. */
__attribute__((noinline)) static uint64_t hash(const char *text, int n) {
    uint64_t h = 14695981039346656037u;
    for (int i = 0; i < n; i++) {
        h ^= (unsigned char)text[i];
        h *= 1099511628211u;
    }
    return h;
}

/* Sums that do not wait for each other. */
__attribute__((noinline)) static uint64_t sums(const uint32_t *v, int n) {
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (int i = 0; i + 4 <= n; i += 4) {
        a += v[i];
        b ^= v[i + 1];
        c += v[i + 2] >> 3;
        d |= v[i + 3];
    }
    return a + b + c + d;
}

/* A division each. */
__attribute__((noinline)) static uint64_t digits(uint64_t n) {
    uint64_t sum = 0;
    while (n) {
        sum += n % 10;
        n /= 10;
    }
    return sum;
}

int main(void) {
    static char text[4096];
    static uint32_t values[4096];
    uint64_t out = 0;
    for (int i = 0; i < 4096; i++) {
        text[i] = (char)(i * 7);
        values[i] = (uint32_t)i * 2654435761u;
    }
    for (int round = 0; round < 8; round++) {
        out ^= hash(text, 4096);
        out += sums(values, 4096);
        for (int i = 0; i < 100; i++)
            out += digits(values[i]);
    }
    printf("%lx\n", out);
    return 0;
}
