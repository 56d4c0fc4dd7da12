//! Refusals: the status code, and the remedy in the message.

use std::collections::BTreeSet;

use rsm_api::Reason;
use rsm_api::model::SubnetState;
use rsm_proto::v1;
use rsm_proto::v1::convergence_service_client::ConvergenceServiceClient;
use rsm_proto::v1::fabric_service_client::FabricServiceClient;
use rsm_proto::v1::sa_service_client::SaServiceClient;
use rsm_proto::v1::simulation_service_client::SimulationServiceClient;
use rsm_proto::v1::watch_service_client::WatchServiceClient;
use tonic::{Code, Status};

use crate::fake::{Fake, HOST, guid};
use crate::refusals::reason;
use crate::served::Served;

fn check(refusal: &Status, code: Code, part: &str) {
    reason(refusal);
    assert_eq!(refusal.code(), code, "{refusal}");
    assert!(refusal.message().contains(part), "{refusal}");
}

#[test]
fn unknown_and_ambiguous_names_are_refused_by_name() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = FabricServiceClient::new(served.unix());
    let long = "x".repeat(300);
    for (node, code, part) in [
        ("nobody", Code::NotFound, "nothing in the fabric is named"),
        ("0x00000000deadbeef", Code::NotFound, "0x00000000deadbeef"),
        ("4711", Code::NotFound, "4711"),
        ("leaf-1:9", Code::NotFound, "does not exist"),
        (
            "twin",
            Code::InvalidArgument,
            "0x0002c90300200000, 0x0002c90300200001",
        ),
        ("twin:1", Code::InvalidArgument, "0x0002c90300200000:1"),
        ("", Code::InvalidArgument, "no node is named"),
        (long.as_str(), Code::InvalidArgument, "too long"),
    ] {
        let request = v1::GetNodeRequest {
            node: node.to_owned(),
        };
        let refusal = served.block_on(client.get_node(request)).unwrap_err();
        check(&refusal, code, part);
    }
}

#[test]
fn refusals_have_a_reason_for_programs() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = FabricServiceClient::new(served.unix());
    for (node, expected) in [
        ("nobody", Reason::NoSuchName),
        ("leaf-1:9", Reason::NoSuchPort),
        ("twin", Reason::AmbiguousName),
        ("", Reason::MalformedName),
    ] {
        let request = v1::GetNodeRequest {
            node: node.to_owned(),
        };
        let refusal = served.block_on(client.get_node(request)).unwrap_err();
        assert_eq!(reason(&refusal), expected);
    }
}

/// The words in capitals between backticks in a page.
fn reasons(text: &str) -> BTreeSet<&str> {
    let words = text.split('`').skip(1).step_by(2);
    let is_reason =
        |word: &&str| word.len() > 3 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    words.filter(is_reason).collect()
}

#[test]
fn reasons_of_the_api_page_are_those_of_the_code() {
    let page = include_str!("../../../docs/api.md");
    let begin = page
        .find("| reason | meaning |")
        .expect("the page has the table");
    let end = page[begin..].find("\n\n").expect("the table ends");
    let documented = reasons(&page[begin..begin + end]);
    let of_code: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(of_code.len(), Reason::ALL.len());
    assert_eq!(documented, of_code);
}

#[test]
fn every_form_of_a_name_resolves_to_the_port() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = FabricServiceClient::new(served.unix());
    let host = guid(HOST, 1);
    let port_guid = rsm_ids::Guid(host.0 + 1);
    let lid = served.fake.nodes[&host].lids[0];
    for port in [
        "host-2".to_owned(),
        "host-2:1".to_owned(),
        "name:host-2".to_owned(),
        format!("{host}:1"),
        format!("lid:{lid}"),
        rsm_ids::Gid::new(0xFE80_0000_0000_0000, port_guid).to_string(),
        lid.to_string(),
    ] {
        let request = v1::GetPortRequest { port: port.clone() };
        let found = served
            .block_on(client.get_port(request))
            .unwrap()
            .into_inner();
        assert_eq!(found.port.unwrap().guid, port_guid.to_string(), "{port}");
    }
}

#[test]
fn ports_without_a_lid_and_tables_of_hosts_are_refused() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = FabricServiceClient::new(served.unix());
    for (source, destination, code, part) in [
        (
            "host-1",
            "0x0002c90300200000",
            Code::FailedPrecondition,
            "has no LID",
        ),
        ("leaf-1:1", "host-1", Code::FailedPrecondition, "port 0"),
        ("host-1", "", Code::InvalidArgument, "destination: "),
    ] {
        let request = v1::ResolveRouteRequest {
            source: source.to_owned(),
            destination: destination.to_owned(),
        };
        let refusal = served.block_on(client.resolve_route(request)).unwrap_err();
        check(&refusal, code, part);
    }
    let request = v1::GetForwardingTableRequest {
        switch: "host-1".to_owned(),
        ..Default::default()
    };
    let refusal = served
        .block_on(client.get_forwarding_table(request))
        .unwrap_err();
    check(&refusal, Code::InvalidArgument, "is not a switch");
}

#[test]
fn invalid_filters_are_refused() {
    let served = Served::start(Fake::tree(1, 1));
    let mut client = FabricServiceClient::new(served.unix());
    let request = v1::ListNodesRequest {
        kind: 99,
        ..Default::default()
    };
    let refusal = served.block_on(client.list_nodes(request)).unwrap_err();
    check(&refusal, Code::InvalidArgument, "no value 99");
    let request = v1::ListNodesRequest {
        description_contains: "x".repeat(257),
        ..Default::default()
    };
    let refusal = served.block_on(client.list_nodes(request)).unwrap_err();
    check(&refusal, Code::InvalidArgument, "257 bytes");
    let request = v1::ListPortsRequest {
        node: "nobody".to_owned(),
        ..Default::default()
    };
    let refusal = served.block_on(client.list_ports(request)).unwrap_err();
    check(&refusal, Code::NotFound, "nobody");
    let request = v1::ListFindingsRequest {
        kind: "nosuch".to_owned(),
        ..Default::default()
    };
    let refusal = served.block_on(client.list_findings(request)).unwrap_err();
    check(&refusal, Code::InvalidArgument, "kind: `nosuch`");
}

#[test]
fn filters_that_nothing_passes_together_are_refused() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = FabricServiceClient::new(served.unix());
    let ports = |kind: v1::NodeKind| v1::ListPortsRequest {
        node: "host-1".to_owned(),
        node_kind: kind.into(),
        ..Default::default()
    };
    let refusal = served.block_on(client.list_ports(ports(v1::NodeKind::Switch)));
    check(&refusal.unwrap_err(), Code::InvalidArgument, "node_kind: ");
    let same = served.block_on(client.list_ports(ports(v1::NodeKind::Ca)));
    assert_eq!(same.unwrap().into_inner().ports.len(), 1);
    let request = v1::ListLinksRequest {
        node: "host-1".to_owned(),
        between_switches: true,
        ..Default::default()
    };
    let refusal = served.block_on(client.list_links(request)).unwrap_err();
    check(&refusal, Code::InvalidArgument, "between_switches: ");
}

#[test]
fn times_to_come_and_reversed_spans_are_refused_with_field_and_value() {
    /// The year 2100.
    const FUTURE: u64 = 4_102_444_800_000;
    let served = Served::start(Fake::tree(1, 1));
    let mut events = WatchServiceClient::new(served.unix());
    let mut convergences = ConvergenceServiceClient::new(served.unix());
    for (since_unix_ms, until_unix_ms, part) in [
        (FUTURE, 0, "since_unix_ms: 2100-01-01"),
        (0, FUTURE, "until_unix_ms: 2100-01-01"),
        (2_000, 1_000, "is not after since_unix_ms"),
        (1_000, 1_000, "nothing is between them"),
    ] {
        let request = v1::ListEventsRequest {
            since_unix_ms,
            until_unix_ms,
            ..Default::default()
        };
        let refusal = served.block_on(events.list_events(request)).unwrap_err();
        check(&refusal, Code::InvalidArgument, part);
        let request = v1::ListConvergencesRequest {
            since_unix_ms,
            until_unix_ms,
            ..Default::default()
        };
        let refusal = served.block_on(convergences.list_convergences(request));
        check(&refusal.unwrap_err(), Code::InvalidArgument, part);
    }
    let request = v1::ListConvergencesRequest {
        newest: 1_001,
        ..Default::default()
    };
    let refusal = served.block_on(convergences.list_convergences(request));
    check(&refusal.unwrap_err(), Code::InvalidArgument, "newest: 1001");
}

#[test]
fn an_empty_answer_about_an_unknown_node_is_a_refusal() {
    let served = Served::start(Fake::tree(1, 1));
    let mut events = WatchServiceClient::new(served.unix());
    let request = |node: &str| v1::ListEventsRequest {
        node: node.to_owned(),
        ..Default::default()
    };
    let refusal = served.block_on(events.list_events(request("nosuch")));
    check(&refusal.unwrap_err(), Code::NotFound, "nosuch");
    assert!(
        served
            .block_on(events.list_events(request("host-1")))
            .is_ok()
    );
}

#[test]
fn a_request_beyond_the_bound_is_refused() {
    let served = Served::start(Fake::tree(1, 1));
    let mut client = FabricServiceClient::new(served.unix());
    let request = v1::GetNodeRequest {
        node: "x".repeat(rsm_api::limits::MAX_REQUEST_BYTES + 1),
    };
    let refusal = served.block_on(client.get_node(request)).unwrap_err();
    assert_eq!(refusal.code(), Code::OutOfRange, "{refusal}");
}

#[test]
fn simulation_of_unknown_nodes_and_cables_is_refused() {
    let served = Served::start(Fake::tree(1, 1));
    let mut client = SimulationServiceClient::new(served.unix());
    for (node, port, code, part) in [
        ("leaf-1", 0, Code::InvalidArgument, "1 to 254"),
        ("leaf-1", 300, Code::InvalidArgument, "1 to 254"),
        ("leaf-1", 77, Code::FailedPrecondition, "no cable"),
        ("nobody", 1, Code::NotFound, "nobody"),
        ("leaf-1:77", 0, Code::NotFound, "does not exist"),
        ("54321", 1, Code::NotFound, "54321"),
    ] {
        let request = v1::UnlinkRequest {
            node: node.to_owned(),
            port,
        };
        let refusal = served.block_on(client.unlink(request)).unwrap_err();
        check(&refusal, code, part);
    }
    for rate in [-0.1, 1.1, f64::NAN] {
        let request = v1::SetLossRequest {
            rate,
            attribute_id: None,
        };
        let refusal = served.block_on(client.set_loss(request)).unwrap_err();
        check(&refusal, Code::InvalidArgument, "expected 0");
    }
    let request = v1::SetLossRequest {
        rate: 0.5,
        attribute_id: Some(0x1_0000),
    };
    let refusal = served.block_on(client.set_loss(request)).unwrap_err();
    check(&refusal, Code::InvalidArgument, "attribute_id");
    for (port, per_second, part) in [
        (1, -1.0, "at least 0"),
        (1, f64::NAN, "at least 0"),
        (256, 1.0, "254"),
    ] {
        let request = v1::SetErrorsRequest {
            node: "leaf-1".to_owned(),
            port,
            counter: "SymbolErrorCounter".to_owned(),
            per_second,
        };
        let refusal = served.block_on(client.set_errors(request)).unwrap_err();
        check(&refusal, Code::InvalidArgument, part);
    }
    assert!(served.fake.actions.lock().is_empty());
}

#[test]
fn invalid_path_queries_are_refused() {
    let served = Served::start(Fake::tree(2, 2));
    let mut client = SaServiceClient::new(served.unix());
    let request = v1::ResolvePathRequest {
        source: "host-1".to_owned(),
        destination: "fe80::2:c903:10:3".to_owned(),
        ..Default::default()
    };
    let found = served.block_on(client.resolve_path(request.clone()));
    let paths = found.unwrap().into_inner().paths.unwrap();
    assert_eq!((paths.paths.len(), paths.reason.as_str()), (2, ""));
    for (change, code, part) in [
        (
            (|request| request.source = "nobody".to_owned()) as fn(&mut v1::ResolvePathRequest),
            Code::NotFound,
            "nobody",
        ),
        (
            |request| request.destination = "leaf-1:1".to_owned(),
            Code::FailedPrecondition,
            "has no LID",
        ),
        (
            |request| request.destination = "ff12::1".to_owned(),
            Code::NotFound,
            "ff12::1",
        ),
        (
            |request| request.p_key = 0x8000,
            Code::InvalidArgument,
            "p_key: 0x8000",
        ),
        (
            |request| request.service_level = Some(16),
            Code::InvalidArgument,
            "service_level: 16",
        ),
        (
            |request| request.max_paths = 128,
            Code::InvalidArgument,
            "0 to 127",
        ),
    ] {
        let mut request = request.clone();
        change(&mut request);
        let refusal = served.block_on(client.resolve_path(request)).unwrap_err();
        check(&refusal, code, part);
    }
}

#[test]
fn a_standby_refuses_and_names_the_master() {
    let mut fake = Fake::tree(1, 1);
    fake.state = SubnetState::Standby;
    let served = Served::start(fake);
    let mut client = ConvergenceServiceClient::new(served.unix());
    let request = v1::ResweepRequest::default();
    let refusal = served.block_on(client.resweep(request)).unwrap_err();
    check(&refusal, Code::FailedPrecondition, "LID 9");
}

/// Texts of refusals are for clients in any language: only rsmctl speaks of its commands.
#[test]
fn texts_of_refusals_speak_of_no_command() {
    let sources = [
        include_str!("../../src/error.rs"),
        include_str!("../../src/gpu.rs"),
        include_str!("../../src/access/api_tokens.rs"),
        include_str!("../../src/server/gpu.rs"),
        include_str!("../../src/refusal.rs"),
        include_str!("../../src/server/request.rs"),
    ];
    for source in sources {
        let code = source
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let named: Vec<&str> = code.filter(|line| line.contains("rsmctl")).collect();
        assert_eq!(named, [""; 0]);
    }
}
