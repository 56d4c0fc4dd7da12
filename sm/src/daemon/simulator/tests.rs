//! Tests of commands on a simulated fabric.

use rsm_api::LookupError;
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::PortState;
use rsm_routing::ibnetdiscover;
use rsm_sim::{SimConfig, live};

use super::*;

const SPINE_A: Guid = Guid(0x100);
const LEAF_1: Guid = Guid(0x300);
const HOST_1: Guid = Guid(0x1000);

/// Two leaves with two hosts each (ports 1 and 2) under two spines (ports 3 and 4); the last two
/// hosts have the same description.
fn netlist() -> Netlist {
    let text = include_bytes!("two_leaves.txt");
    ibnetdiscover::parse(text, "two_leaves.txt")
        .unwrap()
        .netlist
}

fn named(text: &str) -> Selector {
    text.parse().unwrap()
}

#[tokio::test]
async fn actions_by_name_change_the_simulated_fabric() {
    let netlist = netlist();
    let sim = Sim::new(&netlist, SimConfig::default(), 1).unwrap();
    let handle = live::spawn(sim).unwrap();
    let simulator = Simulator::new(handle.clone(), netlist);
    let leaf = || named("leaf-1");
    let state = || {
        let look = |sim: &mut Sim| sim.port_info(SPINE_A, PortNum(1)).unwrap().port_state();
        handle.with(look).unwrap()
    };
    assert_eq!(state(), PortState::Init);
    let port = PortNum(3);
    let unlink = SimulationAction::Unlink {
        node: leaf(),
        port: Some(port),
    };
    simulator.act(unlink).await.unwrap();
    assert_eq!(state(), PortState::Down);

    let powered = || handle.with(|sim| sim.is_powered(LEAF_1).unwrap()).unwrap();
    simulator
        .act(SimulationAction::PowerOff { node: leaf() })
        .await
        .unwrap();
    assert!(!powered());
    // A node without power keeps its name.
    simulator
        .act(SimulationAction::PowerOn { node: leaf() })
        .await
        .unwrap();
    assert!(powered());

    let peer = |port: u8| handle.with(move |sim| sim.peer(LEAF_1, PortNum(port)).unwrap());
    let [before, other] = [3, 4].map(|port| peer(port).unwrap());
    let swap = SimulationAction::SwapCables {
        node: leaf(),
        port: Some(port),
        other_node: leaf(),
        other_port: Some(PortNum(4)),
    };
    simulator.act(swap).await.unwrap();
    assert_eq!([3, 4].map(|port| peer(port).unwrap()), [other, before]);
    // The links of the cables are trained when the answer arrives.
    assert_eq!(state(), PortState::Init);

    let refused = |node: &str, port: u8| {
        simulator.act(SimulationAction::Relink {
            node: named(node),
            port: (port > 0).then_some(PortNum(port)),
        })
    };
    assert!(matches!(
        refused("leaf-1", 5).await,
        Err(SimulationError::NoCable { .. })
    ));
    for (node, port) in [("leaf-1", 6), ("host-1", 2)] {
        let result = refused(node, port).await;
        let expected = matches!(
            result,
            Err(SimulationError::Lookup(LookupError::NoSuchPort { .. }))
        );
        assert!(expected, "{node}: {result:?}");
    }
    assert!(matches!(
        refused("twin", 1).await,
        Err(SimulationError::Lookup(LookupError::Ambiguous { .. }))
    ));
    assert!(matches!(
        refused("nobody", 1).await,
        Err(SimulationError::Lookup(LookupError::NotFound { .. }))
    ));
    let loss = SimulationAction::SetLoss {
        rate: 0.5,
        attribute: Some(0x15),
    };
    simulator.act(loss).await.unwrap();
    let errors = |counter: &str| SimulationAction::SetErrors {
        node: leaf(),
        port: Some(PortNum(1)),
        counter: counter.to_owned(),
        per_second: 2.5,
    };
    let done = simulator.act(errors("symbolerrorcounter")).await;
    let refused = simulator.act(errors("SymbolErrors")).await.unwrap_err();
    let sentence = refused.to_string();
    assert!(sentence.starts_with(
        "`SymbolErrors` is no counter of a port: expected one of SymbolErrorCounter, "
    ));
    done.unwrap();
}

#[tokio::test]
async fn simulated_port_is_found_by_every_form_of_its_name() {
    let config = SimConfig {
        keep_lids: true,
        ..SimConfig::default()
    };
    let sim = Sim::new(&netlist(), config, 1).unwrap();
    let host = HOST_1;
    let port_guid = sim.port_guid(host, PortNum(1)).unwrap().to_string();
    let lid = sim.port_info(host, PortNum(1)).unwrap().lid().to_string();
    let handle = live::spawn(sim).unwrap();
    let simulator = Simulator::new(handle.clone(), netlist());
    let bare = format!("{:016x}", LEAF_1.0);
    let state = |node: Guid, port: u8| {
        let look = move |sim: &mut Sim| sim.port_info(node, PortNum(port)).unwrap().port_state();
        handle.with(look).unwrap()
    };
    for (name, number, node, port) in [
        ("leaf-1:3", None, LEAF_1, 3),
        ("LEAF-1", Some(3), LEAF_1, 3),
        ("eaf-1:3", None, LEAF_1, 3),
        (&format!("{LEAF_1}:3"), None, LEAF_1, 3),
        (&format!("{bare}:3"), None, LEAF_1, 3),
        (&bare, Some(3), LEAF_1, 3),
        ("host-1", None, host, 1),
        ("host-1:1", None, host, 1),
        ("host-1:1", Some(1), host, 1),
        (&port_guid, None, host, 1),
        (&lid, None, host, 1),
        (&format!("lid:{lid}"), Some(1), host, 1),
    ] {
        let at = || (named(name), number.map(PortNum));
        let (node_name, port_number) = at();
        let unlink = SimulationAction::Unlink {
            node: node_name,
            port: port_number,
        };
        simulator
            .act(unlink)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(state(node, port), PortState::Down, "{name}");
        let (node_name, port_number) = at();
        let relink = SimulationAction::Relink {
            node: node_name,
            port: port_number,
        };
        simulator.act(relink).await.unwrap();
        assert_ne!(state(node, port), PortState::Down, "{name}");
    }
    let refused = |name: &str, number: Option<u8>| {
        simulator.act(SimulationAction::Unlink {
            node: named(name),
            port: number.map(PortNum),
        })
    };
    let no_port = refused("leaf-1", None).await;
    assert!(
        matches!(no_port, Err(SimulationError::NoPort { .. })),
        "{no_port:?}"
    );
    let two = refused("leaf-1:3", Some(2)).await;
    assert!(
        matches!(two, Err(SimulationError::TwoPorts { .. })),
        "{two:?}"
    );
    let unknown = refused("40000", None).await;
    let is_unknown = matches!(
        unknown,
        Err(SimulationError::Lookup(LookupError::NotFound { .. }))
    );
    assert!(is_unknown, "{unknown:?}");
}
