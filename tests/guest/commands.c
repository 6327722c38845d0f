/*
 * The line protocol of the test guest: one table of commands. README.rst describes them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/commands.h"
#include "tests/guest/pages.h"

#define DEBUGCON 0xe9
#define KVMCLOCK_MSR 0x4b564d01

static unsigned cpus_for_work = 1;

static void run_ping(const Command *command, const uint64_t *arguments, unsigned count)
{
    serial_put(" pong");
}

static void print_work(WorkKind kind, const WorkResult *result)
{
    serial_put_field("pages", result->pages);
    if (kind == WORK_VERIFY) {
        serial_put_field("wrong", result->wrong);
        serial_put_hex_field("first", result->first_wrong);
    } else if (kind != WORK_WRITE) {
        serial_put_hex_field("hash", result->hash);
    }
}

static void run_and_print(const Work *work)
{
    uint64_t before = read_tsc();
    WorkResult result = work_run(work, cpus_for_work);
    uint64_t cycles = read_tsc() - before;

    print_work(work->kind, &result);
    serial_put_field("cycles", cycles);
}

/* SEED START LENGTH [STEP] */
static void run_seeded(const Command *command, const uint64_t *arguments, unsigned count)
{
    Work work = { command->work,
                  arguments[0],
                  arguments[1],
                  arguments[2],
                  count > 3 && arguments[3] > 0 ? arguments[3] : 1,
                  command->others };

    run_and_print(&work);
}

/* START LENGTH [STEP] */
static void run_unseeded(const Command *command, const uint64_t *arguments, unsigned count)
{
    Work work = { command->work,
                  0,
                  arguments[0],
                  arguments[1],
                  count > 2 && arguments[2] > 0 ? arguments[2] : 1,
                  command->others };

    run_and_print(&work);
}

static void run_hashes(const Command *command, const uint64_t *arguments, unsigned count)
{
    serial_put(" begin\n");
    work_print_hashes(arguments[0], arguments[1]);
    serial_put("end");
}

/* START LENGTH SEED... */
static void run_classify(const Command *command, const uint64_t *arguments, unsigned count)
{
    work_classify(arguments[0], arguments[1], arguments + 2, count - 2);
}

static void run_random(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint64_t before = read_tsc();
    uint64_t sum = work_random_reads(arguments[0], arguments[1], arguments[2], arguments[3]);

    serial_put_field("cycles", read_tsc() - before);
    serial_put_hex_field("sum", sum);
}

static void run_churn(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint64_t rounds, wrong;

    serial_put(" begin\n");
    work_churn(arguments[0], arguments[1], &rounds, &wrong);
    serial_put("end");
    serial_put_field("rounds", rounds);
    serial_put_field("wrong", wrong);
}

/* One byte to the debug port every `spins` empty rounds, until something arrives on the serial line. */
static void run_beacon(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint64_t spins = count > 0 ? arguments[0] : 20000, sent = 0;

    serial_put(" begin\n");
    while (!serial_has_news()) {
        port_out8(DEBUGCON, '.');
        sent++;
        for (uint64_t i = 0; i < spins && !serial_has_news(); i++) {
            __asm__ volatile("" : : : "memory");
        }
    }
    serial_put("end");
    serial_put_field("sent", sent);
}

static void run_ticks(const Command *command, const uint64_t *arguments, unsigned count)
{
    serial_put_field("ticks", timer_ticks);
    serial_put_field("interrupts", serial_interrupts);
}

static void run_smp(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint64_t wanted = count > 0 ? arguments[0] : cpus_count();

    cpus_for_work = wanted < 1 ? 1 : wanted > cpus_count() ? cpus_count() : (unsigned)wanted;
    serial_put_field("cpus", cpus_for_work);
}

static void run_meminfo(const Command *command, const uint64_t *arguments, unsigned count)
{
    const BootFacts *facts = boot_facts();

    serial_put(" begin\n");
    for (unsigned i = 0; i < memory_map_count(); i++) {
        const MemoryRange *range = memory_map_get(i);

        serial_put_hex(range->start);
        serial_put(" ");
        serial_put_hex(range->end);
        serial_put_field("type", range->type);
        serial_put("\n");
    }
    serial_put("end");
    serial_put_hex_field("rsdp", facts->rsdp);
    serial_put_hex_field("initrd", facts->initrd);
    serial_put_field("initrd-size", facts->initrd_size);
}

static void run_cmdline(const Command *command, const uint64_t *arguments, unsigned count)
{
    serial_put(" ");
    serial_put(boot_facts()->command_line);
}

static void run_cpuid(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint32_t r[4];

    ring0_call(RING0_CPUID, arguments[0], count > 1 ? arguments[1] : 0, (uintptr_t)r);
    serial_put_hex_field("eax", r[0]);
    serial_put_hex_field("ebx", r[1]);
    serial_put_hex_field("ecx", r[2]);
    serial_put_hex_field("edx", r[3]);
}

static void run_rdmsr(const Command *command, const uint64_t *arguments, unsigned count)
{
    serial_put_hex_field("value", ring0_call(RING0_RDMSR, arguments[0], 0, 0));
}

static void run_wrmsr(const Command *command, const uint64_t *arguments, unsigned count)
{
    ring0_call(RING0_WRMSR, arguments[0], arguments[1], 0);
}

/* WIDTH PORT [VALUE]: with a value it is written, else read. */
static void run_port(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint16_t port = (uint16_t)arguments[1];

    if (count == 3 && arguments[0] == 1) {
        port_out8(port, (uint8_t)arguments[2]);
    } else if (count == 3 && arguments[0] == 2) {
        port_out16(port, (uint16_t)arguments[2]);
    } else if (count == 3) {
        port_out32(port, (uint32_t)arguments[2]);
    } else {
        serial_put_hex_field("value", arguments[0] == 1   ? port_in8(port)
                                      : arguments[0] == 2 ? port_in16(port)
                                                          : port_in32(port));
    }
}

/* ADDRESS [VALUE], 32 bits. */
static void run_mmio(const Command *command, const uint64_t *arguments, unsigned count)
{
    volatile uint32_t *at = (volatile uint32_t *)arguments[0];

    if (count == 2) {
        *at = (uint32_t)arguments[1];
    } else {
        serial_put_hex_field("value", *at);
    }
}

/* ADDRESS LENGTH: bytes in hexadecimal. */
static void run_dump(const Command *command, const uint64_t *arguments, unsigned count)
{
    const volatile uint8_t *at = (const volatile uint8_t *)arguments[0];
    char pair[3] = { 0 };

    serial_put(" ");
    for (uint64_t i = 0; i < arguments[1]; i++) {
        pair[0] = "0123456789abcdef"[at[i] >> 4];
        pair[1] = "0123456789abcdef"[at[i] & 15];
        serial_put(pair);
    }
}

/* Starts KVM's clock on first use and reads it: nanoseconds of guest time. */
static void run_kvmclock(const Command *command, const uint64_t *arguments, unsigned count)
{
    static struct {
        volatile uint32_t version, pad;
        volatile uint64_t tsc, system_time;
        volatile uint32_t multiplier;
        volatile int8_t shift;
        volatile uint8_t flags, pad2[2];
    } clock __attribute__((aligned(64)));
    static bool started;
    uint64_t delta, value;
    uint32_t version;

    if (!started) {
        ring0_call(RING0_WRMSR, KVMCLOCK_MSR, (uintptr_t)&clock | 1, 0);
        started = true;
    }
    do {
        version = clock.version;
        delta = read_tsc() - clock.tsc;
        delta = clock.shift < 0 ? delta >> -clock.shift : delta << clock.shift;
        value = clock.system_time + (uint64_t)((unsigned __int128)delta * clock.multiplier >> 32);
    } while ((version & 1) != 0 || version != clock.version);
    serial_put_field("ns", value);
}

#define SIMD_BYTES 256
#define EACH_XMM(op)                                                                               \
    op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11) op(12) op(13) op(14) \
        op(15)
#define LOAD_XMM(n) "movdqu " #n "*16(%0), %%xmm" #n "\n"
#define STORE_XMM(n) "movdqu %%xmm" #n ", " #n "*16(%0)\n"

/* SEED: loads all xmm registers, which nothing else here uses. */
static void run_simd_set(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint64_t words[TEST_PAGE_WORDS];

    page_write(words, arguments[0], 0);
    __asm__ volatile(EACH_XMM(LOAD_XMM) : : "r"(words) : "memory");
}

static void run_simd_check(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint64_t words[TEST_PAGE_WORDS], now[SIMD_BYTES / 8], wrong = 0;

    page_write(words, arguments[0], 0);
    __asm__ volatile(EACH_XMM(STORE_XMM) : : "r"(now) : "memory");
    for (unsigned i = 0; i < SIMD_BYTES / 8; i++) {
        wrong += words[i] != now[i];
    }
    serial_put_field("wrong", wrong);
}

static void run_triple_fault(const Command *command, const uint64_t *arguments, unsigned count)
{
    ring0_call(RING0_TRIPLE_FAULT, 0, 0, 0);
}

static void run_undefined(const Command *command, const uint64_t *arguments, unsigned count)
{
    __asm__ volatile("ud2");
}

static const Command commands[] = {
    { "ping", 0, 0, run_ping, 0, false },
    { "fill", 3, 4, run_seeded, WORK_WRITE, false },
    { "write", 3, 4, run_seeded, WORK_WRITE, false },
    { "verify", 3, 4, run_seeded, WORK_VERIFY, false },
    { "verify-others", 4, 4, run_seeded, WORK_VERIFY, true },
    { "zero", 2, 3, run_unseeded, WORK_WRITE, false },
    { "hash", 2, 3, run_unseeded, WORK_HASH, false },
    { "touch", 2, 3, run_unseeded, WORK_TOUCH, false },
    { "hashes", 2, 2, run_hashes, 0, false },
    { "classify", 3, MAX_ARGUMENTS, run_classify, 0, false },
    { "random", 4, 4, run_random, 0, false },
    { "churn", 2, 2, run_churn, 0, false },
    { "beacon", 0, 1, run_beacon, 0, false },
    { "ticks", 0, 0, run_ticks, 0, false },
    { "smp", 0, 1, run_smp, 0, false },
    { "meminfo", 0, 0, run_meminfo, 0, false },
    { "cmdline", 0, 0, run_cmdline, 0, false },
    { "cpuid", 1, 2, run_cpuid, 0, false },
    { "rdmsr", 1, 1, run_rdmsr, 0, false },
    { "wrmsr", 2, 2, run_wrmsr, 0, false },
    { "port", 2, 3, run_port, 0, false },
    { "mmio", 1, 2, run_mmio, 0, false },
    { "dump", 2, 2, run_dump, 0, false },
    { "kvmclock", 0, 0, run_kvmclock, 0, false },
    { "simd-set", 1, 1, run_simd_set, 0, false },
    { "simd-check", 1, 1, run_simd_check, 0, false },
    { "triple-fault", 0, 0, run_triple_fault, 0, false },
    { "undefined", 0, 0, run_undefined, 0, false },
    { 0 },
};

static const Command *const tables[] = { commands,         pci_commands,  virtio_commands,
                                         balloon_commands, rng_commands,  vserial_commands,
                                         power_commands,   agent_commands };

static const Command *find_command(const char *name)
{
    for (unsigned i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        for (const Command *command = tables[i]; command->name != NULL; command++) {
            if (text_equal(name, command->name)) {
                return command;
            }
        }
    }
    return NULL;
}

static void say_error(const char *what, const char *word)
{
    serial_put("error ");
    serial_put(what);
    serial_put(" '");
    serial_put(word);
    serial_put("'\n");
}

void commands_run_line(char *line)
{
    uint64_t arguments[MAX_ARGUMENTS];
    unsigned count = 0;
    char *name = text_word(&line), *word;
    const Command *command = find_command(name);

    if (*name == '\0') {
        return;
    }
    if (command == NULL) {
        say_error("no such command", name);
        return;
    }
    while (command->run_text == NULL && *(word = text_word(&line)) != '\0') {
        if (count == command->max || !text_number(word, &arguments[count++])) {
            say_error("bad argument", word);
            return;
        }
    }
    if (count < command->min) {
        say_error("too few arguments for", name);
        return;
    }
    serial_put("ok");
    if (command->run_text != NULL) {
        command->run_text(line);
    } else {
        command->run(command, arguments, count);
    }
    serial_put("\n");
}

void commands_run_script(const char *script)
{
    char line[LINE_SIZE];

    while (*script != '\0') {
        size_t length = 0;

        while (script[length] != '\0' && script[length] != ';') {
            length++;
        }
        text_copy(line, script, length + 1 < sizeof(line) ? length + 1 : sizeof(line));
        commands_run_line(line);
        script += length + (script[length] == ';');
    }
}
