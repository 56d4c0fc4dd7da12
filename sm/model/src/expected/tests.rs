use proptest::prelude::*;
use proptest::sample::Index;
use rsm_routing::generate::generate;

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
                // An inventory that lacks the node takes it out.
                fabric = fabric.follow(&Hardware::default(), &BTreeSet::from([a.node]));
            }
        }
    }
    fabric
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn missing_from_a_fabric_equals_an_update_of_everything_by_it(
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
            // A store has one row of each part, whether it was there or missing.
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
