use std::collections::BTreeMap;

use proptest::prelude::*;
use rsm_ids::PortNum;
use rsm_model::vports::{PortVPorts, VNode, VPort, VPortKey};
use rsm_routing::generate::generate;
use rsm_routing::netlist::{Netlist, NodeKind, PortSpec};

use super::*;

/// The number of ports of the fabrics below, which have ten hosts and five switches.
const PORTS: usize = 15;

/// A ring of five switches with two hosts each. `held` are the LIDs and LMCs of the ports, in the
/// order of the nodes.
fn fabric(held: &[Option<(u16, u8)>]) -> Fabric {
    let (mut nodes, cables) = generate("ring:5,hosts=2").unwrap().into_parts();
    for (node, held) in nodes.iter_mut().zip(held) {
        let port = match node.kind {
            NodeKind::Switch => PortNum::ZERO,
            _ => PortNum(1),
        };
        let (lid, lmc) = held.unwrap_or((0, 0));
        let spec = PortSpec {
            guid: node.guid,
            lid: Lid(lid),
            lmc: Lmc::new(lmc).unwrap(),
        };
        node.ports.insert(port, spec);
    }
    Fabric::of_netlist(&Netlist::new(nodes, cables).unwrap())
}

fn policy(lmc: u8) -> Policy {
    Policy {
        lmc: Lmc::new(lmc).unwrap(),
        ..Policy::default()
    }
}

/// The planned LIDs by port GUID.
fn lids_by_guid(fabric: &Fabric, plan: &LidPlan) -> BTreeMap<Guid, Claim> {
    plan.lids
        .iter()
        .map(|(&port, &claim)| {
            let at = fabric.find_port(port).unwrap();
            (fabric.port(at).guid, claim)
        })
        .collect()
}

fn range(claim: Claim) -> std::ops::Range<u32> {
    let base = u32::from(claim.base.0);
    base..base + u32::from(claim.lmc.lids())
}

fn overlap(a: Claim, b: Claim) -> bool {
    range(a).start < range(b).end && range(b).start < range(a).end
}

/// LIDs from a small space, so that they collide.
fn held() -> impl Strategy<Value = Vec<Option<(u16, u8)>>> {
    prop::collection::vec(prop::option::of((1..40u16, 0..3u8)), PORTS)
}

fn claims() -> impl Strategy<Value = Vec<Option<(u16, u8)>>> {
    prop::collection::vec(prop::option::of((0..60u16, 0..3u8)), PORTS)
}

fn remembered(fabric: &Fabric, claims: &[Option<(u16, u8)>]) -> Claims {
    fabric
        .end_ports()
        .zip(claims)
        .filter_map(|((_, port), claim)| {
            let (base, lmc) = (*claim)?;
            let claim = Claim {
                base: Lid(base),
                lmc: Lmc::new(lmc).ok()?,
            };
            Some((port.guid, claim))
        })
        .collect()
}

proptest! {
    #[test]
    fn one_holder_of_each_lid_keeps_that_lid(held in held(), claims in claims(), lmc in 0..4u8) {
        let fabric = fabric(&held);
        let claims = remembered(&fabric, &claims);
        let plan = assign(&fabric, &claims, &policy(lmc));
        let given = lids_by_guid(&fabric, &plan);
        let mut holders: BTreeMap<Lid, Vec<Guid>> = BTreeMap::new();
        for (_, port) in fabric.end_ports() {
            if port.lid().is_unicast() {
                holders.entry(port.lid()).or_default().push(port.guid);
            }
        }
        for (lid, guids) in holders {
            let keep = guids.iter().filter(|guid| given[*guid].base == lid).count();
            prop_assert_eq!(keep, 1, "one of {:?} keeps LID {}", guids, lid);
            let entitled = guids.iter().find(|guid| claims.get(guid).is_some_and(|claim| claim.base == lid));
            if let Some(entitled) = entitled {
                // Several ports may have a claim to the LID; one of them keeps it.
                let keeper = guids.iter().find(|guid| given[*guid].base == lid).unwrap();
                prop_assert!(claims.get(keeper).is_some_and(|claim| claim.base == lid), "{} has a claim", entitled);
            }
        }
    }

    #[test]
    fn assigned_ranges_are_aligned_and_disjoint(held in held(), claims in claims(), lmc in 0..4u8) {
        let fabric = fabric(&held);
        let plan = assign(&fabric, &remembered(&fabric, &claims), &policy(lmc));
        prop_assert!(plan.left_out.is_empty());
        let given: Vec<Claim> = plan.lids.values().copied().collect();
        prop_assert_eq!(given.len(), PORTS);
        for (index, &claim) in given.iter().enumerate() {
            prop_assert!(claim.base.is_unicast() && claim.lmc.aligns(claim.base), "{:?}", claim);
            for &other in &given[index + 1..] {
                prop_assert!(!overlap(claim, other), "{:?} and {:?}", claim, other);
            }
        }
        for (&port, claim) in &plan.lids {
            let most = if fabric.node_of(port.node).unwrap().is_switch() { 0 } else { lmc };
            prop_assert!(claim.lmc.get() == most || claim.lmc == Lmc::ZERO);
        }
    }

    #[test]
    fn assignment_is_stable_once_ports_hold_it(held in held(), lmc in 0..4u8) {
        let before = fabric(&held);
        let plan = assign(&before, &Claims::new(), &policy(lmc));
        let given = lids_by_guid(&before, &plan);
        // The fabric after every port got its LIDs.
        let (nodes, _) = generate("ring:5,hosts=2").unwrap().into_parts();
        let now: Vec<Option<(u16, u8)>> = nodes
            .iter()
            .map(|node| given.get(&node.guid).map(|claim| (claim.base.0, claim.lmc.get())))
            .collect();
        let after = fabric(&now);
        prop_assert_eq!(lids_by_guid(&after, &assign(&after, &Claims::new(), &policy(lmc))), given);
    }
}

#[test]
fn lmc_range_does_not_displace_a_held_lid() {
    let mut held = vec![None; PORTS];
    let (nodes, _) = generate("ring:5,hosts=2").unwrap().into_parts();
    let hosts: Vec<usize> = (0..PORTS)
        .filter(|&index| nodes[index].kind == NodeKind::Ca)
        .collect();
    held[hosts[0]] = Some((8, 0));
    held[hosts[1]] = Some((9, 0));
    let fabric = fabric(&held);
    let plan = assign(&fabric, &Claims::new(), &policy(2));
    let given = lids_by_guid(&fabric, &plan);
    for (host, lid) in [(hosts[0], 8), (hosts[1], 9)] {
        let claim = given[&nodes[host].guid];
        assert_eq!((claim.base, claim.lmc), (Lid(lid), Lmc::ZERO));
    }
    let kinds: Vec<FindingKind> = plan.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::LmcNotApplied; 2]);
}

#[test]
fn lid_of_an_absent_port_is_assigned_last() {
    let fabric = fabric(&[None; PORTS]);
    let absent = Claim {
        base: Lid(3),
        lmc: Lmc::ZERO,
    };
    let claims = Claims::from([(Guid(0xdead), absent)]);
    let plan = assign(&fabric, &claims, &Policy::default());
    assert!(plan.lids.values().all(|claim| claim.base != Lid(3)));
    let highest = plan.lids.values().map(|claim| claim.base).max();
    assert_eq!(highest, Some(Lid(PORTS as u16 + 1)));
}

#[test]
fn floating_lid_moves_to_the_managers_port_and_its_former_holder_gets_that_ports_lid() {
    let held: Vec<Option<(u16, u8)>> = (1..=PORTS as u16).map(|lid| Some((lid, 0))).collect();
    let mut fabric = fabric(&held);
    let hosts: Vec<PortRef> = fabric
        .end_ports()
        .filter(|(at, _)| fabric.node(at.node).switch.is_none())
        .map(|(at, _)| at)
        .collect();
    let (own, before) = (hosts[0], hosts[3]);
    fabric.local = Some(own);
    let guid = |at: PortRef| fabric.port(at).guid;
    let lid = |at: PortRef| fabric.port(at).lid();
    let at_lid = |base| Claim {
        base,
        lmc: Lmc::ZERO,
    };
    let mut claims: Claims = fabric
        .end_ports()
        .map(|(_, port)| (port.guid, at_lid(port.lid())))
        .collect();
    let unmoved = assign(&fabric, &claims, &policy(0));
    let floating = Policy {
        floating_lid: true,
        ..policy(0)
    };
    assert_eq!(assign(&fabric, &claims, &floating), unmoved);
    // A LID does not float away from a port that has the claim to it.
    claims.insert(guid(own), at_lid(lid(before)));
    assert_eq!(assign(&fabric, &claims, &floating), unmoved);

    claims.insert(guid(before), at_lid(lid(own)));
    let plan = assign(&fabric, &claims, &floating);
    assert_eq!(plan.findings, []);
    let mut expected = lids_by_guid(&fabric, &unmoved);
    expected.insert(guid(own), at_lid(lid(before)));
    expected.insert(guid(before), at_lid(lid(own)));
    assert_eq!(lids_by_guid(&fabric, &plan), expected);
    // Without the policy `floating_lid`, held LIDs have precedence over claims.
    assert_eq!(assign(&fabric, &claims, &policy(0)), unmoved);
}

/// Adds a virtual port at index 1 with `guid` and `lid` to the port of the host `number` of
/// [`fabric`]. Returns the key of the virtual port.
fn add_vport(fabric: &mut Fabric, number: usize, guid: Guid, lid: Option<Lid>) -> VPortKey {
    let hosts = fabric.end_ports().map(|(at, _)| at);
    let hosts: Vec<PortRef> = hosts
        .filter(|at| fabric.node(at.node).kind() != NodeType::Switch)
        .collect();
    let at = hosts[number];
    let mut vport = VPort {
        node: VNode {
            guid,
            ..VNode::default()
        },
        ..VPort::default()
    };
    vport
        .info
        .set_port_guid(guid)
        .set_lid_required(true)
        .set_lid(lid.unwrap_or(Lid::NONE));
    let mut vports = PortVPorts::default();
    vports.vports.insert(1, vport);
    fabric.port_mut(at).vports = Some(std::sync::Arc::new(vports));
    VPortKey::new(fabric.key(at), 1)
}

#[test]
fn vport_keeps_the_lid_of_its_guid_wherever_it_is() {
    const MOVING: Guid = Guid(0x00AA_0001);
    let mut first = fabric(&[None; PORTS]);
    let first_key = add_vport(&mut first, 0, MOVING, None);
    let plan = assign(&first, &Claims::new(), &policy(0));
    let lid = plan.vports[&first_key];
    assert_eq!(usize::from(lid.0), PORTS + 1, "ports get their LIDs first");
    let mut claims: Claims = vport_claims(&plan, &first).collect();
    claims.extend(lids_by_guid(&first, &plan));

    let mut moved = fabric(&[None; PORTS]);
    let moved_key = add_vport(&mut moved, 7, MOVING, None);
    let plan = assign(&moved, &claims, &policy(0));
    assert_eq!(plan.vports[&moved_key], lid);
    // A new virtual port takes the LID of an absent virtual port only if no other LID is free.
    let mut other = fabric(&[None; PORTS]);
    let new = add_vport(&mut other, 3, Guid(0x00AA_0002), None);
    let plan = assign(&other, &claims, &policy(0));
    assert_eq!(plan.vports[&new], Lid(lid.0 + 1));
}

#[test]
fn raised_lmc_takes_no_lid_of_a_virtual_port() {
    let ranges: [_; PORTS] = std::array::from_fn(|at| Some((4 * at as u16 + 8, 0)));
    let mut fabric = fabric(&ranges);
    let is_host = |at: &PortRef| fabric.node(at.node).kind() != NodeType::Switch;
    let mut ends = fabric.end_ports().map(|(at, _)| at);
    let host = ends.find(is_host).expect("there is a host");
    let base = fabric.port(host).lid();
    drop(ends);
    let key = add_vport(&mut fabric, 0, Guid(0x00AA_0001), Some(Lid(base.0 + 1)));
    let plan = assign(&fabric, &Claims::new(), &policy(2));
    assert_eq!(plan.vports[&key], Lid(base.0 + 1));
    assert_eq!(plan.lids[&fabric.key(host)].lmc, Lmc::ZERO);
    let kinds: Vec<FindingKind> = plan.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::LmcNotApplied]);
}

#[test]
fn new_port_takes_no_lid_of_a_virtual_port_although_all_claims_are_lost() {
    let mut lids: [_; PORTS] = std::array::from_fn(|at| Some((at as u16 + 10, 0)));
    lids[PORTS - 1] = None;
    let mut fabric = fabric(&lids);
    let lowest = Lid(1);
    let key = add_vport(&mut fabric, 0, Guid(0x00AA_0001), Some(lowest));
    let plan = assign(&fabric, &Claims::new(), &policy(0));
    assert_eq!(plan.vports[&key], lowest);
    assert!(plan.lids.values().all(|claim| claim.base != lowest));
}

#[test]
fn port_with_vport_indices_beyond_the_maximum_has_a_finding() {
    let mut beyond = fabric(&[None; PORTS]);
    let key = add_vport(&mut beyond, 0, Guid(0x00AA_0001), None);
    let mut with_top = |top: u16| {
        let at = beyond.find_port(key.port).unwrap();
        let vports = beyond.port_mut(at).vports.as_mut().unwrap();
        let info = &mut std::sync::Arc::make_mut(vports).info;
        info.set_vport_index_top(top);
        let findings = assign(&beyond, &Claims::new(), &policy(0)).findings;
        findings
            .into_iter()
            .map(|finding| finding.text)
            .collect::<Vec<_>>()
    };
    assert_eq!(with_top(1023), [""; 0]);
    let [text] = &with_top(1024)[..] else {
        panic!("one finding");
    };
    assert!(text.contains("up to index 1024"), "{text}");
}

#[test]
fn port_keeps_a_lid_that_a_vport_also_holds() {
    let mut held = [None; PORTS];
    held[2] = Some((7, 0));
    let mut contested = fabric(&held);
    let key = add_vport(&mut contested, 4, Guid(0x00AA_0001), Some(Lid(7)));
    let plan = assign(&contested, &Claims::new(), &policy(0));
    assert_ne!(plan.vports[&key], Lid(7));
    assert!(plan.lids.values().any(|claim| claim.base == Lid(7)));
    let all = plan.lids.values().map(|claim| claim.base);
    let mut all: Vec<Lid> = all.chain(plan.vports.values().copied()).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), PORTS + 1);
}

#[test]
fn of_two_vports_with_one_guid_only_the_first_gets_a_lid() {
    let mut twice = fabric(&[None; PORTS]);
    let first = add_vport(&mut twice, 2, Guid(0x00AA_0001), None);
    let second = add_vport(&mut twice, 5, Guid(0x00AA_0001), None);
    let plan = assign(&twice, &Claims::new(), &policy(0));
    let (served, unserved) = (first.min(second), first.max(second));
    assert!(plan.vports.contains_key(&served) && !plan.vports.contains_key(&unserved));
    let kinds: Vec<FindingKind> = plan.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::DuplicateGuid]);
}

/// A [`fabric`] whose ports hold LIDs from 101, and the GUID of its one switch whose forwarding
/// table has only `entries` entries.
fn with_small_table(entries: u16) -> (Fabric, Guid) {
    let held: Vec<Option<(u16, u8)>> = (101..=100 + PORTS as u16)
        .map(|lid| Some((lid, 0)))
        .collect();
    let mut fabric = fabric(&held);
    fabric.local = None;
    let small = fabric.nodes_mut().find(|node| node.is_switch()).unwrap();
    let guid = small.guid;
    small.switch.as_mut().unwrap().set_linear_fdb_cap(entries);
    (fabric, guid)
}

#[test]
fn a_switch_with_a_small_table_moves_no_lid_in_use() {
    let (fabric, small) = with_small_table(50);
    let plan = assign(&fabric, &Claims::new(), &Policy::default());
    for (at, port) in fabric.end_ports() {
        let claim = plan.lids.get(&fabric.key(at)).map(|claim| claim.base);
        let expected = (fabric.key(at).node != small).then(|| port.lid());
        assert_eq!(claim, expected, "{}", port.guid);
    }
    assert_eq!(plan.left_out, []);
    let findings: Vec<(FindingKind, Subject)> = plan
        .findings
        .iter()
        .map(|finding| (finding.kind, finding.subject))
        .collect();
    assert_eq!(
        findings,
        [(FindingKind::TableTooSmall, Subject::Node(small))]
    );
}

#[test]
fn lids_assigned_anew_fit_the_smallest_table() {
    let (fabric, _) = with_small_table(50);
    let plan = assign_anew(&fabric, &Policy::default());
    assert_eq!(plan.findings, []);
    assert_eq!(plan.lids.len(), PORTS);
    assert!(plan.lids.values().all(|claim| claim.base.0 < 50));
}

#[test]
fn the_managers_own_switch_is_never_left_out() {
    let (mut fabric, small) = with_small_table(50);
    let behind = fabric
        .end_ports()
        .find(|(_, port)| port.peer.is_some_and(|peer| peer.node == small))
        .map(|(at, _)| at);
    fabric.local = behind;
    let plan = assign(&fabric, &Claims::new(), &Policy::default());
    assert!(plan.lids.values().all(|claim| claim.base.0 < 50));
    assert_eq!(plan.lids.len(), PORTS);
}

#[test]
fn a_lid_beyond_all_tables_disables_no_switch() {
    let mut held: Vec<Option<(u16, u8)>> = (1..=PORTS as u16).map(|lid| Some((lid, 0))).collect();
    held[PORTS - 1] = Some((40_000, 0));
    let mut fabric = fabric(&held);
    for node in fabric.nodes_mut().filter(|node| node.is_switch()) {
        node.switch.as_mut().unwrap().set_linear_fdb_cap(1024);
    }
    let plan = assign(&fabric, &Claims::new(), &Policy::default());
    assert_eq!(plan.lids.len(), PORTS);
    assert!(plan.lids.values().all(|claim| claim.base.0 < 1024));
    let kinds: Vec<FindingKind> = plan.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::LidConflict]);
}

/// The host is absent when a switch with a small table appears. The claim of the host lies beyond
/// that table.
#[test]
fn following_the_return_of_a_port_with_a_claim_beyond_a_table_equals_a_full_assignment() {
    let held: Vec<Option<(u16, u8)>> = (1..=PORTS as u16).map(|lid| Some((lid, 0))).collect();
    let mut whole = fabric(&held);
    let (at, port) = whole
        .end_ports()
        .max_by_key(|(_, port)| port.lid())
        .unwrap();
    let (absent, last) = (whole.key(at), port.lid());
    let claims: Claims = whole
        .end_ports()
        .map(|(_, port)| {
            let claim = Claim {
                base: port.lid(),
                lmc: Lmc::ZERO,
            };
            (port.guid, claim)
        })
        .collect();
    let switch = whole.switches().next().unwrap().1.guid;
    let small = whole.nodes_mut().find(|node| node.guid == switch).unwrap();
    small.switch.as_mut().unwrap().set_linear_fdb_cap(last.0);
    whole.local = None;
    let without_host = whole.without(&BTreeSet::from([absent]));
    let rights = LidRights::default();
    let before = Arc::new(assign_with_rights(
        &without_host,
        &claims,
        &policy(0),
        &rights,
    ));
    let after = assign_with_rights(&whole, &claims, &policy(0), &rights);
    let followed = follow(&before, &without_host, &whole, (&claims, None), &policy(0));
    assert!(followed.is_none_or(|followed| *followed == after));
}
