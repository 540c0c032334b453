/* SPDX-License-Identifier: GPL-2.0-only */
/* Network devices, packets and sockets. */
#include <stdlib.h>

#include "model.h"

/* Where the headers of a packet begin in its buffer. */
enum {
	MAC = 16,
	IP = MAC + 14,
	TRANSPORT = IP + 20,
	END = 128,
};

/* The byte of a TCP header whose upper half is the header's length (words of 4 bytes). */
#define TCP_LENGTH 12

/* PACKET_LOOPBACK */
#define LOOPED_BACK 5

static struct device bus;

/* @skb on @dev, as it is when the headers before byte @from of the buffer have been read. */
static void make(struct sk_buff *skb, struct net_device *dev, const struct packet *packet, u32 from)
{
	static _Alignas(
		struct skb_shared_info) unsigned char buffer[END + sizeof(struct skb_shared_info)];
	struct skb_shared_info *shared = (struct skb_shared_info *)(buffer + END);
	u32 begin = packet->modem ? IP : MAC;
	u32 headers = TRANSPORT - begin + packet->header_bytes;

	buffer[TRANSPORT + TCP_LENGTH] = (unsigned char)(packet->header_bytes / 4 << 4);
	shared->gso_segs = (unsigned short)packet->joined;
	shared->gso_type = packet->tcp ? SKB_GSO_TCPV4 : SKB_GSO_UDP_L4;
	*skb = (struct sk_buff){
		.dev = dev,
		.len = packet->bytes - (from - begin),
		.end = END,
		.transport_header = TRANSPORT,
		.network_header = IP,
		.mac_header = packet->modem ? 0xffff : MAC,
		.pkt_type = packet->looped_back ? LOOPED_BACK : 0,
		.head = buffer,
		.data = buffer + from,
	};
	/* All but the first packet have lost their headers. */
	if (packet->joined > 1)
		skb->len -= (packet->joined - 1) * headers;
}

/* The device that a packet crosses. */
static struct net_device *device_of(const struct packet *packet)
{
	static struct net_device card = {.dev.parent = &bus}, loopback;

	return packet->by_cpu ? &loopback : &card;
}

static struct sock *socket_of(struct machine *m, const struct packet *packet)
{
	return packet->socket < NATIVE_SOCKETS ? &m->sockets[packet->socket] : NULL;
}

void machine_kernel_socket(struct machine *m, u32 socket)
{
	m->sockets[socket].sk_kern_sock = 1;
}

void machine_socket_state(struct machine *m, u32 socket, u32 state)
{
	m->sockets[socket].__sk_common.skc_state = (unsigned char)state;
}

void machine_packet_leaves(struct machine *m, s32 cpu, const struct packet *packet)
{
	struct sk_buff skb;

	machine_use(m, m->now_ns, cpu);
	make(&skb, device_of(packet), packet, packet->modem ? IP : MAC);
	skb.sk = socket_of(m, packet);
	scheduler_net_send(&skb, skb.dev);
}

void machine_packet_arrives(struct machine *m, s32 cpu, const struct packet *packet)
{
	static struct net_device vlan = {.priv_flags = IFF_802_1Q_VLAN};
	struct sk_buff skb;

	machine_use(m, m->now_ns, cpu);
	make(&skb, device_of(packet), packet, IP);
	scheduler_net_arrive(&skb);
	make(&skb, packet->above_card ? &vlan : device_of(packet), packet, TRANSPORT);
	if (packet->socket < NATIVE_SOCKETS)
		scheduler_net_receive(socket_of(m, packet), &skb);
}

void machine_use_socket(struct machine *m, const struct task_struct *p, u32 socket, bool sends)
{
	machine_use(m, m->now_ns, p->cpu);
	_Static_assert(SOCKET_TRACED == NATIVE_SOCKETS - 1, "one socket of each kind");
	if (m->rqs[p->cpu].curr != p || socket >= NATIVE_SOCKETS)
		abort();
	scheduler_net_use(&m->sockets[socket], (enum socket_kind)socket, sends);
}
