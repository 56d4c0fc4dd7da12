//! Managers that share a store: a standby knows the GPU hosts and the history of the master.

use std::fs;
use std::time::Duration;

use rsm_tests::clock::wait_for_every;
use rsm_tests::etcd::PEERS;
use rsm_tests::peer::require_peers;
use rsm_tests::sharing::{Manager, Site};

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// The inventory of a host with one GPU beside an adapter with this GUID.
fn inventory(guid: u64) -> String {
    format!(
        r#"{{"version":1,"gpus":[{{"index":0}}],"hca_ports":[{{"device":"mlx5_0","port":1,"port_guid":"{guid:#018x}"}}],"tiers":[["PIX"]]}}"#
    )
}

/// Imports the inventory of a host with one GPU and an adapter with this GUID.
fn import(rsm: &Manager, host: &str, guid: u64) {
    let file = rsm.directory.join(format!("{host}.inventory"));
    fs::write(&file, inventory(guid)).unwrap();
    let file = file.to_str().unwrap().to_owned();
    rsm.command(&["gpu", "import", "--host", host, &file]);
}

/// The names of hosts that have reported inventories.
fn gpu_hosts(rsm: &Manager) -> Vec<String> {
    let hosts = rsm.ask(&["gpu", "hosts"]).unwrap_or_default();
    let hosts = hosts.as_array().cloned().unwrap_or_default();
    let own = hosts.iter().filter(|host| host["own"] == true);
    let names = own.filter_map(|host| host["name"].as_str());
    names.map(str::to_owned).collect()
}

fn wait_hosts(rsm: &Manager, expected: &[&str]) {
    let reached = wait_for_every(POLL, LIMIT, || (gpu_hosts(rsm) == expected).then_some(()));
    let log = rsm.process.stderr_so_far();
    let shown = rsm.command(&["gpu", "hosts"]);
    assert!(reached.is_some(), "{expected:?}: {shown}\n{log}");
}

/// The events of the last hour in which an operator forgot this GPU host, from the history on the
/// disk.
fn forget_events(rsm: &Manager, host: &str) -> Vec<String> {
    let all = rsm.command(&["events", "--since", "1h", "--format", "json"]);
    let is_wanted = |line: &&str| line.contains("forget-gpu-inventory") && line.contains(host);
    all.lines().filter(is_wanted).map(str::to_owned).collect()
}

/// Waits until the history on the disk has the one event of [`forget_events`]; returns it.
fn wait_forget_event(rsm: &Manager, host: &str) -> String {
    let found = wait_for_every(POLL, LIMIT, || {
        let found = forget_events(rsm, host);
        (!found.is_empty()).then_some(found)
    });
    let found = found.unwrap_or_else(|| panic!("{}", rsm.command(&["events", "--since", "1h"])));
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

/// The number of convergences in the history on the disk.
fn convergences(rsm: &Manager) -> usize {
    let history = rsm.ask(&["history", "--since", "1h"]).unwrap_or_default();
    history.as_array().map_or(0, Vec::len)
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn standby_has_the_gpu_hosts_and_history_of_the_master_before_and_after_a_takeover() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let last = site.fabric.hosts.len() - 1;
    let first = site.rsm(0, "one", "");
    first.wait_state("up");
    let second = site.rsm(last, "two", "");
    second.wait_state("standby");
    import(&first, "gpu-a", 0xa);
    import(&first, "gpu-b", 0xb);
    first.command(&["gpu", "forget", "gpu-b"]);
    // Before the takeover, the standby reads the changes in etcd every five seconds.
    wait_hosts(&second, &["gpu-a"]);
    let event = wait_forget_event(&second, "gpu-b");
    let own = site.fabric.hosts[0];
    let guid = site
        .fabric
        .fabric
        .sim
        .with(move |sim| sim.port_guid(own.0, own.1));
    let guid = guid.expect("it runs").expect("it is there").to_string();
    assert!(event.contains(&guid), "{event}");
    // At the takeover, the standby reads the changes that it has not read yet.
    import(&first, "gpu-c", 0xc);
    std::thread::sleep(Duration::from_secs(2));
    first.wait_stored();
    let known = convergences(&first);
    assert!(known > 1, "{known}");
    first.process.kill().unwrap();
    second.wait_state("up");
    wait_hosts(&second, &["gpu-a", "gpu-c"]);
    wait_forget_event(&second, "gpu-b");
    assert!(convergences(&second) > known, "{known}");

    // The first manager comes back, and learns what the second manager has done; it still has its
    // own events.
    second.command(&["gpu", "forget", "gpu-a"]);
    let first = site.rsm(0, "one", "");
    first.wait_state("standby");
    wait_hosts(&first, &["gpu-c"]);
    wait_forget_event(&first, "gpu-a");
    wait_forget_event(&first, "gpu-b");
    // A manager with an empty folder gets everything from the store.
    first.process.kill().unwrap();
    let third = site.rsm(0, "three", "");
    third.wait_state("standby");
    wait_hosts(&third, &["gpu-c"]);
    wait_forget_event(&third, "gpu-a");
    wait_forget_event(&third, "gpu-b");
    third.stop();
    second.stop();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn inventory_files_of_an_earlier_version_move_into_the_store() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let last = site.fabric.hosts.len() - 1;
    let (rsm, directory) = site.invocation(0, "one", "");
    let folder = directory.join("gpu/hosts");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("gpu-old.json"), inventory(0xd)).unwrap();
    drop(rsm);
    let first = site.rsm(0, "one", "");
    first.wait_state("up");
    wait_hosts(&first, &["gpu-old"]);
    let gone = wait_for_every(POLL, LIMIT, || {
        (!directory.join("gpu").exists()).then_some(())
    });
    assert!(gone.is_some(), "the store has what the files held");
    first.wait_stored();
    first.process.kill().unwrap();
    let second = site.rsm(last, "two", "");
    second.wait_state("up");
    wait_hosts(&second, &["gpu-old"]);
    second.stop();
    // The store on the first machine has the inventory as well.
    let first = site.rsm(0, "one", "");
    first.wait_state("up");
    wait_hosts(&first, &["gpu-old"]);
    first.stop();
}
