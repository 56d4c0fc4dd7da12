//! The calls that topograph makes with its provider `netq`, against a running rsm.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_tests::clock::wait_for;
use rsm_tests::gpu_matrix::gpu_matrix;
use rsm_tests::web::{Answer, Site, exchange, get, get_with, write};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

const LOGIN: &str = "/api/netq/auth/v1/login";
const GRAPH: &str = "/api/netq/telemetry/v1/object/topologygraph/fetch-topology";

fn post(site: &Site, path: &str, body: &str) -> Answer {
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        site.address(),
        body.len()
    );
    exchange(site.address(), request.as_bytes())
}

/// The graph, as topograph asks for it with the token of a login.
fn graph(site: &Site) -> Answer {
    let login = post(
        site,
        LOGIN,
        r#"{"username":"topograph", "password":"secret"}"#,
    );
    assert_eq!(login.status, 200, "{}", login.text());
    let login = login.json();
    let premises = login["premises"].as_array().expect("premises");
    let seen: Vec<&Value> = (premises.iter())
        .filter(|one| one["config_key_viewed"] == true)
        .collect();
    assert_eq!(seen.len(), 1, "{login}");
    assert!(login["access_token"].is_string(), "{login}");
    let select = format!("/api/netq/auth/v1/select/opid/{}", seen[0]["opid"]);
    let bearer = [("host", site.address()), ("authorization", "Bearer none")];
    let selected = get_with(site.address(), &select, &bearer);
    assert!(selected.json()["access_token"].is_string());
    post(
        site,
        &format!("{GRAPH}?timestamp=0"),
        r#"{"filters": [], "subgroupNestingDepth":2}"#,
    )
}

/// The graph, once rsm has one.
fn known_graph(site: &Site) -> Value {
    let known = || {
        let answer = graph(site);
        (answer.status == 200).then(|| answer.json())
    };
    wait_for(LIMIT, known).expect("a graph")
}

/// The names of the nodes of each tier.
fn by_tier(answer: &Value) -> BTreeMap<i64, BTreeSet<String>> {
    let nodes = answer[0]["nodes"][0]["compounded_nodes"].as_array();
    let mut by_tier: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    for node in nodes.expect("nodes") {
        let tier = node["tier"].as_i64().expect("a number");
        let name = node["name"].as_str().expect("text").to_owned();
        by_tier.entry(tier).or_default().insert(name);
    }
    by_tier
}

#[test]
fn netq_calls_of_topograph_return_the_gpu_hosts_and_their_units() {
    let site = Site::start("superpod:su=2");
    // Without GPU hosts there is no graph, and the answer says why.
    let refused = graph(&site);
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.json()["error"].is_string());

    let file = site.directory().join("dgx.txt");
    write(&file, gpu_matrix(&[]).as_bytes());
    let file = file.display().to_string();
    site.rsmctl(&["gpu", "import", "--host", "dgx", "--machine-type", &file]);
    let answer = known_graph(&site);
    let sizes: Vec<(i64, usize)> = by_tier(&answer)
        .iter()
        .map(|(tier, names)| (*tier, names.len()))
        .collect();
    assert_eq!(sizes, [(-1, 64), (0, 2), (1, 1)], "{answer}");
    // Each host and each unit has one link to the next tier.
    let links = answer[0]["links"].as_array().expect("links");
    assert_eq!(links.len(), 66, "{answer}");

    let domains = get(site.address(), "/nmx/v1/compute-nodes");
    assert_eq!(
        (domains.status, domains.json()),
        (200, Value::Array(Vec::new()))
    );
    // No other path takes POST.
    let refused = post(&site, "/nmx/v1/compute-nodes", "{}");
    assert_eq!(refused.status, 405, "{}", refused.text());
}

#[test]
fn netq_calls_of_topograph_return_the_units_pods_and_top_of_a_three_tier_fabric() {
    // Three pods of two leaves with four hosts each.
    let site = Site::start("pgft:3;4,2,3;1,2,2;1,1,1");
    let file = site.directory().join("one.txt");
    write(&file, b"\tGPU0\tmlx5_0\nGPU0\t X \tPIX\nmlx5_0\tPIX\t X \n");
    let file = file.display().to_string();
    site.rsmctl(&["gpu", "import", "--host", "one", "--machine-type", &file]);
    let answer = known_graph(&site);
    let by_tier = by_tier(&answer);
    let links = answer[0]["links"].as_array().expect("links").iter();
    let links = links.map(|link| link["id"].as_str().expect("text"));
    let above: BTreeMap<&str, &str> = links.filter_map(|id| id.split_once("-*-")).collect();
    let mut groups: BTreeSet<String> = by_tier[&-1].clone();
    // On each tier: the start of the names, the groups, and the hosts or groups in each.
    for (tier, begin, count, members) in [(0, "su-", 6, 4), (1, "pod-", 3, 2), (2, "fabric-", 1, 3)]
    {
        let mut next: BTreeMap<&str, usize> = BTreeMap::new();
        for group in &groups {
            *next.entry(above[group.as_str()]).or_default() += 1;
        }
        let names: BTreeSet<String> = next.keys().map(|&name| name.to_owned()).collect();
        assert_eq!(names, by_tier[&tier], "{answer}");
        assert!(
            names.iter().all(|name| name.starts_with(begin)),
            "{names:?}"
        );
        let sizes: Vec<usize> = next.into_values().collect();
        assert_eq!(sizes, vec![members; count], "{answer}");
        groups = names;
    }
    assert_eq!(by_tier.len(), 4, "{answer}");
}
