//! The HTTP listener of a running rsm: routes, limits, refusals.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::web::{Site, exchange, get, get_with};

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";

const LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

#[test]
fn json_api_lists_nodes_in_pages_and_the_graph_has_every_switch_and_host() {
    let site = Site::start(FABRIC);
    let status = get(site.address(), "/api/v1/status").json();
    assert_eq!(status["status"]["switches"], 20);
    assert_eq!(status["status"]["verify"]["loop_free"], true);

    let nodes = get(site.address(), "/api/v1/nodes?kind=switch&page_size=7").json();
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 7);
    let token = nodes["next_page_token"].as_str().unwrap();
    let rest = format!("/api/v1/nodes?kind=switch&page_size=100&page_token={token}");
    let other = get(site.address(), &rest);
    assert_eq!(other.status, 200, "{}", other.text());
    assert_eq!(other.json()["nodes"].as_array().unwrap().len(), 13);

    let graph = get(site.address(), "/api/v1/graph");
    let drawn = graph.json();
    assert_eq!(drawn["switches"]["guid"].as_array().unwrap().len(), 20);
    let hosts = drawn["switches"]["hosts"].as_array().unwrap().iter();
    assert_eq!(hosts.map(|hosts| hosts.as_u64().unwrap()).sum::<u64>(), 16);
    assert_eq!(drawn["tiers"], 3);
    let tag = graph.header("etag").unwrap();
    let headers = [("host", site.address()), ("if-none-match", tag)];
    assert_eq!(
        get_with(site.address(), "/api/v1/graph", &headers).status,
        304
    );
}

#[test]
fn json_api_has_the_report_port_trends_and_the_partitions_of_a_port() {
    let config = "[counters]\nenabled = true\ninterval_s = 1\nports_interval_s = 1\n";
    let site = Site::start_with(FABRIC, config);
    let report = get(site.address(), "/api/v1/report").json();
    let checks = report["report"]["checks"].as_array().unwrap();
    assert!(checks.iter().any(|check| check["name"] == "cabling"));

    let links = get(site.address(), "/api/v1/links?between_switches=true").json();
    let end = &links["links"][0]["a"]["port"];
    let node = end["node_guid"].as_str().unwrap();
    let port = end["number"].to_string();
    site.rsmctl(&["sim", "errors", node, &port, "SymbolErrorCounter", "50"]);
    let path = format!("/api/v1/port-trends?node={node}&since_unix_ms=1000");
    let trends = wait_for_every(POLL, LIMIT, || {
        let trends = get(site.address(), &path).json();
        let ports = trends["ports"].as_array()?.clone();
        let moved = ports.iter().find(|one| one["port"] == *end)?;
        (moved["errors"][0].as_u64()? > 0).then_some(trends)
    });
    let trends = trends.expect("the errors are counted");
    let ports = trends["ports"].as_array().unwrap();
    let steps = trends["step_start_unix_ms"].as_array().unwrap().len();
    assert_eq!(ports.len(), 4, "a switch of this fabric has four ports");
    for one in ports {
        assert_eq!(one["errors"].as_array().unwrap().len(), steps);
        assert_eq!(one["bytes_per_s"].as_array().unwrap().len(), steps);
        let is_quiet = one["errors"]
            .as_array()
            .unwrap()
            .iter()
            .all(|errors| errors == 0);
        assert_eq!(is_quiet, one["port"] != *end, "{one}");
    }
    let none = get(
        site.address(),
        "/api/v1/port-trends?node=nobody&since_unix_ms=1000",
    );
    assert_eq!(none.status, 404, "{}", none.text());
    let always = get(site.address(), &format!("/api/v1/port-trends?node={node}"));
    assert_eq!(always.status, 400, "{}", always.text());

    let hosts = get(site.address(), "/api/v1/nodes?kind=ca&page_size=1").json();
    let host = hosts["nodes"][0]["guid"].as_str().unwrap();
    let of_port = |port: &str| {
        let mut answer = get(site.address(), &format!("/api/v1/port?port={port}")).json();
        answer["partitions"].take()
    };
    let partitions = of_port(&format!("{host}:1"));
    assert_eq!(partitions[0]["p_key"], 0x7fff, "{partitions}");
    assert_eq!(partitions[0]["membership"], "full");
    let none = of_port(&format!("{node}:{port}"));
    assert_eq!(none.as_array().map(Vec::len), Some(0), "{none}");
}

#[test]
fn invalid_requests_of_the_json_api_are_refused_with_a_reason() {
    let site = Site::start(FABRIC);
    for (path, status) in [
        ("/api/v1/nodes?kind=hub", 400),
        ("/api/v1/nodes?nothing=1", 400),
        ("/api/v1/node?node=nobody-has-this-name", 404),
        ("/api/v1/what-if", 400),
        ("/metrics?detail=all", 400),
        ("/metrics?detail=ports&shard=9/4", 400),
        ("/../etc/passwd", 404),
        ("/api/v1/resweep", 404),
    ] {
        let answer = get(site.address(), path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        let error = answer.json();
        assert!(
            !error["error"].as_str().unwrap_or_default().is_empty(),
            "{path}"
        );
    }
}

#[test]
fn every_answer_has_a_strict_policy_and_foreign_host_names_are_refused() {
    let site = Site::start(FABRIC);
    for path in ["/", "/main.js", "/metrics", "/api/v1/status", "/nothing"] {
        let answer = get(site.address(), path);
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    let rebound = get_with(
        site.address(),
        "/api/v1/status",
        &[("host", "rebound.example")],
    );
    assert_eq!(rebound.status, 421, "{}", rebound.text());
    assert_eq!(get_with(site.address(), "/", &[]).status, 400);
    let post = b"POST /api/v1/status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(exchange(site.address(), post).status, 405);
}

#[test]
fn malformed_requests_end_their_connection_and_rsm_serves_on() {
    let site = Site::start(FABRIC);
    let long = format!(
        "GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "x".repeat(64 * 1024)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n",
        "a: b\r\n".repeat(500)
    );
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET / HTTP/1.1\r\n\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n\r\n\r\n\0\0\0",
        long.as_bytes(),
        many.as_bytes(),
    ] {
        let answer = exchange(site.address(), bytes);
        assert!(
            (400..500).contains(&answer.status) || answer.status == 0,
            "{answer:?}"
        );
    }
    assert_eq!(get(site.address(), "/api/v1/status").status, 200);
}

#[test]
fn connections_beyond_the_limit_are_closed_until_other_connections_end() {
    let site = Site::start(FABRIC);
    let open: Vec<TcpStream> = (0..rsm_web::limits::MAX_CONNECTIONS)
        .map(|_| TcpStream::connect(site.address()).unwrap())
        .collect();
    let refused = wait_for_every(POLL, LIMIT, || {
        (get(site.address(), "/api/v1/status").status == 0).then_some(())
    });
    assert!(
        refused.is_some(),
        "one more connection is closed without an answer"
    );
    drop(open);
    let served = wait_for_every(POLL, LIMIT, || {
        (get(site.address(), "/api/v1/status").status == 200).then_some(())
    });
    assert!(served.is_some());
}

#[test]
fn lost_cable_is_in_the_stream_of_changes_and_in_the_metrics() {
    let site = Site::start(FABRIC);
    let mut stream = TcpStream::connect(site.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
        .write_all(b"GET /api/v1/changes HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let links = get(site.address(), "/api/v1/links?between_switches=true").json();
    let end = &links["links"][0]["a"]["port"];
    let (node, port) = (end["node_guid"].as_str().unwrap(), &end["number"]);
    site.rsmctl(&["sim", "unlink", node, &port.to_string()]);
    let mut received = String::new();
    let mut buffer = [0; 4096];
    while !received.contains("\"link\":") {
        let length = stream.read(&mut buffer).expect("the change is told");
        assert!(length > 0, "{received}");
        received += &String::from_utf8_lossy(&buffer[..length]);
    }
    assert!(received.contains("text/event-stream"));
    let counted = wait_for_every(POLL, LIMIT, || {
        let metrics = get(site.address(), "/metrics").text();
        let trap = metrics
            .lines()
            .any(|line| line == "rsm_convergences_total{cause=\"trap\"} 1");
        trap.then_some(metrics)
    });
    let metrics = counted.expect("the convergence is counted");
    assert!(
        metrics.contains("rsm_missing{kind=\"cable\"} 1"),
        "{metrics}"
    );
}

/// The names of metrics in a text: `rsm_` or `infiniband_`, followed by characters permitted in a
/// name.
fn metric_names(text: &str) -> BTreeSet<String> {
    text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
        .filter(|word| word.starts_with("rsm_") || word.starts_with("infiniband_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_dashboard_names_only_metrics_that_are_served() {
    let file = binaries::workspace().join("packaging/grafana/rsm.json");
    let text = std::fs::read_to_string(file).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 8);
    let site = Site::start(FABRIC);
    let served = metric_names(&get(site.address(), "/metrics").text());
    let shown = metric_names(&text);
    for of_links in [
        "rsm_traffic_bytes_per_second",
        "rsm_errors_per_hour",
        "rsm_error_ports",
        "rsm_congested_ports",
        "rsm_avoided_parts",
        "rsm_counters_behind_seconds",
    ] {
        assert!(shown.contains(of_links), "no panel has {of_links}");
    }
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let named = metric_names(target["expr"].as_str().unwrap());
            assert!(!named.is_empty(), "{panel}");
            let unknown: Vec<&String> = named.difference(&served).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", panel["title"]);
        }
    }
}

/// Metrics that rsm serves only with a shared store or with a receiver of events.
const METRICS_OF_OPTIONS: &[&str] = &[
    "rsm_shared_store_ok",
    "rsm_standby_ready",
    "rsm_notify_failing",
];

#[test]
fn alerts_name_only_metrics_that_are_served() {
    let file = binaries::workspace().join("packaging/prometheus/rsm.rules.yml");
    let named = metric_names(&std::fs::read_to_string(file).unwrap());
    assert!(named.len() > 10, "{named:?}");
    let site = Site::start(FABRIC);
    let served = metric_names(&get(site.address(), "/metrics").text());
    let unknown = named.difference(&served);
    let unknown: Vec<&String> = unknown
        .filter(|name| !METRICS_OF_OPTIONS.contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
