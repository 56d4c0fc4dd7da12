//! Runs osmtest in all its flows, on a fabric that carries whole messages.

use rsm_tests::bringup::LIMIT;
use rsm_tests::osmtest;
use rsm_tests::peer::require_peers;
use rsm_tests::served::Served;

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";

const FIRST: &str = "host-001 mlx5_0";
const SECOND: &str = "host-006 mlx5_0";

/// Runs `flows` one after the other, with a common inventory.
fn pass(flows: &[(&str, &str)]) {
    if !require_peers(&["osmtest", "saquery"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let rsm = osmtest::rsm(&served, FIRST, SECOND);
    for (flow, title) in flows {
        osmtest::passes_with_key(&served, SECOND, flow, title);
    }
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn services_are_registered_found_and_expire() {
    pass(&[("s", "Services Registration")]);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn the_inventory_is_validated() {
    pass(&[("c", "Create Inventory"), ("v", "Validate Inventory")]);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn everything_is_validated() {
    pass(&[("c", "Create Inventory"), ("a", "All Validations")]);
}
