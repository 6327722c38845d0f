/*
 * KVM's statistics files: a header, descriptors that never change, and the numbers, as the kernel describes it in
 * Documentation/virt/kvm/api.rst (KVM_GET_STATS_FD, Linux 5.14).
 *
 * A vCPU hands out its file only while it is not in the guest, so all files are opened together, when somebody asks for
 * the first time. Reading them then disturbs no vCPU.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/kvm-stats.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "accel/kvm.h"
#include "util/error.h"

/* Beyond this the kernel's own numbers are not believed. */
#define MAX_STATS 4096
#define MAX_NAME 256

/* What every file of a kind has in common. */
typedef struct Layout {
    unsigned n;
    AccelStat *stats;
    uint32_t *offsets; /* of each in the data, in numbers */
    char *names;       /* n times name_size bytes */
    uint32_t name_size;
    uint64_t data_offset;
    uint32_t data_count; /* numbers to read */
} Layout;

struct KvmStats {
    int vm_fd;
    int *vcpu_fds;
    unsigned n_vcpus;
    Layout layouts[STATS_TARGET__MAX];
};

static bool read_at(int fd, void *buf, size_t len, uint64_t offset, GError **errp)
{
    ssize_t got = pread(fd, buf, len, (off_t)offset);

    if (got == (ssize_t)len) {
        return true;
    }
    if (got < 0) {
        error_set_errno(errp, errno, "cannot read KVM's statistics");
    } else {
        error_set(errp, "KVM's statistics end after %zd of %zu bytes at %" PRIu64, got, len,
                  offset);
    }
    return false;
}

static StatsType type_of(uint32_t flags)
{
    switch (flags & KVM_STATS_TYPE_MASK) {
    case KVM_STATS_TYPE_CUMULATIVE:
        return STATS_TYPE_CUMULATIVE;
    case KVM_STATS_TYPE_PEAK:
        return STATS_TYPE_PEAK;
    case KVM_STATS_TYPE_LINEAR_HIST:
        return STATS_TYPE_LINEAR_HISTOGRAM;
    case KVM_STATS_TYPE_LOG_HIST:
        return STATS_TYPE_LOG2_HISTOGRAM;
    default:
        return STATS_TYPE_INSTANT;
    }
}

static bool unit_of(uint32_t flags, StatsUnit *ret_unit)
{
    switch (flags & KVM_STATS_UNIT_MASK) {
    case KVM_STATS_UNIT_BYTES:
        *ret_unit = STATS_UNIT_BYTES;
        return true;
    case KVM_STATS_UNIT_SECONDS:
        *ret_unit = STATS_UNIT_SECONDS;
        return true;
    case KVM_STATS_UNIT_CYCLES:
        *ret_unit = STATS_UNIT_CYCLES;
        return true;
    case KVM_STATS_UNIT_BOOLEAN:
        *ret_unit = STATS_UNIT_BOOLEAN;
        return true;
    default:
        return false;
    }
}

/* One descriptor of the kernel's into number @i of the layout. */
static bool take_descriptor(Layout *l, unsigned i, const struct kvm_stats_desc *desc,
                            const char *name, GError **errp)
{
    AccelStat *stat = &l->stats[i];
    char *copy = l->names + (size_t)i * l->name_size;

    memcpy(copy, name, l->name_size);
    copy[l->name_size - 1] = '\0';
    stat->name = copy;
    stat->type = type_of(desc->flags);
    stat->has_unit = unit_of(desc->flags, &stat->unit);
    stat->base = (desc->flags & KVM_STATS_BASE_MASK) == KVM_STATS_BASE_POW2 ? 2 : 10;
    stat->exponent = desc->exponent;
    stat->bucket_size = desc->bucket_size;
    stat->count = desc->size;
    l->offsets[i] = desc->offset / sizeof(uint64_t);
    if (desc->offset % sizeof(uint64_t) || desc->offset > MAX_STATS * sizeof(uint64_t) ||
        desc->size == 0 || desc->size > MAX_STATS) {
        error_set(errp, "KVM's statistic '%s' lies at %u with %u numbers, which cannot be", copy,
                  desc->offset, desc->size);
        return false;
    }
    l->data_count = MAX(l->data_count, l->offsets[i] + desc->size);
    return true;
}

static bool read_layout(Layout *l, int fd, GError **errp)
{
    struct kvm_stats_header header;
    g_autofree char *text = NULL;
    size_t each;

    if (!read_at(fd, &header, sizeof(header), 0, errp)) {
        return false;
    }
    if (header.num_desc > MAX_STATS || header.name_size == 0 || header.name_size > MAX_NAME) {
        error_set(errp, "KVM tells of %u statistics with names of %u bytes, which cannot be",
                  header.num_desc, header.name_size);
        return false;
    }
    each = sizeof(struct kvm_stats_desc) + header.name_size;
    text = g_malloc(each * header.num_desc);
    if (!read_at(fd, text, each * header.num_desc, header.desc_offset, errp)) {
        return false;
    }
    l->n = header.num_desc;
    l->name_size = header.name_size;
    l->data_offset = header.data_offset;
    l->stats = g_new0(AccelStat, l->n);
    l->offsets = g_new0(uint32_t, l->n);
    l->names = g_malloc0((size_t)l->n * l->name_size);
    for (unsigned i = 0; i < l->n; i++) {
        struct kvm_stats_desc desc;

        memcpy(&desc, text + i * each, sizeof(desc));
        if (!take_descriptor(l, i, &desc, text + i * each + sizeof(desc), errp)) {
            return false;
        }
    }
    return true;
}

static void clear_layout(Layout *l)
{
    g_free(l->stats);
    g_free(l->offsets);
    g_free(l->names);
}

void kvm_stats_free(KvmStats *stats)
{
    if (!stats) {
        return;
    }
    if (stats->vm_fd >= 0) {
        close(stats->vm_fd);
    }
    for (unsigned i = 0; i < stats->n_vcpus; i++) {
        close(stats->vcpu_fds[i]);
    }
    for (unsigned i = 0; i < STATS_TARGET__MAX; i++) {
        clear_layout(&stats->layouts[i]);
    }
    g_free(stats->vcpu_fds);
    g_free(stats);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(KvmStats, kvm_stats_free)

static int open_file(int fd, GError **errp)
{
    int file = ioctl(fd, KVM_GET_STATS_FD, NULL);

    if (file < 0) {
        error_set_errno(errp, errno, "KVM gives no file of statistics");
    }
    return file;
}

/* The vCPUs are held. */
static KvmStats *open_files(KvmAccel *kvm, GError **errp)
{
    g_autoptr(KvmStats) stats = g_new0(KvmStats, 1);

    stats->vcpu_fds = g_new0(int, kvm->n_vcpus);
    stats->vm_fd = open_file(kvm->vm_fd, errp);
    if (stats->vm_fd < 0 || !read_layout(&stats->layouts[STATS_TARGET_VM], stats->vm_fd, errp)) {
        return NULL;
    }
    for (; stats->n_vcpus < kvm->n_vcpus; stats->n_vcpus++) {
        int fd = open_file(kvm->vcpus[stats->n_vcpus].fd, errp);

        if (fd < 0) {
            return NULL;
        }
        stats->vcpu_fds[stats->n_vcpus] = fd;
    }
    if (stats->n_vcpus > 0 &&
        !read_layout(&stats->layouts[STATS_TARGET_VCPU], stats->vcpu_fds[0], errp)) {
        return NULL;
    }
    return g_steal_pointer(&stats);
}

/* True with *@ret NULL: this kernel keeps no statistics in files. */
static bool get_stats(Accel *accel, KvmStats **ret, GError **errp)
{
    KvmAccel *kvm = KVM_ACCEL(accel);

    if (!kvm->stats && kvm_check(kvm, KVM_CAP_BINARY_STATS_FD) > 0) {
        accel_pause(accel);
        kvm->stats = open_files(kvm, errp);
        accel_resume(accel);
        if (!kvm->stats) {
            return false;
        }
    }
    *ret = kvm->stats;
    return true;
}

bool kvm_describe_stats(Accel *accel, StatsTarget target, AccelStatFn fn, void *opaque,
                        GError **errp)
{
    KvmStats *stats;

    if (!get_stats(accel, &stats, errp)) {
        return false;
    }
    for (unsigned i = 0; stats && i < stats->layouts[target].n; i++) {
        fn(&stats->layouts[target].stats[i], NULL, opaque);
    }
    return true;
}

bool kvm_read_stats(Accel *accel, StatsTarget target, unsigned i, AccelStatFn fn, void *opaque,
                    GError **errp)
{
    g_autofree uint64_t *values = NULL;
    const Layout *l;
    KvmStats *stats;

    if (!get_stats(accel, &stats, errp)) {
        return false;
    }
    if (!stats) {
        return true;
    }
    g_return_val_if_fail(target == STATS_TARGET_VM || i < stats->n_vcpus, false);
    l = &stats->layouts[target];
    values = g_new(uint64_t, l->data_count);
    if (!read_at(target == STATS_TARGET_VM ? stats->vm_fd : stats->vcpu_fds[i], values,
                 l->data_count * sizeof(*values), l->data_offset, errp)) {
        return false;
    }
    for (unsigned s = 0; s < l->n; s++) {
        fn(&l->stats[s], values + l->offsets[s], opaque);
    }
    return true;
}
