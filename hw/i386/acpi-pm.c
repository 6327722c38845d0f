/*
 * PIIX4_PM: the fixed hardware of ACPI and its general purpose events.
 *
 * Suspend to RAM (S3) needs firmware that wakes the guest, which this machine lacks: it is never offered. Suspend to
 * disk (S4) is a power-off with an event of its own.
 *
 * Sources: ACPI specification 6.4, section 4.8; Intel 82371AB (PIIX4) data sheet.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/acpi-pm.h"

#include "accel/runstate.h"
#include "hw/core/machine.h"
#include "hw/i386/acpi-tables.h"
#include "hw/timer/clock.h"
#include "qapi/qapi-events.h"
#include "util/error.h"
#include "util/le.h"
#include "util/log.h"

#define PM_TIMER_HZ 3579545
#define PM_TIMER_BITS 24
#define PM_TIMER_HALF (INT64_C(1) << (PM_TIMER_BITS - 1)) /* its top bit toggles that often */
#define PM_PORTS 64
#define GPE_PORTS 4

enum { PM1_STATUS = 0, PM1_ENABLE = 2, PM1_CONTROL = 4, PM_TIMER = 8 };
enum {
    STS_TIMER = 1 << 0,
    STS_GLOBAL = 1 << 5,
    STS_POWER_BUTTON = 1 << 8,
    STS_RTC = 1 << 10,
    STS_WAKE = 1 << 15
};
#define STS_ALL (STS_TIMER | 1 << 4 | STS_GLOBAL | STS_POWER_BUTTON | 1 << 9 | STS_RTC | STS_WAKE)
#define EN_ALL (STS_TIMER | STS_GLOBAL | STS_POWER_BUTTON | 1 << 9 | STS_RTC)
enum { CNT_SCI_ENABLE = 1, CNT_SLEEP_TYPE_SHIFT = 10, CNT_SLEEP_ENABLE = 1 << 13 };
#define CNT_KEPT (CNT_SCI_ENABLE | 1 << 1 | 7 << CNT_SLEEP_TYPE_SHIFT)

struct _Piix4Pm {
    PciDevice parent_instance;
    uint8_t disable_s3, disable_s4; /* 0 or 1 */
    IrqLine sci;
    VmTimer *timer;
    bool mapped;
    uint16_t base;
    uint16_t pm1_status, pm1_enable, pm1_control;
    uint16_t gpe_status, gpe_enable;
    uint8_t apm_control, apm_status;
    int64_t timer_seen; /* ticks / PM_TIMER_HALF when the status bit was last brought up to date */
};

QOM_DEFINE_TYPE(Piix4Pm, piix4_pm, "PIIX4_PM", TYPE_PCI_DEVICE)

static Machine *machine_of(Piix4Pm *s)
{
    return DEVICE(s)->machine;
}

/* ---- interrupt and timer ---- */

static int64_t pm_ticks(Piix4Pm *s)
{
    return muldiv64(vm_clock_now(machine_of(s)->clock), PM_TIMER_HZ, CLOCK_NS_PER_SECOND);
}

/* The status bit is set whenever the top bit of the counter has changed. */
static void timer_catch_up(Piix4Pm *s)
{
    int64_t now = pm_ticks(s) / PM_TIMER_HALF;

    if (now != s->timer_seen) {
        s->timer_seen = now;
        s->pm1_status |= STS_TIMER;
    }
}

static void update_sci(Piix4Pm *s)
{
    bool event = s->pm1_status & s->pm1_enable & EN_ALL;
    bool gpe = s->gpe_status & s->gpe_enable;

    irq_set(&s->sci, (s->pm1_control & CNT_SCI_ENABLE) && (event || gpe));
    /* Time is watched only for a guest that wants to be interrupted and has not been yet. */
    if ((s->pm1_enable & STS_TIMER) && !(s->pm1_status & STS_TIMER)) {
        int64_t next = (s->timer_seen + 1) * PM_TIMER_HALF;

        vm_timer_set(s->timer, muldiv64(next, CLOCK_NS_PER_SECOND, PM_TIMER_HZ) + 1);
    } else {
        vm_timer_cancel(s->timer);
    }
}

static void timer_expired(void *opaque)
{
    timer_catch_up(opaque);
    update_sci(opaque);
}

/* ---- sleeping ---- */

static void enter_sleep(Piix4Pm *s, unsigned type)
{
    Machine *m = machine_of(s);

    if (type == ACPI_SLEEP_S4 && !s->disable_s4) {
        qapi_event_send_suspend_disk(m->events);
        runstate_request_shutdown(m->runstate, SHUTDOWN_CAUSE_GUEST_SHUTDOWN);
    } else if (type == 0) {
        runstate_request_shutdown(m->runstate, SHUTDOWN_CAUSE_GUEST_SHUTDOWN);
    } else {
        log_printf(LOG_GUEST_ERROR, "piix4_pm: sleep type %u is not offered", type);
    }
}

/* ---- the register blocks ---- */

static uint64_t pm_read(void *opaque, uint64_t offset, unsigned size)
{
    Piix4Pm *s = opaque;

    switch (offset) {
    case PM1_STATUS:
        timer_catch_up(s);
        update_sci(s);
        return s->pm1_status;
    case PM1_ENABLE:
        return s->pm1_enable;
    case PM1_CONTROL:
        return s->pm1_control;
    case PM_TIMER:
        return (uint64_t)pm_ticks(s) & 0xffff;
    case PM_TIMER + 2:
        return (uint64_t)pm_ticks(s) >> 16 & 0xff;
    default:
        return 0;
    }
}

/* One read of four bytes must not be torn into two times. */
static uint64_t pm_read_any(void *opaque, uint64_t offset, unsigned size)
{
    if (offset == PM_TIMER && size == 4) {
        return (uint64_t)pm_ticks(opaque) & ((1 << PM_TIMER_BITS) - 1);
    }
    if (size == 4) {
        return pm_read(opaque, offset, 2) | pm_read(opaque, offset + 2, 2) << 16;
    }
    return size == 1 ? pm_read(opaque, offset & ~1ull, 2) >> (offset & 1) * 8 & 0xff
                     : pm_read(opaque, offset, 2);
}

static void pm_write(Piix4Pm *s, uint64_t offset, uint16_t value)
{
    switch (offset) {
    case PM1_STATUS:
        timer_catch_up(s);
        s->pm1_status &= (uint16_t) ~(value & STS_ALL);
        break;
    case PM1_ENABLE:
        timer_catch_up(s);
        s->pm1_enable = value & EN_ALL;
        break;
    case PM1_CONTROL:
        s->pm1_control = value & CNT_KEPT;
        if (value & CNT_SLEEP_ENABLE) {
            enter_sleep(s, value >> CNT_SLEEP_TYPE_SHIFT & 7);
        }
        break;
    default: /* the timer cannot be written */
        break;
    }
    update_sci(s);
}

/* A write of one byte leaves the other byte of the register alone. */
static void pm_write_byte(Piix4Pm *s, uint64_t offset, uint8_t value)
{
    unsigned shift = (offset & 1) * 8;
    uint64_t reg = offset & ~1ull;
    /* In the status register zeros have no effect. */
    uint16_t other = reg == PM1_STATUS ? 0 : (uint16_t)(pm_read(s, reg, 2) & ~(0xff << shift));

    pm_write(s, reg, (uint16_t)(other | value << shift));
}

static void pm_write_any(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    if (size == 1) {
        pm_write_byte(opaque, offset, (uint8_t)value);
        return;
    }
    pm_write(opaque, offset, (uint16_t)value);
    if (size == 4) {
        pm_write(opaque, offset + 2, (uint16_t)(value >> 16));
    }
}

static const IoOps pm_ops = {
    .read = pm_read_any, .write = pm_write_any, .min_size = 1, .max_size = 4
};

static uint64_t gpe_read(void *opaque, uint64_t offset, unsigned size)
{
    Piix4Pm *s = opaque;
    uint8_t bytes[GPE_PORTS];

    put_le16(bytes, s->gpe_status);
    put_le16(bytes + 2, s->gpe_enable);
    return bytes[offset];
}

static void gpe_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    Piix4Pm *s = opaque;
    unsigned shift = (offset & 1) * 8;
    uint16_t bits = (uint16_t)((value & 0xff) << shift);

    if (offset < 2) {
        s->gpe_status &= (uint16_t)~bits;
    } else {
        s->gpe_enable = (uint16_t)((s->gpe_enable & ~(0xff << shift)) | bits);
    }
    update_sci(s);
}

static const IoOps gpe_ops = { .read = gpe_read, .write = gpe_write, .min_size = 1, .max_size = 1 };

static uint64_t apm_read(void *opaque, uint64_t offset, unsigned size)
{
    Piix4Pm *s = opaque;

    return offset ? s->apm_status : s->apm_control;
}

/* What would be a system management interrupt: the guest asks for ACPI mode, or leaves it. */
static void apm_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    Piix4Pm *s = opaque;

    if (offset) {
        s->apm_status = (uint8_t)value;
        return;
    }
    s->apm_control = (uint8_t)value;
    if (value == ACPI_ENABLE_VALUE) {
        s->pm1_control |= CNT_SCI_ENABLE;
    } else if (value == ACPI_DISABLE_VALUE) {
        s->pm1_control &= (uint16_t)~CNT_SCI_ENABLE;
    }
    update_sci(s);
}

static const IoOps apm_ops = { .read = apm_read, .write = apm_write, .min_size = 1, .max_size = 1 };

/* ---- life ---- */

/* The PM block is where the guest's firmware has put it. */
static void update_mapping(Piix4Pm *s)
{
    const uint8_t *config = s->parent_instance.config;
    uint16_t base = get_le16(config + PIIX4_REG_PM_BASE) & 0xffc0;
    bool wanted = (config[PIIX4_REG_PM_ENABLE] & 1) && base;
    AddressMap *io = machine_of(s)->io;
    g_autoptr(GError) err = NULL;

    if (wanted == s->mapped && (!wanted || base == s->base)) {
        return;
    }
    if (s->mapped) {
        address_map_remove(io, s->base);
        s->mapped = false;
    }
    if (wanted) {
        s->base = base;
        s->mapped = address_map_add_io(io, base, PM_PORTS, "piix4-pm", &pm_ops, s, &err);
        if (!s->mapped) {
            log_printf(LOG_GUEST_ERROR, "piix4_pm: ports stay invisible: %s", err->message);
        }
    }
}

static void piix4_pm_config_written(PciDevice *dev, unsigned offset, unsigned len)
{
    update_mapping(PIIX4_PM(dev));
}

static bool piix4_pm_realize(PciDevice *dev, GError **errp)
{
    Piix4Pm *s = PIIX4_PM(dev);
    Machine *m = machine_of(s);

    if (!s->disable_s3) {
        error_set(errp, "suspend to RAM needs firmware, which this machine lacks: "
                        "use disable_s3=1");
        return false;
    }
    put_le32(dev->config + PIIX4_REG_PM_BASE, 1); /* an I/O address */
    put_le32(dev->writable + PIIX4_REG_PM_BASE, 0xffc0);
    dev->writable[PIIX4_REG_PM_ENABLE] = 1;
    if (!address_map_add_io(m->io, ACPI_GPE_BASE, GPE_PORTS, "acpi-gpe0", &gpe_ops, s, errp)) {
        return false;
    }
    if (!address_map_add_io(m->io, ACPI_SMI_PORT, 2, "apm", &apm_ops, s, errp)) {
        address_map_remove(m->io, ACPI_GPE_BASE);
        return false;
    }
    s->timer = vm_timer_new(m->clock, timer_expired, s);
    return true;
}

void acpi_pm_connect(Piix4Pm *pm, const IrqLine *sci)
{
    pm->sci = *sci;
}

void acpi_pm_send_gpe(Piix4Pm *pm, unsigned n)
{
    pm->gpe_status |= (uint16_t)(1 << n);
    update_sci(pm);
}

void acpi_pm_power_button(Piix4Pm *pm)
{
    pm->pm1_status |= STS_POWER_BUTTON;
    update_sci(pm);
}

bool acpi_pm_has_s4(const Piix4Pm *pm)
{
    return !pm->disable_s4;
}

static void piix4_pm_reset(Device *dev)
{
    Piix4Pm *s = PIIX4_PM(dev);
    PciDevice *pci = PCI_DEVICE(dev);

    pci_device_reset(pci);
    put_le32(pci->config + PIIX4_REG_PM_BASE, 1);
    pci->config[PIIX4_REG_PM_ENABLE] = 0;
    update_mapping(s);
    s->pm1_status = s->pm1_enable = s->pm1_control = 0;
    s->gpe_status = s->gpe_enable = 0;
    s->apm_control = s->apm_status = 0;
    s->timer_seen = pm_ticks(s) / PM_TIMER_HALF;
    update_sci(s);
}

static bool piix4_pm_post_load(void *opaque, int version, GError **errp)
{
    Piix4Pm *s = opaque;

    s->pm1_status &= STS_ALL;
    s->pm1_enable &= EN_ALL;
    s->pm1_control &= CNT_KEPT;
    update_mapping(s);
    s->timer_seen = pm_ticks(s) / PM_TIMER_HALF;
    update_sci(s);
    return true;
}

static const VMStateDescription vmstate_piix4_pm = {
    .name = "piix4_pm",
    .version_id = 4,
    .minimum_version_id = 4,
    .post_load = piix4_pm_post_load,
    .fields =
        (const VMStateField[]){
            VMSTATE_PCI_DEVICE(parent_instance, Piix4Pm), VMSTATE_UINT16(pm1_status, Piix4Pm),
            VMSTATE_UINT16(pm1_enable, Piix4Pm), VMSTATE_UINT16(pm1_control, Piix4Pm),
            VMSTATE_UINT16(gpe_status, Piix4Pm), VMSTATE_UINT16(gpe_enable, Piix4Pm),
            VMSTATE_UINT8(apm_control, Piix4Pm), VMSTATE_UINT8(apm_status, Piix4Pm),
            VMSTATE_END_OF_LIST() },
};

static const QomProperty piix4_pm_properties[] = {
    { .name = "disable_s3",
      .kind = QOM_UINT8,
      .offset = offsetof(Piix4Pm, disable_s3),
      .def = 1,
      .description = "suspend to RAM is not offered (1 only)" },
    { .name = "disable_s4",
      .kind = QOM_UINT8,
      .offset = offsetof(Piix4Pm, disable_s4),
      .description = "suspend to disk is not offered" },
    QOM_PROPERTY_END,
};

static void piix4_pm_finalize(GObject *obj)
{
    vm_timer_free(PIIX4_PM(obj)->timer);
    G_OBJECT_CLASS(piix4_pm_parent_class)->finalize(obj);
}

static void piix4_pm_init(Piix4Pm *s)
{
}

static void piix4_pm_class_init(Piix4PmClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    PciDeviceClass *pc = PCI_DEVICE_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = piix4_pm_finalize;
    qom_class_install(klass, piix4_pm_properties);
    pc->realize = piix4_pm_realize;
    pc->config_written = piix4_pm_config_written;
    pc->vendor = 0x8086;
    pc->device = 0x7113;
    pc->revision = 3;
    pc->class_code = 0x0680;
    dc->reset = piix4_pm_reset;
    dc->vmsd = &vmstate_piix4_pm;
    dc->desc = "PIIX4 power management";
}
