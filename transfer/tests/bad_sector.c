/* A disk with a bad sector: reads of the file GULAR_BAD_FILE that touch byte GULAR_BAD_BYTE fail, until
   that byte is written. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_repaired = 0;

static int is_bad(int fd, size_t len, off_t at) {
    const char *file = getenv("GULAR_BAD_FILE"), *byte = getenv("GULAR_BAD_BYTE");
    char link[64], path[4096];
    ssize_t n;
    if (!file || !byte || is_repaired || atoll(byte) < at || atoll(byte) >= at + (off_t)len) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return strcmp(path, file) == 0;
}

ssize_t pread64(int fd, void *to, size_t len, off_t at) {
    ssize_t (*real)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, "pread64");
    if (is_bad(fd, len, at)) {
        errno = EIO;
        return -1;
    }
    return real(fd, to, len, at);
}

ssize_t pwrite64(int fd, const void *from, size_t len, off_t at) {
    ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite64");
    int bad = is_bad(fd, len, at);
    ssize_t n = real(fd, from, len, at);
    if (bad && n >= 0) is_repaired = 1;
    return n;
}
