//! Subnet management packets, LID-routed or directed-route (IBA 14.2.1).

use std::fmt;

use rsm_ids::{Lid, PortNum};
use zerocopy::byteorder::network_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{AttrId, BASE_VERSION, Class, MadHeader, Method, Status};
use super::{MAD_LEN, MadBytes, bits};
use crate::ids::{DirectedPath, Tid};

/// The length of an attribute in an SMP, in bytes (IBA 14.2.1).
pub const SMP_DATA_LEN: usize = 64;

/// The class version of subnet management (IBA 14.2.1).
pub const CLASS_VERSION: u8 = 1;

/// A subnet management packet, LID-routed or directed-route (IBA 14.2.1.1, 14.2.1.2).
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  BaseVersion     | MgmtClass       | ClassVersion    |R| Method
///    4  D| Status                         | HopPointer      | HopCount
///    8  TransactionID
///   16  AttributeID                       | reserved
///   20  AttributeModifier
///   24  M_Key
///   32  DrSLID                            | DrDLID
///   36  reserved, 28 bytes
///   64  SMP data, 64 bytes: the attribute
///  128  InitialPath, 64 bytes; entry 0 is not used
///  192  ReturnPath, 64 bytes; entry 0 is not used
/// ```
///
/// D, HopPointer, HopCount, DrSLID, DrDLID and the paths are reserved in LID-routed packets.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Smp {
    header: MadHeader,
    m_key: U64,
    dr_slid: U16,
    dr_dlid: U16,
    reserved: [u8; 28],
    data: [u8; SMP_DATA_LEN],
    initial_path: [u8; 64],
    return_path: [u8; 64],
}

const _: () = assert!(size_of::<Smp>() == MAD_LEN);

/// The content of a request, apart from its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmpRequest {
    /// The method, usually Get or Set.
    pub method: Method,
    /// The attribute of the request.
    pub attribute: AttrId,
    /// The attribute modifier; the attribute types in [`attr`](super::attr) have helpers that
    /// compute it.
    pub modifier: u32,
    /// The transaction identifier.
    pub tid: Tid,
    /// The management key that the target's port checks; 0 if the port has no key.
    pub m_key: u64,
    /// The attribute, or zeroes in a Get.
    pub data: [u8; SMP_DATA_LEN],
}

impl Smp {
    fn new(class: Class, request: &SmpRequest) -> Smp {
        let mut smp = <Smp as FromZeros>::new_zeroed();
        smp.header
            .set_base_version(BASE_VERSION)
            .set_class(class)
            .set_class_version(CLASS_VERSION)
            .set_method(request.method)
            .set_tid(request.tid)
            .set_attribute(request.attribute)
            .set_modifier(request.modifier);
        smp.set_m_key(request.m_key);
        smp.data = request.data;
        smp
    }

    /// A packet on the directed route `path`, with no LID-routed part at either end (IBA 14.2.2).
    pub fn directed(path: &DirectedPath, request: &SmpRequest) -> Smp {
        let mut smp = Smp::new(Class::SUBNET_DIRECTED, request);
        smp.set_dr_slid(Lid::PERMISSIVE)
            .set_dr_dlid(Lid::PERMISSIVE);
        smp.set_initial_path(path);
        smp
    }

    /// A packet that switches forward by their tables.
    pub fn lid_routed(request: &SmpRequest) -> Smp {
        Smp::new(Class::SUBNET_LID_ROUTED, request)
    }

    /// Views `bytes` as an SMP. The [class](MadHeader::class) shows whether the bytes are a subnet
    /// management packet at all.
    pub fn from_bytes(bytes: &MadBytes) -> &Smp {
        zerocopy::transmute_ref!(bytes)
    }

    /// The packet in `bytes`, mutable in place.
    pub fn from_bytes_mut(bytes: &mut MadBytes) -> &mut Smp {
        zerocopy::transmute_mut!(bytes)
    }

    /// The bytes of the packet.
    pub fn as_bytes(&self) -> &MadBytes {
        zerocopy::transmute_ref!(self)
    }

    /// The common header of all management datagrams.
    pub fn header(&self) -> &MadHeader {
        &self.header
    }

    /// The header, mutable in place.
    pub fn header_mut(&mut self) -> &mut MadHeader {
        &mut self.header
    }

    /// The attribute data.
    pub fn data(&self) -> &[u8; SMP_DATA_LEN] {
        &self.data
    }

    /// The attribute, mutable in place.
    pub fn data_mut(&mut self) -> &mut [u8; SMP_DATA_LEN] {
        &mut self.data
    }

    /// Whether the packet is a directed-route packet.
    pub fn is_directed(&self) -> bool {
        self.header.class() == Class::SUBNET_DIRECTED
    }

    /// Whether the packet is an answer: the R bit is set, or the method is TrapRepress.
    pub fn is_response(&self) -> bool {
        let method = self.header.method();
        method.is_response() || method == Method::TRAP_REPRESS
    }

    /// The status; in a directed-route packet its 15 bits, without D.
    pub fn status(&self) -> Status {
        let status = self.header.status();
        if self.is_directed() {
            status.without_direction()
        } else {
            status
        }
    }

    /// Sets [`Smp::status`]; D of a directed-route packet does not change.
    pub fn set_status(&mut self, status: Status) -> &mut Self {
        let new_status = if self.is_directed() {
            Status(status.without_direction().0 | self.direction_bit())
        } else {
            status
        };
        self.header.set_status(new_status);
        self
    }

    fn direction_bit(&self) -> u16 {
        self.header.status().0 & Status::DIRECTION_BIT
    }

    /// D: whether a directed-route packet is travelling back to the requester (IBA 14.2.1.2).
    pub fn is_returning(&self) -> bool {
        self.direction_bit() != 0
    }

    /// Sets the direction bit D.
    pub fn set_returning(&mut self, returning: bool) -> &mut Self {
        let status = self.header.status().without_direction();
        let direction = u16::from(returning) << 15;
        self.header.set_status(Status(status.0 | direction));
        self
    }

    /// The initial path of a directed-route packet, up to HopCount; at most 63 hops, which is what
    /// a packet can hold.
    pub fn path(&self) -> DirectedPath {
        let mut path = DirectedPath::new();
        for &port in self
            .initial_path
            .iter()
            .skip(1)
            .take(usize::from(self.hop_count()))
        {
            // A path can hold entries 1 to 63.
            if path.push(PortNum(port)).is_err() {
                break;
            }
        }
        path
    }

    /// Replaces the initial path and HopCount; HopPointer and the return path are set to zero.
    pub fn set_initial_path(&mut self, path: &DirectedPath) -> &mut Self {
        self.initial_path = [0; 64];
        self.return_path = [0; 64];
        for (slot, hop) in self.initial_path[1..].iter_mut().zip(path.hops()) {
            *slot = hop.0;
        }
        self.set_hop_pointer(0).set_hop_count(path.len() as u8)
    }

    /// HopPointer: the present entry of the path.
    pub fn hop_pointer(&self) -> u8 {
        self.header.class_specific().to_be_bytes()[0]
    }

    /// Sets [`Smp::hop_pointer`].
    pub fn set_hop_pointer(&mut self, value: u8) -> &mut Self {
        let [_, count] = self.header.class_specific().to_be_bytes();
        self.header
            .set_class_specific(u16::from_be_bytes([value, count]));
        self
    }

    /// HopCount: the number of used entries of the path. Valid up to 63; received packets may
    /// exceed it.
    pub fn hop_count(&self) -> u8 {
        self.header.class_specific().to_be_bytes()[1]
    }

    /// Sets [`Smp::hop_count`].
    pub fn set_hop_count(&mut self, value: u8) -> &mut Self {
        let [pointer, _] = self.header.class_specific().to_be_bytes();
        self.header
            .set_class_specific(u16::from_be_bytes([pointer, value]));
        self
    }

    /// The exit ports of the path to the target; entry 1 is the exit port of the requester, and
    /// entry 0 is not used.
    pub fn initial_path(&self) -> &[u8; 64] {
        &self.initial_path
    }

    /// The entry ports that nodes on the path recorded, which are the exit ports of the path back.
    pub fn return_path(&self) -> &[u8; 64] {
        &self.return_path
    }

    /// The return path, mutable in place.
    pub fn return_path_mut(&mut self) -> &mut [u8; 64] {
        &mut self.return_path
    }

    /// Changes a request in place into its response: the method becomes the method of the answer,
    /// the status becomes `status`, and D is set on a directed route. All other fields, HopPointer
    /// included, keep their values. A method without an answer gets the R bit.
    pub fn make_response(&mut self, status: Status) -> &mut Self {
        let method = self.header.method();
        let answer = method
            .response()
            .unwrap_or(Method(method.0 | Method::RESPONSE_BIT));
        self.header.set_method(answer);
        if self.is_directed() {
            self.set_returning(true);
        }
        self.set_status(status)
    }
}

bits! { Smp {
    /// The management key (IBA 14.2.4).
    m_key, set_m_key: u64 = m_key;
    /// The start of the LID-routed part before the directed part; the permissive LID without such a
    /// part.
    dr_slid, set_dr_slid: Lid = dr_slid;
    /// The end of the LID-routed part after the directed part; the permissive LID without such a
    /// part.
    dr_dlid, set_dr_dlid: Lid = dr_dlid;
} }

impl fmt::Debug for Smp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header.write_with(self.status(), f)?;
        if self.is_directed() {
            write!(f, " path {}", self.path())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> SmpRequest {
        SmpRequest {
            method: Method::GET,
            attribute: AttrId::NODE_INFO,
            modifier: 0x0102_0304,
            tid: Tid(0x1122_3344_5566_7788),
            m_key: 0xAABB_CCDD_EEFF_0011,
            data: [7; 64],
        }
    }

    #[test]
    fn a_directed_request_has_the_bytes_of_the_figure() {
        let path = DirectedPath::from_hops(&[PortNum(1), PortNum(36)]).unwrap();
        let smp = Smp::directed(&path, &request());
        let bytes = smp.as_bytes();
        let head = [
            0x01, 0x81, 0x01, 0x01, 0, 0, 0, 2, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0,
            0x11, 0, 0, 1, 2, 3, 4, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF, 0, 0x11, 0xFF, 0xFF, 0xFF,
            0xFF,
        ];
        assert_eq!(bytes[..36], head);
        assert_eq!(bytes[36..64], [0; 28]);
        assert_eq!(bytes[64..128], [7; 64]);
        assert_eq!(bytes[128..132], [0, 1, 36, 0]);
        assert!(bytes[132..].iter().all(|&byte| byte == 0));
        assert_eq!(smp.path(), path);
    }

    #[test]
    fn a_directed_response_has_d_beside_its_status() {
        let mut smp = Smp::directed(&DirectedPath::new(), &request());
        smp.make_response(Status::INVALID_FIELD);
        assert_eq!(smp.header().status(), Status(0x801C));
        assert_eq!(smp.status(), Status::INVALID_FIELD);
        assert_eq!(smp.header().method(), Method::GET_RESPONSE);
        assert!(smp.is_returning() && smp.is_response());
        smp.set_status(Status::OK);
        assert!(smp.is_returning() && smp.status().is_ok());
    }

    #[test]
    fn a_lid_routed_response_has_no_d() {
        let mut smp = Smp::lid_routed(&request());
        smp.make_response(Status::BUSY);
        assert_eq!(smp.header().status(), Status::BUSY);
    }

    #[test]
    fn a_hop_count_beyond_the_packet_is_clamped() {
        let mut smp = Smp::directed(&DirectedPath::new(), &request());
        smp.set_hop_count(255);
        assert_eq!(smp.path().len(), DirectedPath::MAX_HOPS);
    }
}
