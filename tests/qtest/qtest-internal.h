/*
 * Inside of the client: its two connections, of the qtest protocol and of QMP.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_QTEST_QTEST_INTERNAL_H
#define COWBIRD_TESTS_QTEST_QTEST_INTERNAL_H

#include "tests/qtest/qtest.h"

#define QTEST_TIMEOUT_S 10

typedef struct QTestLink {
    int fd;
    GString *input;  /* what is not taken yet */
    size_t searched; /* so much of it has no newline */
} QTestLink;

struct QTest {
    char *args;
    char *folder;
    GPid pid;
    unsigned n_saves;
    QTestLink protocol, qmp;
    GPtrArray *events; /* of json_object: QMP events nobody has asked for yet */
    uint64_t next_alloc;
    bool levels[QTEST_IRQ_MAX];
    unsigned raised[QTEST_IRQ_MAX];
};

void qtest_link_send(QTestLink *link, const char *text, size_t len);
/* Without its newline, owned by the caller; NULL only when there is none and @wait is not set. */
char *qtest_link_read_line(QTestLink *link, bool wait);

/* Takes the greeting and leaves negotiation. */
void qtest_qmp_greet(QTest *q);

#endif
