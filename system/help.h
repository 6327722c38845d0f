/*
 * What -help, -version and "help" as a value print.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_HELP_H
#define COWBIRD_SYSTEM_HELP_H

#include "qom/object.h"

/*
 * Prints what is asked for on stdout: -version, -help, "-machine help", "-cpu help", "-accel help", "-device help",
 * "-device TYPE,help", "-object help", "-d help". False: nothing of this is in argv.
 */
bool help_show(char **argv, const QomType *const *types);

#endif
