/* Attacks on the memory through which it is traced, by every name in /proc that leads there:
   shrink: makes the file shorter, under the reader's hands. forge PID: writes that process into the
   rings as the one that is traced, then waits to be ended. Prints how often it tried, and how often
   it had success. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int tried, done;
static uint32_t forged;

static void shrink(int fd) {
    done += ftruncate(fd, 0) == 0;
    done += ftruncate(fd, 4096) == 0;
}

/* producer_pid of struct mcad_ring_header, in the first ring. */
static void forge(int fd) {
    char *ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED)
        return;
    memcpy(ring + 132, &forged, sizeof forged);
    munmap(ring, 4096);
    done++;
}

static void attack(const char *path) {
    char target[256];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return;
    target[n] = 0;
    int fd = strstr(target, "mcad-ring") ? open(path, O_RDWR) : -1;
    if (fd < 0)
        return;
    tried++;
    forged ? forge(fd) : shrink(fd);
    close(fd);
}

static void attack_all(const char *process, const char *names) {
    char path[512];
    snprintf(path, sizeof path, "/proc/%s/%s", process, names);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(path, sizeof path, "/proc/%s/%s/%s", process, names, e->d_name);
        attack(path);
    }
    if (dir)
        closedir(dir);
}

int main(int argc, char **argv) {
    char parent[16];
    snprintf(parent, sizeof parent, "%d", getppid());
    if (argc > 2)
        forged = (uint32_t)atoi(argv[2]);
    attack_all("self", "fd");
    attack_all("self", "map_files");
    attack_all(parent, "fd");
    attack_all(parent, "map_files");
    printf("%d tried, %d done\n", tried, done);
    fflush(stdout);
    while (forged)
        sleep(1);
    return 7;
}
