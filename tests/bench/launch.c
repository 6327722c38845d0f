/*
 * Starts a command, or many at once, and tells how long each takes to its first tick: from just before
 * posix_spawn to the first byte that the started program writes to descriptor 9.
 *
 *     launch [-n COUNT] [-i FILE] [-t SECONDS] [-k] [-r] -- COMMAND...
 *
 * Each process has a pipe of its own at descriptor 9 and FILE, open for reading, at 8. "{i}" in an argument becomes
 * the number of the process. A line "NUMBER PID MICROSECONDS START" (of CLOCK_MONOTONIC) is printed for each. A process that has ticked is
 * stopped, so that it disturbs no other, and all are killed at the end; with -k they go on until standard
 * input ends. With -r they and the launcher have a real-time priority, if that is permitted, so that the load
 * of the machine disturbs less; only for runs of some milliseconds.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define INPUT_FD 8
#define TICK_FD 9
#define COUNT_MAX 256

typedef struct Options {
    unsigned count;
    const char *input;
    int timeout_ms;
    bool keep, realtime;
    char **command;
} Options;

typedef struct Started {
    pid_t pid;
    int64_t start_us, ticked_us;
} Started;

static Started started[COUNT_MAX];
static struct pollfd tick_fds[COUNT_MAX + 1];

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* A copy of the argument with every "{i}" replaced. */
static char *number_argument(const char *argument, unsigned i)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    const char *at;

    while ((at = strstr(argument, "{i}"))) {
        fprintf(out, "%.*s%u", (int)(at - argument), argument, i);
        argument = at + 3;
    }
    fputs(argument, out);
    fclose(out);
    return text;
}

static char **number_command(char **command, unsigned i)
{
    unsigned n = 0;
    char **numbered;

    while (command[n]) {
        n++;
    }
    numbered = calloc(n + 1, sizeof(*numbered));
    for (unsigned k = 0; k < n; k++) {
        numbered[k] = number_argument(command[k], i);
    }
    return numbered;
}

static void prepare(const Options *options, unsigned i, posix_spawn_file_actions_t *actions)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0) {
        die("pipe");
    }
    tick_fds[i] = (struct pollfd){ .fd = ends[0], .events = POLLIN };
    posix_spawn_file_actions_init(actions);
    posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(actions, ends[1], TICK_FD);
    if (options->input) {
        posix_spawn_file_actions_addopen(actions, INPUT_FD, options->input, O_RDONLY, 0);
    }
}

static void start_all(const Options *options)
{
    static posix_spawn_file_actions_t actions[COUNT_MAX];
    char **commands[COUNT_MAX];

    for (unsigned i = 0; i < options->count; i++) {
        prepare(options, i, &actions[i]);
        commands[i] = number_command(options->command, i);
    }
    for (unsigned i = 0; i < options->count; i++) {
        int error;

        started[i].start_us = now_us();
        error =
            posix_spawn(&started[i].pid, commands[i][0], &actions[i], NULL, commands[i], environ);
        if (error) {
            errno = error;
            die(commands[i][0]);
        }
    }
}

/* Reads what has come; true when it was the first. */
static bool take_ticks(unsigned i)
{
    char bytes[4096];
    bool first = started[i].ticked_us == 0;

    if (read(tick_fds[i].fd, bytes, sizeof(bytes)) <= 0) {
        tick_fds[i].fd = -1;
        return false;
    }
    if (first) {
        started[i].ticked_us = now_us();
    }
    return first;
}

static bool has_ended(unsigned i)
{
    return waitpid(started[i].pid, NULL, WNOHANG) == started[i].pid;
}

/* False: a process ended without a tick, or time is up. */
static bool wait_for_ticks(const Options *options)
{
    int64_t end = now_us() + (int64_t)options->timeout_ms * 1000;
    unsigned left = options->count;

    while (left > 0 && now_us() < end) {
        if (poll(tick_fds, options->count, 100) == 0) {
            for (unsigned i = 0; i < options->count; i++) {
                if (!started[i].ticked_us && has_ended(i)) {
                    fprintf(stderr, "launch: %s ended without a tick\n", options->command[0]);
                    started[i].pid = 0;
                    return false;
                }
            }
        }
        for (unsigned i = 0; i < options->count; i++) {
            if (tick_fds[i].revents && take_ticks(i)) {
                left--;
                if (!options->keep) {
                    kill(started[i].pid, SIGSTOP);
                }
            }
        }
    }
    if (left > 0) {
        fprintf(stderr, "launch: no tick of %s within %d ms\n", options->command[0],
                options->timeout_ms);
    }
    return left == 0;
}

/* Until standard input ends; ticks are taken out of the pipes meanwhile. */
static void keep_running(const Options *options)
{
    char byte;

    tick_fds[options->count] = (struct pollfd){ .fd = 0, .events = POLLIN };
    while (true) {
        poll(tick_fds, options->count + 1, -1);
        for (unsigned i = 0; i < options->count; i++) {
            if (tick_fds[i].revents) {
                take_ticks(i);
            }
        }
        if (tick_fds[options->count].revents && read(0, &byte, 1) <= 0) {
            return;
        }
    }
}

static void kill_all(const Options *options)
{
    for (unsigned i = 0; i < options->count; i++) {
        if (started[i].pid > 0) {
            kill(started[i].pid, SIGKILL);
        }
    }
    for (unsigned i = 0; i < options->count; i++) {
        if (started[i].pid > 0) {
            waitpid(started[i].pid, NULL, 0);
        }
    }
}

static Options parse(int argc, char **argv)
{
    Options options = { .count = 1, .timeout_ms = 60000 };
    int c;

    while ((c = getopt(argc, argv, "+n:i:t:kr")) != -1) {
        switch (c) {
        case 'n':
            options.count = (unsigned)atoi(optarg);
            break;
        case 'i':
            options.input = optarg;
            break;
        case 't':
            options.timeout_ms = atoi(optarg) * 1000;
            break;
        case 'k':
            options.keep = true;
            break;
        case 'r':
            options.realtime = true;
            break;
        default:
            exit(2);
        }
    }
    options.command = argv + optind;
    if (!options.command[0] || options.count < 1 || options.count > COUNT_MAX) {
        fputs("usage: launch [-n COUNT] [-i FILE] [-t SECONDS] [-k] [-r] -- COMMAND...\n", stderr);
        exit(2);
    }
    return options;
}

int main(int argc, char **argv)
{
    Options options = parse(argc, argv);
    bool ok;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (options.realtime) {
        (void)sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 });
    }
    start_all(&options);
    ok = wait_for_ticks(&options);
    for (unsigned i = 0; ok && i < options.count; i++) {
        printf("%u %d %lld %lld\n", i, started[i].pid,
               (long long)(started[i].ticked_us - started[i].start_us),
               (long long)started[i].start_us);
    }
    fflush(stdout);
    if (ok && options.keep) {
        keep_running(&options);
    }
    kill_all(&options);
    return ok ? 0 : 1;
}
