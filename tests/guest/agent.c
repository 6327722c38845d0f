/*
 * A guest agent small enough for the test guest: it answers guest-sync and guest-ping, and obeys guest-shutdown. What libvirt
 * sends is one JSON object a line.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/commands.h"
#include "tests/guest/guest.h"
#include "tests/guest/virtio.h"

#define PORT_OPEN 6
#define MESSAGE_SIZE 1024

static char message[MESSAGE_SIZE];
static char reply[MESSAGE_SIZE];

/* Behind the first `key` in the message and the spaces there; NULL if it is not there. */
static const char *behind(const char *key)
{
    for (const char *at = message; *at != '\0'; at++) {
        size_t i = 0;

        while (key[i] != '\0' && at[i] == key[i]) {
            i++;
        }
        if (key[i] == '\0') {
            while (at[i] == ' ') {
                i++;
            }
            return at + i;
        }
    }
    return NULL;
}

/* Appends text up to `end` or to the end of the word; returns the new length. */
static size_t append(size_t length, const char *text, char end)
{
    while (*text != '\0' && *text != end && length < sizeof(reply) - 1) {
        reply[length++] = *text++;
    }
    return length;
}

static bool has_digit(const char *text)
{
    return text != NULL && (*text == '-' || (*text >= '0' && *text <= '9'));
}

/* Length of the answer in `reply`; 0: none is given. */
static size_t make_reply(void)
{
    const char *id = behind("\"id\":");
    size_t length;

    if (behind("\"guest-sync") != NULL && has_digit(id)) {
        length = append(
            0,
            behind("\"guest-sync-delimited") != NULL ? "\xff{\"return\": " : "{\"return\": ", '\0');
        while (*id == '-' || (*id >= '0' && *id <= '9')) {
            reply[length++] = *id++;
        }
        return append(length, "}\n", '\0');
    }
    if (behind("\"guest-ping\"") != NULL) {
        return append(0, "{\"return\": {}}\n", '\0');
    }
    if (behind("\"guest-shutdown\"") != NULL) {
        return 0;
    }
    length = append(0,
                    "{\"error\": {\"class\": \"CommandNotFound\", \"desc\": \"The test guest does "
                    "not know it\"}}\n",
                    '\0');
    return length;
}

static void obey(unsigned port)
{
    size_t length = make_reply();

    if (length > 0) {
        vserial_send(port, reply, length);
    } else if (behind("\"reboot\"") != NULL) {
        power_reset();
    } else {
        power_off();
    }
}

/* PORT: serves it until a line arrives */
static void run_agent(const Command *command, const uint64_t *arguments, unsigned count)
{
    unsigned port = (unsigned)arguments[0], messages = 0;
    size_t used = 0;
    char byte;

    serial_put(" begin\n");
    vserial_send_control(port, PORT_OPEN, 1);
    while (!serial_has_news()) {
        uint64_t ticks = timer_ticks;

        while (vserial_take_byte(port, &byte)) {
            message[used] = byte == '\n' ? '\0' : byte;
            used += used < sizeof(message) - 1;
            if (byte == '\n') {
                message[used] = '\0';
                used = 0;
                messages++;
                obey(port);
            }
        }
        power_poll();
        ring0_call(RING0_WAIT, (uintptr_t)&timer_ticks, ticks, 0);
    }
    vserial_send_control(port, PORT_OPEN, 0);
    serial_put("end");
    serial_put_field("messages", messages);
}

const Command agent_commands[] = {
    { "agent", 1, 1, run_agent },
    { 0 },
};
