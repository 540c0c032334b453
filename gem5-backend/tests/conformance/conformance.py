#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tests any server of PROTOCOL.md that runs in lock-step.

DRFQ_SERVER is the command that starts one; {socket} in it is replaced by the path to listen on, e.g.
    DRFQ_SERVER='drfq-mc serve --socket {socket}' python3 conformance.py
"""

import json
import os
import shlex
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "interface"))
from tables import OFFSET, OP, PIDS, PROTOCOL, REGISTERS, STATUS, record

HEADER, RECORD, DEMAND = record("header"), record("batch_record"), record("demand_record")
HELLO, READ, WRITE, PEEK, BATCH, ADVANCE, DEMAND_OP, STATS, SUBSCRIBE = (
    OP[name] for name in ("hello", "read", "write", "peek", "batch", "advance", "demand", "stats", "subscribe")
)
(
    OK,
    BAD_ADDRESS,
    READ_ONLY,
    BAD_VALUE,
    MALFORMED,
    BAD_VERSION,
    BAD_OP,
    NOT_GREETED,
    NOT_WRITER,
    WRITER_TAKEN,
    WRONG_MODE,
    FULL,
) = (
    STATUS[name]
    for name in (
        "ok",
        "bad_address",
        "read_only",
        "bad_value",
        "malformed",
        "bad_version",
        "bad_op",
        "not_greeted",
        "not_writer",
        "writer_taken",
        "wrong_mode",
        "full",
    )
)
READER, WRITER = PROTOCOL["role"]["reader"], PROTOCOL["role"]["writer"]
PROTOCOL_VERSION, REPLY, EVENT = PROTOCOL["version"], PROTOCOL["reply_bit"], PROTOCOL["event_bit"]
TRAFFIC, TRAFFIC_PEEK, VT_PID, VT_CORE, PID_CORE = (
    OFFSET[name] for name in ("traffic", "traffic_peek", "vtime_pid", "vtime_core", "pid_core")
)
ID, VERSION, PIDS_REGISTER, CORES = (OFFSET[name] for name in ("id", "version", "pids", "cores"))
REGISTER_BYTES = REGISTERS["limits"]["bytes"]
LINES_MAX = PROTOCOL["limits"]["demand_outstanding_lines_max"]
ADVANCE_MAX = PROTOCOL["limits"]["advance_ps_max"]
FRAME_MAX = PROTOCOL["frame_bytes_max"]
MS = 10**9


class Reply:
    def __init__(self, header, payload):
        _, self.op, self.status, self.tag, self.zero, self.a, self.b, self.time = header
        self.payload = payload


class Client:
    def __init__(self, path, role=None):
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self.socket.settimeout(30)
        self.tag = 0
        if role is not None:
            reply = self.call(HELLO, PROTOCOL_VERSION, role)
            assert reply.status == OK, reply.status

    def close(self):
        self.socket.close()

    def send(self, op, a=0, b=0, payload=b""):
        self.tag += 1
        self.socket.sendall(HEADER.pack(HEADER.size + len(payload), op, 0, self.tag, 0, a, b, 0) + payload)
        return self.tag

    def exactly(self, n):
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def receive(self):
        header = HEADER.unpack(self.exactly(HEADER.size))
        return Reply(header, self.exactly(header[0] - HEADER.size))

    def call(self, op, a=0, b=0, payload=b""):
        tag = self.send(op, a, b, payload)
        while True:
            reply = self.receive()
            if not reply.op & EVENT:
                assert reply.tag == tag and reply.op == op | REPLY, (reply.op, reply.tag)
                return reply

    def batch(self, *records):
        payload = b"".join(RECORD.pack(op, 0, 0, offset, value) for op, offset, value in records)
        reply = self.call(BATCH, payload=payload)
        return reply, [RECORD.unpack_from(reply.payload, i) for i in range(0, len(reply.payload), RECORD.size)]

    def demand(self, core, rate, outstanding_lines=8, writes=0, substream=0):
        return self.call(DEMAND_OP, payload=DEMAND.pack(substream, core, rate, outstanding_lines, writes, core + 1))


class Server(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.dir.name, "private", "mc")
        self.start()
        self.clients = []

    def start(self):
        command = [word.replace("{socket}", self.path) for word in shlex.split(os.environ["DRFQ_SERVER"])]
        self.server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(3000):
            try:
                Client(self.path).close()
                return
            except OSError:
                self.assertIsNone(self.server.poll(), "the server ended")
                time.sleep(0.01)
        self.fail("the server does not listen")

    def tearDown(self):
        for client in self.clients:
            client.close()
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(timeout=60), 0)
        self.dir.cleanup()

    def client(self, role=None):
        self.clients.append(Client(self.path, role))
        return self.clients[-1]

    def writer(self):
        # The place of a writer whose connection has just ended may not be free yet.
        client = self.client()
        for _ in range(1000):
            if client.call(HELLO, PROTOCOL_VERSION, WRITER).status == OK:
                return client
            time.sleep(0.01)
        self.fail("the writer's place is not freed")

    def assert_alive(self):
        # A server that is full for the moment closes new connections.
        for _ in range(1000):
            try:
                self.assertEqual(self.client(READER).call(PEEK, VERSION).b, REGISTERS["identity"]["version"])
                return
            except (EOFError, ConnectionError):
                time.sleep(0.01)
        self.fail("the server serves no more")


class Greeting(Server):
    def test_first_frame_must_be_hello(self):
        client = self.client()
        self.assertEqual(client.call(PEEK, ID).status, NOT_GREETED)
        reply = client.call(HELLO, PROTOCOL_VERSION, READER)
        self.assertEqual((reply.status, reply.a, reply.b & 1), (OK, PROTOCOL_VERSION, 1))
        self.assertEqual(client.call(PEEK, ID).status, OK)

    def test_version_and_role_are_checked(self):
        client = self.client()
        reply = client.call(HELLO, PROTOCOL_VERSION + 1, READER)
        self.assertEqual((reply.status, reply.a), (BAD_VERSION, PROTOCOL_VERSION))
        self.assertEqual(client.call(HELLO, PROTOCOL_VERSION, 2).status, BAD_VALUE)

    def test_one_writer_and_its_place_is_freed(self):
        writer, other = self.client(WRITER), self.client()
        self.assertEqual(other.call(HELLO, PROTOCOL_VERSION, WRITER).status, WRITER_TAKEN)
        self.assertEqual(other.call(HELLO, PROTOCOL_VERSION, READER).status, OK)
        self.assertEqual(other.call(HELLO, PROTOCOL_VERSION, WRITER).status, WRITER_TAKEN)
        self.assertEqual(writer.call(HELLO, PROTOCOL_VERSION, READER).status, OK)
        self.assertEqual(other.call(HELLO, PROTOCOL_VERSION, WRITER).status, OK)

    def test_an_unknown_operation_is_refused(self):
        client = self.client(WRITER)
        for op in (0, max(OP.values()) + 1, 99, HELLO | REPLY):
            client.send(op)
            self.assertEqual(client.receive().status, BAD_OP)

    def test_a_greeting_has_the_bytes_of_version_1(self):
        client = self.client()
        client.socket.sendall(bytes.fromhex("28000000 0100 0000 07000000 00000000 0100000000000000" + " 00" * 16))
        reply = client.exactly(40)
        self.assertEqual(reply[:24], bytes.fromhex("28000000 0180 0000 07000000 00000000 0100000000000000"))


class Registers(Server):
    def test_the_identity_registers_hold_the_published_values(self):
        client = self.client(READER)
        self.assertEqual(struct.pack("<Q", client.call(PEEK, ID).b), b"\0DRFQ-MC")
        self.assertEqual(client.call(PEEK, VERSION).b, REGISTERS["identity"]["version"])
        self.assertEqual(client.call(PEEK, PIDS_REGISTER).b, PIDS)
        self.assertGreaterEqual(client.call(PEEK, CORES).b, 1)

    def test_write_and_read_back(self):
        writer = self.client(WRITER)
        for offset, value in ((VT_PID + 8 * (PIDS - 1), 2**64 - 1), (VT_CORE, 7), (PID_CORE, PIDS - 1)):
            self.assertEqual(writer.call(WRITE, offset, value).status, OK)
            self.assertEqual(writer.call(READ, offset).b, value)
            self.assertEqual(self.client(READER).call(PEEK, offset).b, value)

    def test_errors_change_nothing(self):
        writer = self.client(WRITER)
        cores = writer.call(PEEK, CORES).b
        for offset in (4, REGISTER_BYTES, 2**64 - 8, VT_CORE + 8 * cores):
            self.assertEqual(writer.call(READ, offset).status, BAD_ADDRESS)
            self.assertEqual(writer.call(WRITE, offset, 1).status, BAD_ADDRESS)
        for offset in (ID, VERSION, TRAFFIC, TRAFFIC_PEEK, VT_PID):
            self.assertEqual(writer.call(WRITE, offset, 1).status, READ_ONLY)
        self.assertEqual(writer.call(WRITE, PID_CORE, PIDS).status, BAD_VALUE)
        self.assertEqual(writer.call(PEEK, PID_CORE).b, 0)

    def test_the_labels_of_cores_end_with_their_writer(self):
        labels = (PID_CORE, VT_CORE, VT_PID + 8 * 40)
        for dies in (True, False):
            writer = self.writer()
            writer.batch(*((WRITE, offset, 40) for offset in labels))
            if dies:
                self.clients.pop().close()
            else:
                self.assertEqual(writer.call(HELLO, PROTOCOL_VERSION, READER).status, OK)
            _, records = self.writer().batch(*((PEEK, offset, 0) for offset in labels))
            self.assertEqual([r[4] for r in records], [0, 0, 40])
            self.clients.pop().close()

    def test_a_reader_may_only_peek(self):
        reader = self.client(READER)
        self.assertEqual(reader.call(READ, TRAFFIC).status, NOT_WRITER)
        self.assertEqual(reader.call(WRITE, VT_CORE, 1).status, NOT_WRITER)
        self.assertEqual(reader.call(ADVANCE, 1).status, NOT_WRITER)
        self.assertEqual(reader.demand(0, 1).status, NOT_WRITER)
        self.assertEqual(reader.call(PEEK, TRAFFIC).status, OK)

    def test_a_batch_reports_each_record_and_does_what_is_allowed(self):
        writer = self.client(WRITER)
        reply, records = writer.batch(
            (WRITE, VT_CORE, 5), (WRITE, 4, 1), (READ, VT_CORE, 0), (ADVANCE, 0, 0), (PEEK, PIDS_REGISTER, 0)
        )
        self.assertEqual((reply.status, reply.a, reply.b), (OK, 5, 2))
        self.assertEqual([r[1] for r in records], [OK, BAD_ADDRESS, OK, BAD_OP, OK])
        self.assertEqual((records[2][4], records[4][4]), (5, PIDS))
        self.assertEqual(writer.batch()[0].a, 0)
        self.assertEqual(writer.call(BATCH, payload=b"x" * 25).status, BAD_VALUE)
        _, records = self.client(READER).batch((READ, TRAFFIC, 0), (PEEK, TRAFFIC, 0))
        self.assertEqual([r[1] for r in records], [NOT_WRITER, OK])


class Time(Server):
    def test_only_advance_moves_it(self):
        writer = self.client(WRITER)
        self.assertEqual(writer.call(PEEK, ID).time, 0)
        reply = writer.call(ADVANCE, 5 * MS)
        self.assertEqual((reply.status, reply.a, reply.time), (OK, 5 * MS, 5 * MS))
        self.assertEqual(writer.call(ADVANCE, 1).time, 5 * MS + 1)
        self.assertEqual(writer.call(ADVANCE, 0).time, 5 * MS + 1)
        self.assertEqual(writer.call(ADVANCE, ADVANCE_MAX + 1).status, BAD_VALUE)
        self.assertEqual(self.client(READER).call(PEEK, ID).time, 5 * MS + 1)

    def test_frames_behind_an_advance_wait_for_it(self):
        writer = self.client(WRITER)
        writer.demand(0, 10**9)
        writer.send(ADVANCE, 20 * MS)
        writer.send(PEEK, ID)
        self.assertEqual(writer.receive().time, 20 * MS)
        self.assertEqual(writer.receive().time, 20 * MS)

    def test_others_are_served_during_an_advance(self):
        writer, reader = self.client(WRITER), self.client(READER)
        writer.demand(0, 10**9)
        writer.send(ADVANCE, 100 * MS)
        times = []
        while not times or times[-1] < 100 * MS:
            times.append(reader.call(PEEK, ID).time)
        self.assertEqual(times, sorted(times))
        writer.receive()

    def test_the_same_requests_give_the_same_bytes(self):
        seen = []
        for _ in range(2):
            writer = self.writer()
            writer.call(WRITE, PID_CORE, 40)
            writer.demand(0, 2 * 10**9)
            writer.call(ADVANCE, 3 * MS)
            seen.append(writer.call(STATS).payload)
            self.tearDown()
            self.setUp()
        self.assertEqual(seen[0], seen[1])


class Traffic(Server):
    def test_bytes_are_counted_once(self):
        writer, reader = self.client(WRITER), self.client(READER)
        writer.call(WRITE, PID_CORE, 40)
        self.assertEqual(writer.demand(0, 10**9).status, OK)
        total = 0
        for _ in range(10):
            writer.call(ADVANCE, MS)
            peeked = reader.call(PEEK, TRAFFIC + 8 * 40).b
            self.assertEqual(reader.call(PEEK, TRAFFIC_PEEK + 8 * 40).b, peeked)
            value = writer.call(READ, TRAFFIC + 8 * 40).b
            self.assertEqual(value, peeked)
            self.assertEqual(writer.call(READ, TRAFFIC + 8 * 40).b, 0)
            total += value
        self.assertAlmostEqual(total, 10**7, delta=10**5)
        stats = json.loads(reader.call(STATS).payload)
        self.assertEqual(stats["pids"], [{"pid": 40, "read_bytes": total, "write_bytes": 0}])

    def test_devices_are_charged_by_substream(self):
        writer = self.client(WRITER)
        writer.demand(0, 10**9, writes=100, substream=77)
        writer.call(ADVANCE, MS)
        self.assertGreater(writer.call(READ, TRAFFIC + 8 * 77).b, 9 * 10**5)

    def test_demand_can_change_and_end(self):
        writer = self.client(WRITER)
        writer.call(WRITE, PID_CORE, 40)
        for rate in (10**9, 10**8, 0):
            self.assertEqual(writer.demand(0, rate).a, int(rate != 0))
            writer.call(ADVANCE, MS)
            writer.call(READ, TRAFFIC + 8 * 40)
            writer.call(ADVANCE, 10 * MS)
            self.assertAlmostEqual(writer.call(READ, TRAFFIC + 8 * 40).b, rate / 100, delta=rate / 5000 + 64)

    def test_256_demands_have_places(self):
        writer = self.client(WRITER)
        payload = b"".join(DEMAND.pack(1 + i, 0, 1000, 1, 0, 0) for i in range(256))
        reply = writer.call(DEMAND_OP, payload=payload)
        self.assertEqual((reply.status, reply.a), (OK, 256))

    def test_bad_demands_are_refused_whole(self):
        writer = self.client(WRITER)
        good = DEMAND.pack(0, 0, 1000, 1, 0, 0)
        for bad in (
            DEMAND.pack(0, 9999, 1, 1, 0, 0),
            DEMAND.pack(PIDS, 0, 1, 1, 0, 0),
            DEMAND.pack(0, 0, 1, 0, 0, 0),
            DEMAND.pack(0, 0, 1, LINES_MAX + 1, 0, 0),
            DEMAND.pack(0, 0, 1, 1, 101, 0),
            b"short",
        ):
            reply = writer.call(DEMAND_OP, payload=good + bad)
            self.assertEqual((reply.status, reply.a), (BAD_VALUE, 0))

    def test_lower_virtual_time_goes_first(self):
        writer = self.client(WRITER)
        got = []
        for first, second in ((1, 2), (2, 1)):
            writer.batch(
                (WRITE, PID_CORE, 40), (WRITE, PID_CORE + 8, 41), (WRITE, VT_CORE, first), (WRITE, VT_CORE + 8, second)
            )
            for core in (0, 1):
                writer.demand(core, 10**11, outstanding_lines=16)
            writer.call(ADVANCE, MS)
            writer.batch((READ, TRAFFIC + 8 * 40, 0), (READ, TRAFFIC + 8 * 41, 0))
            writer.call(ADVANCE, 5 * MS)
            _, records = writer.batch((READ, TRAFFIC + 8 * 40, 0), (READ, TRAFFIC + 8 * 41, 0))
            got.append([r[4] for r in records])
        self.assertGreater(got[0][0], 2 * got[0][1])
        self.assertGreater(got[1][1], 2 * got[1][0])


class Streams(Server):
    def test_a_subscriber_gets_statistics_at_each_interval_until_it_ends_them(self):
        writer, viewer = self.client(WRITER), self.client(READER)
        tag = viewer.send(SUBSCRIBE, MS)
        self.assertEqual(viewer.receive().status, OK)
        writer.call(ADVANCE, 5 * MS)
        for i in range(1, 6):
            event = viewer.receive()
            self.assertEqual((event.op, event.tag, event.time), (STATS | REPLY | EVENT, tag, i * MS))
            self.assertEqual(json.loads(event.payload)["time_ps"], i * MS)
        self.assertEqual(viewer.call(SUBSCRIBE, 0).status, OK)
        writer.call(ADVANCE, 5 * MS)
        self.assertEqual(viewer.call(PEEK, VERSION).b, REGISTERS["identity"]["version"])
        self.assertEqual(viewer.call(SUBSCRIBE, 1).status, BAD_VALUE)

    def test_a_client_that_does_not_read_delays_no_other_client(self):
        writer, lazy = self.client(WRITER), self.client(READER)
        lazy.call(SUBSCRIBE, PROTOCOL["limits"]["subscribe_ps_min"])
        for _ in range(20):
            self.assertEqual(writer.call(ADVANCE, 100 * MS).status, OK)
        self.assertGreater(lazy.call(STATS).a, 0, "nothing was dropped")

    def test_many_requests_without_reading(self):
        client = self.client(READER)
        client.socket.settimeout(0.5)
        sent = 0
        try:
            for _ in range(20000):
                client.send(STATS)
                sent += 1
        except TimeoutError:
            pass
        self.assert_alive()
        client.socket.settimeout(30)
        for _ in range(sent):
            self.assertEqual(client.receive().status, OK)


class Abuse(Server):
    def test_malformed_frames_end_the_connection(self):
        for frame in (
            struct.pack("<I", HEADER.size - 1),
            struct.pack("<I", FRAME_MAX + 1),
            b"\xff" * 64,
            b"\0" * HEADER.size,
            HEADER.pack(HEADER.size, HELLO, 0, 1, 1, PROTOCOL_VERSION, 0, 0),
            HEADER.pack(HEADER.size, HELLO, 1, 1, 0, PROTOCOL_VERSION, 0, 0),
            HEADER.pack(HEADER.size, HELLO, 0, 1, 0, PROTOCOL_VERSION, 0, 1),
        ):
            client = self.client()
            client.socket.sendall(frame)
            self.assertEqual(client.receive().status, MALFORMED)
            with self.assertRaises((EOFError, ConnectionError)):
                client.receive()
        self.assert_alive()

    def test_a_payload_where_none_belongs_is_refused(self):
        client = self.client(WRITER)
        for op in set(OP.values()) - {BATCH, DEMAND_OP}:
            self.assertEqual(client.call(op, PROTOCOL_VERSION, payload=b"more").status, BAD_VALUE)

    def test_a_batch_record_with_a_field_that_must_be_0_fails(self):
        client = self.client(READER)
        payload = RECORD.pack(PEEK, 1, 0, ID, 0) + RECORD.pack(PEEK, 0, 1, ID, 0) + RECORD.pack(PEEK, 0, 0, ID, 0)
        reply = client.call(BATCH, payload=payload)
        statuses = [RECORD.unpack_from(reply.payload, i)[1] for i in range(0, len(reply.payload), RECORD.size)]
        self.assertEqual((reply.b, statuses), (2, [MALFORMED, MALFORMED, OK]))

    def test_a_client_that_closes_its_direction_gets_every_reply(self):
        client = self.client(READER)
        frame = HEADER.pack(HEADER.size, PEEK, 0, 9, 0, ID, 0, 0)
        sender = threading.Thread(
            target=lambda: (client.socket.sendall(frame * 20000), client.socket.shutdown(socket.SHUT_WR))
        )
        sender.start()
        for _ in range(20000):
            self.assertEqual(client.receive().status, OK)
        sender.join()
        self.assertEqual(client.socket.recv(1), b"")

    def test_silent_connections_shut_no_client_out(self):
        silent = [self.client() for _ in range(300)]
        self.assertEqual(self.client(WRITER).call(PEEK, VERSION).status, OK)
        self.assertEqual(len(silent), 300)

    def test_readers_leave_the_writers_place_free(self):
        for _ in range(PROTOCOL["limits"]["clients_max"] - 1):
            self.client(READER)
        self.assertEqual(self.client().call(HELLO, PROTOCOL_VERSION, READER).status, FULL)
        self.assertEqual(self.client().call(HELLO, PROTOCOL_VERSION, WRITER).status, OK)

    def test_demands_end_with_the_first_demands_of_the_next_writer(self):
        self.client(WRITER).demand(0, 10**9, substream=77)
        self.clients.pop().close()
        writer = self.writer()
        writer.call(ADVANCE, MS)
        self.assertGreater(writer.call(READ, TRAFFIC + 8 * 77).b, 0)
        self.assertEqual(writer.demand(0, 10**9, substream=78).a, 1)
        writer.call(ADVANCE, MS)
        writer.call(READ, TRAFFIC + 8 * 77)
        writer.call(ADVANCE, MS)
        self.assertEqual(writer.call(READ, TRAFFIC + 8 * 77).b, 0)

    def test_random_bytes_leave_the_server_alive(self):
        import random

        rng = random.Random(1)
        for _ in range(200):
            client = self.client()
            try:
                client.socket.sendall(rng.randbytes(rng.randrange(1, 300)))
            except ConnectionError:
                pass
            client.close()
        self.assert_alive()

    def test_a_frame_in_single_bytes(self):
        client = self.client()
        for byte in HEADER.pack(HEADER.size, HELLO, 0, 5, 0, PROTOCOL_VERSION, READER, 0):
            client.socket.sendall(bytes([byte]))
        self.assertEqual(client.receive().status, OK)

    def test_clients_that_die_in_the_middle(self):
        for i in range(50):
            client = self.writer()
            client.demand(0, 10**9)
            client.send(ADVANCE, 1000 * MS)
            client.socket.sendall(b"\x28\0\0"[: i % 4])
            client.close()
        self.assert_alive()

    def test_too_many_connections_leave_the_server_alive(self):
        extra = [socket.socket(socket.AF_UNIX) for _ in range(200)]
        for s in extra:
            try:
                s.connect(self.path)
            except OSError:
                pass
        for s in extra:
            s.close()
        self.assert_alive()

    def test_the_socket_is_private(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(self.path)).st_mode), 0o700)

    def test_a_second_server_does_not_take_the_path(self):
        os.unlink(self.path)
        command = [word.replace("{socket}", self.path) for word in shlex.split(os.environ["DRFQ_SERVER"])]
        second = subprocess.run(command, check=False, capture_output=True, timeout=30)
        self.assertNotEqual(second.returncode, 0)
        self.assertFalse(os.path.exists(self.path))

    def test_a_killed_server_can_be_started_again(self):
        self.server.kill()
        self.server.wait()
        self.assertTrue(os.path.exists(self.path))
        self.start()
        self.assert_alive()


if __name__ == "__main__":
    unittest.main()
