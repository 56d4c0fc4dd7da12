use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use proptest::sample::Index;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_routing::generate::generate;

use super::*;
use crate::Hardware;
use crate::expected::Expected;
use crate::fabric::Node;
use crate::findings::FindingKind;

/// A fat tree, a SuperPOD and a dragonfly.
const FABRICS: [&str; 3] = [
    "fat-tree:k=4,levels=3",
    "superpod:su=1",
    "dragonfly+:groups=4,leaves=2,spines=2,hosts=2,links=1",
];

/// A change of the cabling. Each index selects a cabled or a free port.
#[derive(Clone, Debug)]
enum Miswiring {
    /// Two plugs are exchanged.
    Swap(Index, Index),
    /// Three plugs change places in a cycle.
    Rotate(Index, Index, Index),
    /// A cable is removed.
    Pull(Index),
    /// A plug is moved to a free port.
    WrongPort(Index, Index),
    /// A cable is added between two free ports.
    Extra(Index, Index),
}

fn miswiring() -> impl Strategy<Value = Miswiring> {
    let index = any::<Index>;
    prop_oneof![
        (index(), index()).prop_map(|(a, b)| Miswiring::Swap(a, b)),
        (index(), index(), index()).prop_map(|(a, b, c)| Miswiring::Rotate(a, b, c)),
        index().prop_map(Miswiring::Pull),
        (index(), index()).prop_map(|(a, b)| Miswiring::WrongPort(a, b)),
        (index(), index()).prop_map(|(a, b)| Miswiring::Extra(a, b)),
    ]
}

/// A cabling: the other end of each cabled port.
type Cabling = BTreeMap<PortKey, PortKey>;

fn cabling(fabric: &Fabric) -> Cabling {
    fabric.nodes().flat_map(Node::cables).collect()
}

fn join(cabling: &mut Cabling, a: PortKey, b: PortKey) {
    cabling.insert(a, b);
    cabling.insert(b, a);
}

/// Removes the cable at a port; returns the other end of the cable.
fn pull(cabling: &mut Cabling, port: PortKey) -> Option<PortKey> {
    let other = cabling.remove(&port)?;
    cabling.remove(&other);
    Some(other)
}

/// Exchanges the plugs in two ports of different cables.
fn swap(cabling: &mut Cabling, a: PortKey, b: PortKey) {
    let [far_a, far_b] = [a, b].map(|port| pull(cabling, port));
    for (port, far) in [(b, far_a), (a, far_b)] {
        if let Some(far) = far {
            join(cabling, port, far);
        }
    }
}

/// Makes the change, if it is possible; returns the number of moves that undo it.
fn apply(cabling: &mut Cabling, miswiring: &Miswiring, free: &[PortKey]) -> usize {
    let cabled: Vec<PortKey> = cabling.keys().copied().collect();
    let free: Vec<PortKey> = free
        .iter()
        .copied()
        .filter(|port| !cabling.contains_key(port))
        .collect();
    let pick = |index: &Index| *index.get(&cabled);
    let are_apart = |ports: &[PortKey]| {
        let ends = ports.iter().flat_map(|port| [*port, cabling[port]]);
        ends.collect::<BTreeSet<PortKey>>().len() == 2 * ports.len()
    };
    match miswiring {
        Miswiring::Swap(a, b) => {
            let [a, b] = [a, b].map(pick);
            if !are_apart(&[a, b]) {
                return 0;
            }
            swap(cabling, a, b);
            1
        }
        Miswiring::Rotate(a, b, c) => {
            let [a, b, c] = [a, b, c].map(pick);
            if !are_apart(&[a, b, c]) {
                return 0;
            }
            swap(cabling, a, b);
            swap(cabling, a, c);
            2
        }
        Miswiring::Pull(port) => usize::from(pull(cabling, pick(port)).is_some()),
        Miswiring::WrongPort(from, to) if !free.is_empty() => {
            swap(cabling, pick(from), *to.get(&free));
            1
        }
        Miswiring::Extra(a, b) if free.len() > 1 => {
            let [a, b] = [a, b].map(|index| *index.get(&free));
            if a.node == b.node {
                return 0;
            }
            join(cabling, a, b);
            1
        }
        Miswiring::WrongPort(..) | Miswiring::Extra(..) => 0,
    }
}

/// The fabric with the cables of `cabling`. All nodes stay present, even those without a cable.
fn recabled(fabric: &Fabric, cabling: &Cabling) -> Fabric {
    let mut fabric = fabric.clone();
    for node in fabric.nodes_mut() {
        let guid = node.guid;
        for (number, port) in (0..=u8::MAX).zip(&mut node.ports) {
            port.peer = cabling.get(&PortKey::new(guid, PortNum(number))).copied();
            port.up = port.peer.is_some();
        }
    }
    fabric
}

/// A design of the fabric as it is, by the names of its nodes.
fn design_of(fabric: &Fabric) -> Design {
    let end = |key: PortKey| DesignedEnd {
        node: fabric.name(key.node),
        port: Some(key.port),
    };
    let links = fabric.links().map(|(a, b)| [fabric.key(a), fabric.key(b)]);
    let cables = links.zip(2..).map(|(ends, line)| DesignedCable {
        line,
        ends: ends.map(end),
    });
    Design {
        cables: cables.collect(),
    }
}

fn compare(design: &Design, fabric: &Fabric) -> Comparison {
    Comparison::of(design, fabric, &[])
}

fn key(spot: Spot) -> PortKey {
    spot.key().expect("all nodes are there")
}

/// Both ends of each cable, the lower first.
fn cables(cabling: &Cabling) -> BTreeSet<[PortKey; 2]> {
    let ends = cabling.iter().map(|(&a, &b)| [a.min(b), a.max(b)]);
    ends.collect()
}

/// Carries out a move; panics if it is not possible.
fn carry_out(cabling: &mut Cabling, one: &Move) {
    let (first, second) = (key(one.first), key(one.second));
    let [has_first, has_second] = [first, second].map(|port| cabling.contains_key(&port));
    match one.kind {
        MoveKind::Swap => {
            assert!(
                has_first && has_second && cabling[&first] != second,
                "{one:?}"
            );
            swap(cabling, first, second);
        }
        MoveKind::Shift => {
            assert!(has_first && !has_second, "{one:?}");
            swap(cabling, first, second);
        }
        MoveKind::Remove => assert_eq!(pull(cabling, first), Some(second), "{one:?}"),
        MoveKind::Connect => {
            assert!(!has_first && !has_second, "{one:?}");
            join(cabling, first, second);
        }
    }
    for [a, b] in [one.makes, one.also_makes].into_iter().flatten() {
        assert_eq!(cabling.get(&key(a)), Some(&key(b)), "{one:?}");
    }
}

/// Checks the comparison of the design of `right` with the cabling `present`, which `made` moves
/// would correct.
fn check(right: &Fabric, present: &Cabling, made: usize) {
    let fabric = recabled(right, present);
    let design = design_of(right);
    let comparison = compare(&design, &fabric);
    let (designed, there) = (cables(&cabling(right)), cables(present));
    if there.iter().any(|[a, b]| a.node == b.node) {
        // A cable back to its own switch is the finding `loopback-cable`.
        return;
    }
    let both: BTreeSet<PortKey> = designed.intersection(&there).flatten().copied().collect();
    assert_eq!(comparison.designed, designed.len());
    assert_eq!(comparison.right, both.len() / 2);
    assert!(
        comparison.unseen.is_empty()
            && comparison.absent.is_empty()
            && comparison.unclear.is_empty()
    );

    // Each wrong or missing cable is in one fault, with both ends; no right cable is in any.
    let named = |part: fn(&Fault) -> &Vec<Cable>| {
        let all = comparison.faults.iter().flat_map(part);
        let all: Vec<[PortKey; 2]> = all.map(|cable| cable.map(key)).collect();
        let set: BTreeSet<[PortKey; 2]> = all.iter().copied().collect();
        assert_eq!(set.len(), all.len(), "a cable is named twice");
        set
    };
    assert_eq!(named(|fault| &fault.wrong), &there - &designed);
    assert_eq!(named(|fault| &fault.wanted), &designed - &there);
    let touched = comparison
        .moves()
        .flat_map(|one| [key(one.first), key(one.second)]);
    assert!(touched.into_iter().all(|port| !both.contains(&port)));

    for fault in &comparison.faults {
        let ends = |cables: &[Cable]| cables.iter().flatten().copied().collect::<BTreeSet<Spot>>();
        let kind = match (&fault.wrong[..], &fault.wanted[..]) {
            ([], _) => FaultKind::Missing,
            (_, []) => FaultKind::Extra,
            (wrong, wanted) if ends(wrong) == ends(wanted) => FaultKind::Exchanged,
            _ => FaultKind::Miswired,
        };
        assert_eq!(fault.kind, kind, "{fault:?}");
    }
    let moves = comparison.moves().count();
    assert!(moves <= made, "{moves} moves, {made} were made");
    let mut mended = present.clone();
    comparison
        .moves()
        .for_each(|one| carry_out(&mut mended, one));
    assert_eq!(cables(&mended), designed);
    assert_eq!(comparison.is_right(), made == 0 || there == designed);

    // Findings name both ends of each cable that they list; they list at most four of a kind.
    let mut expected = Expected::default();
    expected.compare_with_design(&design, &fabric);
    let findings = expected.findings(&fabric);
    assert_eq!(findings.len(), comparison.faults.len());
    for fault in &comparison.faults {
        for cable in fault
            .wrong
            .iter()
            .take(4)
            .chain(fault.wanted.iter().take(4))
        {
            let names = cable.map(|spot| fabric.port_name(key(spot)));
            let has = |text: &str| names.iter().all(|name| text.contains(name.as_str()));
            assert!(
                findings.iter().any(|finding| has(&finding.text)),
                "{names:?}: {findings:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn each_miswiring_is_reported_and_corrected_with_at_most_as_many_moves(
        miswirings in prop::collection::vec(miswiring(), 0..7),
    ) {
        for spec in FABRICS {
            let right = Fabric::of_netlist(&generate(spec).expect("a fabric"));
            let mut present = cabling(&right);
            let ports = right.nodes().flat_map(|node| {
                let numbers = (0..=u8::MAX).map(PortNum).take(node.ports.len()).skip(1);
                numbers.map(move |number| PortKey::new(node.guid, number))
            });
            let free: Vec<PortKey> = ports.filter(|port| !present.contains_key(port)).collect();
            let made = miswirings.iter().map(|one| apply(&mut present, one, &free)).sum();
            check(&right, &present, made);
        }
    }
}

/// All ways to join some of `ports` in pairs.
fn all_joined(ports: &[Spot]) -> Vec<FarEnds> {
    let Some((&first, rest)) = ports.split_first() else {
        return vec![FarEnds::new()];
    };
    let mut all = all_joined(rest);
    for (at, &other) in rest.iter().enumerate() {
        let others: Vec<Spot> = [&rest[..at], &rest[at + 1..]].concat();
        for mut joined in all_joined(&others) {
            joined.insert(first, other);
            joined.insert(other, first);
            all.push(joined);
        }
    }
    all
}

/// The cablings that one move makes of `joined`.
fn neighbors(joined: &FarEnds, ports: &[Spot]) -> Vec<FarEnds> {
    let mut all = Vec::new();
    for (at, &a) in ports.iter().enumerate() {
        for &b in &ports[at + 1..] {
            let mut next = joined.clone();
            let [far_a, far_b] = [a, b].map(|port| {
                let far = next.remove(&port)?;
                next.remove(&far);
                Some(far)
            });
            match (far_a, far_b) {
                (Some(far), _) if far == b => {}
                (None, None) => {
                    next.insert(a, b);
                    next.insert(b, a);
                }
                _ => {
                    for (port, far) in [(b, far_a), (a, far_b)] {
                        if let Some(far) = far {
                            next.insert(port, far);
                            next.insert(far, port);
                        }
                    }
                }
            }
            all.push(next);
        }
    }
    all
}

/// The smallest number of moves from each cabling to `goal`.
fn distances(goal: &FarEnds, ports: &[Spot]) -> BTreeMap<FarEnds, usize> {
    let mut known = BTreeMap::from([(goal.clone(), 0)]);
    let mut waiting = VecDeque::from([goal.clone()]);
    while let Some(joined) = waiting.pop_front() {
        let distance = known[&joined];
        // Each move can be undone by one move.
        for next in neighbors(&joined, ports) {
            if !known.contains_key(&next) {
                known.insert(next.clone(), distance + 1);
                waiting.push_back(next);
            }
        }
    }
    known
}

#[test]
fn every_cabling_of_seven_ports_is_corrected_with_the_fewest_moves() {
    // Ports at one node may change the order of the moves, but never their number.
    let ports: Vec<Spot> = (0..7)
        .map(|port| PortKey::new(Guid(1 + port / 2), PortNum(1 + port as u8)).into())
        .collect();
    let all = all_joined(&ports);
    assert_eq!(all.len(), 232);
    for wanted in &all {
        let distances = distances(wanted, &ports);
        assert_eq!(distances.len(), all.len());
        for (present, &least) in &distances {
            let moves: usize = chains::of(present, wanted)
                .iter()
                .map(|chain| chain.moves().len())
                .sum();
            assert_eq!(moves, least, "{present:?} to {wanted:?}");
        }
    }
}

/// Two leaves with two hosts each, below two spines.
fn small() -> Fabric {
    Fabric::of_netlist(&generate("pgft:2;2,2;1,2;1,1").expect("a fabric"))
}

fn named(fabric: &Fabric, name: &str, port: u8) -> PortKey {
    let mut nodes = fabric
        .nodes()
        .filter(|node| node.description.contains(name));
    let node = nodes.next().expect("the node is there");
    PortKey::new(node.guid, PortNum(port))
}

fn row(line: usize, ends: [(&str, Option<u8>); 2]) -> DesignedCable {
    DesignedCable {
        line,
        ends: ends.map(|(node, port)| DesignedEnd {
            node: node.to_owned(),
            port: port.map(PortNum),
        }),
    }
}

fn rows(rows: &[[(&str, Option<u8>); 2]]) -> Design {
    let cables = rows.iter().zip(2..).map(|(&ends, line)| row(line, ends));
    Design {
        cables: cables.collect(),
    }
}

#[test]
fn exchanged_plugs_are_swapped_back_at_one_node() {
    let right = small();
    let [a, b] = [1, 2].map(|port| named(&right, "spine-01", port));
    let mut present = cabling(&right);
    swap(&mut present, a, b);
    let comparison = compare(&design_of(&right), &recabled(&right, &present));
    let [fault] = &comparison.faults[..] else {
        panic!("{comparison:?}");
    };
    assert_eq!(fault.kind, FaultKind::Exchanged);
    assert_eq!(comparison.exchanged_cables(), 2);
    let [one] = fault.moves[..] else {
        panic!("{fault:?}");
    };
    assert_eq!(one.kind, MoveKind::Swap);
    assert_eq!(
        BTreeSet::from([key(one.first), key(one.second)]),
        BTreeSet::from([a, b])
    );
}

#[test]
fn cables_of_nodes_outside_the_design_are_ignored_unless_they_use_a_designed_port() {
    let right = small();
    let mut design = design_of(&right);
    // The design has only the cables between switches.
    let is_of_host = |cable: &DesignedCable| cable.ends.iter().any(|end| end.node.contains("host"));
    design.cables.retain(|cable| !is_of_host(cable));
    let comparison = compare(&design, &right);
    assert_eq!((comparison.designed, comparison.right), (4, 4));
    assert!(comparison.is_right(), "{comparison:?}");
    // A host at a port that the design cables otherwise is a fault.
    let mut present = cabling(&right);
    let uplink = named(&right, "leaf-01", 3);
    let spine = pull(&mut present, uplink).expect("it is cabled");
    let host = named(&right, "host-001", 1);
    pull(&mut present, host);
    join(&mut present, host, uplink);
    let comparison = compare(&design, &recabled(&right, &present));
    let [fault] = &comparison.faults[..] else {
        panic!("{comparison:?}");
    };
    assert_eq!(fault.kind, FaultKind::Miswired);
    let wrong: Vec<[PortKey; 2]> = fault.wrong.iter().map(|cable| cable.map(key)).collect();
    assert_eq!(wrong, [[host.min(uplink), host.max(uplink)]]);
    assert_eq!(fault.moves.len(), 1);
    assert_eq!(comparison.wanted(uplink), Some(spine.into()));
}

#[test]
fn cables_of_absent_and_silent_nodes_are_unseen_and_no_faults() {
    let right = small();
    let design = design_of(&right);
    // host-001 is off, and host-002 has a link and does not answer.
    let off = named(&right, "host-001", 1);
    let silent = named(&right, "host-002", 1);
    let mut present = cabling(&right);
    pull(&mut present, off);
    let port = pull(&mut present, silent).expect("it is cabled");
    let mut fabric = recabled(&right, &present);
    fabric = fabric.follow(
        &Hardware::default(),
        &BTreeSet::from([off.node, silent.node]),
    );
    let at = fabric.find_port(port).expect("it is there");
    fabric.port_mut(at).up = true;
    let comparison = compare(&design, &fabric);
    assert_eq!(comparison.unseen.len(), 2, "{comparison:?}");
    assert!(comparison.faults.is_empty(), "{comparison:?}");
    let absent: Vec<(&str, usize)> = comparison
        .absent
        .iter()
        .map(|absent| (absent.name.as_str(), absent.cables))
        .collect();
    assert_eq!(absent.len(), 2, "{absent:?}");
    assert!(
        absent
            .iter()
            .all(|(name, cables)| name.contains("host-00") && *cables == 1)
    );
    let mut expected = Expected::default();
    expected.compare_with_design(&design, &fabric);
    let findings = expected.findings(&fabric);
    assert_eq!(findings.len(), 2, "{findings:?}");
    for finding in findings {
        assert_eq!(finding.kind, FindingKind::DesignUnmatched);
        assert!(
            finding.text.contains("leaf-01") && finding.text.contains("host-00"),
            "{finding:?}"
        );
    }
}

#[test]
fn a_node_with_another_name_than_designed_is_one_finding_and_no_move() {
    let right = small();
    let mut design = design_of(&right);
    for end in design.cables.iter_mut().flat_map(|cable| &mut cable.ends) {
        end.node = end.node.replace("host-001", "hots-001");
    }
    let comparison = compare(&design, &right);
    assert_eq!(
        (comparison.right, comparison.unseen.len()),
        (7, 1),
        "{comparison:?}"
    );
    assert!(comparison.faults.is_empty(), "{comparison:?}");
    let mut expected = Expected::default();
    expected.compare_with_design(&design, &right);
    let [finding] = &expected.findings(&right)[..] else {
        panic!("{comparison:?}");
    };
    for part in ["hots-001", "port 1 leads to host-001"] {
        assert!(finding.text.contains(part), "{part}: {finding:?}");
    }
    // A wrong node of the design at that port is a fault.
    let [other, port] = [named(&right, "host-003", 1), named(&right, "leaf-01", 1)];
    let mut present = cabling(&right);
    pull(&mut present, port);
    swap(&mut present, other, port);
    let far = present.get(&port).copied();
    let comparison = compare(&design, &recabled(&right, &present));
    assert!(
        far.is_some() && !comparison.faults.is_empty(),
        "{comparison:?}"
    );
}

#[test]
fn comparison_with_a_design_replaces_expectations_that_contradict_it() {
    let right = small();
    let design = design_of(&right);
    let [a, b] = [1, 2].map(|port| named(&right, "spine-01", port));
    let mut present = cabling(&right);
    swap(&mut present, a, b);
    let wrong = recabled(&right, &present);
    let at = rsm_mad::Time::from_nanos(1);
    let update = |expected: &mut Expected, before: &Fabric, now: &Fabric| {
        expected.update(&crate::fabric::Delta::between(before, now), before, now, at);
    };
    // The manager started with exchanged cables, and the operator corrects them.
    let mut expected = Expected::default();
    expected.compare_with_design(&design, &wrong);
    update(&mut expected, &wrong, &right);
    assert_eq!(
        expected.findings(&right).len(),
        2,
        "without a new comparison"
    );
    expected.compare_with_design(&design, &right);
    assert_eq!(expected.findings(&right), []);
    assert_eq!(expected.counts(&right).exchanged_cables, 0);

    // A designed cable that was present and vanished causes one finding, with its history.
    let mut present = cabling(&right);
    pull(&mut present, a);
    let pulled = recabled(&right, &present);
    update(&mut expected, &right, &pulled);
    expected.compare_with_design(&design, &pulled);
    let findings = expected.findings(&pulled);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].text.contains("is gone"), "{findings:?}");
    // Once the operator accepts that the cable is gone, it is missing according to the design.
    expected.accept(crate::expected::Accept::Missing, &pulled);
    let findings = expected.findings(&pulled);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].kind, FindingKind::CableMissing);
    assert!(
        findings[0].text.contains("is designed and not there"),
        "{findings:?}"
    );
}

#[test]
fn wildcards_and_short_names_match_nodes_and_ports() {
    let right = small();
    let design = rows(&[
        [("leaf-01", Some(3)), ("spine-01", Some(1))],
        [("*leaf-02:*", Some(3)), ("MF0;spine-01*", Some(2))],
        [("leaf-01", Some(1)), ("host-*", None)],
        [("leaf-01", Some(2)), ("host-*", Some(1))],
        [("host-003*", Some(1)), ("leaf-02", None)],
    ]);
    let comparison = compare(&design, &right);
    assert_eq!(
        (comparison.right, comparison.unclear.len()),
        (5, 0),
        "{comparison:?}"
    );
    // Exchanged hosts of one leaf still match. Exchanged hosts of two leaves need one move.
    let hosts = [1, 2, 3].map(|number| named(&right, &format!("host-00{number}"), 1));
    let mut present = cabling(&right);
    swap(&mut present, hosts[0], hosts[1]);
    let comparison = compare(&design, &recabled(&right, &present));
    assert!(comparison.is_right(), "{comparison:?}");
    let exact = rows(&[
        [("host-001*", Some(1)), ("leaf-01", None)],
        [("host-003*", Some(1)), ("leaf-02", None)],
    ]);
    let mut present = cabling(&right);
    swap(&mut present, hosts[0], hosts[2]);
    let comparison = compare(&exact, &recabled(&right, &present));
    assert_eq!(comparison.moves().count(), 1, "{comparison:?}");
    assert_eq!(comparison.faults[0].kind, FaultKind::Exchanged);
    // A host that is at no port of its leaf is wrong, and its line is still comparable.
    let mut present = cabling(&right);
    let port = pull(&mut present, hosts[0]).expect("it is cabled");
    swap(&mut present, hosts[2], port);
    let fabric = recabled(&right, &present);
    let comparison = compare(&exact, &fabric);
    assert_eq!(comparison.right, 0, "{comparison:?}");
    assert!(comparison.unclear.is_empty(), "{comparison:?}");
}

#[test]
fn lines_that_cannot_be_compared_have_a_reason() {
    let right = small();
    let leaf = right
        .nodes()
        .find(|node| node.description.contains("leaf-01"))
        .expect("a leaf");
    let guid = leaf.guid.to_string();
    let design = rows(&[
        [("leaf-01", Some(3)), ("spine-01", Some(1))],
        [(&guid, Some(3)), ("spine-02", Some(1))],
        [("leaf-01", Some(200)), ("spine-02", Some(1))],
        [("leaf-*", Some(4)), ("spine-*", Some(2))],
        [("leaf-99", Some(4)), ("spine-02", Some(2))],
        [(&guid, Some(4)), ("leaf-01", Some(4))],
    ]);
    let comparison = compare(&design, &right);
    let said: Vec<(usize, &str)> = comparison
        .unclear
        .iter()
        .map(|unclear| (unclear.line, unclear.reason.as_str()))
        .collect();
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!(said[0].0, 3);
    assert!(said[0].1.contains("port 3 has another cable"), "{said:?}");
    assert!(said[1].1.starts_with("leaf-01 has no port 200"), "{said:?}");
    assert!(said[2].1.contains("several nodes"), "{said:?}");
    assert_eq!(said[3], (7, "both its ends are one port"));
    assert_eq!(comparison.absent.len(), 1);
    assert_eq!(
        (
            comparison.absent[0].name.as_str(),
            comparison.absent[0].line
        ),
        ("leaf-99", 6)
    );
    // Port 2 of the spine has a cable, but its designed cable leads to an absent node.
    assert_eq!(comparison.right, 1, "{comparison:?}");
}

#[test]
fn absent_node_has_only_its_compared_cables_and_each_once() {
    let design = rows(&[
        [("host-new", Some(1)), ("host-new", Some(2))],
        [("host-new", Some(3)), ("host-new", Some(3))],
        [("leaf-01", Some(1)), ("host-new", Some(4))],
    ]);
    let comparison = compare(&design, &small());
    assert_eq!(comparison.unclear.len(), 1, "{comparison:?}");
    assert_eq!(comparison.absent.len(), 1, "{comparison:?}");
    assert_eq!(comparison.absent[0].cables, 2, "{comparison:?}");
}

#[test]
fn each_cable_of_an_absent_node_gets_its_own_port_there() {
    let right = small();
    // The lines with a port come after those without one.
    let design = rows(&[
        [("leaf-01", Some(1)), ("host-new", None)],
        [("leaf-01", Some(2)), ("host-new", None)],
        [("leaf-02", Some(1)), ("host-new", Some(1))],
        [("leaf-02", Some(2)), ("host-new", Some(2))],
    ]);
    let comparison = compare(&design, &right);
    assert_eq!(comparison.unclear, [], "{comparison:?}");
    assert_eq!(comparison.designed, 4);
    assert_eq!(comparison.absent[0].cables, 4);
    assert_eq!(comparison.unseen.len(), 4, "{comparison:?}");

    let many: Vec<DesignedCable> = (0..300)
        .map(|line| {
            let (switch, port) = (format!("switch-{}", line / 30), (line % 30 + 1) as u8);
            row(line, [(&switch, Some(port)), ("host-*", None)])
        })
        .collect();
    let away = Fabric::of_netlist(&generate("pgft:1;2;1;1").expect("a fabric"));
    let comparison = Comparison::of(&Design { cables: many }, &without_hosts(&away), &[]);
    let [first, ..] = &comparison.unclear[..] else {
        panic!("{comparison:?}");
    };
    assert!(
        first.reason.contains("more cables than a node has ports"),
        "{first:?}"
    );
    assert_eq!(comparison.unclear.len(), 300 - 254);
}

/// The first line and the choice of line 3 put cables into a ring that the present cables close.
#[test]
fn choice_whose_port_an_earlier_choice_took_is_unclear() {
    let right = small();
    let hosts: Vec<String> = {
        let hosts = right.nodes().filter(|node| !node.is_switch());
        hosts.map(|node| node.description.clone()).collect()
    };
    let [one, two] = [0, 1].map(|at| hosts[at].as_str());
    let [first, second] = [1, 2].map(|port| named(&right, "leaf-01", port));
    let mut present = cabling(&right);
    swap(&mut present, first, second);
    let design = rows(&[
        [("leaf-01", Some(1)), (one, Some(1))],
        [("leaf-01", Some(2)), ("host-*", Some(1))],
        [(two, Some(1)), ("leaf-01", None)],
    ]);
    let comparison = compare(&design, &recabled(&right, &present));
    assert_eq!(comparison.designed, 3, "{comparison:?}");
}

/// The fabric with renamed hosts, so that the pattern `host-*` matches none.
fn without_hosts(fabric: &Fabric) -> Fabric {
    let mut fabric = fabric.clone();
    for node in fabric.nodes_mut() {
        node.description = node.description.replace("host", "other");
    }
    fabric
}
