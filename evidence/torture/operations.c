/* Counts the file operations below one folder, of a process and of those that it starts, whichever library makes them,
   and signals their group before one of them. `operations.py` compiles it, preloads it, and shares the memory. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SYNCS 65536

static struct shared {
    long armed, target, signal, count, syncs;
    char folder[PATH_MAX], operation[2 * PATH_MAX], written[PATH_MAX];
    struct { unsigned long inode; long size, seconds, nanoseconds; } synced[SYNCS];
} *shared; /* laid out as `Shared` in operations.py */

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("STAGEWISE_OPERATIONS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory != MAP_FAILED) shared = memory;
        close(file);
    }
}

static void before(const char *what, const char *place) {
    size_t length = strlen(shared->folder);
    if (strncmp(place, shared->folder, length) || (place[length] && place[length] != '/')) return;
    int again = !strcmp(what, "write") && !strcmp(place, shared->written);
    snprintf(shared->written, sizeof shared->written, "%s", strcmp(what, "write") ? "" : place);
    if (again) return; /* what a kill between two of them leaves is what a torn file is */
    if (__sync_fetch_and_add(&shared->count, 1) != shared->target) return;
    snprintf(shared->operation, sizeof shared->operation, "%s %s", what, place[length] ? place + length + 1 : ".");
    kill(0, shared->signal);
}

static void before_at(const char *what, int base, const char *path) {
    char link[64], whole[2 * PATH_MAX];
    if (!shared || !shared->armed || !path) return;
    ssize_t length = 0;
    if (path[0] != '/') {
        snprintf(link, sizeof link, base == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", base);
        if ((length = readlink(link, whole, PATH_MAX - 1)) < 0) return;
        whole[length++] = '/';
    }
    snprintf(whole + length, PATH_MAX, "%s", path);
    int known = errno;
    before(what, whole);
    errno = known;
}

static void before_on(const char *what, int file) {
    char link[64], path[PATH_MAX];
    if (!shared || !shared->armed || file < 0) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    before(what, path);
}

static int synced(int file, int result) {
    struct stat now;
    if (result || !shared || !shared->armed || fstat(file, &now)) return result;
    long place = __sync_fetch_and_add(&shared->syncs, 1) % SYNCS;
    shared->synced[place].inode = now.st_ino;
    shared->synced[place].size = now.st_size;
    shared->synced[place].seconds = now.st_mtim.tv_sec;
    shared->synced[place].nanoseconds = now.st_mtim.tv_nsec;
    return result;
}

#define NEXT(type, name) \
    static type (*next)(); \
    if (!next) next = (type (*)())dlsym(RTLD_NEXT, name)

#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
        NEXT(int, #name); \
        if (flags & WRITES) before_at("open", AT_FDCWD, path); \
        return next(path, flags, mode); \
    }
#define OPENAT(name) \
    int name(int base, const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
        NEXT(int, #name); \
        if (flags & WRITES) before_at("open", base, path); \
        return next(base, path, flags, mode); \
    }
#define ON(type, name, what, parameters, ...) \
    type name parameters { NEXT(type, #name); before_on(what, file); return next(__VA_ARGS__); }
#define AT(name, what, parameters, base, path, ...) \
    int name parameters { NEXT(int, #name); before_at(what, base, path); return next(__VA_ARGS__); }
#define SYNC(name) \
    int name(int file) { NEXT(int, #name); before_on("sync", file); return synced(file, next(file)); }

OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)
ON(ssize_t, write, "write", (int file, const void *data, size_t size), file, data, size)
ON(ssize_t, writev, "write", (int file, const struct iovec *parts, int number), file, parts, number)
ON(ssize_t, pwrite, "write", (int file, const void *data, size_t size, off_t to), file, data, size, to)
ON(ssize_t, pwrite64, "write", (int file, const void *data, size_t size, off64_t to), file, data, size, to)
ON(ssize_t, sendfile, "write", (int file, int from, off_t *start, size_t size), file, from, start, size)
ON(ssize_t, sendfile64, "write", (int file, int from, off64_t *start, size_t size), file, from, start, size)
ON(ssize_t, copy_file_range, "write",
   (int from, off64_t *start, int file, off64_t *to, size_t size, unsigned flags), from, start, file, to, size, flags)
ON(int, ftruncate, "truncate", (int file, off_t size), file, size)
ON(int, ftruncate64, "truncate", (int file, off64_t size), file, size)
SYNC(fsync) SYNC(fdatasync)
AT(truncate, "truncate", (const char *path, off_t size), AT_FDCWD, path, path, size)
AT(truncate64, "truncate", (const char *path, off64_t size), AT_FDCWD, path, path, size)
AT(rename, "rename", (const char *from, const char *to), AT_FDCWD, to, from, to)
AT(renameat, "rename", (int base, const char *from, int other, const char *to), other, to, base, from, other, to)
AT(link, "link", (const char *from, const char *to), AT_FDCWD, to, from, to)
AT(linkat, "link", (int base, const char *from, int other, const char *to, int flags), other, to, base, from, other, to, flags)
AT(symlink, "link", (const char *from, const char *to), AT_FDCWD, to, from, to)
AT(unlink, "remove", (const char *path), AT_FDCWD, path, path)
AT(unlinkat, "remove", (int base, const char *path, int flags), base, path, base, path, flags)
AT(rmdir, "remove", (const char *path), AT_FDCWD, path, path)
AT(mkdir, "mkdir", (const char *path, mode_t mode), AT_FDCWD, path, path, mode)
AT(mkdirat, "mkdir", (int base, const char *path, mode_t mode), base, path, base, path, mode)
