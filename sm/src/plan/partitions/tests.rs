use std::path::Path;

use rsm_routing::generate::generate;

use super::*;
use crate::config::{Enforcement, parse_partitions};
use crate::offline;
use crate::sweep::p_keys::PKeyImage;

/// Capacity of an end port's table, and of a switch port's.
const CAPACITY: (u16, u16) = (6, 4);

/// Two hosts at each of three switches.
fn fabric() -> Fabric {
    let mut fabric = offline::fabric(&generate("ring:3,hosts=2").unwrap());
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
            .any(|f| f.severity == crate::config::ConfigSeverity::Error),
        "{findings:?}"
    );
    Policy {
        partitions: Arc::new(partitions),
        ..Policy::default()
    }
}

/// The hosts' ports, the subnet manager's first.
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
    assert_eq!((plan.enforcing(), codes(&plan).len()), (0, 0));
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
    assert_eq!(plan.enforcing(), hosts.len());
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
fn last_claim_gets_index_0() {
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
    let some = |count: u16| -> String {
        (1..=count)
            .map(|key| format!("P=0x{key:x} : {a}=full ;"))
            .collect()
    };
    // More than the switch port holds: it enforces nothing, so as not to cut the host off.
    let plan = assign(&fabric, &policy(&some(4)));
    assert_eq!(codes(&plan), ["partition-table-too-small"]);
    let facing = fabric.peer(hosts[1]).unwrap();
    assert_eq!(plan.findings[0].subject, Subject::Port(fabric.key(facing)));
    assert_eq!(plan.enforced(fabric.key(facing)), Enforced::default());
    assert!(plan.table(fabric.key(facing)).is_none());
    assert_eq!(plan.enforcing(), hosts.len() - 1);
    // More than the host holds.
    let plan = assign(&fabric, &policy(&some(20)));
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
    let mut fabric = offline::fabric(&generate("ring:3,hosts=40").unwrap());
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
    assert_eq!(plan.findings.len(), 9, "none but the default is to be held");
}

#[test]
fn held_keys_stay_in_place() {
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

/// Rules for named ports that change, around rules for all ports: of two rules for one port the
/// later counts.
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
            assert_eq!(*followed.expect("nothing is found"), assign(&fabric, after));
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
