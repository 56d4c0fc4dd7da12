//! SMPs of infiniband-diags whose route is partly by LID and partly directed, on the simulator.

use std::path::Path;

use rsm_tests::binaries;
use rsm_tests::bringup::LIMIT;
use rsm_tests::peer::require_peers;
use rsm_tests::served::Served;
use rsm_tests::sm::Rsm;

const FABRIC: &str = "fat-tree:k=4,levels=2";

/// The host where the commands run, which is not the manager's.
const HOST: &str = "host-002 mlx5_0";

/// The value of a line `Name:.....value`.
fn value<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let line = line.unwrap_or_else(|| panic!("`{name}` is missing in\n{text}"));
    line.trim_start_matches('.')
}

#[test]
#[cfg_attr(not(peers), ignore = "needs infiniband-diags")]
fn route_by_lid_and_then_directed_reaches_ports_behind_a_switch() {
    if !require_peers(&["smpquery", "ibportstate"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let state: &Path = &served.directory().join("state");
    let rsm = served.client("", binaries::rsm()).unwrap();
    let rsm = Rsm::run(rsm, state, &[], LIMIT).unwrap();
    let ask = |program: &str, arguments: &[&str]| {
        let finished = served.diagnose(HOST, program, arguments).unwrap();
        finished.success().unwrap().stdout
    };

    let leaf = ask("smpquery", &["-D", "portinfo", "0,1", "0"]);
    let leaf = value(&leaf, "Lid");
    let guids = |route: &[&str]| {
        let answer = ask("smpquery", route);
        (
            value(&answer, "Guid").to_owned(),
            value(&answer, "PortGuid").to_owned(),
        )
    };
    for port in ["1", "2", "3", "4"] {
        let directed = guids(&["-D", "nodeinfo", &format!("0,1,{port}")]);
        let combined = guids(&["-c", "nodeinfo", leaf, &format!("0,{port}")]);
        assert_eq!(combined, directed, "port {port}");
    }
    let states = ask("ibportstate", &[leaf, "1", "query"]);
    assert!(states.contains("Peer PortInfo"), "{states}");
    rsm.stop().unwrap().success().unwrap();
}
