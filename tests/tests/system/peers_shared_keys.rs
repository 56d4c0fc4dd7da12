//! M_Keys of ports under managers that share a real etcd: the standby reads a subnet that answers
//! nothing without keys, and completes a rotation that the master's death interrupts.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rsm_config::m_keys::{SECRET_BYTES, Secret};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_sim::DropReason;
use rsm_tests::answering::Host;
use rsm_tests::clock::wait_for_every;
use rsm_tests::etcd::PEERS;
use rsm_tests::peer::require_peers;
use rsm_tests::sharing::{Manager, Site};

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// The settings of M_Keys for each port at protection level 3. The secret, in a file of its own,
/// repeats `byte`.
fn keys_of(site: &Site, byte: u8) -> String {
    let file = site
        .fabric
        .fabric
        .directory()
        .join(format!("secret-{byte}"));
    std::fs::write(&file, format!("{byte:02x}").repeat(SECRET_BYTES)).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    format!(
        "[sm]\nm_keys = \"per-port\"\nm_key_protection_level = 3\nm_key_secret_file = {file:?}\n"
    )
}

/// The generation, 0 to 8, of the key that each port holds; `None` for a key that the secret of
/// bytes 7 does not give.
fn generations(site: &Site) -> Vec<((Guid, PortNum), Option<u64>)> {
    let held = site.fabric.fabric.sim.with(|sim| {
        let ports: Vec<(Guid, PortNum)> = sim.end_ports().collect();
        let key = |(node, port)| sim.port_info(node, port).map(|info| info.m_key());
        let keys = ports.into_iter().map(|port| (port, key(port)));
        keys.collect::<Vec<_>>()
    });
    let secret = Secret::new([7; SECRET_BYTES]);
    let held = held.unwrap().into_iter();
    held.map(|((node, port), key)| {
        let is_of = |number: &u64| Ok(secret.m_key(*number, PortKey::new(node, port))) == key;
        ((node, port), (0..9).find(is_of))
    })
    .collect()
}

/// The number of packets that ports have dropped because of their M_Key.
fn violations(site: &Site) -> u64 {
    let sim = &site.fabric.fabric.sim;
    sim.with(|sim| sim.counters().dropped_for(DropReason::MKey))
        .unwrap()
}

/// Waits until the standby has read the subnet as of the master's last plan.
fn wait_ready(standby: &Manager) {
    let is_ready = wait_for_every(POLL, LIMIT, || {
        let store = &standby.status()["shared_store"];
        let read = store["read_plan"].as_u64();
        (read.is_some() && read == store["master_plan"].as_u64()).then_some(())
    });
    let log = standby.process.stderr_so_far();
    assert!(is_ready.is_some(), "{}\n{log}", standby.status());
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn rotation_interrupted_by_sigkill_is_completed_by_the_standby() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let keys = keys_of(&site, 7);
    let last = site.fabric.hosts.len() - 1;
    let first = site.rsm(0, "one", &keys);
    first.wait_state("up");
    first.wait_stored();
    // A Set of a key that rsm repeats, because its answer is late, still has the former key, which
    // counts as a violation.
    let violations_before = violations(&site);
    let second = site.rsm(last, "two", &keys);
    second.wait_state("standby");
    wait_ready(&second);
    assert_eq!(
        violations(&site),
        violations_before,
        "it reads the subnet with the right keys"
    );
    first.command(&["rotate-m-keys"]);
    first.wait_stored();
    wait_ready(&second);
    assert!(
        generations(&site)
            .iter()
            .all(|(_, number)| *number == Some(1)),
        "{:?}",
        generations(&site)
    );
    // The standby queries the master ten times a second, at first with the former key of its port.
    let violations_of_rotation = violations(&site) - violations_before;
    assert!(violations_of_rotation <= 5, "{violations_of_rotation}");

    // The next rotation is interrupted as soon as a port has its new key.
    let killer = first.process.killer().unwrap();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| first.ask(&["rotate-m-keys"]));
        let begun = wait_for_every(Duration::from_millis(1), LIMIT, || {
            let generations = generations(&site);
            let has_begun = generations.iter().any(|(_, number)| *number == Some(2));
            has_begun.then_some(())
        });
        assert!(begun.is_some());
        killer.kill();
        // The answer does not matter.
        drop(asked.join().unwrap());
    });
    second.wait_state("up");
    let is_done = wait_for_every(POLL, LIMIT, || {
        // All hosts have keys of one generation, and all switches have keys of another generation,
        // to which a fence moved them.
        let all: BTreeSet<(bool, Option<u64>)> = generations(&site)
            .into_iter()
            .map(|((_, port), number)| (port == PortNum::ZERO, number))
            .collect();
        let all: Vec<_> = all.into_iter().collect();
        let [(false, Some(hosts)), (true, Some(switches))] = all[..] else {
            return None;
        };
        (hosts >= 2 && switches > hosts).then_some(())
    });
    let log = second.process.stderr_so_far();
    assert!(is_done.is_some(), "{:?}\n{log}", generations(&site));
    second.wait_finding("m-key", false);
    let mut host: Host = site.fabric.host(3);
    site.wait_answer_at(&mut host, site.fabric.lids()[last]);
    second.stop();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn managers_with_different_secrets_are_a_finding_on_both() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let last = site.fabric.hosts.len() - 1;
    let level = |text: String| text.replace("level = 3", "level = 1");
    let first = site.rsm(0, "one", &level(keys_of(&site, 7)));
    first.wait_state("up");
    let second = site.rsm(last, "two", &level(keys_of(&site, 8)));
    second.wait_state("standby");
    for manager in [&first, &second] {
        manager.wait_finding("config-differs", true);
        let findings = manager.findings();
        assert!(findings.contains("m_key_secret"), "{findings}");
    }
    second.stop();
    first.stop();
}
