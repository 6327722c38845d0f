/*
 * send-key, for a machine without a keyboard.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qapi/qapi-commands.h"
#include "util/error.h"

bool qmp_send_key(Machine *m, const SendKeyArg *arg, GError **errp)
{
    error_set(errp, "the machine has no keyboard: send-key cannot press a key. Use the serial "
                    "console, or system_powerdown for the power button and inject-nmi for an NMI");
    return false;
}
