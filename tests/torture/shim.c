/* What stands between a crawl and its disk: sees every change of a file below $TORTURE_DIR, and can
 * write it down, end the process around it, or let it fail.
 *
 * Loaded with LD_PRELOAD. Most calls arrive through the functions of libc, which are defined again
 * below. Some do not: Rust's `rustix` and libc's own stdio enter the kernel by themselves. For those a
 * seccomp filter raises SIGSYS, and the handler comes to the same place. Calls of our own carry a magic
 * number in the sixth argument, which no call on the list uses; the filter lets those pass.
 *
 * By the environment (the kit's shim.py sets it):
 *   TORTURE_DIR     absolute path; nothing outside of it is looked at
 *   TORTURE_PAGE    a file of 4096 bytes shared by all processes: counters and a lock
 *   TORTURE_RECORD  a directory for one trace a process: every operation with its data, in order
 *   TORTURE_KILL    n: SIGKILL at the n-th moment (before and after each sync and each change of a name;
 *                   with TORTURE_TORN=1 also in the middle of each write)
 *   TORTURE_AT      fnmatch pattern on the moment, such as "after rename journal": only those count
 *   TORTURE_WHOM    "self" ends only the process that came there; otherwise its whole group
 *   TORTURE_LABEL   a file that receives one line about the moment of the kill
 *   TORTURE_FAIL    error number that matching operations fail with
 *   TORTURE_OPS     which: a comma-separated list such as "write,sync"; all if not set
 *   TORTURE_PATH    fnmatch pattern on the path below TORTURE_DIR; all if not set
 *   TORTURE_AFTER   how many matching operations pass first
 *   TORTURE_TIMES   how many fail then; 0 for no end
 *   TORTURE_WHILE   they fail only while this file exists
 *   TORTURE_SHORT   1: a write that fails writes its first half before, as a disk does that becomes full
 *   TORTURE_CONNECT error number that every connection over IP fails with while TORTURE_WHILE exists
 *   TORTURE_CLOCK   seconds by which the wall clock is wrong
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>

#ifndef __x86_64__
#error "the shim knows the system calls of x86-64 only"
#endif

#define MAGIC 0x70b70b5aL
#define LONGEST 1024

/* As recording.py reads them. */
enum { CREATE = 1, RESIZE, WRITE, SYNC, RENAME, UNLINK, MKDIR, RMDIR, LINK, MAPPED };

typedef struct {
    uint64_t sequence;
    uint64_t moments;
    uint64_t failures;
    uint32_t lock;
    uint32_t owner;
} Page;

typedef struct {
    uint64_t sequence;
    uint64_t inode;
    int64_t at; /* offset of a write, new size */
    uint64_t size; /* bytes of data that follow the paths */
    uint32_t kind;
    uint16_t first, second; /* lengths of the two paths */
} __attribute__((packed)) Entry;

static Page *page;
static char root[LONGEST], record[LONGEST], label[LONGEST], flag[LONGEST], pattern[LONGEST], at_moment[LONGEST], ops[256];
static size_t root_length;
static long kill_at, torn, only_self, fail_with, fail_after, fail_times, fail_short, no_network, clock_offset;
static int trace = -1, trace_owner;

static long sys(long number, long a, long b, long c, long d, long e) {
    long answer;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = MAGIC;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return answer;
}

/* -- where a path or a descriptor leads, below the root; NULL if elsewhere */

static const char *below(const char *path) {
    if (!root_length || strncmp(path, root, root_length)) return NULL;
    if (path[root_length] == 0) return path + root_length;
    return path[root_length] == '/' ? path + root_length + 1 : NULL;
}

static const char *path_of(int fd, char *room) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    long size = sys(SYS_readlink, (long)name, (long)room, LONGEST - 1, 0, 0);
    if (size <= 0) return NULL;
    room[size] = 0;
    return below(room);
}

static const char *path_at(int dir, const char *path, char *room) {
    if (!path) return NULL;
    if (path[0] == '/') {
        if (strlen(path) >= LONGEST) return NULL;
        strcpy(room, path);
        return below(room);
    }
    long size;
    if (dir == AT_FDCWD) {
        size = sys(SYS_getcwd, (long)room, LONGEST, 0, 0, 0) - 1;
    } else {
        char name[64];
        snprintf(name, sizeof name, "/proc/self/fd/%d", dir);
        size = sys(SYS_readlink, (long)name, (long)room, LONGEST - 1, 0, 0);
    }
    if (size <= 0 || size + 2 + strlen(path) >= LONGEST) return NULL;
    room[size] = '/';
    strcpy(room + size + 1, path);
    return below(room);
}

static uint64_t inode_of(int fd, int *directory) {
    struct stat facts;
    if (sys(SYS_fstat, fd, (long)&facts, 0, 0, 0) < 0) return 0;
    *directory = S_ISDIR(facts.st_mode);
    return S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode) ? facts.st_ino : 0;
}

/* -- writing down */

static void lock(void) {
    uint32_t me = (uint32_t)sys(SYS_gettid, 0, 0, 0, 0, 0), none = 0;
    for (long turns = 1; !__atomic_compare_exchange_n(&page->lock, &none, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
         turns++) {
        if (turns % 1000 == 0 && sys(SYS_kill, page->owner, 0, 0, 0, 0) == -ESRCH)
            __atomic_compare_exchange_n(&page->lock, &none, 0, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
        none = 0;
        sys(SYS_sched_yield, 0, 0, 0, 0, 0);
    }
    page->owner = (uint32_t)sys(SYS_getpid, 0, 0, 0, 0, 0);
}

static void unlock(void) { __atomic_store_n(&page->lock, 0, __ATOMIC_RELEASE); }

static void put(const void *data, size_t size) {
    const char *next = data;
    while (size) {
        long done = sys(SYS_write, trace, (long)next, (long)size, 0, 0);
        if (done <= 0) return;
        next += done, size -= done;
    }
}

static void note(int kind, uint64_t inode, int64_t at, const char *first, const char *second, const void *data,
                 size_t size) {
    int me = (int)sys(SYS_getpid, 0, 0, 0, 0, 0);
    if (trace < 0 || trace_owner != me) {
        char name[LONGEST + 32];
        snprintf(name, sizeof name, "%s/%d.trace", record, me);
        int fd = (int)sys(SYS_openat, AT_FDCWD, (long)name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644, 0);
        trace = (int)sys(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 700, 0, 0);
        sys(SYS_close, fd, 0, 0, 0, 0);
        trace_owner = me;
    }
    Entry entry = {++page->sequence, inode, at, size, kind, first ? strlen(first) : 0, second ? strlen(second) : 0};
    put(&entry, sizeof entry);
    if (first) put(first, entry.first);
    if (second) put(second, entry.second);
    if (size) put(data, size);
}

/* -- ending and failing */

static void moment(const char *when, const char *what, const char *path) {
    if (!kill_at) return;
    char line[LONGEST + 64];
    int size = snprintf(line, sizeof line, "%s %s %s", when, what, path);
    if (at_moment[0] && fnmatch(at_moment, line, 0)) return;
    long now = (long)__atomic_add_fetch(&page->moments, 1, __ATOMIC_SEQ_CST);
    if (now != kill_at) return;
    if (label[0]) {
        int fd = (int)sys(SYS_openat, AT_FDCWD, (long)label, O_WRONLY | O_CREAT | O_TRUNC, 0644, 0);
        sys(SYS_write, fd, (long)line, size, 0, 0);
        sys(SYS_close, fd, 0, 0, 0, 0);
    }
    sys(SYS_kill, only_self ? sys(SYS_getpid, 0, 0, 0, 0, 0) : 0, SIGKILL, 0, 0, 0);
    for (;;) sys(SYS_pause, 0, 0, 0, 0, 0);
}

static int listed(const char *what) {
    if (!ops[0]) return 1;
    size_t size = strlen(what);
    for (const char *at = ops; (at = strstr(at, what)); at += size)
        if ((at == ops || at[-1] == ',') && (at[size] == ',' || at[size] == 0)) return 1;
    return 0;
}

static int fails(const char *what, const char *path) {
    if (!fail_with || !listed(what)) return 0;
    if (pattern[0] && fnmatch(pattern, path, 0)) return 0;
    if (flag[0] && sys(SYS_access, (long)flag, F_OK, 0, 0, 0) < 0) return 0;
    long count = (long)__atomic_add_fetch(&page->failures, 1, __ATOMIC_SEQ_CST) - fail_after;
    return count > 0 && (!fail_times || count <= fail_times);
}

/* -- the operations */

static long change_name(long number, const char *what, int kind, int dir, const char *from, int other,
                        const char *to, long a, long b, long c, long d, long e) {
    char room[LONGEST], space[LONGEST];
    const char *first = path_at(dir, from, room), *second = to ? path_at(other, to, space) : NULL;
    const char *path = second ? second : first;
    if (!path) return sys(number, a, b, c, d, e);
    if (fails(what, path)) return -fail_with;
    moment("before", what, path);
    if (record[0]) lock();
    long answer = sys(number, a, b, c, d, e);
    if (record[0]) {
        if (answer >= 0) {
            struct stat facts = {0};
            if (kind == MKDIR) sys(SYS_newfstatat, dir, (long)from, (long)&facts, 0, 0);
            note(kind, facts.st_ino, 0, first ? first : "", second ? second : "", NULL, 0);
        }
        unlock();
    }
    moment("after", what, path);
    return answer;
}

static long change_data(long number, int fd, long a, long b, long c, long d, long e) {
    int directory = 0;
    uint64_t inode = root_length ? inode_of(fd, &directory) : 0;
    char room[LONGEST];
    const char *path = inode ? path_of(fd, room) : NULL;
    if (!path) return sys(number, a, b, c, d, e);
    int resize = number == SYS_ftruncate || number == SYS_fallocate;
    int syncs = number == SYS_fsync || number == SYS_fdatasync || number == SYS_sync_file_range;
    const char *what = resize ? "resize" : syncs ? "sync" : "write";
    struct iovec one = {(void *)b, (size_t)c};
    const struct iovec *pieces = number == SYS_writev || number == SYS_pwritev ? (void *)b : &one;
    long count = pieces == &one ? 1 : c;
    if (fails(what, path)) {
        if (fail_short && number == SYS_write && c > 1) return sys(number, a, b, c / 2, d, e);
        return -fail_with;
    }
    if (resize || syncs) moment("before", what, path);
    if (torn && !resize && !syncs && kill_at && (long)page->moments + 1 == kill_at) {
        int half = pieces == &one && c > 1;
        long done = half ? sys(number, a, b, c / 2, d, e) : 0;
        moment("within", what, path);
        /* Still here: another process came first. What is written is written, and the rest is the caller's. */
        if (half && done > 0 && !record[0]) return done;
    } else if (torn && !resize && !syncs) {
        moment("within", what, path);
    }
    if (!record[0]) {
        long answer = sys(number, a, b, c, d, e);
        if (resize || syncs) moment("after", what, path);
        return answer;
    }
    lock();
    long modes = sys(SYS_fcntl, fd, F_GETFL, 0, 0, 0);
    int64_t at = 0;
    if (number == SYS_pwrite64 || number == SYS_pwritev) {
        at = d;
    } else if (number == SYS_write || number == SYS_writev) {
        at = modes & O_APPEND ? -1 : sys(SYS_lseek, fd, 0, SEEK_CUR, 0, 0);
        if (at < 0) {
            struct stat facts;
            sys(SYS_fstat, fd, (long)&facts, 0, 0, 0);
            at = facts.st_size;
        }
    }
    long answer = sys(number, a, b, c, d, e);
    if (answer >= 0 && resize) {
        struct stat facts;
        sys(SYS_fstat, fd, (long)&facts, 0, 0, 0);
        note(RESIZE, inode, facts.st_size, path, NULL, NULL, 0);
    } else if (answer >= 0 && syncs) {
        if (number != SYS_sync_file_range) note(SYNC, inode, directory, path, NULL, NULL, 0);
    } else if (answer > 0) {
        long left = answer;
        for (long i = 0; i < count && left; i++) {
            long size = (long)pieces[i].iov_len < left ? (long)pieces[i].iov_len : left;
            note(WRITE, inode, at, path, NULL, pieces[i].iov_base, size);
            at += size, left -= size;
        }
        if (modes & O_DSYNC) note(SYNC, inode, 0, path, NULL, NULL, 0);
    }
    unlock();
    if (resize || syncs) moment("after", what, path);
    return answer;
}

static long open_file(int dir, const char *path, int modes, mode_t mode) {
    char room[LONGEST];
    const char *where = root_length ? path_at(dir, path, room) : NULL;
    if (!where) return sys(SYS_openat, dir, (long)path, modes, mode, 0);
    if (fails(modes & (O_WRONLY | O_RDWR) ? "open" : "look", where)) return -fail_with;
    if (!(modes & (O_CREAT | O_TRUNC))) return sys(SYS_openat, dir, (long)path, modes, mode, 0);
    if (record[0]) lock();
    struct stat facts = {0};
    int there = sys(SYS_newfstatat, dir, (long)path, (long)&facts, 0, 0) >= 0;
    if (!there) moment("before", "create", where);
    long fd = sys(SYS_openat, dir, (long)path, modes, mode, 0);
    if (record[0]) {
        int directory;
        if (fd >= 0 && !there) note(CREATE, inode_of((int)fd, &directory), 0, where, NULL, NULL, 0);
        if (fd >= 0 && there && modes & O_TRUNC) note(RESIZE, facts.st_ino, 0, where, NULL, NULL, 0);
        unlock();
    }
    if (!there) moment("after", "create", where);
    return fd;
}

static long map_file(long a, long b, long prot, long flags, long fd, long offset) {
    if (record[0] && flags & MAP_SHARED && prot & PROT_WRITE && fd >= 0) {
        int directory;
        uint64_t inode = inode_of((int)fd, &directory);
        char room[LONGEST];
        const char *path = inode ? path_of((int)fd, room) : NULL;
        if (path) {
            lock();
            note(MAPPED, inode, 0, path, NULL, NULL, 0);
            unlock();
        }
    }
    return syscall(SYS_mmap, a, b, prot, flags, fd, offset);
}

static long act(long number, long a, long b, long c, long d, long e) {
    if (!root_length) return sys(number, a, b, c, d, e);
    switch (number) {
    case SYS_rename:
        return change_name(number, "rename", RENAME, AT_FDCWD, (char *)a, AT_FDCWD, (char *)b, a, b, c, d, e);
    case SYS_renameat:
    case SYS_renameat2:
        return change_name(number, "rename", RENAME, (int)a, (char *)b, (int)c, (char *)d, a, b, c, d, e);
    case SYS_link:
        return change_name(number, "link", LINK, AT_FDCWD, (char *)a, AT_FDCWD, (char *)b, a, b, c, d, e);
    case SYS_linkat:
        return change_name(number, "link", LINK, (int)a, (char *)b, (int)c, (char *)d, a, b, c, d, e);
    case SYS_unlink:
        return change_name(number, "unlink", UNLINK, AT_FDCWD, (char *)a, 0, NULL, a, b, c, d, e);
    case SYS_unlinkat:
        return change_name(number, "unlink", c & AT_REMOVEDIR ? RMDIR : UNLINK, (int)a, (char *)b, 0, NULL, a, b, c, d, e);
    case SYS_rmdir:
        return change_name(number, "unlink", RMDIR, AT_FDCWD, (char *)a, 0, NULL, a, b, c, d, e);
    case SYS_mkdir:
        return change_name(number, "mkdir", MKDIR, AT_FDCWD, (char *)a, 0, NULL, a, b, c, d, e);
    case SYS_mkdirat:
        return change_name(number, "mkdir", MKDIR, (int)a, (char *)b, 0, NULL, a, b, c, d, e);
    default:
        return change_data(number, (int)a, a, b, c, d, e);
    }
}

/* -- the two doors: libc's functions, and SIGSYS for those who go past them */

static long told(long answer) {
    if (answer < 0 && answer > -4096) {
        errno = (int)-answer;
        return -1;
    }
    return answer;
}

#define L(x) ((long)(x))
ssize_t write(int fd, const void *b, size_t n) { return told(act(SYS_write, fd, L(b), L(n), 0, 0)); }
ssize_t writev(int fd, const struct iovec *v, int n) { return told(act(SYS_writev, fd, L(v), n, 0, 0)); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t at) { return told(act(SYS_pwrite64, fd, L(b), L(n), at, 0)); }
ssize_t pwrite64(int fd, const void *b, size_t n, off_t at) { return told(act(SYS_pwrite64, fd, L(b), L(n), at, 0)); }
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) { return told(act(SYS_pwritev, fd, L(v), n, at, 0)); }
ssize_t pwritev64(int fd, const struct iovec *v, int n, off_t at) { return told(act(SYS_pwritev, fd, L(v), n, at, 0)); }
int ftruncate(int fd, off_t size) { return (int)told(act(SYS_ftruncate, fd, size, 0, 0, 0)); }
int ftruncate64(int fd, off_t size) { return (int)told(act(SYS_ftruncate, fd, size, 0, 0, 0)); }
int fsync(int fd) { return (int)told(act(SYS_fsync, fd, 0, 0, 0, 0)); }
int fdatasync(int fd) { return (int)told(act(SYS_fdatasync, fd, 0, 0, 0, 0)); }
int sync_file_range(int fd, off_t at, off_t n, unsigned how) { return (int)told(act(SYS_sync_file_range, fd, at, n, how, 0)); }
int fallocate(int fd, int mode, off_t at, off_t n) { return (int)told(act(SYS_fallocate, fd, mode, at, n, 0)); }
int posix_fallocate(int fd, off_t at, off_t n) { return (int)-act(SYS_fallocate, fd, 0, at, n, 0); }
int rename(const char *a, const char *b) { return (int)told(act(SYS_rename, L(a), L(b), 0, 0, 0)); }
int renameat(int x, const char *a, int y, const char *b) { return (int)told(act(SYS_renameat, x, L(a), y, L(b), 0)); }
int renameat2(int x, const char *a, int y, const char *b, unsigned f) { return (int)told(act(SYS_renameat2, x, L(a), y, L(b), f)); }
int link(const char *a, const char *b) { return (int)told(act(SYS_link, L(a), L(b), 0, 0, 0)); }
int linkat(int x, const char *a, int y, const char *b, int f) { return (int)told(act(SYS_linkat, x, L(a), y, L(b), f)); }
int unlink(const char *a) { return (int)told(act(SYS_unlink, L(a), 0, 0, 0, 0)); }
int unlinkat(int x, const char *a, int f) { return (int)told(act(SYS_unlinkat, x, L(a), f, 0, 0)); }
int rmdir(const char *a) { return (int)told(act(SYS_rmdir, L(a), 0, 0, 0, 0)); }
int mkdir(const char *a, mode_t m) { return (int)told(act(SYS_mkdir, L(a), m, 0, 0, 0)); }
int mkdirat(int x, const char *a, mode_t m) { return (int)told(act(SYS_mkdirat, x, L(a), m, 0, 0)); }
void *mmap(void *a, size_t n, int p, int f, int fd, off_t at) { return (void *)map_file(L(a), L(n), p, f, fd, at); }
void *mmap64(void *a, size_t n, int p, int f, int fd, off_t at) { return (void *)map_file(L(a), L(n), p, f, fd, at); }

#define MODE(flags)                                      \
    mode_t mode = 0;                                     \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {             \
        va_list words;                                   \
        va_start(words, flags);                          \
        mode = va_arg(words, mode_t);                    \
        va_end(words);                                   \
    }
int open(const char *path, int flags, ...) { MODE(flags) return (int)told(open_file(AT_FDCWD, path, flags, mode)); }
int open64(const char *path, int flags, ...) { MODE(flags) return (int)told(open_file(AT_FDCWD, path, flags, mode)); }
int openat(int dir, const char *path, int flags, ...) { MODE(flags) return (int)told(open_file(dir, path, flags, mode)); }
int openat64(int dir, const char *path, int flags, ...) { MODE(flags) return (int)told(open_file(dir, path, flags, mode)); }
int creat(const char *path, mode_t mode) { return (int)told(open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode)); }

ssize_t pread(int fd, void *b, size_t n, off_t at) {
    char room[LONGEST];
    const char *path = fail_with && listed("read") ? path_of(fd, room) : NULL;
    if (path && fails("read", path)) return told(-fail_with);
    return told(sys(SYS_pread64, fd, L(b), L(n), at, 0));
}
ssize_t pread64(int fd, void *b, size_t n, off_t at) { return pread(fd, b, n, at); }
ssize_t read(int fd, void *b, size_t n) {
    char room[LONGEST];
    const char *path = fail_with && listed("read") ? path_of(fd, room) : NULL;
    if (path && fails("read", path)) return told(-fail_with);
    return told(sys(SYS_read, fd, L(b), L(n), 0, 0));
}

int connect(int fd, const struct sockaddr *to, socklen_t size) {
    int over_ip = to && (to->sa_family == AF_INET || to->sa_family == AF_INET6);
    if (no_network && over_ip && sys(SYS_access, L(flag), F_OK, 0, 0, 0) >= 0) return (int)told(-no_network);
    return (int)told(sys(SYS_connect, fd, L(to), size, 0, 0));
}

int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int answer = real(which, now);
    if (clock_offset && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) now->tv_sec += clock_offset;
    return answer;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *out, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec, out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

static void trapped(int number, siginfo_t *facts, void *context) {
    (void)number;
    greg_t *words = ((ucontext_t *)context)->uc_mcontext.gregs;
    int kept = errno;
    words[REG_RAX] = act(facts->si_syscall, words[REG_RDI], words[REG_RSI], words[REG_RDX], words[REG_R10], words[REG_R8]);
    errno = kept;
}

static void watch(void) {
    static const int calls[] = {
        SYS_write,  SYS_writev,    SYS_pwrite64, SYS_pwritev, SYS_ftruncate, SYS_fsync,    SYS_fdatasync, SYS_rename,
        SYS_renameat, SYS_renameat2, SYS_link,   SYS_linkat,  SYS_unlink,    SYS_unlinkat, SYS_rmdir,     SYS_mkdir,
        SYS_mkdirat,
    };
    enum { MANY = sizeof calls / sizeof calls[0] };
    struct sigaction how = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    sigaction(SIGSYS, &how, NULL);
    if (prctl(PR_GET_SECCOMP) == 2 && getenv("TORTURE_FILTERED")) return; /* our parent's filter holds for us */
    struct sock_filter rules[MANY + 8];
    int n = 0;
    rules[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    rules[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, MANY + 3);
    rules[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5]));
    rules[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAGIC, MANY + 1, 0);
    rules[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < MANY; i++)
        rules[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], MANY - i, 0);
    rules[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    rules[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    struct sock_fprog program = {(unsigned short)n, rules};
    setenv("TORTURE_FILTERED", "1", 1);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) unsetenv("TORTURE_FILTERED");
}

static void text(const char *name, char *room, size_t size) {
    const char *value = getenv(name);
    if (value && strlen(value) < size) strcpy(room, value);
}

static long value(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

__attribute__((constructor)) static void begin(void) {
    char name[LONGEST] = "";
    clock_offset = value("TORTURE_CLOCK");
    text("TORTURE_PAGE", name, sizeof name);
    int fd = name[0] ? (int)sys(SYS_openat, AT_FDCWD, L(name), O_RDWR | O_CLOEXEC, 0, 0) : -1;
    if (fd < 0) return;
    page = (Page *)syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sys(SYS_close, fd, 0, 0, 0, 0);
    text("TORTURE_RECORD", record, sizeof record);
    text("TORTURE_LABEL", label, sizeof label);
    text("TORTURE_WHILE", flag, sizeof flag);
    text("TORTURE_AT", at_moment, sizeof at_moment);
    text("TORTURE_PATH", pattern, sizeof pattern);
    text("TORTURE_OPS", ops, sizeof ops);
    kill_at = value("TORTURE_KILL"), torn = value("TORTURE_TORN");
    fail_with = value("TORTURE_FAIL"), fail_after = value("TORTURE_AFTER"), fail_times = value("TORTURE_TIMES");
    fail_short = value("TORTURE_SHORT"), no_network = value("TORTURE_CONNECT");
    const char *whom = getenv("TORTURE_WHOM");
    only_self = whom && !strcmp(whom, "self");
    text("TORTURE_DIR", root, sizeof root);
    root_length = strlen(root);
    watch();
}
