/*
 * The object "iothread": a thread that devices can be given for the work of their queues.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_CORE_IOTHREAD_H
#define COWBIRD_HW_CORE_IOTHREAD_H

#include "qom/object.h"

#define TYPE_IOTHREAD (iothread_get_type())
typedef struct IoThread IoThread;
QOM_DECLARE_TYPE_OF(IoThread, iothread, IOTHREAD)

/* Where sources are attached to run on the thread. */
GMainContext *iothread_context(IoThread *t);
/* Its Linux thread id. */
int iothread_thread_id(const IoThread *t);
bool iothread_is_current(const IoThread *t);
/* Every dispatch that was under way has returned when this does; see event_thread_wait_idle(). */
void iothread_wait_idle(IoThread *t);

/* A device begins and ends to use it: while one does, the object cannot be deleted. Main thread. */
void iothread_use(IoThread *t);
void iothread_unuse(IoThread *t);

extern const QomType iothread_types[];

#endif
