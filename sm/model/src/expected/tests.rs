use proptest::prelude::*;
use proptest::sample::Index;
use rsm_routing::generate::generate;
use rsm_routing::netlist::host_of;

use super::*;
use crate::Hardware;

/// A change of a fabric, at one or two of its cables.
#[derive(Clone, Debug)]
enum Event {
    /// The cable is gone.
    Gone(Index),
    /// One end no longer shows the cable.
    OneSided(Index),
    /// Two cables exchange their far ends.
    Exchanged(Index, Index),
    /// The node at the near end does not answer.
    Mute(Index),
}

fn event() -> impl Strategy<Value = Event> {
    let index = any::<Index>;
    prop_oneof![
        index().prop_map(Event::Gone),
        index().prop_map(Event::OneSided),
        (index(), index()).prop_map(|(a, b)| Event::Exchanged(a, b)),
        index().prop_map(Event::Mute),
    ]
}

fn set_peer(fabric: &mut Fabric, key: PortKey, peer: Option<PortKey>) {
    let node = fabric.nodes_mut().find(|node| node.guid == key.node);
    node.expect("the node is there").ports[key.port.index()].peer = peer;
}

fn cables(fabric: &Fabric) -> Vec<(PortKey, PortKey)> {
    fabric.nodes().flat_map(Node::cables).collect()
}

/// The fabric after `events`.
fn after(fabric: &Fabric, events: &[Event]) -> Fabric {
    let mut fabric = fabric.clone();
    for event in events {
        let cables = cables(&fabric);
        let ends = |fabric: &mut Fabric, pairs: [(PortKey, Option<PortKey>); 2]| {
            for (key, peer) in pairs {
                if fabric.find_port(key).is_some() {
                    set_peer(fabric, key, peer);
                }
            }
        };
        match event {
            Event::Gone(cable) => {
                let &(a, b) = cable.get(&cables);
                ends(&mut fabric, [(a, None), (b, None)]);
            }
            Event::OneSided(cable) => {
                let &(a, _) = cable.get(&cables);
                set_peer(&mut fabric, a, None);
            }
            Event::Exchanged(one, other) => {
                let (&(a, b), &(c, d)) = (one.get(&cables), other.get(&cables));
                let ports: BTreeSet<PortKey> = [a, b, c, d].into_iter().collect();
                if ports.len() == 4 {
                    ends(&mut fabric, [(a, Some(d)), (d, Some(a))]);
                    ends(&mut fabric, [(c, Some(b)), (b, Some(c))]);
                }
            }
            Event::Mute(cable) => {
                let &(a, _) = cable.get(&cables);
                // The node vanishes, because the inventory lacks it.
                fabric = fabric.follow(&Hardware::default(), &BTreeSet::from([a.node]));
            }
        }
    }
    fabric
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn missing_from_equals_a_full_update_with_the_same_fabric(
        earlier in prop::collection::vec(event(), 0..6),
        later in prop::collection::vec(event(), 0..6),
        is_stored in any::<bool>(),
    ) {
        let whole = Fabric::of_netlist(&generate("fat-tree:k=4,levels=3").expect("a fabric"));
        let kept = after(&whole, &earlier);
        let mut missing = Expected::default();
        let at = Time::from_nanos(1);
        missing.update(&Delta::between(&whole, &kept), &whole, &kept, at);
        let mut cabling = Cabling { fabric: Arc::new(kept.clone()), missing: Arc::new(missing) };
        if is_stored {
            // A store has one row for each part, whether the part is present or missing.
            let all = Arc::new(cabling.recalled());
            cabling = Cabling { fabric: Arc::default(), missing: all };
        }
        let present = after(&kept, &later);
        let nothing = Fabric::default();
        let mut updated = cabling.recalled();
        updated.update(&Delta::between(&nothing, &present), &nothing, &present, at);
        prop_assert_eq!(cabling.missing_from(&present), updated);
    }
}

/// Applies `events` to a fabric, with a sweep after each; returns the fabric and its missing parts.
fn swept(whole: &Fabric, events: &[Event]) -> (Fabric, Expected) {
    let (mut fabric, mut missing) = (whole.clone(), Expected::default());
    for (event, at) in events.iter().zip(1..) {
        let next = after(&fabric, std::slice::from_ref(event));
        let delta = Delta::between(&fabric, &next);
        missing.update(&delta, &fabric, &next, Time::from_nanos(at));
        fabric = next;
    }
    (fabric, missing)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn parts_listed_in_pages_are_sorted_and_equal_the_counts(
        events in prop::collection::vec(event(), 0..8),
        page in 1..5usize,
    ) {
        let whole = Fabric::of_netlist(&generate("fat-tree:k=4,levels=3").expect("a fabric"));
        let (fabric, missing) = swept(&whole, &events);
        let mut each: Vec<Missing> = Vec::new();
        loop {
            let after = each.last().map(|one| one.key);
            let next = missing.each(&fabric, after, page);
            if next.is_empty() {
                break;
            }
            each.extend(next);
        }
        let mut counts = MissingCounts::default();
        for one in &each {
            *match one.kind {
                MissingKind::Switch => &mut counts.switches,
                MissingKind::Cable => &mut counts.cables,
                // Each host of this fabric has one adapter.
                MissingKind::Host => &mut counts.hosts,
                MissingKind::HostCable => &mut counts.host_cables,
                MissingKind::Exchanged => &mut counts.exchanged_cables,
            } += 1;
        }
        prop_assert_eq!(counts, missing.counts(&fabric));
        prop_assert!(each.is_sorted_by_key(|one| one.key));
    }
}

/// A tree of two leaves with two hosts each, and the cables of the hosts, each as the port of the
/// host and the port of the leaf.
fn hosts() -> (Fabric, Vec<(PortKey, PortKey)>) {
    let whole = Fabric::of_netlist(&generate("pgft:2;2,2;1,2;1,1").expect("a fabric"));
    let is_host = |node: &&Node| node.kind() != NodeType::Switch;
    let cables = whole.nodes().filter(is_host).flat_map(Node::cables);
    let cables = cables.collect();
    (whole, cables)
}

/// Removes the cables at the ports in `out` from `fabric`, and adds the cables in `new`.
fn cabled(fabric: &Fabric, out: &[PortKey], new: &[(PortKey, PortKey)]) -> Fabric {
    let mut fabric = fabric.clone();
    for &host in out {
        if let Some(peer) = shown_at(&fabric, host) {
            set_peer(&mut fabric, host, None);
            set_peer(&mut fabric, peer, None);
        }
    }
    for &(a, b) in new {
        set_peer(&mut fabric, a, Some(b));
        set_peer(&mut fabric, b, Some(a));
    }
    fabric
}

/// The missing parts after sweeps that find these fabrics one after the other.
fn followed(fabrics: &[&Fabric]) -> Expected {
    let mut missing = Expected::default();
    for (pair, at) in fabrics.windows(2).zip(1..) {
        let delta = Delta::between(pair[0], pair[1]);
        missing.update(&delta, pair[0], pair[1], Time::from_nanos(at));
    }
    missing
}

#[test]
fn hosts_that_changed_places_at_once_or_one_by_one_are_exchanged() {
    let (whole, cables) = hosts();
    let [(a, one), (b, other)] = [cables[0], cables[3]];
    let none = cabled(&whole, &[a, b], &[]);
    let half = cabled(&none, &[], &[(a, other)]);
    let both = cabled(&half, &[], &[(b, one)]);
    let at_once = [&whole, &both];
    let one_by_one = [&whole, &none, &half, &both];
    for sweeps in [&at_once[..], &one_by_one] {
        let missing = followed(sweeps);
        let found = missing.missing(&both);
        let [entry] = &found[..] else {
            panic!("one entry: {found:?}");
        };
        assert_eq!(entry.kind, MissingKind::Exchanged);
        assert_eq!(missing.counts(&both).exchanged_cables, 2);
        let text = &missing.findings(&both)[0].text;
        let (first, second) = (
            missing.port_name(&both, one),
            missing.port_name(&both, other),
        );
        let host = missing.port_name(&both, a);
        for part in [
            format!("{host} leads to {second} (was at {first})"),
            format!("exchange the plugs in {first} and {second}"),
        ] {
            assert!(text.contains(&part), "{part}: {text}");
        }
        // A manager that starts from the store finds the exchange, too.
        let kept = Cabling {
            fabric: Arc::new(both.clone()),
            missing: Arc::new(missing.clone()),
        };
        assert_eq!(kept.missing_from(&both).missing(&both).len(), 1);
        let back = cabled(&both, &[a, b], &[(a, one), (b, other)]);
        let and_back: Vec<&Fabric> = sweeps.iter().copied().chain([&back]).collect();
        assert!(followed(&and_back).is_empty());
        let mut accepted = missing;
        let mut of_missing = accepted.clone();
        assert!(!of_missing.accept(Accept::Missing, &both));
        assert!(!of_missing.accept(Accept::Node(one.node), &both));
        assert_eq!(
            accepted.given_up(&[Accept::Port(one)], &both),
            accepted.counts(&both)
        );
        assert!(accepted.accept(Accept::Port(one), &both));
        assert!(accepted.is_empty());
    }
}

#[test]
fn missing_host_counts_once_and_missing_adapters_of_a_present_host_singly() {
    let whole = Fabric::of_netlist(&generate("superpod:su=1").expect("a fabric"));
    let of = |host: &str| {
        let nodes = whole.nodes();
        let own = nodes.filter(|node| host_of(node.reported()) == Some(host));
        own.flat_map(|node| node.cables().map(|(here, _)| here))
            .collect::<Vec<_>>()
    };
    let [one, other] = ["host-002", "host-003"].map(of);
    assert_eq!((one.len(), other.len()), (8, 8));
    let gone = one.iter().chain(&other[..3]);
    let without = whole.without(&gone.copied().collect());
    let missing = followed(&[&whole, &without]);
    let counts = missing.counts(&without);
    assert_eq!((counts.hosts, counts.adapters), (1, 3));
    assert_eq!(counts.to_string(), "1 host and 3 adapters missing");
}

#[test]
fn host_at_the_port_of_an_absent_host_is_no_exchange() {
    let (whole, cables) = hosts();
    let [(a, one), (b, other)] = [cables[0], cables[3]];
    // The first host comes back at the port of the second one, which is off: no exchange yet.
    let half = cabled(&whole, &[a, b], &[(a, other)]);
    let missing = followed(&[&whole, &half]);
    let counts = missing.counts(&half);
    assert_eq!((counts.exchanged_cables, counts.host_cables), (0, 1));
    // Both hosts return to their own ports: nothing is missing.
    let home = cabled(&half, &[a], &[(a, one), (b, other)]);
    assert!(followed(&[&whole, &half, &home]).is_empty());
}

/// The cables between two switches of a fabric, each from its lower end.
fn between_switches(fabric: &Fabric) -> Vec<(PortKey, PortKey)> {
    let is_switch = |key: PortKey| fabric.is_switch(key.node);
    let mut cables = cables(fabric);
    cables.retain(|&(a, b)| a < b && is_switch(a) && is_switch(b));
    cables
}

#[test]
fn accept_command_names_each_gone_cable_of_a_switch_but_no_disabled_one() {
    let whole = Fabric::of_netlist(&generate("superpod:su=1").expect("a fabric"));
    let cables = between_switches(&whole);
    let switch = cables[0].0.node;
    let own: Vec<(PortKey, PortKey)> = cables
        .into_iter()
        .filter(|(a, _)| a.node == switch)
        .take(3)
        .collect();
    let [one, other, kept] = own[..] else {
        panic!("a switch has three cables to others: {own:?}");
    };
    let fabric = cabled(
        &whole,
        &own.iter().map(|&(a, _)| a).collect::<Vec<_>>(),
        &[],
    );
    let mut missing = followed(&[&whole, &fabric]);
    let order = DisabledPort {
        by: "alice".to_owned(),
        since_unix_ms: 1_000_000,
    };
    let disabled = Arc::new(BTreeMap::from([(kept.1, order)]));
    assert!(missing.set_disabled(&disabled));
    assert!(!missing.set_disabled(&disabled));
    let texts = missing.findings(&fabric);
    let texts: Vec<&str> = texts.iter().map(|finding| finding.text.as_str()).collect();
    let [gone, down] = &texts[..] else {
        panic!("two findings: {texts:?}");
    };
    let (gone, down) = match gone.contains("alice") {
        true => (down, gone),
        false => (gone, down),
    };
    let expected = format!(
        "rsmctl expect --accept PORT, for each of {}, {}",
        one.0, other.0
    );
    assert!(gone.ends_with(&expected), "{gone}");
    let name = whole.name(kept.1.node);
    let port = kept.1.port;
    let expected = format!(
        "; {name} port {port} was disabled by alice at 1970-01-01T00:16:40.000Z: \
         rsmctl port enable '{name}:{port}'"
    );
    assert!(down.ends_with(&expected), "{down}");
    assert!(down.contains("is down") && !down.contains("gone"), "{down}");
}

#[test]
fn cable_moved_to_the_port_of_a_dead_switch_is_reported_as_moved_and_not_gone() {
    let whole = Fabric::of_netlist(&generate("superpod:su=1").expect("a fabric"));
    let ends_of_cables = cables(&whole);
    let cables = between_switches(&whole);
    let near = cables[0].0.node;
    let ends = |(a, b): (PortKey, PortKey)| if a.node == near { (a, b) } else { (b, a) };
    let own = cables.into_iter().map(ends).filter(|(a, _)| a.node == near);
    let own: Vec<(PortKey, PortKey)> = own.collect();
    let (first, to) = own[0];
    let other = own.iter().find(|(_, there)| there.node != to.node);
    let &(second, dead) = other.expect("a cable to another switch");
    let of_dead: Vec<PortKey> = ends_of_cables
        .into_iter()
        .filter(|(_, there)| there.node == dead.node)
        .map(|(here, _)| here)
        .collect();
    let cut = cabled(&whole, &of_dead, &[]);
    let off = cut.follow(&Hardware::default(), &BTreeSet::from([dead.node]));
    // The plugs of both cables are exchanged, and the cable to the dead switch has no link.
    let swapped = cabled(&off, &[first], &[(second, to)]);
    let missing = followed(&[&whole, &off, &swapped]);
    let texts = missing.findings(&swapped);
    let name = |port| missing.port_name(&swapped, port);
    let expected = format!("{} leads to {} now", name(second), name(to));
    let texts: Vec<&str> = texts.iter().map(|one| one.text.as_str()).collect();
    let text = texts.iter().find(|text| text.contains(&expected));
    let text = text.unwrap_or_else(|| panic!("{expected}: {texts:?}"));
    assert!(
        text.contains("is not where it was") && !text.contains("gone"),
        "{text}"
    );
}
