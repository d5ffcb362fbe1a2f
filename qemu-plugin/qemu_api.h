/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The part of QEMU's plugin interface that this plugin uses, declared here because no package
 * ships the header. Source: QEMU's include/qemu/qemu-plugin.h, API versions 1 (QEMU 7.2) to 5.
 * Weak: functions that not every supported version has.
 */
#ifndef MCAD_QEMU_API_H
#define MCAD_QEMU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QEMU_EXPORT __attribute__((visibility("default")))
#define QEMU_WEAK __attribute__((weak))

#define QEMU_PLUGIN_CB_NO_REGS 0
#define QEMU_PLUGIN_MEM_RW 3

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

typedef struct qemu_info_t {
    const char *target_name;
    struct {
        int min;
        int cur;
    } version;
    bool system_emulation;
    union {
        struct {
            int smp_vcpus;
            int max_vcpus;
        } system;
    };
} qemu_info_t;

typedef void (*qemu_plugin_udata_cb)(unsigned vcpu, void *udata);
typedef void (*qemu_plugin_mem_cb)(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
                                   void *udata);
typedef void (*qemu_plugin_tb_trans_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*qemu_plugin_exit_cb)(qemu_plugin_id_t id, void *udata);
typedef void (*qemu_plugin_syscall_cb)(qemu_plugin_id_t id, unsigned vcpu, int64_t number,
                                       uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
                                       uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8);
typedef void (*qemu_plugin_syscall_ret_cb)(qemu_plugin_id_t id, unsigned vcpu, int64_t number,
                                           int64_t result);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_tb_trans_cb cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_plugin_udata_cb cb,
                                          int flags, void *udata);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_mem_cb cb,
                                      int flags, int rw, void *udata);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, qemu_plugin_syscall_cb cb);
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t id, qemu_plugin_syscall_ret_cb cb);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_exit_cb cb, void *udata);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);

/* Versions 1 and 2: const void *(insn). From 3: size_t (insn, void *dest, size_t capacity). */
void qemu_plugin_insn_data(void);

/* Version 2 and later only; tells the versions apart. */
QEMU_WEAK void *qemu_plugin_scoreboard_new(size_t element_size);

/* The version that a plugin should ask for. QEMU reads the variable qemu_plugin_version after the
 * library's constructors ran, so one of those can set it. */
static inline int qemu_api_version(void)
{
    return qemu_plugin_scoreboard_new != NULL ? 4 : 1;
}

/* Copies at most `capacity` bytes of an instruction, returns how many. */
static inline size_t qemu_api_copy(const struct qemu_plugin_insn *insn, uint8_t *to,
                                   size_t capacity)
{
    size_t size = qemu_plugin_insn_size(insn);
    size = size < capacity ? size : capacity;
    if (qemu_api_version() >= 3) {
        size_t (*data)(const struct qemu_plugin_insn *, void *, size_t) =
            (size_t (*)(const struct qemu_plugin_insn *, void *, size_t))qemu_plugin_insn_data;
        data(insn, to, size);
    } else {
        const void *(*data)(const struct qemu_plugin_insn *) =
            (const void *(*)(const struct qemu_plugin_insn *))qemu_plugin_insn_data;
        const uint8_t *from = data(insn);
        for (size_t i = 0; i < size; i++) {
            to[i] = from[i];
        }
    }
    return size;
}

#endif
