/*
 * The least that a copy-on-write restore can cost: VM, memory of the snapshot file mapped private, memslots,
 * irqchip, PIT, one vCPU, its registers, KVM_RUN, until the guest writes to port 0xe9.
 *
 *     floor-restore SNAPSHOT PAGES-OFFSET RAM-BYTES STATE
 *
 * STATE is made from the same snapshot beforehand (floor_state.py). State that this guest does not need
 * to get to its tick (interrupt chips, PIT, clock, events) is read and set back, for the same system calls. The
 * tick is a byte to descriptor 9.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define TICK_FD 9
#define DEBUGCON 0xe9
#define GiB (UINT64_C(1) << 30)
#define BELOW_4G_MAX (3 * GiB)
#define KVM_SPACE 0xfeffc000u /* identity map page and TSS, where the board has nothing */
#define CPUID_MAX 256
#define MSRS_MAX 256

/* Written by floor_state.py. */
typedef struct FloorState {
    struct kvm_regs regs;
    struct kvm_sregs sregs;
    struct kvm_xsave xsave;
    struct kvm_lapic_state lapic;
    struct kvm_mp_state mp_state;
    uint32_t n_msrs;
    struct kvm_msr_entry msrs[MSRS_MAX];
} FloorState;

typedef struct FloorVm {
    int kvm, vm, vcpu;
    struct kvm_run *run;
} FloorVm;

static int checked(int result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(1);
    }
    return result;
}

#define IOCTL(fd, request, arg) checked(ioctl(fd, request, arg), #request)

static void read_state(const char *path, FloorState *state)
{
    int fd = checked(open(path, O_RDONLY | O_CLOEXEC), path);

    if (read(fd, state, sizeof(*state)) != sizeof(*state)) {
        fprintf(stderr, "%s is too short\n", path);
        exit(1);
    }
    close(fd);
}

static void map_ram(const FloorVm *vm, const char *path, off_t offset, uint64_t size)
{
    int fd = checked(open(path, O_RDONLY | O_CLOEXEC), path);
    uint64_t below = size > BELOW_4G_MAX ? BELOW_4G_MAX : size;
    uint8_t *ram =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, offset);
    struct kvm_userspace_memory_region slot = { .slot = 0,
                                                .memory_size = below,
                                                .userspace_addr = (uintptr_t)ram };

    checked(ram == MAP_FAILED ? -1 : 0, "mmap");
    IOCTL(vm->vm, KVM_SET_USER_MEMORY_REGION, &slot);
    if (size > below) {
        slot = (struct kvm_userspace_memory_region){ .slot = 1,
                                                     .guest_phys_addr = 4 * GiB,
                                                     .memory_size = size - below,
                                                     .userspace_addr = (uintptr_t)ram + below };
        IOCTL(vm->vm, KVM_SET_USER_MEMORY_REGION, &slot);
    }
}

static void create_vm(FloorVm *vm)
{
    uint64_t identity = KVM_SPACE;

    vm->kvm = checked(open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm");
    vm->vm = IOCTL(vm->kvm, KVM_CREATE_VM, 0);
    IOCTL(vm->vm, KVM_SET_IDENTITY_MAP_ADDR, &identity);
    IOCTL(vm->vm, KVM_SET_TSS_ADDR, KVM_SPACE + 0x1000);
}

static void create_vcpu(FloorVm *vm)
{
    static struct {
        struct kvm_cpuid2 head;
        struct kvm_cpuid_entry2 entries[CPUID_MAX];
    } cpuid = { .head.nent = CPUID_MAX };
    struct kvm_pit_config pit = { .flags = KVM_PIT_SPEAKER_DUMMY };
    int size = IOCTL(vm->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

    IOCTL(vm->vm, KVM_CREATE_IRQCHIP, 0);
    IOCTL(vm->vm, KVM_CREATE_PIT2, &pit);
    vm->vcpu = IOCTL(vm->vm, KVM_CREATE_VCPU, 0);
    vm->run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, vm->vcpu, 0);
    checked(vm->run == MAP_FAILED ? -1 : 0, "mmap of the vCPU");
    IOCTL(vm->kvm, KVM_GET_SUPPORTED_CPUID, &cpuid.head);
    IOCTL(vm->vcpu, KVM_SET_CPUID2, &cpuid.head);
}

static void load_vcpu(const FloorVm *vm, FloorState *state)
{
    struct {
        struct kvm_msrs head;
        struct kvm_msr_entry entries[MSRS_MAX];
    } msrs = { 0 };
    struct kvm_xcrs xcrs;
    struct kvm_debugregs debugregs;
    struct kvm_vcpu_events events;

    IOCTL(vm->vcpu, KVM_SET_SREGS, &state->sregs);
    IOCTL(vm->vcpu, KVM_GET_XCRS, &xcrs);
    IOCTL(vm->vcpu, KVM_SET_XCRS, &xcrs);
    IOCTL(vm->vcpu, KVM_SET_XSAVE, &state->xsave);
    IOCTL(vm->vcpu, KVM_SET_LAPIC, &state->lapic);
    /* KVM stops at the first it does not take. */
    for (uint32_t at = 0; at < state->n_msrs;) {
        msrs.head.nmsrs = state->n_msrs - at;
        for (uint32_t i = 0; i < msrs.head.nmsrs; i++) {
            msrs.entries[i] = state->msrs[at + i];
        }
        at += IOCTL(vm->vcpu, KVM_SET_MSRS, &msrs.head) + 1;
    }
    IOCTL(vm->vcpu, KVM_SET_REGS, &state->regs);
    IOCTL(vm->vcpu, KVM_GET_VCPU_EVENTS, &events);
    IOCTL(vm->vcpu, KVM_SET_VCPU_EVENTS, &events);
    IOCTL(vm->vcpu, KVM_GET_DEBUGREGS, &debugregs);
    IOCTL(vm->vcpu, KVM_SET_DEBUGREGS, &debugregs);
}

static void load_chips(const FloorVm *vm)
{
    struct kvm_pit_state2 pit;
    struct kvm_clock_data clock = { 0 };

    for (unsigned i = 0; i < KVM_NR_IRQCHIPS; i++) {
        struct kvm_irqchip chip = { .chip_id = i };

        IOCTL(vm->vm, KVM_GET_IRQCHIP, &chip);
        IOCTL(vm->vm, KVM_SET_IRQCHIP, &chip);
    }
    IOCTL(vm->vm, KVM_GET_PIT2, &pit);
    IOCTL(vm->vm, KVM_SET_PIT2, &pit);
    IOCTL(vm->vm, KVM_SET_CLOCK, &clock);
}

static void run_to_tick(const FloorVm *vm)
{
    while (true) {
        IOCTL(vm->vcpu, KVM_RUN, 0);
        if (vm->run->exit_reason != KVM_EXIT_IO && vm->run->exit_reason != KVM_EXIT_MMIO) {
            fprintf(stderr, "the guest left with exit %u\n", vm->run->exit_reason);
            exit(1);
        }
        if (vm->run->exit_reason == KVM_EXIT_IO && vm->run->io.port == DEBUGCON) {
            checked((int)write(TICK_FD, ".", 1), "tick");
            return;
        }
    }
}

int main(int argc, char **argv)
{
    static FloorState state;
    FloorVm vm;

    if (argc != 5) {
        fputs("usage: floor-restore SNAPSHOT PAGES-OFFSET RAM-BYTES STATE\n", stderr);
        return 2;
    }
    read_state(argv[4], &state);
    create_vm(&vm);
    map_ram(&vm, argv[1], strtoll(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
    create_vcpu(&vm);
    load_vcpu(&vm, &state);
    load_chips(&vm);
    IOCTL(vm.vcpu, KVM_SET_MP_STATE, &state.mp_state);
    run_to_tick(&vm);
    pause();
    return 0;
}
