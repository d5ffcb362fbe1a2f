/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Block dictionary: the same code at the same address keeps one id however often it is translated.
 */
#ifndef MCAD_PLUGIN_DICT_H
#define MCAD_PLUGIN_DICT_H

#include <pthread.h>
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

/* Held from the look-up of a block until its definition was sent. */
extern pthread_mutex_t mcad_dict_lock;

/* Ids begin here instead of at 0: those below belong to the program that this one replaced. */
void mcad_dict_begin(uint32_t first_id);

/* Finds the block's id, or gives it the next one (they are dense) and sets *added. False when
 * memory is exhausted. Under mcad_dict_lock. */
bool mcad_dict_id(const struct block_key *key, uint32_t *id, bool *added);

#endif
