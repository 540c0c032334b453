/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory traffic of network devices. A device reads each packet from memory that it sends,
 * and writes each that it receives. The task that uses the packet's socket pays.
 *
 * Packets move in interrupts, where the current task has nothing to do with them. So each
 * socket keeps the task that last sent or received on it. Bytes that move before the first
 * such call, or after its task has ended, wait in the socket for the next one.
 */
#ifndef DRFQ_NET_BPF_H
#define DRFQ_NET_BPF_H

struct net_socket {
	struct payer user;
	u64 waiting_bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct net_socket);
} net_sockets SEC(".maps");

/* Loopback, bridges, tunnels and the like copy by CPU, or not at all. They have no parent. */
static __always_inline bool net_device_moves_data(const struct net_device *dev)
{
	return dev->dev.parent;
}

static void net_charge(struct net_socket *s, u64 bytes)
{
	if (payer_charge(&s->user, bytes))
		count_many(DRFQ_EV_NET_CHARGED_BYTES, bytes);
	else
		__sync_fetch_and_add(&s->waiting_bytes, bytes);
}

/* Returns the length of the header of TCP or UDP in the packet @skb (bytes). */
static __always_inline u32 net_header_bytes(const struct sk_buff *skb, u32 gso_type)
{
	/* The upper half of byte 12 of a TCP header tells its length in words (RFC 9293). */
	const void *at = skb->head + skb->transport_header + 12;
	unsigned char words = 0;

	if (!(gso_type & (SKB_GSO_TCPV4 | SKB_GSO_TCPV6)))
		return sizeof(struct udphdr);
	bpf_probe_read_kernel(&words, sizeof(words), at);
	return words / 16 * 4;
}

/*
 * Returns the length of a received packet, with its header of the link layer (bytes). The
 * kernel joins packets of a stream (GRO) and keeps the headers of the first one.
 */
static __always_inline u64 net_received_bytes(const struct sk_buff *skb)
{
	const struct skb_shared_info *shared =
		bpf_core_cast(skb->head + skb->end, struct skb_shared_info);
	u64 bytes = skb->len + (skb->data - skb->head) - skb->mac_header;
	u64 headers = skb->transport_header - skb->mac_header;
	u32 joined = shared->gso_segs;

	if (joined <= 1)
		return bytes;
	return bytes + (joined - 1) * (headers + net_header_bytes(skb, shared->gso_type));
}

/* A packet goes to its device. The device repeats the headers of a long one (TSO) itself. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(drfq_skb_send, struct sk_buff *skb, struct net_device *dev)
{
	struct net_socket *s = NULL;

	if (!net_device_moves_data(dev))
		return 0;
	count_many(DRFQ_EV_NET_BYTES, skb->len);
	if (skb->sk)
		s = bpf_sk_storage_get(&net_sockets, skb->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (s)
		net_charge(s, skb->len);
	return 0;
}

/* A packet arrives from its device, for whomever. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(drfq_skb_arrive, struct sk_buff *skb)
{
	if (net_device_moves_data(skb->dev))
		count_many(DRFQ_EV_NET_BYTES, net_received_bytes(skb));
	return 0;
}

/* A packet reaches its socket. One for several sockets has none that must pay for it. */
SEC("fentry/security_sock_rcv_skb")
int BPF_PROG(drfq_skb_socket, struct sock *sk, struct sk_buff *skb)
{
	struct net_socket *s;

	if (!skb->dev || !net_device_moves_data(skb->dev))
		return 0;
	s = bpf_sk_storage_get(&net_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (s)
		net_charge(s, net_received_bytes(skb));
	return 0;
}

/* The current task uses @sk, and pays for what its packets move from now on. */
static __always_inline void net_use(struct sock *sk)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct net_socket *s = bpf_sk_storage_get(&net_sockets, sk, 0, 0);
	u64 bytes;

	/* Only a socket whose packets a device has moved has an entry. */
	if (!s)
		return;
	if (!payer_is(&s->user, p))
		payer_set(&s->user, p);
	if (!s->waiting_bytes)
		return;
	bytes = __sync_lock_test_and_set(&s->waiting_bytes, 0);
	if (bytes)
		net_charge(s, bytes);
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(drfq_sock_send, struct sock *sk, int ret, int flags)
{
	net_use(sk);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(drfq_sock_recv, struct sock *sk, int ret, int flags)
{
	net_use(sk);
	return 0;
}

#endif /* DRFQ_NET_BPF_H */
