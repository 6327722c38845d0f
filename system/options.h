/*
 * The command line: one table of options, each read as JSON or key=value through the schema's types.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_OPTIONS_H
#define COWBIRD_SYSTEM_OPTIONS_H

#include "qapi/qapi-types.h"
#include "util/uuid.h"

#include <json-c/json.h>

typedef struct SystemOptions SystemOptions;

/* How the argument of an option is kept. */
typedef enum OptionStore {
    OPTION_FLAG,    /* bool, no argument */
    OPTION_STRING,  /* char *, the last one counts, but see firm */
    OPTION_STRINGS, /* GPtrArray * of char * */
    OPTION_NONE,    /* char *: only "none" is accepted, reason says why */
    OPTION_REFUSED, /* always an error, reason says why; told to nobody who asks for the options */
    OPTION_MERGED, /* several add up to one value: a structure of type, or json_object * without type */
    OPTION_LIST, /* GPtrArray * of structures of type, or of json_object * without type */
} OptionStore;

typedef struct OptionSpec {
    const char *name; /* without '-' */
    OptionStore store;
    size_t offset;        /* of the field in SystemOptions */
    const QapiType *type; /* what the argument must be; NULL: checked by who uses it */
    const char *implied;  /* key of a first value without key */
    /* Text to JSON where it is not plain JSON or key=value; NULL: it is. */
    json_object *(*parse)(const char *text, const char *implied, GError **errp);
    const char *reason;   /* OPTION_NONE, OPTION_REFUSED: why nothing else, and what to do */
    const char *firm;     /* OPTION_STRING: a value that another one does not replace */
    const char *argument; /* for the help text */
    const char *help;
} OptionSpec;

/* Ended by a line without name. */
extern const OptionSpec option_table[];

/* What the command line says. Fields are named after the options. */
struct SystemOptions {
    bool version, help;
    NameOptions *name;
    json_object *machine;
    GPtrArray *accel; /* of AccelOptions */
    char *cpu;
    MemorySizeConfiguration *m;
    SMPConfiguration *smp;
    char *kernel, *initrd, *append;
    GPtrArray *serial;  /* of char * */
    GPtrArray *chardev; /* of json_object */
    GPtrArray *mon;     /* of MonitorOptions */
    GPtrArray *qmp;     /* of char * */
    char *monitor;
    GPtrArray *object; /* of ObjectOptions */
    GPtrArray *device; /* of json_object */
    GPtrArray *global; /* of GlobalOptions */
    char *incoming;
    bool stopped, nodefaults, no_user_config, nographic, daemonize, no_shutdown, no_reboot, no_acpi,
        no_hpet;
    char *display;
    char *pidfile;
    char *uuid;
    RtcOptions *rtc;
    BootConfiguration *boot;
    MsgOptions *msg;
    ActionOptions *action;
    OvercommitOptions *overcommit;
    SandboxOptions *sandbox;
    GPtrArray *add_fd;   /* of AddFdOptions */
    GPtrArray *audiodev; /* of AudiodevOptions */
    char *log_items, *log_file;
    char *qtest, *qtest_log;
};

/* Reads argv[1] and on. An unknown option, member or value is an error that names the nearest. */
SystemOptions *system_options_parse(char **argv, GError **errp);
void system_options_free(SystemOptions *o);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SystemOptions, system_options_free)

#endif
