/*
 * "info ..." in words: what the QMP queries answer, in the lines that users of QEMU's monitor know.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/internal.h"

#include <string.h>

#include "util/json.h"
#include "util/units.h"

/* The answer of a QMP query without arguments; NULL with an error. */
static json_object *query(MonitorSet *set, const char *name, GError **errp)
{
    const QapiCommand *command = human_find_command(set, name, errp);
    json_object *ret = NULL;

    return command && qapi_command_invoke(command, set->env.contexts, NULL, &ret, errp) ? ret
                                                                                        : NULL;
}

static bool get_bool(json_object *obj, const char *key)
{
    json_object *value;

    return json_object_object_get_ex(obj, key, &value) && json_object_get_boolean(value);
}

static int64_t get_int(json_object *obj, const char *key)
{
    json_object *value;

    return json_object_object_get_ex(obj, key, &value) ? json_object_get_int64(value) : 0;
}

/* "VM status: running", as clients of "info status" know it. */
static char *info_status(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                         GError **errp)
{
    g_autoptr(json_object) info = query(opaque, "query-status", errp);
    const char *status = info ? json_get_str(info, "status") : NULL;

    if (!status) {
        return NULL;
    }
    if (get_bool(info, "running")) {
        return g_strdup("VM status: running\r\n");
    }
    if (strcmp(status, "paused") == 0) {
        return g_strdup("VM status: paused\r\n");
    }
    return g_strdup_printf("VM status: paused (%s)\r\n", status);
}

static char *info_version(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                          GError **errp)
{
    g_autoptr(json_object) info = monitor_version();
    json_object *qemu = json_object_object_get(info, "qemu");

    return g_strdup_printf("%d.%d.%d (%s)\r\n", (int)get_int(qemu, "major"),
                           (int)get_int(qemu, "minor"), (int)get_int(qemu, "micro"),
                           json_get_str(info, "package"));
}

static char *info_name(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                       GError **errp)
{
    g_autoptr(json_object) info = query(opaque, "query-name", errp);
    const char *name = info ? json_get_str(info, "name") : NULL;

    return info ? g_strconcat(name ? name : "", name ? "\r\n" : "", NULL) : NULL;
}

static char *info_uuid(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                       GError **errp)
{
    g_autoptr(json_object) info = query(opaque, "query-uuid", errp);

    return info ? g_strconcat(json_get_str(info, "UUID"), "\r\n", NULL) : NULL;
}

static char *info_kvm(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                      GError **errp)
{
    g_autoptr(json_object) info = query(opaque, "query-kvm", errp);

    return info ? g_strdup_printf("kvm support: %s\r\n",
                                  get_bool(info, "enabled") ? "enabled" : "disabled")
                : NULL;
}

static char *info_balloon(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                          GError **errp)
{
    g_autoptr(json_object) info = query(opaque, "query-balloon", errp);

    return info ? g_strdup_printf("balloon: actual=%" PRId64 "\r\n",
                                  get_int(info, "actual") / (int64_t)MiB)
                : NULL;
}

/* A line for each element of the list that a query answers. */
static char *list(MonitorSet *set, const char *name,
                  void (*add)(GString *text, json_object *element), GError **errp)
{
    g_autoptr(json_object) elements = query(set, name, errp);
    GString *text;

    if (!elements) {
        return NULL;
    }
    text = g_string_new(NULL);
    for (size_t i = 0; i < json_object_array_length(elements); i++) {
        add(text, json_object_array_get_idx(elements, i));
    }
    return g_string_free(text, FALSE);
}

static void add_cpu(GString *text, json_object *cpu)
{
    int64_t index = get_int(cpu, "cpu-index");

    g_string_append_printf(text, "%c CPU #%" PRId64 ": thread_id=%" PRId64 "\r\n",
                           index ? ' ' : '*', index, get_int(cpu, "thread-id"));
}

static char *info_cpus(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                       GError **errp)
{
    return list(opaque, "query-cpus-fast", add_cpu, errp);
}

static void add_chardev(GString *text, json_object *chardev)
{
    g_string_append_printf(text, "%s: filename=%s\r\n", json_get_str(chardev, "label"),
                           json_get_str(chardev, "filename"));
}

static char *info_chardev(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                          GError **errp)
{
    return list(opaque, "query-chardev", add_chardev, errp);
}

static void add_iothread(GString *text, json_object *thread)
{
    g_string_append_printf(text, "%s:\r\n  thread_id=%" PRId64 "\r\n", json_get_str(thread, "id"),
                           get_int(thread, "thread-id"));
}

static char *info_iothreads(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                            GError **errp)
{
    return list(opaque, "query-iothreads", add_iothread, errp);
}

const MonitorHumanCommand human_info_commands[] = {
    { "info balloon", "memory that the guest has, in MiB", info_balloon },
    { "info chardev", "the character devices", info_chardev },
    { "info cpus", "the virtual CPUs and their threads", info_cpus },
    { "info iothreads", "the iothreads", info_iothreads },
    { "info kvm", "whether KVM is in use", info_kvm },
    { "info name", "the guest's name", info_name },
    { "info status", "whether the guest runs", info_status },
    { "info uuid", "the machine's UUID", info_uuid },
    { "info version", "the version", info_version },
    { .name = NULL },
};
