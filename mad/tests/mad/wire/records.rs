//! Tests of the records of the SA: views, field tables and components agree.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rsm_ids::Lid;
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::wire::attr::*;
use rsm_mad::wire::fields::{self, RMPP, SA};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::rmpp::RmppHeader;
use rsm_mad::wire::sa::*;
use rsm_mad::wire::{MAD_LEN, dissect};

use crate::wire::accessor::{Accessor, Raw, accessors, check, check_layout};

fn view<R: Record>(data: &[u8]) -> &R {
    R::from_prefix(data).unwrap()
}

fn changed<R: Record>(data: &mut [u8], change: impl FnOnce(&mut R)) {
    change(R::from_prefix_mut(data).unwrap());
}

fn check_record<R: Record>(accessors: &[Accessor]) {
    let layout = fields::of_record(R::ID).unwrap();
    assert_eq!(layout.name, R::NAME);
    check_layout(R::LEN, layout.fields);
    check(R::LEN, layout.fields, accessors);
    check_components::<R>();
}

/// Checks that every component is a field of the record or of an embedded attribute, and that the
/// components are in the order of their bits.
fn check_components<R: Record>() {
    let layout = fields::of_record(R::ID).unwrap();
    let own = layout.fields.iter().map(|field| (0, field));
    let embedded = layout.embedded.iter();
    let embedded =
        embedded.flat_map(|&(offset, table)| table.iter().map(move |field| (offset, field)));
    let all: Vec<_> = own.chain(embedded).collect();
    for component in R::COMPONENTS {
        let (name, index) = match component.name.split_once('.') {
            Some((name, index)) => (name, index.parse().unwrap()),
            None => (
                component
                    .name
                    .trim_end_matches(|c: char| c.is_ascii_digit()),
                0,
            ),
        };
        let is_field = all.iter().any(|&(offset, field)| {
            let start = usize::from(offset) + field.offset_of(index);
            let is_inside = usize::from(component.offset) >= start
                && component.offset + component.width <= start as u16 + field.width;
            let is_whole = usize::from(component.offset) == start && component.width == field.width;
            match component.name {
                "ServiceID8MSB" | "ServiceID56LSB" => {
                    is_inside && field.name.starts_with("ServiceID")
                }
                "GUID0" | "GUID1" | "GUID2" | "GUID3" | "GUID4" | "GUID5" | "GUID6" | "GUID7" => {
                    let index = component.name[4..].parse().unwrap();
                    field.name == name
                        && usize::from(offset) + field.offset_of(index) == component.offset.into()
                        && field.width == component.width
                }
                _ => is_whole && (field.name == name || field.name == component.name),
            }
        });
        assert!(is_field, "{} {component:?}", R::NAME);
        assert!(usize::from(component.offset + component.width) <= R::LEN * 8);
    }
    let is_ordered = R::COMPONENTS.windows(2).all(|pair| {
        pair[0].mask < pair[1].mask && pair[0].offset + pair[0].width <= pair[1].offset
    });
    assert!(is_ordered, "{}", R::NAME);
}

macro_rules! record_test {
    ($test:ident, $view:ident; $($accessors:tt)*) => {
        #[test]
        fn $test() {
            check_record::<$view>(&accessors!($view, view, Record::as_bytes; $($accessors)*));
        }
    };
}

record_test! { class_port_info_matches_its_table, ClassPortInfo;
    "BaseVersion": base_version, set_base_version;
    "ClassVersion": class_version, set_class_version;
    "CapabilityMask": capability_mask, set_capability_mask;
    "CapabilityMask2": capability_mask2, set_capability_mask2;
    "RespTimeValue": resp_time_value, set_resp_time_value;
    "RedirectGID": redirect_gid, set_redirect_gid;
    "RedirectTC": redirect_tc, set_redirect_tc;
    "RedirectSL": redirect_sl, set_redirect_sl;
    "RedirectFL": redirect_fl, set_redirect_fl;
    "RedirectLID": redirect_lid, set_redirect_lid;
    "RedirectP_Key": redirect_p_key, set_redirect_p_key;
    "RedirectQP": redirect_qp, set_redirect_qp;
    "RedirectQ_Key": redirect_q_key, set_redirect_q_key;
    "TrapGID": trap_gid, set_trap_gid;
    "TrapTC": trap_tc, set_trap_tc;
    "TrapSL": trap_sl, set_trap_sl;
    "TrapFL": trap_fl, set_trap_fl;
    "TrapLID": trap_lid, set_trap_lid;
    "TrapP_Key": trap_p_key, set_trap_p_key;
    "TrapHL": trap_hl, set_trap_hl;
    "TrapQP": trap_qp, set_trap_qp;
    "TrapQ_Key": trap_q_key, set_trap_q_key;
}

record_test! { notice_matches_its_table, SaNotice;
    "IssuerGID": issuer_gid, set_issuer_gid;
}

record_test! { inform_info_generic_matches_its_table, InformInfo;
    "GID": gid, set_gid;
    "LIDRangeBegin": lid_range_begin, set_lid_range_begin;
    "LIDRangeEnd": lid_range_end, set_lid_range_end;
    "IsGeneric": is_generic, set_is_generic;
    "Subscribe": subscribe, set_subscribe;
    "Type": notice_type, set_notice_type;
    "TrapNumber/DeviceID": trap_number, set_trap_number;
    "QPN": qpn, set_qpn;
    "RespTimeValue": resp_time_value, set_resp_time_value;
    "ProducerType/VendorID": producer_type, set_producer_type;
}

record_test! { inform_info_of_a_vendor_matches_its_table, InformInfo;
    "GID": gid, set_gid;
    "LIDRangeBegin": lid_range_begin, set_lid_range_begin;
    "LIDRangeEnd": lid_range_end, set_lid_range_end;
    "IsGeneric": is_generic, set_is_generic;
    "Subscribe": subscribe, set_subscribe;
    "Type": notice_type, set_notice_type;
    "TrapNumber/DeviceID": device_id, set_device_id;
    "QPN": qpn, set_qpn;
    "RespTimeValue": resp_time_value, set_resp_time_value;
    "ProducerType/VendorID": vendor_id, set_vendor_id;
}

record_test! { node_record_matches_its_table, NodeRecord;
    "LID": lid, set_lid;
}

record_test! { port_info_record_matches_its_table, PortInfoRecord;
    "EndportLID": end_port_lid, set_end_port_lid;
    "PortNum": port_num, set_port_num;
    "Options": options, set_options;
}

record_test! { sl_to_vl_mapping_table_record_matches_its_table, SlToVlMappingTableRecord;
    "LID": lid, set_lid;
    "InputPortNum": input_port_num, set_input_port_num;
    "OutputPortNum": output_port_num, set_output_port_num;
}

record_test! { switch_info_record_matches_its_table, SwitchInfoRecord;
    "LID": lid, set_lid;
}

record_test! { linear_forwarding_table_record_matches_its_table, LinearForwardingTableRecord;
    "LID": lid, set_lid;
    "BlockNum": block_num, set_block_num;
}

record_test! { multicast_forwarding_table_record_matches_its_table, MulticastForwardingTableRecord;
    "LID": lid, set_lid;
    "Position": position, set_position;
    "BlockNum": block_num, set_block_num;
}

record_test! { sm_info_record_matches_its_table, SmInfoRecord;
    "LID": lid, set_lid;
}

record_test! { link_record_matches_its_table, LinkRecord;
    "FromLID": from_lid, set_from_lid;
    "FromPort": from_port, set_from_port;
    "ToPort": to_port, set_to_port;
    "ToLID": to_lid, set_to_lid;
}

record_test! { guid_info_record_matches_its_table, GuidInfoRecord;
    "LID": lid, set_lid;
    "BlockNum": block_num, set_block_num;
}

record_test! { p_key_table_record_matches_its_table, PKeyTableRecord;
    "LID": lid, set_lid;
    "BlockNum": block_num, set_block_num;
    "PortNum": port_num, set_port_num;
}

record_test! { path_record_matches_its_table, PathRecord;
    "ServiceID": service_id, set_service_id;
    "DGID": dgid, set_dgid;
    "SGID": sgid, set_sgid;
    "DLID": dlid, set_dlid;
    "SLID": slid, set_slid;
    "RawTraffic": raw_traffic, set_raw_traffic;
    "FlowLabel": flow_label, set_flow_label;
    "HopLimit": hop_limit, set_hop_limit;
    "TClass": t_class, set_t_class;
    "Reversible": reversible, set_reversible;
    "NumbPath": numb_path, set_numb_path;
    "P_Key": p_key, set_p_key;
    "QoSClass": qos_class, set_qos_class;
    "SL": sl, set_sl;
    "MtuSelector": mtu_selector, set_mtu_selector;
    "Mtu": mtu, set_mtu;
    "RateSelector": rate_selector, set_rate_selector;
    "Rate": rate, set_rate;
    "PacketLifeTimeSelector": packet_life_time_selector, set_packet_life_time_selector;
    "PacketLifeTime": packet_life_time, set_packet_life_time;
    "Preference": preference, set_preference;
}

record_test! { vl_arbitration_table_record_matches_its_table, VlArbitrationTableRecord;
    "LID": lid, set_lid;
    "OutputPortNum": output_port_num, set_output_port_num;
    "BlockNum": block_num, set_block_num;
}

record_test! { mc_member_record_matches_its_table, McMemberRecord;
    "MGID": mgid, set_mgid;
    "PortGID": port_gid, set_port_gid;
    "Q_Key": q_key, set_q_key;
    "MLID": mlid, set_mlid;
    "MtuSelector": mtu_selector, set_mtu_selector;
    "Mtu": mtu, set_mtu;
    "TClass": t_class, set_t_class;
    "P_Key": p_key, set_p_key;
    "RateSelector": rate_selector, set_rate_selector;
    "Rate": rate, set_rate;
    "PacketLifeTimeSelector": packet_life_time_selector, set_packet_life_time_selector;
    "PacketLifeTime": packet_life_time, set_packet_life_time;
    "SL": sl, set_sl;
    "FlowLabel": flow_label, set_flow_label;
    "HopLimit": hop_limit, set_hop_limit;
    "Scope": scope, set_scope;
    "JoinState": join_state, set_join_state;
    "ProxyJoin": proxy_join, set_proxy_join;
}

record_test! { trace_record_matches_its_table, TraceRecord;
    "GIDPrefix": gid_prefix, set_gid_prefix;
    "IDGeneration": id_generation, set_id_generation;
    "NodeType": node_type, set_node_type;
    "NodeID": node_id, set_node_id;
    "ChassisID": chassis_id, set_chassis_id;
    "EntryPortID": entry_port_id, set_entry_port_id;
    "ExitPortID": exit_port_id, set_exit_port_id;
    "EntryPort": entry_port, set_entry_port;
    "ExitPort": exit_port, set_exit_port;
}

record_test! { multi_path_record_matches_its_table, MultiPathRecord;
    "RawTraffic": raw_traffic, set_raw_traffic;
    "FlowLabel": flow_label, set_flow_label;
    "HopLimit": hop_limit, set_hop_limit;
    "TClass": t_class, set_t_class;
    "Reversible": reversible, set_reversible;
    "NumbPath": numb_path, set_numb_path;
    "P_Key": p_key, set_p_key;
    "QoSClass": qos_class, set_qos_class;
    "SL": sl, set_sl;
    "MtuSelector": mtu_selector, set_mtu_selector;
    "Mtu": mtu, set_mtu;
    "RateSelector": rate_selector, set_rate_selector;
    "Rate": rate, set_rate;
    "PacketLifeTimeSelector": packet_life_time_selector, set_packet_life_time_selector;
    "PacketLifeTime": packet_life_time, set_packet_life_time;
    "ServiceID8MSB": service_id_8_msb, set_service_id_8_msb;
    "IndependenceSelector": independence_selector, set_independence_selector;
    "SGIDCount": sgid_count, set_sgid_count;
    "DGIDCount": dgid_count, set_dgid_count;
    "ServiceID56LSB": service_id_56_lsb, set_service_id_56_lsb;
}

record_test! { inform_info_record_matches_its_table, InformInfoRecord;
    "SubscriberGID": subscriber_gid, set_subscriber_gid;
    "Enum": enumeration, set_enumeration;
}

/// The accessor of one row of service data, whose items have `width` bytes and begin at byte
/// `start` of the data.
macro_rules! service_data {
    ($name:literal, $start:literal, $width:literal) => {
        Accessor {
            name: $name,
            get: |data, index| {
                let at = $start + usize::from(index) * $width;
                let bytes = &view::<ServiceRecord>(data).service_data()[at..at + $width];
                bytes
                    .iter()
                    .fold(0, |value, &byte| value << 8 | u128::from(byte))
            },
            set: |data, index, value| {
                changed(data, |record: &mut ServiceRecord| {
                    let mut all = *record.service_data();
                    let at = $start + usize::from(index) * $width;
                    all[at..at + $width].copy_from_slice(&value.to_be_bytes()[16 - $width..]);
                    record.set_service_data(all);
                });
            },
        }
    };
}

#[test]
fn service_record_accessors_match_the_field_table() {
    let mut all = Vec::from(accessors! { ServiceRecord, view, Record::as_bytes;
        "ServiceID": service_id, set_service_id;
        "ServiceGID": service_gid, set_service_gid;
        "ServiceP_Key": service_p_key, set_service_p_key;
        "ServiceLease": service_lease, set_service_lease;
    });
    all.push(Accessor {
        name: "ServiceKey",
        get: |data, _| u128::from_be_bytes(*view::<ServiceRecord>(data).service_key()),
        set: |data, _, value| {
            changed(data, |record: &mut ServiceRecord| {
                record.set_service_key(value.to_be_bytes());
            });
        },
    });
    all.push(service_data!("ServiceData8", 0, 1));
    all.push(service_data!("ServiceData16", 16, 2));
    all.push(service_data!("ServiceData32", 32, 4));
    all.push(service_data!("ServiceData64", 48, 8));
    check_record::<ServiceRecord>(&all);

    let mut record = ServiceRecord::default();
    record.set_service_name([b'n'; 64]);
    assert_eq!(record.as_bytes()[48..112], [b'n'; 64]);
    assert_eq!(record.service_name(), &[b'n'; 64]);
}

/// Checks for arbitrary bytes that the attribute in `R` is the bytes `at..at + len` of the record,
/// and that setting the attribute changes only these bytes.
fn check_embedded<R: Record>(
    at: usize,
    len: usize,
    get: impl Fn(&R) -> Vec<u8>,
    set: impl Fn(&mut R, &[u8; 64]),
) {
    let input = (
        prop::collection::vec(any::<u8>(), R::LEN),
        prop::array::uniform32(any::<u8>()),
    );
    let outcome = TestRunner::deterministic().run(&input, |(before, half_data)| {
        let read = get(view(&before));
        prop_assert_eq!(&read[..len], &before[at..at + len]);
        prop_assert!(read[len..].iter().all(|&byte| byte == 0));

        let mut data = [0; 64];
        data[..32].copy_from_slice(&half_data);
        data[32..].copy_from_slice(&half_data);
        let mut after = before.clone();
        changed(&mut after, |record| set(record, &data));
        prop_assert_eq!(&after[..at], &before[..at]);
        prop_assert_eq!(&after[at..at + len], &data[..len]);
        prop_assert_eq!(&after[at + len..], &before[at + len..]);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{}: {failure}", R::NAME);
    }
}

macro_rules! check_copied {
    ($record:ident, $attribute:ident, $at:literal, $len:literal, $get:ident, $set:ident) => {
        check_embedded::<$record>(
            $at,
            $len,
            |record| record.$get().as_data().to_vec(),
            |record, data| {
                record.$set($attribute::from_data(data));
            },
        );
    };
}

macro_rules! check_borrowed {
    ($record:ident, $attribute:ident, $at:literal, $get:ident, $get_mut:ident) => {
        check_embedded::<$record>(
            $at,
            64,
            |record| record.$get().as_data().to_vec(),
            |record, data| *record.$get_mut() = *$attribute::from_data(data),
        );
    };
}

#[test]
fn embedded_attributes_are_at_their_offsets() {
    check_copied!(NodeRecord, NodeInfo, 4, 40, node_info, set_node_info);
    check_copied!(
        NodeRecord,
        NodeDescription,
        44,
        64,
        node_description,
        set_node_description
    );
    check_copied!(
        SwitchInfoRecord,
        SwitchInfo,
        4,
        20,
        switch_info,
        set_switch_info
    );
    check_copied!(SmInfoRecord, SmInfo, 4, 21, sm_info, set_sm_info);
    check_copied!(SaNotice, Notice, 0, 64, notice, set_notice);
    check_copied!(
        SlToVlMappingTableRecord,
        SlToVlMapping,
        8,
        8,
        mapping,
        set_mapping
    );
    check_borrowed!(PortInfoRecord, PortInfo, 4, port_info, port_info_mut);
    check_borrowed!(PKeyTableRecord, PKeyTable, 8, table, table_mut);
    check_borrowed!(GuidInfoRecord, GuidInfo, 8, guid_info, guid_info_mut);
    check_borrowed!(VlArbitrationTableRecord, VlArbitration, 8, table, table_mut);
    check_borrowed!(
        LinearForwardingTableRecord,
        LinearForwardingTable,
        8,
        table,
        table_mut
    );
    check_borrowed!(
        MulticastForwardingTableRecord,
        MulticastForwardingTable,
        8,
        table,
        table_mut
    );
    check_embedded::<InformInfoRecord>(
        24,
        36,
        |record| record.inform_info().as_bytes().to_vec(),
        |record, data| {
            record.set_inform_info(view(data));
        },
    );
}

#[test]
fn records_have_the_lengths_of_the_specification() {
    let words = [
        (ClassPortInfo::NAME, ClassPortInfo::WORDS, 9),
        (SaNotice::NAME, SaNotice::WORDS, 10),
        (NodeRecord::NAME, NodeRecord::WORDS, 14),
        (PortInfoRecord::NAME, PortInfoRecord::WORDS, 9),
        (
            SlToVlMappingTableRecord::NAME,
            SlToVlMappingTableRecord::WORDS,
            2,
        ),
        (SwitchInfoRecord::NAME, SwitchInfoRecord::WORDS, 3),
        (
            LinearForwardingTableRecord::NAME,
            LinearForwardingTableRecord::WORDS,
            9,
        ),
        (
            MulticastForwardingTableRecord::NAME,
            MulticastForwardingTableRecord::WORDS,
            9,
        ),
        (SmInfoRecord::NAME, SmInfoRecord::WORDS, 4),
        (LinkRecord::NAME, LinkRecord::WORDS, 1),
        (GuidInfoRecord::NAME, GuidInfoRecord::WORDS, 9),
        (ServiceRecord::NAME, ServiceRecord::WORDS, 22),
        (PKeyTableRecord::NAME, PKeyTableRecord::WORDS, 9),
        (PathRecord::NAME, PathRecord::WORDS, 8),
        (
            VlArbitrationTableRecord::NAME,
            VlArbitrationTableRecord::WORDS,
            9,
        ),
        (McMemberRecord::NAME, McMemberRecord::WORDS, 7),
        (TraceRecord::NAME, TraceRecord::WORDS, 6),
        (MultiPathRecord::NAME, MultiPathRecord::WORDS, 3),
        (InformInfoRecord::NAME, InformInfoRecord::WORDS, 8),
    ];
    for (name, actual, expected) in words {
        assert_eq!(actual, expected, "{name}");
    }
}

macro_rules! header_accessors {
    ($header:ident; $($name:literal: $get:ident, $set:ident;)*) => {
        [$(Accessor {
            name: $name,
            get: |data, _| Raw::raw(SaMad::from_bytes(data.try_into().unwrap()).header.$header().$get()),
            set: |data, _, value| {
                let mad = SaMad::from_bytes_mut(data.try_into().unwrap());
                header_accessors!(@mut $header, mad).$set(Raw::from_raw(value));
            },
        }),*]
    };
    (@mut rmpp, $mad:ident) => { $mad.header.rmpp_mut() };
}

#[test]
fn rmpp_accessors_match_the_field_table() {
    check_layout(36, RMPP);
    let accessors = header_accessors! { rmpp;
        "RMPPVersion": version, set_version;
        "RMPPType": rmpp_type, set_rmpp_type;
        "RRespTime": resp_time, set_resp_time;
        "RMPPFlags": flags, set_flags;
        "RMPPStatus": status, set_status;
        "SegmentNumber": segment_number, set_segment_number;
        "PayloadLength/NewWindowLast": payload_length, set_payload_length;
    };
    check(MAD_LEN, RMPP, &accessors);
    let mut header = RmppHeader::default();
    header.set_new_window_last(7);
    assert_eq!(header.payload_length(), 7);
}

#[test]
fn sa_accessors_match_the_field_table() {
    check_layout(56, SA);
    check_layout(SA_HEADER_LEN, &[fields::HEADER, RMPP, SA].concat());
    let accessors = accessors! { SaHeader, split, SaHeader::as_bytes;
        "SM_Key": sm_key, set_sm_key;
        "AttributeOffset": attribute_offset, set_attribute_offset;
        "ComponentMask": component_mask, set_component_mask;
    };
    check(SA_HEADER_LEN, SA, &accessors);
}

fn split(data: &[u8]) -> &SaHeader {
    SaHeader::split(data).unwrap().0
}

#[test]
fn gids_of_a_multi_path_query_follow_the_record() {
    let mut data = vec![0; 24 + 3 * 16];
    data[24 + 15] = 1;
    data[40 + 15] = 2;
    data[56 + 15] = 3;
    changed(&mut data, |record: &mut MultiPathRecord| {
        record.set_sgid_count(1).set_dgid_count(2);
    });
    let record: &MultiPathRecord = view(&data);
    let (sources, destinations) = record.gids(&data).unwrap();
    assert_eq!(sources.collect::<Vec<_>>(), [Gid(1)]);
    assert_eq!(destinations.collect::<Vec<_>>(), [Gid(2), Gid(3)]);
    assert!(record.gids(&data[..data.len() - 1]).is_none());
    assert!(record.gids(&[]).is_none());
}

#[test]
fn dissection_of_an_sa_datagram_shows_its_record() {
    let mut record = PathRecord::default();
    record
        .set_slid(Lid(17))
        .set_rate(Rate::GBPS_400)
        .set_rate_selector(Selector::Exactly);
    let mut mad = SaMad::request(Method::GET, Tid(5), PathRecord::SLID, &record);
    mad.header.mad_mut().set_status(Status(0x0400));
    let text = dissect(mad.as_bytes()).to_string();
    for expected in [
        "SubnAdm Get PathRecord",
        "status ERR_TOO_MANY_RECORDS",
        "  ComponentMask: 0x0000000000000020",
        "  SLID: 17",
        "  RateSelector: =",
        "  Rate: 400 Gb/s",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
}
