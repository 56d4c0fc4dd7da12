//! The kernel's interface for management datagrams, version 5 (`rdma/ib_user_mad.h`).
//!
//! Numbers are native, except for the big-endian fields, as in packet headers.

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The content of `/sys/class/infiniband_mad/abi_version`.
pub const ABI_VERSION: u32 = 5;

/// How many agents an open device can have; they are numbered from 0 (IB_UMAD_MAX_AGENTS).
pub const MAX_AGENTS: u32 = 32;

/// The header before a datagram in `read` and `write`: `struct ib_user_mad_hdr`.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UserMadHeader {
    /// The number of the agent on this open device.
    pub id: u32,
    /// 0 for an arrival; an error number for a sent datagram that comes back.
    pub status: u32,
    /// How long to wait for a response, in milliseconds; 0 if none is expected.
    pub timeout_ms: u32,
    /// How often to resend without a response.
    pub retries: u32,
    /// In `read`, the length of header and message in bytes.
    pub length: u32,
    /// The remote queue pair.
    pub qpn: U32,
    /// The remote Q_Key; only used in `write`.
    pub qkey: U32,
    /// The remote LID.
    pub lid: U16,
    /// The service level.
    pub sl: u8,
    /// The port's own LID, as an offset from its base LID.
    pub path_bits: u8,
    /// Whether there is a GRH; never here.
    pub grh_present: u8,
    /// GIDIndex of the GRH.
    pub gid_index: u8,
    /// HopLmt of the GRH.
    pub hop_limit: u8,
    /// TClass of the GRH.
    pub traffic_class: u8,
    /// The remote GID of the GRH.
    pub gid: [u8; 16],
    /// FlowLabel of the GRH.
    pub flow_label: U32,
    /// The index of the P_Key in the port's table. The first field beyond [`OLD_HEADER_LEN`].
    pub pkey_index: u16,
    /// Reserved.
    pub reserved: [u8; 6],
}

/// The length of [`UserMadHeader`] in bytes.
pub const HEADER_LEN: usize = size_of::<UserMadHeader>();

/// Its length for programs that did not enable P_Keys ([`ENABLE_PKEY`]):
/// `struct ib_user_mad_hdr_old`.
pub const OLD_HEADER_LEN: usize = 56;

const _: () = assert!(HEADER_LEN == 64);

/// The argument of [`REGISTER_AGENT`]: `struct ib_user_mad_reg_req`.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RegisterRequest {
    /// Set by the kernel: the agent's number.
    pub id: u32,
    /// One bit for each method of unsolicited datagrams for the agent, in native words of 64 bits.
    pub method_mask: [u8; 16],
    /// 0 or 1.
    pub qpn: u8,
    /// 0 for an agent without unsolicited datagrams.
    pub mgmt_class: u8,
    /// The version of the class.
    pub mgmt_class_version: u8,
    /// The vendor, of classes 0x30 to 0x4F.
    pub oui: [u8; 3],
    /// 1 if the kernel does RMPP for the agent, else 0.
    pub rmpp_version: u8,
    /// Padding.
    pub padding: u8,
}

const _: () = assert!(size_of::<RegisterRequest>() == 28);

/// The argument of [`REGISTER_AGENT2`]: `struct ib_user_mad_reg_req2`.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RegisterRequest2 {
    /// Set by the kernel: the agent's number.
    pub id: u32,
    /// 0 or 1.
    pub qpn: u32,
    /// 0 for an agent without unsolicited datagrams.
    pub mgmt_class: u8,
    /// The version of the class.
    pub mgmt_class_version: u8,
    /// Ignored.
    pub res: u16,
    /// [`USER_RMPP`] or 0. For other flags the kernel fails and sets the flags it knows.
    pub flags: u32,
    /// As [`RegisterRequest::method_mask`].
    pub method_mask: [u8; 16],
    /// The vendor in 24 bits, of classes 0x30 to 0x4F.
    pub oui: u32,
    /// As [`RegisterRequest::rmpp_version`].
    pub rmpp_version: u8,
    /// Reserved.
    pub reserved: [u8; 3],
}

const _: () = assert!(size_of::<RegisterRequest2>() == 40);

/// The program does RMPP itself although it registers with a version.
pub const USER_RMPP: u32 = 1;

/// The requests of `ioctl`: direction, length of the argument, the letter of the subsystem, number.
const fn request(direction: u32, len: usize, number: u32) -> u32 {
    direction << 30 | (len as u32) << 16 | 0x1B << 8 | number
}
const NOTHING: u32 = 0;
const IN: u32 = 1;
const IN_AND_OUT: u32 = 3;

/// IB_USER_MAD_REGISTER_AGENT.
pub const REGISTER_AGENT: u32 = request(IN_AND_OUT, size_of::<RegisterRequest>(), 1);
/// IB_USER_MAD_UNREGISTER_AGENT; the argument is the agent's number.
pub const UNREGISTER_AGENT: u32 = request(IN, size_of::<u32>(), 2);
/// IB_USER_MAD_ENABLE_PKEY; there is no argument.
pub const ENABLE_PKEY: u32 = request(NOTHING, 0, 3);
/// IB_USER_MAD_REGISTER_AGENT2.
pub const REGISTER_AGENT2: u32 = request(IN_AND_OUT, size_of::<RegisterRequest2>(), 4);

/// The length of the argument of a request; `None` for other requests than the above.
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
