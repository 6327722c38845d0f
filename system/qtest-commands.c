/*
 * The commands of the qtest protocol.
 *
 * One line each, words with spaces between; numbers as in C. The answer is "OK", "OK VALUE" or
 * "FAIL WHY". The protocol is described in QEMU's docs/devel/testing/qtest.rst.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/qtest-internal.h"

#include "hw/timer/clock.h"
#include "memory/guest-access.h"
#include "util/error.h"
#include "util/le.h"

#include <errno.h>
#include <string.h>

#define CLOCK_MAX (INT64_MAX / 8) /* 36 years */
#define WORDS_MAX 5

typedef struct Command {
    const char *name;
    unsigned min_args, max_args;
    unsigned size; /* of the access, for those that differ in nothing else */
    /* Appends to @out, which begins with "OK". */
    bool (*run)(QtestServer *server, const struct Command *c, char **args, GString *out,
                GError **errp);
} Command;

static bool parse_number(const char *text, uint64_t max, uint64_t *ret, GError **errp)
{
    char *end;
    uint64_t value;

    errno = 0;
    value = g_ascii_strtoull(text, &end, 0);
    if (end == text || *end || *text == '-' || errno || value > max) {
        error_set(errp, "'%s' is no number from 0 to 0x%" G_GINT64_MODIFIER "x", text, max);
        return false;
    }
    *ret = value;
    return true;
}

/* --- Ports and single accesses to memory --- */

static uint64_t value_max(unsigned size)
{
    return size == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * size)) - 1;
}

static bool do_out(QtestServer *server, const Command *c, char **args, GString *out, GError **errp)
{
    uint64_t port, value;

    if (!parse_number(args[0], 0xffff, &port, errp) ||
        !parse_number(args[1], value_max(c->size), &value, errp)) {
        return false;
    }
    value = GUINT64_TO_LE(value);
    address_map_write(server->state->io, port, &value, c->size);
    return true;
}

static bool do_in(QtestServer *server, const Command *c, char **args, GString *out, GError **errp)
{
    uint64_t port, value = 0;

    if (!parse_number(args[0], 0xffff, &port, errp)) {
        return false;
    }
    address_map_read(server->state->io, port, &value, c->size);
    g_string_append_printf(out, " 0x%04" G_GINT64_MODIFIER "x", GUINT64_FROM_LE(value));
    return true;
}

static bool do_write(QtestServer *server, const Command *c, char **args, GString *out,
                     GError **errp)
{
    uint64_t address, value;

    if (!parse_number(args[0], UINT64_MAX, &address, errp) ||
        !parse_number(args[1], value_max(c->size), &value, errp)) {
        return false;
    }
    value = GUINT64_TO_LE(value);
    address_map_write(server->state->memory, address, &value, c->size);
    return true;
}

static bool do_read(QtestServer *server, const Command *c, char **args, GString *out, GError **errp)
{
    uint64_t address, value = 0;

    if (!parse_number(args[0], UINT64_MAX, &address, errp)) {
        return false;
    }
    address_map_read(server->state->memory, address, &value, c->size);
    g_string_append_printf(out, " 0x%016" G_GINT64_MODIFIER "x", GUINT64_FROM_LE(value));
    return true;
}

/* --- Areas of memory --- */

/* How many of the @left bytes at @address can be copied at once; 0: none, registers or nothing are there. */
static size_t ram_piece(AddressMap *map, uint64_t address, size_t left, bool write)
{
    AddressRange range;

    if (!address_map_find(map, address, &range) || range.kind != ADDRESS_RAM ||
        (write && range.readonly)) {
        return 0;
    }
    return MIN(left, range.base + range.size - address);
}

/* Copies RAM; what is no RAM is accessed as a CPU would, eight aligned bytes at a time. */
static void access_area(AddressMap *map, uint64_t address, uint8_t *data, size_t len, bool write)
{
    for (size_t n; len; address += n, data += n, len -= n) {
        n = ram_piece(map, address, len, write);
        if (n && (write ? guest_write(map, address, data, n) : guest_read(map, address, data, n))) {
            continue;
        }
        n = MIN(len, 8 - address % 8);
        if (write) {
            address_map_write(map, address, data, n);
        } else {
            address_map_read(map, address, data, n);
        }
    }
}

static bool parse_area(char **args, uint64_t *ret_address, uint64_t *ret_len, GError **errp)
{
    if (!parse_number(args[0], UINT64_MAX, ret_address, errp) ||
        !parse_number(args[1], QTEST_LENGTH_MAX, ret_len, errp)) {
        return false;
    }
    if (*ret_len && *ret_address > UINT64_MAX - (*ret_len - 1)) {
        error_set(errp, "the area goes beyond the last address");
        return false;
    }
    return true;
}

/* The area's present contents, in the scratch buffer. */
static uint8_t *read_area(QtestServer *server, char **args, uint64_t *ret_len, GError **errp)
{
    uint64_t address;

    if (!parse_area(args, &address, ret_len, errp)) {
        return NULL;
    }
    g_byte_array_set_size(server->line, *ret_len + 1);
    access_area(server->state->memory, address, server->line->data, *ret_len, false);
    return server->line->data;
}

static bool do_read_area(QtestServer *server, const Command *c, char **args, GString *out,
                         GError **errp)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t len;
    const uint8_t *data = read_area(server, args, &len, errp);

    if (!data) {
        return false;
    }
    g_string_append(out, " 0x");
    for (size_t i = 0; i < len; i++) {
        g_string_append_c(out, digits[data[i] >> 4]);
        g_string_append_c(out, digits[data[i] & 15]);
    }
    return true;
}

static bool do_read_base64(QtestServer *server, const Command *c, char **args, GString *out,
                           GError **errp)
{
    uint64_t len;
    const uint8_t *data = read_area(server, args, &len, errp);
    g_autofree char *text = data ? g_base64_encode(data, len) : NULL;

    if (text) {
        g_string_append_printf(out, " %s", text);
    }
    return data != NULL;
}

/* Two digits a byte after "0x" into @data, zeros behind them. */
static bool parse_hex(const char *text, uint8_t *data, size_t len, GError **errp)
{
    size_t digits = strlen(text);

    if (!g_str_has_prefix(text, "0x") || digits % 2) {
        error_set(errp, "the data is not 0x and two digits for each byte");
        return false;
    }
    if ((digits - 2) / 2 > len) {
        error_set(errp, "there is more data than %zu bytes", len);
        return false;
    }
    memset(data, 0, len);
    for (size_t i = 0; i < (digits - 2) / 2; i++) {
        int high = g_ascii_xdigit_value(text[2 + 2 * i]),
            low = g_ascii_xdigit_value(text[3 + 2 * i]);

        if (high < 0 || low < 0) {
            error_set(errp, "'%c%c' are no hexadecimal digits", text[2 + 2 * i], text[3 + 2 * i]);
            return false;
        }
        data[i] = high << 4 | low;
    }
    return true;
}

static bool do_write_area(QtestServer *server, const Command *c, char **args, GString *out,
                          GError **errp)
{
    uint64_t address, len;

    if (!parse_area(args, &address, &len, errp)) {
        return false;
    }
    g_byte_array_set_size(server->line, len + 1);
    if (!parse_hex(args[2], server->line->data, len, errp)) {
        return false;
    }
    access_area(server->state->memory, address, server->line->data, len, true);
    return true;
}

/* Where the two lengths differ, the shorter one counts. */
static bool do_write_base64(QtestServer *server, const Command *c, char **args, GString *out,
                            GError **errp)
{
    uint64_t address, len;
    g_autofree guchar *data = NULL;
    gsize have;

    if (!parse_area(args, &address, &len, errp)) {
        return false;
    }
    data = g_base64_decode(args[2], &have);
    access_area(server->state->memory, address, data, MIN(len, have), true);
    return true;
}

static bool do_memset(QtestServer *server, const Command *c, char **args, GString *out,
                      GError **errp)
{
    uint64_t address, len, value;

    if (!parse_area(args, &address, &len, errp) || !parse_number(args[2], 0xff, &value, errp)) {
        return false;
    }
    g_byte_array_set_size(server->line, len + 1);
    memset(server->line->data, (int)value, len);
    access_area(server->state->memory, address, server->line->data, len, true);
    return true;
}

static bool do_endianness(QtestServer *server, const Command *c, char **args, GString *out,
                          GError **errp)
{
    g_string_append(out, " little");
    return true;
}

/* --- Time --- */

static VmClock *running_clock(QtestServer *server, GError **errp)
{
    VmClock *clock = server->state->machine->clock;

    if (!clock) {
        error_set(errp, "the machine has no clock");
    } else if (!runstate_is_running(server->state->runstate)) {
        error_set(errp, "the VM does not run, and so its clock stands (QMP: cont)");
        return NULL;
    }
    return clock;
}

/* The clock goes to @to, if that is later. */
static bool move_clock(VmClock *clock, uint64_t to, GString *out)
{
    int64_t now = vm_clock_now(clock);

    vm_clock_advance(clock, MAX((int64_t)MIN(to, CLOCK_MAX) - now, 0));
    g_string_append_printf(out, " %" G_GINT64_FORMAT, vm_clock_now(clock));
    return true;
}

static bool do_clock_step(QtestServer *server, const Command *c, char **args, GString *out,
                          GError **errp)
{
    VmClock *clock = running_clock(server, errp);
    uint64_t ns;

    if (!clock) {
        return false;
    }
    if (!args[0]) {
        return move_clock(clock, MAX(vm_clock_next(clock), 0), out);
    }
    return parse_number(args[0], CLOCK_MAX, &ns, errp) &&
           move_clock(clock, vm_clock_now(clock) + ns, out);
}

static bool do_clock_set(QtestServer *server, const Command *c, char **args, GString *out,
                         GError **errp)
{
    VmClock *clock = running_clock(server, errp);
    uint64_t ns;

    return clock && parse_number(args[0], CLOCK_MAX, &ns, errp) && move_clock(clock, ns, out);
}

/* --- Interrupts --- */

static bool intercept(QtestServer *server, QtestIntercept what, GError **errp)
{
    if (!qtest_intercept(server, what)) {
        error_set(errp, "other interrupts are intercepted already");
        return false;
    }
    return true;
}

static bool is_ioapic(const char *path, GError **errp)
{
    if (!g_str_equal(path, "ioapic")) {
        error_set(errp, "'%s' has no interrupt inputs to be had; valid: 'ioapic'", path);
        return false;
    }
    return true;
}

static bool do_intercept_in(QtestServer *server, const Command *c, char **args, GString *out,
                            GError **errp)
{
    return is_ioapic(args[0], errp) && intercept(server, INTERCEPT_GSI, errp);
}

static bool do_intercept_out(QtestServer *server, const Command *c, char **args, GString *out,
                             GError **errp)
{
    PciBus *bus = server->state->machine->pci;
    bool by_name = bus && g_str_equal(args[0], OBJECT(bus)->name);

    if (!bus || (!by_name && object_resolve(server->state->tree.root, args[0]) != OBJECT(bus))) {
        error_set(errp, "'%s' has no interrupt outputs to be had; a PCI bus has", args[0]);
        return false;
    }
    return intercept(server, INTERCEPT_PCI, errp);
}

static bool do_set_irq_in(QtestServer *server, const Command *c, char **args, GString *out,
                          GError **errp)
{
    uint64_t n, level;

    if (!is_ioapic(args[0], errp) || !parse_number(args[2], MACHINE_GSI_COUNT - 1, &n, errp) ||
        !parse_number(args[3], 1, &level, errp)) {
        return false;
    }
    irq_set(&server->state->machine->gsi[n], (int)level);
    return true;
}

static const Command commands[] = {
    { "outb", 2, 2, 1, do_out },
    { "outw", 2, 2, 2, do_out },
    { "outl", 2, 2, 4, do_out },
    { "inb", 1, 1, 1, do_in },
    { "inw", 1, 1, 2, do_in },
    { "inl", 1, 1, 4, do_in },
    { "writeb", 2, 2, 1, do_write },
    { "writew", 2, 2, 2, do_write },
    { "writel", 2, 2, 4, do_write },
    { "writeq", 2, 2, 8, do_write },
    { "readb", 1, 1, 1, do_read },
    { "readw", 1, 1, 2, do_read },
    { "readl", 1, 1, 4, do_read },
    { "readq", 1, 1, 8, do_read },
    { "read", 2, 2, 0, do_read_area },
    { "write", 3, 3, 0, do_write_area },
    { "b64read", 2, 2, 0, do_read_base64 },
    { "b64write", 3, 3, 0, do_write_base64 },
    { "memset", 3, 3, 0, do_memset },
    { "endianness", 0, 0, 0, do_endianness },
    { "clock_step", 0, 1, 0, do_clock_step },
    { "clock_set", 1, 1, 0, do_clock_set },
    { "irq_intercept_in", 1, 1, 0, do_intercept_in },
    { "irq_intercept_out", 1, 1, 0, do_intercept_out },
    { "set_irq_in", 4, 4, 0, do_set_irq_in },
};

/* The words of a line, in place; how many, WORDS_MAX + 1 for too many. */
static unsigned split(char *line, char **words)
{
    unsigned n = 0;

    for (char *save, *word = strtok_r(line, " \t\r", &save); word;
         word = strtok_r(NULL, " \t\r", &save)) {
        if (n == WORDS_MAX) {
            return n + 1;
        }
        words[n++] = word;
    }
    return n;
}

static const Command *find_command(const char *name, GError **errp)
{
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        if (g_str_equal(commands[i].name, name)) {
            return &commands[i];
        }
    }
    error_set(errp, "there is no command '%s'", name);
    return NULL;
}

static bool run(QtestServer *server, char *line, GString *out, GError **errp)
{
    char *words[WORDS_MAX + 1] = { NULL };
    unsigned n = split(line, words);
    const Command *c = find_command(n ? words[0] : "", errp);

    if (!c) {
        return false;
    }
    if (n - 1 < c->min_args || n - 1 > c->max_args) {
        error_set(errp, "%s: %u words must follow", c->name, c->max_args);
        return false;
    }
    return c->run(server, c, words + 1, out, errp);
}

GString *qtest_execute(QtestServer *server, char *line)
{
    g_autoptr(GError) err = NULL;
    GString *out = g_string_new("OK");

    if (!run(server, line, out, &err)) {
        g_string_printf(out, "FAIL %s", err->message);
        g_strdelimit(out->str, "\n", ' ');
    }
    return g_string_append_c(out, '\n');
}
