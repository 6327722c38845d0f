/*
 * The machine: the one object that is handed to everything that makes up a guest.
 *
 * system/ makes it, fills in what the command line says, and calls the class's phases in this order (design.md §4: memory
 * before interrupt controllers):
 *   1. init_memory   lays RAM and ROM into the address maps (in one address_map_begin/commit)
 *   2.               accelerator: irqchip and PIT (if irqchip and pit are set), vCPUs
 *   3. init_devices  makes the board's devices
 *   4.               -serial, -device
 *   5. finish        firmware tables from what is there; registers reset handlers (stage RESET_IMAGES and RESET_CPUS) that
 *                    put boot images into RAM and set boot registers
 *   6.               reset_run, unless a state comes in (incoming): then nothing may touch guest RAM before the
 *                    first reset
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_CORE_MACHINE_H
#define COWBIRD_HW_CORE_MACHINE_H

#include "hw/core/irq.h"
#include "hw/core/reset.h"
#include "qapi/qapi-types.h"
#include "qom/object.h"
#include "util/uuid.h"

typedef struct Accel Accel;
typedef struct AddressMap AddressMap;
typedef struct ChardevRegistry ChardevRegistry;
typedef struct _Chardev Chardev;
typedef struct CpuConfig CpuConfig;
typedef struct FdStore FdStore;
typedef struct _FwCfg FwCfg;
typedef struct _PciBus PciBus;
typedef struct QapiEventSink QapiEventSink;
typedef struct RamBlock RamBlock;
typedef struct RamList RamList;
typedef struct RunStateControl RunStateControl;
typedef struct VMStateRegistry VMStateRegistry;
typedef struct VmClock VmClock;

#define TYPE_MACHINE (machine_get_type())
typedef struct Machine Machine;
QOM_DECLARE_TYPE_OF(Machine, machine, MACHINE)

#define MACHINE_GSI_COUNT 24
#define MACHINE_SERIAL_MAX 4

/* -smp, completed: cpus = number running at start, max_cpus = sockets * dies * cores * threads. */
typedef struct SmpConfig {
    unsigned cpus, max_cpus, sockets, dies, cores, threads;
} SmpConfig;

/* Direct kernel boot. */
typedef struct BootConfig {
    char *kernel; /* file names; NULL = not given */
    char *initrd;
    char *cmdline;
    bool menu; /* -boot menu=on */
} BootConfig;

typedef enum RtcBase { RTC_BASE_UTC, RTC_BASE_LOCALTIME, RTC_BASE_DATE } RtcBase;

/* -rtc */
typedef struct RtcConfig {
    RtcBase base;
    int64_t start; /* RTC_BASE_DATE: seconds since 1970, as the guest shall read them at start */
    RtcClock clock;
    bool slew; /* driftfix=slew: lost ticks are re-injected */
} RtcConfig;

/* One -global: driver.property=value. */
typedef struct GlobalProperty {
    char *driver, *property, *value;
    bool used;
} GlobalProperty;

struct Machine {
    Object parent_instance;
    const QomType *const *types; /* all types that can be named */
    Object *root;                /* of the object tree; the machine is its child "machine" */

    /* The parts every board shares. Not owned by the machine. */
    AddressMap *memory, *io;
    RamList *ram;
    RamBlock *main; /* guest RAM; NULL for a machine without */
    Accel *accel;   /* NULL only for -machine none */
    RunStateControl *runstate;
    VMStateRegistry *vmstate;
    ChardevRegistry *chardevs;
    FdStore *fds;
    QapiEventSink *events;
    ResetList *resets;
    GPtrArray *globals; /* of GlobalProperty * */

    /* From the command line. */
    char *name; /* -name, or NULL */
    Uuid uuid;
    bool uuid_set;
    uint64_t ram_size;    /* bytes */
    char *memory_backend; /* id of the memory backend object, or NULL */
    SmpConfig smp;
    const CpuConfig *cpu;
    bool kvm_present; /* KVM can be used on this host */
    bool kvm_enabled; /* ... and -accel names it */
    BootConfig boot;
    RtcConfig rtc;
    bool started;  /* the board is complete: a device made now is hot-plugged */
    bool incoming; /* guest state comes from a stream */
    bool defaults; /* false with -nodefaults */
    bool dump_guest_core, mem_merge;
    Chardev *serial[MACHINE_SERIAL_MAX]; /* -serial, in order; NULL = none */

    /* Filled in by the board. */
    uint64_t below_4g, above_4g; /* bytes of RAM on either side of the hole */
    bool irqchip; /* the board wants the in-kernel interrupt controllers (set in init_memory) */
    bool pit;     /* ... and the in-kernel timer */
    IrqLine gsi[MACHINE_GSI_COUNT]; /* of the interrupt controllers; connected after step 2 */
    PciBus *pci;
    FwCfg *fw_cfg;
    VmClock *clock; /* time that passes only while the VM runs; set in init_memory */
    /* isa-debug-exit: the next shutdown ends the process with exit_status, even with -no-shutdown. */
    bool exit_requested;
    int exit_status;
    IrqLine generation_changed; /* pulsed by vmgenid; unconnected: no effect */
    IrqLine power_button;       /* pulsed by system_powerdown; unconnected: no effect */
};

struct _MachineClass {
    ObjectClass parent_class;
    const char *name;  /* "pc-i440fx-8.2", without "-machine" */
    const char *alias; /* "pc", or NULL */
    const char *desc;
    bool is_default;
    bool no_ram; /* takes no guest RAM and no vCPU ("none") */
    unsigned max_cpus;
    const char *default_ram_id;   /* name of the main RAM block, "pc.ram" */
    const char *default_cpu_type; /* QEMU's type name, or NULL */
    uint64_t default_ram_size;
    bool (*init_memory)(Machine *m, GError **errp);
    bool (*init_devices)(Machine *m, GError **errp);
    bool (*finish)(Machine *m, GError **errp);
};

/* A machine with its containers below root as child "machine"; the tree owns it. */
Machine *machine_new(GType type, Object *root, const QomType *const *types, GError **errp);
/* Connects gsi[] to the accelerator's interrupt controllers. */
void machine_connect_gsi(Machine *m);
/* Type of a machine by the name or alias given to -machine; 0 with an error naming the nearest ones. */
GType machine_type_find(const QomType *const *types, const char *name, GError **errp);
/* Calls fn for each machine type that can be made. */
void machine_foreach_class(const QomType *const *types, void (*fn)(MachineClass *, void *),
                           void *opaque);
/* The containers of the tree. */
Object *machine_peripheral(Machine *m);
Object *machine_peripheral_anon(Machine *m);
Object *machine_unattached(Machine *m);

/* -global driver.property=value, given before devices are made. Owned copies. */
void machine_add_global(Machine *m, const char *driver, const char *property, const char *value);
/* Applies the globals that fit the object's type or a parent type, in order. */
bool machine_apply_globals(Machine *m, Object *obj, GError **errp);

#endif
