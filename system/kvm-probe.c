/*
 * Whether KVM can be used, without making a virtual machine.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/kvm-probe.h"

#include <fcntl.h>
#include <glib.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool kvm_probe(void)
{
    int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    bool usable;

    if (fd < 0) {
        return false;
    }
    usable = ioctl(fd, KVM_GET_API_VERSION, 0) == KVM_API_VERSION;
    close(fd);
    return usable;
}

bool accel_is_listed(const char *accel_list, const char *name)
{
    g_auto(GStrv) names = g_strsplit(accel_list, ":", -1);

    return g_strv_contains((const char *const *)names, name);
}
