/*
 * QMP commands about the machine: its types, CPUs, names, and tools that reach into it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/accel.h"
#include "hw/core/machine.h"
#include "memory/guest-access.h"
#include "qapi/qapi-commands.h"
#include "util/error.h"
#include "util/fds.h"
#include "util/io.h"
#include "util/units.h"

#include <fcntl.h>
#include <unistd.h>

static CpuInstanceProperties *cpu_place(const SmpConfig *smp, unsigned i)
{
    CpuInstanceProperties *props = g_new0(CpuInstanceProperties, 1);

    props->has_thread_id = props->has_core_id = props->has_socket_id = true;
    props->thread_id = i % smp->threads;
    props->core_id = i / smp->threads % smp->cores;
    props->has_die_id = smp->dies > 1;
    props->die_id = i / smp->threads / smp->cores % smp->dies;
    props->socket_id = i / smp->threads / smp->cores / smp->dies;
    return props;
}

GPtrArray *qmp_query_cpus_fast(Machine *m, GError **errp)
{
    GPtrArray *list = g_ptr_array_new();
    unsigned n = m->accel ? accel_vcpu_count(m->accel) : 0;

    for (unsigned i = 0; i < n; i++) {
        CpuInfoFast *info = g_new0(CpuInfoFast, 1);

        info->cpu_index = i;
        info->qom_path = g_strdup_printf("/machine/unattached/device[%u]", i);
        info->thread_id = accel_vcpu_thread_id(m->accel, i);
        info->props = cpu_place(&m->smp, i);
        info->target = SYS_EMU_TARGET_X86_64;
        g_ptr_array_add(list, info);
    }
    return list;
}

static HotpluggableCPU *place_of_cpu(Machine *m, unsigned i)
{
    HotpluggableCPU *cpu = g_new0(HotpluggableCPU, 1);
    Object *obj;

    cpu->qom_path = g_strdup_printf("/machine/unattached/device[%u]", i);
    obj = object_resolve(m->root, cpu->qom_path);
    cpu->type = g_strdup(obj ? object_type_name(obj) : "");
    cpu->vcpus_count = 1;
    cpu->props = cpu_place(&m->smp, i);
    return cpu;
}

GPtrArray *qmp_query_hotpluggable_cpus(Machine *m, GError **errp)
{
    GPtrArray *list = g_ptr_array_new();
    unsigned n = m->accel ? accel_vcpu_count(m->accel) : 0;

    for (unsigned i = 0; i < n; i++) {
        g_ptr_array_add(list, place_of_cpu(m, i));
    }
    return list;
}

GPtrArray *qmp_query_tpm_models(Machine *m, GError **errp)
{
    return g_ptr_array_new();
}

GPtrArray *qmp_query_tpm_types(Machine *m, GError **errp)
{
    return g_ptr_array_new();
}

static void add_machine(MachineClass *klass, void *opaque)
{
    MachineInfo *info = g_new0(MachineInfo, 1);

    info->name = g_strdup(klass->name);
    info->alias = g_strdup(klass->alias);
    info->has_is_default = klass->is_default;
    info->is_default = klass->is_default;
    info->cpu_max = klass->max_cpus;
    info->default_cpu_type = g_strdup(klass->default_cpu_type);
    info->default_ram_id = g_strdup(klass->default_ram_id);
    info->acpi = qom_class_find_property(klass, "acpi") != NULL;
    g_ptr_array_add(opaque, info);
}

GPtrArray *qmp_query_machines(Machine *m, GError **errp)
{
    GPtrArray *list = g_ptr_array_new();

    machine_foreach_class(m->types, add_machine, list);
    return list;
}

TargetInfo *qmp_query_target(Machine *m, GError **errp)
{
    TargetInfo *info = g_new0(TargetInfo, 1);

    info->arch = SYS_EMU_TARGET_X86_64;
    return info;
}

UuidInfo *qmp_query_uuid(Machine *m, GError **errp)
{
    UuidInfo *info = g_new0(UuidInfo, 1);

    info->UUID = uuid_to_string(&m->uuid);
    return info;
}

KvmInfo *qmp_query_kvm(Machine *m, GError **errp)
{
    KvmInfo *info = g_new0(KvmInfo, 1);

    info->present = m->kvm_present;
    info->enabled = m->kvm_enabled;
    return info;
}

bool qmp_inject_nmi(Machine *m, GError **errp)
{
    if (!m->accel) {
        error_set(errp, "this machine has no CPUs");
        return false;
    }
    accel_inject_nmi(m->accel);
    return true;
}

/* First guest-physical address above all RAM. */
static uint64_t end_of_memory(const Machine *m)
{
    return 4 * GiB + m->above_4g;
}

/* One piece: what is not RAM there reads as zeros. */
static void read_piece(Machine *m, uint64_t gpa, uint8_t *buf, size_t len)
{
    for (size_t done = 0; done < len;) {
        size_t n = MIN(len - done, 4 * KiB - (gpa + done) % (4 * KiB));

        if (!guest_read(m->memory, gpa + done, buf + done, n)) {
            memset(buf + done, 0, n);
        }
        done += n;
    }
}

static bool save_memory(Machine *m, const PmemsaveArg *arg, int fd, GError **errp)
{
    g_autofree uint8_t *buf = g_malloc(MiB);

    for (uint64_t done = 0; done < arg->size;) {
        size_t len = MIN(arg->size - done, MiB);

        read_piece(m, arg->val + done, buf, len);
        if (!write_full(fd, buf, len, errp)) {
            g_prefix_error(errp, "pmemsave '%s': ", arg->filename);
            return false;
        }
        done += len;
    }
    return true;
}

bool qmp_pmemsave(Machine *m, const PmemsaveArg *arg, GError **errp)
{
    uint64_t end = end_of_memory(m);
    bool ok;
    int fd;

    if (arg->val >= end || arg->size > end - arg->val) {
        error_set(errp, "pmemsave: the memory of this machine ends at 0x%" PRIx64, end);
        return false;
    }
    fd = fd_store_open(m->fds, arg->filename, O_WRONLY | O_CREAT | O_TRUNC, 0666, errp);
    if (fd < 0) {
        return false;
    }
    ok = save_memory(m, arg, fd, errp);
    if (close(fd) < 0 && ok) {
        error_set_errno(errp, errno, "pmemsave '%s': cannot finish the file", arg->filename);
        ok = false;
    }
    return ok;
}
