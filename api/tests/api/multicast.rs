//! Multicast groups page by page, and unknown and ambiguous names.

use rsm_proto::v1;
use rsm_proto::v1::multicast_service_client::MulticastServiceClient;
use tonic::Code;

use crate::fake::Fake;
use crate::served::{Served, Wanted, walk};

#[test]
fn groups_members_and_switches_are_paged() {
    let served = Served::start(Fake::tree(3, 3));
    let mut client = MulticastServiceClient::new(served.unix());
    let groups = walk!(
        served,
        client.list_multicast_groups,
        v1::ListMulticastGroupsRequest {
            page_size: 2,
            ..Default::default()
        },
        groups
    );
    let mgids: Vec<_> = groups.iter().map(|group| group.mgid.as_str()).collect();
    let expected = [
        "ff12:401b:8010::1",
        "ff12:401b:ffff::ffff:ffff",
        "ff12:601b:8010::1",
    ];
    assert_eq!(mgids, expected);
    let named = || "0xc000".to_owned();
    let members = walk!(
        served,
        client.list_multicast_members,
        v1::ListMulticastMembersRequest {
            page_size: 2,
            group: named(),
            ..Default::default()
        },
        members
    );
    let guids: Vec<_> = members.iter().map(|member| &member.port_guid).collect();
    assert!(guids.is_sorted());
    assert_eq!(guids.len(), 9);
    let switches = walk!(
        served,
        client.list_multicast_switches,
        v1::ListMulticastSwitchesRequest {
            page_size: 2,
            group: named(),
            ..Default::default()
        },
        switches
    );
    assert_eq!(switches.len(), 4);
}

#[test]
fn filters_hold_for_groups() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = MulticastServiceClient::new(served.unix());
    for (p_key, port, count) in [
        (0x7FFF, "", 1),
        (0x8010, "", 2),
        (0, "host-1", 3),
        (0, "host-3:1", 1),
        (0x10, "host-3", 0),
    ] {
        let request = v1::ListMulticastGroupsRequest {
            p_key,
            port: port.to_owned(),
            ..Default::default()
        };
        let page = served.block_on(client.list_multicast_groups(request));
        let groups = page.unwrap().into_inner().groups;
        assert_eq!(groups.len(), count, "{p_key:#x} {port}");
    }
    for (p_key, port, code, part) in [
        (0x8000, "", Code::InvalidArgument, "p_key: 0x8000"),
        (0, "nobody", Code::NotFound, "nobody"),
    ] {
        let request = v1::ListMulticastGroupsRequest {
            p_key,
            port: port.to_owned(),
            ..Default::default()
        };
        let refusal = served.block_on(client.list_multicast_groups(request));
        let refusal = refusal.unwrap_err();
        assert_eq!(refusal.code(), code);
        assert!(refusal.message().contains(part), "{refusal}");
    }
}

#[test]
fn unknown_and_ambiguous_group_names_are_refused() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = MulticastServiceClient::new(served.unix());
    for (group, code, part) in [
        ("ff12::1", Code::NotFound, "no multicast group is named"),
        ("0xc0ff", Code::NotFound, "`0xc0ff`"),
        (
            "0xc001",
            Code::InvalidArgument,
            "ff12:401b:8010::1, ff12:601b:8010::1",
        ),
        ("fe80::1", Code::InvalidArgument, "GID of a port"),
        ("17", Code::InvalidArgument, "group: `17` names no"),
        ("", Code::InvalidArgument, "0xc000 to 0xfffe"),
    ] {
        let request = v1::GetMulticastGroupRequest {
            group: group.to_owned(),
        };
        let refusal = served.block_on(client.get_multicast_group(request));
        let refusal = refusal.unwrap_err();
        assert_eq!(refusal.code(), code, "{group}");
        assert!(refusal.message().contains(part), "{refusal}");
    }
}

#[test]
fn without_an_sa_group_queries_are_refused() {
    let wanted = Wanted {
        unmanaged: true,
        ..Wanted::default()
    };
    let served = Served::start_as(Fake::tree(1, 1), wanted);
    let mut client = MulticastServiceClient::new(served.unix());
    let request = v1::ListMulticastGroupsRequest::default();
    let refusal = served.block_on(client.list_multicast_groups(request));
    let refusal = refusal.unwrap_err();
    assert_eq!(refusal.code(), Code::FailedPrecondition);
    assert!(refusal.message().contains("manages no subnet"));
}
