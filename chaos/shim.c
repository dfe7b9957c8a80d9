/* Stands before libc: counts the calls that touch files, and at the n-th one kills the
 * process, or lets the call fail; or writes down every write, sync and unlink.
 * Python arms it in a forked child through ctypes; unarmed it does nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { OFF, KILL_BEFORE, KILL_AFTER, FAIL, RECORD };
static int mode = OFF, log_fd = -1, error_number;
static long left, seen;
static char folder[PATH_MAX];

void chaos_arm(int how, long nth, int error, int fd, const char *where)
{
    mode = how; left = nth; error_number = error; log_fd = fd; seen = 0;
    snprintf(folder, sizeof folder, "%s", where);
}
long chaos_seen(void) { return seen; }

static int named(const char *path) { return folder[0] && path && strstr(path, folder) != NULL; }
static int opened(int fd, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return named(path);
}
#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* 1: let the call fail */
static int before(void)
{
    seen++;
    if (mode == RECORD || mode == OFF || --left != 0) return 0;
    if (mode == KILL_BEFORE) raise(SIGKILL);
    if (mode == FAIL) { errno = error_number; return 1; }
    return 0;
}
static void after(void)
{
    if (mode == KILL_AFTER && left == 0) raise(SIGKILL);
}
static void put(char kind, const char *path, int64_t place, const void *data, int64_t size)
{
    static ssize_t (*out)(int, const void *, size_t);
    if (!out) out = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    int64_t head[3] = { (int64_t)strlen(path), place, size };
    if (out(log_fd, &kind, 1) < 0 || out(log_fd, head, sizeof head) < 0) return;
    if (out(log_fd, path, head[0]) < 0) return;
    if (size > 0 && data && out(log_fd, data, size) < 0) return;
}
#define WATCHED(fd) char path[PATH_MAX]; int ours = mode != OFF && opened(fd, path)
#define GUARD(failed) if (ours && before()) return failed
#define DONE(kind, place, data, size, ok) do { if (ours) { if (mode == RECORD && (ok)) put(kind, path, place, data, size); after(); } } while (0)

ssize_t write(int fd, const void *data, size_t n)
{
    REAL(write); WATCHED(fd); GUARD(-1);
    off_t place = ours ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t r = real(fd, data, n); DONE('w', place, data, r, r > 0); return r;
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t place)
{
    REAL(pwrite64); WATCHED(fd); GUARD(-1);
    ssize_t r = real(fd, data, n, place); DONE('w', place, data, r, r > 0); return r;
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t place) { return pwrite64(fd, data, n, place); }
ssize_t read(int fd, void *data, size_t n)
{
    REAL(read); WATCHED(fd); GUARD(-1);
    ssize_t r = real(fd, data, n); DONE('r', 0, NULL, 0, 0); return r;
}
ssize_t pread64(int fd, void *data, size_t n, off64_t place)
{
    REAL(pread64); WATCHED(fd); GUARD(-1);
    ssize_t r = real(fd, data, n, place); DONE('r', 0, NULL, 0, 0); return r;
}
ssize_t pread(int fd, void *data, size_t n, off_t place) { return pread64(fd, data, n, place); }
int fsync(int fd)
{
    REAL(fsync); WATCHED(fd); GUARD(-1);
    int r = real(fd); DONE('s', 0, NULL, 0, r == 0); return r;
}
int fdatasync(int fd)
{
    REAL(fdatasync); WATCHED(fd); GUARD(-1);
    int r = real(fd); DONE('s', 0, NULL, 0, r == 0); return r;
}
int ftruncate64(int fd, off64_t size)
{
    REAL(ftruncate64); WATCHED(fd); GUARD(-1);
    int r = real(fd, size); DONE('t', size, NULL, 0, r == 0); return r;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
int unlink(const char *path)
{
    REAL(unlink); int ours = mode != OFF && named(path); GUARD(-1);
    int r = real(path); DONE('u', 0, NULL, 0, r == 0); return r;
}
int flock(int fd, int how)
{
    REAL(flock); WATCHED(fd); GUARD(-1);
    int r = real(fd, how); DONE('l', 0, NULL, 0, 0); return r;
}
int close(int fd)
{
    REAL(close); WATCHED(fd);
    if (ours && mode != FAIL) before();
    int r = real(fd); DONE('c', 0, NULL, 0, 0); return r;
}
static int made(const char *path, int flags) { return (flags & O_CREAT) && access(path, F_OK) != 0; }
#define OPEN(name) \
int name(const char *path, int flags, ...) \
{ \
    REAL(name); mode_t how = 0; \
    if (flags & O_CREAT) { va_list a; va_start(a, flags); how = va_arg(a, mode_t); va_end(a); } \
    int ours = mode != OFF && named(path); GUARD(-1); \
    int fresh = ours && made(path, flags); \
    int r = real(path, flags, how); DONE('n', 0, NULL, 0, r >= 0 && fresh); return r; \
}
OPEN(open)
OPEN(open64)
int fcntl64(int fd, int command, ...)
{
    REAL(fcntl64); va_list a; va_start(a, command); void *argument = va_arg(a, void *); va_end(a);
    int lock = command == F_SETLK || command == F_SETLKW;
    WATCHED(fd); ours = ours && lock; GUARD(-1);
    int r = real(fd, command, argument); DONE('l', 0, NULL, 0, 0); return r;
}
int fcntl(int fd, int command, ...)
{
    va_list a; va_start(a, command); void *argument = va_arg(a, void *); va_end(a);
    return fcntl64(fd, command, argument);
}
