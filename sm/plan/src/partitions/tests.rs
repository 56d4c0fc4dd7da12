use std::path::Path;

use rsm_config::{Enforcement, PartitionLoss, parse_partitions};
use rsm_model::p_keys::PKeyImage;
use rsm_routing::generate::generate;

use super::*;

/// Capacity of the P_KeyTable of an end port, and of an external switch port.
const CAPACITY: (u16, u16) = (6, 4);

/// A ring of three switches with two hosts each. The switches can enforce partitions in both
/// directions.
fn fabric() -> Fabric {
    let mut fabric = Fabric::of_netlist(&generate("ring:3,hosts=2").unwrap());
    for node in fabric.nodes_mut() {
        node.info.set_partition_cap(CAPACITY.0);
        if let Some(switch) = &mut node.switch {
            switch
                .set_partition_enforcement_cap(CAPACITY.1)
                .set_inbound_enforcement_cap(true)
                .set_outbound_enforcement_cap(true);
        }
    }
    fabric
}

fn policy(text: &str) -> Policy {
    let (partitions, findings) = parse_partitions(Path::new("p"), text, true);
    assert!(
        !findings
            .iter()
            .any(|f| f.severity == rsm_config::ConfigSeverity::Error),
        "{findings:?}"
    );
    Policy {
        partitions: Arc::new(partitions),
        ..Policy::default()
    }
}

/// The ports of all hosts; the subnet manager's port is first.
fn hosts(fabric: &Fabric) -> Vec<PortRef> {
    let mut hosts: Vec<_> = fabric
        .end_ports()
        .map(|(at, _)| at)
        .filter(|at| fabric.node(at.node).kind() == NodeType::Ca)
        .collect();
    hosts.sort_by_key(|&at| (Some(at) != fabric.local, at));
    hosts
}

fn guid(fabric: &Fabric, at: PortRef) -> String {
    fabric.port(at).guid.to_string()
}

fn keys(plan: &PartitionPlan, port: PortKey) -> Vec<u16> {
    let table = plan.table(port).map_or(&[][..], |table| &table[..]);
    table.iter().map(|key| key.0).collect()
}

fn codes(plan: &PartitionPlan) -> Vec<&'static str> {
    plan.findings
        .iter()
        .map(|finding| finding.kind.code())
        .collect()
}

#[test]
fn without_a_file_all_ports_are_full_members_without_enforcement() {
    let fabric = fabric();
    let plan = assign(&fabric, &Policy::default());
    assert_eq!(plan.tables().count(), 9);
    assert!(plan.tables().all(|(_, table)| table[..] == [PKey(0xffff)]));
    assert_eq!((plan.enforced.len(), codes(&plan).len()), (0, 0));
    let mut tables = plan.tables().map(|(_, table)| table);
    let first = tables.next().unwrap();
    assert!(tables.all(|table| Arc::ptr_eq(first, table)));
}

#[test]
fn last_rule_for_a_port_counts_and_the_manager_stays_full_member() {
    let fabric = fabric();
    let hosts = hosts(&fabric);
    let [a, b] = [1, 2].map(|host| guid(&fabric, hosts[host]));
    let text = format!(
        "Default=0x7fff : ALL=limited, ALL_SWITCHES=full ;
         One=0x1 : ALL_CAS=full, {a}=limited, {b}=both ;
         Two=0x2, defmember=full : {a}, SELF=limited ;
         Two=0x2 : {a} ;
         Three=0x3 : ALL_ROUTERS=full, NONE ;"
    );
    let plan = assign(&fabric, &policy(&text));
    assert_eq!(codes(&plan), [""; 0]);
    let first = hosts.iter().take(4);
    let all: Vec<_> = first.map(|&host| keys(&plan, fabric.key(host))).collect();
    let expected: [&[u16]; 4] = [
        &[0xffff, 0x8001, 0x0002],
        &[0x7fff, 0x0001, 0x0002],
        &[0x7fff, 0x8001, 0x0001],
        &[0x7fff, 0x8001],
    ];
    assert_eq!(all, expected);
    for (switch, _) in fabric.switches() {
        let port = rsm_ids::PortNum::ZERO;
        assert_eq!(
            keys(&plan, fabric.key(PortRef { node: switch, port })),
            [0xffff]
        );
    }
    // The switch port at the host with both keys of a partition has only the full one.
    let facing = fabric.peer(hosts[2]).unwrap();
    assert_eq!(keys(&plan, fabric.key(facing)), [0x7fff, 0x8001]);
    let both = Enforced {
        inbound: true,
        outbound: true,
    };
    assert_eq!(plan.enforced(fabric.key(facing)), both);
    assert_eq!(plan.enforced.len(), hosts.len());
    assert_eq!(plan.enforced(fabric.key(hosts[2])), Enforced::default());
}

#[test]
fn enforcement_is_limited_by_configuration_and_capability() {
    let mut fabric = fabric();
    let hosts = hosts(&fabric);
    let mut policy = policy("One=0x1 : ALL=full ;");
    let facing = fabric.peer(hosts[0]).unwrap();
    let mut enforced = |fabric: &Fabric, enforcement| {
        policy.enforcement = enforcement;
        let plan = assign(fabric, &policy);
        let Enforced { inbound, outbound } = plan.enforced(fabric.key(facing));
        (inbound, outbound, plan.table(fabric.key(facing)).is_some())
    };
    assert_eq!(enforced(&fabric, Enforcement::In), (true, false, true));
    assert_eq!(enforced(&fabric, Enforcement::Out), (false, true, true));
    assert_eq!(enforced(&fabric, Enforcement::Off), (false, false, false));
    for node in fabric.nodes_mut() {
        if let Some(switch) = &mut node.switch {
            switch.set_outbound_enforcement_cap(false);
        }
    }
    assert_eq!(enforced(&fabric, Enforcement::Both), (true, false, true));
    assert_eq!(enforced(&fabric, Enforcement::Out), (false, false, false));
    for node in fabric.nodes_mut() {
        if let Some(switch) = &mut node.switch {
            switch.set_partition_enforcement_cap(0);
        }
    }
    assert_eq!(enforced(&fabric, Enforcement::Both), (false, false, false));
}

#[test]
fn last_partition_that_claims_index_0_gets_it() {
    let fabric = fabric();
    let hosts = hosts(&fabric);
    let [a, b, c] = [1, 2, 3].map(|host| guid(&fabric, hosts[host]));
    let text = format!(
        "One=0x1, indx0 : {a}=full, {b}=full, {c}=full ;
         Two=0x2, indx0 : {b}=full ;
         One=0x1 : {c}=limited ;"
    );
    let plan = assign(&fabric, &policy(&text));
    assert_eq!(keys(&plan, fabric.key(hosts[0])), [0xffff]);
    assert_eq!(keys(&plan, fabric.key(hosts[1])), [0x8001, 0x7fff]);
    assert_eq!(keys(&plan, fabric.key(hosts[2])), [0x8002, 0x8001, 0x7fff]);
    assert_eq!(keys(&plan, fabric.key(hosts[3])), [0x7fff, 0x0001]);
    assert_eq!(codes(&plan), ["partition-index-claimed"]);
    assert_eq!(
        plan.findings[0].subject,
        Subject::Port(fabric.key(hosts[2]))
    );
    assert!(plan.findings[0].text.contains("0x8002"));
}

#[test]
fn too_small_table_is_a_finding_at_its_port() {
    let fabric = fabric();
    let hosts = hosts(&fabric);
    let a = guid(&fabric, hosts[1]);
    let memberships = |count: u16| -> String {
        (1..=count)
            .map(|key| format!("P=0x{key:x} : {a}=full ;"))
            .collect()
    };
    // The switch port's table is too small: the port enforces nothing, so that it does not cut off
    // the host.
    let plan = assign(&fabric, &policy(&memberships(4)));
    assert_eq!(codes(&plan), ["partition-table-too-small"]);
    let facing = fabric.peer(hosts[1]).unwrap();
    assert_eq!(plan.findings[0].subject, Subject::Port(fabric.key(facing)));
    assert_eq!(plan.enforced(fabric.key(facing)), Enforced::default());
    assert!(plan.table(fabric.key(facing)).is_none());
    assert_eq!(plan.enforced.len(), hosts.len() - 1);
    // The host's table is too small, too.
    let plan = assign(&fabric, &policy(&memberships(20)));
    let own: Vec<_> = plan
        .findings
        .iter()
        .filter(|finding| finding.subject == Subject::Port(fabric.key(hosts[1])))
        .collect();
    assert_eq!(own.len(), 1);
    let text = &own[0].text;
    assert!(
        text.contains("0x8006, 0x8007, 0x8008") && text.ends_with("and 7 more"),
        "{text}"
    );
    assert_eq!(
        keys(&plan, fabric.key(hosts[1])),
        [0x7fff, 0x8001, 0x8002, 0x8003, 0x8004, 0x8005]
    );
}

#[test]
fn findings_beyond_the_bound_are_counted() {
    let mut fabric = Fabric::of_netlist(&generate("ring:3,hosts=40").unwrap());
    for node in fabric.nodes_mut() {
        node.info.set_partition_cap(1);
    }
    let plan = assign(&fabric, &policy("One=0x1 : ALL_CAS=full ;"));
    assert_eq!(plan.findings.len(), FINDINGS_SHOWN + 1);
    let last = plan.findings.last().unwrap();
    assert_eq!(last.subject, Subject::Subnet);
    assert!(last.text.ends_with("20 more ports"), "{}", last.text);
}

#[test]
fn absent_table_is_no_finding_for_default_membership() {
    let mut fabric = fabric();
    for node in fabric.nodes_mut() {
        node.info.set_partition_cap(0);
    }
    let plan = assign(&fabric, &Policy::default());
    assert_eq!((plan.tables().count(), plan.findings.len()), (0, 0));
    let plan = assign(&fabric, &policy("One=0x1 : SELF=full ;"));
    assert_eq!(plan.tables().count(), 0);
    assert_eq!(plan.findings.len(), 9, "no port can hold its keys");
}

#[test]
fn held_keys_keep_their_index() {
    let mut fabric = fabric();
    let at = hosts(&fabric)[1];
    let mut held = [PKey::INVALID; 32];
    held[..5].copy_from_slice(&[0xffff, 0, 0x8005, 0x0004, 0x8001].map(PKey));
    let mut image = PKeyImage::default();
    image.store(0, &held);
    fabric.port_mut(at).p_keys = Some(Arc::new(image));
    let a = guid(&fabric, at);
    let text = format!("A=1 : {a}=full ; B=2 : {a}=full ; E=5 : {a} ; Default : ALL=full ;");
    let plan = assign(&fabric, &policy(&text));
    assert_eq!(
        keys(&plan, fabric.key(at)),
        [0xffff, 0x8002, 0x0005, 0, 0x8001]
    );
}

#[test]
fn empty_index_0_that_an_earlier_version_left_gets_the_default_key() {
    let mut fabric = fabric();
    let at = hosts(&fabric)[1];
    let mut held = [PKey::INVALID; 32];
    held[1..3].copy_from_slice(&[0xffff, 0x8005].map(PKey));
    let mut image = PKeyImage::default();
    image.store(0, &held);
    fabric.port_mut(at).p_keys = Some(Arc::new(image));
    let plan = assign(&fabric, &Policy::default());
    assert_eq!(keys(&plan, fabric.key(at)), [0xffff]);
    let text = format!("E=5 : {}=full ; Default : ALL=full ;", guid(&fabric, at));
    let plan = assign(&fabric, &policy(&text));
    assert_eq!(keys(&plan, fabric.key(at)), [0xffff, 0, 0x8005]);
}

/// The changed members are named by GUID, before and after a rule for all ports. The later of two
/// rules for one port counts.
#[test]
fn changed_members_are_followed_and_other_changes_are_not() {
    let fabric = fabric();
    let [a, b, c] = [1, 2, 3].map(|host| guid(&fabric, hosts(&fabric)[host]));
    let same_file = [
        format!("T=3 : {a}=full, {b}=full ; Default : ALL=full ;"),
        format!("T=3 : {a}=full, {b}=full, {c}=limited ; Default : ALL=full ;"),
        format!("T=3 : {a}=limited, {c}=full ; Default : ALL=full ;"),
        format!("T=3 : {b} ; Default : ALL=full ;"),
        format!("T=3 : {b}=full ; Default : ALL=full, {b}=limited ;"),
        format!("T=3 : {b}=full ; Default : {b}=limited, ALL=full ;"),
    ];
    let policies: Vec<Policy> = same_file.iter().map(|text| policy(text)).collect();
    for before in &policies {
        let previous = Arc::new(assign(&fabric, before));
        for after in &policies {
            let changed = after.changed_members(before).expect("only named members");
            let of_before = (&fabric, before);
            let followed = follow(&previous, of_before, &fabric, after, &changed);
            assert_eq!(
                *followed.expect("there are no findings"),
                assign(&fabric, after)
            );
        }
    }
    let first = &policies[0];
    for other in [
        format!("T=4 : {a}=full, {b}=full ; Default : ALL=full ;"),
        format!("T=3 : {a}=full, {b}=full ; Default : ALL=limited, SELF=full ;"),
        format!("T=3, sl=2 : {a}=full, {b}=full ; Default : ALL=full ;"),
    ] {
        assert_eq!(policy(&other).changed_members(first), None, "{other}");
    }
    let other = Policy {
        lmc: rsm_ids::Lmc::from_bits(1),
        ..first.clone()
    };
    assert_eq!(other.changed_members(first), None);
}

fn loss(fabric: &Fabric, p_key: u16, before: &str, after: &str) -> PartitionLoss {
    let (before, after) = (policy(before).partitions, policy(after).partitions);
    loss_between(fabric, PKey(p_key), &before, &after)
}

#[test]
fn limited_default_partition_isolates_all_hosts_but_the_manager() {
    let fabric = fabric();
    let lost = loss(
        &fabric,
        0x7fff,
        "Default=0x7fff : ALL=full ;",
        "Default=0x7fff : ALL=limited, ALL_SWITCHES=full ;",
    );
    // There are six hosts; the one of the subnet manager stays a full member.
    assert_eq!((lost.changed, lost.ports, lost.isolated), (5, 5, 5));
    assert_eq!((lost.pairs, lost.names.len()), (5 * 4 / 2, 5));
    assert!(!lost.names[0].is_empty() && lost.names[0].ends_with(" port 1"));
    assert!(
        lost.to_string()
            .starts_with("5 ports cut off from others in it (10 pairs), all of them")
    );
}

#[test]
fn ports_that_share_another_partition_are_not_isolated() {
    let fabric = fabric();
    let [a, b, c] = [1, 2, 3].map(|host| guid(&fabric, hosts(&fabric)[host]));
    let all = format!("Default=0x7fff : ALL=full ; T=1 : {a}=full, {b}=limited, {c}=limited ;");
    let without_b = format!("Default=0x7fff : ALL=full ; T=1 : {a}=full, {c}=limited ;");
    let lost = loss(&fabric, 1, &all, &without_b);
    // Limited members could not communicate with each other before, either.
    assert_eq!(
        (lost.changed, lost.ports, lost.pairs, lost.isolated),
        (1, 2, 1, 0)
    );
    let limited = "Default=0x7fff : ALL=limited ; ";
    let lost = loss(
        &fabric,
        1,
        &format!("{limited} T=1 : {a}=full, {b}=full ;"),
        &format!("{limited} T=1 : {a}=full ;"),
    );
    assert_eq!((lost.ports, lost.pairs, lost.isolated), (2, 1, 2));
    // New members and more rights cause no loss.
    let lost = loss(&fabric, 1, &without_b, &all);
    assert!(lost.is_none() && lost.changed == 1);
    let lost = loss(&fabric, 1, &all, &all.replace("limited", "both"));
    assert!(lost.is_none() && lost.changed == 2, "{lost:?}");
}

/// The pairs of hosts' ports that can communicate in the partition with this P_Key base: one port
/// holds the full key, and the other port holds any key of the partition.
fn communicating_pairs(
    fabric: &Fabric,
    plan: &PartitionPlan,
    base: u16,
) -> BTreeSet<(PortRef, PortRef)> {
    let hosts = hosts(fabric);
    let holds = |at: PortRef, full: bool| {
        let table = plan.table(fabric.key(at)).expect("each host has a table");
        let mut keys = table.iter().filter(|key| key.base() == base);
        keys.any(|key| key.is_full() || !full)
    };
    let pairs = hosts
        .iter()
        .flat_map(|&a| hosts.iter().map(move |&b| (a, b)));
    pairs
        .filter(|(a, b)| a < b)
        .filter(|&(a, b)| holds(a, true) && holds(b, false) || holds(a, false) && holds(b, true))
        .collect()
}

proptest::proptest! {
    #[test]
    fn lost_pairs_equal_the_pairs_that_planned_tables_no_longer_connect(
        before in proptest::collection::vec(0usize..4, 5),
        after in proptest::collection::vec(0usize..4, 5),
    ) {
        let fabric = fabric();
        let guids: Vec<String> = hosts(&fabric)[1..].iter().map(|&at| guid(&fabric, at)).collect();
        let text = |memberships: &[usize]| {
            let members = guids.iter().zip(memberships).filter(|&(_, &one)| one > 0);
            let members = members.map(|(guid, &one)| {
                format!("T=1 : {guid}={} ;", ["", "limited", "full", "both"][one])
            });
            format!("Default=0x7fff : ALL=full ; T=1 : NONE ; {}", members.collect::<String>())
        };
        let (before, after) = (text(&before), text(&after));
        let lost = loss(&fabric, 1, &before, &after);
        let pairs = |text: &str| communicating_pairs(&fabric, &assign(&fabric, &policy(text)), 1);
        let pairs_lost: BTreeSet<_> = pairs(&before).difference(&pairs(&after)).copied().collect();
        let ports: BTreeSet<PortRef> = pairs_lost.iter().flat_map(|&(a, b)| [a, b]).collect();
        proptest::prop_assert_eq!((lost.pairs, lost.ports), (pairs_lost.len() as u64, ports.len()));
    }
}

fn foreseen_findings(fabric: &Fabric, text: &str) -> Vec<(&'static str, String)> {
    let policy = policy(text);
    let plan = assign(fabric, &policy);
    let found = foreseen(fabric, &policy.partitions, &plan).into_iter();
    found
        .map(|finding| (finding.kind.code(), finding.text))
        .collect()
}

#[test]
fn hosts_slower_than_their_broadcast_group_are_reported() {
    let fabric = fabric();
    let hosts = hosts(&fabric);
    let [a, b] = [1, 2].map(|host| guid(&fabric, hosts[host]));
    let all = "Default=0x7fff, ipoib : ALL=full ;";
    assert_eq!(foreseen_findings(&fabric, all), []);
    let text = format!("{all} fast=0x10, ipoib, rate=24, mtu=5 : {a}=full, {b}=full ;");
    let [(code, text)] = &foreseen_findings(&fabric, &text)[..] else {
        panic!("there is one finding");
    };
    assert_eq!(*code, "partition-too-fast");
    let names = [1, 2].map(|host| fabric.node(hosts[host].node).name());
    for part in [
        "`fast` (0x0010)",
        "2 ports",
        "1200 Gb/s (code 24)",
        &names[0],
        &names[1],
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Without `ipoib`, the partition has no broadcast group.
    let text = format!("{all} fast=0x10, rate=24 : {a}=full, {b}=full ;");
    assert_eq!(foreseen_findings(&fabric, &text), []);
}

#[test]
fn partition_with_only_limited_members_is_reported() {
    let fabric = fabric();
    let [a, b] = [1, 2].map(|host| guid(&fabric, hosts(&fabric)[host]));
    let [(code, text)] = &foreseen_findings(&fabric, &format!("blue=0x10 : {a}, {b} ;"))[..] else {
        panic!("there is one finding");
    };
    assert_eq!(*code, "partition-limited-only");
    assert!(
        text.contains("`blue` (0x0010): all 2 members are limited members"),
        "{text}"
    );
    // No finding: an absent port is a full member, there is only one member, or one is full.
    for members in [
        format!("{a}, {b}, 0x77=full"),
        a.clone(),
        format!("{a}=full, {b}"),
    ] {
        assert_eq!(
            foreseen_findings(&fabric, &format!("blue=0x10 : {members} ;")),
            []
        );
    }
}

#[test]
fn hosts_that_can_reach_no_other_host_are_reported() {
    let fabric = fabric();
    let [a, b] = [1, 2].map(|host| guid(&fabric, hosts(&fabric)[host]));
    let found = |text: &str| isolated_hosts(&fabric, &assign(&fabric, &policy(text)));
    assert_eq!(
        isolated_hosts(&fabric, &assign(&fabric, &Policy::default())),
        None
    );
    let limited = "Default=0x7fff : ALL, SELF=full ;";
    let all = found(limited).expect("limited members cannot communicate with each other");
    assert_eq!(
        (all.kind.code(), all.severity),
        ("partition-apart", Severity::Error)
    );
    assert!(
        all.text
            .starts_with("5 of 5 ports of hosts reach no other host: "),
        "{}",
        all.text
    );
    let pair = format!("{limited} blue=0x10 : {a}=full, {b} ;");
    assert_eq!(found(&pair), None, "two of five ports reach each other");
    let all_but_one =
        format!("{limited} blue=0x10 : ALL_CAS=full, {a}=limited ; red=0x11 : {a}=full ;");
    assert_eq!(found(&all_but_one), None);
    let both = format!("{limited} blue=0x10 : ALL_CAS=full ; red=0x11 : {a}=both ;");
    assert_eq!(found(&both), None, "the port is also in blue");
}

#[test]
fn adapters_of_one_host_alone_in_a_partition_reach_no_other_host() {
    let mut fabric = fabric();
    let hosts = hosts(&fabric);
    for (at, name) in [(hosts[1], "host-9 mlx5_0"), (hosts[2], "host-9 mlx5_1")] {
        let node = fabric.key(at).node;
        let mut nodes = fabric.nodes_mut();
        let node = nodes.find(|one| one.guid == node).expect("it is there");
        node.description = name.to_owned();
    }
    let guids: Vec<String> = hosts.iter().map(|&at| guid(&fabric, at)).collect();
    let [_, a, b, c, d, e] = &guids[..] else {
        panic!("{guids:?}");
    };
    let text = format!(
        "Default=0x7fff : ALL, SELF=full ; blue=0x10 : {c}=full, {d}=full, {e}=full ; \
         red=0x11 : {a}=full, {b}=full ;"
    );
    let found = isolated_ports(&fabric, &assign(&fabric, &policy(&text)));
    let mut both = vec![hosts[1], hosts[2]];
    both.sort_unstable();
    assert_eq!((found.ports, found.of), (both, 5));
    let before = text.replace("blue=0x10 :", &format!("blue=0x10 : {a}=full, {b}=full,"));
    let lost = loss(&fabric, 0x10, &before, &text);
    assert_eq!((lost.ports, lost.isolated), (5, 2));
    let shared = text.replace("red=0x11 :", "red=0x11 : ALL_CAS,");
    let found = isolated_ports(&fabric, &assign(&fabric, &policy(&shared)));
    assert_eq!((found.ports, found.of), (Vec::new(), 5));
}

#[test]
fn node_guid_in_place_of_a_port_guid_is_reported_with_the_port_guid() {
    let mut fabric = fabric();
    let at = hosts(&fabric)[1];
    let (absent, system) = (Guid(0x7700), Guid(0x7701));
    fabric.port_mut(at).guid = Guid(0x7702);
    let (port, node) = (guid(&fabric, at), fabric.key(at).node);
    let mut nodes = fabric.nodes_mut();
    let host = nodes
        .find(|one| one.guid == node)
        .expect("the fabric has the node");
    host.info.set_system_image_guid(system);
    drop(nodes);
    for (wrong, kind) in [(node, "node GUID"), (system, "system image GUID")] {
        let found = foreseen_findings(&fabric, &format!("st=0x30 : {wrong}=full ;"));
        let [(code, text)] = &found[..] else {
            panic!("{kind}: {found:?}");
        };
        assert_eq!(*code, "partition-node-guid");
        for part in ["`st` (0x0030)", &*wrong.to_string(), kind, &*port] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    // No finding: the port GUID, and a GUID that no device has.
    assert_eq!(
        foreseen_findings(&fabric, &format!("st=0x30 : {port}=full, {absent}=full ;")),
        []
    );
}
