/*
 * The three kinds of memory back ends: anonymous memory, a file, a memfd.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/backend-internal.h"

#include "util/error.h"
#include "util/io.h"
#include "util/units.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* --- memory-backend-ram --- */

typedef struct RamBackendRam {
    RamBackend parent_instance;
} RamBackendRam;

typedef struct RamBackendRamClass {
    RamBackendClass parent_class;
} RamBackendRamClass;

QOM_DEFINE_TYPE(RamBackendRam, ram_backend_ram, "memory-backend-ram", TYPE_RAM_BACKEND)

static int new_memfd(const char *name, unsigned flags, uint64_t size, GError **errp)
{
    g_auto(FdHandle) fd = memfd_create(name, MFD_CLOEXEC | flags);
    int got;

    if (fd < 0 || ftruncate(fd, size) < 0) {
        error_set_errno(errp, errno,
                        "RAM block '%s': cannot create a memfd of %" G_GUINT64_FORMAT " MiB", name,
                        size / MiB);
        return -1;
    }
    got = fd;
    fd = -1;
    return got;
}

/* Shared anonymous memory is a memfd, so that pages can be given back by punching holes. */
static RamBlock *map_shared_ram(RamBackend *backend, const char *name, GError **errp)
{
    BackendFile file = { .page_size = sysconf(_SC_PAGESIZE) };

    file.fd = new_memfd(name, 0, ROUND_UP(backend->size, file.page_size), errp);
    return file.fd < 0 ? NULL : ram_backend_map_fd(backend, name, &file, errp);
}

/* Accounting for a mapping is decided when it is made. */
static bool account_for(RamBlock *block, GError **errp)
{
    if (mmap(block->host, block->size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
        error_set_errno(errp, errno,
                        "RAM block '%s': the host does not commit to %" G_GUINT64_FORMAT
                        " MiB (reserve=on)",
                        block->name, block->size / MiB);
        return false;
    }
    return true;
}

static RamBlock *ram_backend_ram_map(RamBackend *backend, const char *name, GError **errp)
{
    g_autoptr(RamBlock) block = NULL;

    if (backend->share) {
        return map_shared_ram(backend, name, errp);
    }
    block = ram_block_new_anonymous(name, backend->size, errp);
    if (!block || (backend->reserve && !account_for(block, errp))) {
        return NULL;
    }
    return g_steal_pointer(&block);
}

static void ram_backend_ram_init(RamBackendRam *backend)
{
}

static void ram_backend_ram_class_init(RamBackendRamClass *klass)
{
    OBJECT_CLASS(klass)->user_creatable = true;
    RAM_BACKEND_CLASS(klass)->map = ram_backend_ram_map;
}

/* --- memory-backend-file --- */

typedef struct RamBackendFile {
    RamBackend parent_instance;
    char *mem_path;
    uint64_t align;
    uint64_t offset;
    bool discard_data;
    bool readonly;
    int discard_fd; /* of the file whose contents are dropped at the end; -1 = none */
} RamBackendFile;

typedef struct RamBackendFileClass {
    RamBackendClass parent_class;
} RamBackendFileClass;

QOM_DEFINE_TYPE(RamBackendFile, ram_backend_file, "memory-backend-file", TYPE_RAM_BACKEND)

/* A folder gives a nameless file, a name that is not there a new one; *ret_new is true then. */
static int open_backing(RamBackendFile *f, bool *ret_new, GError **errp)
{
    struct stat st;
    int fd;

    *ret_new = false;
    if (stat(f->mem_path, &st) == 0 && S_ISDIR(st.st_mode)) {
        *ret_new = true;
        fd = open(f->mem_path, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    } else {
        fd = open(f->mem_path, (f->readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT && !f->readonly) {
            *ret_new = true;
            fd = open(f->mem_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        }
    }
    if (fd < 0) {
        error_set_errno(errp, errno, "mem-path=%s: cannot open it", f->mem_path);
    }
    return fd;
}

static bool size_backing(RamBackendFile *f, int fd, uint64_t end, GError **errp)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        error_set_errno(errp, errno, "mem-path=%s: cannot examine it", f->mem_path);
        return false;
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size >= end) {
        return true;
    }
    if (st.st_size > 0 || f->readonly) {
        error_set(errp, "mem-path=%s has %lld bytes and offset and size ask for %" G_GUINT64_FORMAT,
                  f->mem_path, (long long)st.st_size, end);
        return false;
    }
    if (ftruncate(fd, end) < 0) {
        error_set_errno(errp, errno, "mem-path=%s: cannot make it %" G_GUINT64_FORMAT " bytes long",
                        f->mem_path, end);
        return false;
    }
    return true;
}

/* On hugetlbfs the block size of the file system is the page size. */
static uint64_t file_page_size(int fd)
{
    struct statfs fs;

    if (fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC) {
        return fs.f_bsize;
    }
    return sysconf(_SC_PAGESIZE);
}

static bool check_alignment(RamBackendFile *f, uint64_t page_size, GError **errp)
{
    if (f->offset % page_size) {
        error_set(errp,
                  "mem-path=%s: offset=%" G_GUINT64_FORMAT
                  " is not a multiple of its page size %" G_GUINT64_FORMAT,
                  f->mem_path, f->offset, page_size);
        return false;
    }
    if (f->align & (f->align - 1)) {
        error_set(errp, "mem-path=%s: align=%" G_GUINT64_FORMAT " is not a power of two",
                  f->mem_path, f->align);
        return false;
    }
    return true;
}

static RamBlock *ram_backend_file_map(RamBackend *backend, const char *name, GError **errp)
{
    RamBackendFile *f = (RamBackendFile *)backend;
    bool created;
    g_auto(FdHandle) fd = open_backing(f, &created, errp);
    BackendFile file = {
        .offset = f->offset,
        .align = f->align,
        .readonly = f->readonly,
    };

    if (fd < 0) {
        return NULL;
    }
    file.page_size = file_page_size(fd);
    if (!check_alignment(f, file.page_size, errp) ||
        !size_backing(f, fd, f->offset + ROUND_UP(backend->size, file.page_size), errp)) {
        if (created) {
            (void)unlink(f->mem_path);
        }
        return NULL;
    }
    if (f->discard_data && !f->readonly) {
        f->discard_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
    file.fd = fd;
    fd = -1;
    return ram_backend_map_fd(backend, name, &file, errp);
}

static bool ram_backend_file_complete(Object *obj, GError **errp)
{
    if (!((RamBackendFile *)obj)->mem_path) {
        error_set(errp, "memory-backend-file needs mem-path=FILE or mem-path=FOLDER");
        return false;
    }
    return OBJECT_CLASS(ram_backend_file_parent_class)->complete(obj, errp);
}

/* discard-data=on: pages that were never written back need not be. */
static void ram_backend_file_dispose(GObject *obj)
{
    RamBackendFile *f = (RamBackendFile *)obj;

    if (f->discard_fd >= 0) {
        if (fallocate(f->discard_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, f->offset,
                      f->parent_instance.size) < 0) {
            warn_report("mem-path=%s: cannot discard its data: %s", f->mem_path, g_strerror(errno));
        }
        close_fd(&f->discard_fd);
    }
    G_OBJECT_CLASS(ram_backend_file_parent_class)->dispose(obj);
}

static const QomProperty ram_backend_file_properties[] = {
    { .name = "mem-path",
      .kind = QOM_STRING,
      .offset = offsetof(RamBackendFile, mem_path),
      .description = "the file, or the folder in which a nameless one is made" },
    { .name = "align",
      .kind = QOM_SIZE,
      .offset = offsetof(RamBackendFile, align),
      .description = "alignment of the mapping in bytes" },
    { .name = "offset",
      .kind = QOM_SIZE,
      .offset = offsetof(RamBackendFile, offset),
      .description = "where in the file the memory begins" },
    { .name = "discard-data",
      .kind = QOM_BOOL,
      .offset = offsetof(RamBackendFile, discard_data),
      .description = "the contents need not outlive this process" },
    { .name = "readonly",
      .kind = QOM_BOOL,
      .offset = offsetof(RamBackendFile, readonly),
      .description = "the file is opened for reading only" },
    QOM_PROPERTY_END,
};

static void ram_backend_file_init(RamBackendFile *f)
{
    f->discard_fd = -1;
}

static void ram_backend_file_class_init(RamBackendFileClass *klass)
{
    G_OBJECT_CLASS(klass)->dispose = ram_backend_file_dispose;
    OBJECT_CLASS(klass)->user_creatable = true;
    OBJECT_CLASS(klass)->complete = ram_backend_file_complete;
    RAM_BACKEND_CLASS(klass)->map = ram_backend_file_map;
    qom_class_install(klass, ram_backend_file_properties);
}

/* --- memory-backend-memfd --- */

typedef struct RamBackendMemfd {
    RamBackend parent_instance;
    bool hugetlb;
    uint64_t hugetlbsize;
    bool seal;
} RamBackendMemfd;

typedef struct RamBackendMemfdClass {
    RamBackendClass parent_class;
} RamBackendMemfdClass;

QOM_DEFINE_TYPE(RamBackendMemfd, ram_backend_memfd, "memory-backend-memfd", TYPE_RAM_BACKEND)

static unsigned memfd_flags(const RamBackendMemfd *m)
{
    unsigned flags = m->seal ? MFD_ALLOW_SEALING : 0;

    if (m->hugetlb) {
        flags |= MFD_HUGETLB;
    }
    if (m->hugetlbsize) {
        flags |= (unsigned)__builtin_ctzll(m->hugetlbsize) << MFD_HUGE_SHIFT;
    }
    return flags;
}

static RamBlock *ram_backend_memfd_map(RamBackend *backend, const char *name, GError **errp)
{
    RamBackendMemfd *m = (RamBackendMemfd *)backend;
    uint64_t page = m->hugetlbsize ? m->hugetlbsize : m->hugetlb ? 2 * MiB : 4 * KiB;
    BackendFile file = {
        .fd = new_memfd(name, memfd_flags(m), ROUND_UP(backend->size, page), errp),
    };
    RamBlock *block;

    if (file.fd < 0) {
        return NULL;
    }
    file.page_size = file_page_size(file.fd);
    if (m->seal && fcntl(file.fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
        error_set_errno(errp, errno, "RAM block '%s': cannot seal its memfd", name);
        close(file.fd);
        return NULL;
    }
    block = ram_backend_map_fd(backend, name, &file, errp);
    if (block) {
        block->memfd = true;
    }
    return block;
}

static bool ram_backend_memfd_complete(Object *obj, GError **errp)
{
    RamBackendMemfd *m = (RamBackendMemfd *)obj;

    if (m->hugetlbsize && !m->hugetlb) {
        error_set(errp, "hugetlbsize needs hugetlb=on");
        return false;
    }
    if (m->hugetlbsize & (m->hugetlbsize - 1)) {
        error_set(errp, "hugetlbsize=%" G_GUINT64_FORMAT " is not a power of two", m->hugetlbsize);
        return false;
    }
    return OBJECT_CLASS(ram_backend_memfd_parent_class)->complete(obj, errp);
}

static const QomProperty ram_backend_memfd_properties[] = {
    { .name = "hugetlb",
      .kind = QOM_BOOL,
      .offset = offsetof(RamBackendMemfd, hugetlb),
      .description = "use huge pages of hugetlbfs" },
    { .name = "hugetlbsize",
      .kind = QOM_SIZE,
      .offset = offsetof(RamBackendMemfd, hugetlbsize),
      .description = "their size in bytes; 0 = the host's default" },
    { .name = "seal",
      .kind = QOM_BOOL,
      .offset = offsetof(RamBackendMemfd, seal),
      .def = true,
      .description = "forbid changes of its size" },
    QOM_PROPERTY_END,
};

/* A memfd is there to be shared: another default than the parent class has. */
static void ram_backend_memfd_constructed(GObject *obj)
{
    G_OBJECT_CLASS(ram_backend_memfd_parent_class)->constructed(obj);
    RAM_BACKEND(obj)->share = true;
}

static void ram_backend_memfd_init(RamBackendMemfd *m)
{
}

static void ram_backend_memfd_class_init(RamBackendMemfdClass *klass)
{
    G_OBJECT_CLASS(klass)->constructed = ram_backend_memfd_constructed;
    OBJECT_CLASS(klass)->user_creatable = true;
    OBJECT_CLASS(klass)->complete = ram_backend_memfd_complete;
    RAM_BACKEND_CLASS(klass)->map = ram_backend_memfd_map;
    qom_class_install(klass, ram_backend_memfd_properties);
}
