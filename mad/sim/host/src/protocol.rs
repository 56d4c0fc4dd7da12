//! The protocol between the shim and the server, over a Unix socket of type SEQPACKET.
//!
//! A connection begins with a [`Hello`] and its [`Answer`]. If the Hello opened a device, the
//! connection then is the open device: the shim sends [`Call`]s, the server [`Parcel`]s. Both ends
//! are on one machine, so numbers have the byte order of the machine.
//!
//! The length of a packet of a Unix socket is limited; the length of a message is not. A message
//! longer than [`MAX_INLINE`] therefore travels in a memory file with the packet. An announcement
//! precedes a message longer than [`SHORT`]: the shim reads a shorter message with one system call,
//! as a program reads it from a kernel, and leaves a longer message in the queue until the program
//! has room for it. The answer to an `ioctl` arrives on a socket of its own, which the call
//! carries, so that the answer neither waits behind parcels nor reaches another thread.

use rsm_mad::wire::MAD_LEN;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::abi::HEADER_LEN;

/// The version of this protocol; both ends state it.
pub const VERSION: u32 = 2;

/// The maximum length of the body of a packet in bytes, the message's header included: well below
/// the usual send buffer of a Unix socket, 208 KiB.
pub const MAX_INLINE: usize = 32 * 1024;

/// The maximum length in bytes of the body of a parcel without an announcement: a datagram with its
/// header. Programs pass a buffer of at least this length to every `read`.
pub const SHORT: usize = HEADER_LEN + MAD_LEN;

/// The maximum length of a packet in bytes.
pub const MAX_PACKET: usize = MAX_INLINE + 64;

/// The maximum length of a message in bytes, header included. A table of the paths between 16,384
/// nodes takes half of it, and 2 s on the simulated link.
pub const MAX_MESSAGE: usize = 256 * 1024 * 1024;

/// The maximum length of a node name in bytes; a node description has at most 64 bytes.
pub const MAX_NAME: usize = 128;

/// The name of the environment variable with the path of the server's socket. Without it the shim
/// is inactive.
pub const SOCKET_VARIABLE: &str = "RSM_SIM_SOCKET";
/// The name of the environment variable that names the node of the process, by its GUID or its
/// description. Without the variable the server chooses a node.
pub const NODE_VARIABLE: &str = "RSM_SIM_NODE";
/// The name of the environment variable with the number of the only port that the process sees.
/// Without it, the process sees all ports of the node.
pub const PORT_VARIABLE: &str = "RSM_SIM_PORT";
/// The name of the environment variable that `rsm sim run` sets: it tells the program that it runs
/// on a simulation and must not change anything of a real host. The shim does not read it.
pub const RUN_VARIABLE: &str = "RSM_SIM_RUN";

/// The value of [`Hello::port`] for every port of the node.
pub const ALL_PORTS: u32 = u32::MAX;

/// The first packet, from the shim. The name of the node follows; without a name, the server
/// chooses a node.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Hello {
    /// The version of the protocol: [`VERSION`].
    pub version: u32,
    /// The purpose of the connection: [`ASK_TREE`], [`OPEN_UMAD`] or [`OPEN_ISSM`].
    pub what: u32,
    /// The number of the device to open, as in `umad0`.
    pub device: u32,
    /// The only port that the process sees, or [`ALL_PORTS`].
    pub port: u32,
    /// 1 if `open` must not wait, else 0.
    pub nonblocking: u32,
}

/// The purpose of a connection that requests the sysfs of the node. The server updates that sysfs
/// before it answers with the path as the body.
pub const ASK_TREE: u32 = 0;
/// Opens a device for datagrams.
pub const OPEN_UMAD: u32 = 1;
/// Opens the device that sets IsSM while it is open.
pub const OPEN_ISSM: u32 = 2;

/// The result of a [`Hello`] or of an `ioctl`. The body that follows is the requested data or, for
/// a failed [`Hello`], the reason as text.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Answer {
    /// An error number, or 0 for success.
    pub errno: u32,
}

/// A packet from the shim on an open device; the body follows it.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Call {
    /// The kind of the call: [`WRITE`], or the request number of an `ioctl`.
    pub what: u32,
    /// The length of the body in bytes. A body longer than [`MAX_INLINE`] is in the memory file.
    pub len: u32,
}

/// The kind of a call whose body is the buffer of a `write`. No `ioctl` has this number.
pub const WRITE: u32 = 0;

/// A packet from the server on an open device: the result of one `read`. The body follows it.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Parcel {
    /// The length of the body in bytes. A body longer than [`MAX_INLINE`] is in the memory file,
    /// and the packet holds its first `min_buffer` bytes. The length 0 announces that the next
    /// parcel is longer than [`SHORT`].
    pub total: u32,
    /// The minimum length of the buffer of `read` in bytes. A `read` whose buffer has this length
    /// but is shorter than the body gets this many bytes and ENOSPC.
    pub min_buffer: u32,
}

impl Parcel {
    /// The parcel that announces a parcel longer than [`SHORT`].
    pub const ANNOUNCEMENT: Parcel = Parcel {
        total: 0,
        min_buffer: 0,
    };

    /// Whether the parcel only announces the next parcel.
    pub fn is_announcement(&self) -> bool {
        self.total == 0
    }
}

/// Splits a packet into the structure at its beginning and the body; `None` if it is too short for
/// the structure.
pub fn split<T: FromBytes>(packet: &[u8]) -> Option<(T, &[u8])> {
    T::read_from_prefix(packet).ok()
}
