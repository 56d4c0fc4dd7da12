//! Tests of trust: requests of kernels and programs for their own port are never refused; requests
//! in the name of another port are counted or refused.

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

use super::vports::{give, vport};
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
/// A virtual port of [`OWN`] with the LID of its port.
const VIRTUAL: Guid = Guid(0x00AA_0003);
const ALIAS: Guid = Guid(0x1111);

/// The broadcast group of the default partition, ff12:401b:ffff::ffff:ffff.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);
/// The broadcast group of the partition 0x10.
const RED_BROADCAST: Gid = Gid(0xFF12_401B_8010_0000_0000_0000_FFFF_FFFF);
/// A group that the SA did not assign, in the form that ibacm creates.
const NEW_GROUP: Gid = Gid(0xFF12_A01D_0000_0000_0000_0000_0000_0001);

const NAMED: ComponentMask = McMemberRecord::MGID
    .with(McMemberRecord::PORT_GID)
    .with(McMemberRecord::JOIN_STATE);

/// The components of a request that creates a group.
const COMPLETE: ComponentMask = ComponentMask(
    NAMED.0
        | McMemberRecord::Q_KEY.0
        | McMemberRecord::P_KEY.0
        | McMemberRecord::T_CLASS.0
        | McMemberRecord::SL.0
        | McMemberRecord::FLOW_LABEL.0,
);

fn network() -> (Fabric, Plan) {
    let parsed = ibnetdiscover::parse(NETWORK.as_bytes(), "network").unwrap();
    planned_on(&parsed.netlist, |fabric| {
        for node in fabric.nodes_mut() {
            node.info.set_partition_cap(8);
        }
        let own = fabric.end_ports().find(|(_, port)| port.guid == OWN);
        let (own, _) = own.unwrap();
        let mut guest = vport(VIRTUAL, false, PortState::Active);
        guest.info.set_guid_cap(8);
        give(fabric, own, vec![guest]);
        let ports = fabric.nodes_mut().flat_map(|node| &mut node.ports);
        for info in ports.filter_map(|port| port.info.as_mut()) {
            info.set_port_state(PortState::Active).set_guid_cap(12);
        }
        let (partitions, findings) = parse_partitions(Path::new("p.conf"), PARTITIONS, false);
        assert!(findings.is_empty(), "{findings:?}");
        Policy {
            partitions: Arc::new(partitions),
            ..Policy::default()
        }
    })
}

fn world(mode: TrustMode, proxies: &[Guid]) -> World {
    let (fabric, plan) = network();
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

/// A requester: the sending port, and the GID in the global route header, if any.
type From = (Guid, Option<Gid>);

/// The answer to a request; `None` if there is none.
fn ask<R: Record>(
    world: &mut World,
    (port, header): From,
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
    while !world.sa.go_on(&mut answer) {}
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

/// A request to join the broadcast group, or to leave it.
fn of_broadcast(
    world: &mut World,
    from: From,
    method: Method,
    port: Gid,
) -> Option<Result<(), Status>> {
    let record = membership(port, BROADCAST, PKey::DEFAULT_FULL, JoinState::FULL_MEMBER);
    ask(world, from, method, (NAMED, &record))
}

fn service(world: &mut World, from: From, method: Method, port: Gid) -> Option<Result<(), Status>> {
    let mask = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
    let mut record = ServiceRecord::default();
    record.set_service_id(7).set_service_gid(port);
    ask(world, from, method, (mask, &record))
}

fn alias(world: &mut World, from: From, port: Guid) -> Option<Result<(), Status>> {
    let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK_NUM;
    let mut record = GuidInfoRecord::default();
    record.set_lid(lid(world, port));
    let mut guids = [Guid::ZERO; 8];
    guids[1] = ALIAS;
    record.guid_info_mut().set_guids(guids);
    let mask = mask | GuidInfoRecord::guid_component(1).unwrap();
    ask(world, from, Method::SET, (mask, &record))
}

fn path(world: &mut World, from: From) -> Option<Result<(), Status>> {
    let mut record = PathRecord::default();
    record.set_sgid(gid(from.0)).set_dgid(gid(OTHER));
    let mask = PathRecord::SGID | PathRecord::DGID;
    ask(world, from, Method::GET, (mask, &record))
}

fn subscribe(world: &mut World, from: From, trap: u16) -> Option<Result<(), Status>> {
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
const OF_KERNELS: [(&str, Request); 18] = [
    ("IP over InfiniBand joins the broadcast group", |world| {
        of_broadcast(world, (OWN, None), Method::SET, gid(OWN))
    }),
    ("IP over InfiniBand leaves it", |world| {
        of_broadcast(world, (OWN, None), Method::SET, gid(OWN))?.unwrap();
        of_broadcast(world, (OWN, None), Method::DELETE, gid(OWN))
    }),
    (
        "IP over InfiniBand joins with a global route header",
        |world| of_broadcast(world, (OWN, Some(gid(OWN))), Method::SET, gid(OWN)),
    ),
    ("a child interface joins by its own P_Key", |world| {
        let state = JoinState::FULL_MEMBER;
        let record = membership(gid(OWN), RED_BROADCAST, PKey(0x8010), state);
        let mask = NAMED | McMemberRecord::P_KEY;
        ask(world, (OWN, None), Method::SET, (mask, &record))
    }),
    ("a host that only sends to a group", |world| {
        let state = JoinState::SEND_ONLY_NON_MEMBER;
        let record = membership(gid(OWN), BROADCAST, PKey::DEFAULT_FULL, state);
        ask(world, (OWN, None), Method::SET, (NAMED, &record))
    }),
    (
        "a bond fails over to the other port of its adapter",
        |world| {
            let (from, to) = ((SECOND_OF_TWO, None), gid(FIRST_OF_TWO));
            of_broadcast(world, from, Method::SET, to)?.unwrap();
            of_broadcast(world, from, Method::DELETE, to)
        },
    ),
    ("rdma_cm asks for a path", |world| path(world, (OWN, None))),
    (
        "rdma_cm asks with a link-local GID in the header",
        |world| path(world, (OWN, Some(Gid::new(Gid::LINK_LOCAL, OWN)))),
    ),
    ("ibacm makes a group and joins it", |world| {
        let state = JoinState::FULL_MEMBER;
        let record = membership(gid(OWN), NEW_GROUP, PKey::DEFAULT_FULL, state);
        ask(world, (OWN, None), Method::SET, (COMPLETE, &record))
    }),
    ("srp_daemon looks for targets", |world| {
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
    ("srp_daemon subscribes to ports that come", |world| {
        subscribe(world, (OWN, None), 64)
    }),
    (
        "srp_daemon subscribes to changes of capabilities",
        |world| subscribe(world, (OWN, None), 144),
    ),
    ("a storage target registers its service", |world| {
        service(world, (OWN, None), Method::SET, gid(OWN))?.unwrap();
        service(world, (OWN, None), Method::DELETE, gid(OWN))
    }),
    ("a driver assigns alias GUIDs to its port", |world| {
        alias(world, (OWN, None), OWN)
    }),
    (
        "a guest joins by the alias GUID of its host's port",
        |world| {
            alias(world, (OWN, None), OWN)?.unwrap();
            of_broadcast(world, (OWN, None), Method::SET, gid(ALIAS))
        },
    ),
    ("a virtual port joins by its own GID", |world| {
        of_broadcast(
            world,
            (VIRTUAL, Some(gid(VIRTUAL))),
            Method::SET,
            gid(VIRTUAL),
        )
    }),
    ("a driver joins for a virtual port of its port", |world| {
        of_broadcast(world, (OWN, None), Method::SET, gid(VIRTUAL))
    }),
];

#[test]
fn requests_of_kernels_for_their_own_ports_are_refused_in_no_mode_and_counted_in_none() {
    for mode in TrustMode::ALL {
        for (name, request) in OF_KERNELS {
            let mut world = world(mode, &[]);
            assert_eq!(request(&mut world), Some(Ok(())), "{name}: {mode:?}");
            assert_eq!(findings(&mut world), [], "{name}: {mode:?}");
        }
    }
}

const DENIED: Option<Result<(), Status>> = Some(Err(SaStatus::REQ_DENIED));
const DONE: Option<Result<(), Status>> = Some(Ok(()));

/// A description of a request, the request, and its answer in the mode `off`, if that is known.
type Row = (&'static str, Request, Option<Result<(), Status>>);

/// Requests in the name of another port: the answer without rules, and the matching part of the
/// finding.
const OF_STRANGERS: [Row; 7] = [
    (
        "1 joins",
        |world| of_broadcast(world, (OWN, None), Method::SET, gid(OTHER)),
        DONE,
    ),
    (
        "2 leaves",
        |world| {
            of_broadcast(world, (OTHER, None), Method::SET, gid(OTHER))?.unwrap();
            let refused = of_broadcast(world, (OWN, None), Method::DELETE, gid(OTHER));
            let again = of_broadcast(world, (OWN, None), Method::DELETE, gid(OTHER));
            assert_eq!(refused, again);
            assert_eq!(world.sa.multicast().members(), 1);
            refused
        },
        Some(Err(SaStatus::REQ_INVALID)),
    ),
    (
        "1 services",
        |world| service(world, (OWN, None), Method::SET, gid(OTHER)),
        DONE,
    ),
    (
        "1 alias GUIDs",
        |world| alias(world, (OWN, None), OTHER),
        DENIED,
    ),
    (
        "1 requests with another GID",
        |world| path(world, (OWN, Some(gid(OTHER)))),
        DONE,
    ),
    (
        "1 joins",
        |world| of_broadcast(world, (VIRTUAL, Some(gid(VIRTUAL))), Method::SET, gid(OWN)),
        DONE,
    ),
    (
        "1 joins",
        |world| of_broadcast(world, (OWN, None), Method::SET, gid(FIRST_OF_TWO)),
        DONE,
    ),
];

#[test]
fn requests_in_the_name_of_another_port_are_obeyed_or_counted_or_refused_by_the_mode() {
    for (counted, request, obeyed) in OF_STRANGERS {
        let mut off = world(TrustMode::Off, &[]);
        assert_eq!(request(&mut off), obeyed, "{counted}");
        assert_eq!(findings(&mut off), [], "{counted}");

        let mut report = world(TrustMode::Report, &[]);
        assert_eq!(request(&mut report), obeyed, "{counted}");
        let mut enforce = world(TrustMode::Enforce, &[]);
        assert_eq!(request(&mut enforce), DENIED, "{counted}");
        for (world, effect) in [
            (&mut report, "the SA obeys"),
            (&mut enforce, "refuses them"),
        ] {
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
        of_broadcast(&mut proxy, from, Method::SET, gid(OTHER)),
        DONE
    );
    assert_eq!(
        of_broadcast(&mut proxy, from, Method::DELETE, gid(OTHER)),
        DONE
    );
    assert_eq!(service(&mut proxy, from, Method::SET, gid(OTHER)), DONE);
    assert_eq!(alias(&mut proxy, from, OTHER), DONE);
    assert_eq!(findings(&mut proxy), []);
    // A proxy does not see keys.
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
    let joined = keyed.ask_from((own, SM_KEY), Method::SET, NAMED, &record);
    assert!(joined.is_ok());
    assert_eq!(findings(&mut keyed), []);
}

#[test]
fn unknown_gid_in_the_header_gets_no_answer_under_enforce_and_accuses_no_port() {
    let unknown = Some(gid(Guid(0xDEAD)));
    let mut enforce = world(TrustMode::Enforce, &[]);
    assert_eq!(path(&mut enforce, (OWN, unknown)), None);
    assert_eq!(enforce.sa.counters().unserved, 1);
    assert_eq!(findings(&mut enforce), []);
    let mut report = world(TrustMode::Report, &[]);
    assert_eq!(path(&mut report, (OWN, unknown)), DONE);
}

#[test]
fn finding_is_listed_again_when_the_requests_of_a_port_double_and_ends_after_five_minutes() {
    let mut world = world(TrustMode::Report, &[]);
    let join = |world: &mut World| {
        of_broadcast(world, (OWN, None), Method::SET, gid(OTHER));
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
fn each_port_has_a_finding_and_those_beyond_the_256th_are_counted_in_one() {
    let mut world = World::new("pgft:2;17,16;1,2;1,1");
    let hosts = world.hosts();
    for &host in &hosts[1..] {
        world.sa.note_share(host, Offence::Requests, 1, world.now);
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
    // A port that continues to offend does not displace another one.
    world
        .sa
        .note_share(hosts[hosts.len() - 1], Offence::Requests, 1000, world.now);
    world.now += Duration::from_secs(2);
    let later = findings(&mut world);
    assert_eq!(later[..256], found[..256]);
}
