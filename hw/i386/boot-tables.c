/*
 * Making the board's tables and placing them in guest RAM.
 *
 * At the end of the RAM below 4 GiB, page by page: ACPI tables, the page of the generation id, SMBIOS structures. Their entry
 * points lie where guests search for them, in the last 64 KiB below 1 MiB. Both are reserved in the memory map.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/boot-tables.h"

#include "accel/accel.h"
#include "hw/char/serial.h"
#include "hw/firmware/fw-cfg.h"
#include "hw/firmware/rom.h"
#include "hw/i386/acpi-loader.h"
#include "hw/i386/acpi-tables.h"
#include "hw/i386/smbios.h"
#include "hw/misc/pvpanic.h"
#include "hw/misc/vmgenid.h"
#include "util/le.h"
#include "util/units.h"

#define EBDA_BASE 0x9fc00 /* top of usable memory below 640 KiB, as BIOSes leave it */
#define PAGE (4 * KiB)
#define RSDP_ADDR (PC_BIOS_BASE + 0x5a00)
#define ANCHOR_30_ADDR (PC_BIOS_BASE + 0x5a40)
#define ANCHOR_21_ADDR (PC_BIOS_BASE + 0x5a60)

struct BootTables {
    PcMachine *pc;
    AcpiTables *acpi;   /* as firmware gets them; NULL: acpi=off */
    AcpiTables *linked; /* as they lie in RAM; made at the first load */
    SmbiosTables *smbios;
    uint64_t base, address[ACPI_BLOBS], smbios_address;
    E820Table e820;
};

/* ---- what the board has ---- */

static void describe_isa_device(AcpiConfig *config, Device *dev)
{
    if (G_TYPE_CHECK_INSTANCE_TYPE(dev, TYPE_PVPANIC)) {
        config->pvpanic = pvpanic_port(PVPANIC(dev));
    } else if (G_TYPE_CHECK_INSTANCE_TYPE(dev, TYPE_ISA_SERIAL) &&
               config->n_serial < G_N_ELEMENTS(config->serial)) {
        isa_serial_place(ISA_SERIAL(dev), &config->serial[config->n_serial].port,
                         &config->serial[config->n_serial].irq);
        config->n_serial++;
    }
}

static AcpiTables *make_acpi(PcMachine *pc)
{
    Machine *m = MACHINE(pc);
    g_autofree uint32_t *apic_ids = g_new0(uint32_t, m->smp.cpus);
    PciWindows windows = pc_pci_windows(m);
    AcpiConfig config = {
        .n_cpus = m->smp.cpus,
        .apic_ids = apic_ids,
        .pci_low = { .base = windows.low.base, .size = windows.low.size },
        .pci_high = { .base = windows.high.base, .size = windows.high.size },
        .s4 = acpi_pm_has_s4(pc->pm),
        .rtc = true,
        .fw_cfg = true,
        .vmgenid = vmgenid_find(m) != NULL,
    };

    for (unsigned i = 0; i < m->smp.cpus; i++) {
        apic_ids[i] = m->cpu ? cpu_apic_id(&m->cpu->topology, i) : i;
    }
    for (guint i = 0; i < BUS(pc->isa)->devices->len; i++) {
        describe_isa_device(&config, g_ptr_array_index(BUS(pc->isa)->devices, i));
    }
    return acpi_tables_new(&config);
}

static SmbiosTables *make_smbios(const Machine *m)
{
    const MachineClass *mc = MACHINE_GET_CLASS((gpointer)m);
    SmbiosConfig config = {
        .product = mc->desc,
        .version = mc->name,
        .below_4g = m->below_4g,
        .above_4g = m->above_4g,
        .sockets = MAX(m->smp.sockets, 1u),
        .cores = MAX(m->smp.cores, 1u) * MAX(m->smp.dies, 1u),
    };

    config.threads = config.cores * MAX(m->smp.threads, 1u);
    if (m->uuid_set) {
        config.uuid = m->uuid;
    }
    return smbios_tables_new(&config);
}

/* ---- where it goes ---- */

static uint64_t take(uint64_t *at, uint64_t size)
{
    uint64_t start = *at;

    *at += ROUND_UP(size, PAGE);
    return start;
}

static void place(BootTables *t)
{
    const Machine *m = MACHINE(t->pc);
    uint64_t size = ROUND_UP((uint64_t)t->smbios->bytes->len, PAGE), at;

    for (unsigned i = ACPI_TABLES; t->acpi && i < ACPI_BLOBS; i++) {
        size += ROUND_UP((uint64_t)t->acpi->blobs[i]->len, PAGE);
    }
    t->base = at = m->below_4g - size;
    for (unsigned i = ACPI_TABLES; t->acpi && i < ACPI_BLOBS; i++) {
        t->address[i] = take(&at, t->acpi->blobs[i]->len);
    }
    t->address[ACPI_RSDP] = RSDP_ADDR;
    t->smbios_address = take(&at, t->smbios->bytes->len);
}

static void make_e820(BootTables *t)
{
    const Machine *m = MACHINE(t->pc);
    E820Table *e = &t->e820;

    e820_add(e, 0, EBDA_BASE, E820_RAM);
    e820_add(e, EBDA_BASE, PC_VGA_BASE - EBDA_BASE, E820_RESERVED);
    e820_add(e, PC_BIOS_BASE, PC_BIOS_SIZE, E820_RESERVED);
    e820_add(e, 1 * MiB, t->base - 1 * MiB, E820_RAM);
    e820_add(e, t->base, m->below_4g - t->base, E820_RESERVED);
    e820_add(e, PC_HOLE_4G, m->above_4g, E820_RAM);
}

BootTables *boot_tables_new(PcMachine *pc)
{
    BootTables *t = g_new0(BootTables, 1);

    t->pc = pc;
    t->smbios = make_smbios(MACHINE(pc));
    if (pc->acpi) {
        t->acpi = make_acpi(pc);
    }
    place(t);
    make_e820(t);
    return t;
}

void boot_tables_free(BootTables *t)
{
    if (t) {
        acpi_tables_free(t->acpi);
        acpi_tables_free(t->linked);
        smbios_tables_free(t->smbios);
        g_free(t);
    }
}

uint64_t boot_tables_base(const BootTables *t)
{
    return t->base;
}

const E820Table *boot_tables_e820(const BootTables *t)
{
    return &t->e820;
}

uint64_t boot_tables_rsdp(const BootTables *t)
{
    return t->acpi ? RSDP_ADDR : 0;
}

/* ---- into the guest ---- */

/* Firmware has put the generation id somewhere and says where. */
static void vmgenid_placed(void *opaque, const uint8_t *data, size_t len)
{
    vmgenid_set_address(vmgenid_find(opaque), get_le64(data));
}

bool boot_tables_add_files(BootTables *t, GError **errp)
{
    Machine *m = MACHINE(t->pc);
    uint8_t anchor[SMBIOS_ANCHOR_21_SIZE];
    g_autofree uint8_t *e820 = g_malloc(t->e820.count * E820_ENTRY_BYTES);

    e820_encode(&t->e820, e820);
    smbios_anchor_21(t->smbios, 0, anchor); /* firmware fills in the address */
    return fw_cfg_add_file(m->fw_cfg, "etc/e820", e820, t->e820.count * E820_ENTRY_BYTES, errp) &&
           fw_cfg_add_file(m->fw_cfg, "etc/smbios/smbios-tables", t->smbios->bytes->data,
                           t->smbios->bytes->len, errp) &&
           fw_cfg_add_file(m->fw_cfg, "etc/smbios/smbios-anchor", anchor, sizeof(anchor), errp) &&
           (!t->acpi || acpi_loader_add_files(m->fw_cfg, t->acpi, vmgenid_placed, m, errp));
}

static bool load_smbios(const BootTables *t, AddressMap *memory, GError **errp)
{
    uint8_t anchor_30[SMBIOS_ANCHOR_30_SIZE], anchor_21[SMBIOS_ANCHOR_21_SIZE];

    smbios_anchor_30(t->smbios, t->smbios_address, anchor_30);
    smbios_anchor_21(t->smbios, (uint32_t)t->smbios_address, anchor_21);
    return rom_load(memory, t->smbios_address, t->smbios->bytes->data, t->smbios->bytes->len,
                    "SMBIOS tables", errp) &&
           rom_load(memory, ANCHOR_30_ADDR, anchor_30, sizeof(anchor_30), "SMBIOS anchor", errp) &&
           rom_load(memory, ANCHOR_21_ADDR, anchor_21, sizeof(anchor_21), "SMBIOS anchor", errp);
}

static bool load_acpi(BootTables *t, AddressMap *memory, GError **errp)
{
    if (!t->linked) {
        t->linked = make_acpi(t->pc);
        acpi_tables_link(t->linked, t->address);
    }
    for (unsigned i = 0; i < ACPI_BLOBS; i++) {
        const GByteArray *blob = t->linked->blobs[i];

        if (blob->len &&
            !rom_load(memory, t->address[i], blob->data, blob->len, "ACPI tables", errp)) {
            return false;
        }
    }
    return true;
}

bool boot_tables_load(BootTables *t, GError **errp)
{
    Machine *m = MACHINE(t->pc);
    VmGenId *vmgenid = vmgenid_find(m);

    if (!load_smbios(t, m->memory, errp) || (t->acpi && !load_acpi(t, m->memory, errp))) {
        return false;
    }
    if (vmgenid && t->acpi) {
        vmgenid_set_address(vmgenid, t->address[ACPI_VMGENID] + ACPI_VMGENID_OFFSET);
    }
    return true;
}
