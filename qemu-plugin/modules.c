/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Modules from /proc/self/maps. Mappings are not chosen by their permissions: pages that hold
 * guest code show as r--p. A mapping is sent when the first block inside it is defined, so data
 * files never are. Neighbours that continue the same file count as one. Anonymous memory is no
 * module, unless it lies where one was that was sent: then it replaces that under the name
 * [anonymous], or the code would be taken for the file's.
 */
#include "modules.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ring.h"

struct mapping {
    uint64_t start, end, offset, inode;
    uint32_t device;
    bool sent;
    char *path;
};

struct map {
    struct mapping *at;
    size_t count, capacity;
};

static struct map emulator;
static struct map guest;
static struct map sent; /* everything sent, overlaps and all */
static bool changed = true; /* atomic */

static char *read_maps(void)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    size_t capacity = 1 << 16, length = 0;
    char *text = malloc(capacity);
    while (text != NULL) {
        if (capacity - length < 8192) {
            capacity *= 2;
            char *bigger = realloc(text, capacity);
            if (bigger == NULL) {
                break;
            }
            text = bigger;
        }
        ssize_t got = read(fd, text + length, capacity - length - 1);
        if (got <= 0) {
            break;
        }
        length += (size_t)got;
    }
    close(fd);
    if (text != NULL) {
        text[length] = '\0';
    }
    return text;
}

/* `start-end perms offset major:minor inode   path`, or false. Cuts the path in place. */
static bool parse_line(char *line, struct mapping *out)
{
    char *at;
    out->start = strtoull(line, &at, 16);
    if (*at != '-') {
        return false;
    }
    out->end = strtoull(at + 1, &at, 16);
    while (*at == ' ') {
        at++;
    }
    at = strchr(at, ' ');
    if (at == NULL) {
        return false;
    }
    out->offset = strtoull(at, &at, 16);
    uint32_t major = (uint32_t)strtoul(at, &at, 16);
    if (*at != ':') {
        return false;
    }
    out->device = major << 20 | (uint32_t)strtoul(at + 1, &at, 16);
    out->inode = strtoull(at, &at, 10);
    while (*at == ' ') {
        at++;
    }
    out->path = at;
    out->sent = false;
    if (*at != '/' || out->inode == 0) {
        out->inode = 0;
        out->path = (char *)"[anonymous]";
    }
    return true;
}

static bool continues(const struct mapping *before, const struct mapping *after)
{
    return before->end == after->start && before->inode == after->inode && after->inode != 0 &&
           before->device == after->device &&
           before->offset + (before->end - before->start) == after->offset;
}

static bool equal(const struct mapping *a, const struct mapping *b)
{
    return a->start == b->start && a->end == b->end && a->offset == b->offset &&
           a->inode == b->inode && a->device == b->device;
}

static const struct mapping *find(const struct map *map, uint64_t host)
{
    for (size_t i = 0; i < map->count; i++) {
        if (host >= map->at[i].start && host < map->at[i].end) {
            return &map->at[i];
        }
    }
    return NULL;
}

static bool overlaps(const struct map *map, const struct mapping *mapping)
{
    for (size_t i = 0; i < map->count; i++) {
        if (mapping->start < map->at[i].end && mapping->end > map->at[i].start) {
            return true;
        }
    }
    return false;
}

static bool append(struct map *map, const struct mapping *mapping)
{
    if (map->count > 0 && continues(&map->at[map->count - 1], mapping)) {
        map->at[map->count - 1].end = mapping->end;
        return true;
    }
    if (map->count == map->capacity) {
        size_t capacity = map->capacity == 0 ? 64 : map->capacity * 2;
        struct mapping *bigger = realloc(map->at, capacity * sizeof(*bigger));
        if (bigger == NULL) {
            return false;
        }
        map->at = bigger;
        map->capacity = capacity;
    }
    struct mapping kept = *mapping;
    kept.path = strdup(mapping->path);
    if (kept.path == NULL) {
        return false;
    }
    map->at[map->count++] = kept;
    return true;
}

static struct map scan(const struct map *exclude)
{
    struct map map = {0};
    char *text = read_maps();
    char *rest = text;
    for (char *line; text != NULL && (line = strsep(&rest, "\n")) != NULL;) {
        struct mapping mapping;
        if (!parse_line(line, &mapping) ||
            (exclude != NULL && find(exclude, mapping.start) != NULL)) {
            continue;
        }
        if (!append(&map, &mapping)) {
            break;
        }
    }
    free(text);
    return map;
}

static void drop(struct map *map)
{
    for (size_t i = 0; i < map->count; i++) {
        free(map->at[i].path);
    }
    free(map->at);
}

void mcad_modules_init(bool follows)
{
    emulator = scan(NULL);
    if (follows) {
        append(&sent, &(struct mapping){.end = UINT64_MAX, .path = (char *)""});
    }
}

bool mcad_modules_emulator(const void *inside, uint64_t *start, uint64_t *end)
{
    const struct mapping *mapping = find(&emulator, (uint64_t)(uintptr_t)inside);
    if (mapping == NULL) {
        return false;
    }
    *start = mapping->start;
    *end = mapping->end;
    return true;
}

void mcad_modules_changed(void)
{
    __atomic_store_n(&changed, true, __ATOMIC_RELAXED);
}

void mcad_modules_cover(uint64_t address, uint64_t host)
{
    if (__atomic_exchange_n(&changed, false, __ATOMIC_RELAXED)) {
        struct map fresh = scan(&emulator);
        for (size_t i = 0; i < fresh.count; i++) {
            const struct mapping *old = find(&guest, fresh.at[i].start);
            fresh.at[i].sent = old != NULL && old->sent && equal(old, &fresh.at[i]);
        }
        drop(&guest);
        guest = fresh;
    }
    struct mapping *mapping = (struct mapping *)find(&guest, host);
    if (mapping == NULL || mapping->sent) {
        return;
    }
    mapping->sent = true;
    if (mapping->inode == 0 && !overlaps(&sent, mapping)) {
        return;
    }
    append(&sent, mapping);
    uint64_t to_guest = address - host;
    size_t length = strnlen(mapping->path, MCAD_RING_PATH_BYTES * 4);
    struct mcad_message_module module = {
        .head.kind = MCAD_MESSAGE_MODULE,
        .start = mapping->start + to_guest,
        .end = mapping->end + to_guest,
        .file_offset = mapping->offset,
        .path_bytes = (uint32_t)length,
    };
    mcad_control(&module.head, sizeof(module), mapping->path, length);
}
