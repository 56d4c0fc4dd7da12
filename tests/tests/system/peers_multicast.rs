//! Multicast of rsm's SA for osmtest, which is written against OpenSM.

use rsm_tests::bringup::LIMIT;
use rsm_tests::osmtest;
use rsm_tests::peer::require_peers;
use rsm_tests::served::Served;

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";

/// The host of rsm.
const RSM_HOST: &str = "host-001 mlx5_0";
/// The host where osmtest creates its inventory.
const INVENTORY_HOST: &str = "host-006 mlx5_0";
/// The host where osmtest runs its multicast flow.
const FLOW_HOST: &str = "host-011 mlx5_0";

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn osmtest_passes_its_multicast_flow() {
    if !require_peers(&["osmtest", "saquery"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let rsm = osmtest::rsm(&served, RSM_HOST, INVENTORY_HOST);
    osmtest::passes(&served, INVENTORY_HOST, "c", "Create Inventory");
    osmtest::passes(&served, FLOW_HOST, "m", "Multicast");
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}
