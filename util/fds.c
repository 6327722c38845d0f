/*
 * File descriptors handed to the process by name (getfd) or in numbered sets (add-fd).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "util/error.h"
#include "util/io.h"
#include "util/suggest.h"

#define FDSET_PREFIX "/dev/fdset/"

typedef struct SetMember {
    int fd;
    char *opaque;
} SetMember;

typedef struct FdSet {
    int64_t id;
    GPtrArray *members; /* of SetMember */
} FdSet;

struct FdStore {
    GMutex lock;
    GHashTable *named; /* char * -> GINT_TO_POINTER(fd) */
    GPtrArray *sets;   /* of FdSet, ascending by id */
};

static void set_member_free(void *data)
{
    SetMember *member = data;

    close(member->fd);
    g_free(member->opaque);
    g_free(member);
}

static void fdset_free(void *data)
{
    FdSet *set = data;

    g_ptr_array_unref(set->members);
    g_free(set);
}

static void close_named(void *data)
{
    close(GPOINTER_TO_INT(data));
}

FdStore *fd_store_new(void)
{
    FdStore *store = g_new0(FdStore, 1);

    g_mutex_init(&store->lock);
    store->named = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, close_named);
    store->sets = g_ptr_array_new_with_free_func(fdset_free);
    return store;
}

void fd_store_free(FdStore *store)
{
    if (!store) {
        return;
    }
    g_hash_table_unref(store->named);
    g_ptr_array_unref(store->sets);
    g_mutex_clear(&store->lock);
    g_free(store);
}

bool fd_store_add_named(FdStore *store, const char *name, int fd, GError **errp)
{
    G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->lock);

    if (name[0] == '\0' || g_ascii_isdigit(name[0])) {
        close(fd);
        error_set(errp, "Parameter 'fdname' expects a name not starting with a digit");
        return false;
    }
    g_hash_table_replace(store->named, g_strdup(name), GINT_TO_POINTER(fd));
    return true;
}

static void set_not_found(FdStore *store, const char *name, GError **errp)
{
    g_autofree const char **names =
        (const char **)g_hash_table_get_keys_as_array(store->named, NULL);
    g_autofree char *hint = suggest_nearest(name, names);

    error_set(errp, "File descriptor named '%s' not found%s%s", name, hint ? ": " : "", hint ?: "");
}

int fd_store_take_named(FdStore *store, const char *name, GError **errp)
{
    G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->lock);
    void *key, *value;

    if (!g_hash_table_steal_extended(store->named, name, &key, &value)) {
        set_not_found(store, name, errp);
        return -1;
    }
    g_free(key);
    return GPOINTER_TO_INT(value);
}

bool fd_store_close_named(FdStore *store, const char *name, GError **errp)
{
    G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->lock);

    if (!g_hash_table_remove(store->named, name)) {
        set_not_found(store, name, errp);
        return false;
    }
    return true;
}

int fd_store_get_param(FdStore *store, const char *name_or_number, GError **errp)
{
    guint64 number;

    if (!g_ascii_isdigit(name_or_number[0])) {
        return fd_store_take_named(store, name_or_number, errp);
    }
    if (!g_ascii_string_to_unsigned(name_or_number, 10, 0, G_MAXINT, &number, NULL)) {
        error_set(errp, "Invalid file descriptor number '%s'", name_or_number);
        return -1;
    }
    if (fcntl((int)number, F_GETFD) < 0) {
        error_set_errno(errp, errno, "File descriptor %s was not handed to this process",
                        name_or_number);
        return -1;
    }
    return (int)number;
}

/* The set id; NULL when there is none. *ret_pos (may be NULL) is where it is or belongs. */
static FdSet *find_set(FdStore *store, int64_t id, guint *ret_pos)
{
    guint i;

    for (i = 0; i < store->sets->len; i++) {
        FdSet *set = store->sets->pdata[i];

        if (set->id >= id) {
            break;
        }
    }
    if (ret_pos) {
        *ret_pos = i;
    }
    if (i < store->sets->len && ((FdSet *)store->sets->pdata[i])->id == id) {
        return store->sets->pdata[i];
    }
    return NULL;
}

static int64_t lowest_free_id(FdStore *store)
{
    int64_t id = 0;

    for (guint i = 0; i < store->sets->len; i++) {
        FdSet *set = store->sets->pdata[i];

        if (set->id != id) {
            break;
        }
        id++;
    }
    return id;
}

bool fdset_add(FdStore *store, bool has_id, int64_t id, int fd, const char *opaque, int64_t *ret_id,
               GError **errp)
{
    G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->lock);
    SetMember *member;
    FdSet *set;
    guint pos;

    if (has_id && id < 0) {
        close(fd);
        error_set(errp, "Parameter 'fdset-id' expects a non-negative value");
        return false;
    }
    if (!has_id) {
        id = lowest_free_id(store);
    }
    set = find_set(store, id, &pos);
    if (!set) {
        set = g_new0(FdSet, 1);
        set->id = id;
        set->members = g_ptr_array_new_with_free_func(set_member_free);
        g_ptr_array_insert(store->sets, pos, set);
    }
    member = g_new0(SetMember, 1);
    member->fd = fd;
    member->opaque = g_strdup(opaque);
    g_ptr_array_add(set->members, member);
    if (ret_id) {
        *ret_id = id;
    }
    return true;
}

static bool remove_member(FdSet *set, int64_t fd)
{
    for (guint i = 0; i < set->members->len; i++) {
        SetMember *member = set->members->pdata[i];

        if (member->fd == fd) {
            g_ptr_array_remove_index(set->members, i);
            return true;
        }
    }
    return false;
}

bool fdset_remove(FdStore *store, int64_t id, bool has_fd, int64_t fd, GError **errp)
{
    G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->lock);
    FdSet *set = find_set(store, id, NULL);

    if (!set) {
        error_set(errp, "File descriptor set %" G_GINT64_FORMAT " not found", id);
        return false;
    }
    if (has_fd && !remove_member(set, fd)) {
        error_set(errp, "File descriptor %" G_GINT64_FORMAT " not found in set %" G_GINT64_FORMAT,
                  fd, id);
        return false;
    }
    if (!has_fd || set->members->len == 0) {
        g_ptr_array_remove(store->sets, set);
    }
    return true;
}

bool fdset_is_path(const char *path)
{
    return g_str_has_prefix(path, FDSET_PREFIX);
}

/* The open file of fd has the access mode and O_DIRECT of flags. */
static bool flags_match(int fd, int flags)
{
    const int mask = O_ACCMODE | O_DIRECT;
    int have = fcntl(fd, F_GETFL);

    return have >= 0 && (have & mask) == (flags & mask);
}

static const char *access_name(int flags)
{
    switch (flags & O_ACCMODE) {
    case O_RDONLY:
        return "reading";
    case O_WRONLY:
        return "writing";
    default:
        return "reading and writing";
    }
}

int fdset_open(FdStore *store, const char *path, int flags, GError **errp)
{
    G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->lock);
    FdSet *set = NULL;
    guint64 id;

    if (fdset_is_path(path) &&
        g_ascii_string_to_unsigned(path + strlen(FDSET_PREFIX), 10, 0, G_MAXINT64, &id, NULL)) {
        set = find_set(store, (int64_t)id, NULL);
    }
    if (!set) {
        error_set(errp, "File descriptor set '%s' not found: add it with add-fd", path);
        return -1;
    }
    for (guint i = 0; i < set->members->len; i++) {
        SetMember *member = set->members->pdata[i];
        int fd;

        if (!flags_match(member->fd, flags)) {
            continue;
        }
        fd = fcntl(member->fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0) {
            error_set_errno(errp, errno, "Duplicating a descriptor of '%s' failed", path);
        }
        return fd;
    }
    error_set(errp, "'%s' has no file descriptor opened for %s%s: add one with add-fd", path,
              access_name(flags), flags & O_DIRECT ? " with O_DIRECT" : "");
    return -1;
}

static void set_open_error(GError **errp, int err, const char *path, int flags)
{
    if (err == EWOULDBLOCK) {
        error_set(errp,
                  "Opening '%s' for %s failed: memory of a running virtual machine is mapped from "
                  "it; use another file",
                  path, access_name(flags));
        return;
    }
    if (err == ENXIO) {
        error_set(errp,
                  "Opening '%s' for %s failed: nobody reads this pipe, or its device is not there",
                  path, access_name(flags));
        return;
    }
    error_set_errno(errp, err, "Opening '%s' for %s failed", path, access_name(flags));
}

/* open(2) without waiting for the other end of a pipe or for the holder of a lease, who may be us. */
static int open_at_once(const char *path, int flags, mode_t mode)
{
    int fd;

    do {
        fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, mode);
    } while (fd < 0 && errno == EINTR);
    if (fd >= 0 && !(flags & O_NONBLOCK)) {
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    }
    return fd;
}

int fd_store_open(FdStore *store, const char *path, int flags, mode_t mode, GError **errp)
{
    int fd;

    if (store && fdset_is_path(path)) {
        return fdset_open(store, path, flags, errp);
    }
    fd = open_at_once(path, flags, mode);
    if (fd < 0) {
        set_open_error(errp, errno, path, flags);
    }
    return fd;
}

void fdset_foreach(FdStore *store, FdSetFunc fn, void *user)
{
    G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->lock);

    for (guint i = 0; i < store->sets->len; i++) {
        FdSet *set = store->sets->pdata[i];

        for (guint k = 0; k < set->members->len; k++) {
            SetMember *member = set->members->pdata[k];

            fn(user, set->id, member->fd, member->opaque);
        }
    }
}
