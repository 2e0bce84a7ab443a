/*
 * Simulates disk failures: loaded with LD_PRELOAD, it makes the k-th call that writes to a database's files fail.
 *
 *   FAIL_IO_PREFIX  path prefix of the affected files
 *   FAIL_IO_AT      number of the call that fails, from 1; 0: none
 *   FAIL_IO_ERRNO   errno of the failure
 *   FAIL_IO_EVER    if set, all later calls fail too
 *   FAIL_IO_COUNT   file to which the number of calls is written when the process exits
 *
 * The bundled SQLite calls these functions through libc, so the definitions here take precedence.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;

static int is_affected(int fd) {
    const char *prefix = getenv("FAIL_IO_PREFIX");
    if (prefix == NULL) return 0;
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length < 0) return 0;
    name[length] = '\0';
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Counts a call and returns whether it should fail. */
static int should_fail(int fd) {
    if (!is_affected(fd)) return 0;
    long nth = atomic_fetch_add(&calls, 1) + 1;
    const char *at = getenv("FAIL_IO_AT"), *number = getenv("FAIL_IO_ERRNO");
    long first = at == NULL ? 0 : atol(at);
    if (first == 0 || nth < first) return 0;
    if (nth > first && getenv("FAIL_IO_EVER") == NULL) return 0;
    errno = number == NULL ? EIO : atoi(number);
    return 1;
}

__attribute__((destructor)) static void write_count(void) {
    const char *path = getenv("FAIL_IO_COUNT");
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    if (file == NULL) return;
    fprintf(file, "%ld\n", atomic_load(&calls));
    fclose(file);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t length) {
    return should_fail(fd) ? -1 : REAL(write)(fd, bytes, length);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    return should_fail(fd) ? -1 : REAL(pwrite)(fd, bytes, length, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
    return should_fail(fd) ? -1 : REAL(pwrite64)(fd, bytes, length, offset);
}

int fsync(int fd) { return should_fail(fd) ? -1 : REAL(fsync)(fd); }

int fdatasync(int fd) { return should_fail(fd) ? -1 : REAL(fdatasync)(fd); }

int ftruncate(int fd, off_t length) { return should_fail(fd) ? -1 : REAL(ftruncate)(fd, length); }

int ftruncate64(int fd, off64_t length) { return should_fail(fd) ? -1 : REAL(ftruncate64)(fd, length); }
