//! Filters that cannot match anything: HTTP routes and commands refuse them and say why, instead of
//! giving an empty answer.

use rsm_tests::web::{Site, get};

/// A fabric of four leaves with four hosts each below two spines.
const FABRIC: &str = "pgft:2;4,4;1,2;1,1,vports=2";

/// A time in the future, in milliseconds since the Unix epoch: the year 2100.
const FUTURE: &str = "4102444800000";

#[test]
fn http_routes_refuse_unknown_fields_and_values_and_name_them() {
    let site = Site::start(FABRIC);
    let no_node = |path: &str, field: &str| (404, format!("{path}?{field}=nosuch"), vec!["nosuch"]);
    let mut cases = vec![
        (
            400,
            "nodes?kind=hub".to_owned(),
            vec!["kind", "hub", "switch"],
        ),
        (
            400,
            "nodes?page_size=many".to_owned(),
            vec!["page_size", "many", "number"],
        ),
        (
            400,
            "nodes?page_size=-1".to_owned(),
            vec!["page_size", "-1", "number"],
        ),
        (
            400,
            "nodes?page_size=99999999999".to_owned(),
            vec!["page_size", "too large"],
        ),
        (400, "nodes?page_token=0".to_owned(), vec!["page_token"]),
        (400, "nodes?nod=1".to_owned(), vec!["nod", "unknown field"]),
        (
            400,
            "graph?kind=switch".to_owned(),
            vec!["kind", "unknown field"],
        ),
        (
            400,
            "ports?state=broken".to_owned(),
            vec!["state", "broken", "active"],
        ),
        (
            400,
            "ports?connected=yes".to_owned(),
            vec!["connected", "yes", "true"],
        ),
        (
            400,
            "ports?node=host-003&node_kind=switch".to_owned(),
            vec!["node_kind", "ca"],
        ),
        (
            400,
            "links?node=host-003&between_switches=true".to_owned(),
            vec!["between_switches"],
        ),
        (
            400,
            "findings?kind=nosuch".to_owned(),
            vec!["kind", "nosuch", "cable-missing"],
        ),
        (
            400,
            "findings?min_severity=bad".to_owned(),
            vec!["min_severity", "bad", "warning"],
        ),
        (
            400,
            "events?kind=nosuch".to_owned(),
            vec!["kind", "nosuch", "finding"],
        ),
        (404, "partition-members?p_key=17".to_owned(), vec!["0x0011"]),
        (
            400,
            "partition-members?p_key=0".to_owned(),
            vec!["p_key", "0x0"],
        ),
        (404, "multicast-groups?p_key=17".to_owned(), vec!["0x0011"]),
        (
            400,
            "convergences?newest=1001".to_owned(),
            vec!["newest", "1001", "1000"],
        ),
        (404, "gpu-hints?host=nosuch".to_owned(), vec!["nosuch"]),
        (404, "gpu-pair?host=nosuch&gpu=0".to_owned(), vec!["nosuch"]),
        (
            400,
            "paths?source=1&destination=1&max_paths=128".to_owned(),
            vec!["max_paths", "127"],
        ),
        (
            400,
            "top-ports?order=nosuch".to_owned(),
            vec!["order", "nosuch"],
        ),
    ];
    for (path, field) in [
        ("node", "node"),
        ("ports", "node"),
        ("port", "port"),
        ("virtual-ports", "node"),
        ("congestion-agents", "node"),
        ("links", "node"),
        ("findings", "node"),
        ("forwarding-table", "switch"),
        ("events", "node"),
        ("convergences", "node"),
        ("cable-use", "port"),
        ("cable-hosts", "port"),
        ("services", "port"),
        ("subscriptions", "port"),
        ("alias-guids", "port"),
        ("multicast-groups", "port"),
        ("what-if", "part"),
    ] {
        cases.push(no_node(path, field));
    }
    for path in ["events", "convergences"] {
        let future = |field: &str| {
            (
                400,
                format!("{path}?{field}={FUTURE}"),
                vec!["in the future"],
            )
        };
        cases.extend([future("since_unix_ms"), future("until_unix_ms")]);
        let reversed = format!("{path}?since_unix_ms=2000&until_unix_ms=1000");
        cases.push((400, reversed, vec!["until_unix_ms", "1000", "2000"]));
    }
    for (status, path, parts) in cases {
        let answer = get(site.address(), &format!("/api/v1/{path}"));
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        let error = answer.json()["error"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        for part in parts {
            assert!(error.contains(part), "{path}: no `{part}` in {error}");
        }
    }
}

#[test]
fn commands_refuse_filters_that_cannot_match() {
    let site = Site::start(FABRIC);
    for (arguments, text) in [
        (&["findings", "--node", "nosuch"][..], "nosuch"),
        (&["findings", "--kind", "nosuch"], "is no kind of finding"),
        (&["events", "--node", "nosuch"], "nosuch"),
        (&["history", "--node", "nosuch"], "nosuch"),
        (&["nodes", "--description", "nosuch"], "nosuch"),
        (&["events", "--since", "2100-01-01"], "is in the future"),
        (&["events", "--until", "2100-01-01"], "is in the future"),
        (&["history", "--since", "2100-01-01"], "is in the future"),
        (&["diff", "2100-01-01"], "is in the future"),
        (
            &["events", "--since", "1h", "--until", "2h"],
            "nothing is between them",
        ),
        (&["counters", "nosuch"], "nosuch"),
        (&["gpu", "hints", "nosuch"], "nosuch"),
    ] {
        let (code, output) = site.told(arguments);
        assert_eq!(code, 1, "{arguments:?}: {output}");
        assert!(output.contains(text), "{arguments:?}: {output}");
    }
    // The list of a known node without events is empty.
    let (code, output) = site.told(&["events", "--node", "host-003", "--since", "0s"]);
    assert_eq!((code, output.as_str()), (0, "rsmctl: no such events\n"));
}

#[test]
fn list_of_a_disabled_feature_names_the_key_that_enables_it() {
    let site = Site::start(FABRIC);
    for (command, key) in [
        ("vports", "`sm.virtualization = \"on\"`"),
        ("congestion", "`congestion.enabled = true`"),
    ] {
        let (code, output) = site.told(&[command]);
        assert_eq!(code, 0, "{output}");
        assert!(output.contains(key), "{command}: {output}");
    }
    site.stop();
    let site = Site::start_with(FABRIC, "[sm]\nvirtualization = \"on\"\n");
    let (_, output) = site.told(&["vports"]);
    assert!(!output.contains("sm.virtualization"), "{output}");
}
