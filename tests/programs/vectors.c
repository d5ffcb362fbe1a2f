/* One vector function, called with the type that its caller has set: what it costs depends on it. */
#include <stdint.h>
#include <stdio.h>

/* Additions that do not wait for each other, `n` times. */
void add(uint64_t n);
__asm__(".text\n.p2align 2\n.globl add\n.type add,@function\nadd:\n"
        "1: vadd.vv v8, v16, v16\n"
        "   vadd.vv v16, v24, v24\n"
        "   addi a0, a0, -1\n"
        "   bnez a0, 1b\n"
        "   ret\n.size add,.-add\n");

#define RUN(lmul) \
    __attribute__((noinline)) void run_##lmul(uint64_t n) { \
        __asm__ volatile("vsetvli zero, zero, e32, " #lmul ", ta, ma" ::: "memory"); \
        add(n); \
        __asm__ volatile("" ::: "memory"); \
    }
RUN(m1) RUN(m2) RUN(m4) RUN(m8)

int main(void) {
    run_m1(1000);
    run_m2(1000);
    run_m4(1000);
    run_m8(1000);
    puts("done");
    return 0;
}
