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

static struct device bus;

/* @skb as it is when the headers before byte @from of the buffer have been read. */
static void make(struct sk_buff *skb, const struct packet *packet, u32 from)
{
	static struct net_device card = {.dev.parent = &bus}, loopback;
	static _Alignas(
		struct skb_shared_info) unsigned char buffer[END + sizeof(struct skb_shared_info)];
	struct skb_shared_info *shared = (struct skb_shared_info *)(buffer + END);
	u32 headers = TRANSPORT - MAC + packet->header_bytes;

	buffer[TRANSPORT + TCP_LENGTH] = (unsigned char)(packet->header_bytes / 4 << 4);
	shared->gso_segs = (unsigned short)packet->joined;
	shared->gso_type = packet->tcp ? SKB_GSO_TCPV4 : SKB_GSO_UDP_L4;
	*skb = (struct sk_buff){
		.dev = packet->by_cpu ? &loopback : &card,
		.len = packet->bytes - (from - MAC),
		.end = END,
		.transport_header = TRANSPORT,
		.mac_header = MAC,
		.head = buffer,
		.data = buffer + from,
	};
	/* All but the first packet have lost their headers. */
	if (packet->joined > 1)
		skb->len -= (packet->joined - 1) * headers;
}

static struct sock *socket_of(struct machine *m, const struct packet *packet)
{
	return packet->socket < NATIVE_SOCKETS ? &m->sockets[packet->socket] : NULL;
}

void machine_packet_leaves(struct machine *m, s32 cpu, const struct packet *packet)
{
	struct sk_buff skb;

	machine_use(m, m->now_ns, cpu);
	make(&skb, packet, MAC);
	skb.sk = socket_of(m, packet);
	scheduler_net_send(&skb, skb.dev);
}

void machine_packet_arrives(struct machine *m, s32 cpu, const struct packet *packet)
{
	struct sk_buff skb;

	machine_use(m, m->now_ns, cpu);
	make(&skb, packet, IP);
	scheduler_net_arrive(&skb);
	make(&skb, packet, TRANSPORT);
	if (packet->socket < NATIVE_SOCKETS)
		scheduler_net_receive(socket_of(m, packet), &skb);
}

void machine_use_socket(struct machine *m, const struct task_struct *p, u32 socket, bool sends)
{
	machine_use(m, m->now_ns, p->cpu);
	if (m->rqs[p->cpu].curr != p || socket >= NATIVE_SOCKETS)
		abort();
	scheduler_net_use(&m->sockets[socket], sends);
}
