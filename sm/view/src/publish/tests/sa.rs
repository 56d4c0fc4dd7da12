//! Tests of the counters of the SA, and of the paths that it returns.

use std::time::Duration;

use rsm_api::model::{PathQuestion, RouteOutcome, Selector};
use rsm_api::{LookupError, SaError, SaQueries as _, Subnet as _, v1};
use rsm_core::Event;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ComponentMask, NodeRecord, PathRecord, Record, SaMad};
use rsm_sa::{NoPath, Sa, SaConfig, SaRequest, SaSnapshot};
use rsm_state::{Command, Role};

use super::partitions::divided;
use super::state_source::FixedSaState;
use super::world::*;
use crate::publish::PublishedSa;

/// The SA of `world`.
fn sa(world: &World) -> Sa {
    let mut sa = Sa::new(SaConfig {
        sm_key: 7,
        ..SaConfig::default()
    });
    sa.replace(&world.snapshot());
    sa
}

fn shown(world: &World) -> PublishedSa {
    FixedSaState::of(&sa(world), &world.snapshot()).shown(world)
}

fn lid(world: &World, host: usize) -> Lid {
    let snapshot = world.snapshot();
    let at = snapshot.fabric.find(HOSTS[host]).unwrap();
    snapshot.fabric.node(at).ports[1].lid()
}

fn ask<R: Record>(
    sa: &mut Sa,
    requester: Lid,
    method: Method,
    mask: ComponentMask,
    record: &R,
) -> Option<Vec<u8>> {
    let mad = SaMad::request(method, Tid(1), mask, record);
    let request = SaRequest {
        bytes: mad.as_bytes(),
        requester: RemoteAddress::gsi(requester, 0),
    };
    let answer = sa.handle(request, Time::ZERO)?;
    Some(answer.into_message(1 << 20).unwrap())
}

#[test]
fn counters_are_shown_with_names_of_attributes_methods_and_statuses() {
    let world = World::up();
    let mut sa = sa(&world);
    let host = lid(&world, 0);
    let anything = ComponentMask::NONE;
    let node = NodeRecord::default();
    for method in [Method::GET_TABLE, Method::GET_TABLE, Method(0x40)] {
        assert!(ask(&mut sa, host, method, anything, &node).is_some());
    }
    let no_components = ComponentMask::NONE;
    let path = PathRecord::default();
    assert!(ask(&mut sa, host, Method::GET, no_components, &path).is_some());
    assert!(ask(&mut sa, host, Method::GET_RESPONSE, no_components, &path).is_none());
    let mut mad = SaMad::request(Method::GET, Tid(1), no_components, &path);
    mad.header.set_sm_key(8);
    let request = SaRequest {
        bytes: mad.as_bytes(),
        requester: RemoteAddress::gsi(host, 0),
    };
    assert!(sa.handle(request, Time::ZERO).is_none());

    let counters = FixedSaState::of(&sa, &world.snapshot())
        .shown(&world)
        .counters();
    let requests: Vec<_> = counters
        .requests
        .iter()
        .map(|one| (one.attribute.as_str(), one.method.as_str(), one.count))
        .collect();
    let expected = [
        ("other", "other", 1),
        ("NodeRecord", "GetTable", 2),
        ("PathRecord", "Get", 1),
    ];
    assert_eq!(requests, expected);
    let answers: Vec<_> = counters
        .answers
        .iter()
        .map(|one| (one.status_id, one.status.as_str(), one.count))
        .collect();
    let expected = [
        (0x0000, "ok", 2),
        (Status::UNSUPPORTED_METHOD.0.into(), "unsupported method", 1),
        (0x0600, "ERR_REQ_INSUFFICIENT_COMPONENTS", 1),
    ];
    assert_eq!(answers, expected);
    assert_eq!((counters.ignored, counters.wrong_keys), (1, 1));
}

fn between(source: &str, destination: &str) -> PathQuestion {
    PathQuestion {
        source: named(source),
        destination: named(destination),
        p_key: None,
        service_level: None,
        service_id: None,
        qos_class: None,
        max_paths: 127,
    }
}

fn paths(shown: &PublishedSa, question: &PathQuestion) -> Result<Vec<v1::Path>, String> {
    let found = shown.paths(question).unwrap().paths.unwrap();
    match found.reason.is_empty() {
        true => Ok(found.paths),
        false => Err(found.reason),
    }
}

/// The API shows the path that a host gets, component by component.
#[test]
fn shown_path_is_the_path_that_the_host_gets() {
    let world = World::up();
    let shown = shown(&world);
    let (from, to) = (lid(&world, 0), lid(&world, 2));
    let mut record = PathRecord::default();
    record.set_slid(from).set_dlid(to);
    let mask = PathRecord::SLID | PathRecord::DLID;
    let mut sa = sa(&world);
    let answer = ask(&mut sa, from, Method::GET, mask, &record).unwrap();
    let mad = SaMad::from_bytes(answer[..].try_into().unwrap());
    let answer = *PathRecord::from_prefix(&mad.data).unwrap();

    let source = format!("{}", HOSTS[0]);
    let destination = Gid::new(0xFE80_0000_0000_0000, {
        let snapshot = world.snapshot();
        let at = snapshot.fabric.find(HOSTS[2]).unwrap();
        snapshot.fabric.node(at).ports[1].guid
    });
    for question in [
        between(&source, &destination.to_string()),
        between("host-1", &to.to_string()),
        between(&from.to_string(), &format!("{}:1", HOSTS[2])),
    ] {
        let found = paths(&shown, &question).unwrap();
        let [path] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (&path.source_gid, &path.destination_gid),
            (&answer.sgid().to_string(), &answer.dgid().to_string())
        );
        assert_eq!(
            (path.source_lid, path.destination_lid),
            (from.0.into(), to.0.into())
        );
        assert_eq!(path.p_key, u32::from(answer.p_key().0));
        assert_eq!(path.service_level, u32::from(answer.sl()));
        assert_eq!(Some(path.mtu_bytes), answer.mtu().bytes().map(u32::from));
        let rate = answer.rate().tenth_gbps().unwrap();
        assert_eq!(path.rate_gbps, f64::from(rate) / 10.0);
        assert_eq!(path.packet_life_time, u32::from(answer.packet_life_time()));
        assert!(path.reversible && path.preference == 0);
        let descriptions: Vec<_> = path
            .hops
            .iter()
            .map(|hop| hop.description.as_str())
            .collect();
        assert_eq!(
            (descriptions.len(), descriptions[0], descriptions[4]),
            (5, "host-1", "twin")
        );
        assert_eq!((descriptions[1], descriptions[3]), ("leaf-1", "leaf-2"));
        assert_eq!((path.hops[0].in_port, path.hops[4].out_port), (None, None));
        assert_eq!(path.hops[1].in_port, Some(1));
        assert_eq!(path.hops[3].out_port, Some(1));
    }
}

#[test]
fn paths_have_the_requested_partition_and_service_level() {
    let world = divided();
    let shown = shown(&world);
    // Hosts 1 and 4 are full members of 0x10, which has service level 3; host 2 is a limited
    // member, and host 3 no member.
    let to = format!("{}", HOSTS[3]);
    let ask = |destination: &str, p_key, service_level| {
        let question = PathQuestion {
            p_key,
            service_level,
            ..between("host-1", destination)
        };
        let found = paths(&shown, &question)?;
        Ok::<_, String>((found[0].p_key, found[0].service_level))
    };
    assert_eq!(ask(&to, Some(0x10), None), Ok((0x8010, 3)));
    assert_eq!(ask(&to, Some(0x8010), Some(5)), Ok((0x8010, 5)));
    assert_eq!(ask("host-2", Some(0x10), None), Ok((0x8010, 3)));
    let third = format!("{}", HOSTS[2]);
    let refused = ask(&third, Some(0x10), None).unwrap_err();
    assert!(refused.contains("partition 0x8010"), "{refused}");
    let refused = ask(&third, Some(0x11), None).unwrap_err();
    assert!(refused.contains("partition 0x0011"), "{refused}");
}

#[test]
fn pairs_without_a_path_show_the_reason() {
    let world = divided();
    let host = |host: usize| HOSTS[host].to_string();
    // Both are limited members of the only partition that they share.
    let reason = paths(&shown(&world), &between(&host(1), &host(2))).unwrap_err();
    assert_eq!(reason, NoPath::NoPartition.to_string());

    let world = World::up();
    let answered =
        |world: &World, from: &str, to: &str| -> Result<v1::ResolvePathResponse, SaError> {
            shown(world).paths(&between(from, to))
        };
    let refused = answered(&world, "host-1", "leaf-1:1").unwrap_err();
    assert!(matches!(
        refused,
        SaError::Lookup(LookupError::NoLid { .. })
    ));
    let refused = answered(&world, "nobody", "host-1").unwrap_err();
    assert!(matches!(
        refused,
        SaError::Lookup(LookupError::NotFound { .. })
    ));

    // Before there is a plan, and while another manager is master, the SA does not answer hosts.
    let mut held = FixedSaState::of(&sa(&world), &world.snapshot());
    held.sa_snapshot = SaSnapshot::default();
    let question = between("host-1", "host-2");
    let refused = held.shown(&world).paths(&question).unwrap_err();
    assert!(refused.to_string().contains("no plan"), "{refused}");
    let mut standby = world.snapshot();
    standby.role = Role::Discovering;
    let refused = FixedSaState::of(&sa(&world), &standby)
        .shown(&world)
        .paths(&question)
        .unwrap_err();
    assert!(refused.to_string().contains("not the master"), "{refused}");
}

#[test]
fn a_route_between_ports_without_a_common_partition_says_so() {
    let world = divided();
    let route = |from: usize, to: usize| {
        let [from, to] = [from, to].map(|host| Selector::guid(HOSTS[host]));
        let route = world.view.route(&from, &to).unwrap().route.unwrap();
        (route.outcome(), route.no_partition)
    };
    let delivered = RouteOutcome::Delivered;
    let apart = format!(
        "{}; host-2 is in 0x7fff (limited), 0x0010 (limited); twin is in 0x7fff (limited)",
        NoPath::NoPartition
    );
    assert_eq!(route(1, 2), (delivered, apart));
    assert_eq!(route(0, 3), (delivered, String::new()));
    assert_eq!(route(1, 1), (delivered, String::new()));
}

#[test]
fn foreign_m_key_is_the_reason_for_missing_table_entries() {
    const FOREIGN: u64 = 0x0bad_c0de;
    let reason = |holder: Guid, port: u8, from: usize, to: usize| {
        let mut world = World::up();
        world
            .sim
            .set_m_key(holder, PortNum(port), FOREIGN, 0)
            .unwrap();
        let (full, ticket) = (true, 1);
        world.handle(Event::Command(Command::Resweep { full, ticket }));
        world.run(Duration::from_secs(60));
        let [from, to] = [from, to].map(|host| HOSTS[host].to_string());
        let paths = paths(&shown(&world), &between(&from, &to));
        let route = world.view.route(&named(&from), &named(&to)).unwrap();
        (paths.unwrap_err(), route.route.unwrap().reason)
    };
    let (path, route) = reason(LEAF_2, 0, 0, 3);
    for text in [&path, &route] {
        assert!(
            text.contains("leaf-2 holds an M_Key that rsm does not know"),
            "{text}"
        );
    }
}

#[test]
fn a_host_with_a_foreign_m_key_from_the_start_has_no_lid_for_that_reason() {
    let mut world = World::new();
    let (host, port) = (HOSTS[3], PortNum(1));
    world.sim.set_m_key(host, port, 0x0bad_c0de, 0).unwrap();
    world.run(Duration::from_secs(60));
    let question = between("host-1", &host.to_string());
    let path = shown(&world).paths(&question).unwrap_err().to_string();
    let route = (world.view).route(&named("host-1"), &Selector::guid(host));
    for text in [path, route.unwrap_err().to_string()] {
        assert!(text.contains("has no LID"), "{text}");
        assert!(
            text.contains("twin holds an M_Key that rsm does not know"),
            "{text}"
        );
    }
}
