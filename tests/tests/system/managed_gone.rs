//! Nodes and cables that are gone, as commands, the API and the graph of the web page show them.

use std::time::Duration;

use rsm_tests::clock::wait_for;
use rsm_tests::web::{Site, get};
use serde_json::Value;

/// A fabric of four leaves with four hosts each (ports 1 to 4) below two spines (ports 5 and 6).
const FABRIC: &str = "pgft:2;4,4;1,2;1,1";

const LIMIT: Duration = Duration::from_secs(60);

/// Waits until the output of a command contains `text`, and returns it.
fn wait_for_text(site: &Site, arguments: &[&str], text: &str) -> String {
    let found = wait_for(LIMIT, || {
        let (_, output) = site.told(arguments);
        output.contains(text).then_some(output)
    });
    found.unwrap_or_else(|| panic!("no `{text}` in {arguments:?}: {}", site.told(arguments).1))
}

#[test]
fn commands_about_a_host_without_power_say_where_it_was() {
    let site = Site::start(FABRIC);
    site.rsmctl(&["sim", "power-off", "host-007"]);
    wait_for_text(&site, &["status"], "up, 1 host missing");
    for command in [
        &["nodes", "host-007"][..],
        &["nodes", "HOST-007 mlx5_0"],
        &["nodes", "--description", "host-007"],
        &["ports", "host-007"],
        &["ports", "--node", "host-007"],
        &["links", "--node", "host-007"],
        &["link", "host-007"],
        &["route", "host-001", "host-007"],
        &["path", "host-001", "host-007"],
        &["drain", "host-007"],
        &["whatif", "host-007"],
        &["vports", "--node", "host-007"],
        &["services", "--port", "host-007"],
        &["multicast", "--port", "host-007"],
    ] {
        let (code, output) = site.told(command);
        assert_eq!(code, 1, "{command:?}: {output}");
        for part in ["is gone", "host-007 mlx5_0 was at leaf-02 port 3 until 20"] {
            assert!(output.contains(part), "{command:?}: {output}");
        }
    }
    let node = get(site.address(), "/api/v1/node?node=host-007");
    assert_eq!(node.status, 404);
    assert!(
        node.text().contains("was at MF0;leaf-02:MQM8700/U1 port 3"),
        "{}",
        node.text()
    );
    let findings = site.printed(&["findings", "--node", "host-007"]);
    assert!(findings.contains("host-missing"), "{findings}");
    // The leaf's port names the former end of its cable.
    let port = site.printed(&["ports", "leaf-02:3", "--wide"]);
    assert!(port.contains("GONE: host-007 mlx5_0:1, until 20"), "{port}");
}

#[test]
fn spine_without_power_keeps_its_place_in_the_graph_and_counts_as_missing() {
    let site = Site::start(FABRIC);
    let graph = |site: &Site| get(site.address(), "/api/v1/graph").json();
    let places = |graph: &Value| {
        let columns = &graph["switches"];
        [&columns["name"], &columns["x"], &columns["y"]].map(Value::clone)
    };
    let before = graph(&site);
    site.rsmctl(&["sim", "power-off", "spine-02"]);
    wait_for_text(&site, &["status"], "up, 1 switch and 4 cables missing");
    let after = wait_for(LIMIT, || {
        let graph = graph(&site);
        let flags = graph["switches"]["flags"].as_array()?.clone();
        flags.contains(&Value::from(8)).then_some(graph)
    });
    let after = after.expect("the gone switch is drawn");
    assert_eq!(places(&after), places(&before));
    let links = after["links"].as_array().expect("it is a list").clone();
    let gone = links.chunks(5).filter(|link| link[4] == 5);
    assert_eq!(gone.count(), 4);
    let status = get(site.address(), "/api/v1/status").json();
    assert_eq!(
        status["status"]["state"], "up",
        "machine formats keep the state"
    );
    assert_eq!(status["status"]["missing"]["switches"], 1);
    let (code, output) = site.told(&["link", "leaf-01:6"]);
    assert_eq!(code, 1, "{output}");
    assert!(
        output.contains("is gone: it led to spine-02 port 1 until"),
        "{output}"
    );
}

#[test]
fn exchanged_cables_are_a_finding_until_the_operator_accepts_them() {
    let site = Site::start(FABRIC);
    site.rsmctl(&["sim", "swap", "leaf-01:5", "leaf-02:6"]);
    let findings = ["findings", "--kind", "cables-exchanged", "--all", "--wide"];
    let found = wait_for_text(&site, &findings, "leads to");
    assert!(found.contains("(was at spine-01 port 1)"), "{found}");
    let expected = site.printed(&["expect", "--wide"]);
    assert!(expected.contains("exchanged"), "{expected}");
    site.rsmctl(&["expect", "--accept", "leaf-01:5"]);
    let ended = wait_for(LIMIT, || {
        let output = site.printed(&findings);
        (!output.contains("leads to")).then_some(())
    });
    assert!(ended.is_some(), "{}", site.printed(&findings));
    assert!(
        site.restart().printed(&["status"]).contains("exchanged"),
        "the simulation begins anew"
    );
}
