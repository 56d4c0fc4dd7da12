//! Tests of trust: requests of kernels and programs for their own ports are never refused; requests
//! in the name of another port are obeyed, counted or refused, depending on the mode.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rsm_config::{TrustMode, parse_partitions};
use rsm_ids::{Guid, Lid};
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::{Grh, RemoteAddress};
use rsm_mad::wire::attr::{CapabilityMask, PKey, PortState};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::*;
use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Subject};
use rsm_plan::Plan;
use rsm_plan::policy::Policy;
use rsm_routing::ibnetdiscover;

use super::vports::{add_vports, vport};
use super::world::{PREFIX, SM_KEY, World, planned_on, records};
use crate::{Offence, Sa, SaConfig, SaRequest, TrustRules};

/// An adapter with two ports, and two adapters with one port, at one switch.
const NETWORK: &str = r#"
Switch 4 "S-0000000000000010" # "leaf" enhanced port 0 lid 1 lmc 0
[1] "H-0000000000000020"[1](21) # "two-ports" lid 2 4xHDR
[2] "H-0000000000000020"[2](22) # "two-ports" lid 3 4xHDR
[3] "H-0000000000000030"[1](31) # "own" lid 4 4xHDR
[4] "H-0000000000000040"[1](41) # "other" lid 5 4xHDR

Ca 2 "H-0000000000000020" # "two-ports"
[1](21) "S-0000000000000010"[1] # lid 2 lmc 0 "leaf" lid 1 4xHDR
[2](22) "S-0000000000000010"[2] # lid 3 lmc 0 "leaf" lid 1 4xHDR

Ca 1 "H-0000000000000030" # "own"
[1](31) "S-0000000000000010"[3] # lid 4 lmc 0 "leaf" lid 1 4xHDR

Ca 1 "H-0000000000000040" # "other"
[1](41) "S-0000000000000010"[4] # lid 5 lmc 0 "leaf" lid 1 4xHDR
"#;

const PARTITIONS: &str = "Default=0x7fff, ipoib : ALL=full ;\nred=0x10, ipoib : 0x31=full ;\n";

const FIRST_OF_TWO: Guid = Guid(0x21);
const SECOND_OF_TWO: Guid = Guid(0x22);
const OWN: Guid = Guid(0x31);
const OTHER: Guid = Guid(0x41);
/// A virtual port of [`OWN`] with the LID of that port.
const VIRTUAL: Guid = Guid(0x00AA_0003);
const ALIAS: Guid = Guid(0x1111);

/// The broadcast group of the default partition, ff12:401b:ffff::ffff:ffff.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);
/// The broadcast group of the partition 0x10.
const RED_BROADCAST: Gid = Gid(0xFF12_401B_8010_0000_0000_0000_FFFF_FFFF);
/// MGID of a group in the form that ibacm creates; the SA did not assign it.
const NEW_GROUP: Gid = Gid(0xFF12_A01D_0000_0000_0000_0000_0000_0001);

/// The components of every join or leave request.
const REQUIRED: ComponentMask = McMemberRecord::MGID
    .with(McMemberRecord::PORT_GID)
    .with(McMemberRecord::JOIN_STATE);

/// The components of a request that creates a group.
const COMPLETE: ComponentMask = ComponentMask(
    REQUIRED.0
        | McMemberRecord::Q_KEY.0
        | McMemberRecord::P_KEY.0
        | McMemberRecord::T_CLASS.0
        | McMemberRecord::SL.0
        | McMemberRecord::FLOW_LABEL.0,
);

/// The fabric of [`NETWORK`] with the virtual port [`VIRTUAL`], and a plan for it with the
/// partitions in the text `partitions`.
fn network(partitions: &str) -> (Fabric, Plan) {
    let parsed = ibnetdiscover::parse(NETWORK.as_bytes(), "network").unwrap();
    planned_on(&parsed.netlist, |fabric| {
        for node in fabric.nodes_mut() {
            node.info.set_partition_cap(8);
        }
        let own = fabric.end_ports().find(|(_, port)| port.guid == OWN);
        let (own, _) = own.unwrap();
        let mut guest = vport(VIRTUAL, false, PortState::Active);
        guest.info.set_guid_cap(8);
        add_vports(fabric, own, vec![guest]);
        let ports = fabric.nodes_mut().flat_map(|node| &mut node.ports);
        for info in ports.filter_map(|port| port.info.as_mut()) {
            info.set_port_state(PortState::Active).set_guid_cap(12);
        }
        let (partitions, findings) = parse_partitions(Path::new("p.conf"), partitions, false);
        assert!(findings.is_empty(), "{findings:?}");
        Policy {
            partitions: Arc::new(partitions),
            ..Policy::default()
        }
    })
}

/// The network with [`PARTITIONS`], this mode of trust, and these ports as proxies.
fn world(mode: TrustMode, proxies: &[Guid]) -> World {
    world_of(PARTITIONS, mode, proxies)
}

fn world_of(partitions: &str, mode: TrustMode, proxies: &[Guid]) -> World {
    let (fabric, plan) = network(partitions);
    let mut world = World::of(fabric, plan);
    world.sa = Sa::new(SaConfig {
        sm_key: SM_KEY,
        trust: TrustRules {
            mode,
            proxies: Arc::new(proxies.iter().copied().collect()),
        },
        ..SaConfig::default()
    });
    world.sa.replace(&world.snapshot);
    world.sa.handle_deadline(world.now);
    world
}

fn gid(guid: Guid) -> Gid {
    Gid::new(PREFIX, guid)
}

fn lid(world: &World, guid: Guid) -> Lid {
    let directory = world.sa.sa_snapshot.directory().unwrap();
    directory.end(directory.by_guid(guid).unwrap()).lid
}

/// A requester: GUID of the sending port, and the GID in the global route header; `None` without
/// that header.
type Requester = (Guid, Option<Gid>);

/// The outcome of a request: `Ok`, the status of a refusal, or `None` if there is no answer.
fn ask<R: Record>(
    world: &mut World,
    (port, header): Requester,
    method: Method,
    (mask, record): (ComponentMask, &R),
) -> Option<Result<(), Status>> {
    let mad = SaMad::request(method, Tid(1), mask, record);
    let requester = RemoteAddress {
        grh: header.map(|gid| Grh {
            gid,
            gid_index: 0,
            hop_limit: 1,
            traffic_class: 0,
            flow_label: 0,
        }),
        ..RemoteAddress::gsi(lid(world, port), 0)
    };
    let bytes = mad.as_bytes();
    let answer = world.sa.handle(SaRequest { bytes, requester }, world.now);
    let mut answer = answer?;
    while !world.sa.continue_search(&mut answer) {}
    Some(records::<R>(answer).map(|_| ()))
}

fn membership(port: Gid, mgid: Gid, p_key: PKey, state: JoinState) -> McMemberRecord {
    let mut record = McMemberRecord::default();
    record
        .set_mgid(mgid)
        .set_port_gid(port)
        .set_q_key(0x8000_0001)
        .set_p_key(p_key)
        .set_join_state(state);
    record
}

/// The outcome of a request to add `port` to the broadcast group (Set) or to remove it (Delete).
fn request_membership(
    world: &mut World,
    from: Requester,
    method: Method,
    port: Gid,
) -> Option<Result<(), Status>> {
    let record = membership(port, BROADCAST, PKey::DEFAULT_FULL, JoinState::FULL_MEMBER);
    ask(world, from, method, (REQUIRED, &record))
}

/// The outcome of a request to register (Set) or delete a service of `port`.
fn request_service(
    world: &mut World,
    from: Requester,
    method: Method,
    port: Gid,
) -> Option<Result<(), Status>> {
    let mask = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
    let mut record = ServiceRecord::default();
    record.set_service_id(7).set_service_gid(port);
    ask(world, from, method, (mask, &record))
}

/// The outcome of a request to assign [`ALIAS`] to `port`.
fn assign_alias(world: &mut World, from: Requester, port: Guid) -> Option<Result<(), Status>> {
    let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK_NUM;
    let mut record = GuidInfoRecord::default();
    record.set_lid(lid(world, port));
    let mut guids = [Guid::ZERO; 8];
    guids[1] = ALIAS;
    record.guid_info_mut().set_guids(guids);
    let mask = mask | GuidInfoRecord::guid_component(1).unwrap();
    ask(world, from, Method::SET, (mask, &record))
}

/// The outcome of a query of a port for the path to [`OTHER`].
fn request_path(world: &mut World, from: Requester) -> Option<Result<(), Status>> {
    let mut record = PathRecord::default();
    record.set_sgid(gid(from.0)).set_dgid(gid(OTHER));
    let mask = PathRecord::SGID | PathRecord::DGID;
    ask(world, from, Method::GET, (mask, &record))
}

fn subscribe(world: &mut World, from: Requester, trap: u16) -> Option<Result<(), Status>> {
    let mut info = InformInfo::default();
    info.set_lid_range_begin(InformInfo::LID_RANGE_ALL)
        .set_is_generic(1)
        .set_subscribe(1)
        .set_notice_type(InformInfo::ALL)
        .set_device_id(trap)
        .set_vendor_id(InformInfo::ALL_PRODUCERS);
    ask(world, from, Method::SET, (ComponentMask::NONE, &info))
}

/// The findings one second later; empty if they have not changed.
fn findings(world: &mut World) -> Vec<Finding> {
    world.now += Duration::from_secs(1);
    world.sa.handle_deadline(world.now);
    world.sa.poll_findings(world.now).unwrap_or_default()
}

type Request = fn(&mut World) -> Option<Result<(), Status>>;

/// Requests of kernels, drivers and rdma-core's programs for their own ports.
const FOR_OWN_PORTS: [(&str, Request); 18] = [
    ("IP over InfiniBand joins the broadcast group", |world| {
        request_membership(world, (OWN, None), Method::SET, gid(OWN))
    }),
    ("IP over InfiniBand leaves the broadcast group", |world| {
        request_membership(world, (OWN, None), Method::SET, gid(OWN))?.unwrap();
        request_membership(world, (OWN, None), Method::DELETE, gid(OWN))
    }),
    (
        "IP over InfiniBand joins with a global route header",
        |world| request_membership(world, (OWN, Some(gid(OWN))), Method::SET, gid(OWN)),
    ),
    ("a child interface joins by its own P_Key", |world| {
        let state = JoinState::FULL_MEMBER;
        let record = membership(gid(OWN), RED_BROADCAST, PKey(0x8010), state);
        let mask = REQUIRED | McMemberRecord::P_KEY;
        ask(world, (OWN, None), Method::SET, (mask, &record))
    }),
    ("a host joins as a send-only member", |world| {
        let state = JoinState::SEND_ONLY_NON_MEMBER;
        let record = membership(gid(OWN), BROADCAST, PKey::DEFAULT_FULL, state);
        ask(world, (OWN, None), Method::SET, (REQUIRED, &record))
    }),
    (
        "a bond fails over to the other port of its adapter",
        |world| {
            let (from, to) = ((SECOND_OF_TWO, None), gid(FIRST_OF_TWO));
            request_membership(world, from, Method::SET, to)?.unwrap();
            request_membership(world, from, Method::DELETE, to)
        },
    ),
    ("rdma_cm asks for a path", |world| {
        request_path(world, (OWN, None))
    }),
    (
        "rdma_cm asks with a link-local GID in the header",
        |world| request_path(world, (OWN, Some(Gid::new(Gid::LINK_LOCAL, OWN)))),
    ),
    ("ibacm creates a group", |world| {
        let state = JoinState::FULL_MEMBER;
        let record = membership(gid(OWN), NEW_GROUP, PKey::DEFAULT_FULL, state);
        ask(world, (OWN, None), Method::SET, (COMPLETE, &record))
    }),
    ("srp_daemon searches for targets", |world| {
        let mut record = PortInfoRecord::default();
        let wanted = CapabilityMask::IS_DEVICE_MANAGEMENT_SUPPORTED;
        record.port_info_mut().set_capability_mask(wanted);
        let mask = PortInfoRecord::CAPABILITY_MASK;
        ask(world, (OWN, None), Method::GET_TABLE, (mask, &record))
    }),
    ("srp_daemon asks for the node of a port", |world| {
        let mut record = NodeRecord::default();
        record.set_lid(lid(world, OTHER));
        ask(world, (OWN, None), Method::GET, (NodeRecord::LID, &record))
    }),
    ("srp_daemon subscribes to new ports", |world| {
        subscribe(world, (OWN, None), 64)
    }),
    (
        "srp_daemon subscribes to changes of capabilities",
        |world| subscribe(world, (OWN, None), 144),
    ),
    ("a storage target registers its service", |world| {
        request_service(world, (OWN, None), Method::SET, gid(OWN))?.unwrap();
        request_service(world, (OWN, None), Method::DELETE, gid(OWN))
    }),
    ("a driver assigns alias GUIDs to its port", |world| {
        assign_alias(world, (OWN, None), OWN)
    }),
    (
        "a guest joins by the alias GUID of its host's port",
        |world| {
            assign_alias(world, (OWN, None), OWN)?.unwrap();
            request_membership(world, (OWN, None), Method::SET, gid(ALIAS))
        },
    ),
    ("a virtual port joins by its own GID", |world| {
        request_membership(
            world,
            (VIRTUAL, Some(gid(VIRTUAL))),
            Method::SET,
            gid(VIRTUAL),
        )
    }),
    ("a driver joins for a virtual port of its port", |world| {
        request_membership(world, (OWN, None), Method::SET, gid(VIRTUAL))
    }),
];

#[test]
fn requests_of_kernels_for_their_own_ports_are_accepted_and_not_counted_in_any_mode() {
    for mode in TrustMode::ALL {
        for (name, request) in FOR_OWN_PORTS {
            let mut world = world(mode, &[]);
            assert_eq!(request(&mut world), Some(Ok(())), "{name}: {mode:?}");
            assert_eq!(findings(&mut world), [], "{name}: {mode:?}");
        }
    }
}

const DENIED: Option<Result<(), Status>> = Some(Err(SaStatus::REQ_DENIED));
const DONE: Option<Result<(), Status>> = Some(Ok(()));

/// The part of the finding that counts a request, the request, and its outcome in the mode `off`.
type Row = (&'static str, Request, Option<Result<(), Status>>);

/// Requests in the name of another port.
const FOR_OTHER_PORTS: [Row; 7] = [
    (
        "1 joins",
        |world| request_membership(world, (OWN, None), Method::SET, gid(OTHER)),
        DONE,
    ),
    (
        "2 leaves",
        |world| {
            request_membership(world, (OTHER, None), Method::SET, gid(OTHER))?.unwrap();
            let refused = request_membership(world, (OWN, None), Method::DELETE, gid(OTHER));
            let again = request_membership(world, (OWN, None), Method::DELETE, gid(OTHER));
            assert_eq!(refused, again);
            assert_eq!(world.sa.multicast().members(), 1);
            refused
        },
        Some(Err(SaStatus::REQ_INVALID)),
    ),
    (
        "1 services",
        |world| request_service(world, (OWN, None), Method::SET, gid(OTHER)),
        DONE,
    ),
    (
        "1 alias GUIDs",
        |world| assign_alias(world, (OWN, None), OTHER),
        DENIED,
    ),
    (
        "1 requests with another GID",
        |world| request_path(world, (OWN, Some(gid(OTHER)))),
        DONE,
    ),
    (
        "1 joins",
        |world| request_membership(world, (VIRTUAL, Some(gid(VIRTUAL))), Method::SET, gid(OWN)),
        DONE,
    ),
    (
        "1 joins",
        |world| request_membership(world, (OWN, None), Method::SET, gid(FIRST_OF_TWO)),
        DONE,
    ),
];

#[test]
fn mode_decides_whether_requests_in_the_name_of_another_port_are_obeyed_counted_or_refused() {
    for (counted, request, obeyed) in FOR_OTHER_PORTS {
        let mut off = world(TrustMode::Off, &[]);
        assert_eq!(request(&mut off), obeyed, "{counted}");
        assert_eq!(findings(&mut off), [], "{counted}");

        let mut report = world(TrustMode::Report, &[]);
        assert_eq!(request(&mut report), obeyed, "{counted}");
        let mut enforce = world(TrustMode::Enforce, &[]);
        assert_eq!(request(&mut enforce), DENIED, "{counted}");
        let of_report = match obeyed {
            DONE => "the SA obeys",
            _ => "refuses them",
        };
        for (world, effect) in [(&mut report, of_report), (&mut enforce, "refuses them")] {
            let found = findings(world);
            let [finding] = &found[..] else {
                panic!("{counted}: {found:?}");
            };
            assert_eq!(finding.kind, FindingKind::SaTrust);
            let place = "own port 1";
            for part in [place, "at leaf port 3", counted, effect] {
                assert!(finding.text.contains(part), "{part}: {}", finding.text);
            }
            assert!(matches!(finding.subject, Subject::Port(_)));
        }
    }
}

#[test]
fn proxies_and_requesters_with_the_key_act_for_other_ports() {
    let mut proxy = world(TrustMode::Enforce, &[OWN]);
    let from = (OWN, None);
    assert_eq!(
        request_membership(&mut proxy, from, Method::SET, gid(OTHER)),
        DONE
    );
    assert_eq!(
        request_membership(&mut proxy, from, Method::DELETE, gid(OTHER)),
        DONE
    );
    assert_eq!(
        request_service(&mut proxy, from, Method::SET, gid(OTHER)),
        DONE
    );
    assert_eq!(assign_alias(&mut proxy, from, OTHER), DONE);
    assert_eq!(findings(&mut proxy), []);
    // A proxy does not see P_Key tables.
    let tables = ask(
        &mut proxy,
        from,
        Method::GET_TABLE,
        (ComponentMask::NONE, &PKeyTableRecord::default()),
    );
    assert_eq!(tables, Some(Err(SaStatus::REQ_INVALID)));

    let mut keyed = world(TrustMode::Enforce, &[]);
    let record = membership(
        gid(OTHER),
        BROADCAST,
        PKey::DEFAULT_FULL,
        JoinState::FULL_MEMBER,
    );
    let own = lid(&keyed, OWN);
    let joined = keyed.ask_from((own, SM_KEY), Method::SET, REQUIRED, &record);
    assert!(joined.is_ok());
    assert_eq!(findings(&mut keyed), []);
}

#[test]
fn request_with_an_unknown_gid_gets_no_answer_under_enforce_and_no_finding() {
    let unknown = Some(gid(Guid(0xDEAD)));
    let mut enforce = world(TrustMode::Enforce, &[]);
    assert_eq!(request_path(&mut enforce, (OWN, unknown)), None);
    assert_eq!(enforce.sa.counters().unserved, 1);
    assert_eq!(findings(&mut enforce), []);
    let mut report = world(TrustMode::Report, &[]);
    assert_eq!(request_path(&mut report, (OWN, unknown)), DONE);
}

#[test]
fn finding_is_updated_when_the_requests_of_a_port_double_and_ends_after_five_minutes() {
    let mut world = world(TrustMode::Report, &[]);
    let join = |world: &mut World| {
        request_membership(world, (OWN, None), Method::SET, gid(OTHER));
    };
    join(&mut world);
    assert_eq!(findings(&mut world).len(), 1);
    join(&mut world);
    assert!(findings(&mut world)[0].text.contains("2 joins"));
    join(&mut world);
    assert_eq!(findings(&mut world), [], "3 is not twice as many");
    join(&mut world);
    assert!(findings(&mut world)[0].text.contains("4 joins"));
    world.now += Duration::from_secs(301);
    world.sa.handle_deadline(world.now);
    assert_eq!(world.sa.poll_findings(world.now), Some(Vec::new()));
}

#[test]
fn first_256_ports_have_findings_of_their_own_and_one_finding_counts_the_others() {
    let mut world = World::new("pgft:2;17,16;1,2;1,1");
    let hosts = world.hosts();
    for &host in &hosts[1..] {
        world
            .sa
            .record_excess(host, Offence::Requests, 1, world.now);
    }
    let found = findings(&mut world);
    assert!(found.iter().all(|one| one.kind == FindingKind::SaShare));
    let of_ports = found
        .iter()
        .filter(|one| matches!(one.subject, Subject::Port(_)));
    let ports: BTreeSet<_> = of_ports.map(|one| one.subject.to_string()).collect();
    assert_eq!(ports.len(), 256);
    let [rest] = &found[256..] else {
        panic!("{:?}", &found[256..]);
    };
    assert_eq!(rest.subject, Subject::Subnet);
    let more = format!("{} more ports: ", hosts.len() - 1 - 256);
    assert!(rest.text.starts_with(&more), "{}", rest.text);
    // A port without a finding of its own does not displace another port, however often it offends.
    world
        .sa
        .record_excess(hosts[hosts.len() - 1], Offence::Requests, 1000, world.now);
    world.now += Duration::from_secs(2);
    let later = findings(&mut world);
    assert_eq!(later[..256], found[..256]);
}

#[test]
fn offences_of_ports_beyond_2048_are_counted_together() {
    let mut world = World::new("pgft:2;46,46;1,2;1,1");
    let hosts = world.hosts();
    for &host in &hosts[1..=2048] {
        world
            .sa
            .record_excess(host, Offence::Services, 1, world.now);
    }
    for (&host, groups) in hosts[2049..].iter().zip([3, 4]) {
        world
            .sa
            .record_excess(host, Offence::Groups, groups, world.now);
    }
    let texts: Vec<String> = findings(&mut world)
        .into_iter()
        .map(|one| one.text)
        .collect();
    let beyond = texts
        .iter()
        .filter(|text| text.contains("all other ports, after 2048 ports"));
    let beyond: Vec<&String> = beyond.collect();
    assert!(
        matches!(&beyond[..], [text] if text.contains("7 new multicast groups")),
        "{texts:?}"
    );
    world.now += Duration::from_secs(301);
    world.sa.handle_deadline(world.now);
    assert_eq!(findings(&mut world), []);
}

/// Partitions of which 0x10 owns MGIDs and alias GUIDs; only port 0x31 is a member of 0x10.
const OWNERS: &str = "\
Default=0x7fff, ipoib : ALL=full ;
red=0x10, ipoib : 0x31=full, mgids=ff12:a01d::/64, guids=0x0000000000001100/56 ;
";

/// The outcome of a request of the port `from` to create or join a group itself.
fn join(world: &mut World, from: Guid, mgid: Gid, p_key: u16) -> Option<Result<(), Status>> {
    let record = membership(gid(from), mgid, PKey(p_key), JoinState::FULL_MEMBER);
    ask(world, (from, None), Method::SET, (COMPLETE, &record))
}

/// The text of the only finding, which is about trust.
fn finding(world: &mut World) -> String {
    let found = findings(world);
    let [finding] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(finding.kind, FindingKind::SaTrust);
    finding.text.clone()
}

#[test]
fn mode_decides_whether_a_join_of_a_group_of_another_partition_is_obeyed_counted_or_refused() {
    for (mode, obeyed, effect) in [
        (TrustMode::Off, DONE, None),
        (TrustMode::Report, DONE, Some("the SA obeys")),
        (TrustMode::Enforce, DENIED, Some("the SA refuses them")),
    ] {
        let mut world = world_of(OWNERS, mode, &[]);
        assert_eq!(
            join(&mut world, OTHER, NEW_GROUP, 0xFFFF),
            obeyed,
            "{mode:?}"
        );
        match effect {
            None => assert_eq!(findings(&mut world), []),
            Some(effect) => {
                let text = finding(&mut world);
                assert!(
                    text.starts_with(
                        "other port 1 at leaf port 4: 1 joins of groups of another partition"
                    ),
                    "{text}"
                );
                assert!(text.contains(effect), "{text}");
            }
        }
        // A member of the partition can create the group only if the other port did not.
        let own = join(&mut world, OWN, NEW_GROUP, 0x8010);
        assert_eq!(own.unwrap().is_ok(), obeyed == DENIED, "{mode:?}");
        let found = findings(&mut world);
        let names_own = found
            .iter()
            .any(|one| one.kind == FindingKind::SaTrust && one.text.starts_with("own port 1"));
        assert!(!names_own, "{mode:?}: {found:?}");
    }
}

#[test]
fn group_of_a_partition_requires_membership_and_its_p_key() {
    let mut world = world_of(OWNERS, TrustMode::Enforce, &[]);
    assert_eq!(join(&mut world, OWN, NEW_GROUP, 0xFFFF), DENIED);
    // A host that is no member cannot join, not even with the P_Key of the partition.
    assert_eq!(join(&mut world, OTHER, NEW_GROUP, 0x8010), DENIED);
    let texts: Vec<String> = findings(&mut world)
        .into_iter()
        .map(|one| one.text)
        .collect();
    let [of_own, of_other] = &texts[..] else {
        panic!("{texts:?}");
    };
    for (text, port) in [(of_own, "own port 1"), (of_other, "other port 1")] {
        let is_right =
            text.starts_with(port) && text.contains("1 joins of groups of another partition");
        assert!(is_right, "{text}");
    }
    assert_eq!(join(&mut world, OWN, NEW_GROUP, 0x8010), DONE);
    // All hosts may use an MGID that no partition owns.
    let free = Gid(0xFF15_A01D << 96 | 1);
    assert_eq!(join(&mut world, OTHER, free, 0xFFFF), DONE);
    let mut proxy = world_of(OWNERS, TrustMode::Enforce, &[OTHER]);
    assert_eq!(join(&mut proxy, OTHER, NEW_GROUP, 0xFFFF), DONE);
}

#[test]
fn ip_over_infiniband_group_cannot_be_created_from_another_partition() {
    // The broadcast group of a partition that may be configured later: if the group existed, the
    // partition could not create it.
    let unconfigured = Gid(0xFF12_401B_8011 << 80 | 0xFFFF_FFFF);
    let of_scope = Gid(0xFF15_401B_8010 << 80 | 0xFFFF_FFFF);
    for mode in TrustMode::ALL {
        for mgid in [unconfigured, of_scope] {
            let mut world = world(mode, &[]);
            let refused = join(&mut world, OTHER, mgid, 0xFFFF).unwrap();
            assert!(refused.is_err(), "{mode:?} {mgid}");
            assert!(world.sa.multicast().group(mgid).is_none());
            match mode {
                TrustMode::Off => assert_eq!(findings(&mut world), []),
                _ => {
                    let text = finding(&mut world);
                    let names_other = text.starts_with(
                        "other port 1 at leaf port 4: 1 joins of groups of another partition",
                    );
                    assert!(
                        names_other && text.contains("the SA refuses them"),
                        "{text}"
                    );
                }
            }
        }
        let mut world = world(mode, &[]);
        // A member of the partition may create the group of another scope.
        assert_eq!(join(&mut world, OWN, of_scope, 0x8010), DONE);
        assert_eq!(findings(&mut world), []);
    }
}

#[test]
fn mode_decides_whether_an_alias_guid_of_another_partition_is_assigned_counted_or_refused() {
    assert_eq!(ALIAS, Guid(0x1111));
    let holds =
        |world: &World, port: Guid| world.sa.guids().alias_index().owner(ALIAS) == Some(port);
    for (mode, obeyed) in [
        (TrustMode::Off, DONE),
        (TrustMode::Report, DONE),
        (TrustMode::Enforce, DENIED),
    ] {
        let mut world = world_of(OWNERS, mode, &[]);
        assert_eq!(
            assign_alias(&mut world, (OTHER, None), OTHER),
            obeyed,
            "{mode:?}"
        );
        assert_eq!(holds(&world, OTHER), obeyed == DONE, "{mode:?}");
        match mode {
            TrustMode::Off => assert_eq!(findings(&mut world), []),
            _ => assert!(finding(&mut world).contains("1 alias GUIDs of another partition")),
        }
        let mut world = world_of(OWNERS, mode, &[]);
        assert_eq!(assign_alias(&mut world, (OWN, None), OWN), DONE, "{mode:?}");
        assert!(holds(&world, OWN), "{mode:?}");
        assert_eq!(findings(&mut world), [], "{mode:?}");
    }
}

#[test]
fn alias_guid_chosen_by_the_sa_belongs_to_no_partition() {
    let all = OWNERS.replace("0x0000000000001100/56", "0x0252534d00000000/63");
    let mut world = world_of(&all, TrustMode::Report, &[]);
    let mut record = GuidInfoRecord::default();
    record.set_lid(lid(&world, OTHER));
    let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK_NUM;
    let mask = mask | GuidInfoRecord::guid_component(1).unwrap();
    assert_eq!(
        ask(&mut world, (OTHER, None), Method::SET, (mask, &record)),
        DONE
    );
    let alias_index = world.sa.guids().alias_index();
    assert_eq!(alias_index.owner(Guid(0x0252_534D_0000_0001)), None);
    assert_eq!(alias_index.owner(Guid(0x0252_534D_0000_0002)), Some(OTHER));
}

#[test]
fn mode_of_a_partition_applies_to_requests_about_its_members_and_group_names() {
    let with = |mode: &str| OWNERS.replace("ipoib : 0x31", &format!("ipoib, trust={mode} : 0x31"));
    // A service for a port of the partition, a service for another port, and a group of the
    // partition.
    let outcomes = |world: &mut World| {
        let about_member = request_service(world, (OTHER, None), Method::SET, gid(OWN));
        let about_other = request_service(world, (OWN, None), Method::SET, gid(OTHER));
        let group = join(world, OTHER, NEW_GROUP, 0xFFFF);
        [about_member, about_other, group]
    };
    for (of_all, of_red, expected) in [
        (TrustMode::Report, "enforce", [DENIED, DONE, DENIED]),
        (TrustMode::Off, "enforce", [DENIED, DONE, DENIED]),
        (TrustMode::Enforce, "report", [DONE, DENIED, DONE]),
        (TrustMode::Enforce, "off", [DONE, DENIED, DONE]),
    ] {
        let mut world = world_of(&with(of_red), of_all, &[]);
        assert_eq!(outcomes(&mut world), expected, "{of_all:?} {of_red}");
        let found = findings(&mut world);
        let of_other = found.iter().any(|one| one.text.starts_with("other port 1"));
        assert_eq!(of_other, of_red != "off", "{of_all:?} {of_red}");
        let of_own = found.iter().any(|one| one.text.starts_with("own port 1"));
        assert_eq!(of_own, of_all != TrustMode::Off, "{of_all:?} {of_red}");
        // The GID of a member in the header of another host.
        let shown = request_path(&mut world, (OTHER, Some(gid(OWN))));
        assert_eq!(shown == DENIED, of_red == "enforce", "{of_all:?} {of_red}");
    }
}

#[test]
fn strictest_mode_of_the_partitions_of_a_port_applies() {
    let text = "\
Default=0x7fff, ipoib, trust=off : ALL=full ;
red=0x10, trust=enforce : 0x31=full ;
blue=0x11, trust=report : 0x31=full, 0x41=full ;
";
    let mut world = world_of(text, TrustMode::Enforce, &[]);
    assert_eq!(
        request_service(&mut world, (OTHER, None), Method::SET, gid(OWN)),
        DENIED
    );
    assert_eq!(
        request_service(&mut world, (OWN, None), Method::SET, gid(OTHER)),
        DONE
    );
    assert_eq!(
        request_service(&mut world, (OWN, None), Method::SET, gid(FIRST_OF_TWO)),
        DONE
    );
    // Two requests of `own` were obeyed, but the one under `off` is not counted.
    let texts: Vec<String> = findings(&mut world)
        .into_iter()
        .map(|one| one.text)
        .collect();
    let of = |name: &str| texts.iter().find(|text| text.starts_with(name)).unwrap();
    assert!(
        of("own port 1").contains("1 services") && of("own port 1").contains("the SA obeys"),
        "{texts:?}"
    );
    assert!(
        of("other port 1").contains("the SA refuses them"),
        "{texts:?}"
    );
    assert_eq!(
        request_service(&mut world, (OTHER, None), Method::SET, gid(SECOND_OF_TWO)),
        DONE
    );
}
