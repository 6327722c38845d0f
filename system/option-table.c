/*
 * The one table of command-line options.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/options.h"

#include "util/error.h"
#include "util/json.h"
#include "util/keyval.h"

#include <string.h>

/* A size of -m without a suffix is in MiB, as users of QEMU know it. */
static void add_mib_suffix(json_object *dict, const char *key)
{
    const char *text = json_get_str(dict, key);

    if (text && *text && strspn(text, "0123456789") == strlen(text)) {
        g_autofree char *size = g_strconcat(text, "M", NULL);

        json_add_str(dict, key, size);
    }
}

/* The key that the schema calls max-size is maxmem on QEMU's command line. */
static json_object *parse_memory(const char *text, const char *implied, GError **errp)
{
    json_object *dict = keyval_or_json_parse(text, implied, errp);
    json_object *maxmem;

    if (dict) {
        if (json_object_object_get_ex(dict, "maxmem", &maxmem)) {
            json_object_object_add(dict, "max-size", json_object_get(maxmem));
            json_object_object_del(dict, "maxmem");
        }
        add_mib_suffix(dict, "size");
        add_mib_suffix(dict, "max-size");
    }
    return dict;
}

/* "driver.property=value", or its long form with keys. */
static json_object *parse_global(const char *text, const char *implied, GError **errp)
{
    const char *equal = strchr(text, '=');
    const char *dot = strchr(text, '.');
    g_autofree char *driver = NULL;
    g_autofree char *property = NULL;
    json_object *dict;

    if (*text == '{' || g_str_has_prefix(text, "driver=")) {
        return keyval_or_json_parse(text, NULL, errp);
    }
    if (!equal || !dot || dot > equal || dot == text || dot + 1 == equal) {
        error_set(errp, "'%s' is not of the form DRIVER.PROPERTY=VALUE", text);
        return NULL;
    }
    driver = g_strndup(text, dot - text);
    property = g_strndup(dot + 1, equal - dot - 1);
    dict = json_object_new_object();
    json_add_str(dict, "driver", driver);
    json_add_str(dict, "property", property);
    json_add_str(dict, "value", equal + 1);
    return dict;
}

#define FIELD(name) offsetof(SystemOptions, name)

/* What users of QEMU, and libvirt, may ask for and cannot have: one message that says so. */
#define REFUSED(option, text)                  \
    {                                          \
        option, OPTION_REFUSED, .reason = text \
    }
#define NO_DISKS "there are no disks; take them out of the configuration and boot a -kernel"
#define NO_NETWORK "there are no network devices; take them out of the configuration"
#define NO_GRAPHICS "there are no graphics; take them out of the configuration"

const OptionSpec option_table[] = {
    { "name", OPTION_MERGED, FIELD(name), &qapi_type_NameOptions, "guest", .argument = "NAME",
      .help = "name of the guest" },
    { "machine", OPTION_MERGED, FIELD(machine), .implied = "type",
      .argument = "TYPE[,PROPERTY=VALUE...]", .help = "machine type and its properties ('help')" },
    { "accel", OPTION_LIST, FIELD(accel), &qapi_type_AccelOptions, "accel", .argument = "NAME",
      .help = "accelerator: kvm, or qtest for tests of devices" },
    { "cpu", OPTION_STRING, FIELD(cpu), .argument = "MODEL[,+FLAG,-FLAG...]",
      .help = "CPU model: host, max, base or one by name, and flags ('help')" },
    { "m", OPTION_MERGED, FIELD(m), &qapi_type_MemorySizeConfiguration, "size", parse_memory,
      .argument = "SIZE", .help = "guest RAM, in MiB unless a suffix says otherwise" },
    { "smp", OPTION_MERGED, FIELD(smp), &qapi_type_SMPConfiguration, "cpus",
      .argument = "N[,sockets=S][,dies=D][,cores=C][,threads=T]", .help = "virtual CPUs" },
    { "kernel", OPTION_STRING, FIELD(kernel), .argument = "FILE",
      .help = "kernel to boot: bzImage, or ELF with a PVH entry" },
    { "initrd", OPTION_STRING, FIELD(initrd), .argument = "FILE", .help = "initial RAM disk" },
    { "append", OPTION_STRING, FIELD(append), .argument = "TEXT", .help = "kernel command line" },
    { "serial", OPTION_STRINGS, FIELD(serial), .argument = "CHARDEV",
      .help = "serial port on none, null, stdio, pty, file:PATH, unix:PATH..., chardev:ID" },
    { "chardev", OPTION_LIST, FIELD(chardev), .implied = "backend", .argument = "KIND,id=ID...",
      .help = "character device: null, stdio, file, pty, socket, pipe, ringbuf" },
    { "mon", OPTION_LIST, FIELD(mon), &qapi_type_MonitorOptions, "chardev",
      .argument = "ID,mode=control[,pretty=on]", .help = "QMP on a character device" },
    { "qmp", OPTION_STRINGS, FIELD(qmp), .argument = "CHARDEV",
      .help = "QMP on stdio, unix:PATH,server=on,wait=off, ..." },
    { "monitor", OPTION_NONE, FIELD(monitor), .argument = "none",
      .reason = "there is no monitor for people; use -qmp", .help = "accepted as 'none' only" },
    { "object", OPTION_LIST, FIELD(object), &qapi_type_ObjectOptions, "qom-type",
      .argument = "TYPE,id=ID[,PROPERTY=VALUE...]", .help = "object, e.g. a memory backend" },
    { "device", OPTION_LIST, FIELD(device), .implied = "driver",
      .argument = "TYPE[,id=ID][,PROPERTY=VALUE...]", .help = "device ('help', 'TYPE,help')" },
    { "global", OPTION_LIST, FIELD(global), &qapi_type_GlobalOptions, NULL, parse_global,
      .argument = "DRIVER.PROPERTY=VALUE",
      .help = "default of a property; migration.NAME=VALUE sets migration parameters" },
    /* libvirt restores with "defer", whatever the domain was started from (docs/libvirt.rst). */
    { "incoming", OPTION_STRING, FIELD(incoming), .firm = "defer", .argument = "URI",
      .help = "load a state: file:PATH[,offset=N], fd:N, exec:COMMAND, unix:PATH, tcp:H:P, defer" },
    { "S", OPTION_FLAG, FIELD(stopped), .help = "do not start the virtual CPUs" },
    { "nodefaults", OPTION_FLAG, FIELD(nodefaults), .help = "no devices but those asked for" },
    { "no-user-config", OPTION_FLAG, FIELD(no_user_config),
      .help = "accepted: there is no configuration file" },
    { "audiodev", OPTION_LIST, FIELD(audiodev), &qapi_type_AudiodevOptions, "driver",
      .argument = "none,id=ID", .help = "accepted as 'none' only: there are no sound devices" },
    { "display", OPTION_NONE, FIELD(display), .argument = "none", .reason = "there are no graphics",
      .help = "accepted as 'none' only" },
    { "nographic", OPTION_FLAG, FIELD(nographic),
      .help = "first serial port on stdio unless -serial or -nodefaults is given" },
    { "daemonize", OPTION_FLAG, FIELD(daemonize), .help = "go to the background once started" },
    { "pidfile", OPTION_STRING, FIELD(pidfile), .argument = "FILE",
      .help = "write the process id there" },
    { "uuid", OPTION_STRING, FIELD(uuid), .argument = "UUID", .help = "UUID of the machine" },
    { "rtc", OPTION_MERGED, FIELD(rtc), &qapi_type_RtcOptions,
      .argument = "[base=utc|localtime|DATE][,clock=host|rt|vm][,driftfix=none|slew]",
      .help = "real-time clock" },
    { "boot", OPTION_MERGED, FIELD(boot), &qapi_type_BootConfiguration, "order",
      .argument = "[order=LETTERS][,menu=on|off][,strict=on|off]", .help = "boot order" },
    { "msg", OPTION_MERGED, FIELD(msg), &qapi_type_MsgOptions,
      .argument = "[timestamp=on|off][,guest-name=on|off]", .help = "form of messages" },
    { "no-shutdown", OPTION_FLAG, FIELD(no_shutdown),
      .help = "stay when the guest powers itself off (-action shutdown=pause)" },
    { "no-reboot", OPTION_FLAG, FIELD(no_reboot),
      .help = "end instead of a reset (-action reboot=shutdown)" },
    { "no-acpi", OPTION_FLAG, FIELD(no_acpi), .help = "no ACPI tables (-machine acpi=off)" },
    { "no-hpet", OPTION_FLAG, FIELD(no_hpet), .help = "accepted: there is no HPET" },
    { "action", OPTION_MERGED, FIELD(action), &qapi_type_ActionOptions,
      .argument = "[reboot=reset|shutdown][,shutdown=poweroff|pause][,panic=...]",
      .help = "what follows what the guest does" },
    { "qtest", OPTION_STRING, FIELD(qtest), .argument = "CHARDEV",
      .help = "with -accel qtest: a test drives the machine by unix:PATH, stdio, chardev:ID, ..." },
    { "qtest-log", OPTION_STRING, FIELD(qtest_log), .argument = "FILE|none",
      .help = "where what is said there is logged (default: stderr)" },
    { "overcommit", OPTION_MERGED, FIELD(overcommit), &qapi_type_OvercommitOptions,
      .argument = "[mem-lock=on|off][,cpu-pm=off]", .help = "resources of the host" },
    { "sandbox", OPTION_MERGED, FIELD(sandbox), &qapi_type_SandboxOptions, "enable",
      .argument = "on|off[,obsolete=RULE][,elevateprivileges=RULE][,spawn=RULE]"
                  "[,resourcecontrol=RULE]",
      .help = "system calls the process cannot make; RULE is allow or deny" },
    { "add-fd", OPTION_LIST, FIELD(add_fd), &qapi_type_AddFdOptions,
      .argument = "fd=FD,set=SET[,opaque=TEXT]",
      .help = "inherited descriptor for /dev/fdset/SET" },
    { "d", OPTION_STRING, FIELD(log_items), .argument = "ITEM[,ITEM...]",
      .help = "log these things ('help')" },
    { "D", OPTION_STRING, FIELD(log_file), .argument = "FILE", .help = "log there, not on stderr" },
    REFUSED("blockdev", NO_DISKS),
    REFUSED("drive", NO_DISKS),
    REFUSED("hda", NO_DISKS),
    REFUSED("cdrom", NO_DISKS),
    REFUSED("fda", NO_DISKS),
    REFUSED("pflash", NO_DISKS),
    REFUSED("netdev", NO_NETWORK),
    REFUSED("vnc", NO_GRAPHICS),
    REFUSED("spice", NO_GRAPHICS),
    REFUSED("vga", NO_GRAPHICS),
    REFUSED("tpmdev", "there is no TPM; take it out of the configuration"),
    REFUSED("fsdev", "no folders of the host can be shared; take it out of the configuration"),
    REFUSED("watchdog-action", "there is no watchdog; take it out of the configuration"),
    REFUSED("numa",
            "there are no NUMA nodes in the guest; take the cells out of the configuration"),
    REFUSED("usb", "there is no USB; take it out of the configuration"),
    REFUSED("loadvm", "there are no disks to hold internal snapshots; use -incoming"),
    { "version", OPTION_FLAG, FIELD(version), .help = "show the version and end" },
    { "help", OPTION_FLAG, FIELD(help), .help = "show this list and end" },
    { "h", OPTION_FLAG, FIELD(help), .help = "the same" },
    { .name = NULL },
};
