/* SPDX-License-Identifier: GPL-2.0-only */
/* CPUID leaves by which a guest program calls the QEMU plugin. All of them return
 * PLUGIN_CALL_ANSWER in EBX, and in EAX 1 if simulated time runs, else 0. For C, C++ and assembly:
 * the numbers have no suffix. */
#ifndef DRFQ_GUEST_PLUGIN_CALL_LEAVES_H
#define DRFQ_GUEST_PLUGIN_CALL_LEAVES_H

/* Start simulated time. RCX: guest-physical address of the controller's BAR; 0: there is none. */
#define PLUGIN_CALL_GO_LIVE 0x40d0d0d0
/* Write a line of ground truth (--machine-stats) now. */
#define PLUGIN_CALL_GROUND_TRUTH 0x40d0d0d1
#define PLUGIN_CALL_ANSWER 0x71667264 /* "drfq" */

#endif
