/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Block dictionary: the same code at the same address keeps one id however often it is translated.
 */
#ifndef MCAD_PLUGIN_DICT_H
#define MCAD_PLUGIN_DICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block_key {
    uint64_t address;
    uint32_t instructions;
    uint32_t code_bytes;
    uint32_t last_bytes; /* size of the last instruction */
    const uint8_t *code;
};

/* Finds the block's id, or gives it the next one (dense from 0) and sets *added. False when memory
 * is exhausted. Not for use by two threads at once. */
bool mcad_dict_id(const struct block_key *key, uint32_t *id, bool *added);

#endif
