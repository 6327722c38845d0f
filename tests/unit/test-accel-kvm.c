/*
 * Tests of the KVM accelerator with guests of a few instructions: I/O, slots, reset, errors, saving
 * and loading of registers, several vCPUs. Skipped where /dev/kvm cannot be used.
 *
 * The guests run in 32-bit protected mode without paging, started as PVH starts a kernel, at CODE.
 * Port 0x80 takes what they have to say.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accel/accel.h"
#include "util/error.h"

#define RAM_SIZE (2u << 20)
#define CODE 0x1000
#define DATA 0x2000
#define ROM_BASE 0x400000
#define MMIO_BASE 0xd0000000u

/* --- One VM --- */

typedef struct Vm {
    RamList *ram;
    RamBlock *block, *rom;
    AddressMap *memory, *io;
    VMStateRegistry *vmstate;
    RunStateControl *rs;
    Accel *accel;
    GByteArray *said; /* bytes written to port 0x80 */
    guint stop_after; /* bytes after which the guest is stopped; 0 = never */
    uint8_t feed;     /* what a read of port 0x80 gives next */
    uint64_t mmio[2]; /* value and offset of the last write to MMIO */
    int resets;
} Vm;

/* The lock that the main loop gives up while it sleeps. */
static Accel *polling;

static gint poll_unlocked(GPollFD *fds, guint n, gint timeout)
{
    gint r;

    accel_unlock(polling);
    r = g_poll(fds, n, timeout);
    accel_lock(polling);
    return r;
}

static uint64_t port_read(void *opaque, uint64_t offset, unsigned size)
{
    return ((Vm *)opaque)->feed++;
}

static void port_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    Vm *vm = opaque;
    uint8_t byte = value;

    g_byte_array_append(vm->said, &byte, 1);
    if (vm->said->len == vm->stop_after) {
        runstate_request_stop(vm->rs, RUN_STATE_PAUSED);
    }
}

static const IoOps port_ops = { port_read, port_write, 1, 1 };

static uint64_t mmio_read(void *opaque, uint64_t offset, unsigned size)
{
    return 0x11223300 + offset;
}

static void mmio_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    Vm *vm = opaque;

    vm->mmio[0] = value;
    vm->mmio[1] = offset;
}

static const IoOps mmio_ops = { mmio_read, mmio_write, 1, 4 };

static void on_reset(void *opaque, ShutdownCause cause)
{
    Vm *vm = opaque;

    vm->resets++;
    g_assert_true(accel_reset(vm->accel, NULL));
    if (vm->resets == 2) {
        runstate_request_stop(vm->rs, RUN_STATE_PAUSED);
    }
}

static void make_memory(Vm *vm)
{
    GError *err = NULL;

    vm->ram = ram_list_new();
    vm->block = ram_list_add(vm->ram, ram_block_new_anonymous("ram", RAM_SIZE, &err), &err);
    vm->rom = ram_list_add(vm->ram, ram_block_new_anonymous("rom", 4096, &err), &err);
    g_assert_no_error(err);
    vm->memory = address_map_new("memory", 52);
    vm->io = address_map_new("I/O", 16);
    address_map_begin(vm->memory);
    address_map_add_ram(vm->memory, 0, vm->block, 0, RAM_SIZE, false, &err);
    address_map_add_ram(vm->memory, ROM_BASE, vm->rom, 0, 4096, true, &err);
    address_map_add_io(vm->memory, MMIO_BASE, 0x1000, "mmio", &mmio_ops, vm, &err);
    address_map_commit(vm->memory);
    address_map_add_io(vm->io, 0x80, 2, "port", &port_ops, vm, &err);
    g_assert_no_error(err);
}

static Vm *vm_new(unsigned cpus, const uint8_t *code, size_t len)
{
    static const RunStateHandlers handlers = { .reset = on_reset };
    VcpuBoot boot = { .mode = VCPU_BOOT_PVH32,
                      .rip = CODE,
                      .rsp = 0x80000,
                      .gdt_base = 0x500,
                      .gdt_limit = 0x1f,
                      .cs = 8,
                      .ds = 16,
                      .tr = 24 };
    CpuConfig config = { .topology = { 1, 1, cpus, 1 } };
    Vm *vm = g_new0(Vm, 1);
    GError *err = NULL;

    vm->said = g_byte_array_new();
    vm->rs = runstate_new(NULL);
    vm->vmstate = vmstate_registry_new();
    runstate_set_handlers(vm->rs, &handlers, vm);
    make_memory(vm);
    memcpy(vm->block->host + CODE, code, len);
    AccelEnv env = { vm->rs, vm->memory, vm->io, vm->ram, vm->vmstate };

    vm->accel = accel_create("tcg:kvm", &env, &err);
    g_assert_no_error(err);
    accel_lock(vm->accel);
    polling = vm->accel;
    g_main_context_set_poll_func(NULL, poll_unlocked);
    g_assert_true(accel_create_irqchip(vm->accel, true, &err));
    g_assert_true(accel_create_vcpus(vm->accel, &config, cpus, &err));
    g_assert_true(accel_set_boot_registers(vm->accel, &boot, &err));
    g_assert_no_error(err);
    return vm;
}

static void vm_free(Vm *vm)
{
    g_main_context_set_poll_func(NULL, NULL);
    accel_unlock(vm->accel);
    accel_destroy(vm->accel);
    address_map_free(vm->memory);
    address_map_free(vm->io);
    ram_list_free(vm->ram);
    g_assert_cmpuint(vmstate_registry_count(vm->vmstate), ==, 0);
    vmstate_registry_free(vm->vmstate);
    runstate_free(vm->rs);
    g_byte_array_unref(vm->said);
    g_free(vm);
}

static gboolean too_long(gpointer opaque)
{
    g_error("the guest did not stop within 20 s");
    return G_SOURCE_REMOVE;
}

static void start(Vm *vm)
{
    GError *err = NULL;

    g_assert_true(runstate_start(vm->rs, &err));
    g_assert_no_error(err);
}

/* Until the guest has stopped. */
static RunState wait_stopped(Vm *vm)
{
    guint watchdog = g_timeout_add_seconds(20, too_long, NULL);

    while (runstate_is_running(vm->rs)) {
        g_main_context_iteration(NULL, TRUE);
    }
    g_source_remove(watchdog);
    return runstate_get(vm->rs);
}

static RunState run(Vm *vm)
{
    start(vm);
    return wait_stopped(vm);
}

static gboolean woken(gpointer opaque)
{
    *(bool *)opaque = true;
    return G_SOURCE_REMOVE;
}

/* The guest runs for a while, the main loop too. */
static void let_run(unsigned ms)
{
    bool done = false;

    g_timeout_add(ms, woken, &done);
    while (!done) {
        g_main_context_iteration(NULL, TRUE);
    }
}

/* Until the guest has said @n bytes more. */
static void hear(Vm *vm, guint n)
{
    guint until = vm->said->len + n;
    guint watchdog = g_timeout_add_seconds(20, too_long, NULL);

    while (vm->said->len < until) {
        let_run(1);
    }
    g_source_remove(watchdog);
}

static uint32_t peek(Vm *vm, uint32_t at)
{
    uint32_t v;

    memcpy(&v, vm->block->host + at, sizeof(v));
    return v;
}

/* --- Guests --- */

/* Counts in eax, says each number, stores it at DATA. */
static const uint8_t counter[] = {
    0x31, 0xc0,                   /* xor eax, eax */
    0x40,                         /* inc eax */
    0xa3, 0x00, 0x20, 0x00, 0x00, /* mov [DATA], eax */
    0xe6, 0x80,                   /* out 0x80, al */
    0xeb, 0xf6,                   /* jmp to inc */
};

/* rep outsb of 5 bytes at DATA, rep insb of 4 to DATA + 16, then say 0xff. */
static const uint8_t strings[] = {
    0xbe, 0x00, 0x20, 0x00, 0x00, /* mov esi, DATA */
    0xb9, 0x05, 0x00, 0x00, 0x00, /* mov ecx, 5 */
    0xba, 0x80, 0x00, 0x00, 0x00, /* mov edx, 0x80 */
    0xf3, 0x6e,                   /* rep outsb */
    0xbf, 0x10, 0x20, 0x00, 0x00, /* mov edi, DATA + 16 */
    0xb9, 0x04, 0x00, 0x00, 0x00, /* mov ecx, 4 */
    0xf3, 0x6c,                   /* rep insb */
    0xb0, 0xff, 0xe6, 0x80, 0xf4, /* mov al, 0xff; out 0x80, al; hlt */
};

/* Writes to MMIO and to ROM, reads both back to DATA. */
static const uint8_t memory_io[] = {
    0xb8, 0x78, 0x56, 0x34, 0x12, /* mov eax, 0x12345678 */
    0xa3, 0x08, 0x00, 0x00, 0xd0, /* mov [MMIO_BASE + 8], eax */
    0xa3, 0x00, 0x00, 0x40, 0x00, /* mov [ROM_BASE], eax */
    0xa1, 0x04, 0x00, 0x00, 0xd0, /* mov eax, [MMIO_BASE + 4] */
    0xa3, 0x00, 0x20, 0x00, 0x00, /* mov [DATA], eax */
    0xa1, 0x00, 0x00, 0x40, 0x00, /* mov eax, [ROM_BASE] */
    0xa3, 0x04, 0x20, 0x00, 0x00, /* mov [DATA + 4], eax */
    0xe6, 0x80, 0xf4,             /* out 0x80, al; hlt */
};

static const uint8_t triple_fault[] = {
    0xb0, 0x01, 0xe6, 0x80, /* say 1 */
    0x0f, 0x0b,             /* ud2, without an IDT */
};

/* Jumps to where there is nothing that could be executed. */
static const uint8_t jump_away[] = { 0xb8, 0x00, 0x00, 0x00, 0xe0, 0xff, 0xe0 };

/* Reads ROM_BASE for ever and says the low byte. */
static const uint8_t reader[] = {
    0xa1, 0x00, 0x00, 0x40, 0x00, /* mov eax, [ROM_BASE] */
    0xe6, 0x80,                   /* out 0x80, al */
    0xeb, 0xf7,                   /* jmp back */
};

/* Starts all other processors at 0x8000 by INIT and SIPI, and waits. */
static const uint8_t starter[] = {
    0xb8, 0x00, 0x03, 0xe0, 0xfe,       /* mov eax, 0xfee00300 */
    0xc7, 0x00, 0x00, 0x45, 0x0c, 0x00, /* mov [eax], INIT to all others */
    0xc7, 0x00, 0x08, 0x46, 0x0c, 0x00, /* mov [eax], SIPI, page 8 */
    0xc7, 0x00, 0x08, 0x46, 0x0c, 0x00, /* again */
    0xfa, 0xf4, 0xeb, 0xfd,             /* cli; hlt; jmp back to hlt */
};
/* Say 0x55; cli; hlt; jmp back to hlt, for the second SIPI can end it. */
static const uint8_t secondary[] = { 0xb0, 0x55, 0xe6, 0x81, 0xfa, 0xf4, 0xeb, 0xfd };

/*
 * Switches its local APIC on and LINT1 to NMI, says 1 and waits. The handlers are below; they go on
 * waiting instead of returning, as 32-bit IRET is more than every KVM can emulate.
 */
static const uint8_t interrupted[] = {
    0x0f, 0x01, 0x1d, 0x00, 0x06, 0x00, 0x00,                   /* lidt [IDTR] */
    0xc7, 0x05, 0xf0, 0x00, 0xe0, 0xfe, 0xff, 0x01, 0x00, 0x00, /* mov [0xfee000f0], 0x1ff */
    0xc7, 0x05, 0x60, 0x03, 0xe0, 0xfe, 0x00, 0x04, 0x00, 0x00, /* mov [0xfee00360], 0x400 */
    0xb0, 0x01, 0xe6, 0x80, 0xfb, 0xeb, 0xfe,                   /* say 1; sti; jmp $ */
};
static const uint8_t on_vector[] = {
    0xb0, 0x40, 0xe6, 0x80,                                     /* say 0x40 */
    0xc7, 0x05, 0xb0, 0x00, 0xe0, 0xfe, 0x00, 0x00, 0x00, 0x00, /* mov [0xfee000b0], 0: EOI */
    0xfb, 0xeb, 0xfe,                                           /* sti; jmp $ */
};
static const uint8_t on_nmi[] = { 0xb0, 0x02, 0xe6, 0x80, 0xeb, 0xfe }; /* say 2; jmp $ */

#define GDT 0x500
#define IDTR 0x600
#define IDT 0x700
#define VECTOR 0x40
#define ON_VECTOR 0x1100
#define ON_NMI 0x1180

/* --- Tests --- */

static void test_count(void)
{
    Vm *vm = vm_new(1, counter, sizeof(counter));

    vm->stop_after = 10;
    g_assert_cmpint(run(vm), ==, RUN_STATE_PAUSED);
    g_assert_cmpuint(vm->said->len, ==, 10);
    for (int i = 0; i < 10; i++) {
        g_assert_cmpuint(vm->said->data[i], ==, i + 1);
    }
    g_assert_cmpuint(peek(vm, DATA), ==, 10);
    /* Going on neither repeats nor skips anything. */
    vm->stop_after = 25;
    g_assert_cmpint(run(vm), ==, RUN_STATE_PAUSED);
    g_assert_cmpuint(vm->said->data[24], ==, 25);
    g_assert_cmpint(accel_vcpu_thread_id(vm->accel, 0), >, 0);
    vm_free(vm);
}

static void test_strings(void)
{
    Vm *vm = vm_new(1, strings, sizeof(strings));

    memcpy(vm->block->host + DATA, "hello", 5);
    vm->feed = 0x41;
    vm->stop_after = 6;
    run(vm);
    g_assert_cmpmem(vm->said->data, vm->said->len, "hello\xff", 6);
    g_assert_cmpmem(vm->block->host + DATA + 16, 4, "ABCD", 4);
    vm_free(vm);
}

static void test_mmio(void)
{
    Vm *vm = vm_new(1, memory_io, sizeof(memory_io));

    memcpy(vm->rom->host, "ROM!", 4);
    vm->stop_after = 1;
    run(vm);
    g_assert_cmphex(vm->mmio[0], ==, 0x12345678);
    g_assert_cmphex(vm->mmio[1], ==, 8);
    g_assert_cmphex(peek(vm, DATA), ==, 0x11223304);
    g_assert_cmpmem(vm->block->host + DATA + 4, 4, "ROM!", 4);
    g_assert_cmpmem(vm->rom->host, 4, "ROM!", 4);
    vm_free(vm);
}

/* A triple fault is a reset, which starts the kernel again. */
static void test_triple_fault(void)
{
    Vm *vm = vm_new(1, triple_fault, sizeof(triple_fault));

    g_assert_cmpint(run(vm), ==, RUN_STATE_PAUSED);
    g_assert_cmpint(vm->resets, ==, 2);
    g_assert_cmpmem(vm->said->data, vm->said->len, "\1\1", 2);
    vm_free(vm);
}

static void test_internal_error(void)
{
    Vm *vm = vm_new(1, jump_away, sizeof(jump_away));
    g_autoptr(GError) err = NULL;

    g_assert_cmpint(run(vm), ==, RUN_STATE_INTERNAL_ERROR);
    g_assert_false(runstate_start(vm->rs, &err));
    vm_free(vm);
}

static void test_pause(void)
{
    Vm *vm = vm_new(1, counter, sizeof(counter));

    start(vm);
    hear(vm, 1);
    accel_pause(vm->accel);
    accel_pause(vm->accel);
    guint said = vm->said->len;

    let_run(20);
    accel_resume(vm->accel);
    let_run(20);
    g_assert_cmpuint(vm->said->len, ==, said);
    g_assert_true(runstate_is_running(vm->rs));
    accel_resume(vm->accel);
    hear(vm, 1);
    g_autofree char *registers = accel_format_registers(vm->accel, 0);

    g_assert_nonnull(strstr(registers, "CR0=00000011"));
    vm_free(vm);
}

/* --- Memory --- */

/* RAM exchanged under a running guest: it sees the old or the new, and never anything else. */
static void test_slot_change(void)
{
    Vm *vm = vm_new(1, reader, sizeof(reader));
    GError *err = NULL;

    vm->rom->host[0] = 1;
    vm->block->host[0x100000] = 2;
    start(vm);
    for (int i = 0; i < 20; i++) {
        hear(vm, 3);
        address_map_begin(vm->memory);
        address_map_remove(vm->memory, ROM_BASE);
        if (i % 2) {
            address_map_add_ram(vm->memory, ROM_BASE, vm->rom, 0, 4096, true, &err);
        } else {
            address_map_add_ram(vm->memory, ROM_BASE, vm->block, 0x100000, 4096, false, &err);
        }
        address_map_commit(vm->memory);
        g_assert_no_error(err);
    }
    hear(vm, 3);
    g_assert_true(runstate_is_running(vm->rs));
    guint seen[3] = { 0 };

    for (guint i = 0; i < vm->said->len; i++) {
        g_assert_cmpuint(vm->said->data[i], >=, 1);
        g_assert_cmpuint(vm->said->data[i], <=, 2);
        seen[vm->said->data[i]]++;
    }
    g_assert_cmpuint(seen[1], >, 0);
    g_assert_cmpuint(seen[2], >, 0);
    vm_free(vm);
}

/* Host memory that is gone ends in io-error, not in 0xff bytes, and not in a crash. */
static void lose(Vm *vm)
{
    g_assert_cmpint(run(vm), ==, RUN_STATE_IO_ERROR);
    g_assert_cmpuint(vm->said->len, ==, 0);
    vm_free(vm);
}

static void test_unmapped(void)
{
    Vm *vm = vm_new(1, reader, sizeof(reader));

    g_assert_cmpint(mprotect(vm->rom->host, 4096, PROT_NONE), ==, 0);
    lose(vm);
}

static void test_truncated_file(void)
{
    Vm *vm = vm_new(1, reader, sizeof(reader));
    g_autofree char *name = NULL;
    int fd = g_file_open_tmp("accel-XXXXXX", &name, NULL);

    g_assert_cmpint(ftruncate(fd, 4096), ==, 0);
    g_assert_true(mmap(vm->rom->host, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
                       0) == vm->rom->host);
    g_assert_cmpint(ftruncate(fd, 0), ==, 0);
    unlink(name);
    close(fd);
    lose(vm);
}

/* --- State --- */

static GByteArray *save_sections(Vm *vm)
{
    GByteArray *out = g_byte_array_new();

    for (size_t i = 0; i < vmstate_registry_count(vm->vmstate); i++) {
        const VMStateEntry *e = vmstate_registry_get(vm->vmstate, i);

        vmstate_save(out, e->vmsd, e->opaque);
    }
    return out;
}

static void load_sections(Vm *vm, const GByteArray *bytes)
{
    ByteReader in = byte_reader_init(bytes->data, bytes->len);
    GError *err = NULL;

    for (size_t i = 0; i < vmstate_registry_count(vm->vmstate); i++) {
        const VMStateEntry *e = vmstate_registry_get(vm->vmstate, i);

        vmstate_load(&in, e->vmsd, e->opaque, e->vmsd->version_id, &err);
        g_assert_no_error(err);
    }
    g_assert_cmpuint(byte_reader_left(&in), ==, 0);
}

static void test_save_load(void)
{
    Vm *a = vm_new(2, counter, sizeof(counter));

    a->stop_after = 100;
    run(a);
    g_autoptr(GByteArray) bytes = save_sections(a);
    g_autoptr(GByteArray) again = save_sections(a);
    g_autofree uint8_t *ram = g_memdup2(a->block->host, RAM_SIZE);
    CpuDigest digest = *accel_cpuid_digest(a->accel);

    /* While it is stopped nothing changes: the registers are not even asked for again. */
    g_assert_cmpmem(bytes->data, bytes->len, again->data, again->len);
    vm_free(a);

    Vm *b = vm_new(2, counter, sizeof(counter));

    g_assert_cmpmem(accel_cpuid_digest(b->accel), sizeof(digest), &digest, sizeof(digest));
    memcpy(b->block->host, ram, RAM_SIZE);
    load_sections(b, bytes);
    b->stop_after = 50;
    g_assert_cmpint(run(b), ==, RUN_STATE_PAUSED);
    for (int i = 0; i < 50; i++) {
        g_assert_cmpuint(b->said->data[i], ==, 101 + i);
    }
    vm_free(b);
}

/* An MSR that this KVM does not know is reported and left out; the rest is loaded. */
static void test_unknown_msr(void)
{
    Vm *vm = vm_new(1, counter, sizeof(counter));
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    g_autoptr(GError) err = NULL;

    vm->stop_after = 3;
    run(vm);
    const VMStateEntry *cpu = vmstate_registry_find(vm->vmstate, "cpu", 0);

    vmstate_save(bytes, cpu->vmsd, cpu->opaque);
    /* The section ends with the MSRs, each of 4 bytes of index and 8 of value. */
    memcpy(bytes->data + bytes->len - 36, "\0\xde\xad\0", 4);
    ByteReader in = byte_reader_init(bytes->data, bytes->len);

    g_assert_true(vmstate_load(&in, cpu->vmsd, cpu->opaque, 1, &err));
    g_assert_no_error(err);
    vm->stop_after = 6;
    g_assert_cmpint(run(vm), ==, RUN_STATE_PAUSED);
    g_assert_cmpuint(vm->said->data[5], ==, 6);
    vm_free(vm);
}

/* A state that lies must be refused by KVM or load into something that can be ended. */
static void test_hostile_state(void)
{
    Vm *a = vm_new(1, counter, sizeof(counter));
    g_autoptr(GRand) rand = g_rand_new_with_seed(7);

    a->stop_after = 3;
    run(a);
    g_autoptr(GByteArray) bytes = save_sections(a);
    const VMStateEntry *cpu = vmstate_registry_find(a->vmstate, "cpu", 0);

    for (int round = 0; round < 500; round++) {
        g_autofree uint8_t *copy = g_memdup2(bytes->data, bytes->len);
        ByteReader in = byte_reader_init(copy, bytes->len);

        for (int flips = 0; flips < 3; flips++) {
            copy[g_rand_int_range(rand, 0, MIN(bytes->len, 800))] = g_rand_int(rand);
        }
        vmstate_load(&in, cpu->vmsd, cpu->opaque, 1, NULL);
    }
    load_sections(a, bytes);
    a->stop_after = 6;
    g_assert_cmpint(run(a), ==, RUN_STATE_PAUSED);
    g_assert_cmpuint(a->said->data[5], ==, 6);
    vm_free(a);
}

static int compare_times(const void *a, const void *b)
{
    return *(const gint64 *)a < *(const gint64 *)b ? -1 : 1;
}

/* Saving or loading one vCPU and the chips takes well under a millisecond. */
static void test_state_time(void)
{
    Vm *vm = vm_new(1, counter, sizeof(counter));
    gint64 save[21], load[21];

    for (int i = 0; i < 21; i++) {
        vm->stop_after = vm->said->len + 3;
        run(vm);
        gint64 t0 = g_get_monotonic_time();
        g_autoptr(GByteArray) bytes = save_sections(vm);
        gint64 t1 = g_get_monotonic_time();

        load_sections(vm, bytes);
        save[i] = t1 - t0;
        load[i] = g_get_monotonic_time() - t1;
    }
    qsort(save, 21, sizeof(gint64), compare_times);
    qsort(load, 21, sizeof(gint64), compare_times);
    g_test_message("save %d us, load %d us (medians of 21)", (int)save[10], (int)load[10]);
    g_assert_cmpint(save[10], <, 2000);
    g_assert_cmpint(load[10], <, 2000);
    vm_free(vm);
}

/* --- Interrupts, processors --- */

static void test_secondary(void)
{
    Vm *vm = vm_new(3, starter, sizeof(starter));

    memcpy(vm->block->host + 0x8000, secondary, sizeof(secondary));
    vm->stop_after = 2;
    g_assert_cmpint(run(vm), ==, RUN_STATE_PAUSED);
    g_assert_cmpmem(vm->said->data, vm->said->len, "\x55\x55", 2);
    vm_free(vm);
}

/*
 * After each reset the others start again: their reset state must not overwrite the INIT and SIPI
 * that the first processor, already running, sends them.
 */
static void test_secondary_after_reset(void)
{
    Vm *vm = vm_new(3, starter, sizeof(starter));

    vm->resets = 10; /* on_reset stops at its second call */
    memcpy(vm->block->host + 0x8000, secondary, sizeof(secondary));
    start(vm);
    hear(vm, 2);
    for (int i = 0; i < 50; i++) {
        runstate_request_reset(vm->rs, SHUTDOWN_CAUSE_HOST_QMP_SYSTEM_RESET);
        hear(vm, 2);
    }
    g_assert_cmpint(vm->resets, ==, 60);
    g_assert_cmpuint(vm->said->len, ==, 102);
    vm_free(vm);
}

static void set_gate(Vm *vm, unsigned vector, uint16_t handler)
{
    uint64_t gate = handler | 8ull << 16 | 0x8eull << 40;

    memcpy(vm->block->host + IDT + 8 * vector, &gate, sizeof(gate));
}

/* A message, an eventfd with a route, and an NMI each arrive once. */
static void test_interrupts(void)
{
    static const uint64_t gdt[] = { 0, 0x00cf9b000000ffff, 0x00cf93000000ffff };
    static const uint8_t idtr[] = { 0xff, 0x07, 0x00, 0x07, 0, 0 };
    Vm *vm = vm_new(1, interrupted, sizeof(interrupted));
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t one = 1;
    GError *err = NULL;

    memcpy(vm->block->host + GDT, gdt, sizeof(gdt));
    memcpy(vm->block->host + IDTR, idtr, sizeof(idtr));
    memcpy(vm->block->host + ON_VECTOR, on_vector, sizeof(on_vector));
    memcpy(vm->block->host + ON_NMI, on_nmi, sizeof(on_nmi));
    set_gate(vm, VECTOR, ON_VECTOR);
    set_gate(vm, 2, ON_NMI);
    int gsi = accel_add_msi_route(vm->accel, 0xfee00000, VECTOR, &err);

    g_assert_true(accel_add_irqfd(vm->accel, fd, -1, gsi, &err));
    start(vm); /* brings the route to KVM */
    hear(vm, 1);
    g_assert_true(accel_send_msi(vm->accel, 0xfee00000, VECTOR));
    hear(vm, 1);
    g_assert_cmpint(write(fd, &one, sizeof(one)), ==, sizeof(one));
    hear(vm, 1);
    accel_inject_nmi(vm->accel);
    hear(vm, 1);
    let_run(20);
    g_assert_cmpmem(vm->said->data, vm->said->len, "\1\x40\x40\2", 4);
    close(fd);
    vm_free(vm);
}

static void test_eventfds(void)
{
    Vm *vm = vm_new(1, counter, sizeof(counter));
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    AccelIoEvent e = {
        .eventfd = fd, .pio = true, .addr = 0x80, .size = 1, .match = true, .value = 5
    };
    GError *err = NULL;
    uint64_t count = 0;

    g_assert_true(accel_add_ioevent(vm->accel, &e, &err));
    vm->stop_after = 9;
    run(vm);
    /* The fifth never came here. */
    g_assert_cmpuint(vm->said->data[4], ==, 6);
    g_assert_cmpint(read(fd, &count, sizeof(count)), ==, sizeof(count));
    g_assert_cmpuint(count, ==, 1);
    accel_remove_ioevent(vm->accel, &e);

    int gsi = accel_add_msi_route(vm->accel, 0xfee00000, 0x40, &err);

    g_assert_cmpint(gsi, ==, 24);
    g_assert_cmpint(accel_add_msi_route(vm->accel, 0xfee00000, 0x41, &err), ==, 25);
    g_assert_true(accel_commit_routes(vm->accel, &err));
    g_assert_true(accel_add_irqfd(vm->accel, fd, -1, gsi, &err));
    g_assert_true(accel_remove_irqfd(vm->accel, fd, gsi, &err));
    accel_remove_msi_route(vm->accel, gsi);
    g_assert_cmpint(accel_add_msi_route(vm->accel, 0xfee00000, 0x42, &err), ==, 24);
    g_assert_no_error(err);
    accel_inject_nmi(vm->accel);
    vm->stop_after = vm->said->len + 3;
    g_assert_cmpint(run(vm), ==, RUN_STATE_PAUSED);
    close(fd);
    vm_free(vm);
}

/* --- Choosing --- */

static void expect_no_accel(const char *list, const char *part)
{
    g_autoptr(RunStateControl) rs = runstate_new(NULL);
    g_autoptr(VMStateRegistry) r = vmstate_registry_new();
    g_autoptr(AddressMap) memory = address_map_new("memory", 52);
    g_autoptr(GError) err = NULL;
    AccelEnv env = { .runstate = rs, .memory = memory, .vmstate = r };

    g_assert_null(accel_create(list, &env, &err));
    if (!strstr(err->message, part)) {
        g_error("'%s' lacks '%s'", err->message, part);
    }
}

static void test_list(void)
{
    expect_no_accel("kvn", "unknown accelerator 'kvn'");
    expect_no_accel("kvm:xen", "unknown accelerator 'xen'");
    expect_no_accel("", "no accelerator");
    expect_no_accel("tcg", "no accelerator of 'tcg' is built in");
}

static void add_guests(void)
{
    g_test_add_func("/accel/kvm/count", test_count);
    g_test_add_func("/accel/kvm/strings", test_strings);
    g_test_add_func("/accel/kvm/mmio", test_mmio);
    g_test_add_func("/accel/kvm/triple-fault", test_triple_fault);
    g_test_add_func("/accel/kvm/internal-error", test_internal_error);
    g_test_add_func("/accel/kvm/pause", test_pause);
    g_test_add_func("/accel/kvm/slot-change", test_slot_change);
    g_test_add_func("/accel/kvm/unmapped", test_unmapped);
    g_test_add_func("/accel/kvm/truncated-file", test_truncated_file);
    g_test_add_func("/accel/kvm/save-load", test_save_load);
    g_test_add_func("/accel/kvm/unknown-msr", test_unknown_msr);
    g_test_add_func("/accel/kvm/hostile-state", test_hostile_state);
    g_test_add_func("/accel/kvm/state-time", test_state_time);
    g_test_add_func("/accel/kvm/secondary", test_secondary);
    g_test_add_func("/accel/kvm/secondary-after-reset", test_secondary_after_reset);
    g_test_add_func("/accel/kvm/interrupts", test_interrupts);
    g_test_add_func("/accel/kvm/eventfds", test_eventfds);
}

static void test_no_kvm(void)
{
    g_test_skip("/dev/kvm cannot be opened: nothing of the KVM accelerator was tested");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/accel/kvm/list", test_list);
    if (access("/dev/kvm", R_OK | W_OK) == 0) {
        add_guests();
    } else {
        g_test_add_func("/accel/kvm/guests", test_no_kvm);
    }
    return g_test_run();
}
