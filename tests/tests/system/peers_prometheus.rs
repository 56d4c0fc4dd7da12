//! A real Prometheus reads rsm: the alerts of the package, its dashboard, and rules about the
//! series of `infiniband_exporter` and SckyzO's fork of it find their data.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::perf::Counter;
use rsm_sim::Sim;
use rsm_tests::answering::Host;
use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::peer::require_peers;
use rsm_tests::process::{Invocation, Running};
use rsm_tests::sharing::{Manager, Site};
use rsm_tests::web::{get, page_address, write};
use serde_json::Value;
use tempfile::TempDir;

use crate::managed_exporter::{NAME_IN_FORK, PORT_COUNTERS};

const PEERS: &[&str] = &["prometheus", "etcd", "etcdctl", "openssl"];
const LIMIT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(500);

/// A time in which a manager reads a changed link.
const READ_TIME: Duration = Duration::from_secs(1);

/// The configuration of both managers beside the shared store: counters that are read every second,
/// and links that flap when they go down twice.
const CONFIG: &str = "[counters]\nenabled = true\ninterval_s = 1\nports_interval_s = 1\n\
     adapters_interval_s = 1\n[flap]\nthreshold = 2\n";

/// A receiver of events that never answers: no program listens at the port `discard`.
const WEBHOOK: &str = "http://127.0.0.1:9/";

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

/// A manager with the address of its metrics.
struct Scraped {
    manager: Manager,
    address: String,
}

impl Scraped {
    /// Starts an rsm at the host `host_index` that sends events to [`WEBHOOK`], and waits until its
    /// state is `state`.
    fn start(site: &Site, host_index: usize, state: &str) -> Scraped {
        let (rsm, directory) = site.invocation(host_index, &format!("rsm-{host_index}"), CONFIG);
        let rsm = rsm.args(["--http", "127.0.0.1:0", "--webhook", WEBHOOK]);
        let manager = Site::start_rsm((rsm, directory));
        manager.wait_state(state);
        let log = manager.process.stderr_so_far();
        let address = page_address(&log).expect("the log has the address of the page");
        Scraped { manager, address }
    }

    /// Makes rsm refuse its configuration, which is an error among its findings.
    fn refuse_config(&self) {
        write(&self.manager.directory.join("rsm.toml"), b"no = \"key\"\n");
        self.manager.process.hang_up();
    }
}

/// A running Prometheus.
struct Prometheus {
    running: Running,
    address: String,
    _directory: TempDir,
}

impl Prometheus {
    /// Starts a Prometheus that reads the metrics of both managers every second, with the package's
    /// alerts and `rules`. Series of ports come from the master alone: a fabric has one exporter.
    fn start(master: &Scraped, standby: &Scraped, rules: &str) -> Prometheus {
        let directory = tempfile::tempdir().unwrap();
        let alerts = alerts_file();
        let targets = [&master.address, &standby.address];
        let ports_of_standby = format!("{};infiniband_.*", standby.address);
        let config = format!(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\n\
             rule_files: [{alerts:?}, exporter.rules.yml]\n\
             scrape_configs:\n  - job_name: rsm\n    params: {{detail: [ports]}}\n    \
             static_configs:\n      - targets: {targets:?}\n    \
             metric_relabel_configs:\n      - source_labels: [instance, __name__]\n        \
             regex: {ports_of_standby:?}\n        action: drop\n"
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
        let prometheus = Prometheus {
            running,
            address,
            _directory: directory,
        };
        let ready = wait_for_every(POLL, LIMIT, || {
            let log = prometheus.running.stderr_so_far();
            (log.contains("ready to receive") && prometheus.is_ready()).then_some(())
        });
        assert!(ready.is_some(), "{}", prometheus.running.stderr_so_far());
        prometheus
    }

    fn is_ready(&self) -> bool {
        get(&self.address, "/-/ready").status == 200
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

/// Waits until each of the series has data.
fn wait_for_data<'a>(prometheus: &Prometheus, selectors: impl IntoIterator<Item = &'a str>) {
    let all: BTreeSet<&str> = selectors.into_iter().collect();
    let without_data = || {
        let mut missing = all.clone();
        missing.retain(|selector| prometheus.samples(selector).is_empty());
        missing
    };
    let complete = wait_for_every(POLL, LIMIT, || without_data().is_empty().then_some(()));
    assert!(complete.is_some(), "without data: {:?}", without_data());
}

/// The queries of the package's alerts. Each rule must have been evaluated without errors.
fn alert_queries(prometheus: &Prometheus, recorded: usize) -> Vec<String> {
    let alerts = std::fs::read_to_string(alerts_file()).unwrap();
    let count = recorded + alerts.matches("- alert: ").count();
    let evaluated = wait_for_every(POLL, LIMIT, || {
        let rules = prometheus.rules();
        rules
            .iter()
            .all(|rule| rule["health"] == "ok")
            .then_some(rules)
    });
    let rules = evaluated.unwrap_or_else(|| panic!("{:?}", prometheus.rules()));
    assert_eq!(rules.len(), count);
    let of_alerts = rules.iter().filter(|rule| rule["type"] == "alerting");
    of_alerts
        .filter_map(|rule| rule["query"].as_str().map(str::to_owned))
        .collect()
}

/// The names of the series that the dashboard shows: Grafana puts values in place of the variables
/// in matchers.
fn dashboard_names() -> BTreeSet<String> {
    let dashboard = binaries::workspace().join("packaging/grafana/rsm.json");
    let dashboard = std::fs::read(dashboard).unwrap();
    let mut shown = Vec::new();
    dashboard_expressions(&serde_json::from_slice(&dashboard).unwrap(), &mut shown);
    assert!(shown.len() > 20, "{}", shown.len());
    let selectors = shown.iter().flat_map(|expression| selectors(expression));
    selectors
        .map(|selector| name_of(selector).to_owned())
        .collect()
}

/// Changes the fabric.
fn change(site: &Site, change: impl FnOnce(&mut Sim) + Send + 'static) {
    site.fabric.fabric.sim.with(change).unwrap();
}

/// The switch of a host, and the port of the switch with its first cable to another switch.
fn leaf_and_uplink(site: &Site, host_index: usize) -> (Guid, PortNum) {
    let (host, port) = site.fabric.hosts[host_index];
    let found = site.fabric.fabric.sim.with(move |sim| {
        let (leaf, _) = sim.peer(host, port).unwrap().expect("the host is cabled");
        let mut ports = (1..=sim.num_ports(leaf).unwrap()).map(PortNum);
        let uplink = ports.find(|&port| {
            let peer = sim.peer(leaf, port).unwrap();
            peer.is_some_and(|(peer, _)| sim.switch_info(peer).is_ok())
        });
        (leaf, uplink.expect("the leaf has uplinks"))
    });
    found.unwrap()
}

/// Makes a cable flap at the port of a switch, and leaves it unplugged.
fn wear_out_cable(site: &Site, switch: Guid, port: PortNum) {
    for _ in 0..3 {
        change(site, move |sim| sim.unlink(switch, port).unwrap());
        std::thread::sleep(READ_TIME);
        change(site, move |sim| sim.relink(switch, port).unwrap());
        std::thread::sleep(READ_TIME);
    }
    change(site, move |sim| sim.unlink(switch, port).unwrap());
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs prometheus, etcd-server, etcd-client and openssl"
)]
fn rules_of_rsm_and_of_both_exporters_have_data_in_a_real_prometheus() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start("fat-tree:k=4,levels=2", 1);
    let master = Scraped::start(&site, 0, "up");
    let standby = Scraped::start(&site, 1, "standby");
    let mut host: Host = site.fabric.host(2);
    site.wait_answer(&mut host, 0);
    // rsm reads the causes of errors only at ports whose error counters move.
    let (victim, number) = *site.fabric.hosts.last().unwrap();
    change(&site, move |sim| {
        let (leaf, port) = sim.peer(victim, number).unwrap().unwrap();
        for (node, port) in [(victim, number), (leaf, port)] {
            sim.set_errors(node, port, Counter::RcvErrors, 50.0)
                .unwrap();
        }
    });
    let (rules, recorded) = exporter_rules();
    let prometheus = Prometheus::start(&master, &standby, &rules);
    wait_for_data(&prometheus, recorded.iter().map(String::as_str));

    let alerts = alert_queries(&prometheus, recorded.len());
    let of_alerts = alerts.iter().flat_map(|query| selectors(query));
    // Findings hold only while something is wrong.
    let (findings, others): (Vec<&str>, Vec<&str>) =
        of_alerts.partition(|selector| name_of(selector) == "rsm_findings");
    wait_for_data(&prometheus, others);
    wait_for_data(&prometheus, dashboard_names().iter().map(String::as_str));

    assert_eq!(prometheus.samples(PORT_DOWN), Vec::<Value>::new());
    let (leaf, uplink) = leaf_and_uplink(&site, 2);
    wear_out_cable(&site, leaf, uplink);
    wait_for_data(&prometheus, [PORT_DOWN]);
    let (other_leaf, _) = leaf_and_uplink(&site, 4);
    change(&site, move |sim| sim.power_off(other_leaf).unwrap());
    master.refuse_config();
    assert!(findings.len() > 4, "{findings:?}");
    wait_for_data(&prometheus, findings);
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
