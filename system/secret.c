/*
 * The object "secret": a key or password that a program hands over.
 *
 * libvirt gives every domain one, its master key. Nothing of this program decrypts, so that the bytes are only checked and then
 * wiped: memory that does not hold a secret cannot lose it to a core dump or a snapshot.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/secret.h"

#include "qapi/qapi-types.h"
#include "util/error.h"
#include "util/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_MAX (64 * 1024) /* bytes; keys and passwords are far shorter */
#define WRITER_MS 1000

QOM_DECLARE_FINAL_TYPE(Secret, secret, SECRET, ObjectClass)

struct _Secret {
    Object parent_instance;
    char *data; /* NULL after completion */
    char *file;
    int format; /* SecretFormat */
};

QOM_DEFINE_TYPE(Secret, secret, "secret", TYPE_OBJECT)

static void wipe(char **text)
{
    if (*text) {
        explicit_bzero(*text, strlen(*text));
    }
    g_clear_pointer(text, g_free);
}

/* The letters of RFC 4648 with their padding; line ends may stand between them. */
static bool is_base64(const char *text, size_t len)
{
    size_t letters = 0, padding = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n' || text[i] == '\r') {
            continue;
        }
        if (text[i] == '=') {
            padding++;
        } else if (padding || (!g_ascii_isalnum(text[i]) && text[i] != '+' && text[i] != '/')) {
            return false;
        }
        letters++;
    }
    return letters % 4 == 0 && padding <= 2;
}

static bool check_bytes(const Secret *s, const char *text, size_t len, GError **errp)
{
    if (s->format == SECRET_FORMAT_BASE64 && !is_base64(text, len)) {
        error_set(errp, "the secret is not base64: encode it, or say format=raw");
        return false;
    }
    return true;
}

/* Everything up to the end of a file or pipe, SECRET_MAX + 1 bytes at most; -1 with errno. The caller waits meanwhile. */
static ssize_t read_all(int fd, char *buf)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    size_t len = 0;

    while (len <= SECRET_MAX) {
        ssize_t n = read(fd, buf + len, SECRET_MAX + 1 - len);

        if (n == 0) {
            break;
        }
        if (n > 0) {
            len += n;
        } else if (errno != EAGAIN && errno != EINTR) {
            return -1;
        } else if (poll(&ready, 1, WRITER_MS) == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
    return len;
}

/* Nothing else has an end that could be waited for. */
static int open_file(const char *path, bool *ret_is_pipe, GError **errp)
{
    g_auto(FdHandle) fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        error_set_errno(errp, errno, "cannot read the secret in '%s': give a readable file", path);
        return -1;
    }
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode)) {
        error_set(errp, "'%s' is no regular file and no pipe: a secret cannot be read from it",
                  path);
        return -1;
    }
    *ret_is_pipe = S_ISFIFO(st.st_mode);
    return g_steal_fd(&fd);
}

static bool check_file(const Secret *s, GError **errp)
{
    char buf[SECRET_MAX + 1];
    bool is_pipe = false, ok = false;
    g_auto(FdHandle) fd = open_file(s->file, &is_pipe, errp);
    ssize_t len;

    if (fd < 0) {
        return false;
    }
    len = read_all(fd, buf);
    if (len < 0) {
        error_set_errno(errp, errno, "cannot read the secret in '%s': give a readable file",
                        s->file);
    } else if (len > SECRET_MAX) {
        error_set(errp, "'%s' is longer than a secret can be, %d bytes", s->file, SECRET_MAX);
    } else if (len == 0 && is_pipe) {
        error_set(errp, "nobody writes a secret into the pipe '%s'", s->file);
    } else {
        ok = check_bytes(s, buf, len, errp);
    }
    explicit_bzero(buf, sizeof(buf));
    return ok;
}

static bool secret_complete(Object *obj, GError **errp)
{
    Secret *s = SECRET(obj);
    bool ok = false;

    if (!s->file == !s->data) {
        error_set(errp, "give the secret either as data= or as file=");
    } else {
        ok = s->file ? check_file(s, errp) : check_bytes(s, s->data, strlen(s->data), errp);
    }
    wipe(&s->data);
    return ok;
}

static void secret_finalize(GObject *gobj)
{
    Secret *s = SECRET(gobj);

    wipe(&s->data);
    g_free(s->file);
    G_OBJECT_CLASS(secret_parent_class)->finalize(gobj);
}

static const QomProperty secret_properties[] = {
    { .name = "data",
      .kind = QOM_STRING,
      .offset = offsetof(Secret, data),
      .description = "the secret itself; cannot be read back" },
    { .name = "file",
      .kind = QOM_STRING,
      .offset = offsetof(Secret, file),
      .description = "a file that holds it" },
    { .name = "format",
      .kind = QOM_ENUM,
      .offset = offsetof(Secret, format),
      .enum_type = &qapi_type_SecretFormat,
      .def = SECRET_FORMAT_RAW,
      .description = "how it is written: raw or base64" },
    QOM_PROPERTY_END,
};

static void secret_init(Secret *s)
{
}

static void secret_class_init(SecretClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = secret_finalize;
    OBJECT_CLASS(klass)->user_creatable = true;
    OBJECT_CLASS(klass)->complete = secret_complete;
    qom_class_install(klass, secret_properties);
}

const QomType secret_types[] = {
    { "secret", secret_get_type },
    { .name = NULL },
};
