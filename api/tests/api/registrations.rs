//! Registrations of hosts, page by page: services, subscriptions, alias GUIDs.

use rsm_proto::v1;
use rsm_proto::v1::fabric_service_client::FabricServiceClient;
use rsm_proto::v1::sa_service_client::SaServiceClient;
use tonic::Code;

use crate::fake::{Fake, GENERATION};
use crate::served::{Served, Wanted, walk};

#[test]
fn services_subscriptions_and_aliases_are_paged() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = SaServiceClient::new(served.unix());
    let services = walk!(
        served,
        client.list_services,
        v1::ListServicesRequest {
            page_size: 2,
            ..Default::default()
        },
        services
    );
    let keys: Vec<_> = services
        .iter()
        .map(|one| (one.service_id.as_str(), one.p_key))
        .collect();
    let expected = [
        ("0x0000000100000001", 0),
        ("0x0000000100000002", 0x8010),
        ("0x0000000100000002", 0xFFFF),
    ];
    assert_eq!(keys, expected);

    let subscriptions = walk!(
        served,
        client.list_subscriptions,
        v1::ListSubscriptionsRequest {
            page_size: 2,
            ..Default::default()
        },
        subscriptions
    );
    let host = served
        .fake
        .ports
        .values()
        .find(|one| one.message.node_description == "host-1");
    let host = host.unwrap().message.guid.clone();
    let keys: Vec<_> = subscriptions
        .iter()
        .map(|one| (one.port_guid.as_str(), one.number))
        .collect();
    let gone = "0x000000000000dead";
    assert_eq!(keys, [(gone, 0), (&host, 0), (&host, 1), (&host, 7)]);

    let aliases = walk!(
        served,
        client.list_alias_guids,
        v1::ListAliasGuidsRequest {
            page_size: 2,
            ..Default::default()
        },
        alias_guids
    );
    let keys: Vec<_> = aliases
        .iter()
        .map(|one| (one.port_guid.as_str(), one.index, one.alias_guid.as_str()))
        .collect();
    let expected = [
        (gone, 1, "0x0252534d00000003"),
        (&host, 1, "0x0252534d00000001"),
        (&host, 9, "0x0252534d00000002"),
    ];
    assert_eq!(keys, expected);
    assert_eq!(aliases[1].gid, "fe80::252:534d:0:1");
}

#[test]
fn a_port_filter_selects_the_registrations_of_the_port() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = SaServiceClient::new(served.unix());
    for (port, subscriptions, names) in [("", 4, 3), ("host-1", 3, 2), ("host-2:1", 0, 0)] {
        let request = v1::ListSubscriptionsRequest {
            port: port.to_owned(),
            ..Default::default()
        };
        let page = served.block_on(client.list_subscriptions(request));
        let page = page.unwrap().into_inner();
        assert_eq!(page.generation, GENERATION);
        assert_eq!(page.subscriptions.len(), subscriptions, "{port}");
        let request = v1::ListAliasGuidsRequest {
            port: port.to_owned(),
            ..Default::default()
        };
        let page = served.block_on(client.list_alias_guids(request));
        let page = page.unwrap().into_inner();
        assert_eq!(page.generation, GENERATION);
        assert_eq!(page.alias_guids.len(), names, "{port}");
    }
    let request = || v1::ListSubscriptionsRequest {
        port: "nobody".to_owned(),
        ..Default::default()
    };
    let refused = served.block_on(client.list_subscriptions(request()));
    assert_eq!(refused.unwrap_err().code(), Code::NotFound);
}

#[test]
fn without_an_sa_registrations_are_refused() {
    let wanted = Wanted {
        unmanaged: true,
        ..Wanted::default()
    };
    let served = Served::start_as(Fake::tree(1, 1), wanted);
    let mut client = SaServiceClient::new(served.unix());
    let request = v1::ListSubscriptionsRequest::default();
    let refused = served.block_on(client.list_subscriptions(request));
    assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition);
    let request = v1::ListAliasGuidsRequest::default();
    let refused = served.block_on(client.list_alias_guids(request));
    assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition);
}

#[test]
fn virtual_ports_are_paged_by_port_and_index() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = FabricServiceClient::new(served.unix());
    for node in ["", "host-1"] {
        let vports = walk!(
            served,
            client.list_virtual_ports,
            v1::ListVirtualPortsRequest {
                page_size: 2,
                node: node.to_owned(),
                ..Default::default()
            },
            virtual_ports
        );
        let indices: Vec<u32> = vports.iter().map(|vport| vport.index).collect();
        assert_eq!(indices, [0, 1, 2], "{node}");
    }
    let other = v1::ListVirtualPortsRequest {
        node: "host-2".to_owned(),
        ..Default::default()
    };
    let page = served.block_on(client.list_virtual_ports(other)).unwrap();
    assert!(page.into_inner().virtual_ports.is_empty());
    let unknown = v1::ListVirtualPortsRequest {
        node: "nowhere".to_owned(),
        ..Default::default()
    };
    let status = served
        .block_on(client.list_virtual_ports(unknown))
        .unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[test]
fn agents_of_congestion_control_are_paged_by_port() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = FabricServiceClient::new(served.unix());
    for (node, count) in [("", 2), ("host-1", 1), ("leaf-1", 0)] {
        let agents = walk!(
            served,
            client.list_congestion_agents,
            v1::ListCongestionAgentsRequest {
                page_size: 1,
                node: node.to_owned(),
                ..Default::default()
            },
            congestion_agents
        );
        assert_eq!(agents.len(), count, "{node}");
    }
}
