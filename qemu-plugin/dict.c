/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Open addressing over ids; entries and code are kept for exact comparison, so two blocks never
 * share an id by a collision of their hashes.
 */
#include "dict.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    uint64_t hash;
    struct block_key key; /* its code is the dictionary's own copy */
};

pthread_mutex_t mcad_dict_lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t first_id;
static struct entry *entries; /* by id less first_id */
static uint32_t entry_count;
static uint32_t entry_capacity;
static uint32_t *slots; /* index of the entry plus 1; 0 is empty */
static uint32_t slot_count;

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ (hash >> 29);
}

static uint64_t hash_key(const struct block_key *key)
{
    uint64_t hash = mix(key->address, key->instructions);
    uint32_t at = 0;
    for (; at + 8 <= key->code_bytes; at += 8) {
        uint64_t word;
        memcpy(&word, key->code + at, 8);
        hash = mix(hash, word);
    }
    uint64_t rest = 0;
    memcpy(&rest, key->code + at, key->code_bytes - at);
    return mix(mix(hash, rest), key->code_bytes);
}

static bool same(const struct block_key *a, const struct block_key *b)
{
    return a->address == b->address && a->instructions == b->instructions &&
           a->code_bytes == b->code_bytes && a->last_bytes == b->last_bytes &&
           memcmp(a->code, b->code, a->code_bytes) == 0;
}

/* Keeps the table at most half full. */
static bool grow(void)
{
    if (entry_count == entry_capacity) {
        uint32_t capacity = entry_capacity == 0 ? 4096 : entry_capacity * 2;
        struct entry *bigger = realloc(entries, capacity * sizeof(*bigger));
        if (bigger == NULL) {
            return false;
        }
        entries = bigger;
        entry_capacity = capacity;
    }
    if (entry_count < slot_count / 2) {
        return true;
    }
    uint32_t count = slot_count == 0 ? 8192 : slot_count * 2;
    uint32_t *fresh = calloc(count, sizeof(*fresh));
    if (fresh == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < entry_count; i++) {
        uint32_t at = (uint32_t)entries[i].hash & (count - 1);
        while (fresh[at] != 0) {
            at = (at + 1) & (count - 1);
        }
        fresh[at] = i + 1;
    }
    free(slots);
    slots = fresh;
    slot_count = count;
    return true;
}

void mcad_dict_begin(uint32_t id)
{
    first_id = id;
}

bool mcad_dict_id(const struct block_key *key, uint32_t *id, bool *added)
{
    *added = false;
    if (!grow()) {
        return false;
    }
    uint64_t hash = hash_key(key);
    uint32_t at = (uint32_t)hash & (slot_count - 1);
    for (; slots[at] != 0; at = (at + 1) & (slot_count - 1)) {
        const struct entry *entry = &entries[slots[at] - 1];
        if (entry->hash == hash && same(&entry->key, key)) {
            *id = first_id + slots[at] - 1;
            return true;
        }
    }
    uint8_t *code = malloc(key->code_bytes);
    if (code == NULL) {
        return false;
    }
    memcpy(code, key->code, key->code_bytes);
    *id = first_id + entry_count;
    *added = true;
    entries[entry_count] = (struct entry){.hash = hash, .key = *key};
    entries[entry_count].key.code = code;
    slots[at] = ++entry_count;
    return true;
}
