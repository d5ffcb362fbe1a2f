/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * mcad's QEMU plugin: sends each block's code once, then one 8-byte word per executed block and
 * per memory access, into the ring that mcad_ring.h describes.
 *
 * One library serves QEMU 7.2 (plugin API 1) and later (2 and up): see choose_version. Arguments:
 * ring-fd=N (inherited descriptor of the ring, closed here) or ring=PATH, and slot=N for the ring of a
 * process that is not the first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dict.h"
#include "follow.h"
#include "modules.h"
#include "qemu_api.h"
#include "ring.h"
#include "signals.h"
#include "syscalls.h"
#include "target.h"

/* Record words: proto/src/word.rs. */
#define TAG_ACCESS (1ull << 61)
#define TAG_BLOCK (2ull << 61)
#define INDEX_SHIFT 52
#define KIND_SHIFT 48 /* bit 3: store, bits 0 to 2: log2 of the size */
#define KIND_STORE 8u
#define ADDRESS_MASK ((1ull << 48) - 1)

#define MAX_INSTRUCTIONS 512
#define MAX_INSTRUCTION_BYTES 16

QEMU_EXPORT int qemu_plugin_version = 1;

static bool with_memory;
static uint8_t code[MAX_INSTRUCTIONS * MAX_INSTRUCTION_BYTES]; /* under mcad_dict_lock */

__attribute__((constructor)) static void choose_version(void)
{
    qemu_plugin_version = qemu_api_version();
}

static void on_block(unsigned vcpu, void *word)
{
    (void)vcpu;
    mcad_push((uint64_t)(uintptr_t)word);
}

/* QEMU's description of an access is opaque but one of few values, so the two calls that take it
 * apart are made once each. A slot holds description << 32 | known << 31 | kind. */
static uint64_t kinds[64];

/* Spreads the bits that vary in practice: operation from bit 4, direction from bit 16. */
static inline uint64_t *kind_slot(qemu_plugin_meminfo_t info)
{
    return &kinds[((info >> 4) ^ (info >> 13)) % 64];
}

static inline void push_access(uint64_t kind, uint64_t address, void *word)
{
    mcad_push((uint64_t)(uintptr_t)word | (kind & 0xf) << KIND_SHIFT | (address & ADDRESS_MASK));
}

static void __attribute__((noinline)) on_new_kind(qemu_plugin_meminfo_t info, uint64_t address,
                                                  void *word)
{
    unsigned log2 = qemu_plugin_mem_size_shift(info);
    uint64_t kind = (log2 > 6 ? 6 : log2) | (qemu_plugin_mem_is_store(info) ? KIND_STORE : 0);
    __atomic_store_n(kind_slot(info), (uint64_t)info << 32 | 1ull << 31 | kind, __ATOMIC_RELAXED);
    push_access(kind, address, word);
}

/* An access by a function of QEMU, for an instruction or for the emulator itself. */
static void __attribute__((noinline)) on_helper_access(qemu_plugin_meminfo_t info,
                                                       uint64_t address, void *word)
{
    if (!mcad_signals_foreign(qemu_plugin_mem_size_shift(info), address)) {
        on_new_kind(info, address, word);
    }
}

static void on_access(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *word)
{
    (void)vcpu;
    if (__builtin_expect(mcad_by_emulator(__builtin_return_address(0)), 0)) {
        on_helper_access(info, address, word);
        return;
    }
    uint64_t entry = __atomic_load_n(kind_slot(info), __ATOMIC_RELAXED);
    if (__builtin_expect(entry >> 31 != ((uint64_t)info << 1 | 1), 0)) {
        on_new_kind(info, address, word);
        return;
    }
    push_access(entry, address, word);
}

/* Finds the block's id; sends the block when it is new. */
static bool identify(struct qemu_plugin_tb *tb, size_t count, uint32_t *id)
{
    struct block_key key = {
        .address = qemu_plugin_tb_vaddr(tb),
        .instructions = (uint32_t)count,
        .code = code,
    };
    for (size_t i = 0; i < count; i++) {
        key.last_bytes =
            (uint32_t)qemu_api_copy(qemu_plugin_tb_get_insn(tb, i), code + key.code_bytes,
                                    MAX_INSTRUCTION_BYTES);
        key.code_bytes += key.last_bytes;
    }
    bool added;
    if (!mcad_dict_id(&key, id, &added)) {
        return false;
    }
    if (added) {
        mcad_ring()->next_block = *id + 1;
        uint64_t host = (uint64_t)(uintptr_t)qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, 0));
        mcad_modules_cover(key.address, host != 0 ? host : key.address);
        struct mcad_message_block message = {
            .head.kind = MCAD_MESSAGE_BLOCK,
            .address = key.address,
            .id = *id,
            .instructions = key.instructions,
            .code_bytes = key.code_bytes,
            .last_bytes = key.last_bytes,
        };
        mcad_control(&message.head, sizeof(message), key.code, key.code_bytes);
    }
    return true;
}

static void on_translate(qemu_plugin_id_t plugin, struct qemu_plugin_tb *tb)
{
    (void)plugin;
    size_t count = qemu_plugin_tb_n_insns(tb);
    if (mcad_silent() || count == 0 || count > MAX_INSTRUCTIONS) {
        return;
    }
    pthread_mutex_lock(&mcad_dict_lock);
    uint32_t id;
    bool found = identify(tb, count, &id);
    pthread_mutex_unlock(&mcad_dict_lock);
    if (!found) {
        static bool told;
        if (!told) {
            told = true;
            mcad_notice("out of memory for the block dictionary: new code is not recorded");
        }
        return;
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS,
                                         (void *)(uintptr_t)(TAG_BLOCK | id));
    for (size_t i = 0; with_memory && i < count; i++) {
        qemu_plugin_register_vcpu_mem_cb(
            qemu_plugin_tb_get_insn(tb, i), on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
            (void *)(uintptr_t)(TAG_ACCESS | (uint64_t)i << INDEX_SHIFT));
    }
}

static void on_end(qemu_plugin_id_t plugin, void *udata)
{
    (void)plugin, (void)udata;
    if (!mcad_silent()) {
        __atomic_store_n(&mcad_ring()->ended, 1, __ATOMIC_RELEASE);
    }
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t plugin, const qemu_info_t *info, int argc,
                                    char **argv)
{
    const char *path = NULL;
    int fd = -1;
    unsigned long slot = 0;
    for (int i = 0; i < argc; i++) {
        char *end = NULL;
        if (strncmp(argv[i], "ring=", 5) == 0) {
            path = argv[i] + 5;
        } else if (strncmp(argv[i], "ring-fd=", 8) == 0 &&
                   (fd = (int)strtol(argv[i] + 8, &end, 10)) >= 0 && *end == '\0') {
            continue;
        } else if (strncmp(argv[i], "slot=", 5) == 0) {
            slot = strtoul(argv[i] + 5, NULL, 10);
        } else {
            fprintf(stderr, "mcad plugin: unknown argument '%s' (ring=PATH or ring-fd=N)\n",
                    argv[i]);
            return -1;
        }
    }
    if (path == NULL && fd < 0) {
        fprintf(stderr, "mcad plugin: run it through mcad-run, or give it ring=PATH\n");
        return -1;
    }
    if (info->system_emulation || !mcad_target_choose(info->target_name)) {
        fprintf(stderr,
                "mcad plugin: needs qemu-x86_64, qemu-aarch64, qemu-riscv64 or qemu-riscv32 (user "
                "mode), not %s%s\n",
                info->system_emulation ? "the system emulator for " : "qemu-", info->target_name);
        return -1;
    }
    bool follows;
    if (!mcad_ring_attach(fd, path, slot, info->version.min, info->version.cur,
                          qemu_plugin_version, &follows)) {
        return -1;
    }
    if (follows) {
        mcad_follow_tell();
    }
    mcad_dict_begin(mcad_ring()->next_block);
    with_memory = (mcad_ring()->options & MCAD_RING_MEMORY) != 0;
    mcad_modules_init(follows);
    mcad_signals_init();
    qemu_plugin_register_vcpu_tb_trans_cb(plugin, on_translate);
    mcad_syscalls_register(plugin);
    qemu_plugin_register_atexit_cb(plugin, on_end, NULL);
    return 0;
}
