use std::io::{self, Write};

use rsm_ids::Lid;

use super::packet::{Direction, PACKET_LEN, packet};
use crate::Time;
use crate::transport::Datagram;

/// The link type LINKTYPE_ERF: each packet has a header of the extensible record format.
/// LINKTYPE_INFINIBAND (247), without such a header, would suffice, but Wireshark (4.0) shows its
/// packets as plain bytes.
const LINKTYPE_ERF: u16 = 197;

const ERF_HEADER_LEN: usize = 16;
/// The type of a record that holds an InfiniBand packet from its local route header on.
const ERF_TYPE_INFINIBAND: u8 = 21;
/// The flag of a record that is as long as its packet.
const ERF_VARYING_LENGTH: u8 = 0x04;
const RECORD_LEN: usize = ERF_HEADER_LEN + PACKET_LEN;

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;
const LENGTH_UNKNOWN: u64 = u64::MAX;

const OPTION_END: u16 = 0;
const OPTION_APPLICATION: u16 = 4;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_PACKET_FLAGS: u16 = 2;

/// The resolution of times as a negative power of ten: nanoseconds.
const NANOSECONDS: u8 = 9;

/// Writes datagrams as a pcapng capture of InfiniBand packets, with times in nanoseconds.
///
/// Wireshark and tshark show the datagrams down to the fields of SMPs. Packet headers are built
/// from the remote address; checksums are zero.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
    block: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a capture with one interface, whose name is `interface`, for example `mlx5_0:1`.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn new(out: W, interface: &str) -> io::Result<PcapngWriter<W>> {
        let mut writer = PcapngWriter {
            out,
            block: Vec::with_capacity(RECORD_LEN + 64),
        };
        writer.block.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        // The version of the format is 1.0.
        writer.block.extend(1_u16.to_le_bytes());
        writer.block.extend(0_u16.to_le_bytes());
        writer.block.extend(LENGTH_UNKNOWN.to_le_bytes());
        writer.option(OPTION_APPLICATION, b"rsm");
        writer.option(OPTION_END, &[]);
        writer.end_block(SECTION_HEADER)?;

        writer.block.extend(LINKTYPE_ERF.to_le_bytes());
        writer.block.extend(0_u16.to_le_bytes());
        // The length of captured packets is not limited.
        writer.block.extend(0_u32.to_le_bytes());
        writer.option(OPTION_INTERFACE_NAME, interface.as_bytes());
        writer.option(OPTION_TIME_RESOLUTION, &[NANOSECONDS]);
        writer.option(OPTION_END, &[]);
        writer.end_block(INTERFACE_DESCRIPTION)?;
        writer.out.flush()?;
        Ok(writer)
    }

    /// Adds a datagram that was sent or received at `at`, which readers take as the time since
    /// 1970. `local_lid` is the local port's base LID.
    ///
    /// # Errors
    /// The errors of the output; the capture then ends with an incomplete packet.
    pub fn write(
        &mut self,
        at: Time,
        direction: Direction,
        datagram: &Datagram,
        local_lid: Lid,
    ) -> io::Result<()> {
        let packet = packet(direction, datagram, local_lid);
        let nanos = at.as_nanos();
        // The block describes the first interface.
        self.block.extend(0_u32.to_le_bytes());
        self.block.extend(((nanos >> 32) as u32).to_le_bytes());
        self.block.extend((nanos as u32).to_le_bytes());
        self.block.extend((RECORD_LEN as u32).to_le_bytes());
        self.block.extend((RECORD_LEN as u32).to_le_bytes());
        self.block.extend(erf_header(at));
        self.block.extend(packet);
        self.pad();
        let flags: u32 = match direction {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        self.option(OPTION_PACKET_FLAGS, &flags.to_le_bytes());
        self.option(OPTION_END, &[]);
        self.end_block(ENHANCED_PACKET)
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// The errors of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    pub(super) fn boxed(self) -> PcapngWriter<Box<dyn Write + Send>>
    where
        W: Send + 'static,
    {
        PcapngWriter {
            out: Box::new(self.out),
            block: self.block,
        }
    }

    /// Returns the output.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Adds an option to the body of the block.
    fn option(&mut self, code: u16, value: &[u8]) {
        // Names of interfaces are short; a longer name is cut to the maximum of the length field.
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.block.extend(code.to_le_bytes());
        self.block.extend(length.to_le_bytes());
        self.block.extend(&value[..usize::from(length)]);
        self.pad();
    }

    /// Fills the body with zeroes up to a multiple of four bytes.
    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Writes the collected body as a block, with the length before and after the body.
    fn end_block(&mut self, kind: u32) -> io::Result<()> {
        const FRAME_LEN: usize = 12;
        let length = ((self.block.len() + FRAME_LEN) as u32).to_le_bytes();
        let result = self
            .out
            .write_all(&kind.to_le_bytes())
            .and_then(|()| self.out.write_all(&length))
            .and_then(|()| self.out.write_all(&self.block))
            .and_then(|()| self.out.write_all(&length));
        self.block.clear();
        result
    }
}

/// The header before a packet. The time is little-endian: 32 bits of seconds, and 32 bits of the
/// fraction of a second. All other fields are big-endian.
fn erf_header(at: Time) -> [u8; ERF_HEADER_LEN] {
    const NANOS_PER_SECOND: u64 = 1_000_000_000;
    let nanos = at.as_nanos();
    let fraction = ((nanos % NANOS_PER_SECOND) << 32) / NANOS_PER_SECOND;
    // The seconds since 1970 fit into 32 bits until 2106.
    let time = (nanos / NANOS_PER_SECOND) << 32 | fraction;
    let mut header = [0; ERF_HEADER_LEN];
    header[..8].copy_from_slice(&time.to_le_bytes());
    header[8] = ERF_TYPE_INFINIBAND;
    header[9] = ERF_VARYING_LENGTH;
    header[10..12].copy_from_slice(&(RECORD_LEN as u16).to_be_bytes());
    header[14..16].copy_from_slice(&(PACKET_LEN as u16).to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::RemoteAddress;

    /// Splits a capture into blocks, checking their frames.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let length = word(&bytes[4..]) as usize;
            assert_eq!(length % 4, 0);
            assert_eq!(word(&bytes[length - 4..]) as usize, length);
            blocks.push((word(bytes), &bytes[8..length - 4]));
            bytes = &bytes[length..];
        }
        blocks
    }

    #[test]
    fn a_capture_is_a_header_an_interface_and_packets() {
        let mut writer = PcapngWriter::new(Vec::new(), "mlx5_0:1").unwrap();
        let datagram = Datagram {
            mad: [7; 256],
            remote: RemoteAddress::smi(Lid(3)),
        };
        let at = Time::from_nanos(0x1_0000_0002);
        writer
            .write(at, Direction::Outbound, &datagram, Lid(1))
            .unwrap();
        writer
            .write(at, Direction::Inbound, &datagram, Lid(1))
            .unwrap();
        let capture = writer.into_inner();
        let blocks = blocks(&capture);
        let kinds: Vec<u32> = blocks.iter().map(|&(kind, _)| kind).collect();
        let expected = [
            SECTION_HEADER,
            INTERFACE_DESCRIPTION,
            ENHANCED_PACKET,
            ENHANCED_PACKET,
        ];
        assert_eq!(kinds, expected);
        let packet = blocks[2].1;
        assert_eq!(packet[4..12], [1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(packet[12..16], 306_u32.to_le_bytes());
        let record = &packet[20..];
        assert_eq!(record[16 + 28..16 + 284], [7; 256]);
        // The padding ends at byte 308, and the flags follow.
        assert_eq!(record[308..][..8], [2, 0, 4, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn a_record_header_has_binary_fractions_of_seconds() {
        let header = erf_header(Time::from_nanos(3_500_000_000));
        assert_eq!(header[..8], [0, 0, 0, 0x80, 3, 0, 0, 0]);
        assert_eq!(header[8..], [21, 4, 1, 50, 0, 0, 1, 34]);
    }
}
