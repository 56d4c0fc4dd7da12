use std::fmt;

use rsm_ids::{Guid, Lid, PortNum};

use crate::ids::{Gid, Tid};
use crate::wire::MadBytes;
use crate::wire::attr::PortState;
use crate::wire::header::Class;

/// The Q_Key of QP 1 that every general-service agent listens with (IBA 10.2.4).
pub const GENERAL_SERVICE_QKEY: u32 = 0x8001_0000;

/// One management datagram and the other end it goes to or came from.
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

/// What a datagram's packet headers say about the other end (IBA 7.7, 9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    /// The LID; [`Lid::PERMISSIVE`] for directed-route datagrams, whose way is inside the datagram.
    pub lid: Lid,
    /// The queue pair: 0 for subnet management, 1 for general services, 24 bits.
    pub qpn: u32,
    /// The Q_Key; QP 0 has none and ignores it.
    pub qkey: u32,
    /// The service level, 0 to 15; subnet management ignores it, for it travels on VL 15.
    pub sl: u8,
    /// The index of the partition key in the local port's P_Key table.
    pub pkey_index: u16,
    /// Which of the local port's 2^LMC LIDs is used, as an offset from its base LID, 0 to 127.
    pub path_bits: u8,
    /// The global route header, where there is one: what arrived with one is answered with one.
    pub grh: Option<Grh>,
}

/// What a global route header says about the other end (IBA 8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grh {
    /// The GID of the other end.
    pub gid: Gid,
    /// The index of the GID in the local port's table that is used here.
    pub gid_index: u8,
    /// How many routers it may pass.
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

/// What a transport delivers to its [`Sink`](super::Sink).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are datagrams; a box each would cost more than the copy"
)]
pub enum Inbound {
    /// A datagram arrived: a response, or something nobody here asked for.
    Mad(Datagram),
    /// The transport gave up on a request it was asked to send.
    SendFailed {
        /// The class of the request.
        class: Class,
        /// The transaction of the request. Match on [`Tid::low`].
        tid: Tid,
        /// Why.
        kind: SendFailure,
    },
    /// Something happened to the local port.
    Port(PortEvent),
}

/// Why a request that the transport accepted has no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendFailure {
    /// The timeout given with the request passed.
    TimedOut,
    /// The send queue was emptied, because the port went down or the transport closed.
    Flushed,
    /// Anything else, as the operating system's error number.
    Other(i32),
}

/// What happened to the local port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortEvent {
    /// The link came up: the port left Down.
    Up,
    /// The link went down. The transport stays open; sends fail or time out until
    /// [`PortEvent::Up`].
    Down,
    /// The port fell back from Armed or Active to Init without having been seen Down: its link
    /// trained again between two looks at it, and the node at the other end may have been reset.
    Retrained,
    /// The device vanished. Nothing more arrives until the transport is opened again.
    Gone,
    /// The port's base LID or LMC changed.
    LidChanged,
    /// The LID or service level of the subnet manager that the port is told of changed.
    SmChanged,
    /// The subnet manager asked clients to register again (IBA 14.4.11).
    ClientReregister,
    /// The port's P_Key table changed.
    PkeyChanged,
}

/// The port that a transport sends from, as last known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalPort {
    /// The name of the channel adapter: `mlx5_0`, `ibsim0`.
    pub ca: String,
    /// The port's number on its node.
    pub port: PortNum,
    /// The node's GUID.
    pub node_guid: Guid,
    /// The port's GUID.
    pub port_guid: Guid,
    /// The base LID; [`Lid::NONE`] before a subnet manager assigned one.
    pub lid: Lid,
    /// The LID of the subnet manager that the port is told of; [`Lid::NONE`] before there was one.
    pub sm_lid: Lid,
    /// What the link lets through.
    pub state: PortState,
}
