/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The interface between the mcad daemon and a broker, a shared library that feeds it.
 *
 * A broker exports one function, mcad_broker_entry, that returns a description of itself. The
 * host opens a session with a configuration text and then pulls events until MCAD_EVENT_END.
 * Pulling is the back-pressure: a host that does not ask is not given anything.
 *
 * Compatibility: every struct starts with its size as the sender compiled it. A reader uses a
 * field only if the size says that it is there; new fields are appended. A change of meaning
 * raises MCAD_BROKER_ABI_VERSION and the host refuses the library with a clear message.
 * All strings are UTF-8 with a length, not terminated. Pointers in an event stay valid until the
 * next call on the same session. One session is used by one thread at a time; different sessions
 * of one library may be used by different threads at once.
 */
#ifndef MCAD_BROKER_H
#define MCAD_BROKER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version 2 added the events of processes; libraries of version 1 are still taken. */
#define MCAD_BROKER_ABI_VERSION 2u

/* Feature bits of a broker. */
#define MCAD_BROKER_MEMORY 1ull   /* records carry memory accesses */
#define MCAD_BROKER_MODULES 2ull  /* reports mapped files */
#define MCAD_BROKER_PROCESS 4ull  /* runs or accompanies a real process */

typedef struct {
    const char *data;
    size_t len;
} mcad_str;

enum mcad_event_kind {
    MCAD_EVENT_NONE = 0,         /* nothing within the time limit; ask again */
    MCAD_EVENT_SESSION = 1,      /* text: producer; strings: command line */
    MCAD_EVENT_BLOCK = 2,        /* id, address, count: instructions, data/len: code bytes */
    MCAD_EVENT_MODULE = 3,       /* text: path; address, end, offset */
    MCAD_EVENT_REGION = 4,       /* text: name; address, end */
    MCAD_EVENT_STREAM_START = 5, /* stream */
    MCAD_EVENT_RECORDS = 6,      /* stream; data: 8-byte words, len: number of words */
    MCAD_EVENT_STREAM_END = 7,   /* stream */
    MCAD_EVENT_LOST = 8,         /* count, text: reason */
    MCAD_EVENT_NOTICE = 9,       /* text */
    MCAD_EVENT_END = 10,         /* reason, status, text; nothing follows */
    /* Processes beside the first, which is 0. Blocks, modules and starts of streams are those of
     * the process that was entered last. */
    MCAD_EVENT_PROCESS_FORKED = 11,   /* id, count: the process that it is a copy of */
    MCAD_EVENT_PROCESS_ENTERED = 12,  /* id */
    MCAD_EVENT_PROCESS_REPLACED = 13, /* id, strings: command line of its new program */
    MCAD_EVENT_PROCESS_ENDED = 14     /* id, reason, status, text */
};

enum mcad_end_reason {
    MCAD_END_EXITED = 0,        /* status: exit status */
    MCAD_END_SIGNALED = 1,      /* status: signal number */
    MCAD_END_EXEC = 2,          /* the program replaced itself; status: how that ended, 128 plus
                                 * the number after a signal */
    MCAD_END_PRODUCER_DIED = 3, /* text: what happened */
    MCAD_END_TRUNCATED = 4,     /* text: what is missing */
    MCAD_END_COMPLETE = 5       /* input without a process was delivered completely */
};

/* Guest instruction sets. */
#define MCAD_ARCH_X86_64 1u
#define MCAD_ARCH_AARCH64 2u
#define MCAD_ARCH_RISCV64 3u
#define MCAD_ARCH_RISCV32 4u

typedef struct {
    size_t size;        /* sizeof(mcad_event) of the host; the broker must not write beyond it */
    uint32_t kind;      /* enum mcad_event_kind */
    uint32_t arch;      /* SESSION */
    uint32_t stream;    /* STREAM_START, RECORDS, STREAM_END */
    uint32_t id;        /* BLOCK, PROCESS_... */
    uint64_t address;   /* BLOCK, MODULE, REGION */
    uint64_t end;       /* MODULE, REGION */
    uint64_t offset;    /* MODULE: file offset of address */
    uint64_t count;     /* BLOCK, LOST, PROCESS_FORKED */
    const void *data;   /* BLOCK: bytes; RECORDS: words, 8-byte aligned */
    size_t len;         /* BLOCK: bytes; RECORDS: words */
    mcad_str text;
    const mcad_str *strings;
    size_t strings_len;
    int32_t reason;     /* END, PROCESS_ENDED: enum mcad_end_reason */
    int32_t status;     /* END, PROCESS_ENDED */
    uint64_t features;  /* SESSION: MCAD_BROKER_* that hold for this session */
} mcad_event;

typedef struct mcad_session mcad_session; /* the broker's own */

typedef struct {
    size_t size;            /* sizeof(mcad_broker) as the broker was compiled */
    uint32_t abi_version;   /* MCAD_BROKER_ABI_VERSION */
    uint32_t reserved;
    uint64_t features;      /* MCAD_BROKER_* */
    mcad_str name;          /* for example "qemu" */
    mcad_str help;          /* one line per configuration key */

    /* Opens a session. `config` holds `key=value` lines (values may not contain newlines; bytes
     * \n and \\ are written as \\n and \\\\). Returns 0 and sets *session, or writes a message of
     * at most error_cap bytes to `error`, its length to *error_len, and returns nonzero. */
    int (*open)(mcad_str config, mcad_session **session, char *error, size_t error_cap,
                size_t *error_len);

    /* Waits up to timeout_ms for the next event. Returns 0 with `event` filled (MCAD_EVENT_NONE
     * on time-out), nonzero with an error text in event->text; the session then only accepts
     * close. */
    int (*next)(mcad_session *session, uint32_t timeout_ms, mcad_event *event);

    /* Asks the session to end soon: a running program is killed, the rest is still delivered. May
     * be called from any thread while `next` runs. May be NULL. */
    void (*stop)(mcad_session *session);

    /* Frees the session. */
    void (*close)(mcad_session *session);

    /* Of the brokers that come with mcad: which sources they were built from. The host takes them
     * from its own build only. Empty, or beyond the size, in any other broker. */
    mcad_str sources;
} mcad_broker;

/* The one exported symbol: const mcad_broker *mcad_broker_entry(void); */
typedef const mcad_broker *(*mcad_broker_entry_fn)(void);

#ifdef __cplusplus
}
#endif

#endif
