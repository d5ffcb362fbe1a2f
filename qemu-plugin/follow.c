/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Builds `qemu -plugin file=SELF,ring=RING,slot=N [-L …] [-cpu …] [-E LD_…] -0 NAME FILE ARGS…` from the guest's
 * execve(FILE, [NAME, ARGS…], ENV). A script is turned into its interpreter's call first, as the
 * kernel would. Variables of the dynamic loader are meant for the program, not for the emulator,
 * so they go through the emulator's -E.
 */
#define _GNU_SOURCE
#include "follow.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dict.h"
#include "guest.h"
#include "ring.h"
#include "target.h"

#define MAX_INTERPRETERS 5
#define MAX_WORDS (1u << 20)
#define HEAD_BYTES 256

/* A list of words that belong to someone else. */
struct words {
    char **at;
    size_t count, capacity;
    bool failed; /* out of memory */
};

static void add(struct words *words, char *word)
{
    /* One place is kept for the NULL at the end. */
    if (words->count + 1 >= words->capacity) {
        size_t capacity = words->capacity == 0 ? 64 : words->capacity * 2;
        char **bigger = realloc(words->at, capacity * sizeof(*bigger));
        if (bigger == NULL) {
            words->failed = true;
            return;
        }
        words->at = bigger;
        words->capacity = capacity;
    }
    words->at[words->count++] = word;
    words->at[words->count] = NULL;
}

/* The pointers of a guest's vector, NULL at its end. False when they cannot be read. */
static bool add_vector(struct words *words, uint64_t pointer)
{
    for (size_t i = 0; pointer != 0 && i < MAX_WORDS; i++) {
        uint64_t word;
        if (!mcad_guest_read(pointer + i * sizeof(word), &word, sizeof(word))) {
            return false;
        }
        if (word == 0) {
            return true;
        }
        add(words, (char *)(uintptr_t)word);
    }
    return pointer == 0;
}

/* What a program is, and how its interpreters change the call. */
struct target {
    char file[PATH_MAX];
    char scripts[MAX_INTERPRETERS][PATH_MAX];     /* innermost interpreter's script last */
    char arguments[MAX_INTERPRETERS][HEAD_BYTES]; /* of the interpreters; empty: none */
    unsigned depth;
};

/* Reads the head of a file that execve would accept and that runs as well under the emulator. */
static bool read_head(const char *file, char head[HEAD_BYTES + 1])
{
    struct stat status, self;
    if (stat(file, &status) != 0 || stat("/proc/self/exe", &self) != 0 ||
        !S_ISREG(status.st_mode) || (status.st_mode & (S_ISUID | S_ISGID)) != 0 ||
        (status.st_dev == self.st_dev && status.st_ino == self.st_ino) ||
        access(file, X_OK) != 0) {
        return false;
    }
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    memset(head, 0, HEAD_BYTES + 1);
    ssize_t got = read(fd, head, HEAD_BYTES);
    close(fd);
    return got > 4;
}

static bool is_for_target(const char *head)
{
    Elf64_Ehdr elf;
    memcpy(&elf, head, sizeof(elf));
    return memcmp(elf.e_ident, ELFMAG, SELFMAG) == 0 && elf.e_ident[EI_CLASS] == mcad_target->elf_class &&
           elf.e_ident[EI_DATA] == ELFDATA2LSB && elf.e_machine == mcad_target->machine &&
           (elf.e_type == ET_EXEC || elf.e_type == ET_DYN);
}

/* Splits the `#!` line: the interpreter, then all the rest as one argument. */
static bool split_shebang(char *line, char **interpreter, char **argument)
{
    line[strcspn(line, "\n")] = '\0';
    *interpreter = line + strspn(line, " \t");
    char *end = *interpreter + strcspn(*interpreter, " \t");
    *argument = end + strspn(end, " \t");
    *end = '\0';
    for (size_t length = strlen(*argument);
         length > 0 && strchr(" \t", (*argument)[length - 1]) != NULL; length--) {
        (*argument)[length - 1] = '\0';
    }
    return **interpreter != '\0';
}

static bool resolve(uint64_t path, struct target *target)
{
    char head[HEAD_BYTES + 1];
    target->depth = 0;
    if (!mcad_guest_string(path, target->file, sizeof(target->file))) {
        return false;
    }
    while (read_head(target->file, head)) {
        if (is_for_target(head)) {
            return true;
        }
        char *interpreter, *argument;
        if (memcmp(head, "#!", 2) != 0 || target->depth == MAX_INTERPRETERS ||
            !split_shebang(head + 2, &interpreter, &argument)) {
            return false;
        }
        strcpy(target->scripts[target->depth], target->file);
        strcpy(target->arguments[target->depth], argument);
        target->depth++;
        strcpy(target->file, interpreter);
    }
    return false;
}

/* `file=SELF,ring=RING`; a comma in a value is written twice. */
static bool plugin_option(char *to, size_t capacity)
{
    Dl_info self;
    const char *ring = (const char *)mcad_ring()->ring_path;
    if (dladdr((void *)(uintptr_t)mcad_follow, &self) == 0 || access(self.dli_fname, R_OK) != 0 ||
        access(ring, R_OK | W_OK) != 0) {
        return false;
    }
    size_t at = (size_t)snprintf(to, capacity, "file=");
    for (const char *c = self.dli_fname; *c != '\0' && at + 3 < capacity; c++) {
        to[at++] = *c;
        if (*c == ',') {
            to[at++] = ',';
        }
    }
    int rest = snprintf(to + at, capacity - at, ",ring=%s,slot=%u", ring, mcad_ring()->slot);
    return rest > 0 && (size_t)rest < capacity - at;
}

/* Repeats what this emulator was told of the guest's system root and CPU. `text` keeps the words. */
static bool add_own_options(struct words *words, char *text, size_t capacity)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, capacity - 1);
    if (fd >= 0) {
        close(fd);
    }
    if (got <= 0) {
        return false;
    }
    text[got] = '\0';
    /* Each option of ours takes a word; the program's name is the first that is none. */
    char *end = text + got, *name = text + strlen(text) + 1;
    while (name < end && *name == '-') {
        char *value = name + strlen(name) + 1;
        if (value >= end) {
            break;
        }
        if (strcmp(name, "-L") == 0 || strcmp(name, "-cpu") == 0) {
            add(words, name);
            add(words, value);
        }
        name = value + strlen(value) + 1;
    }
    return true;
}

/* Splits the guest's environment into the emulator's and, by -E, the loader's. QEMU cuts the
 * argument of -E at commas. */
static bool split_environment(uint64_t envp, struct words *environment, struct words *options)
{
    struct words all = {0};
    bool good = add_vector(&all, envp);
    for (size_t i = 0; good && i < all.count; i++) {
        uint64_t pointer = (uint64_t)(uintptr_t)all.at[i];
        char name[4] = "", text[4096];
        if (!mcad_guest_read(pointer, name, 3) || strcmp(name, "LD_") != 0) {
            add(environment, all.at[i]);
            continue;
        }
        good = mcad_guest_string(pointer, text, sizeof(text)) && strchr(text, ',') == NULL;
        add(options, (char *)"-E");
        add(options, all.at[i]);
    }
    free(all.at);
    return good && !all.failed;
}

/* The command behind the emulator's options. */
static bool add_command(struct words *words, struct target *target, uint64_t argv)
{
    struct words given = {0};
    bool good = add_vector(&given, argv) && !given.failed;
    add(words, (char *)"-0");
    add(words, target->depth > 0 || given.count == 0 ? target->file : given.at[0]);
    add(words, target->file);
    for (unsigned level = target->depth; level > 0; level--) {
        if (target->arguments[level - 1][0] != '\0') {
            add(words, target->arguments[level - 1]);
        }
        add(words, target->scripts[level - 1]);
    }
    for (size_t i = 1; i < given.count; i++) {
        add(words, given.at[i]);
    }
    free(given.at);
    return good;
}

static void follow(struct target *target, uint64_t argv, uint64_t envp)
{
    char option[2 * PATH_MAX + MCAD_RING_PATH_BYTES];
    char qemu[PATH_MAX], own[2 * PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", qemu, sizeof(qemu) - 1);
    if (length <= 0 || !plugin_option(option, sizeof(option))) {
        return;
    }
    qemu[length] = '\0';
    struct words words = {0}, environment = {0};
    add(&words, qemu);
    add(&words, (char *)"-plugin");
    add(&words, option);
    bool good = add_own_options(&words, own, sizeof(own)) &&
                split_environment(envp, &environment, &words) &&
                add_command(&words, target, argv) && target->file[0] != '-';
    char *nothing[] = {NULL};
    if (good && !words.failed && !environment.failed) {
        pthread_mutex_lock(&mcad_dict_lock);
        mcad_ring_hand_over();
        execve(qemu, words.at, environment.at != NULL ? environment.at : nothing);
        mcad_ring_take_back();
        pthread_mutex_unlock(&mcad_dict_lock);
    }
    free(words.at);
    free(environment.at);
}

void mcad_follow(uint64_t path, uint64_t argv, uint64_t envp)
{
    struct target *target = malloc(sizeof(*target));
    if (target != NULL && resolve(path, target)) {
        follow(target, argv, envp);
    }
    free(target);
}

/* `QEMU options… -0 NAME FILE ARGS…`, as `follow` has put it together: NAME and ARGS. */
void mcad_follow_tell(void)
{
    char text[8192 + 1];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    size_t got = 0;
    for (ssize_t more; fd >= 0 && got < sizeof(text) - 1 &&
                       (more = read(fd, text + got, sizeof(text) - 1 - got)) > 0;) {
        got += (size_t)more;
    }
    if (fd >= 0) {
        close(fd);
    }
    text[got] = '\0';
    const char *end = text + got, *at = text;
    bool named = false;
    while (at < end && !named) {
        named = strcmp(at, "-0") == 0;
        at += strnlen(at, (size_t)(end - at)) + 1;
    }
    if (at >= end) {
        at = end;
    }
    /* The file lies between the name and the arguments. */
    size_t name = strnlen(at, (size_t)(end - at));
    const char *file = at + name < end ? at + name + 1 : end;
    size_t gap = strnlen(file, (size_t)(end - file)) + 1;
    const char *arguments = (size_t)(end - file) > gap ? file + gap : end;
    size_t rest = (size_t)(end - arguments);
    if (file < end) {
        memmove((char *)file, arguments, rest);
    }
    size_t bytes = (size_t)(file - at) + rest;
    struct mcad_message_command command = {
        .head.kind = MCAD_MESSAGE_COMMAND,
        .text_bytes = (uint32_t)bytes,
    };
    mcad_control(&command.head, sizeof(command), at, bytes);
}
