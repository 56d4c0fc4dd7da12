use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Rate, Selector, components, gids, record};
use crate::wire::attr::{Mtu, PKey};
use crate::wire::bits::bits;
use crate::wire::codes::bit_mask;

bit_mask! {
    /// The membership of a port in a multicast group (IBA 15.2.5.17); 4 bits.
    JoinState(u8) {
        /// The member sends to the group and receives from it, and keeps the group in existence.
        FULL_MEMBER = 0x1 "full",
        /// The member sends to the group and receives from it.
        NON_MEMBER = 0x2 "non-member",
        /// The member sends to the group.
        SEND_ONLY_NON_MEMBER = 0x4 "send-only non-member",
        /// The member sends to the group, and keeps the group in existence.
        SEND_ONLY_FULL_MEMBER = 0x8 "send-only full",
    }
}

/// MCMemberRecord (IBA 15.2.5.17): a multicast group, or the membership of a port in a group.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  MGID
///   16  PortGID
///   32  Q_Key
///   36  MLID                              |MS | MTU         | TClass
///   40  P_Key                             |RS | Rate        |LS | PktLifeTime
///   44  SL    | FlowLabel                                   | HopLimit
///   48  Scope | JoinSt  |X| - to byte 55
/// ```
///
/// X is ProxyJoin, and MS, RS and LS are the selectors of MTU, rate and packet life time.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct McMemberRecord {
    mgid: [u8; 16],
    port_gid: [u8; 16],
    q_key: U32,
    mlid: U16,
    mtu: u8,
    t_class: u8,
    p_key: U16,
    rate: u8,
    packet_life_time: u8,
    sl_flow_hop: U32,
    scope_and_join_state: u8,
    proxy: u8,
    reserved: [u8; 6],
}

record!(McMemberRecord, 0x0038, "MCMemberRecord");

bits! { McMemberRecord {
    /// The Q_Key of the group's packets.
    q_key, set_q_key: u32 = q_key;
    /// The multicast LID of the group.
    mlid, set_mlid: Lid = mlid;
    /// How the MTU of the group must compare with the MTU of a request.
    mtu_selector, set_mtu_selector: Selector = mtu[7, 6];
    /// The largest payload in the group.
    mtu, set_mtu: Mtu = mtu[5, 0];
    /// The TClass of the global route header.
    t_class, set_t_class: u8 = t_class;
    /// The partition of the group.
    p_key, set_p_key: PKey = p_key;
    /// How the rate of the group must compare with the rate of a request.
    rate_selector, set_rate_selector: Selector = rate[7, 6];
    /// The rate of the group.
    rate, set_rate: Rate = rate[5, 0];
    /// How the packet life time of the group must compare with the packet life time of a request.
    packet_life_time_selector, set_packet_life_time_selector: Selector = packet_life_time[7, 6];
    /// The maximum time that a packet needs to its destination: 4.096 µs × 2^value.
    packet_life_time, set_packet_life_time: u8 = packet_life_time[5, 0];
    /// The service level of the group; 0 to 15.
    sl, set_sl: u8 = sl_flow_hop[31, 28];
    /// The FlowLabel of the global route header; 20 bits.
    flow_label, set_flow_label: u32 = sl_flow_hop[27, 8];
    /// The HopLimit of the global route header.
    hop_limit, set_hop_limit: u8 = sl_flow_hop[7, 0];
    /// The scope of the group, as in the MGID; 4 bits.
    scope, set_scope: u8 = scope_and_join_state[7, 4];
    /// The membership of the port.
    join_state, set_join_state: JoinState = scope_and_join_state[3, 0];
    /// Whether another port joined the group for this port.
    proxy_join, set_proxy_join: bool = proxy[7, 7];
} }

gids! { McMemberRecord {
    /// The MGID of the group.
    mgid, set_mgid = mgid;
    /// The member port.
    port_gid, set_port_gid = port_gid;
} }

components! { McMemberRecord {
    0 MGID = "MGID" at 0, 128;
    1 PORT_GID = "PortGID" at 128, 128;
    2 Q_KEY = "Q_Key" at 256, 32;
    3 MLID = "MLID" at 288, 16;
    4 MTU_SELECTOR = "MtuSelector" at 304, 2;
    5 MTU = "Mtu" at 306, 6;
    6 T_CLASS = "TClass" at 312, 8;
    7 P_KEY = "P_Key" at 320, 16;
    8 RATE_SELECTOR = "RateSelector" at 336, 2;
    9 RATE = "Rate" at 338, 6;
    10 PACKET_LIFE_TIME_SELECTOR = "PacketLifeTimeSelector" at 344, 2;
    11 PACKET_LIFE_TIME = "PacketLifeTime" at 346, 6;
    12 SL = "SL" at 352, 4;
    13 FLOW_LABEL = "FlowLabel" at 356, 20;
    14 HOP_LIMIT = "HopLimit" at 376, 8;
    15 SCOPE = "Scope" at 384, 4;
    16 JOIN_STATE = "JoinState" at 388, 4;
    17 PROXY_JOIN = "ProxyJoin" at 392, 1;
} }
