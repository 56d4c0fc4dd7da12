//! M_Keys of ports with real programs: OpenSM sets one key at all ports, then rsm takes over with a
//! key for each port.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rsm_config::m_keys::{SECRET_BYTES, Secret};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_tests::binaries;
use rsm_tests::bringup::LIMIT;
use rsm_tests::clock::wait_for;
use rsm_tests::managed::Managed;
use rsm_tests::peer::require_peers;
use rsm_tests::process::Invocation;
use rsm_tests::sm::OpenSm;

/// A fabric of 6 switches and 8 hosts.
const FABRIC: &str = "fat-tree:k=4,levels=2";
const OPENSM_KEY: u64 = 0x00c0_ffee;

/// The M_Keys of all end ports.
fn held_keys(managed: &Managed) -> BTreeMap<(Guid, PortNum), u64> {
    let keys = managed.fabric.sim.with(|sim| {
        let key = |(node, port)| sim.port_info(node, port).map(|info| info.m_key());
        let ports: Vec<(Guid, PortNum)> = sim.end_ports().collect();
        ports
            .into_iter()
            .map(|port| (port, key(port).expect("it is there")))
            .collect()
    });
    keys.expect("it runs")
}

/// The M_Keys of all end ports that rsm derives from its secret in this generation.
fn derived_keys(managed: &Managed, generation: u64) -> BTreeMap<(Guid, PortNum), u64> {
    let secret = Secret::new([7; SECRET_BYTES]);
    let ports = held_keys(managed).into_keys();
    ports
        .map(|(node, port)| {
            (
                (node, port),
                secret.m_key(generation, PortKey::new(node, port)),
            )
        })
        .collect()
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm")]
fn ports_with_the_key_of_opensm_get_own_keys_and_new_keys_at_each_rotation() {
    if !require_peers(&["opensm"]) {
        return;
    }
    let managed = Managed::start(FABRIC);
    let at = managed.fabric.directory();
    let conf = at.join("opensm.conf");
    std::fs::write(
        &conf,
        format!("m_key {OPENSM_KEY:#x}\nm_key_protection_level 2\nm_key_lookup TRUE\n"),
    )
    .unwrap();
    let opensm = managed.fabric.client("opensm").unwrap();
    let conf = conf.to_str().expect("it is text");
    let opensm = OpenSm::run(opensm, &["-F", conf], LIMIT).unwrap();
    let all_guarded = || {
        held_keys(&managed)
            .into_values()
            .all(|key| key == OPENSM_KEY)
            .then_some(())
    };
    assert!(wait_for(LIMIT, all_guarded).is_some(), "{}", opensm.log());
    let files = opensm.directory().to_owned();
    opensm.stop().unwrap();

    let secret = at.join("m-key-secret");
    std::fs::write(&secret, "07".repeat(SECRET_BYTES)).unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let config = at.join("rsm.toml");
    let text = format!(
        "[sm]\nm_keys = \"per-port\"\nm_key_protection_level = 2\nm_key_secret_file = {secret:?}\n\
         m_key_table_file = {:?}\nm_key_neighbors_file = {:?}\n",
        files.join("guid2mkey"),
        files.join("neighbors"),
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().expect("it is text");
    let mut host = managed.host(3);
    let rsm = managed.rsm_with(&mut host, &["--config", config]);
    let have_own = || (held_keys(&managed) == derived_keys(&managed, 0)).then_some(());
    assert!(
        wait_for(LIMIT, have_own).is_some(),
        "{}",
        rsm.stderr_so_far()
    );

    let server = format!("unix:{}", managed.state().join("rsm.sock").display());
    let rsmctl = |arguments: &[&str]| {
        let rsmctl = Invocation::new(binaries::rsmctl(), managed.fabric.directory());
        let run = rsmctl
            .args(["--server", &server])
            .args(arguments)
            .run(LIMIT);
        run.unwrap().success().unwrap().stdout
    };
    let rotated = rsmctl(&["rotate-m-keys"]);
    assert!(rotated.contains("GENERATION"), "{rotated}");
    assert_eq!(held_keys(&managed), derived_keys(&managed, 1));
    let status = rsmctl(&["status"]);
    assert!(
        status.contains("generation 1; 14 ports hold their own"),
        "{status}"
    );

    // After a restart, rsm finds guarded ports by the cabling in its store.
    rsm.terminate(Duration::from_secs(10)).unwrap();
    let rsm = managed.rsm_with(&mut host, &["--config", config]);
    rsmctl(&["rotate-m-keys"]);
    assert_eq!(
        held_keys(&managed),
        derived_keys(&managed, 2),
        "{}",
        rsm.stderr_so_far()
    );
    rsm.terminate(Duration::from_secs(10)).unwrap();
}
