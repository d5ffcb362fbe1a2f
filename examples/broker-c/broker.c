/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A complete broker in C: it delivers the blocks that a text file lists.
 *
 *     # address  instructions  code          executions
 *     block 0x401000 3 4801c3ffc975f9 x100
 *     block 0x401007 1 c3 x1
 *
 * Each line defines a block and executes it so many times, in the order of the lines. There are no
 * memory accesses. Configuration: file=PATH.
 */
#include "mcad_broker.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Record words handed out at once; the host takes up to 4 Mi. */
#define WORDS 4096
/* QEMU's limit and the host's. */
#define MAX_INSTRUCTIONS 512
#define MAX_CODE (MAX_INSTRUCTIONS * 16)
#define MAX_LINE (2 * MAX_CODE + 128)

/* The word that says "a block executes": docs/BROKERS.md describes records. */
#define BLOCK_WORD(id) ((UINT64_C(2) << 61) | (uint32_t)(id))

struct block {
    uint64_t address;
    uint64_t executions;
    unsigned instructions;
    size_t code_len;
    uint8_t *code;
};

enum step { SESSION, STREAM_START, BLOCK, RECORDS, STREAM_END, END, OVER };

struct mcad_session {
    struct block *blocks;
    uint32_t count;
    uint32_t current;   /* block that is delivered */
    uint64_t executed;  /* executions of it that were delivered */
    enum step step;
    atomic_int stopped; /* set by another thread */
    uint64_t words[WORDS];
    char text[256];
};

static mcad_str str(const char *text)
{
    mcad_str s = {text, strlen(text)};
    return s;
}

/* Writes the message of a failed open. */
static int refuse(char *error, size_t cap, size_t *len, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t n = strlen(text) < cap ? strlen(text) : cap;
    memcpy(error, text, n);
    *len = n;
    return 1;
}

static int hex(int c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Reads one line; returns NULL, or what is wrong with it. */
static const char *parse(char *line, struct block *block)
{
    char *at = line + strlen("block");
    char *end;
    errno = 0;
    block->address = strtoull(at, &end, 16);
    if (end == at || errno) return "the address is no hexadecimal number";
    at = end;
    unsigned long instructions = strtoul(at, &end, 10);
    if (end == at || instructions == 0 || instructions > MAX_INSTRUCTIONS)
        return "the number of instructions must be 1 to 512";
    block->instructions = (unsigned)instructions;
    at = end;
    while (isspace((unsigned char)*at)) at++;

    size_t digits = 0;
    while (hex(at[digits]) >= 0) digits++;
    if (digits == 0 || digits % 2 || digits / 2 > MAX_CODE)
        return "the code must be hexadecimal bytes";
    block->code_len = digits / 2;
    block->code = malloc(block->code_len);
    if (!block->code) return "out of memory";
    for (size_t i = 0; i < block->code_len; i++)
        block->code[i] = (uint8_t)(hex(at[2 * i]) << 4 | hex(at[2 * i + 1]));
    at += digits;

    while (isspace((unsigned char)*at)) at++;
    block->executions = 1;
    if (*at == 'x') {
        block->executions = strtoull(at + 1, &end, 10);
        if (end == at + 1 || errno) return "the executions must be written as xN";
        at = end;
        while (isspace((unsigned char)*at)) at++;
    }
    return *at ? "something follows the executions" : NULL;
}

static void close_session(mcad_session *session)
{
    if (!session) return;
    for (uint32_t i = 0; i < session->count; i++) free(session->blocks[i].code);
    free(session->blocks);
    free(session);
}

/* Reads all lines; returns NULL, or what is wrong, with the line's number in *number. */
static const char *load(FILE *file, mcad_session *session, unsigned *number)
{
    static const char too_long[] = "the line is too long";
    char *line = malloc(MAX_LINE);
    const char *wrong = line ? NULL : "out of memory";
    uint32_t capacity = 0;
    while (!wrong && fgets(line, MAX_LINE, file)) {
        ++*number;
        if (!strchr(line, '\n') && !feof(file)) {
            wrong = too_long;
            break;
        }
        line[strcspn(line, "#\r\n")] = 0;
        char *start = line + strspn(line, " \t");
        if (!*start) continue;
        if (strncmp(start, "block ", 6) != 0) {
            wrong = "expected: block ADDRESS INSTRUCTIONS CODE xN";
            break;
        }
        if (session->count == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            struct block *more = realloc(session->blocks, capacity * sizeof *more);
            if (!more) {
                wrong = "out of memory";
                break;
            }
            session->blocks = more;
        }
        struct block *block = &session->blocks[session->count++];
        memset(block, 0, sizeof *block);
        wrong = parse(start, block);
    }
    if (!wrong && ferror(file)) wrong = strerror(errno);
    if (!wrong && !session->count) wrong = "there is no block in it";
    free(line);
    return wrong;
}

/* Finds the value of `file=`; a value may have \n and \\ escaped. */
static const char *configure(mcad_str config, char *path, size_t cap)
{
    static const char key[] = "file=";
    size_t at = 0, n = 0;
    int found = 0;
    while (at < config.len) {
        const char *line = config.data + at;
        const char *end = memchr(line, '\n', config.len - at);
        size_t len = end ? (size_t)(end - line) : config.len - at;
        at += len + 1;
        if (len == 0) continue;
        if (len < sizeof key - 1 || memcmp(line, key, sizeof key - 1) != 0)
            return "unknown configuration key; known: file";
        n = 0;
        found = 1;
        for (size_t i = sizeof key - 1; i < len; i++) {
            char c = line[i];
            if (c == '\\' && i + 1 < len) c = line[++i] == 'n' ? '\n' : line[i];
            if (n + 1 >= cap) return "the path is too long";
            path[n++] = c;
        }
    }
    path[n] = 0;
    return found && n ? NULL : "no file given: set file=PATH";
}

static int open_session(mcad_str config, mcad_session **out, char *error, size_t cap, size_t *len)
{
    char path[4096];
    const char *wrong = configure(config, path, sizeof path);
    if (wrong) return refuse(error, cap, len, "%s", wrong);
    FILE *file = fopen(path, "r");
    if (!file) return refuse(error, cap, len, "cannot open %.300s: %s", path, strerror(errno));
    mcad_session *session = calloc(1, sizeof *session);
    unsigned number = 0;
    wrong = session ? load(file, session, &number) : "out of memory";
    fclose(file);
    if (wrong) {
        close_session(session);
        return refuse(error, cap, len, "%.300s, line %u: %s", path, number, wrong);
    }
    snprintf(session->text, sizeof session->text, "C example, %" PRIu32 " blocks", session->count);
    *out = session;
    return 0;
}

/* Fills in records of the current block, and moves on. */
static void records(mcad_session *session, mcad_event *event)
{
    const struct block *block = &session->blocks[session->current];
    size_t n = 0;
    while (n < WORDS && session->executed < block->executions) {
        session->words[n++] = BLOCK_WORD(session->current);
        session->executed++;
    }
    event->kind = MCAD_EVENT_RECORDS;
    event->data = session->words;
    event->len = n;
    if (session->executed < block->executions) return;
    session->executed = 0;
    session->current++;
    session->step = session->current < session->count ? BLOCK : STREAM_END;
}

static int next(mcad_session *session, uint32_t timeout_ms, mcad_event *event)
{
    (void)timeout_ms; /* everything is in memory: nothing to wait for */
    if (event->size < sizeof *event) return 1; /* a host older than this header */
    size_t size = event->size;
    memset(event, 0, sizeof *event);
    event->size = size;

    if (session->stopped && session->step > SESSION && session->step < END) {
        session->step = OVER;
        event->kind = MCAD_EVENT_END;
        event->reason = MCAD_END_TRUNCATED;
        event->text = str("stopped on request");
        return 0;
    }
    switch (session->step) {
    case SESSION:
        event->kind = MCAD_EVENT_SESSION;
        event->arch = MCAD_ARCH_X86_64;
        event->text = str(session->text);
        session->step = STREAM_START;
        return 0;
    case STREAM_START:
        event->kind = MCAD_EVENT_STREAM_START;
        session->step = BLOCK;
        return 0;
    case BLOCK: {
        const struct block *block = &session->blocks[session->current];
        event->kind = MCAD_EVENT_BLOCK;
        event->id = session->current;
        event->address = block->address;
        event->count = block->instructions;
        event->data = block->code;
        event->len = block->code_len;
        session->step = RECORDS;
        return 0;
    }
    case RECORDS:
        records(session, event);
        return 0;
    case STREAM_END:
        event->kind = MCAD_EVENT_STREAM_END;
        session->step = END;
        return 0;
    case END:
        event->kind = MCAD_EVENT_END;
        event->reason = MCAD_END_COMPLETE;
        session->step = OVER;
        return 0;
    case OVER:
        break;
    }
    event->text = str("nothing follows the end");
    return 1;
}

/* Called from any thread. */
static void stop(mcad_session *session)
{
    session->stopped = 1;
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const mcad_broker *mcad_broker_entry(void);

const mcad_broker *mcad_broker_entry(void)
{
    static const char name[] = "c-example";
    static const char help[] = "file=PATH  lines of: block ADDRESS INSTRUCTIONS CODE xN";
    static const mcad_broker broker = {
        .size = sizeof(mcad_broker),
        .abi_version = MCAD_BROKER_ABI_VERSION,
        .features = 0,
        .name = {name, sizeof name - 1},
        .help = {help, sizeof help - 1},
        .open = open_session,
        .next = next,
        .stop = stop,
        .close = close_session,
    };
    return &broker;
}
