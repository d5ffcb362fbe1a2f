/* Small programs with nothing cold in them, each for one kind of work: what a model of the core gets wrong of a large program,
 * it gets wrong of one of these, where the reason can be found.
 *
 *     kernels           the names
 *     kernels NAME      runs one, some ten million instructions
 *
 * The same code, data and addresses natively and traced: nothing is read, and numbers come from one generator. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof(*(array)))
#define APART __attribute__((noinline))

static volatile uint64_t sink;

/* Marsaglia's xorshift64. */
static uint64_t state = 88172645463325252u;
static inline uint64_t number(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* A thousand words, the first ones more often, between spaces and line ends. */
enum { TEXT = 200000 };
static char text[TEXT + 64];
static void write_text(void) {
    static char words[1000][12];
    for (size_t i = 0; i < LENGTH(words); i++) {
        int length = 2 + number() % 8;
        for (int k = 0; k < length; k++)
            words[i][k] = 'a' + number() % 26;
    }
    for (size_t n = 0; n < TEXT;) {
        uint64_t rank = number() % 1000;
        for (const char *c = words[rank * rank / 1000]; *c && n < TEXT;)
            text[n++] = *c++;
        if (n < TEXT)
            text[n++] = number() % 12 ? ' ' : '\n';
    }
}

/* Comparisons by pointer, half of them unforeseen. */
static int compare(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}
static int unsorted[20000];
static void shuffle(void) {
    for (size_t i = 0; i < LENGTH(unsorted); i++)
        unsorted[i] = (int)number();
}
static void sort_by_pointer(void) {
    for (int round = 0; round < 10; round++) {
        shuffle();
        qsort(unsorted, LENGTH(unsorted), sizeof(int), compare);
        sink += (unsigned)unsorted[5];
    }
}

/* The same comparisons in place: short loops with unforeseen ends. */
static void sort(int *a, int n) {
    if (n < 16) {
        for (int i = 1; i < n; i++) {
            int value = a[i], at = i;
            for (; at && a[at - 1] > value; at--)
                a[at] = a[at - 1];
            a[at] = value;
        }
        return;
    }
    int pivot = a[n / 2], i = 0, j = n - 1;
    while (i <= j) {
        while (a[i] < pivot)
            i++;
        while (a[j] > pivot)
            j--;
        if (i <= j) {
            int other = a[i];
            a[i++] = a[j];
            a[j--] = other;
        }
    }
    sort(a, j + 1);
    sort(a + i, n - i);
}
static void sort_in_place(void) {
    for (int round = 0; round < 10; round++) {
        shuffle();
        sort(unsorted, LENGTH(unsorted));
        sink += (unsigned)unsorted[5];
    }
}

/* Loads that wait for unforeseen branches. */
struct node {
    struct node *less, *more;
    uint32_t key, rest[9];
};
static void tree(void) {
    static struct node nodes[4000];
    struct node *root = NULL;
    for (size_t i = 0; i < LENGTH(nodes); i++) {
        struct node **at = &root;
        nodes[i].key = (uint32_t)number();
        while (*at)
            at = nodes[i].key < (*at)->key ? &(*at)->less : &(*at)->more;
        *at = &nodes[i];
    }
    for (int i = 0; i < 150000; i++) {
        uint32_t key = nodes[number() % LENGTH(nodes)].key;
        const struct node *at = root;
        while (at->key != key)
            at = key < at->key ? at->less : at->more;
        sink += at->key;
    }
}

/* Matches in text by chains of hashes, as compressors look for them. */
static void matches(void) {
    static uint32_t head[1 << 15], before[TEXT];
    for (uint32_t at = 1; at + 8 < TEXT;) {
        uint32_t hash, best = 0;
        memcpy(&hash, text + at, sizeof hash);
        hash = hash * 2654435761u >> 17;
        uint32_t candidate = head[hash];
        for (int tries = 16; candidate && tries; tries--) {
            uint32_t length = 0;
            if (text[candidate + best] == text[at + best])
                while (length < 258 && at + length < TEXT && text[candidate + length] == text[at + length])
                    length++;
            if (length > best)
                best = length;
            candidate = before[candidate];
        }
        before[at] = head[hash];
        head[hash] = at;
        sink += best;
        at += best > 3 ? best : 1;
    }
}

/* A bit after the other, each of which the next one waits for. */
static void range_coder(void) {
    static uint16_t odds[256];
    for (size_t i = 0; i < LENGTH(odds); i++)
        odds[i] = 1024;
    uint32_t range = UINT32_MAX, code = 0x12345678, context = 1;
    for (int i = 0; i < 1500000; i++) {
        uint16_t *odd = &odds[context];
        uint32_t bound = (range >> 11) * *odd;
        if (code < bound) {
            range = bound;
            *odd += (2048 - *odd) >> 5;
            context = context * 2;
        } else {
            range -= bound;
            code -= bound;
            *odd -= *odd >> 5;
            context = context * 2 + 1;
        }
        if (context > 255)
            context = 1;
        if (range < 1u << 24) {
            range <<= 8;
            code = code << 8 | (number() & 255);
            if (code >= range)
                code = range - 1;
        }
    }
    sink += code;
}

/* A letter a turn, words end unforeseen. */
static void words(void) {
    uint64_t count = 0, hash = 0;
    for (int round = 0; round < 10; round++)
        for (size_t i = 0; i < TEXT; i++)
            switch (text[i]) {
            case ' ':
            case '\n':
                count += hash & 1;
                hash = 0;
                break;
            default:
                hash = hash * 31 + (unsigned char)text[i];
            }
    sink += count;
}

static void format(void) {
    char line[100];
    for (int i = 0; i < 30000; i++)
        sink += snprintf(line, sizeof line, "%d %s %x %5.2f", (int)number(), "hello", i, i * 0.37);
}

static void allocate(void) {
    static char *kept[1000];
    for (int i = 0; i < 400000; i++) {
        char **at = &kept[number() % LENGTH(kept)];
        free(*at);
        *at = malloc(8 + number() % 200);
        if (!*at)
            abort();
        **at = 1;
    }
}

/* A switch over seven operations that recur every 64. */
static void interpreter(void) {
    unsigned char code[64];
    int64_t values[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7};
    int top = 4;
    for (size_t i = 0; i < LENGTH(code); i++)
        code[i] = number() % 7;
    for (int round = 0; round < 30000; round++)
        for (size_t at = 0; at < LENGTH(code); at++)
            switch (code[at]) {
            case 0: values[top] += values[top - 1]; break;
            case 1: values[top] ^= values[top - 1] << 3; break;
            case 2: top = ((top + 1) & 7) | 2; break;
            case 3: values[top] *= 3; break;
            case 4: values[top] = values[top] > 0 ? -values[top] : values[top] + 1; break;
            case 5: values[top - 1] = values[top]; break;
            case 6: top = (top & 7) | 1; break;
            }
    sink += (uint64_t)values[4];
}

/* 500 calls by pointer to four functions, in an order that recurs. */
APART static uint64_t one_more(uint64_t x) { return x + 1; }
APART static uint64_t threefold(uint64_t x) { return x * 3; }
APART static uint64_t flipped(uint64_t x) { return x ^ 5; }
APART static uint64_t halved(uint64_t x) { return x >> 1; }
static void calls_by_pointer(void) {
    uint64_t (*const functions[])(uint64_t) = {one_more, threefold, flipped, halved};
    unsigned char order[500];
    uint64_t x = 1;
    for (size_t i = 0; i < LENGTH(order); i++)
        order[i] = number() % LENGTH(functions);
    for (int round = 0; round < 2000; round++)
        for (size_t i = 0; i < LENGTH(order); i++)
            x = functions[order[i]](x);
    sink += x;
}

static uint64_t fibonacci(int n) { return n < 2 ? (uint64_t)n : fibonacci(n - 1) + fibonacci(n - 2); }
static void recursion(void) { sink += fibonacci(30); }

/* Copies of up to 99 bytes, mostly unaligned. */
static void copies(void) {
    static char from[1 << 14], to[(1 << 14) + 128];
    for (int i = 0; i < 500000; i++) {
        uint64_t n = number();
        memcpy(to + (n & 0x3fff), from + (n >> 20 & 0x1fff), (n >> 40) % 100);
    }
    sink += (unsigned char)to[77];
}

/* A chain through a table, a byte a turn. */
static void checksum(void) {
    uint32_t table[256], sum = UINT32_MAX;
    for (uint32_t i = 0; i < LENGTH(table); i++) {
        table[i] = i;
        for (int k = 0; k < 8; k++)
            table[i] = table[i] & 1 ? 0xedb88320 ^ table[i] >> 1 : table[i] >> 1;
    }
    for (int round = 0; round < 15; round++)
        for (size_t i = 0; i < TEXT; i++)
            sum = table[(sum ^ (unsigned char)text[i]) & 255] ^ sum >> 8;
    sink += sum;
}

static void matrix(void) {
    static double a[120][120], b[120][120], c[120][120];
    for (int i = 0; i < 120; i++)
        for (int k = 0; k < 120; k++)
            a[i][k] = i + k, b[i][k] = i - k;
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < 120; i++)
            for (int k = 0; k < 120; k++) {
                double sum = 0;
                for (int n = 0; n < 120; n++)
                    sum += a[i][n] * b[n][k];
                c[i][k] = sum;
            }
    sink += (uint64_t)c[3][4];
}

/* Searches of a few steps, and as many moves. */
static void move_to_front(void) {
    unsigned char order[256];
    for (size_t i = 0; i < LENGTH(order); i++)
        order[i] = (unsigned char)i;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < TEXT; i++) {
            unsigned char c = (unsigned char)text[i];
            int at = 0;
            while (order[at] != c)
                at++;
            sink += (uint64_t)at;
            for (; at; at--)
                order[at] = order[at - 1];
            order[0] = c;
        }
}

/* Addresses each of which the next one waits for, over 128 KiB. */
static void walk(void) {
    static uint32_t next[1 << 15];
    for (uint32_t i = 0; i < LENGTH(next); i++)
        next[i] = i;
    for (uint32_t i = LENGTH(next) - 1; i > 0; i--) {
        uint32_t with = number() % i, other = next[i];
        next[i] = next[with];
        next[with] = other;
    }
    uint32_t at = 0;
    for (int i = 0; i < 1500000; i++)
        at = next[at];
    sink += at;
}

/* Counts by pairs of letters: loads of what was just stored. */
static void counts(void) {
    static uint32_t pairs[1 << 16];
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i + 1 < TEXT; i++)
            pairs[(unsigned char)text[i] << 8 | (unsigned char)text[i + 1]]++;
    sink += pairs[7];
}

/* What all of them have: the text, loading, and what the kernel does for a process. */
static void nothing(void) {}

static const struct {
    const char *name;
    void (*run)(void);
} kernels[] = {
    {"nothing", nothing}, {"qsort", sort_by_pointer}, {"sort", sort_in_place}, {"tree", tree}, {"matches", matches}, {"range-coder", range_coder},
    {"words", words}, {"format", format}, {"allocate", allocate}, {"interpreter", interpreter}, {"calls", calls_by_pointer},
    {"recursion", recursion}, {"copies", copies}, {"checksum", checksum}, {"matrix", matrix}, {"move-to-front", move_to_front},
    {"walk", walk}, {"counts", counts},
};

int main(int count, char **arguments) {
    write_text();
    for (size_t i = 0; i < LENGTH(kernels); i++) {
        if (count < 2)
            puts(kernels[i].name);
        else if (!strcmp(arguments[1], kernels[i].name)) {
            kernels[i].run();
            return 0;
        }
    }
    return count < 2 ? 0 : 2;
}
