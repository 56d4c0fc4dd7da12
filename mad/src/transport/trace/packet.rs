use rsm_ids::Lid;

use crate::transport::Datagram;
use crate::wire::MAD_LEN;
use crate::wire::header::MadHeader;

/// The direction of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The local port received the datagram.
    Inbound,
    /// The local port sent the datagram.
    Outbound,
}

/// The lengths in bytes of the headers and check sums of a packet (IBA 5.2).
const LRH_LEN: usize = 8;
const BTH_LEN: usize = 12;
const DETH_LEN: usize = 8;
const ICRC_LEN: usize = 4;
const VCRC_LEN: usize = 2;

/// The length in bytes of the packet that carries a datagram, from its local route header to its
/// last check sum.
pub(super) const PACKET_LEN: usize = LRH_LEN + BTH_LEN + DETH_LEN + MAD_LEN + ICRC_LEN + VCRC_LEN;

/// The value of LNH for a packet with a base transport header and without a global route header.
const NEXT_IS_BTH: u8 = 2;
/// The VL of subnet management, 15.
const VL15: u8 = 15;
/// The operation code of the base transport header for "unreliable datagram, send only".
const OPCODE_UD_SEND_ONLY: u8 = 0x64;
/// The P_Key of the default partition, because the device does not report the packet's P_Key.
const DEFAULT_PKEY: u16 = 0xFFFF;

/// The packet that carries `datagram` on the wire (IBA 5.2, 7.7, 9.2, 9.3). Unknown fields have
/// fixed values: the default partition key, and zero for the packet sequence number and both check
/// sums.
pub(super) fn packet(
    direction: Direction,
    datagram: &Datagram,
    local_lid: Lid,
) -> [u8; PACKET_LEN] {
    let remote = &datagram.remote;
    let is_smp = MadHeader::of(&datagram.mad).class().is_subnet_management();
    // Directed-route datagrams have the permissive LID at both ends.
    let local_lid = match remote.lid {
        Lid::PERMISSIVE => Lid::PERMISSIVE,
        _ => Lid(local_lid.0 | u16::from(remote.path_bits)),
    };
    let (source, destination) = match direction {
        Direction::Inbound => (remote.lid, local_lid),
        Direction::Outbound => (local_lid, remote.lid),
    };
    // Both ends of an SMP are QP 0. The local end of any other datagram is QP 1.
    let local_qp = u32::from(!is_smp);
    let (source_qp, destination_qp) = match direction {
        Direction::Inbound => (remote.qpn, local_qp),
        Direction::Outbound => (local_qp, remote.qpn),
    };
    let virtual_lane = if is_smp { VL15 } else { 0 };
    // The length is in words of 4 bytes, up to the invariant check sum.
    let words = ((PACKET_LEN - VCRC_LEN) / 4) as u16;

    let mut bytes = [0; PACKET_LEN];
    bytes[0] = virtual_lane << 4;
    bytes[1] = (remote.sl & 0xF) << 4 | NEXT_IS_BTH;
    bytes[2..4].copy_from_slice(&destination.0.to_be_bytes());
    bytes[4..6].copy_from_slice(&words.to_be_bytes());
    bytes[6..8].copy_from_slice(&source.0.to_be_bytes());
    bytes[8] = OPCODE_UD_SEND_ONLY;
    bytes[10..12].copy_from_slice(&DEFAULT_PKEY.to_be_bytes());
    bytes[12..16].copy_from_slice(&(destination_qp & 0xFF_FFFF).to_be_bytes());
    bytes[20..24].copy_from_slice(&remote.qkey.to_be_bytes());
    bytes[24..28].copy_from_slice(&(source_qp & 0xFF_FFFF).to_be_bytes());
    bytes[28..28 + MAD_LEN].copy_from_slice(&datagram.mad);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{DirectedPath, Tid};
    use crate::transport::RemoteAddress;
    use crate::wire::header::{AttrId, Class, Method};
    use crate::wire::smp::{Smp, SmpRequest};

    fn smp() -> Smp {
        Smp::directed(
            &DirectedPath::new(),
            &SmpRequest {
                method: Method::GET,
                attribute: AttrId::NODE_INFO,
                modifier: 0,
                tid: Tid(1),
                m_key: 0,
                data: [0; 64],
            },
        )
    }

    #[test]
    fn a_directed_packet_has_every_byte_as_specified() {
        let datagram = Datagram {
            mad: *smp().as_bytes(),
            remote: RemoteAddress::directed(),
        };
        let bytes = packet(Direction::Outbound, &datagram, Lid(9));
        let lrh = [0xF0, 0x02, 0xFF, 0xFF, 0x00, 72, 0xFF, 0xFF];
        let bth = [0x64, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes[..8], lrh);
        assert_eq!(bytes[8..20], bth);
        assert_eq!(bytes[20..28], [0; 8]);
        assert_eq!(bytes[28..284], datagram.mad);
        assert_eq!(bytes.len(), 290);
    }

    #[test]
    fn source_and_destination_follow_the_direction() {
        let mut smp = smp();
        smp.header_mut().set_class(Class::SUBNET_ADMINISTRATION);
        let datagram = Datagram {
            mad: *smp.as_bytes(),
            remote: RemoteAddress {
                qpn: 0x123456,
                path_bits: 1,
                ..RemoteAddress::gsi(Lid(0x0304), 5)
            },
        };
        let bytes = packet(Direction::Inbound, &datagram, Lid(8));
        assert_eq!(bytes[..8], [0x00, 0x52, 0, 9, 0, 72, 3, 4]);
        assert_eq!(bytes[12..16], [0, 0, 0, 1]);
        assert_eq!(bytes[20..28], [0x80, 0x01, 0, 0, 0, 0x12, 0x34, 0x56]);
        let bytes = packet(Direction::Outbound, &datagram, Lid(8));
        assert_eq!(bytes[2..8], [3, 4, 0, 72, 0, 9]);
        assert_eq!(bytes[12..16], [0, 0x12, 0x34, 0x56]);
        assert_eq!(bytes[24..28], [0, 0, 0, 1]);
    }
}
