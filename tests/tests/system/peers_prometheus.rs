//! A real Prometheus reads rsm: the alerts of the package, its dashboard, and rules about the
//! series of `infiniband_exporter` and SckyzO's fork of it find their data.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::peer::require_peers;
use rsm_tests::process::{Invocation, Running};
use rsm_tests::web::{Site, get, write};
use serde_json::Value;
use tempfile::TempDir;

use crate::managed_exporter::{NAME_IN_FORK, PORT_COUNTERS};

const LIMIT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(500);

/// A configuration with counters that are read every second, and a receiver of events that never
/// answers.
const CONFIG: &str = "[counters]\nenabled = true\ninterval_s = 1\nports_interval_s = 1\n\
     adapters_interval_s = 1\n[notify]\nwebhook_url = \"http://127.0.0.1:9/\"\n";

/// Metrics of rsm that this site may lack: it shares no store, so that no standby is ready for one,
/// and no host asks its SA.
const ABSENT: [&str; 3] = [
    "rsm_shared_store_ok",
    "rsm_standby_ready",
    "rsm_sa_requests_total",
];

/// Expressions over the series that SckyzO's fork adds or renames, and over those of collectors, in
/// the forms of the rules of both exporters. Counters of ports are in [`exporter_rules`].
const EXPRESSIONS: [(&str, &str); 9] = [
    ("switches_up", "avg(infiniband_switch_up)"),
    ("hcas_up", "avg(infiniband_hca_up)"),
    (
        "switches_failing",
        "infiniband_switch_up == 0 or on() count(infiniband_switch_up == 1)",
    ),
    (
        "port_ever_up",
        "max_over_time(infiniband_switch_port_state[7d]) == 1",
    ),
    (
        "switch_port_load",
        "rate(infiniband_switch_port_transmit_data_bytes_total[1m]) \
         / on(guid, port) infiniband_switch_port_rate_bytes_per_second",
    ),
    (
        "hca_port_load",
        "rate(infiniband_hca_port_receive_data_bytes_total[1m]) \
         / on(guid) group_left(hca) infiniband_hca_port_rate_bytes_per_second",
    ),
    (
        "collect_errors",
        "infiniband_exporter_collect_errors * 1 + infiniband_exporter_collect_timeouts",
    ),
    (
        "named_switches",
        "infiniband_switch_collect_duration_seconds \
         * on(guid) group_left(switch) infiniband_switch_info",
    ),
    (
        "named_hcas",
        "infiniband_hca_collect_duration_seconds * on(guid) group_left(hca) infiniband_hca_info",
    ),
];

/// An expression that has data only once a port is down that was up before.
const PORT_DOWN: &str = "infiniband_switch_port_state == 0 and on(guid, port) test:port_ever_up";

/// The alerts of the package.
fn alerts_file() -> PathBuf {
    binaries::workspace().join("packaging/prometheus/rsm.rules.yml")
}

/// A running Prometheus.
struct Prometheus {
    running: Running,
    address: String,
    _directory: TempDir,
}

impl Prometheus {
    /// Starts a Prometheus that reads the metrics of `site` every second, with the package's alerts
    /// and `rules`.
    fn start(site: &Site, rules: &str) -> Prometheus {
        let directory = tempfile::tempdir().unwrap();
        let alerts = alerts_file();
        let config = format!(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\n\
             rule_files: [{alerts:?}, exporter.rules.yml]\n\
             scrape_configs:\n  - job_name: rsm\n    params: {{detail: [ports]}}\n    \
             static_configs:\n      - targets: [{:?}]\n",
            site.address()
        );
        write(&directory.path().join("prometheus.yml"), config.as_bytes());
        write(
            &directory.path().join("exporter.rules.yml"),
            rules.as_bytes(),
        );
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let prometheus = Invocation::new("prometheus", directory.path()).args([
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            &format!("--web.listen-address={address}"),
        ]);
        let running = prometheus.spawn().unwrap();
        let ready = wait_for_every(POLL, LIMIT, || {
            (get(&address, "/-/ready").status == 200).then_some(())
        });
        assert!(ready.is_some(), "{}", running.stderr_so_far());
        Prometheus {
            running,
            address,
            _directory: directory,
        }
    }

    /// The field `data` of the answer to a request.
    fn data(&self, path: &str) -> Value {
        let mut answer = get(&self.address, path).json();
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].take()
    }

    /// The samples of an expression at present.
    fn samples(&self, expression: &str) -> Vec<Value> {
        let mut query = String::new();
        for byte in expression.bytes() {
            let _ = write!(query, "%{byte:02x}");
        }
        let data = self.data(&format!("/api/v1/query?query={query}"));
        data["result"].as_array().cloned().unwrap_or_default()
    }

    /// The rules, each with its state.
    fn rules(&self) -> Vec<Value> {
        let data = self.data("/api/v1/rules");
        let groups = data["groups"].as_array().cloned().unwrap_or_default();
        let rules = groups.iter().filter_map(|group| group["rules"].as_array());
        rules.flatten().cloned().collect()
    }
}

/// Recording rules over the counters of ports as both exporters name them, alone and joined with
/// the other ends of their cables, and [`EXPRESSIONS`]; and the names of the rules.
fn exporter_rules() -> (String, BTreeSet<String>) {
    let mut rules = Vec::new();
    for kind in ["switch", "hca"] {
        for name in PORT_COUNTERS.iter().chain([&NAME_IN_FORK]) {
            let rate = format!("rate(infiniband_{kind}_port_{name}[1m])");
            let joined = format!(
                "{rate} * on(guid, port) group_left({kind}, uplink, uplink_port) \
                 infiniband_{kind}_uplink_info"
            );
            rules.push((format!("test:{kind}_port_{name}"), rate));
            rules.push((format!("test:{kind}_port_{name}:joined"), joined));
        }
    }
    let others =
        EXPRESSIONS.map(|(name, expression)| (format!("test:{name}"), expression.to_owned()));
    rules.extend(others);
    let mut text = "groups:\n  - name: exporters\n    rules:\n".to_owned();
    for (name, expression) in &rules {
        let _ = writeln!(text, "      - record: {name}");
        let _ = writeln!(text, "        expr: '{expression}'");
    }
    (text, rules.into_iter().map(|(name, _)| name).collect())
}

/// The selectors of rsm's and the exporters' series in an expression, each with its matchers.
fn selectors(expression: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = expression;
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    while let Some(at) = rest.find(is_part) {
        let word = &rest[at..];
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let is_metric = ["rsm_", "infiniband_"]
            .iter()
            .any(|start| word.starts_with(start))
            || &word[..end] == "up";
        let length = match word[end..].starts_with('{') {
            true => word.find('}').expect("the matchers end") + 1,
            false => end,
        };
        if is_metric {
            found.push(&word[..length]);
        }
        rest = &word[length..];
    }
    found
}

/// The name in a selector.
fn name_of(selector: &str) -> &str {
    selector.split('{').next().unwrap_or(selector)
}

/// The expressions in a dashboard.
fn dashboard_expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items
            .iter()
            .for_each(|item| dashboard_expressions(item, found)),
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_str().filter(|_| name == "expr") {
                    Some(expression) => found.push(expression.to_owned()),
                    None => dashboard_expressions(field, found),
                }
            }
        }
        _ => {}
    }
}

/// Waits until each series in `expressions` has data, apart from [`ABSENT`] ones and from findings:
/// those hold for a fault only, and an alert must name kinds of findings that rsm has.
fn check_series(site: &Site, prometheus: &Prometheus, expressions: &[&str]) {
    let all = expressions
        .iter()
        .flat_map(|expression| selectors(expression));
    let (findings, others): (Vec<&str>, Vec<&str>) =
        all.partition(|selector| name_of(selector) == "rsm_findings");
    for selector in findings {
        let matchers = selector.split(['{', ',', '}']).skip(1);
        for kinds in matchers.filter(|matcher| matcher.starts_with("kind")) {
            for kind in kinds.split('"').nth(1).expect("a value").split('|') {
                let _ = site.printed(&["findings", "--kind", kind]);
            }
        }
    }
    let is_expected = |selector: &&str| !ABSENT.contains(&name_of(selector));
    for selector in others.into_iter().filter(is_expected) {
        let found = wait_for_every(POLL, LIMIT, || {
            (!prometheus.samples(selector).is_empty()).then_some(())
        });
        assert!(found.is_some(), "{selector} has no data");
    }
}

#[test]
#[cfg_attr(not(peers), ignore = "needs prometheus")]
fn rules_of_rsm_and_of_both_exporters_have_data_in_a_real_prometheus() {
    if !require_peers(&["prometheus"]) {
        return;
    }
    let site = Site::start_with("fat-tree:k=4,levels=2", CONFIG);
    // rsm reads the causes of errors only at ports whose error counters move.
    for port in ["leaf-01:1", "host-001"] {
        site.rsmctl(&["sim", "errors", port, "PortRcvErrors", "50"]);
    }
    let (rules, recorded) = exporter_rules();
    let prometheus = Prometheus::start(&site, &rules);
    let with_data = || {
        let samples = prometheus.samples("count by (__name__) ({__name__=~\"test:.*\"})");
        let names = samples
            .iter()
            .filter_map(|one| one["metric"]["__name__"].as_str());
        names.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let all = wait_for_every(POLL, LIMIT, || (with_data() == recorded).then_some(()));
    let missing: Vec<String> = recorded.difference(&with_data()).cloned().collect();
    assert!(all.is_some(), "without data: {missing:?}");

    let alerts = std::fs::read_to_string(alerts_file()).unwrap();
    let rules = prometheus.rules();
    let alerts = alerts.matches("- alert: ").count();
    assert_eq!(rules.len(), recorded.len() + alerts);
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    let of_alerts = rules.iter().filter(|rule| rule["type"] == "alerting");
    let of_alerts: Vec<&str> = of_alerts
        .filter_map(|rule| rule["query"].as_str())
        .collect();
    check_series(&site, &prometheus, &of_alerts);

    let dashboard = binaries::workspace().join("packaging/grafana/rsm.json");
    let dashboard = std::fs::read(dashboard).unwrap();
    let mut shown = Vec::new();
    dashboard_expressions(&serde_json::from_slice(&dashboard).unwrap(), &mut shown);
    assert!(shown.len() > 20, "{}", shown.len());
    // Grafana puts values in place of the variables in matchers: the names are what is checked.
    let names = shown.iter().flat_map(|expression| selectors(expression));
    let names: Vec<&str> = names.map(name_of).collect();
    check_series(&site, &prometheus, &names);

    // Each metric that this site may lack is one of rsm, and a rule or the dashboard uses it.
    let source = binaries::workspace().join("web/src/metrics/own.rs");
    let source = std::fs::read_to_string(source).unwrap();
    for name in ABSENT {
        assert!(source.contains(&format!("\"{name}\"")), "{name}");
        let in_alert = of_alerts.iter().any(|query| query.contains(name));
        assert!(in_alert || names.contains(&name), "{name}");
    }

    assert_eq!(prometheus.samples(PORT_DOWN), Vec::<Value>::new());
    site.rsmctl(&["sim", "unlink", "leaf-01", "3"]);
    let is_down = wait_for_every(POLL, LIMIT, || {
        (!prometheus.samples(PORT_DOWN).is_empty()).then_some(())
    });
    assert!(is_down.is_some(), "no port is down");
    prometheus.running.terminate(LIMIT).unwrap();
}

#[test]
fn selectors_are_names_with_their_matchers() {
    let expression =
        "sum by (le) (rate(rsm_a_bucket{x=~\"b|c\"}[5m])) > 1 or up{job=\"rsm\"} * infiniband_d";
    assert_eq!(
        selectors(expression),
        [
            "rsm_a_bucket{x=~\"b|c\"}",
            "up{job=\"rsm\"}",
            "infiniband_d"
        ]
    );
}
