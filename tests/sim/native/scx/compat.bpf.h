/* SPDX-License-Identifier: GPL-2.0-only */
/* Stands for scx/compat.bpf.h when bpf/ is compiled natively: what recent kernels have. */
#ifndef DRFQ_NATIVE_COMPAT_H
#define DRFQ_NATIVE_COMPAT_H

#define __COMPAT_is_enq_cpu_selected(enq_flags) (((enq_flags) & SCX_ENQ_CPU_SELECTED) != 0)
#define __COMPAT_scx_bpf_dsq_peek(dsq_id) native_dsq_peek(dsq_id)

#endif /* DRFQ_NATIVE_COMPAT_H */
