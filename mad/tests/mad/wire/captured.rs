//! Tests with datagrams that libibmad and ibsim exchanged, in both directions.

use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_mad::ids::{DirectedPath, Tid};
use rsm_mad::wire::attr::*;
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_mad::wire::{MadBytes, dissect};

/// The bytes of hexadecimal `text`, padded with zeroes.
pub(crate) fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let mut out = [0; N];
    assert!(
        text.len() <= 2 * N && text.len().is_multiple_of(2),
        "{text}"
    );
    for (slot, position) in out.iter_mut().zip((0..text.len()).step_by(2)) {
        *slot = u8::from_str_radix(&text[position..position + 2], 16).unwrap();
    }
    out
}

/// The request of libibmad for PortInfo of port 3 of the switch one hop away.
const GET_PORT_INFO: &str = "0181010100000001000000123456701500150000800000030000000000000000\
    ffffffff00000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000\
    0001";

/// The answer of ibsim. The return path is cut after its first entries, because ibsim leaves
/// arbitrary bytes after them.
const PORT_INFO_RESPONSE: &str = "0181018180000001000000003456701500150000800000030000000000000000\
    ffffffff00000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000001021f02\
    74520011404000080804f2400000000000000000000000000000000000000000\
    0001000000000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000\
    0101";

/// The request of libibmad for PortInfo of port 3 of the switch two hops away.
const GET_PORT_INFO_TWO_HOPS: &str = "0181010100000002000000123456703500150000000000030000000000000000\
    ffffffff00000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000\
    000103";

/// The request of libibmad for NodeInfo, routed by LID.
const GET_NODE_INFO_BY_LID: &str = "010101010000000000000012345670390011";

/// The data bytes of other answers of ibsim, after OpenSM had configured the subnet.
mod data {
    /// The NodeInfo of a CA.
    pub(super) const NODE_INFO_OF_CA: &str = "0101010200000000001000000000000000100000000000000010000100400000\
    000000a101";
    /// The NodeInfo of a switch.
    pub(super) const NODE_INFO_OF_SWITCH: &str = "0101020800000000002000000000000000200000000000000020000000080000\
    000000a101";
    /// The NodeDescription of a switch.
    pub(super) const NODE_DESCRIPTION: &str = "53776974636831";
    /// The SwitchInfo of a switch.
    pub(super) const SWITCH_INFO: &str = "7800000004000006000000900000004030";
    /// The PortInfo of an active CA port.
    pub(super) const PORT_INFO_OF_CA: &str = "0000000000000000fe80000000000000000100010050c04800000ff901021f02\
    74520011404000080804e040000000000000201f00000000000000000030";
    /// The GUIDInfo of a CA.
    pub(super) const GUID_INFO: &str = "0000000000100001";
    /// The P_KeyTable of a CA.
    pub(super) const P_KEY_TABLE: &str = "ffff";
    /// An SLtoVLMappingTable.
    pub(super) const SL_TO_VL_MAPPING: &str = "0123456701234567";
    /// The lower half of high priority of a VLArbitrationTable.
    pub(super) const VL_ARBITRATION: &str = "000401000200030004000500060007";
    /// Block 0 of a LinearForwardingTable.
    pub(super) const LINEAR_FORWARDING_TABLE: &str = "ff010003030205ffffffffffffffffffffffffffffffffffffffffffffffffff\
    ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";
}

fn request(attribute: AttrId, modifier: u32, tid: u64) -> SmpRequest {
    SmpRequest {
        method: Method::GET,
        attribute,
        modifier,
        tid: Tid(tid),
        m_key: 0,
        data: [0; 64],
    }
}

#[test]
fn requests_have_the_same_bytes_as_requests_of_libibmad() {
    let one_hop = DirectedPath::from_hops(&[PortNum(1)]).unwrap();
    let modifier = PortInfo::modifier(PortNum(3), true);
    let get = request(AttrId::PORT_INFO, modifier, 0x12_3456_7015);
    let expected: MadBytes = bytes(GET_PORT_INFO);
    assert_eq!(Smp::directed(&one_hop, &get).as_bytes(), &expected);

    let two_hops = one_hop.child(PortNum(3)).unwrap();
    let modifier = PortInfo::modifier(PortNum(3), false);
    let get = request(AttrId::PORT_INFO, modifier, 0x12_3456_7035);
    let expected: MadBytes = bytes(GET_PORT_INFO_TWO_HOPS);
    assert_eq!(Smp::directed(&two_hops, &get).as_bytes(), &expected);
    assert_eq!(Smp::from_bytes(&expected).path(), two_hops);

    let get = request(AttrId::NODE_INFO, 0, 0x12_3456_7039);
    let expected: MadBytes = bytes(GET_NODE_INFO_BY_LID);
    assert_eq!(Smp::lid_routed(&get).as_bytes(), &expected);
}

#[test]
fn a_captured_response_reads_as_port_info() {
    let mad: MadBytes = bytes(PORT_INFO_RESPONSE);
    let smp = Smp::from_bytes(&mad);
    assert!(smp.is_directed() && smp.is_response() && smp.is_returning());
    assert!(smp.status().is_ok());
    assert_eq!(smp.header().method(), Method::GET_RESPONSE);
    assert_eq!(smp.header().attribute(), PortInfo::ID);
    assert_eq!(smp.path().hops(), [PortNum(1)]);
    // Like the Linux MAD layer, ibsim keeps only the low half of the transaction identifier.
    assert_eq!(smp.header().tid().low(), 0x3456_7015);

    let info = PortInfo::from_data(smp.data());
    assert_eq!(info.local_port_num(), PortNum(1));
    assert_eq!(info.port_physical_state(), PortPhysicalState::LinkUp);
    assert_eq!(info.link_width_active(), LinkWidths::X4);
}

/// Builds an attribute with setters and compares it with captured bytes; a failure prints both.
fn assert_builds<A: Attribute + std::fmt::Debug>(captured: &str, build: impl FnOnce(&mut A)) {
    let mut built = A::default();
    build(&mut built);
    let captured: [u8; 64] = bytes(captured);
    assert_eq!(
        built.as_data(),
        &captured,
        "built {built:?}, captured {:?}",
        A::from_data(&captured)
    );
}

#[test]
fn setters_build_the_captured_node_info() {
    assert_builds(data::NODE_INFO_OF_CA, |info: &mut NodeInfo| {
        info.set_base_version(1)
            .set_class_version(1)
            .set_node_type(NodeType::Ca)
            .set_num_ports(2)
            .set_system_image_guid(Guid(0x0010_0000))
            .set_node_guid(Guid(0x0010_0000))
            .set_port_guid(Guid(0x0010_0001))
            .set_partition_cap(64)
            .set_revision(0xA1)
            .set_local_port_num(PortNum(1));
    });
    assert_builds(data::NODE_INFO_OF_SWITCH, |info: &mut NodeInfo| {
        info.set_base_version(1)
            .set_class_version(1)
            .set_node_type(NodeType::Switch)
            .set_num_ports(8)
            .set_system_image_guid(Guid(0x0020_0000))
            .set_node_guid(Guid(0x0020_0000))
            .set_port_guid(Guid(0x0020_0000))
            .set_partition_cap(8)
            .set_revision(0xA1)
            .set_local_port_num(PortNum(1));
    });
}

#[test]
fn the_captured_description_is_its_text() {
    let captured: [u8; 64] = bytes(data::NODE_DESCRIPTION);
    assert_eq!(NodeDescription::from_data(&captured).text(), b"Switch1");
    assert_eq!(NodeDescription::new(b"Switch1").as_data(), &captured);
}

#[test]
fn setters_build_the_captured_switch_info() {
    assert_builds(data::SWITCH_INFO, |info: &mut SwitchInfo| {
        info.set_linear_fdb_cap(0x7800)
            .set_multicast_fdb_cap(0x0400)
            .set_linear_fdb_top(Lid(6))
            .set_life_time_value(18)
            .set_partition_enforcement_cap(64)
            .set_filter_raw_inbound_cap(true)
            .set_filter_raw_outbound_cap(true);
    });
}

#[test]
fn setters_build_the_captured_port_info() {
    assert_builds(data::PORT_INFO_OF_CA, |info: &mut PortInfo| {
        info.set_gid_prefix(0xFE80_0000_0000_0000)
            .set_lid(Lid(1))
            .set_master_sm_lid(Lid(1))
            .set_capability_mask(
                CapabilityMask::IS_TRAP_SUPPORTED
                    | CapabilityMask::IS_SL_MAPPING_SUPPORTED
                    | CapabilityMask::IS_EXTENDED_SPEEDS_SUPPORTED
                    | CapabilityMask::IS_CAPABILITY_MASK2_SUPPORTED
                    | CapabilityMask::IS_VENDOR_CLASS_SUPPORTED
                    | CapabilityMask::IS_CAPABILITY_MASK_NOTICE_SUPPORTED,
            )
            .set_m_key_lease_period(4089)
            .set_local_port_num(PortNum(1))
            .set_link_width_enabled(LinkWidths::X4)
            .set_link_width_supported(
                LinkWidths::X1 | LinkWidths::X2 | LinkWidths::X4 | LinkWidths::X8 | LinkWidths::X12,
            )
            .set_link_width_active(LinkWidths::X4)
            .set_link_speed_supported(LinkSpeeds::SDR | LinkSpeeds::DDR | LinkSpeeds::QDR)
            .set_port_state(PortState::Active)
            .set_port_physical_state(PortPhysicalState::LinkUp)
            .set_link_down_default_state(LinkDownDefault::Polling)
            .set_lmc(Lmc::ZERO)
            .set_link_speed_active(LinkSpeeds::SDR)
            .set_link_speed_enabled(LinkSpeeds::SDR)
            .set_neighbor_mtu(Mtu::Bytes2048)
            .set_vl_cap(VlCap::Vl0To7)
            .set_vl_arbitration_high_cap(8)
            .set_vl_arbitration_low_cap(8)
            .set_mtu_cap(Mtu::Bytes2048)
            .set_vl_stall_count(7)
            .set_operational_vls(VlCap::Vl0To7)
            .set_guid_cap(32)
            .set_subnet_timeout(31)
            .set_capability_mask2(
                CapabilityMask2::IS_LINK_WIDTH_2X_SUPPORTED
                    | CapabilityMask2::IS_LINK_SPEED_HDR_SUPPORTED,
            );
        assert_eq!(info.link_rate().unwrap().to_string(), "4x SDR");
    });
}

#[test]
fn setters_build_the_captured_tables() {
    assert_builds(data::GUID_INFO, |info: &mut GuidInfo| {
        let mut guids = info.guids();
        guids[0] = Guid(0x0010_0001);
        info.set_guids(guids);
    });
    assert_builds(data::P_KEY_TABLE, |table: &mut PKeyTable| {
        let mut p_keys = table.p_keys();
        p_keys[0] = PKey::DEFAULT_FULL;
        table.set_p_keys(p_keys);
    });
    assert_builds(data::SL_TO_VL_MAPPING, |mapping: &mut SlToVlMapping| {
        mapping.set_vls(std::array::from_fn(|sl| sl as u8 % 8));
    });
    assert_builds(data::VL_ARBITRATION, |table: &mut VlArbitration| {
        for (vl, entry) in (0..8).zip(table.entries_mut()) {
            *entry = VlArbitrationEntry::new(vl, if vl == 0 { 4 } else { 0 });
        }
    });
    assert_builds(
        data::LINEAR_FORWARDING_TABLE,
        |table: &mut LinearForwardingTable| {
            let ports = table.ports_mut();
            ports.fill(LinearForwardingTable::DROP.0);
            ports[1..7].copy_from_slice(&[1, 0, 3, 3, 2, 5]);
        },
    );
}

#[test]
fn a_dissection_lists_the_fields_of_a_datagram() {
    let mad: MadBytes = bytes(PORT_INFO_RESPONSE);
    let text = dissect(&mad).to_string();
    for line in [
        "SubnDirected GetResp PortInfo modifier 0x80000003 tid 0x0000000034567015 status ok path 0,1",
        "  D: 1",
        "  DrDLID: 65535",
        "PortInfo",
        "  M_Key: 0x0000000000000000",
        "  LinkWidthSupported: 1x|4x|8x|12x|2x",
        "  PortState: Active",
        "  NeighborMTU: 2048",
        "  LinkSpeedExtActive: 0",
    ] {
        assert!(
            text.lines().any(|text_line| text_line == line),
            "{line}\n{text}"
        );
    }

    let mad: MadBytes = bytes(GET_NODE_INFO_BY_LID);
    assert_eq!(
        dissect(&mad).to_string(),
        "SubnLID Get NodeInfo modifier 0x00000000 tid 0x0000001234567039 status ok\n  \
         M_Key: 0x0000000000000000\nNodeInfo\n  all zeroes\n"
    );
}

#[test]
fn the_trap_number_selects_the_dissection_of_the_details() {
    let mut details = LocalChange::default();
    details
        .set_lid(Lid(5))
        .set_other_local_changes(true)
        .set_changes(LocalChanges::NODE_DESCRIPTION);
    let notice = Notice::generic(
        NoticeType::Informational,
        ProducerType::CA,
        Trap::LOCAL_CHANGE,
        Lid(5),
        &details,
    );
    let trap = SmpRequest {
        method: Method::TRAP,
        data: *notice.as_data(),
        ..request(Notice::ID, 0, 1)
    };
    let text = dissect(Smp::lid_routed(&trap).as_bytes()).to_string();
    for line in [
        "  Type: informational",
        "  ProducerType/VendorID: CA",
        "  TrapNumber/DeviceID: 144",
        "  OtherLocalChanges: 1",
        "  LocalChanges: NodeDescription",
    ] {
        assert!(
            text.lines().any(|text_line| text_line == line),
            "{line}\n{text}"
        );
    }
}
