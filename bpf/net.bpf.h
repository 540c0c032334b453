/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory traffic of network devices. A device reads each packet from memory that it sends,
 * and writes each that it receives. The task that uses the packet's socket pays.
 *
 * Packets move in interrupts, where the current task has nothing to do with them. So each
 * socket keeps the task that last sent or received on it. Bytes that move before the first
 * such call, or after its task has ended, wait in the socket for the next one. The last ones of a
 * TCP connection do not wait, because no call may follow.
 */
#ifndef DRFQ_NET_BPF_H
#define DRFQ_NET_BPF_H

struct net_socket {
	struct payer user;
	/* Moved and not charged yet. */
	u64 waiting_bytes;
	/* A kernel thread uses it, for other tasks, none of which pays. */
	u64 of_kernel;
};

/* So many bytes are charged at once. To find a task takes longer than to count a packet. */
#define NET_BATCH_BYTES 16384

/* The kernel sends a packet to itself (skb->pkt_type). */
#define PACKET_LOOPBACK 5

/* A socket between processes of one machine (skc_family). */
#define AF_UNIX 1

/* States of a TCP socket (skc_state): its task has closed it, and the last packets leave; or it
 * waits for connections. */
#define TCP_FIN_WAIT1 4
#define TCP_LAST_ACK 9
#define TCP_LISTEN 10
#define TCP_CLOSING 11

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

/*
 * Returns whether packets from a card may reach sockets by way of @dev. A bridge and a tunnel are
 * left out, because packets that crossed no card reach sockets by way of them, too.
 */
static __always_inline bool net_device_is_above_card(const struct net_device *dev)
{
	u64 flags = BPF_CORE_READ_BITFIELD(dev, priv_flags);
	u64 above = bpf_core_enum_value(enum netdev_priv_flags, IFF_802_1Q_VLAN) |
		    bpf_core_enum_value(enum netdev_priv_flags, IFF_BONDING) |
		    bpf_core_enum_value(enum netdev_priv_flags, IFF_TEAM) |
		    bpf_core_enum_value(enum netdev_priv_flags, IFF_MACVLAN) |
		    bpf_core_enum_value(enum netdev_priv_flags, IFF_L3MDEV_MASTER);

	return flags & above;
}

/* Returns whether the socket is for tasks, and no kernel's own. */
static __always_inline bool net_is_for_tasks(const struct sock *sk)
{
	return !BPF_CORE_READ_BITFIELD(sk, sk_kern_sock) && sk->__sk_common.skc_state != TCP_LISTEN;
}

/* Charges what waits in a socket, if its user or that one's process lives. */
static void net_settle(struct net_socket *s)
{
	u64 bytes;

	if (!s->user.pid || s->of_kernel)
		return;
	bytes = __sync_lock_test_and_set(&s->waiting_bytes, 0);
	if (!bytes)
		return;
	if (payer_charge(&s->user, bytes))
		count_shared(DRFQ_EV_NET_CHARGED_BYTES, bytes);
	else
		__sync_fetch_and_add(&s->waiting_bytes, bytes);
}

/* Returns whether a task has closed the connection of @sk, or its way out. The packet that tells
 * the other end leaves in one of these states. Other sockets have none of them. */
static __always_inline bool net_is_closed(const struct sock *sk)
{
	unsigned char state = sk->__sk_common.skc_state;

	return state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK || state == TCP_CLOSING;
}

/* A device moves @bytes of a packet of @sk. */
static void net_moved(struct sock *sk, u64 bytes)
{
	struct net_socket *s;

	s = bpf_sk_storage_get(&net_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s)
		return;
	bytes += __sync_fetch_and_add(&s->waiting_bytes, bytes);
	if (bytes >= NET_BATCH_BYTES || net_is_closed(sk))
		net_settle(s);
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
	u64 at = skb->data - skb->head, from = skb->mac_header, bytes;
	u64 transport = skb->transport_header;
	u32 joined = shared->gso_segs;

	/* A modem has no link layer. What is not set is beyond all data. */
	if (from > at)
		from = skb->network_header < at ? skb->network_header : at;
	bytes = skb->len + at - from;
	if (joined <= 1 || transport <= from || transport >= skb->end)
		return bytes;
	return bytes + (joined - 1) * (transport - from + net_header_bytes(skb, shared->gso_type));
}

/* A packet goes to its device. The device repeats the headers of a long one (TSO) itself. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(drfq_skb_send, struct sk_buff *skb, struct net_device *dev)
{
	struct sock *sk = skb->sk;

	if (!net_device_moves_data(dev))
		return 0;
	count_shared(DRFQ_EV_NET_BYTES, skb->len);
	if (sk && net_is_for_tasks(sk))
		net_moved(sk, skb->len);
	return 0;
}

static __always_inline bool net_is_looped_back(const struct sk_buff *skb)
{
	return BPF_CORE_READ_BITFIELD(skb, pkt_type) == PACKET_LOOPBACK;
}

/* A packet arrives from its device, for whomever. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(drfq_skb_arrive, struct sk_buff *skb)
{
	if (net_device_moves_data(skb->dev) && !net_is_looped_back(skb))
		count_shared(DRFQ_EV_NET_BYTES, net_received_bytes(skb));
	return 0;
}

/* A packet reaches its socket. Each socket pays for a packet for several ones. */
SEC("fentry/security_sock_rcv_skb")
int BPF_PROG(drfq_skb_socket, struct sock *sk, struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;

	if (!dev || !(net_device_moves_data(dev) || net_device_is_above_card(dev)))
		return 0;
	if (!net_is_looped_back(skb) && net_is_for_tasks(sk))
		net_moved(sk, net_received_bytes(skb));
	return 0;
}

/* The current task uses @sk, and pays for what its packets move from now on. */
static __always_inline void net_use(struct sock *sk)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct net_socket *s = bpf_sk_storage_get(&net_sockets, sk, 0, 0);

	/* Only a socket whose packets a device has moved has an entry. */
	if (!s || s->of_kernel)
		return;
	if (task_is_kthread(p)) {
		s->of_kernel = 1;
		return;
	}
	if (!payer_is(&s->user, p))
		payer_set(&s->user, p);
	if (s->waiting_bytes)
		net_settle(s);
}

/*
 * A task has sent or received. Nearly all sockets whose packets a card moves pass these functions,
 * and no Unix socket does. The programs run when the functions return. An answer that fits into one
 * call leaves in it, and no other call may follow.
 */
SEC("fexit/inet_sendmsg")
int BPF_PROG(drfq_inet_send, struct socket *sock)
{
	net_use(sock->sk);
	return 0;
}

SEC("fexit/inet6_sendmsg")
int BPF_PROG(drfq_inet6_send, struct socket *sock)
{
	net_use(sock->sk);
	return 0;
}

SEC("fexit/inet_recvmsg")
int BPF_PROG(drfq_inet_recv, struct socket *sock)
{
	net_use(sock->sk);
	return 0;
}

SEC("fexit/inet6_recvmsg")
int BPF_PROG(drfq_inet6_recv, struct socket *sock)
{
	net_use(sock->sk);
	return 0;
}

SEC("fexit/packet_sendmsg")
int BPF_PROG(drfq_packet_send, struct socket *sock)
{
	net_use(sock->sk);
	return 0;
}

/*
 * The same where BPF cannot follow all those functions. Messages on sockets of any family come by
 * here, and most are between processes of one machine.
 */
static __always_inline void net_use_any(struct sock *sk)
{
	if (sk->__sk_common.skc_family != AF_UNIX)
		net_use(sk);
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(drfq_sock_send, struct sock *sk, int ret, int flags)
{
	net_use_any(sk);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(drfq_sock_recv, struct sock *sk, int ret, int flags)
{
	net_use_any(sk);
	return 0;
}

#endif /* DRFQ_NET_BPF_H */
