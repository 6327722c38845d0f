/*
 * -smp: how many virtual CPUs there are and how they are arranged.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/smp.h"

#include "util/error.h"

static bool check_positive(const SMPConfiguration *g, GError **errp)
{
    const struct {
        const char *name;
        bool has;
        uint32_t value;
    } numbers[] = {
        { "cpus", g->has_cpus, g->cpus },          { "maxcpus", g->has_maxcpus, g->maxcpus },
        { "sockets", g->has_sockets, g->sockets }, { "dies", g->has_dies, g->dies },
        { "cores", g->has_cores, g->cores },       { "threads", g->has_threads, g->threads },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        if (numbers[i].has && (numbers[i].value == 0 || numbers[i].value > 1024)) {
            error_set(errp, "-smp: %s=%u is not possible; from 1 to 1024", numbers[i].name,
                      numbers[i].value);
            return false;
        }
    }
    return true;
}

/* Zeros of s are filled in; total is the number of CPUs wanted, 0 if nothing says it. */
static void fill_in(SmpConfig *s, unsigned total)
{
    s->dies = s->dies ? s->dies : 1;
    if (!total || !s->cores) {
        s->sockets = s->sockets ? s->sockets : 1;
    }
    if (!total || !s->cores || !s->sockets) {
        s->threads = s->threads ? s->threads : 1;
    }
    if (!s->cores) {
        s->cores = total ? MAX(total / (s->sockets * s->dies * s->threads), 1) : 1;
    }
    if (!s->sockets) {
        s->sockets = MAX(total / (s->dies * s->cores * s->threads), 1);
    }
    if (!s->threads) {
        s->threads = MAX(total / (s->sockets * s->dies * s->cores), 1);
    }
}

static bool check_smp(const SmpConfig *s, const MachineClass *machine, GError **errp)
{
    uint64_t product = (uint64_t)s->sockets * s->dies * s->cores * s->threads;

    if (product != s->max_cpus) {
        error_set(errp,
                  "-smp: sockets (%u) * dies (%u) * cores (%u) * threads (%u) is %" PRIu64
                  ", not the number of CPUs (%u)",
                  s->sockets, s->dies, s->cores, s->threads, product, s->max_cpus);
        return false;
    }
    if (s->cpus != s->max_cpus) {
        error_set(errp,
                  "-smp: CPUs cannot be added later: cpus (%u) and maxcpus (%u) must be equal",
                  s->cpus, s->max_cpus);
        return false;
    }
    if (s->cpus > machine->max_cpus) {
        error_set(errp, "-smp: machine '%s' takes at most %u CPUs, not %u", machine->name,
                  machine->max_cpus, s->cpus);
        return false;
    }
    return true;
}

bool smp_complete(const SMPConfiguration *given, const MachineClass *machine, SmpConfig *ret_smp,
                  GError **errp)
{
    static const SMPConfiguration nothing;
    const SMPConfiguration *g = given ? given : &nothing;
    unsigned total = g->has_maxcpus ? g->maxcpus : g->has_cpus ? g->cpus : 0;
    SmpConfig s = {
        .sockets = g->sockets, .dies = g->dies, .cores = g->cores, .threads = g->threads
    };

    if (!check_positive(g, errp)) {
        return false;
    }
    fill_in(&s, total);
    s.max_cpus = total ? total : s.sockets * s.dies * s.cores * s.threads;
    s.cpus = g->has_cpus ? g->cpus : s.max_cpus;
    if (!check_smp(&s, machine, errp)) {
        return false;
    }
    *ret_smp = s;
    return true;
}
