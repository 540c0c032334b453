// SPDX-License-Identifier: GPL-2.0-only
//! Frames of the controller's socket protocol, version 1, which
//! gem5-backend/PROTOCOL.md documents. Bytes to values and back; no I/O.

use crate::{
    interface::{batch_record, demand_record, header, op, protocol, status},
    registers::{Access, Demand, Fault, Op},
};

/// The longest frame (bytes), header included.
const FRAME_MAX: usize = protocol::FRAME_BYTES_MAX as usize;
const REPLY: u16 = protocol::REPLY_BIT as u16;

/// The most accesses that one frame carries.
pub const BATCH_MAX: usize = (FRAME_MAX - header::BYTES) / batch_record::BYTES;
/// The most demands that the agent sends in one frame. A server knows no more
/// ids with a demand.
pub const DEMANDS_MAX: usize = 256;

/// Operations of the protocol that the agent uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Call {
    /// Opens the connection, with the role of the writer.
    Hello = op::HELLO,
    /// Many register accesses at one simulated time.
    Batch = op::BATCH,
    /// Advances simulated time.
    Advance = op::ADVANCE,
    /// Asks for synthetic traffic.
    Demand = op::DEMAND,
}

/// A reply without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Bytes of the payload that follows.
    pub payload_bytes: usize,
    /// `status::OK`, or why the request was refused.
    pub status: u16,
    /// First value.
    pub a: u64,
    /// Second value.
    pub b: u64,
    /// Simulated time (ps).
    pub time_ps: u64,
}

/// The bytes of a request.
pub fn request(call: Call, tag: u32, a: u64, b: u64, payload: &[u8]) -> Vec<u8> {
    let length = header::BYTES + payload.len();
    let mut frame = Vec::with_capacity(length);
    frame.resize(header::BYTES, 0);
    header::LENGTH.set(&mut frame, length as u64);
    header::OP.set(&mut frame, call as u64);
    header::TAG.set(&mut frame, tag.into());
    header::A.set(&mut frame, a);
    header::B.set(&mut frame, b);
    frame.extend(payload);
    frame
}

/// Reads the header of the reply to a request.
///
/// # Errors
/// `Protocol` if the bytes are no reply to this request.
pub fn reply(bytes: &[u8; header::BYTES], call: Call, tag: u32) -> Result<Reply, Fault> {
    let violation = |what: String| Err(Fault::Protocol(what));
    let length = header::LENGTH.get(bytes) as usize;
    if !(header::BYTES..=FRAME_MAX).contains(&length) {
        return violation(format!("it sent a frame of {length} bytes"));
    }
    let status = header::STATUS.get(bytes) as u16;
    if status == status::MALFORMED {
        return violation("it calls our frames malformed".into());
    }
    let (op, their_tag) = (header::OP.get(bytes), header::TAG.get(bytes));
    let expected = u64::from(call as u16 | REPLY);
    if op != expected || their_tag != tag.into() || header::ZERO.get(bytes) != 0 {
        return violation(format!(
            "it sent operation {op:#x} with tag {their_tag} in reply to {:#x} with tag {tag}",
            call as u16
        ));
    }
    Ok(Reply {
        payload_bytes: length - header::BYTES,
        status,
        a: header::A.get(bytes),
        b: header::B.get(bytes),
        time_ps: header::TIME_PS.get(bytes),
    })
}

/// A status in words.
pub fn status_text(status: u16) -> String {
    let text = match status {
        status::BAD_ADDRESS => "no such register",
        status::READ_ONLY => "the register is read-only",
        status::BAD_VALUE => "the value is out of range",
        status::MALFORMED => "the frame is malformed",
        status::BAD_VERSION => "the server speaks another version of the protocol",
        status::BAD_OP => "no such operation",
        status::NOT_GREETED => "hello must come first",
        status::NOT_WRITER => "only the writer may do that",
        status::WRITER_TAKEN => "another agent is its writer; stop that agent first",
        status::WRONG_MODE => "not possible in the server's mode",
        status::FULL => "it has no place for another reader; end one of its viewers",
        _ => return format!("status {status}"),
    };
    text.into()
}

fn op_code(op: Op) -> u16 {
    match op {
        Op::Read => op::READ,
        Op::Write => op::WRITE,
        Op::Peek => op::PEEK,
    }
}

/// The payload of a batch, which has at most `BATCH_MAX` accesses.
pub fn batch(accesses: &[Access]) -> Vec<u8> {
    let mut payload = vec![0; accesses.len() * batch_record::BYTES];
    let records = payload.chunks_exact_mut(batch_record::BYTES);
    for (access, record) in accesses.iter().zip(records) {
        batch_record::OP.set(record, op_code(access.op).into());
        batch_record::OFFSET.set(record, access.offset);
        if access.op == Op::Write {
            batch_record::VALUE.set(record, access.value);
        }
    }
    payload
}

/// Fills in the values that a batch read, and marks the accesses that were done.
///
/// # Errors
/// `Protocol` if the reply belongs to other accesses (then none is marked).
/// `Refused` for the first access that was refused.
pub fn batch_reply(accesses: &mut [Access], payload: &[u8]) -> Result<(), Fault> {
    let records = || payload.chunks_exact(batch_record::BYTES);
    let ours = payload.len() == accesses.len() * batch_record::BYTES
        && accesses.iter().zip(records()).all(|(access, record)| {
            batch_record::OP.get(record) == op_code(access.op).into()
                && batch_record::OFFSET.get(record) == access.offset
        });
    if !ours {
        return Err(Fault::Protocol("it answered another batch".into()));
    }
    let mut refused = None;
    for (access, record) in accesses.iter_mut().zip(records()) {
        let status = batch_record::STATUS.get(record) as u16;
        access.done = status == status::OK;
        if !access.done {
            refused.get_or_insert((access.offset, status));
        } else if access.op != Op::Write {
            access.value = batch_record::VALUE.get(record);
        }
    }
    refused.map_or(Ok(()), |(offset, status)| {
        let why = status_text(status);
        Err(Fault::Refused(format!(
            "access to register {offset:#x}: {why}"
        )))
    })
}

/// The payload of at most `DEMANDS_MAX` demands.
pub fn demands(demands: &[Demand]) -> Vec<u8> {
    let mut payload = vec![0; demands.len() * demand_record::BYTES];
    let records = payload.chunks_exact_mut(demand_record::BYTES);
    for (demand, record) in demands.iter().zip(records) {
        demand_record::SUBSTREAM.set(record, demand.id.into());
        demand_record::BYTES_PER_S.set(record, demand.bytes_per_s);
        demand_record::OUTSTANDING_LINES.set(record, demand.outstanding_lines.into());
        demand_record::WRITE_PERCENT.set(record, demand.write_percent.into());
        // Any seed of the addresses serves; a constant one makes runs repeatable.
        demand_record::SEED.set(record, demand.id.into());
    }
    payload
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(frame: &[u8]) -> [u8; header::BYTES] {
        frame[..header::BYTES].try_into().unwrap()
    }

    #[test]
    fn a_request_has_the_published_bytes() {
        let frame = request(Call::Batch, 7, 1, 2, &[9; 3]);
        assert_eq!(frame.len(), 43);
        assert_eq!(
            frame[..16],
            [43, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!((header::A.get(&frame), header::B.get(&frame)), (1, 2));
        assert_eq!(frame[32..], [0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9]);
    }

    #[test]
    fn a_full_batch_fits_a_frame() {
        let accesses = vec![Access::peek(0); BATCH_MAX];
        let frame = request(Call::Batch, 0, 0, 0, &batch(&accesses));
        assert!(frame.len() <= FRAME_MAX && frame.len() + batch_record::BYTES > FRAME_MAX);
        let all = vec![
            Demand {
                id: 9,
                bytes_per_s: 1,
                outstanding_lines: 1,
                write_percent: 0
            };
            DEMANDS_MAX
        ];
        assert!(header::BYTES + demands(&all).len() <= FRAME_MAX);
    }

    #[test]
    fn a_batch_reply_fills_in_values_up_to_the_refusal() {
        let mut accesses = [Access::read(8), Access::write(16, 5), Access::peek(24)];
        let mut payload = batch(&accesses);
        payload[16] = 77; // The value of the first.
        payload[2 * batch_record::BYTES + 2] = 1; // The status of the last.
        let error = batch_reply(&mut accesses, &payload).unwrap_err();
        assert_eq!(
            error,
            Fault::Refused("access to register 0x18: no such register".into())
        );
        let done = accesses.map(|access| (access.value, access.done));
        assert_eq!(done, [(77, true), (5, true), (0, false)]);
    }

    #[test]
    fn a_reply_to_another_batch_marks_no_access_done() {
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
    fn a_reply_to_another_request_is_refused() {
        let mut frame = request(Call::Advance, 3, 4, 5, &[]);
        assert!(reply(&head(&frame), Call::Advance, 3).is_err(), "a request");
        frame[5] = 0x80;
        frame[32] = 6;
        let good = reply(&head(&frame), Call::Advance, 3).unwrap();
        assert_eq!(
            (good.payload_bytes, good.a, good.b, good.time_ps),
            (0, 4, 5, 6)
        );
        assert!(reply(&head(&frame), Call::Advance, 4).is_err());
        assert!(reply(&head(&frame), Call::Batch, 3).is_err());
        // The server pushed an event.
        frame[5] = 0xc0;
        assert!(reply(&head(&frame), Call::Advance, 3).is_err());
    }

    proptest! {
        #[test]
        fn random_bytes_are_refused_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), header::BYTES),
            payload in prop::collection::vec(any::<u8>(), 0..200),
            tag: u32,
        ) {
            if let Ok(reply) = reply(&head(&bytes), Call::Batch, tag) {
                prop_assert!(reply.payload_bytes <= FRAME_MAX - header::BYTES);
            }
            let mut accesses = [Access::read(0x10000); 5];
            // Random bytes are the reply to this batch with probability 2^-400.
            prop_assert!(batch_reply(&mut accesses, &payload).is_err());
        }

        #[test]
        fn a_damaged_header_is_refused_or_differs_in_values_only(at in 0usize..header::BYTES, bit in 0u8..8) {
            let mut frame = request(Call::Batch, 3, 1, 2, &[]);
            frame[5] = 0x80;
            let good = reply(&head(&frame), Call::Batch, 3).unwrap();
            frame[at] ^= 1 << bit;
            match reply(&head(&frame), Call::Batch, 3) {
                // Status, a, b, time and the number of bytes that follow may be anything.
                Ok(bad) => prop_assert!(bad != good && !(8..16).contains(&at)),
                Err(fault) => prop_assert!(matches!(fault, Fault::Protocol(_))),
            }
        }
    }
}
