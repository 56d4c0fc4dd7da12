//! Lists of thousands of items, page by page.

use rsm_proto::v1;
use rsm_proto::v1::convergence_service_client::ConvergenceServiceClient;
use rsm_proto::v1::fabric_service_client::FabricServiceClient;
use rsm_proto::v1::partition_service_client::PartitionServiceClient;
use tonic::Code;
use tonic::transport::Channel;

use crate::fake::{Fake, GENERATION};
use crate::served::Served;

/// All GUIDs and the number of pages that they came in.
async fn walk(
    client: &mut FabricServiceClient<Channel>,
    request: &v1::ListNodesRequest,
) -> (Vec<String>, usize) {
    let (mut guids, mut pages, mut page_token) = (Vec::new(), 0, String::new());
    loop {
        let request = v1::ListNodesRequest {
            page_token,
            ..request.clone()
        };
        let page = client.list_nodes(request).await.unwrap().into_inner();
        assert_eq!(page.generation, GENERATION);
        guids.extend(page.nodes.into_iter().map(|node| node.guid));
        pages += 1;
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return (guids, pages);
        }
    }
}

#[test]
fn every_node_is_on_exactly_one_page() {
    let served = Served::start(Fake::tree(40, 60));
    let mut client = FabricServiceClient::new(served.unix());
    let expected: Vec<String> = served.fake.nodes.keys().map(ToString::to_string).collect();
    assert_eq!(expected.len(), 2443);
    for (page_size, pages) in [(0, 25), (7, 349), (349, 7), (1000, 3), (u32::MAX, 3)] {
        let request = v1::ListNodesRequest {
            page_size,
            ..Default::default()
        };
        let walked = served.block_on(walk(&mut client, &request));
        assert_eq!(walked, (expected.clone(), pages), "page_size {page_size}");
    }
}

#[test]
fn filters_hold_on_every_page() {
    let served = Served::start(Fake::tree(40, 60));
    let mut client = FabricServiceClient::new(served.unix());
    let request = v1::ListNodesRequest {
        page_size: 7,
        kind: v1::NodeKind::Switch.into(),
        description_contains: "leaf-1".to_owned(),
        ..Default::default()
    };
    let (guids, pages) = served.block_on(walk(&mut client, &request));
    // leaf-1 and leaf-10 to leaf-19.
    assert_eq!((guids.len(), pages), (11, 2));
}

#[test]
fn ports_and_links_are_paged_by_node_and_number() {
    let served = Served::start(Fake::tree(3, 4));
    let mut client = FabricServiceClient::new(served.unix());
    let (mut ports, mut token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListPortsRequest {
            page_size: 2,
            page_token: token,
            node: "leaf-2".to_owned(),
            ..Default::default()
        };
        let page = served
            .block_on(client.list_ports(request))
            .unwrap()
            .into_inner();
        ports.extend(page.ports.into_iter().map(|port| port.key.unwrap().number));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(ports, [0, 1, 2, 3, 4, 5]);

    let request = v1::ListLinksRequest {
        between_switches: true,
        ..Default::default()
    };
    let links = served
        .block_on(client.list_links(request))
        .unwrap()
        .into_inner();
    assert_eq!(links.links.len(), 3);
    assert_eq!(links.next_page_token, "");
}

#[test]
fn links_are_found_by_a_part_of_an_ends_name_or_guid_in_any_case() {
    let served = Served::start(Fake::tree(2, 3));
    let mut client = FabricServiceClient::new(served.unix());
    let mut found = |text: &str| {
        let request = v1::ListLinksRequest {
            end_contains: text.to_owned(),
            ..Default::default()
        };
        served.block_on(client.list_links(request))
    };
    let all = found("").unwrap().into_inner().links;
    let end = all[0].a.clone().unwrap();
    let guid = end.port.unwrap().node_guid;
    for text in [end.description.to_uppercase(), guid.to_uppercase()] {
        let links = found(&text).unwrap().into_inner().links;
        assert!(links.contains(&all[0]) && links.len() < all.len(), "{text}");
    }
    assert_eq!(found("nowhere").unwrap().into_inner().links, []);
    let refused = found(&"x".repeat(10_000)).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[test]
fn a_forwarding_table_is_paged_by_lid() {
    let served = Served::start(Fake::tree(2, 3));
    let mut client = FabricServiceClient::new(served.unix());
    let (mut lids, mut token) = (Vec::new(), String::new());
    loop {
        let request = v1::GetForwardingTableRequest {
            page_size: 4,
            page_token: token,
            switch: "spine-1".to_owned(),
        };
        let answer = served.block_on(client.get_forwarding_table(request));
        let page = answer.unwrap().into_inner();
        let table = page.table.unwrap();
        assert_eq!(table.top, 9);
        lids.extend(table.entries.into_iter().map(|entry| entry.lid));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(lids, (1..=9).collect::<Vec<u32>>());
}

#[test]
fn partitions_are_paged_by_key_and_their_members_by_port() {
    let served = Served::start(Fake::tree(3, 4));
    let mut client = PartitionServiceClient::new(served.unix());
    let (mut keys, mut token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListPartitionsRequest {
            page_size: 1,
            page_token: token,
        };
        let page = served.block_on(client.list_partitions(request));
        let page = page.unwrap().into_inner();
        keys.extend(page.partitions.into_iter().map(|one| one.p_key));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(keys, [0x10, 0x7fff]);

    let (mut members, mut token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListPartitionMembersRequest {
            page_size: 5,
            page_token: token,
            p_key: 0x8010,
        };
        let page = served.block_on(client.list_partition_members(request));
        let page = page.unwrap().into_inner();
        members.extend(page.members);
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(members.len(), 12);
    let full = members
        .iter()
        .filter(|one| one.membership() == v1::Membership::Full);
    assert_eq!(full.count(), 6);

    for (p_key, code) in [
        (0x11, Code::NotFound),
        (0, Code::InvalidArgument),
        (0x8000, Code::InvalidArgument),
        (0x1_0010, Code::InvalidArgument),
    ] {
        let request = v1::ListPartitionMembersRequest {
            p_key,
            ..Default::default()
        };
        let refused = served.block_on(client.list_partition_members(request));
        assert_eq!(refused.unwrap_err().code(), code, "{p_key:#x}");
    }
}

#[test]
fn history_is_the_newest_with_the_newest_last() {
    let served = Served::start(Fake::tree(1, 1));
    let mut client = ConvergenceServiceClient::new(served.unix());
    for _ in 0..4 {
        let request = v1::ResweepRequest::default();
        served.block_on(client.resweep(request)).unwrap();
    }
    let (mut sequences, mut token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListConvergencesRequest {
            page_size: 2,
            page_token: token,
            newest: 3,
            ..Default::default()
        };
        let page = served
            .block_on(client.list_convergences(request))
            .unwrap()
            .into_inner();
        sequences.extend(page.convergences.into_iter().map(|one| one.sequence));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(sequences, [3, 4, 5]);
}

#[test]
fn a_token_of_another_list_is_refused() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = FabricServiceClient::new(served.unix());
    let request = v1::ListPortsRequest {
        page_size: 1,
        ..Default::default()
    };
    let page = served
        .block_on(client.list_ports(request))
        .unwrap()
        .into_inner();
    for page_token in [page.next_page_token, "what?".to_owned(), "é".repeat(8)] {
        let request = v1::ListLinksRequest {
            page_token,
            ..Default::default()
        };
        let refused = served.block_on(client.list_links(request)).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("without a token"), "{refused}");
    }
}
