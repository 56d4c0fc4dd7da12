use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Rate, Selector, components, record};
use crate::ids::Gid;
use crate::wire::attr::{Mtu, PKey};
use crate::wire::bits::bits;

/// MultiPathRecord (IBA 15.2.5.20): a query for paths from any of several source ports to any of
/// several destination ports. The GIDs follow this fixed part, sources first; the answer consists
/// of PathRecords.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  W|- - -| FlowLabel                                  | HopLimit
///    4  TClass          |V| NumbPath      | P_Key
///    8  QoSClass                  | SL    |MS | MTU         |RS | Rate
///   12  LS | PktLifeTime| ServiceID8MSB   |IS | - - - - - - | SGIDCount
///   16  DGIDCount       | ServiceID56LSB
///   24  SGIDCount + DGIDCount GIDs of 16 bytes
/// ```
///
/// W is RawTraffic, V Reversible, IS IndependenceSelector, and MS, RS and LS are the selectors of
/// MTU, rate and packet life time.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MultiPathRecord {
    raw_flow_hop: U32,
    t_class: u8,
    reversible_and_numb_path: u8,
    p_key: U16,
    qos_class_and_sl: U16,
    mtu: u8,
    rate: u8,
    packet_life_time: u8,
    service_id_msb: u8,
    independence: u8,
    sgid_count: u8,
    dgid_count: u8,
    service_id_lsb: [u8; 7],
}

record!(MultiPathRecord, 0x003A, "MultiPathRecord");

bits! { MultiPathRecord {
    /// Whether packets are raw packets, without an InfiniBand transport.
    raw_traffic, set_raw_traffic: bool = raw_flow_hop[31, 31];
    /// The FlowLabel of the global route header; 20 bits.
    flow_label, set_flow_label: u32 = raw_flow_hop[27, 8];
    /// The HopLimit of the global route header.
    hop_limit, set_hop_limit: u8 = raw_flow_hop[7, 0];
    /// The TClass of the global route header.
    t_class, set_t_class: u8 = t_class;
    /// Whether packets can travel the path in both directions.
    reversible, set_reversible: bool = reversible_and_numb_path[7, 7];
    /// The maximum number of paths; 0 to 127.
    numb_path, set_numb_path: u8 = reversible_and_numb_path[6, 0];
    /// The partition common to the ends.
    p_key, set_p_key: PKey = p_key;
    /// The QoS class; 12 bits.
    qos_class, set_qos_class: u16 = qos_class_and_sl[15, 4];
    /// The service level; 0 to 15.
    sl, set_sl: u8 = qos_class_and_sl[3, 0];
    /// How the MTU of a path must compare with the requested MTU.
    mtu_selector, set_mtu_selector: Selector = mtu[7, 6];
    /// The requested MTU.
    mtu, set_mtu: Mtu = mtu[5, 0];
    /// How the rate of a path must compare with the requested rate.
    rate_selector, set_rate_selector: Selector = rate[7, 6];
    /// The requested rate.
    rate, set_rate: Rate = rate[5, 0];
    /// How the packet life time of a path must compare with the requested packet life time.
    packet_life_time_selector, set_packet_life_time_selector: Selector = packet_life_time[7, 6];
    /// The requested packet life time: 4.096 µs × 2^value.
    packet_life_time, set_packet_life_time: u8 = packet_life_time[5, 0];
    /// The first byte of the ServiceID.
    service_id_8_msb, set_service_id_8_msb: u8 = service_id_msb;
    /// 1 if the paths should share as few links as possible; other values have no meaning.
    independence_selector, set_independence_selector: u8 = independence[7, 6];
    /// The number of sources.
    sgid_count, set_sgid_count: u8 = sgid_count;
    /// The number of destinations.
    dgid_count, set_dgid_count: u8 = dgid_count;
} }

components! { MultiPathRecord {
    0 RAW_TRAFFIC = "RawTraffic" at 0, 1;
    2 FLOW_LABEL = "FlowLabel" at 4, 20;
    3 HOP_LIMIT = "HopLimit" at 24, 8;
    4 T_CLASS = "TClass" at 32, 8;
    5 REVERSIBLE = "Reversible" at 40, 1;
    6 NUMB_PATH = "NumbPath" at 41, 7;
    7 P_KEY = "P_Key" at 48, 16;
    8 QOS_CLASS = "QoSClass" at 64, 12;
    9 SL = "SL" at 76, 4;
    10 MTU_SELECTOR = "MtuSelector" at 80, 2;
    11 MTU = "Mtu" at 82, 6;
    12 RATE_SELECTOR = "RateSelector" at 88, 2;
    13 RATE = "Rate" at 90, 6;
    14 PACKET_LIFE_TIME_SELECTOR = "PacketLifeTimeSelector" at 96, 2;
    15 PACKET_LIFE_TIME = "PacketLifeTime" at 98, 6;
    16 SERVICE_ID_8_MSB = "ServiceID8MSB" at 104, 8;
    17 INDEPENDENCE_SELECTOR = "IndependenceSelector" at 112, 2;
    19 SGID_COUNT = "SGIDCount" at 120, 8;
    20 DGID_COUNT = "DGIDCount" at 128, 8;
    21 SERVICE_ID_56_LSB = "ServiceID56LSB" at 136, 56;
} }

impl MultiPathRecord {
    const GID_LEN: usize = 16;

    /// The lower 56 bits of the ServiceID.
    pub fn service_id_56_lsb(&self) -> u64 {
        self.service_id_lsb
            .iter()
            .fold(0, |id, &byte| id << 8 | u64::from(byte))
    }

    /// Sets [`Self::service_id_56_lsb`]; the top byte of `id` is ignored.
    pub fn set_service_id_56_lsb(&mut self, id: u64) -> &mut Self {
        let [_, lower @ ..] = id.to_be_bytes();
        self.service_id_lsb = lower;
        self
    }

    /// The GIDs of sources and of destinations in `data`, which begins with this record; `None` if
    /// `data` is shorter than the counts require.
    pub fn gids<'a>(
        &self,
        data: &'a [u8],
    ) -> Option<(
        impl ExactSizeIterator<Item = Gid> + Clone + use<'a>,
        impl ExactSizeIterator<Item = Gid> + Clone + use<'a>,
    )> {
        let (sources, destinations) = (self.sgid_count().into(), self.dgid_count().into());
        let gids = data.get(size_of::<Self>()..)?;
        let (gids, _) = gids.as_chunks::<{ Self::GID_LEN }>();
        let (sgids, after_sgids) = gids.split_at_checked(sources)?;
        let (dgids, _) = after_sgids.split_at_checked(destinations)?;
        let read = |gid: &[u8; Self::GID_LEN]| Gid(u128::from_be_bytes(*gid));
        Some((sgids.iter().map(read), dgids.iter().map(read)))
    }
}
