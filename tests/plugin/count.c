/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Counts executed guest instructions in the plainest way there is, as a measure for mcad's own
 * count: one callback per instruction that starts to execute, no blocks, no ring.
 *
 * Rule (docs/COUNTING.md): executing the same rep string instruction again with no other
 * instruction of the thread in between is an iteration of it, not another instruction.
 *
 * At a regular end of the process that it was loaded into (not of its forks) it writes to the file
 * of the argument out=PATH:
 *     instructions N     by the rule
 *     executions N       callbacks, iterations included
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../qemu-plugin/qemu_api.h"

#define MAX_VCPUS 4096

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_udata_cb cb,
                                            int flags, void *udata);

QEMU_EXPORT int qemu_plugin_version = 1;

/* Threads that run at the same time have different vCPU indexes. */
static struct {
    uint64_t instructions;
    uint64_t executions;
    uint64_t last_rep; /* address of the last instruction if that is a rep, else 0 */
    uint8_t pad[40];
} counts[MAX_VCPUS];

static char out[4096];
static pid_t owner;

__attribute__((constructor)) static void choose_version(void)
{
    qemu_plugin_version = qemu_api_version();
}

static void on_instruction(unsigned vcpu, void *unused)
{
    (void)unused;
    counts[vcpu % MAX_VCPUS].executions++;
    counts[vcpu % MAX_VCPUS].instructions++;
    counts[vcpu % MAX_VCPUS].last_rep = 0;
}

static void on_rep(unsigned vcpu, void *address)
{
    counts[vcpu % MAX_VCPUS].executions++;
    if (counts[vcpu % MAX_VCPUS].last_rep != (uint64_t)(uintptr_t)address) {
        counts[vcpu % MAX_VCPUS].instructions++;
        counts[vcpu % MAX_VCPUS].last_rep = (uint64_t)(uintptr_t)address;
    }
}

/* Prefixes, one of them F2 or F3, before movs, cmps, stos, lods, scas, ins or outs. */
static bool is_rep(const struct qemu_plugin_insn *insn)
{
    uint8_t bytes[16] = {0};
    size_t size = qemu_api_copy(insn, bytes, sizeof(bytes));
    bool repeats = false;
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = bytes[i];
        if (byte == 0xf2 || byte == 0xf3) {
            repeats = true;
        } else if (byte != 0x66 && byte != 0x67 && (byte & 0xf0) != 0x40 && byte != 0x2e &&
                   byte != 0x36 && byte != 0x3e && byte != 0x26 && byte != 0x64 && byte != 0x65) {
            return repeats && ((byte >= 0xa4 && byte <= 0xa7) || (byte >= 0xaa && byte <= 0xaf) ||
                               (byte >= 0x6c && byte <= 0x6f));
        }
    }
    return false;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        bool rep = is_rep(insn);
        qemu_plugin_register_vcpu_insn_exec_cb(
            insn, rep ? on_rep : on_instruction, QEMU_PLUGIN_CB_NO_REGS,
            rep ? (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn) : NULL);
    }
}

static void on_end(qemu_plugin_id_t id, void *udata)
{
    (void)id, (void)udata;
    if (getpid() != owner) {
        return;
    }
    uint64_t instructions = 0, executions = 0;
    for (size_t i = 0; i < MAX_VCPUS; i++) {
        instructions += counts[i].instructions;
        executions += counts[i].executions;
    }
    FILE *file = fopen(out, "w");
    if (file != NULL) {
        fprintf(file, "instructions %" PRIu64 "\nexecutions %" PRIu64 "\n", instructions,
                executions);
        fclose(file);
    }
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                    char **argv)
{
    (void)info;
    if (argc != 1 || strncmp(argv[0], "out=", 4) != 0 || strlen(argv[0] + 4) >= sizeof(out)) {
        fprintf(stderr, "count plugin: needs out=PATH\n");
        return -1;
    }
    strcpy(out, argv[0] + 4);
    owner = getpid();
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    qemu_plugin_register_atexit_cb(id, on_end, NULL);
    return 0;
}
