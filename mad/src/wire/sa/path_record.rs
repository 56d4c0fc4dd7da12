use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ComponentMask, Rate, Selector, components, gids, record};
use crate::wire::attr::{Mtu, PKey};
use crate::wire::bits::bits;

/// PathRecord (IBA 15.2.5.16): a path from one port to another, or to a multicast group.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  ServiceID
///    8  DGID
///   24  SGID
///   40  DLID                              | SLID
///   44  W|- - -| FlowLabel                                  | HopLimit
///   48  TClass          |V| NumbPath      | P_Key
///   52  QoSClass                  | SL    |MS | MTU         |RS | Rate
///   56  LS | PktLifeTime| Preference      | - to byte 63
/// ```
///
/// W is RawTraffic, V Reversible, and MS, RS and LS are the selectors of MTU, rate and packet life
/// time.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PathRecord {
    service_id: U64,
    dgid: [u8; 16],
    sgid: [u8; 16],
    dlid: U16,
    slid: U16,
    raw_flow_hop: U32,
    t_class: u8,
    reversible_and_numb_path: u8,
    p_key: U16,
    qos_class_and_sl: U16,
    mtu: u8,
    rate: u8,
    packet_life_time: u8,
    preference: u8,
    reserved: [u8; 6],
}

record!(PathRecord, 0x0035, "PathRecord");

bits! { PathRecord {
    /// The ServiceID of the service that will use the path.
    service_id, set_service_id: u64 = service_id;
    /// The destination LID.
    dlid, set_dlid: Lid = dlid;
    /// The source LID.
    slid, set_slid: Lid = slid;
    /// Whether packets are raw packets, without an InfiniBand transport.
    raw_traffic, set_raw_traffic: bool = raw_flow_hop[31, 31];
    /// The FlowLabel of the global route header; 20 bits.
    flow_label, set_flow_label: u32 = raw_flow_hop[27, 8];
    /// The HopLimit of the global route header; packets with 0 or 1 do not leave the subnet.
    hop_limit, set_hop_limit: u8 = raw_flow_hop[7, 0];
    /// The TClass of the global route header.
    t_class, set_t_class: u8 = t_class;
    /// Whether packets can travel the path in the opposite direction, with source and destination
    /// exchanged.
    reversible, set_reversible: bool = reversible_and_numb_path[7, 7];
    /// The maximum number of paths in the response to a query; 0 to 127.
    numb_path, set_numb_path: u8 = reversible_and_numb_path[6, 0];
    /// The P_Key of a partition common to both ends.
    p_key, set_p_key: PKey = p_key;
    /// The QoS class; 12 bits.
    qos_class, set_qos_class: u16 = qos_class_and_sl[15, 4];
    /// The service level; 0 to 15.
    sl, set_sl: u8 = qos_class_and_sl[3, 0];
    /// How the MTU of the path must compare with the MTU of a query.
    mtu_selector, set_mtu_selector: Selector = mtu[7, 6];
    /// The largest payload that every link of the path accepts.
    mtu, set_mtu: Mtu = mtu[5, 0];
    /// How the rate of the path must compare with the rate of a query.
    rate_selector, set_rate_selector: Selector = rate[7, 6];
    /// The rate of the slowest link of the path.
    rate, set_rate: Rate = rate[5, 0];
    /// How the packet life time of the path must compare with the packet life time of a query.
    packet_life_time_selector, set_packet_life_time_selector: Selector = packet_life_time[7, 6];
    /// The maximum time that a packet takes to its destination: 4.096 µs × 2^value.
    packet_life_time, set_packet_life_time: u8 = packet_life_time[5, 0];
    /// The preference of the path: in a table with several paths, the lowest value marks the best
    /// path.
    preference, set_preference: u8 = preference;
} }

gids! { PathRecord {
    /// The GID of the destination port or multicast group.
    dgid, set_dgid = dgid;
    /// The GID of the source port.
    sgid, set_sgid = sgid;
} }

components! { PathRecord {
    0 SERVICE_ID_8_MSB = "ServiceID8MSB" at 0, 8;
    1 SERVICE_ID_56_LSB = "ServiceID56LSB" at 8, 56;
    2 DGID = "DGID" at 64, 128;
    3 SGID = "SGID" at 192, 128;
    4 DLID = "DLID" at 320, 16;
    5 SLID = "SLID" at 336, 16;
    6 RAW_TRAFFIC = "RawTraffic" at 352, 1;
    8 FLOW_LABEL = "FlowLabel" at 356, 20;
    9 HOP_LIMIT = "HopLimit" at 376, 8;
    10 T_CLASS = "TClass" at 384, 8;
    11 REVERSIBLE = "Reversible" at 392, 1;
    12 NUMB_PATH = "NumbPath" at 393, 7;
    13 P_KEY = "P_Key" at 400, 16;
    14 QOS_CLASS = "QoSClass" at 416, 12;
    15 SL = "SL" at 428, 4;
    16 MTU_SELECTOR = "MtuSelector" at 432, 2;
    17 MTU = "Mtu" at 434, 6;
    18 RATE_SELECTOR = "RateSelector" at 440, 2;
    19 RATE = "Rate" at 442, 6;
    20 PACKET_LIFE_TIME_SELECTOR = "PacketLifeTimeSelector" at 448, 2;
    21 PACKET_LIFE_TIME = "PacketLifeTime" at 450, 6;
    22 PREFERENCE = "Preference" at 456, 8;
} }

impl PathRecord {
    /// The components of both parts of the ServiceID.
    pub const SERVICE_ID: ComponentMask = Self::SERVICE_ID_8_MSB.with(Self::SERVICE_ID_56_LSB);
}
