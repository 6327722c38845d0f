/*
 * Tests of system/options.c and system/smp.c: what the command line means, and its errors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/options.h"
#include "system/smp.h"

#include "util/json.h"

/* Splits a line at '|', so that values may have blanks. */
static SystemOptions *parse(const char *line, GError **errp)
{
    g_autofree char *whole = g_strconcat("program|", line, NULL);
    g_auto(GStrv) argv = g_strsplit(whole, "|", -1);

    return system_options_parse(argv, errp);
}

static SystemOptions *parse_ok(const char *line)
{
    g_autoptr(GError) err = NULL;
    SystemOptions *o = parse(line, &err);

    g_assert_no_error(err);
    return o;
}

/* A clone's XML has -incoming of its own; libvirt puts the one it restores with in front of it. */
static void test_incoming_defer_wins(void)
{
    g_autoptr(SystemOptions) first = parse_ok("-incoming|defer|-incoming|file:/template");
    g_autoptr(SystemOptions) last = parse_ok("-incoming|file:/template|-incoming|defer");
    g_autoptr(SystemOptions) none = parse_ok("-incoming|file:/one|-incoming|file:/two");

    g_assert_cmpstr(first->incoming, ==, "defer");
    g_assert_cmpstr(last->incoming, ==, "defer");
    g_assert_cmpstr(none->incoming, ==, "file:/two");
}

/* The arguments that libvirt 9.0 and 11.3 give (contract.md §1.1, §2.2, §2.3), as far as we have the devices. */
static void test_libvirt(void)
{
    g_autoptr(SystemOptions) o = parse_ok(
        "-name|guest=vm,debug-threads=on|-S|-machine|"
        "pc-i440fx-8.2,usb=off,dump-guest-core=off,memory-backend=pc.ram|-accel|kvm|-cpu|"
        "host,migratable=on|-m|512|-object|"
        "{\"qom-type\":\"memory-backend-ram\",\"id\":\"pc.ram\",\"size\":536870912}|-overcommit|"
        "mem-lock=off|-smp|2,sockets=2,cores=1,threads=1|-uuid|x|-display|none|-no-user-config|"
        "-nodefaults|-chardev|socket,id=charmonitor,fd=30,server=on,wait=off|-mon|"
        "chardev=charmonitor,id=monitor,mode=control|-rtc|base=utc|-no-shutdown|-boot|strict=on|"
        "-device|{\"driver\":\"isa-serial\",\"chardev\":\"c\",\"id\":\"serial0\",\"index\":0}|"
        "-audiodev|{\"id\":\"audio1\",\"driver\":\"none\"}|"
        "-incoming|defer|-add-fd|set=0,fd=24,opaque=libvirt|-msg|timestamp=on");
    const ObjectOptions *object = g_ptr_array_index(o->object, 0);
    const MonitorOptions *mon = g_ptr_array_index(o->mon, 0);
    const AddFdOptions *fd = g_ptr_array_index(o->add_fd, 0);

    g_assert_cmpstr(o->name->guest, ==, "vm");
    g_assert_true(o->stopped && o->nodefaults && o->no_user_config && o->no_shutdown);
    g_assert_cmpstr(json_get_str(o->machine, "type"), ==, "pc-i440fx-8.2");
    g_assert_cmpstr(json_get_str(o->machine, "usb"), ==, "off");
    g_assert_cmpuint(o->m->size, ==, 512 << 20);
    g_assert_cmpint(object->qom_type, ==, OBJECT_TYPE_MEMORY_BACKEND_RAM);
    g_assert_cmpuint(o->smp->sockets, ==, 2);
    g_assert_cmpstr(mon->chardev, ==, "charmonitor");
    g_assert_true(o->boot->strict);
    g_assert_cmpint(fd->fd, ==, 24);
    g_assert_true(o->msg->timestamp);
    g_assert_cmpuint(o->chardev->len, ==, 1);
    g_assert_cmpuint(o->device->len, ==, 1);
}

static void test_memory_sizes(void)
{
    static const struct {
        const char *text;
        uint64_t size;
    } sizes[] = {
        { "-m|512", UINT64_C(512) << 20 }, { "-m|size=524288k", UINT64_C(512) << 20 },
        { "-m|2G", UINT64_C(2) << 30 },    { "-m|size=3", UINT64_C(3) << 20 },
        { "-m|{\"size\":4096}", 4096 },    { "-m|1G|-m|2G", UINT64_C(2) << 30 },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autoptr(SystemOptions) o = parse_ok(sizes[i].text);

        g_assert_cmpuint(o->m->size, ==, sizes[i].size);
    }
}

static void test_merge(void)
{
    g_autoptr(SystemOptions) o = parse_ok("-machine|pc,pit=off|--machine|pit=on,usb=off|-action|"
                                          "reboot=shutdown|-action|shutdown=pause");

    g_assert_cmpstr(json_get_str(o->machine, "type"), ==, "pc");
    g_assert_cmpstr(json_get_str(o->machine, "pit"), ==, "on");
    g_assert_cmpint(o->action->reboot, ==, REBOOT_ACTION_SHUTDOWN);
    g_assert_cmpint(o->action->shutdown, ==, SHUTDOWN_ACTION_PAUSE);
}

static void test_global(void)
{
    g_autoptr(SystemOptions) o = parse_ok("-global|migration.ram-scan=bit61|-global|"
                                          "driver=isa-serial,property=iobase,value=0x3f8|-global|"
                                          "a.b=c.d=e");
    const GlobalOptions *g0 = g_ptr_array_index(o->global, 0);
    const GlobalOptions *g1 = g_ptr_array_index(o->global, 1);
    const GlobalOptions *g2 = g_ptr_array_index(o->global, 2);

    g_assert_cmpstr(g0->driver, ==, "migration");
    g_assert_cmpstr(g0->property, ==, "ram-scan");
    g_assert_cmpstr(g0->value, ==, "bit61");
    g_assert_cmpstr(g1->property, ==, "iobase");
    g_assert_cmpstr(g2->property, ==, "b");
    g_assert_cmpstr(g2->value, ==, "c.d=e");
}

static void test_errors(void)
{
    /* command line, and words that the error must have */
    static const char *const cases[][3] = {
        { "-nodefault", "-nodefault", "nodefaults" },
        { "disk.img", "disk.img", "begin with '-'" },
        { "-m", "argument", "SIZE" },
        { "-m|sise=5", "sise", "size" },
        { "-m|twelve", "-m", "twelve" },
        { "-smp|cpu=2", "cpu", "cpus" },
        { "-display|gtk", "gtk", "graphics" },
        { "-monitor|stdio", "stdio", "-qmp" },
        { "-object|memory-backend-rom,id=a,size=1", "memory-backend-rom", "memory-backend-ram" },
        { "-object|memory-backend-ram,id=a", "size", "" },
        { "-object|{\"qom-type\":\"memory-backend-ram\"", "-object", "" },
        { "-mon|chardev=x,mode=readline", "readline", "control" },
        { "-global|x=y", "x=y", "DRIVER.PROPERTY=VALUE" },
        { "-action|reboot=never", "never", "reset" },
        { "-rtc|clock=sun", "sun", "host" },
        { "-accel|kvm,thread=multi", "thread", "" },
        { "-add-fd|fd=x,set=1", "fd", "x" },
        { "-msg|timestamp=maybe", "timestamp", "maybe" },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) err = NULL;

        g_assert_null(parse(cases[i][0], &err));
        g_test_message("%s: %s", cases[i][0], err->message);
        g_assert_nonnull(strstr(err->message, cases[i][1]));
        g_assert_nonnull(strstr(err->message, cases[i][2]));
    }
}

/* Every option can be given, and its help is complete. */
static void test_table(void)
{
    for (const OptionSpec *spec = option_table; spec->name; spec++) {
        if (spec->store == OPTION_REFUSED) {
            g_assert_nonnull(spec->reason);
            continue;
        }
        g_assert_nonnull(spec->help);
        g_assert_true((spec->store == OPTION_FLAG) == (spec->argument == NULL));
        g_assert_true(spec->store != OPTION_NONE || spec->reason);
    }
}

static void test_smp(void)
{
    static const struct {
        const char *text;
        SmpConfig want; /* cpus 0: an error */
    } cases[] = {
        { "-smp|1", { 1, 1, 1, 1, 1, 1 } },
        { "-smp|4", { 4, 4, 1, 1, 4, 1 } },
        { "-smp|2,sockets=2,cores=1,threads=1", { 2, 2, 2, 1, 1, 1 } },
        { "-smp|8,sockets=2", { 8, 8, 2, 1, 4, 1 } },
        { "-smp|8,cores=2", { 8, 8, 4, 1, 2, 1 } },
        { "-smp|8,sockets=2,cores=2", { 8, 8, 2, 1, 2, 2 } },
        { "-smp|sockets=2,cores=2,threads=2", { 8, 8, 2, 1, 2, 2 } },
        { "-smp|8,dies=2,sockets=1", { 8, 8, 1, 2, 4, 1 } },
        { "-smp|maxcpus=2", { 2, 2, 1, 1, 2, 1 } },
        { "-smp|3,sockets=2", { 0 } },
        { "-smp|0", { 0 } },
        { "-smp|2,maxcpus=4", { 0 } },
        { "-smp|17", { 0 } },
        { "-smp|1,sockets=4294967295", { 0 } },
    };
    MachineClass machine = { .name = "test", .max_cpus = 16 };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(SystemOptions) o = parse_ok(cases[i].text);
        g_autoptr(GError) err = NULL;
        SmpConfig smp = { 0 };

        g_assert_true(smp_complete(o->smp, &machine, &smp, &err) == (cases[i].want.cpus != 0));
        g_assert_cmpmem(&smp, sizeof(smp), &cases[i].want, sizeof(smp));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/options/incoming-defer-wins", test_incoming_defer_wins);
    g_test_add_func("/options/libvirt", test_libvirt);
    g_test_add_func("/options/memory-sizes", test_memory_sizes);
    g_test_add_func("/options/merge", test_merge);
    g_test_add_func("/options/global", test_global);
    g_test_add_func("/options/errors", test_errors);
    g_test_add_func("/options/table", test_table);
    g_test_add_func("/options/smp", test_smp);
    return g_test_run();
}
