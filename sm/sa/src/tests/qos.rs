//! Tests of paths under the operator's QoS policy, and with SLtoVL tables that drop service levels.

use std::path::Path;
use std::sync::Arc;

use rsm_config::{QosConfig, QosKeys, SlToVl, parse_partitions, parse_qos_policy};
use rsm_ids::Lid;
use rsm_mad::ids::Tid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::sa::*;
use rsm_plan::policy::Policy;
use rsm_plan::qos::Qos;
use rsm_routing::engine::EngineKind;

use super::world::{SMALL, World, planned_as, records};
use crate::EndIx;
use crate::path::{Finder, PathConstraints};

const LIDS: ComponentMask = PathRecord::SLID.with(PathRecord::DLID);

/// A QoS policy whose rules assign different SLs, so that the SL shows which rule applied.
const RULES: &str = "
port-groups
    port-group
        name: storage
        port-name: host-002 mlx5_0/P1
    end-port-group
    port-group
        name: tenants
        partition: Tenant
    end-port-group
    port-group
        name: switches
        node-type: SWITCH
    end-port-group
    port-group
        name: manager
        node-type: SELF
    end-port-group
end-port-groups
qos-levels
    qos-level
        name: Default
        sl: 1
    end-qos-level
    qos-level
        name: slow
        sl: 2
        mtu-limit: 1024
        rate-limit: 100G
        packet-life: 10
    end-qos-level
    qos-level
        name: tenant
        sl: 3
        pkey: 0x10
    end-qos-level
    qos-level
        name: fast
        sl: 4
    end-qos-level
end-qos-levels
qos-match-rules
    qos-match-rule
        service-id: 0x100-0x1ff
        destination: storage
        qos-level-name: slow
    end-qos-match-rule
    qos-match-rule
        qos-class: 7
        source: tenants
        qos-level-name: tenant
    end-qos-match-rule
    qos-match-rule
        pkey: 0x10
        qos-level-name: fast
    end-qos-match-rule
    qos-match-rule
        destination: switches
        qos-level-name: fast
    end-qos-match-rule
    qos-match-rule
        source: manager
        qos-class: 9
        qos-level-name: fast
    end-qos-match-rule
end-qos-match-rules
qos-ulps
    any, service-id 0x200 : 5
end-qos-ulps
";

fn policy(rules: &str, qos: &QosConfig, engine: EngineKind) -> Policy {
    let (rules, findings) = parse_qos_policy(Path::new("q"), rules);
    assert_eq!(findings, []);
    let partitions = "Default=0x7fff : ALL=full ;\nTenant=0x10, sl=6 : ALL=full ;";
    let (partitions, findings) = parse_partitions(Path::new("p"), partitions, false);
    assert_eq!(findings, []);
    Policy {
        qos: Qos::of(qos, 5).map(Arc::new),
        qos_policy: Some(Arc::new(rules)),
        partitions: Arc::new(partitions),
        engine,
        ..Policy::default()
    }
}

/// Section `qos` of the configuration, switched on.
fn qos_on() -> QosConfig {
    QosConfig {
        enabled: true,
        ..QosConfig::default()
    }
}

fn world(rules: &str, qos: &QosConfig) -> World {
    let (fabric, plan) = planned_as(SMALL, |fabric| {
        for node in fabric.nodes_mut() {
            node.info.set_partition_cap(8);
        }
        policy(rules, qos, EngineKind::Auto)
    });
    World::of(fabric, plan)
}

/// The query for paths between two LIDs.
fn between(slid: Lid, dlid: Lid) -> PathRecord {
    let mut record = PathRecord::default();
    record.set_slid(slid).set_dlid(dlid);
    record
}

#[test]
fn first_matching_rule_determines_the_sl_of_a_path() {
    let mut world = world(RULES, &qos_on());
    let hosts = world.hosts();
    let description = |lid| {
        let guid = world.guid(lid);
        let node = world
            .fabric()
            .nodes()
            .find(|node| node.ports.iter().any(|port| port.guid == guid));
        node.unwrap().description.clone()
    };
    assert_eq!(description(hosts[1]), "host-002 mlx5_0");
    let mut sl =
        |from: Lid, to: Lid, service_id: Option<u64>, class: Option<u16>, key: Option<u16>| {
            let mut wanted = between(from, to);
            let mut mask = LIDS;
            if let Some(id) = service_id {
                wanted.set_service_id(id);
                mask = mask | PathRecord::SERVICE_ID;
            }
            if let Some(class) = class {
                wanted.set_qos_class(class);
                mask = mask | PathRecord::QOS_CLASS;
            }
            if let Some(key) = key {
                wanted.set_p_key(PKey(key));
                mask = mask | PathRecord::P_KEY;
            }
            let path = world.get(mask, &wanted).unwrap();
            assert_eq!(path.service_id(), service_id.unwrap_or(0));
            assert_eq!(path.qos_class(), class.unwrap_or(0));
            (path.sl(), path.p_key().0)
        };
    let (from, storage, other) = (hosts[0], hosts[1], hosts[2]);
    assert_eq!(
        sl(from, other, None, None, None),
        (1, 0xffff),
        "the default level"
    );
    assert_eq!(sl(from, storage, Some(0x1ff), None, None), (2, 0xffff));
    assert_eq!(
        sl(from, other, Some(0x1ff), None, None),
        (1, 0xffff),
        "another destination"
    );
    assert_eq!(sl(from, storage, Some(0x200), None, None), (5, 0xffff));
    // The level lists P_Keys: the path is in a common partition that the level lists.
    assert_eq!(sl(from, other, None, Some(7), None), (3, 0x8010));
    assert_eq!(sl(from, other, None, Some(8), None), (1, 0xffff));
    assert_eq!(sl(from, other, None, None, Some(0x8010)), (4, 0x8010));
    let switch = world.switches()[0];
    assert_eq!(world.get(LIDS, &between(from, switch)).unwrap().sl(), 4);
}

#[test]
fn paths_keep_the_mtu_rate_and_lifetime_limits_of_their_level() {
    let mut world = world(RULES, &qos_on());
    let hosts = world.hosts();
    let mut wanted = between(hosts[0], hosts[1]);
    wanted.set_service_id(0x100);
    let mask = LIDS | PathRecord::SERVICE_ID;
    let path = world.get(mask, &wanted).unwrap();
    assert_eq!((path.mtu(), path.rate()), (Mtu::Bytes1024, Rate::GBPS_100));
    assert_eq!(path.packet_life_time(), 10);
    // A query for more than the level permits finds no path.
    wanted
        .set_mtu(Mtu::Bytes2048)
        .set_mtu_selector(Selector::Exactly);
    let more = mask | PathRecord::MTU | PathRecord::MTU_SELECTOR;
    assert_eq!(world.get(more, &wanted).unwrap_err(), SaStatus::NO_RECORDS);
    // A query for another service level, or for another partition, finds no path either.
    wanted.set_sl(3);
    assert_eq!(
        world.get(mask | PathRecord::SL, &wanted).unwrap_err(),
        SaStatus::NO_RECORDS
    );
    wanted.set_sl(2);
    assert_eq!(world.get(mask | PathRecord::SL, &wanted).unwrap().sl(), 2);
    wanted
        .set_qos_class(7)
        .set_p_key(PKey(0xffff))
        .set_service_id(1);
    let class = LIDS | PathRecord::QOS_CLASS | PathRecord::P_KEY;
    assert_eq!(world.get(class, &wanted).unwrap_err(), SaStatus::NO_RECORDS);
    // A packet that does not leave its port takes no time.
    wanted.set_dlid(hosts[0]);
    assert_eq!(world.get(LIDS, &wanted).unwrap().packet_life_time(), 0);
}

#[test]
fn multi_path_queries_match_the_same_rules() {
    let mut world = world(RULES, &qos_on());
    let hosts = world.hosts();
    let mut wanted = MultiPathRecord::default();
    wanted.set_sgid_count(1).set_dgid_count(1).set_qos_class(7);
    let counts = MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT;
    let mask = counts | MultiPathRecord::QOS_CLASS;
    let mut mad = SaMad::request(Method::GET_MULTI, Tid(7), mask, &wanted);
    for (lid, room) in [hosts[0], hosts[2]]
        .iter()
        .zip(mad.data[24..].chunks_exact_mut(16))
    {
        room.copy_from_slice(&world.gid(*lid).0.to_be_bytes());
    }
    let paths = records::<PathRecord>(world.handle(mad.as_bytes()).unwrap()).unwrap();
    assert!(!paths.is_empty());
    assert!(
        paths
            .iter()
            .all(|path| (path.sl(), path.p_key().0) == (3, 0x8010))
    );
}

#[test]
fn no_path_has_an_sl_that_a_port_on_it_drops() {
    // Adapters drop SL 6, the tenants' level; switches drop SL 1 between each other.
    let dropping = |sl: usize| {
        let mut vls = [0; 16];
        vls[sl] = 15;
        Some(SlToVl(vls))
    };
    let keys = |dropped| QosKeys {
        sl2vl: dropping(dropped),
        ..QosKeys::default()
    };
    let qos = QosConfig {
        ca: keys(6),
        sw2sw: keys(1),
        ..qos_on()
    };
    let mut world = world(
        "qos-ulps\ndefault : 1\nany, pkey 0x10 : 6\nend-qos-ulps\n",
        &qos,
    );
    let hosts = world.hosts();
    let (near, far) = ((hosts[0], hosts[1]), (hosts[0], hosts[3]));
    assert_eq!(world.get(LIDS, &between(near.0, near.1)).unwrap().sl(), 1);
    let refused = world.get(LIDS, &between(far.0, far.1));
    assert_eq!(refused.unwrap_err(), SaStatus::NO_RECORDS);
    let mut wanted = between(near.0, near.1);
    wanted.set_p_key(PKey(0x8010));
    let refused = world.get(LIDS | PathRecord::P_KEY, &wanted);
    assert_eq!(refused.unwrap_err(), SaStatus::NO_RECORDS);
    // Raw packets are in no partition; the policy's level still applies.
    wanted.set_raw_traffic(true);
    assert_eq!(
        world
            .get(LIDS | PathRecord::RAW_TRAFFIC, &wanted)
            .unwrap()
            .sl(),
        1
    );
}

#[test]
fn raw_packets_whose_path_drops_every_service_level_have_no_path_and_no_level_is_named() {
    // Adapters drop the lower half of the SLs, links between switches the upper half.
    let drops = |dropped: std::ops::Range<usize>| {
        let mut lanes = [0; 16];
        lanes[dropped].fill(15);
        QosKeys {
            sl2vl: Some(SlToVl(lanes)),
            ..QosKeys::default()
        }
    };
    let qos = QosConfig {
        ca: drops(0..8),
        sw2sw: drops(8..16),
        ..qos_on()
    };
    let (fabric, plan) = planned_as(SMALL, |_| Policy {
        qos_policy: None,
        ..policy(
            "qos-ulps\ndefault : 1\nend-qos-ulps\n",
            &qos,
            EngineKind::Auto,
        )
    });
    let world = World::of(fabric, plan);
    let hosts = world.hosts();
    let directory = world.sa.sa_snapshot.directory.clone().unwrap();
    let end = |lid: Lid| {
        let ends = (0..directory.len() as u32).map(EndIx);
        let end = ends.into_iter().find(|&end| directory.end(end).lid == lid);
        (end.unwrap(), lid)
    };
    let path = |to: Lid| {
        let mut wanted = PathRecord::default();
        wanted.set_raw_traffic(true);
        let constraints = PathConstraints::of(&wanted, PathRecord::RAW_TRAFFIC).unwrap();
        let finder = Finder {
            directory: directory.clone(),
            viewer: None,
            constraints,
            echoed_gids: (None, None),
        };
        finder.path(end(hosts[0]), end(to), 0)
    };
    assert_eq!(path(hosts[1]).unwrap().sl(), 8);
    let refused = path(hosts[3]).unwrap_err().to_string();
    assert!(refused.contains("every service level"), "{refused}");
}

#[test]
fn service_levels_that_the_routes_need_override_rules() {
    let rules = "qos-ulps\ndefault : 7\nend-qos-ulps\n";
    let (fabric, plan) = planned_as("torus:5x5,hosts=1", |_| {
        policy(rules, &qos_on(), EngineKind::Dfsssp)
    });
    assert!(plan.routing.lanes.needs_levels());
    let mut world = World::of(fabric, plan);
    let hosts = world.hosts();
    let levels: Vec<u8> = hosts[1..]
        .iter()
        .map(|&to| world.get(LIDS, &between(hosts[0], to)).unwrap().sl())
        .collect();
    assert!(levels.iter().all(|&sl| sl < 7), "{levels:?}");
}
