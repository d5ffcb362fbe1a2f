// Small everyday programs, each a function that takes some thousand to a hundred thousand cycles:
// `cargo xtask eval-kernels` compares what a turn of them costs natively and simulated.
//
//   kernels list                             their names
//   kernels run NAME TURNS                   calls one, without looking at a clock
//   kernels measure NAME TURNS REPEATS [CPU]
//                                            prints the least core cycles of a turn over some
//                                            repeats, on this CPU or the last one
//
// A turn does the same work each time, so that whatever learns has learnt it. What is read is made
// when the program starts (inputs.h), so that the compiler cannot compute with it; the results go
// to a volatile variable.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "clock.h"
#include "inputs.h"

namespace {

volatile long sink;

int compare_ints(const void *a, const void *b) {
    int x = *static_cast<const int *>(a);
    int y = *static_cast<const int *>(b);
    return x < y ? -1 : x > y;
}

[[gnu::noinline]] long fibonacci(long n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

// The instructions of `kernel::vm`, three words each, and a program of them.
enum Opcode {
    LOAD_CONSTANT,
    ADD,
    SUBTRACT,
    JUMP_IF,
    MULTIPLY,
    MOVE,
    LESS,
    JUMP,
    RETURN,
    LOAD,
    STORE
};
int program[] = {
    LOAD_CONSTANT, 0, 0,   //
    LOAD_CONSTANT, 1, 300, //
    LOAD_CONSTANT, 2, 1,   //
    ADD,           0, 1,   // word 9, where the loop begins
    MULTIPLY,      3, 0,   //
    STORE,         1, 0,   //
    LOAD,          4, 1,   //
    SUBTRACT,      1, 2,   //
    MOVE,          5, 4,   //
    JUMP_IF,       1, 9,   //
    RETURN,        0, 0,
};

struct Node {
    Node *left, *right;
    int key;
};

} // namespace

// The programs, each named for what it stands for. Some have names of the C library's functions,
// which are therefore called with `::` here.
namespace kernel {

// Sorting with the comparison inlined: branches on data.
[[gnu::noinline]] long sort() {
    static int array[512];
    memcpy(array, input::numbers, sizeof array);
    std::sort(array, array + 512);
    return array[7];
}

// Sorting in the C library, with a call through a pointer for each comparison.
[[gnu::noinline]] long qsort() {
    static int array[512];
    memcpy(array, input::numbers + 512, sizeof array);
    ::qsort(array, 512, 4, compare_ints);
    return array[7];
}

// A hash table of strings that counts words: hashes, comparisons, allocation of nodes.
[[gnu::noinline]] long unordered_map() {
    std::unordered_map<std::string, int> counts;
    for (int i = 0; i < 1000; i++)
        counts[input::words[i % 300]]++;
    return counts.size();
}

// A balanced tree that counts numbers: chains of loads, branches on data, allocation of nodes.
[[gnu::noinline]] long map() {
    std::map<int, int> counts;
    for (int i = 0; i < 600; i++)
        counts[input::numbers[i] & 511]++;
    return counts.size();
}

// A lexer of names, numbers and blanks: short loops of unknown length over bytes.
[[gnu::noinline]] long lexer() {
    long names = 0, sum = 0, others = 0;
    for (char *at = input::text; at < input::text + 6000;) {
        char first = *at;
        if (first >= 'a' && first <= 'z') {
            while (*at >= 'a' && *at <= 'z')
                at++;
            names++;
        } else if (first >= '0' && first <= '9') {
            long value = 0;
            while (*at >= '0' && *at <= '9')
                value = value * 10 + *at++ - '0';
            sum += value;
        } else {
            others++;
            at++;
        }
    }
    return names + sum + others;
}

// Formatted output: the C library's interpreter of formats.
[[gnu::noinline]] long snprintf() {
    long length = 0;
    char buffer[64];
    for (int i = 0; i < 200; i++)
        length += ::snprintf(buffer, 64, "%d %s", input::numbers[i], "abc");
    return length;
}

// An interpreter's objects: counts of references and calls through the object's type.
[[gnu::noinline]] long objects() {
    long sum = 0;
    for (int i = 0; i < 1024; i++) {
        input::Object *object = input::objects[i];
        object->references++;
        sum += object->type->evaluate(object);
        if (--object->references == 0)
            abort();
    }
    return sum;
}

// Counts of bytes: loads that now and then need the store directly before.
[[gnu::noinline]] long histogram() {
    unsigned counts[256] = {0};
    for (int i = 0; i < 4096; i++)
        counts[input::bytes[i]]++;
    return counts[3];
}

// The longest matches of LZ compression, by chains of places with the same hash.
[[gnu::noinline]] long lz() {
    static int head[4096];
    static int previous[8192];
    memset(head, 0, sizeof head);
    long matched = 0;
    const char *text = input::text;
    for (int i = 1; i < 4000; i++) {
        unsigned next;
        memcpy(&next, text + i, sizeof next);
        unsigned hash = (next & 0xffffff) * 2654435761u >> 20;
        int place = head[hash], best = 0;
        for (int depth = 0; place > 0 && depth < 8; depth++) {
            int length = 0;
            while (length < 64 && text[place + length] == text[i + length])
                length++;
            if (length > best)
                best = length;
            place = previous[place];
        }
        previous[i] = head[hash];
        head[hash] = i;
        matched += best;
    }
    return matched;
}

// A binary range coder as LZMA has it: one chain through probabilities and branches on data.
[[gnu::noinline]] long range_coder() {
    unsigned short probabilities[256];
    for (int i = 0; i < 256; i++)
        probabilities[i] = 1024;
    unsigned range = 0xffffffff, code = 0x12345678;
    long ones = 0;
    unsigned context = 1;
    for (int i = 0; i < 4000; i++) {
        unsigned bound = (range >> 11) * probabilities[context];
        if (code < bound) {
            range = bound;
            probabilities[context] += (2048 - probabilities[context]) >> 5;
            context = (context << 1) & 255;
        } else {
            range -= bound;
            code -= bound;
            probabilities[context] -= probabilities[context] >> 5;
            context = (context << 1 | 1) & 255;
            ones++;
        }
        if (range < 1u << 24) {
            range <<= 8;
            code = code << 8 | input::bytes[i];
        }
    }
    return ones;
}

// Recursion: calls, returns and the stack.
[[gnu::noinline]] long fib() { return fibonacci(18); }

// Allocation and release of 16 to 271 bytes in an order of no rule.
[[gnu::noinline]] long malloc() {
    std::vector<void *> live;
    for (int i = 0; i < 400; i++) {
        live.push_back(::malloc(16 + (input::numbers[i] & 255)));
        if (i > 20 && (input::numbers[i] & 3)) {
            int freed = input::numbers[i] % live.size();
            ::free(live[freed]);
            live[freed] = live.back();
            live.pop_back();
        }
    }
    for (auto block : live)
        ::free(block);
    return live.size();
}

// C++ strings of up to 25 characters: copies, appending, comparison.
[[gnu::noinline]] long short_strings() {
    long sum = 0;
    for (int i = 0; i < 500; i++) {
        std::string joined = input::words[i];
        joined += "x";
        joined += input::words[i + 1];
        sum += joined.size() + (joined < input::words[i + 2]);
    }
    return sum;
}

// C strings of up to 12 characters: the C library's vector code on little work.
[[gnu::noinline]] long c_strings() {
    long sum = 0;
    char buffer[128];
    for (int i = 0; i < 500; i++) {
        const char *word = input::words[i].c_str();
        strcpy(buffer, word);
        sum += strlen(buffer);
        sum += strcmp(buffer, input::words[i + 1].c_str());
        char *found = strchr(buffer, 'e');
        if (found)
            sum += found - buffer;
        memcpy(buffer + 64, word, input::words[i].size());
    }
    return sum;
}

// A bytecode interpreter: one indirect jump for all instructions, registers in memory.
[[gnu::noinline]] long vm() {
    static long registers[8], memory[512];
    int *next = program;
    for (;;) {
        int *at = next;
        next += 3;
        switch (at[0]) {
        case LOAD_CONSTANT:
            registers[at[1]] = at[2];
            break;
        case ADD:
            registers[at[1]] += registers[at[2]];
            break;
        case SUBTRACT:
            registers[at[1]] -= registers[at[2]];
            break;
        case MULTIPLY:
            registers[at[1]] = registers[at[1]] * 31 + registers[at[2]];
            break;
        case MOVE:
            registers[at[1]] = registers[at[2]];
            break;
        case LESS:
            registers[at[1]] = registers[at[1]] < registers[at[2]];
            break;
        case JUMP_IF:
            if (registers[at[1]])
                next = program + at[2];
            break;
        case JUMP:
            next = program + at[2];
            break;
        case STORE:
            memory[registers[at[1]] & 511] = registers[at[2]];
            break;
        case LOAD:
            registers[at[1]] = memory[registers[at[2]] & 511];
            break;
        case RETURN:
            return registers[at[1]];
        }
    }
}

// A product of matrices as written in the textbook: chains of floating-point additions.
[[gnu::noinline]] long matmul() {
    static double product[32][32];
    for (int i = 0; i < 32; i++)
        for (int j = 0; j < 32; j++) {
            double sum = 0;
            for (int k = 0; k < 32; k++)
                sum += input::left[i][k] * input::right[k][j];
            product[i][j] = sum + 1;
        }
    return product[3][3];
}

// A checksum a byte at a time: a chain through a table.
[[gnu::noinline]] long crc() {
    unsigned sum = ~0u;
    for (int i = 0; i < 4096; i++)
        sum = input::crc_table[(sum ^ input::bytes[i]) & 255] ^ sum >> 8;
    return sum;
}

// Numbers out of text, by the C library.
[[gnu::noinline]] long strtol() {
    long sum = 0;
    for (int i = 0; i < 300; i++)
        sum += ::strtol(i & 1 ? "12345" : "987", 0, 10);
    return sum;
}

// Products of long numbers: wide multiplications and carries.
[[gnu::noinline]] long bigmul() {
    unsigned long factor[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    unsigned long product[32] = {0};
    for (int times = 0; times < 8; times++)
        for (int i = 0; i < 16; i++) {
            unsigned long carry = 0;
            for (int j = 0; j < 16; j++) {
                unsigned __int128 sum =
                    (unsigned __int128)factor[i] * factor[j] + product[i + j] + carry;
                product[i + j] = sum;
                carry = sum >> 64;
            }
            product[i + 16] += carry;
        }
    return product[5];
}

// UTF-8: branches on the first byte of each character.
[[gnu::noinline]] long utf8() {
    long sum = 0;
    for (int i = 0; i < 4000;) {
        unsigned byte = input::bytes[i];
        if (byte < 128) {
            sum += byte;
            i++;
        } else if (byte < 224) {
            sum += (byte & 31) << 6 | (input::bytes[i + 1] & 63);
            i += 2;
        } else if (byte < 240) {
            sum += byte;
            i += 3;
        } else {
            sum -= byte;
            i += 4;
        }
    }
    return sum;
}

// A binary tree without balance: chains of loads, the way chosen by data.
[[gnu::noinline]] long bst() {
    static Node pool[1024];
    Node *root = 0;
    int count = 0;
    for (int i = 0; i < 400; i++) {
        int key = input::numbers[i] & 1023;
        Node **place = &root;
        while (*place && (*place)->key != key)
            place = key < (*place)->key ? &(*place)->left : &(*place)->right;
        if (!*place) {
            Node *node = &pool[count++];
            node->key = key;
            node->left = node->right = 0;
            *place = node;
        }
    }
    return count;
}

// Divisions of 32 bits by what is known when it runs, and by a constant.
[[gnu::noinline]] long division() {
    long sum = 0;
    for (int i = 1; i < 1500; i++) {
        sum += input::numbers[i] / ((input::numbers[i - 1] & 63) + 1);
        sum ^= input::numbers[i] % 1000;
    }
    return sum;
}

// Numbers into text: loops of one to five turns.
[[gnu::noinline]] long itoa() {
    char buffer[4096];
    char *end = buffer;
    for (int i = 0; i < 500; i++) {
        int value = input::numbers[i] & 0xffff;
        char digits[8];
        int count = 0;
        do {
            digits[count++] = '0' + value % 10;
            value /= 10;
        } while (value);
        while (count)
            *end++ = digits[--count];
        *end++ = ',';
        if (end > buffer + 4000)
            end = buffer;
    }
    return end - buffer;
}

// Branches on random bits, four ways.
[[gnu::noinline]] long branches() {
    long sum = 0;
    for (int i = 0; i < 2000; i++) {
        int value = input::numbers[i];
        if (value & 1)
            sum += value;
        else if (value & 2)
            sum -= value;
        else if (value & 4)
            sum ^= value;
        else
            sum += 3;
    }
    return sum;
}

// Square roots and divisions of floats, and a chain of additions.
[[gnu::noinline]] long sqrt() {
    float sum = 0;
    static float roots[1024];
    for (int i = 0; i < 1024; i++)
        roots[i] = sqrtf(i * 1.5f + sum * 1e-9f) + 1.0f / (i + 1);
    for (int i = 0; i < 1024; i++)
        sum += roots[i];
    return sum;
}

// Comparisons of 1 to 16 bytes, by the C library.
[[gnu::noinline]] long memcmp() {
    long sum = 0;
    for (int i = 0; i < 400; i++)
        sum += ::memcmp(input::text + input::numbers[i] % 6000,
                        input::text + input::numbers[i + 1] % 6000, 1 + (input::numbers[i] & 15));
    return sum;
}

// Motion compensation of a video: blocks of 16 x 16 bytes from unaligned places of another frame.
[[gnu::noinline]] long copy_blocks() {
    for (const input::Move &move : input::moves)
        for (ptrdiff_t row = 0; row < input::BLOCK; row++)
            memcpy(move.to + row * input::FRAME_WIDTH, move.from + row * input::FRAME_WIDTH,
                   input::BLOCK);
    return input::new_frame[7];
}

// Virtual calls of objects of four classes in an order of no rule that recurs.
[[gnu::noinline]] long calls_virtual() {
    long sum = 0;
    for (const input::Shape *shape : input::shapes)
        sum += shape->area();
    return sum;
}

} // namespace kernel

namespace {

struct Kernel {
    const char *name;
    long (*turn)();
};

#define KERNEL(name) {#name, kernel::name}
constexpr Kernel KERNELS[] = {
    KERNEL(sort),          KERNEL(qsort),     KERNEL(unordered_map),
    KERNEL(map),           KERNEL(lexer),     KERNEL(snprintf),
    KERNEL(objects),       KERNEL(histogram), KERNEL(lz),
    KERNEL(range_coder),   KERNEL(fib),       KERNEL(malloc),
    KERNEL(short_strings), KERNEL(c_strings), KERNEL(vm),
    KERNEL(matmul),        KERNEL(crc),       KERNEL(strtol),
    KERNEL(bigmul),        KERNEL(utf8),      KERNEL(bst),
    KERNEL(division),      KERNEL(itoa),      KERNEL(branches),
    KERNEL(sqrt),          KERNEL(memcmp),    KERNEL(copy_blocks),
    KERNEL(calls_virtual),
};
#undef KERNEL

[[gnu::noinline]] void run(const Kernel &kernel, long turns) {
    for (long turn = 0; turn < turns; turn++)
        sink = kernel.turn();
}

int usage() {
    fputs("usage: kernels list\n"
          "       kernels run NAME TURNS\n"
          "       kernels measure NAME TURNS REPEATS [CPU]\n",
          stderr);
    return 2;
}

const Kernel *find(const char *name) {
    for (const Kernel &kernel : KERNELS)
        if (strcmp(kernel.name, name) == 0)
            return &kernel;
    fprintf(stderr, "kernels: there is no kernel '%s'; `kernels list` lists all\n", name);
    return nullptr;
}

// A whole number from `least` on, -1 when the text is none.
long number(const char *text, long least) {
    char *end;
    long value = strtol(text, &end, 10);
    return end != text && *end == 0 && value >= least ? value : -1;
}

} // namespace

int main(int count, char **words) {
    const std::string command = count > 1 ? words[1] : "";
    if (command == "list" && count == 2) {
        for (const Kernel &kernel : KERNELS)
            puts(kernel.name);
        return 0;
    }
    const bool runs = command == "run" && count == 4;
    const bool measures = command == "measure" && (count == 5 || count == 6);
    if (!runs && !measures)
        return usage();
    const Kernel *kernel = find(words[2]);
    if (!kernel)
        return 2;
    const long turns = number(words[3], 1);
    const long repeats = measures ? number(words[4], 1) : 1;
    const long cpu = count == 6 ? number(words[5], 0) : core_clock::last_cpu();
    if (turns < 0 || repeats < 0 || (count == 6 && cpu < 0))
        return usage();
    input::make();
    if (runs) {
        run(*kernel, turns);
        return 0;
    }
    if (!core_clock::pin(int(cpu)))
        fprintf(stderr, "kernels: this process cannot be kept on CPU %ld; measuring unpinned\n",
                cpu);
    auto some = [kernel](long turns) { run(*kernel, turns); };
    printf("%.0f\n", core_clock::cycles_per_turn(some, turns, repeats));
    return 0;
}
