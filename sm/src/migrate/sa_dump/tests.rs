//! Tests of the reader of OpenSM's `opensm-sa.dump`.

use std::time::Duration;

use rsm_mad::wire::sa::{JoinState, Rate, ServiceRecord};

use super::*;

const PREFIX: u64 = 0xFE80_0000_0000_0000;

const CONTEXT: Context = Context {
    prefix: PREFIX,
    now: 1_000,
};

const GROUP: &str = "MC Group 0xc000  (well known): mgid=0xff12401bffff0000:0x00000000ffffffff \
    port_gid=0xfe80000000000000:0x0000000000000001 qkey=0x00000b1b mlid=0xc000 mtu=0x84 tclass=0x07 pkey=0xffff \
    rate=0x83 pkt_life=0x92 sl_flow_hop=0x30000400 scope_state=0x21 proxy_join=0x0\n\n";
const MEMBER: &str =
    "mcm_port: port_gid=0xfe80000000000000:0x0000000000000011 scope_state=0x21 proxy_join=0x1\n\n";
const SERVICE: &str = "Service Record: id=0x1000000000000001 gid=0xfe80000000000000:0x0000000000000011 pkey=0xffff \
    lease=0x64 key=0x0102030405060708:0x090a0b0c0d0e0f10 name='it's data8=0x0' data8=0x0102030405060708:0x0000000000000000 \
    data16=0x0001000200030004:0x0000000000000000 data32=0x0000000100000002:0x0000000000000000 \
    data64=0x0000000000000009:0x0000000000000000 modified_time=0x3b6 lease_period=0x64\n\n";
const SUBSCRIPTION: &str = "InformInfo Record: subscriber_gid=0xfe80000000000000:0x0000000000000011 subscriber_enum=0x3 \
    InformInfo: gid=0x0000000000000000:0x0000000000000000 lid_range_begin=0xffff lid_range_end=0x0 is_generic=0x1 \
    subscribe=0x1 trap_type=0xffff trap_num=0x40 qpn_resp_time_val=0x12345612 node_type=0xffffff rep_addr: lid=0x0007 \
    path_bits=0x00 static_rate=0x00 remote_qp=0x00000001 remote_qkey=0x80010000 pkey_ix=0x0001 sl=0x03\n\n";
const ALIASES: &str = "GUIDInfo Record: base_guid=0x0000000000000022 lid=0x0009 block_num=0x0 guid0=0x0000000000000022 \
    guid1=0x0000000000000011 guid2=0x0000000000000000 guid3=0x0000000000000000 guid4=0x0000000000000000 \
    guid5=0x0000000000000000 guid6=0x0000000000000000 guid7=0x0000000000000000\n\n";

fn parse(text: &str) -> SaDump {
    SaDump::parse(Path::new("opensm-sa.dump"), text, &CONTEXT)
}

/// Numbers of the lines with findings.
fn lines(dump: &SaDump) -> Vec<usize> {
    dump.findings.iter().map(|finding| finding.line).collect()
}

#[test]
fn group_and_member_have_all_their_fields() {
    let dump = parse(&[GROUP, MEMBER].concat());
    assert_eq!(dump.findings, []);
    let [group] = &dump.saved.groups[..] else {
        panic!("one group");
    };
    let parameters = &group.parameters;
    assert_eq!(group.mlid, Lid(0xC000));
    assert_eq!(parameters.mgid.0 >> 64, 0xFF12_401B_FFFF_0000);
    assert_eq!((parameters.q_key, parameters.p_key.0), (0xB1B, 0xFFFF));
    assert_eq!((parameters.mtu.code(), parameters.rate), (4, Rate(3)));
    assert_eq!((parameters.packet_life_time, parameters.t_class), (18, 7));
    assert_eq!(
        (parameters.sl, parameters.flow_label, parameters.hop_limit),
        (3, 4, 0)
    );
    assert_eq!(parameters.scope, 2);
    let [member] = &group.members[..] else {
        panic!("one member");
    };
    assert_eq!(
        (member.port, member.state),
        (Guid(0x11), JoinState::FULL_MEMBER)
    );
    assert!(member.proxy);
}

#[test]
fn service_keeps_the_rest_of_its_lease_and_its_bytes() {
    let dump = parse(SERVICE);
    assert_eq!(dump.findings, []);
    let [service] = &dump.saved.services[..] else {
        panic!("one service");
    };
    // The service was modified at second 950 for 100 seconds; now is second 1000.
    assert_eq!(service.left, Some(Duration::from_secs(50)));
    assert_eq!(service.record.service_key()[..3], [1, 2, 3]);
    assert!(
        service
            .record
            .service_name()
            .starts_with(b"it's data8=0x0\0")
    );
    assert_eq!(service.record.service_data()[16..20], [0, 1, 0, 2]);
    assert_eq!(service.record.service_data()[63 - 8], 9);
    let indefinite = SERVICE.replace("lease_period=0x64", "lease_period=0xffffffff");
    let dump = parse(&indefinite);
    let service = &dump.saved.services[0];
    assert_eq!(service.left, None);
    assert_eq!(
        service.record.service_lease(),
        ServiceRecord::LEASE_INDEFINITE
    );
    let expired = parse(&SERVICE.replace("lease_period=0x64", "lease_period=0x32"));
    assert_eq!(expired.saved.services, []);
    assert!(expired.findings[0].expected.contains("has ended"));
}

#[test]
fn subscriptions_of_a_port_are_numbered_and_keep_their_address() {
    let second = SUBSCRIPTION.replace("trap_num=0x40", "trap_num=0x41");
    let dump = parse(&[SUBSCRIPTION, &second].concat());
    assert_eq!(dump.findings, []);
    let [first, second] = &dump.saved.subscriptions[..] else {
        panic!("two subscriptions");
    };
    assert_eq!((first.number, second.number), (0, 1));
    let address = &first.address;
    assert_eq!(
        (address.lid, address.qpn, address.qkey),
        (Lid(7), 1, 0x8001_0000)
    );
    assert_eq!((address.sl, address.pkey_index), (3, 1));
    assert_eq!(
        (first.info.qpn(), first.info.resp_time_value()),
        (0x12_3456, 0x12)
    );
    assert_eq!(second.info.device_id(), 65);
    assert!(!first.trusted);
}

#[test]
fn registrations_by_an_alias_guid_belong_to_the_port_of_the_alias() {
    let dump = parse(&[GROUP, MEMBER, SERVICE, SUBSCRIPTION, ALIASES].concat());
    assert_eq!(dump.findings, []);
    assert_eq!(dump.saved.guids.by_port[&Guid(0x22)][&1], Guid(0x11));
    assert_eq!(dump.saved.groups[0].members[0].port, Guid(0x22));
    assert_eq!(dump.saved.services[0].owner, Guid(0x22));
    assert_eq!(dump.saved.subscriptions[0].port, Guid(0x22));
}

#[test]
fn only_unreadable_lines_are_dropped_and_each_has_a_finding() {
    let bad_member = MEMBER.replace("scope_state=0x21", "scope_state=0x20");
    let foreign = MEMBER.replace("0xfe80000000000000", "0xfe80000000000001");
    let text = [
        GROUP,
        &MEMBER.replace("proxy_join=0x1", "proxy_join="),
        MEMBER,
        MEMBER,
        &bad_member,
        &foreign,
        "Servus\n\n",
        &SERVICE.replace("data16=0x", "data16="),
        SUBSCRIPTION,
    ];
    let dump = parse(&text.concat());
    assert_eq!(lines(&dump), [3, 7, 9, 11, 13, 15]);
    assert!(dump.findings[3].expected.contains("of another one"));
    assert_eq!(dump.saved.groups[0].members.len(), 1);
    assert_eq!(dump.saved.subscriptions.len(), 1);
}

#[test]
fn members_of_a_dropped_group_join_no_other_group() {
    let other = GROUP.replace("00000000ffffffff", "0000000000000001");
    let conflict = other.replace("pkey=0xffff", "pkey=0x8005");
    let cut = GROUP.replace("mlid=0xc000", "mlid=0x");
    let text = [
        GROUP, MEMBER, &conflict, MEMBER, &cut, MEMBER, GROUP, MEMBER,
    ]
    .concat();
    let dump = parse(&text);
    assert_eq!(dump.saved.groups.len(), 1);
    assert_eq!(dump.saved.groups[0].members.len(), 1);
    assert_eq!(lines(&dump), [5, 7, 9, 11, 13, 15]);
    assert_eq!(lines(&parse(MEMBER)), [1]);
}

#[test]
fn file_cut_anywhere_never_yields_a_changed_registration() {
    let whole = [GROUP, MEMBER, SERVICE, SUBSCRIPTION, ALIASES].concat();
    let all = parse(&whole);
    for end in 0..whole.len() {
        let cut = parse(&whole[..end]);
        for group in &cut.saved.groups {
            assert_eq!(group.parameters, all.saved.groups[0].parameters, "{end}");
        }
        let known = |service| {
            all.saved
                .services
                .iter()
                .any(|other: &rsm_sa::services::SavedService| other.record == service)
        };
        assert!(cut.saved.services.iter().all(|s| known(s.record)), "{end}");
        let infos = cut.saved.subscriptions.iter().map(|s| (s.info, s.address));
        let whole_info = all.saved.subscriptions.first().map(|s| (s.info, s.address));
        assert!(infos.clone().all(|info| Some(info) == whole_info), "{end}");
    }
}

#[test]
fn carriage_returns_and_comments_are_ignored() {
    let text = [GROUP, "# comment\n", MEMBER]
        .concat()
        .replace('\n', "\r\n");
    let dump = parse(&text);
    assert_eq!(dump.findings, []);
    assert_eq!(dump.saved.groups[0].members.len(), 1);
}
