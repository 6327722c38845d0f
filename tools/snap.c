/*
 * cowbird-snap: reads snapshot files without a virtual machine.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tools/snap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/json.h"
#include "util/suggest.h"
#include "util/units.h"

typedef struct SnapCommand {
    const char *name;
    int (*run)(const SnapOptions *o, GError **errp);
    unsigned n_files;
    bool wants_output;
    const char *arguments;
    const char *help;
} SnapCommand;

static const SnapCommand commands[] = {
    { "info", snap_info, 1, false, "FILE", "who a snapshot is, what it holds and rests on" },
    { "check", snap_check, 1, false, "FILE",
      "verify form and checksum of a snapshot and of all it rests on" },
    { "map", snap_map, 1, false, "FILE",
      "where each run of pages is: in the file, zero, or in the parent" },
    { "compare", snap_compare, 2, false, "FILE FILE",
      "compare the memory of two snapshots page by page" },
    { "flatten", snap_flatten, 1, true, "FILE -o OUTPUT",
      "make one full snapshot out of an increment and its parents" },
};

static const SnapCommand *find_command(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static void unknown_command(const char *name)
{
    const char *valid[G_N_ELEMENTS(commands) + 1] = { NULL };
    g_autofree char *hint = NULL;

    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        valid[i] = commands[i].name;
    }
    hint = suggest_nearest(name, valid);
    error_report("there is no command '%s'%s%s", name, hint ? "; " : "", hint ? hint : "");
}

static char *summary(void)
{
    GString *text = g_string_new("Commands:\n");

    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        g_autofree char *left = g_strdup_printf("%s %s", commands[i].name, commands[i].arguments);

        g_string_append_printf(text, "  %-24s %s\n", left, commands[i].help);
    }
    g_string_append(text, "\nExit status: 0 well (compare: equal), 1 failed (compare: "
                          "different), 2 wrong usage (compare: failed, too).");
    return g_string_free(text, FALSE);
}

SnapshotFile *snap_open(const SnapOptions *o, const char *path, GError **errp)
{
    /* O_NONBLOCK: not to wait for the writer of a pipe. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) {
        error_set_errno(errp, errno, "cannot open snapshot '%s'", path);
        return NULL;
    }
    return snapshot_file_open(fd, path, o->offset, errp);
}

SnapshotChain *snap_open_chain(const SnapOptions *o, const char *path, GError **errp)
{
    g_autoptr(FdStore) fds = fd_store_new();
    SnapshotFile *tip = snap_open(o, path, errp);

    return tip ? snapshot_chain_open(tip, o->parents, fds, errp) : NULL;
}

void snap_print_json(json_object *object)
{
    puts(json_object_to_json_string_ext(object,
                                        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
}

static int run(const SnapCommand *command, const SnapOptions *o)
{
    g_autoptr(GError) err = NULL;
    int status;

    if (o->n_files != command->n_files || command->wants_output != (o->output != NULL)) {
        error_report("usage: cowbird-snap %s %s", command->name, command->arguments);
        return SNAP_USAGE;
    }
    status = command->run(o, &err);
    if (err) {
        error_report("%s", err->message);
    }
    if (status >= 0) {
        return status;
    }
    return command->run == snap_compare ? SNAP_TROUBLE : SNAP_FAILED;
}

/* GLib leaves the command and the files in argv. */
static int run_arguments(int argc, char **argv, SnapOptions *o)
{
    const SnapCommand *command;

    if (argc < 2) {
        error_report("no command; see cowbird-snap --help");
        return SNAP_USAGE;
    }
    command = find_command(argv[1]);
    if (!command) {
        unknown_command(argv[1]);
        return SNAP_USAGE;
    }
    o->files = argv + 2;
    o->n_files = argc - 2;
    return run(command, o);
}

int main(int argc, char **argv)
{
    SnapOptions o = { 0 };
    g_auto(GStrv) parents = NULL;
    g_autofree char *output = NULL, *offset = NULL, *text = summary();
    gboolean json = FALSE, quiet = FALSE;
    const GOptionEntry entries[] = {
        { "json", 'j', 0, G_OPTION_ARG_NONE, &json, "print JSON (info, check, map, compare)",
          NULL },
        { "quiet", 'q', 0, G_OPTION_ARG_NONE, &quiet, "no progress, no list of differences", NULL },
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "the file to write (flatten)", "FILE" },
        { "parent", 'p', 0, G_OPTION_ARG_FILENAME_ARRAY, &parents,
          "a file the snapshot rests on, instead of the path kept in it; may be repeated", "FILE" },
        { "offset", 0, 0, G_OPTION_ARG_STRING, &offset,
          "where in FILE the snapshot begins (libvirt's sparse save files)", "BYTES" },
        { 0 },
    };
    g_autoptr(GOptionContext) context = g_option_context_new("COMMAND FILE...");
    g_autoptr(GError) err = NULL;
    int status;

    g_option_context_set_summary(context, text);
    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &err)) {
        error_report("%s", err->message);
        return SNAP_USAGE;
    }
    if (offset && !size_parse(offset, 0, &o.offset)) {
        error_report("'%s' is not an offset", offset);
        return SNAP_USAGE;
    }
    o.json = json;
    o.quiet = quiet;
    o.output = output;
    o.parents = g_ptr_array_new();
    for (char **p = parents; p && *p; p++) {
        g_ptr_array_add(o.parents, *p);
    }
    status = run_arguments(argc, argv, &o);
    g_ptr_array_unref(o.parents);
    return status;
}
