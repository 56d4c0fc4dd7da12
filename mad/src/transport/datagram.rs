use std::fmt;

use rsm_ids::{Guid, Lid, PortNum};

use crate::ids::{Gid, Tid};
use crate::wire::MadBytes;
use crate::wire::attr::PortState;
use crate::wire::header::Class;

/// The Q_Key of QP 1, which every general-service agent uses (IBA 10.2.4).
pub const GENERAL_SERVICE_QKEY: u32 = 0x8001_0000;

/// A management datagram with the address of its remote end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// The 256 bytes on the wire.
    pub mad: MadBytes,
    /// The destination of an outgoing datagram, the source of an incoming one.
    pub remote: RemoteAddress,
}

impl fmt::Debug for Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} with {:?}",
            crate::wire::header::MadHeader::of(&self.mad),
            self.remote
        )
    }
}

/// The remote address in a datagram's packet headers (IBA 7.7, 9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    /// The LID; [`Lid::PERMISSIVE`] for directed-route datagrams, which carry their path inside.
    pub lid: Lid,
    /// The number of the queue pair, 24 bits: 0 for subnet management, 1 for general services.
    pub qpn: u32,
    /// The Q_Key; ignored for QP 0, which has no Q_Key.
    pub qkey: u32,
    /// The service level, 0 to 15; ignored for subnet management, which uses VL 15.
    pub sl: u8,
    /// The index of the partition key in the local port's P_Key table.
    pub pkey_index: u16,
    /// The offset of the local port's LID in use from its base LID, 0 to 127.
    pub path_bits: u8,
    /// The global route header; `None` if the packet has none. An answer to a packet with this
    /// header carries one too.
    pub grh: Option<Grh>,
}

/// The remote address in a global route header (IBA 8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grh {
    /// The GID of the other end.
    pub gid: Gid,
    /// The index of the local GID in use in the local port's GID table.
    pub gid_index: u8,
    /// The maximum number of routers on the path.
    pub hop_limit: u8,
    /// The traffic class.
    pub traffic_class: u8,
    /// The flow label, 20 bits.
    pub flow_label: u32,
}

impl RemoteAddress {
    /// The other end of a directed-route datagram.
    pub const fn directed() -> RemoteAddress {
        RemoteAddress::smi(Lid::PERMISSIVE)
    }

    /// The subnet management interface (QP 0) of the port that holds `lid`.
    pub const fn smi(lid: Lid) -> RemoteAddress {
        RemoteAddress {
            lid,
            qpn: 0,
            qkey: 0,
            sl: 0,
            pkey_index: 0,
            path_bits: 0,
            grh: None,
        }
    }

    /// The general service interface (QP 1) of the port that holds `lid`, on service level `sl`.
    pub const fn gsi(lid: Lid, sl: u8) -> RemoteAddress {
        RemoteAddress {
            lid,
            qpn: 1,
            qkey: GENERAL_SERVICE_QKEY,
            sl,
            pkey_index: 0,
            path_bits: 0,
            grh: None,
        }
    }
}

/// An event that a transport delivers to its [`Sink`](super::Sink).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are datagrams; a box each would cost more than the copy"
)]
pub enum Inbound {
    /// A datagram arrived: a response or an unsolicited datagram.
    Mad(Datagram),
    /// The transport gave up on a request.
    SendFailed {
        /// The class of the request.
        class: Class,
        /// The transaction of the request. Match on [`Tid::low`].
        tid: Tid,
        /// The reason.
        kind: SendFailure,
    },
    /// An event of the local port.
    Port(PortEvent),
}

/// The reason why a request that the transport accepted has no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendFailure {
    /// The timeout that was given with the request has passed.
    TimedOut,
    /// The kernel flushed the send queue: the port went down or the transport closed.
    Flushed,
    /// Any other error, with the error number of the operating system.
    Other(i32),
}

/// A change of the local port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortEvent {
    /// The link came up: the port left the state Down.
    Up,
    /// The link went down. The transport stays open; sends fail or time out until
    /// [`PortEvent::Up`].
    Down,
    /// The port changed from Armed or Active to Init without an observed Down in between: its link
    /// retrained, and the node at the other end may have been reset.
    Retrained,
    /// The device was removed. No datagram arrives until the transport has been reopened.
    Gone,
    /// The port's base LID or LMC changed.
    LidChanged,
    /// The LID or service level of the port's subnet manager (PortInfo) changed.
    SmChanged,
    /// The subnet manager asked clients to register again (IBA 14.4.11).
    ClientReregister,
    /// The port's P_Key table changed.
    PkeyChanged,
}

/// The local port of a transport, as last known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalPort {
    /// The name of the channel adapter, for example `mlx5_0` or `ibsim0`.
    pub ca: String,
    /// The number of the port on its node.
    pub port: PortNum,
    /// The node's GUID.
    pub node_guid: Guid,
    /// The port's GUID.
    pub port_guid: Guid,
    /// The base LID; [`Lid::NONE`] before a subnet manager assigned one.
    pub lid: Lid,
    /// The LID of the port's subnet manager (PortInfo); [`Lid::NONE`] before a manager has set it.
    pub sm_lid: Lid,
    /// The PortState of the link.
    pub state: PortState,
}
