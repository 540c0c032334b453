// SPDX-License-Identifier: GPL-2.0-only
//! The register map and the constants of the socket protocol. build.rs makes
//! them from gem5-backend/interface/registers.toml and protocol.toml, which say
//! what each is.

#![allow(missing_docs)]

include!(concat!(env!("OUT_DIR"), "/interface.rs"));

/// A little-endian unsigned field of a record of the protocol, at this offset.
#[derive(Clone, Copy, Debug)]
pub struct Field<const BYTES: usize>(pub usize);

impl<const BYTES: usize> Field<BYTES> {
    /// The field's value in a record, which must be long enough.
    pub fn get(self, record: &[u8]) -> u64 {
        let mut bytes = [0; 8];
        bytes[..BYTES].copy_from_slice(&record[self.0..self.0 + BYTES]);
        u64::from_le_bytes(bytes)
    }

    /// Sets the field in a record; the value must fit.
    pub fn set(self, record: &mut [u8], value: u64) {
        debug_assert!(
            BYTES == 8 || value >> (8 * BYTES) == 0,
            "{value} does not fit"
        );
        record[self.0..self.0 + BYTES].copy_from_slice(&value.to_le_bytes()[..BYTES]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 1 of the registers as its users have them. To change it takes
    /// another version, not another table.
    #[test]
    fn version_1_of_the_registers_keeps_its_map() {
        assert_eq!(
            (identity::VERSION, identity::ID),
            (1, 0x434d_2d51_4652_4400)
        );
        assert_eq!(identity::ID.to_le_bytes(), *b"\0DRFQ-MC");
        let first = [offset::ID, offset::VERSION, offset::PIDS, offset::CORES];
        assert_eq!(first, [0, 8, 16, 24]);
        assert_eq!((offset::TRAFFIC, offset::TRAFFIC_PEEK), (0x10000, 0x20000));
        let labels = [offset::VTIME_PID, offset::VTIME_CORE, offset::PID_CORE];
        assert_eq!(labels, [0x30000, 0x40000, 0x48000]);
        let limits = [limits::PIDS, limits::CORES_MAX, limits::BYTES];
        assert_eq!(limits, [8192, 4096, 0x50000]);
        let device = [
            virtual_machine::PCI_VENDOR,
            virtual_machine::PCI_DEVICE,
            virtual_machine::PCI_BAR,
        ];
        assert_eq!(device, [0x1af4, 0x1110, 2]);
        let registers = [mailbox::FEATURES, mailbox::FEATURE_BIT, mailbox::ADDRESS];
        assert_eq!((registers, mailbox::PAGES), ([0x20, 0, 0x50000], 64));
        let sizes = [mailbox::PAGE_BYTES, mailbox::LABEL_BYTES];
        let words = [
            mailbox::LABEL_VALID,
            mailbox::LABEL_PID,
            mailbox::LABEL_VTIME,
        ];
        assert_eq!((sizes, words), ([4096, 64], [0, 8, 16]));
    }

    #[test]
    fn version_1_of_the_protocol_keeps_its_numbers() {
        assert_eq!((protocol::VERSION, protocol::FRAME_BYTES_MAX), (1, 65536));
        assert_eq!((protocol::REPLY_BIT, protocol::EVENT_BIT), (0x8000, 0x4000));
        let ops = [
            op::HELLO,
            op::READ,
            op::WRITE,
            op::PEEK,
            op::BATCH,
            op::ADVANCE,
            op::DEMAND,
        ];
        assert_eq!(ops, [1, 2, 3, 4, 5, 6, 7]);
        let statuses = [
            status::OK,
            status::BAD_ADDRESS,
            status::READ_ONLY,
            status::BAD_VALUE,
            status::MALFORMED,
            status::BAD_VERSION,
            status::BAD_OP,
            status::NOT_GREETED,
            status::NOT_WRITER,
            status::WRITER_TAKEN,
            status::WRONG_MODE,
            status::FULL,
        ];
        assert_eq!(statuses, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!((role::READER, role::WRITER), (0, 1));
        assert_eq!(feature_bit::LOCK_STEP, 0);
        assert_eq!(protocol_limits::DEMAND_BYTES_PER_S_MAX, 1_000_000_000_000);
    }

    /// A record whose bytes count up, so that each field shows its place.
    #[test]
    fn version_1_of_the_protocol_keeps_its_records() {
        let bytes: Vec<u8> = (0..40).collect();
        let sizes = [header::BYTES, batch_record::BYTES, demand_record::BYTES];
        assert_eq!(sizes, [40, 24, 32]);
        assert_eq!(header::LENGTH.get(&bytes), 0x0302_0100);
        assert_eq!(header::OP.get(&bytes), 0x0504);
        assert_eq!(header::STATUS.get(&bytes), 0x0706);
        assert_eq!(header::TAG.get(&bytes), 0x0b0a_0908);
        assert_eq!(header::ZERO.get(&bytes), 0x0f0e_0d0c);
        assert_eq!(header::A.get(&bytes), 0x1716_1514_1312_1110);
        assert_eq!(header::B.get(&bytes), 0x1f1e_1d1c_1b1a_1918);
        assert_eq!(header::TIME_PS.get(&bytes), 0x2726_2524_2322_2120);
        assert_eq!(batch_record::OP.get(&bytes), 0x0100);
        assert_eq!(batch_record::STATUS.get(&bytes), 0x0302);
        assert_eq!(batch_record::ZERO.get(&bytes), 0x0706_0504);
        assert_eq!(batch_record::OFFSET.get(&bytes), 0x0f0e_0d0c_0b0a_0908);
        assert_eq!(batch_record::VALUE.get(&bytes), 0x1716_1514_1312_1110);
        assert_eq!(demand_record::SUBSTREAM.get(&bytes), 0x0302_0100);
        assert_eq!(demand_record::CORE.get(&bytes), 0x0706_0504);
        assert_eq!(
            demand_record::BYTES_PER_S.get(&bytes),
            0x0f0e_0d0c_0b0a_0908
        );
        assert_eq!(demand_record::OUTSTANDING_LINES.get(&bytes), 0x1312_1110);
        assert_eq!(demand_record::WRITE_PERCENT.get(&bytes), 0x1716_1514);
        assert_eq!(demand_record::SEED.get(&bytes), 0x1f1e_1d1c_1b1a_1918);
    }

    #[test]
    fn a_field_that_is_set_is_read_back_and_leaves_its_neighbours() {
        let mut record = [0xff; 24];
        batch_record::STATUS.set(&mut record, 0x1234);
        assert_eq!(batch_record::STATUS.get(&record), 0x1234);
        assert_eq!(record[..5], [0xff, 0xff, 0x34, 0x12, 0xff]);
    }
}
