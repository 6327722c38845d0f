/*
 * The DSDT: the devices of the board as an operating system finds them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/acpi-tables.h"

#define PCI_SLOTS 32
#define PCI_PINS 4
#define N_LINKS 4

/* Interrupts that the PIIX3 can route a PCI line to; the first is what a reset sets. */
static const uint32_t link_irqs[] = { 5, 10, 11 };

static void name_int(Aml *a, const char *name, uint64_t value)
{
    aml_name(a, name);
    aml_int(a, value);
}

static void name_eisa(Aml *a, const char *name, const char *id)
{
    aml_name(a, name);
    aml_eisa_id(a, id);
}

static void name_string(Aml *a, const char *name, const char *text)
{
    aml_name(a, name);
    aml_string(a, text);
}

static void name_resources(Aml *a, const char *name, GByteArray *res)
{
    aml_name(a, name);
    aml_resources(a, res);
}

/* Which of the four links serves a pin (0 to 3) of a slot: i440FX boards rotate them by the slot. */
static unsigned link_of(unsigned slot, unsigned pin)
{
    return (slot + pin + 3) % N_LINKS;
}

static void build_prt(Aml *a)
{
    aml_name(a, "_PRT");
    aml_begin_package(a, PCI_SLOTS * PCI_PINS - PCI_PINS);
    for (unsigned slot = 1; slot < PCI_SLOTS; slot++) {
        for (unsigned pin = 0; pin < PCI_PINS; pin++) {
            const char link[] = { 'I', 'S', 'A', '.',
                                  'L', 'N', 'K', (char)('A' + link_of(slot, pin)),
                                  0 };

            aml_begin_package(a, 4);
            aml_int(a, slot << 16 | 0xffff);
            aml_int(a, pin);
            aml_path(a, link);
            aml_int(a, 0);
            aml_end(a);
        }
    }
    aml_end(a);
}

static void build_pci_windows(Aml *a, const AcpiConfig *config)
{
    GByteArray *res = aml_res_new();

    aml_res_bus_window(res, 0, 255);
    aml_res_io(res, 0xcf8, 8);
    aml_res_io_window(res, (AmlWindow){ .base = 0, .size = 0xcf8 });
    aml_res_io_window(res, (AmlWindow){ .base = 0xd00, .size = 0x10000 - 0xd00 });
    aml_res_memory_window(res, (AmlWindow){ .base = 0xa0000, .size = 0x20000 });
    aml_res_memory_window(res, config->pci_low);
    aml_res_memory_window(res, config->pci_high);
    name_resources(a, "_CRS", res);
}

/* ---- PCI interrupt links: the four routing registers of the PIIX3 ---- */

/* _STA, _DIS: bit 7 of the register switches the link off. */
static void build_link_switch(Aml *a, const char *reg)
{
    aml_begin_method(a, "_STA", 0, false);
    aml_begin_if(a);
    aml_op(a, AML_AND);
    aml_path(a, reg);
    aml_int(a, 0x80);
    aml_no_target(a);
    aml_op(a, AML_RETURN);
    aml_int(a, 0x09);
    aml_end(a);
    aml_op(a, AML_RETURN);
    aml_int(a, 0x0b);
    aml_end(a);

    aml_begin_method(a, "_DIS", 0, false);
    aml_op(a, AML_OR);
    aml_path(a, reg);
    aml_int(a, 0x80);
    aml_path(a, reg);
    aml_end(a);
}

/* The interrupt number lies at byte 5 of an extended interrupt descriptor. */
static void interrupt_field(Aml *a, const char *buffer)
{
    aml_op(a, AML_CREATE_DWORD_FIELD);
    if (buffer) {
        aml_path(a, buffer);
    } else {
        aml_arg(a, 0);
    }
    aml_int(a, 5);
    aml_path(a, "IRQN");
}

static void build_link_settings(Aml *a, const char *reg)
{
    static const uint32_t none[] = { 0 };
    GByteArray *current = aml_res_new();

    aml_res_gsi(current, none, 1, true);
    aml_begin_method(a, "_CRS", 0, true);
    name_resources(a, "BUF0", current);
    interrupt_field(a, "BUF0");
    aml_op(a, AML_AND);
    aml_path(a, reg);
    aml_int(a, 0x0f);
    aml_path(a, "IRQN");
    aml_op(a, AML_RETURN);
    aml_path(a, "BUF0");
    aml_end(a);

    aml_begin_method(a, "_SRS", 1, true);
    interrupt_field(a, NULL);
    aml_op(a, AML_STORE);
    aml_path(a, "IRQN");
    aml_path(a, reg);
    aml_end(a);
}

static void build_link(Aml *a, unsigned n)
{
    const char name[] = { 'L', 'N', 'K', (char)('A' + n), 0 };
    const char reg[] = { 'P', 'R', 'Q', (char)('0' + n), 0 };
    GByteArray *possible = aml_res_new();

    aml_begin_device(a, name);
    name_eisa(a, "_HID", "PNP0C0F");
    name_int(a, "_UID", n + 1);
    aml_res_gsi(possible, link_irqs, G_N_ELEMENTS(link_irqs), true);
    name_resources(a, "_PRS", possible);
    build_link_switch(a, reg);
    build_link_settings(a, reg);
    aml_end(a);
}

/* ---- devices behind the ISA bridge ---- */

static void build_rtc(Aml *a)
{
    GByteArray *res = aml_res_new();

    aml_begin_device(a, "RTC");
    name_eisa(a, "_HID", "PNP0B00");
    aml_res_io(res, 0x70, 2);
    aml_res_irq(res, 8);
    name_resources(a, "_CRS", res);
    aml_end(a);
}

static void build_serial(Aml *a, unsigned n, uint16_t port, uint8_t irq)
{
    const char name[] = { 'C', 'O', 'M', (char)('1' + n), 0 };
    GByteArray *res = aml_res_new();

    aml_begin_device(a, name);
    name_eisa(a, "_HID", "PNP0501");
    name_int(a, "_UID", n + 1);
    aml_res_io(res, port, 8);
    aml_res_irq(res, irq);
    name_resources(a, "_CRS", res);
    aml_end(a);
}

static void build_pvpanic(Aml *a, uint16_t port)
{
    GByteArray *res = aml_res_new();

    aml_begin_device(a, "PEVT");
    name_string(a, "_HID", "QEMU0001");
    aml_res_io(res, port, 1);
    name_resources(a, "_CRS", res);
    aml_end(a);
}

static void build_isa(Aml *a, const AcpiConfig *config)
{
    aml_begin_device(a, "ISA");
    name_int(a, "_ADR", 0x00010000);
    aml_op_region(a, "PIRQ", AML_PCI_CONFIG, 0x60, 4);
    aml_begin_field(a, "PIRQ", AML_BYTE_ACCESS);
    for (unsigned i = 0; i < N_LINKS; i++) {
        const char reg[] = { 'P', 'R', 'Q', (char)('0' + i), 0 };

        aml_field_unit(a, reg, 8);
    }
    aml_end(a);
    for (unsigned i = 0; i < N_LINKS; i++) {
        build_link(a, i);
    }
    if (config->rtc) {
        build_rtc(a);
    }
    for (unsigned i = 0; i < config->n_serial; i++) {
        build_serial(a, i, config->serial[i].port, config->serial[i].irq);
    }
    if (config->pvpanic) {
        build_pvpanic(a, config->pvpanic);
    }
    aml_end(a);
}

static void build_fw_cfg(Aml *a)
{
    GByteArray *res = aml_res_new();

    aml_begin_device(a, "FWCF");
    name_string(a, "_HID", "QEMU0002");
    name_int(a, "_STA", 0x0b);
    aml_res_io(res, 0x510, 12);
    name_resources(a, "_CRS", res);
    aml_end(a);
}

static void build_pci(Aml *a, const AcpiConfig *config)
{
    aml_begin_device(a, "PCI0");
    name_eisa(a, "_HID", "PNP0A03");
    name_int(a, "_UID", 0);
    build_pci_windows(a, config);
    build_isa(a, config);
    build_prt(a);
    if (config->fw_cfg) {
        build_fw_cfg(a);
    }
    aml_end(a);
}

static void build_cpus(Aml *a, const AcpiConfig *config)
{
    for (unsigned i = 0; i < config->n_cpus; i++) {
        g_autofree char *name = g_strdup_printf("C%03X", i);

        aml_begin_device(a, name);
        name_string(a, "_HID", "ACPI0007");
        name_int(a, "_UID", i);
        aml_end(a);
    }
}

/*
 * Microsoft's "Virtual Machine Generation ID": ADDR gives the address of the GUID in two halves. The address itself is
 * a name outside all packages, whose place in the table does not move any more.
 */
static void build_vmgenid(Aml *a)
{
    aml_begin_device(a, "VGEN");
    name_string(a, "_HID", "QEMUVGID");
    name_string(a, "_CID", "VM_Gen_Counter");
    name_string(a, "_DDN", "VM_Gen_Counter");
    aml_begin_method(a, "ADDR", 0, false);
    aml_op(a, AML_STORE);
    aml_begin_package(a, 2);
    aml_int(a, 0);
    aml_int(a, 0);
    aml_end(a);
    aml_local(a, 0);
    aml_op(a, AML_STORE);
    aml_path(a, "\\VGIA");
    aml_op(a, AML_INDEX);
    aml_local(a, 0);
    aml_int(a, 0);
    aml_no_target(a);
    aml_op(a, AML_RETURN);
    aml_local(a, 0);
    aml_end(a);
    aml_end(a);
}

static void build_gpe(Aml *a, bool vmgenid)
{
    aml_begin_scope(a, "\\_GPE");
    name_string(a, "_HID", "ACPI0006");
    if (vmgenid) {
        aml_begin_method(a, "_E05", 0, false);
        aml_op(a, AML_NOTIFY);
        aml_path(a, "\\_SB.VGEN");
        aml_int(a, 0x80);
        aml_end(a);
    }
    aml_end(a);
}

static void build_sleep_state(Aml *a, const char *name, unsigned type)
{
    aml_name(a, name);
    aml_begin_package(a, 4);
    aml_int(a, type);
    aml_int(a, type);
    aml_int(a, 0);
    aml_int(a, 0);
    aml_end(a);
}

guint acpi_dsdt_build(const AcpiConfig *config, GByteArray *out)
{
    guint vmgenid_address = 0;
    Aml a;

    aml_init(&a, out);
    if (config->vmgenid) {
        aml_name(&a, "VGIA");
        vmgenid_address = aml_dword(&a, ACPI_VMGENID_OFFSET);
    }
    aml_begin_scope(&a, "\\_SB");
    build_pci(&a, config);
    build_cpus(&a, config);
    if (config->vmgenid) {
        build_vmgenid(&a);
    }
    aml_end(&a);
    build_gpe(&a, config->vmgenid);
    if (config->s4) {
        build_sleep_state(&a, "_S4", ACPI_SLEEP_S4);
    }
    build_sleep_state(&a, "_S5", 0);
    aml_finish(&a);
    return vmgenid_address;
}
