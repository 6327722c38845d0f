/*
 * Whole migrations through the commands' functions: files, pipes, failures, cancelling.
 *
 * There is no guest: RAM, one device and a run state stand for the machine.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/unit/snapshot-fixture.h"

#include <signal.h>

#include "accel/runstate.h"
#include "migration/internal.h"
#include "migration/migration.h"
#include "qapi/qapi-commands.h"
#include "util/fds.h"
#include "util/io.h"
#include "vmstate/registry.h"

#define RAM_SIZE (4 * MiB)

typedef struct Device {
    uint64_t value;
    uint8_t *writes_to; /* a page of RAM, or NULL */
} Device;

static const VMStateField device_fields[] = {
    VMSTATE_UINT64(value, Device),
    VMSTATE_END_OF_LIST(),
};

/* As a device may: its last words go to guest RAM while its state is read. */
static void device_pre_save(void *opaque)
{
    Device *d = opaque;

    if (d->writes_to) {
        memset(d->writes_to, 0x77, 4096);
    }
}

static const VMStateDescription vmstate_device = { .name = "device",
                                                   .version_id = 1,
                                                   .minimum_version_id = 1,
                                                   .pre_save = device_pre_save,
                                                   .fields = device_fields };

typedef struct World {
    RamList *ram;
    VMStateRegistry *vmstate;
    RunStateControl *runstate;
    FdStore *fds;
    QapiEventSink sink;
    MemoryControl control;
    MigrationState *migration;
    Device device;
    GString *events; /* names and states, a space after each */
    uint8_t cpu;     /* first byte of the CPU's digest */
    GError *incoming_error;
    bool incoming_ended;
    bool fail_quiesce;
} World;

static void keep_event(void *opaque, const char *name, json_object *data)
{
    World *w = opaque;
    const char *status = data ? json_get_str(data, "status") : NULL;

    g_string_append_printf(w->events, "%s ", status ? status : name);
    json_object_put(data);
}

static bool hook_quiesce(void *opaque, GError **errp)
{
    World *w = opaque;

    g_assert_false(runstate_is_running(w->runstate));
    if (w->fail_quiesce) {
        error_set(errp, "the disk does not answer");
    }
    return !w->fail_quiesce;
}

static bool hook_digest(void *opaque, uint8_t ret[MIGRATION_CPU_DIGEST_LEN], GError **errp)
{
    memset(ret, ((World *)opaque)->cpu, MIGRATION_CPU_DIGEST_LEN);
    return true;
}

static void hook_incoming_done(void *opaque, const GError *err, bool exit_wanted)
{
    World *w = opaque;

    w->incoming_ended = true;
    w->incoming_error = err ? g_error_copy(err) : NULL;
}

static World *world_new(uint64_t ram_size)
{
    static const MigrationHooks hooks = { .quiesce = hook_quiesce,
                                          .cpu_digest = hook_digest,
                                          .incoming_done = hook_incoming_done };
    World *w = g_new0(World, 1);
    MigrationEnv env;
    g_autoptr(GError) err = NULL;

    w->sink = (QapiEventSink){ .send = keep_event, .opaque = w };
    w->events = g_string_new(NULL);
    w->ram = fixture_ram(ram_size);
    w->vmstate = vmstate_registry_new();
    w->runstate = runstate_new(&w->sink);
    w->fds = fd_store_new();
    w->cpu = 1;
    g_assert_true(vmstate_register(w->vmstate, "device", 0, 0, &vmstate_device, &w->device, NULL));
    env = (MigrationEnv){ .ram = w->ram,
                          .vmstate = w->vmstate,
                          .runstate = w->runstate,
                          .fds = w->fds,
                          .events = &w->sink,
                          .memory = &w->control,
                          .machine_type = TEST_MACHINE,
                          .autostart = true,
                          .hooks = hooks };
    env.hooks.opaque = w;
    w->migration = migration_new(&env, &err);
    g_assert_no_error(err);
    g_assert_true(migration_set_global(w->migration, "events", "on", NULL));
    return w;
}

static World *world_running(void)
{
    World *w = world_new(RAM_SIZE);

    fixture_write(w->ram, 3, 5);
    w->device.value = 0xfeedface;
    g_assert_true(runstate_start(w->runstate, NULL));
    g_string_truncate(w->events, 0);
    return w;
}

static void world_free(World *w)
{
    migration_free(w->migration);
    runstate_free(w->runstate);
    vmstate_unregister(w->vmstate, NULL, &w->device);
    vmstate_registry_free(w->vmstate);
    fd_store_free(w->fds);
    ram_list_free(w->ram);
    g_clear_error(&w->incoming_error);
    g_string_free(w->events, TRUE);
    g_free(w);
}

static void wait_save(World *w)
{
    while (w->migration->save) {
        g_main_context_iteration(NULL, TRUE);
    }
}

static bool migrate(World *w, const char *uri, GError **errp)
{
    MigrateArg arg = { .uri = (char *)uri };

    return qmp_migrate(w->migration, &arg, errp);
}

static void save_to(World *w, const char *uri)
{
    g_autoptr(GError) err = NULL;

    migrate(w, uri, &err);
    g_assert_no_error(err);
    wait_save(w);
}

static World *load_world(const char *uri, uint64_t ram_size, uint8_t cpu)
{
    World *w = world_new(ram_size);
    g_autoptr(GError) err = NULL;

    w->cpu = cpu;
    runstate_set(w->runstate, RUN_STATE_INMIGRATE);
    if (!migration_incoming(w->migration, uri, &err)) {
        w->incoming_error = g_steal_pointer(&err);
        return w;
    }
    while (!w->incoming_ended) {
        g_main_context_iteration(NULL, TRUE);
    }
    return w;
}

static void assert_loaded(World *w, const World *from)
{
    g_autoptr(GByteArray) want = fixture_copy(from->ram);

    g_assert_no_error(w->incoming_error);
    fixture_assert_same(w->ram, want);
    g_assert_cmphex(w->device.value, ==, from->device.value);
}

static void assert_refused(const char *uri, uint64_t ram_size, uint8_t cpu, const char *text)
{
    World *w = load_world(uri, ram_size, cpu);

    g_assert_nonnull(w->incoming_error);
    if (!strstr(w->incoming_error->message, text)) {
        g_error("'%s' is not in '%s'", text, w->incoming_error->message);
    }
    g_assert_false(runstate_is_running(w->runstate));
    world_free(w);
}

typedef struct TestFile {
    char *folder, *path, *uri;
} TestFile;

static void test_file_new(TestFile *f)
{
    f->folder = fixture_folder();
    f->path = g_build_filename(f->folder, "snapshot", NULL);
    f->uri = g_strdup_printf("file:%s", f->path);
}

static void test_file_clear(TestFile *f)
{
    fixture_remove_folder(f->folder);
    g_free(f->folder);
    g_free(f->path);
    g_free(f->uri);
}

static void test_file(void)
{
    World *from = world_running(), *to;
    TestFile f;

    test_file_new(&f);
    save_to(from, f.uri);
    g_assert_cmpstr(from->events->str, ==, "setup active MIGRATION_PASS STOP completed ");
    g_assert_cmpint(runstate_get(from->runstate), ==, RUN_STATE_POSTMIGRATE);
    to = load_world(f.uri, RAM_SIZE, 1);
    assert_loaded(to, from);
    g_assert_true(runstate_is_running(to->runstate));
    g_assert_cmpstr(to->events->str, ==, "setup active RESUME completed ");
    world_free(to);
    world_free(from);
    test_file_clear(&f);
}

/* Device state first, RAM last: what reading the devices wrote is in the snapshot. */
static void test_ram_is_captured_last(void)
{
    World *from = world_running(), *to;
    TestFile f;

    test_file_new(&f);
    from->device.writes_to = ram_list_get(from->ram, 0)->host + 5 * 4096;
    save_to(from, f.uri);
    to = load_world(f.uri, RAM_SIZE, 1);
    assert_loaded(to, from);
    g_assert_cmphex(ram_list_get(to->ram, 0)->host[5 * 4096], ==, 0x77);
    world_free(to);
    world_free(from);
    test_file_clear(&f);
}

/* A guest that was paused when it was saved stays paused. */
static void test_paused_stays_paused(void)
{
    World *from = world_running(), *to;
    TestFile f;

    test_file_new(&f);
    runstate_stop(from->runstate, RUN_STATE_PAUSED);
    save_to(from, f.uri);
    to = load_world(f.uri, RAM_SIZE, 1);
    g_assert_no_error(to->incoming_error);
    g_assert_cmpint(runstate_get(to->runstate), ==, RUN_STATE_PAUSED);
    world_free(to);
    world_free(from);
    test_file_clear(&f);
}

static void test_wrong_machine(void)
{
    World *from = world_running();
    TestFile f;

    test_file_new(&f);
    save_to(from, f.uri);
    assert_refused(f.uri, 2 * RAM_SIZE, 1, "same -m");
    assert_refused(f.uri, RAM_SIZE, 2, "another CPU");
    world_free(from);
    test_file_clear(&f);
}

static void test_incoming_missing(void)
{
    assert_refused("file:/nonexistent", RAM_SIZE, 1, "/nonexistent");
    assert_refused("file:/dev/null", RAM_SIZE, 1, "migration stream");
    assert_refused("exec:exit 3", RAM_SIZE, 1, "");
    assert_refused("nfs:x", RAM_SIZE, 1, "unknown migration address");
}

/* --- Pipes: one end in each world --- */

typedef struct PipeReader {
    int fd;
    GByteArray *bytes;
} PipeReader;

static void *drain(void *opaque)
{
    PipeReader *r = opaque;
    uint8_t buf[65536];
    ssize_t n;

    while ((n = read(r->fd, buf, sizeof(buf))) > 0) {
        g_byte_array_append(r->bytes, buf, n);
    }
    close(r->fd);
    return NULL;
}

static GByteArray *save_to_pipe(World *w)
{
    PipeReader r = { .bytes = g_byte_array_new() };
    GThread *thread;
    int fds[2];

    g_assert_cmpint(pipe2(fds, O_CLOEXEC), ==, 0);
    r.fd = fds[0];
    g_assert_true(fd_store_add_named(w->fds, "out", fds[1], NULL));
    thread = g_thread_new("drain", drain, &r);
    save_to(w, "fd:out");
    g_thread_join(thread);
    return r.bytes;
}

static void *feed(void *opaque)
{
    PipeReader *r = opaque;

    write_full(r->fd, r->bytes->data, r->bytes->len, NULL);
    close(r->fd);
    return NULL;
}

/* "fd:N" of a pipe that a thread fills. */
static World *load_from_pipe(GByteArray *bytes)
{
    PipeReader r = { .bytes = bytes };
    g_autofree char *uri = NULL;
    GThread *thread;
    World *w;
    int fds[2];

    g_assert_cmpint(pipe2(fds, O_CLOEXEC), ==, 0);
    r.fd = fds[1];
    thread = g_thread_new("feed", feed, &r);
    uri = g_strdup_printf("fd:%d", fds[0]);
    w = load_world(uri, RAM_SIZE, 1);
    g_thread_join(thread);
    return w;
}

static void test_pipe(void)
{
    World *from = world_running(), *to;
    g_autoptr(GByteArray) bytes = save_to_pipe(from);

    g_assert_cmpint(from->migration->report.status, ==, MIGRATION_STATUS_COMPLETED);
    to = load_from_pipe(bytes);
    assert_loaded(to, from);
    world_free(to);
    world_free(from);
}

static void assert_pipe_refused(GByteArray *bytes)
{
    World *w = load_from_pipe(bytes);

    g_assert_nonnull(w->incoming_error);
    world_free(w);
}

static void test_damaged_pipe(void)
{
    World *from = world_running();
    g_autoptr(GByteArray) bytes = save_to_pipe(from);
    guint len = bytes->len;

    /* The last 3000 bytes hold device state and description, the first ones the heads. */
    for (guint pos = 0; pos < len; pos += pos < 100 || pos > len - 3000 ? 7 : 300000) {
        GByteArray part = { .data = bytes->data, .len = pos };

        assert_pipe_refused(&part);
        if (pos < 100 || pos > len - 3000) {
            bytes->data[pos] ^= 0x10;
            assert_pipe_refused(bytes);
            bytes->data[pos] ^= 0x10;
        }
    }
    world_free(from);
}

static void test_reader_leaves(void)
{
    World *w = world_running();
    int fds[2];

    g_assert_cmpint(pipe2(fds, O_CLOEXEC), ==, 0);
    g_assert_true(fd_store_add_named(w->fds, "out", fds[1], NULL));
    g_assert_true(migrate(w, "fd:out", NULL));
    close(fds[0]);
    wait_save(w);
    g_assert_cmpint(w->migration->report.status, ==, MIGRATION_STATUS_FAILED);
    g_assert_nonnull(strstr(w->migration->report.error, "reader has left"));
    g_assert_true(runstate_is_running(w->runstate));
    world_free(w);
}

static void note_cancelled(void *opaque, json_object *ret, GError *error)
{
    World *w = opaque;

    g_assert_null(ret);
    g_assert_null(error);
    /* From now on the guest may be told to run. */
    g_assert_cmpint(w->migration->report.status, ==, MIGRATION_STATUS_CANCELLED);
    g_string_append(w->events, "answered ");
}

static void cancel(World *w)
{
    g_assert_true(qmp_migrate_cancel(w->migration, qapi_reply_new(note_cancelled, w), NULL));
}

static void test_cancel(void)
{
    World *w = world_running();
    g_autoptr(GError) err = NULL;
    int fds[2];

    g_assert_cmpint(pipe2(fds, O_CLOEXEC), ==, 0);
    g_assert_true(fd_store_add_named(w->fds, "out", fds[1], NULL));
    g_assert_true(migrate(w, "fd:out", NULL));
    g_assert_false(migrate(w, "file:/x", &err));
    g_assert_nonnull(strstr(err->message, "running already"));
    while (w->migration->report.status != MIGRATION_STATUS_ACTIVE) {
        g_main_context_iteration(NULL, TRUE);
    }
    cancel(w);
    cancel(w);
    wait_save(w);
    /* RESUME only where the kernel cannot watch writes, and the guest was stopped. */
    g_assert_true(g_str_has_suffix(w->events->str, "cancelled answered answered "));
    g_assert_true(runstate_is_running(w->runstate));
    close(fds[0]);
    world_free(w);
}

/* The command of exec: is ended too, however long it would take. */
static void test_cancel_command(void)
{
    World *w = world_running();

    g_assert_true(migrate(w, "exec:sleep 1000 | cat", NULL));
    while (w->migration->report.status != MIGRATION_STATUS_ACTIVE) {
        g_main_context_iteration(NULL, TRUE);
    }
    cancel(w);
    wait_save(w);
    g_assert_cmpint(w->migration->report.status, ==, MIGRATION_STATUS_CANCELLED);
    world_free(w);
}

/* The process ends while nobody reads: no thread is left, nothing hangs. */
static void test_freed_while_running(void)
{
    World *w = world_running();
    int fds[2];

    g_assert_cmpint(pipe2(fds, O_CLOEXEC), ==, 0);
    g_assert_true(fd_store_add_named(w->fds, "out", fds[1], NULL));
    g_assert_true(migrate(w, "fd:out", NULL));
    world_free(w);
    close(fds[0]);
}

/* --- Failures that leave everything as it was --- */

static void test_failed_quiesce(void)
{
    World *w = world_running();
    TestFile f;

    test_file_new(&f);
    w->fail_quiesce = true;
    save_to(w, f.uri);
    g_assert_cmpint(w->migration->report.status, ==, MIGRATION_STATUS_FAILED);
    g_assert_cmpstr(w->migration->report.error, ==, "the disk does not answer");
    g_assert_true(runstate_is_running(w->runstate));
    g_assert_false(g_file_test(f.path, G_FILE_TEST_EXISTS));
    world_free(w);
    test_file_clear(&f);
}

static void assert_migrate_error(World *w, const char *uri, const char *text)
{
    g_autoptr(GError) err = NULL;

    g_assert_false(migrate(w, uri, &err));
    if (!strstr(err->message, text)) {
        g_error("'%s' is not in '%s'", text, err->message);
    }
    g_assert_true(runstate_is_running(w->runstate));
    g_assert_cmpint(w->events->len, ==, 0);
}

static void test_refused(void)
{
    World *w = world_running();
    MigrationParameters set = { .has_ram_save_mode = true,
                                .ram_save_mode = RAM_SAVE_MODE_INCREMENTAL };

    assert_migrate_error(w, "file:/nonexistent/x", "/nonexistent");
    assert_migrate_error(w, "fd:nosuch", "nosuch");
    assert_migrate_error(w, "file:/tmp", "not a regular file");
    migration_add_blocker(w->migration, w, "a device cannot be saved");
    assert_migrate_error(w, "file:/x", "a device cannot be saved");
    migration_remove_blocker(w->migration, w);
    g_assert_true(qmp_migrate_set_parameters(w->migration, &set, NULL));
    assert_migrate_error(w, "file:/x", "not restored from a snapshot");
    world_free(w);
}

static void test_failed_connection(void)
{
    World *w = world_running();

    save_to(w, "unix:/nonexistent/socket");
    g_assert_cmpint(w->migration->report.status, ==, MIGRATION_STATUS_FAILED);
    save_to(w, "exec:cat > /dev/null; exit 5");
    g_assert_nonnull(strstr(w->migration->report.error, "status 5"));
    g_assert_true(runstate_is_running(w->runstate));
    world_free(w);
}

/* --- Increments --- */

static void test_increment(void)
{
    MigrationParameters set = { .has_ram_save_mode = true,
                                .ram_save_mode = RAM_SAVE_MODE_INCREMENTAL };
    World *base = world_running(), *clone, *last;
    g_autofree char *delta = NULL;
    g_autoptr(GError) err = NULL;
    TestFile f;

    test_file_new(&f);
    delta = g_strdup_printf("file:%s/delta", f.folder);
    save_to(base, f.uri);
    clone = load_world(f.uri, RAM_SIZE, 1);
    fixture_write(clone->ram, 50, 77);
    clone->device.value = 4711;
    g_assert_false(migrate(clone, f.uri, &err));
    g_assert_nonnull(strstr(err->message, "mapped from"));
    g_assert_true(qmp_migrate_set_parameters(clone->migration, &set, NULL));
    save_to(clone, delta);
    g_assert_cmpint(clone->migration->report.status, ==, MIGRATION_STATUS_COMPLETED);
    last = load_world(delta, RAM_SIZE, 1);
    assert_loaded(last, clone);
    g_assert_cmpuint(last->migration->origin.info.sequence, ==, 1);
    world_free(last);
    world_free(clone);
    world_free(base);
    test_file_clear(&f);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/migration-job/file", test_file);
    g_test_add_func("/migration-job/paused-stays-paused", test_paused_stays_paused);
    g_test_add_func("/migration-job/t32-ram-is-captured-last", test_ram_is_captured_last);
    g_test_add_func("/migration-job/t43-wrong-machine", test_wrong_machine);
    g_test_add_func("/migration-job/incoming-missing", test_incoming_missing);
    g_test_add_func("/migration-job/pipe", test_pipe);
    g_test_add_func("/migration-job/damaged-pipe", test_damaged_pipe);
    g_test_add_func("/migration-job/reader-leaves", test_reader_leaves);
    g_test_add_func("/migration-job/cancel", test_cancel);
    g_test_add_func("/migration-job/cancel-command", test_cancel_command);
    g_test_add_func("/migration-job/freed-while-running", test_freed_while_running);
    g_test_add_func("/migration-job/failed-quiesce", test_failed_quiesce);
    g_test_add_func("/migration-job/refused", test_refused);
    g_test_add_func("/migration-job/failed-connection", test_failed_connection);
    g_test_add_func("/migration-job/t40-increment-not-onto-its-base", test_increment);
    return g_test_run();
}
