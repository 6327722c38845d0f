/*
 * The test's side of the qtest protocol: the process, guest memory and ports, time, interrupts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/qtest/qtest.h"

#include "tests/qtest/qtest-internal.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOC_BASE (2ull << 20)
/* Bytes in one command: lines stay short enough for a log to be read. */
#define PIECE_MAX (256u << 10)

/* --- Lines on a socket --- */

void qtest_link_send(QTestLink *link, const char *text, size_t len)
{
    while (len) {
        ssize_t n = send(link->fd, text, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            g_error("the VMM does not take a command: %s", g_strerror(errno));
        }
        text += n;
        len -= n;
    }
}

/* A line that is there as a whole, without its newline; NULL: none. */
static char *take_line(QTestLink *link)
{
    char *end = memchr(link->input->str + link->searched, '\n', link->input->len - link->searched);
    char *line;

    if (!end) {
        link->searched = link->input->len;
        return NULL;
    }
    line = g_strndup(link->input->str, end - link->input->str);
    g_string_erase(link->input, 0, end - link->input->str + 1);
    link->searched = 0;
    return line;
}

char *qtest_link_read_line(QTestLink *link, bool wait)
{
    char buf[65536], *line;

    while (!(line = take_line(link))) {
        ssize_t n = recv(link->fd, buf, sizeof(buf), wait ? 0 : MSG_DONTWAIT);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN && !wait) {
            return NULL;
        }
        if (n < 0 && errno == EAGAIN) {
            g_error("the VMM has not answered for %d s", QTEST_TIMEOUT_S);
        }
        if (n <= 0) {
            g_error("the VMM has closed its connection: it has ended");
        }
        g_string_append_len(link->input, buf, n);
    }
    return line;
}

static void link_close(QTestLink *link)
{
    close(link->fd);
    g_string_free(link->input, TRUE);
}

/* --- The process --- */

static int listen_at(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_assert_cmpuint(strlen(path), <, sizeof(address.sun_path));
    strcpy(address.sun_path, path);
    unlink(path);
    g_assert_cmpint(bind(fd, (struct sockaddr *)&address, sizeof(address)), ==, 0);
    g_assert_cmpint(listen(fd, 1), ==, 0);
    return fd;
}

static void link_accept(QTest *q, QTestLink *link, int listener)
{
    struct timeval timeout = { .tv_sec = QTEST_TIMEOUT_S };
    GPollFD poll = { .fd = listener, .events = G_IO_IN };
    int status;

    while (g_poll(&poll, 1, 100) <= 0) {
        if (waitpid(q->pid, &status, WNOHANG) == q->pid) {
            g_error("the VMM has ended at its start, wait status 0x%x", status);
        }
    }
    link->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    g_assert_cmpint(link->fd, >=, 0);
    setsockopt(link->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    link->input = g_string_new(NULL);
    link->searched = 0;
    close(listener);
}

static void die_with_test(gpointer opaque)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void spawn(QTest *q, const char *extra)
{
    const char *vmm = g_getenv("COWBIRD_VMM");
    g_autofree char *qtest = g_build_filename(q->folder, "qtest", NULL);
    g_autofree char *qmp = g_build_filename(q->folder, "qmp", NULL);
    g_autofree char *line = NULL;
    g_auto(GStrv) argv = NULL;
    g_autoptr(GError) err = NULL;
    int qtest_listener = listen_at(qtest), qmp_listener = listen_at(qmp);

    if (!vmm) {
        g_error("COWBIRD_VMM must name cowbird-system-x86_64; run this by 'meson test'");
    }
    line = g_strdup_printf("%s -accel qtest -nodefaults -display none -qtest unix:%s -qtest-log %s "
                           "-qmp unix:%s %s %s",
                           vmm, qtest, g_getenv("QTEST_LOG") ? "/dev/stderr" : "none", qmp, q->args,
                           extra);
    g_shell_parse_argv(line, NULL, &argv, &err);
    g_assert_no_error(err);
    g_spawn_async(NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_LEAVE_DESCRIPTORS_OPEN,
                  die_with_test, NULL, &q->pid, &err);
    g_assert_no_error(err);
    link_accept(q, &q->qmp, qmp_listener);
    link_accept(q, &q->protocol, qtest_listener);
    qtest_qmp_greet(q);
}

static void event_free(gpointer event)
{
    json_object_put(event);
}

QTest *qtest_start(const char *format, ...)
{
    QTest *q = g_new0(QTest, 1);
    g_autoptr(GError) err = NULL;
    va_list args;

    va_start(args, format);
    q->args = g_strdup_vprintf(format, args);
    va_end(args);
    q->folder = g_dir_make_tmp("cowbird-qtest-XXXXXX", &err);
    g_assert_no_error(err);
    q->events = g_ptr_array_new_with_free_func(event_free);
    q->next_alloc = ALLOC_BASE;
    spawn(q, "");
    return q;
}

static void end_process(QTest *q)
{
    int status;

    json_object_put(qtest_qmp_ok(q, "{'execute': 'quit'}"));
    while (waitpid(q->pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        g_error("the VMM has ended with wait status 0x%x", status);
    }
    link_close(&q->protocol);
    link_close(&q->qmp);
}

static void remove_folder(const char *folder)
{
    GDir *dir = g_dir_open(folder, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder, name, NULL);

        unlink(path);
    }
    g_dir_close(dir);
    rmdir(folder);
}

void qtest_quit(QTest *q)
{
    end_process(q);
    remove_folder(q->folder);
    g_ptr_array_unref(q->events);
    g_free(q->folder);
    g_free(q->args);
    g_free(q);
}

static bool migration_ended(void *opaque)
{
    json_object *info = qtest_qmp_ok(opaque, "{'execute': 'query-migrate'}");
    json_object *status = json_object_object_get(info, "status");
    const char *text = status ? json_object_get_string(status) : "";
    bool ended = g_str_equal(text, "completed");

    if (g_str_equal(text, "failed")) {
        g_error("migration failed: %s", json_object_to_json_string(info));
    }
    json_object_put(info);
    return ended;
}

static bool incoming_ended(void *opaque)
{
    json_object *info = qtest_qmp_ok(opaque, "{'execute': 'query-status'}");
    const char *status = json_object_get_string(json_object_object_get(info, "status"));
    bool ended = !g_str_equal(status, "inmigrate");

    json_object_put(info);
    return ended;
}

static void save(QTest *q, const char *file)
{
    json_object_put(
        qtest_qmp_ok(q, "{'execute': 'migrate', 'arguments': {'uri': 'file:%s'}}", file));
    qtest_wait_until(migration_ended, q, "the state to be saved");
}

void qtest_save_restore(QTest *q, bool run)
{
    g_autofree char *name = g_strdup_printf("state-%u", q->n_saves++);
    g_autofree char *file = g_build_filename(q->folder, name, NULL);
    g_autofree char *extra = g_strdup_printf("-S -incoming file:%s", file);

    save(q, file);
    end_process(q);
    memset(q->levels, 0, sizeof(q->levels));
    memset(q->raised, 0, sizeof(q->raised));
    g_ptr_array_set_size(q->events, 0);
    spawn(q, extra);
    qtest_wait_until(incoming_ended, q, "the state to be loaded");
    if (run) {
        json_object_put(qtest_qmp_ok(q, "{'execute': 'cont'}"));
    }
}

GPid qtest_pid(const QTest *q)
{
    return q->pid;
}

const char *qtest_folder(const QTest *q)
{
    return q->folder;
}

/* --- The protocol --- */

/* "IRQ raise N" and "IRQ lower N"; false: the line is something else. */
static bool take_irq(QTest *q, const char *line)
{
    char what[8];
    unsigned n;

    if (sscanf(line, "IRQ %7s %u", what, &n) != 2) {
        return false;
    }
    g_assert_cmpuint(n, <, QTEST_IRQ_MAX);
    q->levels[n] = g_str_equal(what, "raise");
    q->raised[n] += q->levels[n];
    return true;
}

void qtest_send(QTest *q, const char *text, size_t len)
{
    qtest_link_send(&q->protocol, text, len);
}

char *qtest_read_line(QTest *q)
{
    char *line;

    while (take_irq(q, line = qtest_link_read_line(&q->protocol, true))) {
        g_free(line);
    }
    return line;
}

static char *command(QTest *q, char *line)
{
    g_autofree char *text = g_strconcat(line, "\n", NULL);

    g_free(line);
    qtest_send(q, text, strlen(text));
    return qtest_read_line(q);
}

char *qtest_command(QTest *q, const char *format, ...)
{
    va_list args;
    char *line;

    va_start(args, format);
    line = g_strdup_vprintf(format, args);
    va_end(args);
    return command(q, line);
}

/* What stands behind "OK "; anything else but OK fails the test. Owned by the caller. */
static char *ask(QTest *q, const char *format, ...) G_GNUC_PRINTF(2, 3);
static char *ask(QTest *q, const char *format, ...)
{
    g_autofree char *answer = NULL;
    va_list args;

    va_start(args, format);
    answer = command(q, g_strdup_vprintf(format, args));
    va_end(args);
    if (!g_str_has_prefix(answer, "OK") || (answer[2] && answer[2] != ' ')) {
        g_error("qtest command failed: %s", answer);
    }
    return g_strdup(answer[2] ? answer + 3 : "");
}

static uint64_t ask_number(QTest *q, const char *name, uint64_t where)
{
    g_autofree char *text = ask(q, "%s 0x%" PRIx64, name, where);

    return g_ascii_strtoull(text, NULL, 0);
}

static void tell(QTest *q, const char *name, uint64_t where, uint64_t value)
{
    g_free(ask(q, "%s 0x%" PRIx64 " 0x%" PRIx64, name, where, value));
}

#define READ(command, type, where_type)              \
    type qtest_##command(QTest *q, where_type where) \
    {                                                \
        return (type)ask_number(q, #command, where); \
    }
#define WRITE(command, type, where_type)                         \
    void qtest_##command(QTest *q, where_type where, type value) \
    {                                                            \
        tell(q, #command, where, value);                         \
    }
READ(readb, uint8_t, uint64_t)
READ(readw, uint16_t, uint64_t)
READ(readl, uint32_t, uint64_t)
READ(readq, uint64_t, uint64_t)
WRITE(writeb, uint8_t, uint64_t)
WRITE(writew, uint16_t, uint64_t)
WRITE(writel, uint32_t, uint64_t)
WRITE(writeq, uint64_t, uint64_t)
READ(inb, uint8_t, uint16_t)
READ(inw, uint16_t, uint16_t)
READ(inl, uint32_t, uint16_t)
WRITE(outb, uint8_t, uint16_t)
WRITE(outw, uint16_t, uint16_t)
WRITE(outl, uint32_t, uint16_t)

void qtest_memread(QTest *q, uint64_t address, void *buf, size_t len)
{
    for (size_t n; len; address += n, len -= n, buf = (char *)buf + n) {
        g_autofree char *text = NULL;
        g_autofree guchar *data = NULL;
        gsize got;

        n = MIN(len, PIECE_MAX);
        text = ask(q, "b64read 0x%" PRIx64 " 0x%zx", address, n);
        data = g_base64_decode(text, &got);
        g_assert_cmpuint(got, ==, n);
        memcpy(buf, data, n);
    }
}

void qtest_memwrite(QTest *q, uint64_t address, const void *buf, size_t len)
{
    for (size_t n; len; address += n, len -= n, buf = (const char *)buf + n) {
        g_autofree char *text = NULL;

        n = MIN(len, PIECE_MAX);
        text = g_base64_encode(buf, n);
        g_free(ask(q, "b64write 0x%" PRIx64 " 0x%zx %s", address, n, text));
    }
}

void qtest_memset(QTest *q, uint64_t address, uint8_t value, size_t len)
{
    g_free(ask(q, "memset 0x%" PRIx64 " 0x%zx 0x%x", address, len, value));
}

uint64_t qtest_alloc(QTest *q, size_t size, size_t align)
{
    uint64_t address = (q->next_alloc + align - 1) & ~(uint64_t)(align - 1);

    q->next_alloc = address + size;
    qtest_memset(q, address, 0, size);
    return address;
}

/* --- Time --- */

int64_t qtest_clock_step(QTest *q, int64_t ns)
{
    g_autofree char *text = ask(q, "clock_step %" PRId64, ns);

    return g_ascii_strtoll(text, NULL, 0);
}

int64_t qtest_clock_step_next(QTest *q)
{
    g_autofree char *text = ask(q, "clock_step");

    return g_ascii_strtoll(text, NULL, 0);
}

int64_t qtest_clock_set(QTest *q, int64_t ns)
{
    g_autofree char *text = ask(q, "clock_set %" PRId64, ns);

    return g_ascii_strtoll(text, NULL, 0);
}

/* --- Interrupts --- */

void qtest_irq_intercept_in(QTest *q, const char *path)
{
    g_free(ask(q, "irq_intercept_in %s", path));
}

void qtest_irq_intercept_out(QTest *q, const char *path)
{
    g_free(ask(q, "irq_intercept_out %s", path));
}

bool qtest_get_irq(QTest *q, unsigned n)
{
    g_free(ask(q, "endianness"));
    return q->levels[n];
}

unsigned qtest_irq_count(QTest *q, unsigned n)
{
    g_free(ask(q, "endianness"));
    return q->raised[n];
}

/* --- Waiting --- */

void qtest_wait_until(bool (*done)(void *opaque), void *opaque, const char *what)
{
    gint64 end = g_get_monotonic_time() + QTEST_TIMEOUT_S * G_TIME_SPAN_SECOND;

    while (!done(opaque)) {
        if (g_get_monotonic_time() > end) {
            g_error("waited %d s for %s", QTEST_TIMEOUT_S, what);
        }
        g_usleep(1000);
    }
}
