//! The kernel's interface for management datagrams, version 5 (`rdma/ib_user_mad.h`).
//!
//! Numbers have the byte order of the machine, except for the fields that are big-endian as in
//! packet headers.

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The version of the interface, which `/sys/class/infiniband_mad/abi_version` contains.
pub const ABI_VERSION: u32 = 5;

/// The maximum number of agents of an open device; agents are numbered from 0 (IB_UMAD_MAX_AGENTS).
pub const MAX_AGENTS: u32 = 32;

/// The header before a datagram in `read` and `write`: `struct ib_user_mad_hdr`.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UserMadHeader {
    /// The number of the agent on this open device.
    pub id: u32,
    /// 0 for a received datagram; an error number for a sent datagram that is returned to the
    /// program.
    pub status: u32,
    /// The time to wait for a response, in milliseconds; 0 if no response is expected.
    pub timeout_ms: u32,
    /// The number of times that the datagram is sent again if no response arrives.
    pub retries: u32,
    /// The length of header and message in bytes, as `read` fills it in.
    pub length: u32,
    /// The number of the remote queue pair.
    pub qpn: U32,
    /// The remote Q_Key; only used in `write`.
    pub qkey: U32,
    /// The remote LID.
    pub lid: U16,
    /// The service level, 0 to 15.
    pub sl: u8,
    /// The low bits of the source LID: the offset from the base LID of the port.
    pub path_bits: u8,
    /// Whether the datagram has a GRH; always 0 here.
    pub grh_present: u8,
    /// The GIDIndex field of the GRH.
    pub gid_index: u8,
    /// The HopLmt field of the GRH.
    pub hop_limit: u8,
    /// The TClass field of the GRH.
    pub traffic_class: u8,
    /// The remote GID of the GRH.
    pub gid: [u8; 16],
    /// The FlowLabel field of the GRH.
    pub flow_label: U32,
    /// The index of the P_Key in the port's table. The first field beyond [`OLD_HEADER_LEN`].
    pub pkey_index: u16,
    /// Reserved bytes.
    pub reserved: [u8; 6],
}

/// The length of [`UserMadHeader`] in bytes.
pub const HEADER_LEN: usize = size_of::<UserMadHeader>();

/// The length of the header in bytes for programs that did not enable P_Keys ([`ENABLE_PKEY`]), as
/// in `struct ib_user_mad_hdr_old`.
pub const OLD_HEADER_LEN: usize = 56;

const _: () = assert!(HEADER_LEN == 64);

/// The argument of [`REGISTER_AGENT`]: `struct ib_user_mad_reg_req`.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RegisterRequest {
    /// The number of the agent; the kernel sets it.
    pub id: u32,
    /// One bit for each method whose unsolicited datagrams the agent receives, in 64-bit words of
    /// the byte order of the machine.
    pub method_mask: [u8; 16],
    /// The number of the queue pair: 0 or 1.
    pub qpn: u8,
    /// The management class of the unsolicited datagrams that the agent receives; 0 if it receives
    /// none.
    pub mgmt_class: u8,
    /// The version of the class.
    pub mgmt_class_version: u8,
    /// The vendor, for classes 0x30 to 0x4F.
    pub oui: [u8; 3],
    /// 1 if the kernel does RMPP for the agent, else 0.
    pub rmpp_version: u8,
    /// Padding bytes.
    pub padding: u8,
}

const _: () = assert!(size_of::<RegisterRequest>() == 28);

/// The argument of [`REGISTER_AGENT2`]: `struct ib_user_mad_reg_req2`.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RegisterRequest2 {
    /// The number of the agent; the kernel sets it.
    pub id: u32,
    /// The number of the queue pair: 0 or 1.
    pub qpn: u32,
    /// The management class of the unsolicited datagrams that the agent receives; 0 if it receives
    /// none.
    pub mgmt_class: u8,
    /// The version of the class.
    pub mgmt_class_version: u8,
    /// Reserved; the kernel ignores it.
    pub res: u16,
    /// The flags: [`USER_RMPP`] or 0. If another flag is set, the request fails, and the kernel
    /// writes its known flags to this field.
    pub flags: u32,
    /// The methods, with the meaning of [`RegisterRequest::method_mask`].
    pub method_mask: [u8; 16],
    /// The vendor in 24 bits, for classes 0x30 to 0x4F.
    pub oui: u32,
    /// The RMPP version, with the meaning of [`RegisterRequest::rmpp_version`].
    pub rmpp_version: u8,
    /// Reserved bytes.
    pub reserved: [u8; 3],
}

const _: () = assert!(size_of::<RegisterRequest2>() == 40);

/// The flag of an agent whose program does RMPP itself although it registers an RMPP version.
pub const USER_RMPP: u32 = 1;

/// The number of a request of `ioctl`, composed of the direction, the length of the argument, the
/// letter of the subsystem and a number.
const fn request(direction: u32, len: usize, number: u32) -> u32 {
    direction << 30 | (len as u32) << 16 | 0x1B << 8 | number
}
/// The direction of a request without an argument.
const NOTHING: u32 = 0;
/// The direction of an argument that the kernel only reads.
const IN: u32 = 1;
/// The direction of an argument that the kernel reads and changes.
const IN_AND_OUT: u32 = 3;

/// The request that registers an agent (IB_USER_MAD_REGISTER_AGENT).
pub const REGISTER_AGENT: u32 = request(IN_AND_OUT, size_of::<RegisterRequest>(), 1);
/// The request that unregisters an agent (IB_USER_MAD_UNREGISTER_AGENT); its argument is the number
/// of the agent.
pub const UNREGISTER_AGENT: u32 = request(IN, size_of::<u32>(), 2);
/// The request that enables P_Keys in headers (IB_USER_MAD_ENABLE_PKEY); it has no argument.
pub const ENABLE_PKEY: u32 = request(NOTHING, 0, 3);
/// The request that registers an agent with flags (IB_USER_MAD_REGISTER_AGENT2).
pub const REGISTER_AGENT2: u32 = request(IN_AND_OUT, size_of::<RegisterRequest2>(), 4);

/// The length of the argument of a request in bytes; `None` for requests without a constant here.
pub const fn argument_len(request: u32) -> Option<usize> {
    match request {
        REGISTER_AGENT | REGISTER_AGENT2 | UNREGISTER_AGENT | ENABLE_PKEY => {
            Some((request >> 16 & 0x3FFF) as usize)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ioctl_numbers_match_the_kernel_header() {
        assert_eq!(REGISTER_AGENT, 0xC01C_1B01);
        assert_eq!(UNREGISTER_AGENT, 0x4004_1B02);
        assert_eq!(ENABLE_PKEY, 0x1B03);
        assert_eq!(REGISTER_AGENT2, 0xC028_1B04);
        assert_eq!(argument_len(REGISTER_AGENT2), Some(40));
        assert_eq!(argument_len(ENABLE_PKEY), Some(0));
        assert_eq!(argument_len(0x5401), None);
    }

    #[test]
    fn the_old_header_ends_where_p_keys_begin() {
        assert_eq!(
            std::mem::offset_of!(UserMadHeader, pkey_index),
            OLD_HEADER_LEN
        );
        assert_eq!(std::mem::offset_of!(UserMadHeader, gid), 36);
        assert_eq!(std::mem::offset_of!(RegisterRequest2, method_mask), 16);
        assert_eq!(std::mem::offset_of!(RegisterRequest, qpn), 20);
    }
}
