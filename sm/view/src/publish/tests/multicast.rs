//! Tests of multicast groups, their members and trees.

use std::collections::BTreeMap;

use rsm_api::model::{GroupSelector, JoinState, MulticastGroupFilter, PortId};
use rsm_api::{LookupError, SaQueries as _};
use rsm_core::Event;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::sa::{JoinState as Bits, Rate};
use rsm_sa::mcast::{Parameters, SavedGroup, SavedMember};
use rsm_sa::{Sa, SaConfig, SavedSaState};

use super::state_source::{FixedSaState, now};
use super::world::*;
use crate::publish::PublishedSa;

const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);
const ALL_HOSTS: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_0000_0001);
const SHARING: Gid = Gid(0xFF12_601B_FFFF_0000_0000_0000_0000_0001);

/// A port that is in no fabric.
const ABSENT_PORT: Guid = Guid(0xDEAD);

fn saved(mgid: Gid, mlid: u16, members: &[(Guid, Bits)]) -> SavedGroup {
    let member = |&(port, state): &(Guid, Bits)| SavedMember {
        gid: Gid::new(0xFE80_0000_0000_0000, port),
        port,
        state,
        proxy: port == ABSENT_PORT,
    };
    SavedGroup {
        parameters: Parameters {
            mgid,
            q_key: 0x0B1B,
            p_key: PKey::DEFAULT_FULL,
            mtu: Mtu::Bytes2048,
            rate: Rate::GBPS_2_5,
            packet_life_time: 17,
            sl: 1,
            t_class: 2,
            flow_label: 3,
            hop_limit: 4,
            scope: 2,
        },
        mlid: Lid(mlid),
        creator: None,
        members: members.iter().map(member).collect(),
    }
}

/// The small fabric with three groups: one group of the first host, the third host, which only
/// sends, and a vanished port; two groups of the second host, which share a multicast LID.
fn with_groups() -> (World, PublishedSa) {
    let mut world = World::up();
    let guid = |host: usize| {
        let snapshot = world.snapshot();
        let at = snapshot.fabric.find(HOSTS[host]).unwrap();
        snapshot.fabric.node(at).ports[1].guid
    };
    let broadcast = [
        (guid(0), Bits::FULL_MEMBER),
        (guid(2), Bits::SEND_ONLY_NON_MEMBER),
        (ABSENT_PORT, Bits(Bits::FULL_MEMBER.0 | Bits::NON_MEMBER.0)),
    ];
    let one = [(guid(1), Bits::FULL_MEMBER)];
    let groups = vec![
        saved(BROADCAST, 0xC000, &broadcast),
        saved(ALL_HOSTS, 0xC001, &one),
        saved(SHARING, 0xC001, &one),
    ];
    let remembered = SavedSaState {
        groups,
        ..SavedSaState::default()
    };
    let mut sa = Sa::new(SaConfig {
        sm_key: 0,
        ..SaConfig::default()
    });
    assert_eq!(sa.restore(remembered, Time::ZERO), 0);
    sa.replace(&world.snapshot());
    let changed = sa.poll_groups(Time::MAX).unwrap();
    world.handle(Event::Groups(changed));
    world.run(std::time::Duration::from_secs(2));
    let shown = FixedSaState::of(&sa, &world.snapshot()).shown(&world);
    (world, shown)
}

fn port(host: usize) -> PortId {
    PortId {
        node: HOSTS[host],
        number: PortNum(1),
    }
}

#[test]
fn groups_are_listed_with_parameters_and_counts() {
    let (_world, shown) = with_groups();
    let list = |after, limit, filter| now(shown.multicast_groups(after, limit, filter)).unwrap();
    let all = MulticastGroupFilter::default();
    let groups = list(None, usize::MAX, all).items;
    let listed: Vec<_> = groups
        .iter()
        .map(|one| {
            let group = &one.message;
            assert_eq!(group.mgid, one.key.to_string());
            (one.key, group.mlid, group.members, group.full_members)
        })
        .collect();
    let expected = [
        (ALL_HOSTS, 0xC001, 1, 1),
        (BROADCAST, 0xC000, 3, 2),
        (SHARING, 0xC001, 1, 1),
    ];
    assert_eq!(listed, expected);
    // The tree covers two leaves and a spine; the group of a single port needs no switch.
    let broadcast = &groups[1].message;
    assert_eq!(broadcast.switches, 3);
    assert!(broadcast.well_known && !groups[0].message.well_known);
    assert_eq!((broadcast.mtu_bytes, broadcast.rate_gbps), (2048, 2.5));
    assert_eq!((broadcast.p_key, broadcast.service_level), (0xFFFF, 1));

    assert_eq!(list(Some(ALL_HOSTS), 1, all).items, groups[1..2]);
    assert_eq!(list(Some(SHARING), 1, all).items, []);
    let of_port = |host| MulticastGroupFilter {
        port: Some(port(host)),
        ..all
    };
    assert_eq!(list(None, 9, of_port(2)).items, groups[1..2]);
    assert_eq!(list(None, 9, of_port(1)).items.len(), 2);
    assert_eq!(list(None, 9, of_port(3)).items, []);
    let of_partition = |p_key| MulticastGroupFilter {
        p_key: Some(p_key),
        ..all
    };
    assert_eq!(list(None, 9, of_partition(0x7FFF)).items, groups);
    assert_eq!(list(None, 9, of_partition(0x8001)).items, []);
}

#[test]
fn members_and_trees_belong_to_the_group() {
    let (world, shown) = with_groups();
    let named = GroupSelector::Mlid(Lid(0xC000));
    let members = now(shown.multicast_members(named, None, usize::MAX)).unwrap();
    let members = members.items;
    let listed: Vec<_> = members
        .iter()
        .map(|one| {
            let one = &one.message;
            let states: Vec<_> = one.join_states().collect();
            (one.port.clone(), states, one.served, one.proxy)
        })
        .collect();
    let gone = vec![JoinState::FullMember, JoinState::NonMember];
    let present = |host, state| (Some(port(host).into()), vec![state], true, false);
    let expected = [
        present(0, JoinState::FullMember),
        present(2, JoinState::SendOnlyNonMember),
        (None, gone, false, true),
    ];
    assert_eq!(listed, expected);
    let after = Some(members[0].key);
    let rest = now(shown.multicast_members(named, after, 1)).unwrap();
    assert_eq!(rest.items, members[1..2]);
    let descriptions: Vec<_> = (members.iter())
        .map(|member| member.message.description.as_str())
        .collect();
    assert_eq!(descriptions, ["host-1", "twin", ""]);

    let tree = now(shown.multicast_switches(named, None, usize::MAX)).unwrap();
    let table = |switch: Guid| {
        let plan = world.snapshot().plan.unwrap();
        let mask = plan.multicast_table(switch).unwrap().mask(Lid(0xC000));
        mask.ports().map(|port| port.0.into()).collect::<Vec<u32>>()
    };
    for switch in &tree.items {
        assert_eq!(switch.message.ports, table(switch.key), "{switch:?}");
        assert_eq!(switch.message.guid, switch.key.to_string());
    }
    let guids: Vec<_> = tree.items.iter().map(|switch| switch.key).collect();
    assert!(guids.is_sorted() && guids.contains(&LEAF_1) && guids.contains(&LEAF_2));
    let rest = now(shown.multicast_switches(named, Some(guids[0]), 1)).unwrap();
    assert_eq!(rest.items, tree.items[1..2]);
}

/// The output ports by switch and multicast LID in a file in the format of `opensm.mcfdbs`.
fn dumped(text: &str) -> BTreeMap<(Guid, u16), Vec<u8>> {
    let hex = |number: &str| u64::from_str_radix(number.trim_start_matches("0x"), 16).unwrap();
    let mut entries = BTreeMap::new();
    let mut switch = Guid::ZERO;
    for line in text.lines() {
        if let Some(guid) = line.strip_prefix("Switch ") {
            switch = Guid(hex(guid));
        } else if let Some((mlid, ports)) = line.split_once(" :")
            && mlid.starts_with("0x")
        {
            let ports = ports.split_whitespace().map(|port| hex(port) as u8);
            entries.insert((switch, hex(mlid) as u16), ports.collect());
        }
    }
    entries
}

#[test]
fn dumped_multicast_tables_equal_the_tables_of_switches() {
    let (world, _) = with_groups();
    let dir = tempfile::tempdir().unwrap();
    crate::dump::snapshot::write(dir.path(), &world.snapshot()).unwrap();
    let text = std::fs::read_to_string(dir.path().join("opensm.mcfdbs")).unwrap();
    let mut held = BTreeMap::new();
    for switch in [SPINE_A, SPINE_B, LEAF_1, LEAF_2] {
        for mlid in [0xC000, 0xC001] {
            let holds = |port: &u8| {
                let port = PortNum(*port);
                world.sim.multicasts_to(switch, Lid(mlid), port).unwrap()
            };
            let ports: Vec<u8> = (0..=5).filter(holds).collect();
            if !ports.is_empty() {
                held.insert((switch, mlid), ports);
            }
        }
    }
    // The sender's leaf, a spine and the receiver's leaf carry the broadcast group; the other group
    // has a receiver on only one leaf.
    assert_eq!(held.len(), 4, "{held:?}");
    assert_eq!(dumped(&text), held);
}

#[test]
fn group_selectors_find_one_group_or_fail() {
    let (_world, shown) = with_groups();
    let find = |group| now(shown.multicast_group(group));
    let found = find(GroupSelector::Mgid(SHARING)).unwrap();
    assert_eq!((found.mgid, found.mlid), (SHARING.to_string(), 0xC001));
    let missing = GroupSelector::Mlid(Lid(0xC002));
    let refused = LookupError::NoSuchGroup { group: missing };
    assert_eq!(find(missing), Err(refused.into()));
    let refused = LookupError::Ambiguous {
        selector: "0xc001".to_owned(),
        candidates: [ALL_HOSTS, SHARING]
            .map(|mgid| rsm_api::Candidate {
                name: mgid.to_string(),
                facts: String::new(),
            })
            .to_vec(),
        total: 2,
    };
    assert_eq!(find(GroupSelector::Mlid(Lid(0xC001))), Err(refused.into()));
}
