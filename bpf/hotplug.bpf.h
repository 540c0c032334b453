/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs come and go. The scheduler ends and asks the agent to load it again, with the new
 * topology. The kernel would do the same without these callbacks, but V would go on until it has
 * taken all tasks away.
 */
#ifndef DRFQ_HOTPLUG_BPF_H
#define DRFQ_HOTPLUG_BPF_H

/* As the kernel itself reports hotplug. */
#define HOTPLUG_EXIT_CODE (SCX_ECODE_RSN_HOTPLUG | SCX_ECODE_ACT_RESTART)

void BPF_STRUCT_OPS(drfq_cpu_online, s32 cpu)
{
	vtime_close();
	scx_bpf_exit(HOTPLUG_EXIT_CODE, "CPU %d came online", cpu);
}

void BPF_STRUCT_OPS(drfq_cpu_offline, s32 cpu)
{
	vtime_close();
	scx_bpf_exit(HOTPLUG_EXIT_CODE, "CPU %d went offline", cpu);
}

#endif /* DRFQ_HOTPLUG_BPF_H */
