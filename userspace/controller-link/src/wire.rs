// SPDX-License-Identifier: GPL-2.0-only
//! Frames of the controller's socket protocol, version 1, described in
//! gem5-backend/PROTOCOL.md. Bytes to values and back; no I/O.

use crate::registers::{Access, Demand, Fault, Op};

/// The version of the protocol.
pub const VERSION: u64 = 1;
/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 40;
/// The longest frame, header included.
pub const FRAME_MAX: usize = 65536;
const RECORD_BYTES: usize = 24;
const DEMAND_BYTES: usize = 32;
const REPLY: u16 = 0x8000;

/// Accesses that one frame carries.
pub const BATCH_MAX: usize = (FRAME_MAX - HEADER_BYTES) / RECORD_BYTES;
/// Demands that one frame carries; a server knows 256 owners anyway.
pub const DEMANDS_MAX: usize = 256;

/// Operations of the protocol that the agent uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The greeting; as the writer.
    Hello = 1,
    /// Many accesses at one time.
    Batch = 5,
    /// Simulated time goes on.
    Advance = 6,
    /// Synthetic traffic.
    Demand = 7,
}

/// A reply without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Bytes of the payload that follows.
    pub payload_bytes: usize,
    /// 0: as asked.
    pub status: u16,
    /// First value.
    pub a: u64,
    /// Second value.
    pub b: u64,
    /// Simulated time (ps).
    pub time_ps: u64,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut number = [0; N];
    number.copy_from_slice(&bytes[at..at + N]);
    number
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(number(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(number(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(number(bytes, at))
}

/// A request as it is sent.
pub fn request(call: Call, tag: u32, a: u64, b: u64, payload: &[u8]) -> Vec<u8> {
    let length = HEADER_BYTES + payload.len();
    let mut frame = Vec::with_capacity(length);
    frame.extend((length as u32).to_le_bytes());
    frame.extend((call as u16).to_le_bytes());
    frame.extend(0u16.to_le_bytes());
    frame.extend(tag.to_le_bytes());
    frame.extend(0u32.to_le_bytes());
    frame.extend(a.to_le_bytes());
    frame.extend(b.to_le_bytes());
    frame.extend(0u64.to_le_bytes());
    frame.extend(payload);
    frame
}

/// The header of the reply to a request.
///
/// # Errors
/// It is none: `Protocol`.
pub fn reply(header: &[u8; HEADER_BYTES], call: Call, tag: u32) -> Result<Reply, Fault> {
    let length = u32_at(header, 0) as usize;
    let (op, their_tag, zero) = (u16_at(header, 4), u32_at(header, 8), u32_at(header, 12));
    let nonsense = |what: String| Err(Fault::Protocol(what));
    if !(HEADER_BYTES..=FRAME_MAX).contains(&length) {
        return nonsense(format!("a frame of {length} bytes"));
    }
    let status = u16_at(header, 6);
    if status == MALFORMED {
        return nonsense("it calls our frames malformed".into());
    }
    if op != call as u16 | REPLY || their_tag != tag || zero != 0 {
        return nonsense(format!(
            "operation {op:#x} with tag {their_tag} in reply to {:#x} with {tag}",
            call as u16
        ));
    }
    Ok(Reply {
        payload_bytes: length - HEADER_BYTES,
        status,
        a: u64_at(header, 16),
        b: u64_at(header, 24),
        time_ps: u64_at(header, 32),
    })
}

const MALFORMED: u16 = 4;

/// What a status means.
pub fn status_text(status: u16) -> String {
    let text = match status {
        1 => "no such register",
        2 => "the register is read-only",
        3 => "a value out of its range",
        MALFORMED => "malformed",
        5 => "another version of the protocol",
        6 => "no such operation",
        7 => "hello must come first",
        8 => "for the writer only",
        9 => "another agent is its writer",
        10 => "not in this mode",
        _ => return format!("status {status}"),
    };
    text.into()
}

fn op_code(op: Op) -> u16 {
    match op {
        Op::Read => 2,
        Op::Write => 3,
        Op::Peek => 4,
    }
}

/// The payload of a batch; at most `BATCH_MAX` accesses.
pub fn batch(accesses: &[Access]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(accesses.len() * RECORD_BYTES);
    for access in accesses {
        payload.extend(op_code(access.op).to_le_bytes());
        payload.extend([0; 6]);
        payload.extend(access.offset.to_le_bytes());
        let value = if access.op == Op::Write {
            access.value
        } else {
            0
        };
        payload.extend(value.to_le_bytes());
    }
    payload
}

/// Fills in what a batch brought back, and marks what was done.
///
/// # Errors
/// `Protocol` if the reply is not of these accesses (then none is marked),
/// `Refused` for the first access that was.
pub fn batch_reply(accesses: &mut [Access], payload: &[u8]) -> Result<(), Fault> {
    let records = || payload.chunks_exact(RECORD_BYTES);
    let ours = payload.len() == accesses.len() * RECORD_BYTES
        && accesses.iter().zip(records()).all(|(access, record)| {
            u16_at(record, 0) == op_code(access.op) && u64_at(record, 8) == access.offset
        });
    if !ours {
        return Err(Fault::Protocol("the reply to another batch".into()));
    }
    let mut refused = None;
    for (access, record) in accesses.iter_mut().zip(records()) {
        let status = u16_at(record, 2);
        access.done = status == 0;
        if !access.done {
            refused.get_or_insert((access.offset, status));
        } else if access.op != Op::Write {
            access.value = u64_at(record, 16);
        }
    }
    refused.map_or(Ok(()), |(offset, status)| {
        let why = status_text(status);
        Err(Fault::Refused(format!("register {offset:#x}: {why}")))
    })
}

/// The payload of demands; at most `DEMANDS_MAX`.
pub fn demands(demands: &[Demand]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(demands.len() * DEMAND_BYTES);
    for demand in demands {
        payload.extend(u32::from(demand.id).to_le_bytes());
        payload.extend(0u32.to_le_bytes());
        payload.extend(demand.bytes_per_s.to_le_bytes());
        payload.extend(demand.lines.to_le_bytes());
        payload.extend(demand.write_pct.to_le_bytes());
        // The seed of its addresses: any, but always the same.
        payload.extend(u64::from(demand.id).to_le_bytes());
    }
    payload
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(frame: &[u8]) -> [u8; HEADER_BYTES] {
        number(frame, 0)
    }

    #[test]
    fn a_request_is_as_the_protocol_says() {
        let frame = request(Call::Batch, 7, 1, 2, &[9; 3]);
        assert_eq!(frame.len(), 43);
        assert_eq!(
            frame[..16],
            [43, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!((u64_at(&frame, 16), u64_at(&frame, 24)), (1, 2));
        assert_eq!(frame[32..], [0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9]);
    }

    #[test]
    fn a_full_batch_fits_a_frame() {
        let accesses = vec![Access::peek(0); BATCH_MAX];
        let frame = request(Call::Batch, 0, 0, 0, &batch(&accesses));
        assert!(frame.len() <= FRAME_MAX && frame.len() + RECORD_BYTES > FRAME_MAX);
        let all = vec![
            Demand {
                id: 9,
                bytes_per_s: 1,
                lines: 1,
                write_pct: 0
            };
            DEMANDS_MAX
        ];
        assert!(HEADER_BYTES + demands(&all).len() <= FRAME_MAX);
    }

    #[test]
    fn a_batch_comes_back_with_values() {
        let mut accesses = [Access::read(8), Access::write(16, 5), Access::peek(24)];
        let mut payload = batch(&accesses);
        payload[16] = 77; // The value of the first.
        payload[2 * RECORD_BYTES + 2] = 1; // The status of the last.
        let error = batch_reply(&mut accesses, &payload).unwrap_err();
        assert_eq!(
            error,
            Fault::Refused("register 0x18: no such register".into())
        );
        let done = accesses.map(|access| (access.value, access.done));
        assert_eq!(done, [(77, true), (5, true), (0, false)]);
    }

    #[test]
    fn the_reply_to_another_batch_books_nothing() {
        let mut accesses = [Access::read(8), Access::read(16)];
        for payload in [
            batch(&[Access::read(8)]),
            batch(&[Access::read(8), Access::read(24)]),
            batch(&[Access::read(8), Access::peek(16)]),
            batch(&[Access::read(8), Access::read(16)])[1..].to_vec(),
            vec![],
        ] {
            assert!(matches!(
                batch_reply(&mut accesses, &payload),
                Err(Fault::Protocol(_))
            ));
            assert!(accesses.iter().all(|access| !access.done));
        }
    }

    #[test]
    fn a_reply_is_of_its_request() {
        let mut frame = request(Call::Advance, 3, 4, 5, &[]);
        assert!(
            reply(&header(&frame), Call::Advance, 3).is_err(),
            "a request"
        );
        frame[5] = 0x80;
        frame[32] = 6;
        let good = reply(&header(&frame), Call::Advance, 3).unwrap();
        assert_eq!(
            (good.payload_bytes, good.a, good.b, good.time_ps),
            (0, 4, 5, 6)
        );
        assert!(reply(&header(&frame), Call::Advance, 4).is_err());
        assert!(reply(&header(&frame), Call::Batch, 3).is_err());
        // An event.
        frame[5] = 0xc0;
        assert!(reply(&header(&frame), Call::Advance, 3).is_err());
    }

    proptest! {
        #[test]
        fn nothing_that_comes_is_too_strange(
            bytes in prop::collection::vec(any::<u8>(), HEADER_BYTES),
            payload in prop::collection::vec(any::<u8>(), 0..200),
            tag: u32,
        ) {
            if let Ok(reply) = reply(&header(&bytes), Call::Batch, tag) {
                prop_assert!(reply.payload_bytes <= FRAME_MAX - HEADER_BYTES);
            }
            let mut accesses = [Access::read(0x10000); 5];
            // Random bytes are the reply to this batch with probability 2^-400.
            prop_assert!(batch_reply(&mut accesses, &payload).is_err());
        }

        #[test]
        fn a_damaged_reply_is_refused_or_read_as_it_is(at in 0usize..HEADER_BYTES, bit in 0u8..8) {
            let mut frame = request(Call::Batch, 3, 1, 2, &[]);
            frame[5] = 0x80;
            let good = reply(&header(&frame), Call::Batch, 3).unwrap();
            frame[at] ^= 1 << bit;
            match reply(&header(&frame), Call::Batch, 3) {
                // Status, a, b, time and the number of bytes that follow may be anything.
                Ok(bad) => prop_assert!(bad != good && !(8..16).contains(&at)),
                Err(fault) => prop_assert!(matches!(fault, Fault::Protocol(_))),
            }
        }
    }
}
