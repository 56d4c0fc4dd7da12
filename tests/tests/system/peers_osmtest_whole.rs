//! Runs the flows of osmtest with long answers, on a fabric that carries whole messages.

use rsm_tests::bringup::LIMIT;
use rsm_tests::osmtest;
use rsm_tests::peer::require_peers;
use rsm_tests::served::Served;

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";

/// The host of rsm.
const RSM_HOST: &str = "host-001 mlx5_0";
/// The host of osmtest.
const OSMTEST_HOST: &str = "host-006 mlx5_0";

/// Runs `flows` one after the other, with a common inventory.
fn assert_flows_pass(flows: &[(&str, &str)]) {
    if !require_peers(&["osmtest", "saquery"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let rsm = osmtest::rsm(&served, RSM_HOST, OSMTEST_HOST);
    for (flow, title) in flows {
        osmtest::passes_with_key(&served, OSMTEST_HOST, flow, title);
    }
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn osmtest_registers_finds_and_expires_services() {
    assert_flows_pass(&[("s", "Services Registration")]);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn osmtest_validates_its_inventory() {
    assert_flows_pass(&[("c", "Create Inventory"), ("v", "Validate Inventory")]);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn osmtest_passes_all_validations() {
    assert_flows_pass(&[("c", "Create Inventory"), ("a", "All Validations")]);
}
