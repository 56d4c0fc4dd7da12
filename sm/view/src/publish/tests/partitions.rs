//! Tests of partitions and their members.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rsm_api::model::{Membership, PortId, SubnetState};
use rsm_api::{LookupError, Subnet};
use rsm_config::parse_partitions;
use rsm_core::{CoreConfig, Event};
use rsm_ids::PortNum;
use rsm_plan::policy::Policy;

use super::world::*;

const TEXT: &str = "\
Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;
Tenant A=0x10, ipoib, sl=3 : 0x1000=full, 0x1010, 0x1030=both ;
0x11 : NONE ;";

/// The small fabric with partitions.
pub(super) fn divided() -> World {
    with_partitions(TEXT)
}

/// The partitions of a site where every host is a limited member.
const ALL_LIMITED: &str = "Default=0x7fff : ALL=limited, SELF=full ;";

/// The small fabric where no host reaches another host.
pub(super) fn all_limited() -> World {
    with_partitions(ALL_LIMITED)
}

/// The small fabric where the last host shares no partition with the others.
pub(super) fn one_apart() -> World {
    with_partitions(
        "Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;\n\
         tenant=0x12 : 0x1000=full, 0x1010=full, 0x1020=full ;",
    )
}

/// The small fabric where the second host shares no partition with the two after it.
pub(super) fn second_apart() -> World {
    with_partitions(
        "Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;\n\
         tenant=0x12 : 0x1020=full, 0x1030=full ;",
    )
}

/// The small fabric with the partitions of a file.
fn with_partitions(text: &str) -> World {
    let mut world = World::up();
    let guids = HOSTS.map(|host| {
        let at = world.snapshot().fabric.find(host).unwrap();
        let guid = world.snapshot().fabric.node(at).ports[1].guid;
        (host.to_string(), guid.to_string())
    });
    let mut text = text.to_owned();
    for (host, port) in guids {
        let short = format!("0x{:x}", host.parse::<rsm_ids::Guid>().unwrap().0);
        text = text.replace(&short, &port);
    }
    let (partitions, findings) = parse_partitions(Path::new("p"), &text, true);
    assert_eq!(findings, []);
    let policy = Policy {
        partitions: Arc::new(partitions),
        ..Policy::default()
    };
    let config = CoreConfig {
        policy: Arc::new(policy),
        light_sweep: Duration::ZERO,
        ..CoreConfig::default()
    };
    world.handle(Event::Reload(Box::new(config)));
    world.run(Duration::from_secs(2));
    assert!(world.core.is_settled());
    world
}

#[test]
fn status_says_that_partitions_keep_hosts_apart() {
    assert_eq!(World::up().view.status().partitions_apart, "");
    let apart = |text: &str| with_partitions(text).view.status().partitions_apart;
    assert_eq!(apart(TEXT), "", "one host of three waits for a partition");
    assert_eq!(
        apart(ALL_LIMITED),
        "3 of 3 ports of hosts reach no other host"
    );
    let status = all_limited().view.status();
    assert_eq!(
        (status.state(), status.state_reason.as_str()),
        (SubnetState::Degraded, "1 error")
    );
}

#[test]
fn without_a_partitions_file_there_is_one_partition() {
    let world = World::up();
    let page = world.view.partitions(None, usize::MAX);
    let [partition] = &page.items[..] else {
        panic!("{page:?}");
    };
    let partition = &partition.message;
    assert_eq!(
        (partition.p_key, partition.name.as_str()),
        (0x7fff, "Default")
    );
    assert_eq!((partition.full_members, partition.limited_members), (8, 0));
    assert!(partition.ipoib && partition.groups == 1);
    assert_eq!(blank_view().partitions(None, usize::MAX).items, []);
}

#[test]
fn partitions_and_members_are_taken_from_the_plan() {
    let world = divided();
    let view = &world.view;
    let list = view.partitions(None, usize::MAX).items;
    let shown: Vec<_> = list
        .iter()
        .map(|one| {
            let one = &one.message;
            let counts = (one.full_members, one.limited_members);
            (
                one.p_key,
                one.name.as_str(),
                counts,
                one.service_level,
                one.groups,
            )
        })
        .collect();
    let expected = [
        (0x10, "Tenant A", (2, 1), 3, 1),
        (0x11, "0x0011", (0, 0), 0, 0),
        (0x7fff, "Default", (5, 3), 0, 0),
    ];
    assert_eq!(shown, expected);
    assert_eq!(view.partitions(Some(0x10), 1).items, list[1..2]);
    assert_eq!(view.partitions(Some(0x7fff), 1).items, []);

    let members = view
        .partition_members(0x8010, None, usize::MAX)
        .unwrap()
        .items;
    let shown: Vec<_> = members
        .iter()
        .map(|one| (one.key, one.message.membership(), one.message.index))
        .collect();
    let key = |host: usize| PortId {
        node: HOSTS[host],
        number: PortNum(1),
    };
    let expected = [
        (key(0), Membership::Full, 1),
        (key(1), Membership::Limited, 1),
        (key(3), Membership::Both, 1),
    ];
    assert_eq!(shown, expected);
    let of_port = view.partitions_of_port(key(1));
    let of_port = of_port.iter().map(|one| {
        let p_key = (one.p_key, one.name.as_str());
        (p_key, one.membership(), one.index)
    });
    let expected = [
        ((0x10, "Tenant A"), Membership::Limited, 1),
        ((0x7fff, "Default"), Membership::Limited, 0),
    ];
    assert!(of_port.eq(expected));
    let absent = PortId {
        number: PortNum(9),
        ..key(1)
    };
    assert_eq!(view.partitions_of_port(absent), []);
    let rest = view.partition_members(0x10, Some(key(0)), 1).unwrap();
    assert_eq!(rest.items, members[1..2]);
    assert_eq!(view.partition_members(0x11, None, 9).unwrap().items, []);
    assert_eq!(
        view.partition_members(0x12, None, 9).unwrap_err(),
        LookupError::NoSuchPartition { p_key: 0x12 }
    );
}
