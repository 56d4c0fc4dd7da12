//! rsm serves the metrics of `infiniband_exporter`. This file lists their names and labels, taken
//! from the exporter's source.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_tests::clock::wait_for_every;
use rsm_tests::web::{Site, get};

const LIMIT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(200);

const COUNTERS: &str =
    "[counters]\nenabled = true\ninterval_s = 1\nports_interval_s = 1\nadapters_interval_s = 1\n";

/// The port counters in `collectors/switch.go` and `collectors/hca.go` of version 0.10.0, with the
/// labels `guid` and `port`: `infiniband_switch_port_…` and `infiniband_hca_port_…`.
pub(crate) const PORT_COUNTERS: [&str; 28] = [
    "transmit_data_bytes_total",
    "receive_data_bytes_total",
    "transmit_packets_total",
    "receive_packets_total",
    "unicast_transmit_packets_total",
    "unicast_receive_packets_total",
    "multicast_transmit_packets_total",
    "multicast_receive_packets_total",
    "symbol_error_total",
    "link_error_recovery_total",
    "link_downed_total",
    "receive_errors_total",
    "receive_remote_physical_errors_total",
    "receive_switch_relay_errors_total",
    "transmit_discards_total",
    "transmit_constraint_errors_total",
    "receive_constraint_errors_total",
    "local_link_integrity_errors_total",
    "excessive_buffer_overrun_errors_total",
    "vl15_dropped_total",
    "transmit_wait_total",
    "qp1_dropped_total",
    "local_physical_errors_total",
    "malformed_packet_errors_total",
    "buffer_overrun_errors_total",
    "dli_mapping_errors_total",
    "vl_mapping_errors_total",
    "looping_errors_total",
];

/// The other metrics of that version, with their labels.
const OTHER_METRICS: [(&str, &[&str]); 17] = [
    (
        "infiniband_switch_port_rate_bytes_per_second",
        &["guid", "port"],
    ),
    (
        "infiniband_switch_port_raw_rate_bytes_per_second",
        &["guid", "port"],
    ),
    ("infiniband_hca_rate_bytes_per_second", &["guid"]),
    ("infiniband_hca_raw_rate_bytes_per_second", &["guid"]),
    ("infiniband_switch_info", &["guid", "lid", "switch"]),
    ("infiniband_hca_info", &["guid", "hca", "lid"]),
    ("infiniband_switch_uplink_info", &UPLINK_OF_SWITCH),
    ("infiniband_hca_uplink_info", &UPLINK_OF_HCA),
    (
        "infiniband_switch_collect_duration_seconds",
        &["collector", "guid"],
    ),
    ("infiniband_switch_collect_error", &["collector", "guid"]),
    ("infiniband_switch_collect_timeout", &["collector", "guid"]),
    (
        "infiniband_hca_collect_duration_seconds",
        &["collector", "guid"],
    ),
    ("infiniband_hca_collect_error", &["collector", "guid"]),
    ("infiniband_hca_collect_timeout", &["collector", "guid"]),
    (
        "infiniband_exporter_collector_duration_seconds",
        &["collector"],
    ),
    ("infiniband_exporter_collect_errors", &["collector"]),
    ("infiniband_exporter_collect_timeouts", &["collector"]),
];

/// The metrics that SckyzO's fork adds or renames in version 2.0, and that rsm has, with their
/// labels.
const METRICS_OF_FORK: [(&str, &[&str]); 5] = [
    ("infiniband_switch_up", &["guid", "switch"]),
    ("infiniband_hca_up", &["guid", "hca"]),
    ("infiniband_switch_port_state", &["guid", "port", "switch"]),
    (
        "infiniband_hca_port_rate_bytes_per_second",
        &["guid", "hca"],
    ),
    (
        "infiniband_hca_port_raw_rate_bytes_per_second",
        &["guid", "hca"],
    ),
];

/// The name of `dli_mapping_errors_total` in the fork.
pub(crate) const NAME_IN_FORK: &str = "dlid_mapping_errors_total";

const UPLINK_OF_SWITCH: [&str; 8] = [
    "guid",
    "port",
    "switch",
    "uplink",
    "uplink_guid",
    "uplink_lid",
    "uplink_port",
    "uplink_type",
];

const UPLINK_OF_HCA: [&str; 8] = [
    "guid",
    "hca",
    "port",
    "uplink",
    "uplink_guid",
    "uplink_lid",
    "uplink_port",
    "uplink_type",
];

/// The metrics of both versions that rsm lacks: the last execution of runs that end
/// (`--exporter.runonce`), readings of a chassis, which `ibswinfo` takes from vendor registers, and
/// the exporter's build and totals of its scrapes.
const ABSENT: [&str; 15] = [
    "infiniband_exporter_build_info",
    "infiniband_exporter_collect_errors_total",
    "infiniband_exporter_collect_timeouts_total",
    "infiniband_exporter_collect_retries_total",
    "infiniband_ibswinfo_up",
    "infiniband_exporter_last_execution",
    "infiniband_switch_hardware_info",
    "infiniband_switch_uptime_seconds",
    "infiniband_switch_power_supply_status_info",
    "infiniband_switch_power_supply_dc_power_status_info",
    "infiniband_switch_power_supply_fan_status_info",
    "infiniband_switch_power_supply_watts",
    "infiniband_switch_temperature_celsius",
    "infiniband_switch_fan_status_info",
    "infiniband_switch_fan_rpm",
];

/// The ends of the names of rsm's own metrics: the causes of PortXmitDiscards and the counters of
/// forward error correction, which the exporter does not read.
const OWN_METRICS: [&str; 9] = [
    "sync_header_errors_total",
    "unknown_blocks_total",
    "fec_correctable_blocks_total",
    "fec_uncorrectable_blocks_total",
    "fec_corrected_symbols_total",
    "inactive_discards_total",
    "neighbor_mtu_discards_total",
    "switch_lifetime_limit_discards_total",
    "switch_hoq_lifetime_limit_discards_total",
];

/// The metrics in an answer whose names begin with `infiniband_`.
#[derive(Default)]
struct Scraped {
    /// For each metric, the sorted label names of its samples: one entry if all have the same.
    labels: BTreeMap<String, BTreeSet<Vec<String>>>,
    /// The samples, each as its line.
    lines: Vec<String>,
}

impl Scraped {
    fn of(text: &str) -> Scraped {
        let mut scraped = Scraped::default();
        for line in text.lines().filter(|line| line.starts_with("infiniband_")) {
            let (name, labels) = match line.split_once('{') {
                Some((name, rest)) => (name, rest.rsplit_once('}').expect("it is closed").0),
                None => (line.split(' ').next().unwrap_or_default(), ""),
            };
            // No label value of this fabric contains the two characters at which labels are split.
            let mut names: Vec<String> = labels
                .split("\",")
                .filter_map(|label| Some(label.split_once("=\"")?.0.to_owned()))
                .collect();
            names.sort();
            let sets = scraped.labels.entry(name.to_owned()).or_default();
            sets.insert(names);
            scraped.lines.push(line.to_owned());
        }
        scraped
    }

    fn has(&self, name: &str) -> bool {
        self.labels.contains_key(name)
    }
}

/// The metrics that both the exporter and rsm have, with their labels.
fn expected() -> BTreeMap<String, Vec<String>> {
    let names = |labels: &[&str]| labels.iter().map(|&label| label.to_owned()).collect();
    let of_ports = ["switch", "hca"].into_iter().flat_map(|kind| {
        PORT_COUNTERS
            .iter()
            .chain([&NAME_IN_FORK])
            .map(move |name| {
                let name = format!("infiniband_{kind}_port_{name}");
                (name, names(&["guid", "port"]))
            })
    });
    let others = OTHER_METRICS.iter().chain(&METRICS_OF_FORK);
    let others = others.map(|&(name, labels)| (name.to_owned(), names(labels)));
    of_ports.chain(others).collect()
}

#[test]
fn metrics_have_the_names_and_labels_of_infiniband_exporter() {
    let site = Site::start_with("fat-tree:k=4,levels=2", COUNTERS);
    // rsm reads the causes of errors only at ports whose error counters move.
    for port in ["leaf-01:1", "host-001"] {
        site.rsmctl(&["sim", "errors", port, "PortRcvErrors", "50"]);
    }
    let expected = expected();
    let all = wait_for_every(POLL, LIMIT, || {
        let text = get(site.address(), "/metrics?detail=ports").text();
        let scraped = Scraped::of(&text);
        expected
            .keys()
            .all(|name| scraped.has(name))
            .then_some(scraped)
    });
    let scraped = all.unwrap_or_else(|| {
        let scraped = Scraped::of(&get(site.address(), "/metrics?detail=ports").text());
        let missing = expected.keys().filter(|&name| !scraped.has(name));
        panic!("not served: {:?}", missing.collect::<Vec<_>>())
    });
    for (name, labels) in &expected {
        let sets = &scraped.labels[name];
        assert_eq!(sets.iter().collect::<Vec<_>>(), [labels], "{name}");
    }
    for name in scraped.labels.keys() {
        let is_own = OWN_METRICS.iter().any(|own| name.ends_with(own));
        assert!(
            is_own || expected.contains_key(name),
            "{name} is not the exporter's"
        );
        assert!(
            !ABSENT.contains(&name.as_str()),
            "{name} is served after all"
        );
    }
    // No two samples have the same name and labels.
    let series: Vec<&str> = scraped
        .lines
        .iter()
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(series, _)| series)
        .collect();
    let unique: BTreeSet<&str> = series.iter().copied().collect();
    assert_eq!(unique.len(), series.len());
    check_collectors_and_guids(&site, &scraped);
    site.rsmctl(&["sim", "unlink", "leaf-01", "3"]);
    let is_down = wait_for_every(POLL, LIMIT, || {
        let text = get(site.address(), "/metrics?detail=ports").text();
        let mut lines = text.lines();
        let is_down = |line: &str| {
            line.starts_with("infiniband_switch_port_state{")
                && line.contains("port=\"3\",switch=\"MF0;leaf-01:")
                && line.ends_with(" 0")
        };
        lines.any(is_down).then_some(())
    });
    assert!(is_down.is_some());
}

/// Checks that collectors have the exporter's names, that a device is either up or failed, that the
/// state of active ports is 1, and that the label `guid` of an HCA is the GUID of one of its ports.
fn check_collectors_and_guids(site: &Site, scraped: &Scraped) {
    let of = |name: &str| -> Vec<&String> {
        let start = format!("{name}{{");
        let lines = scraped.lines.iter();
        lines.filter(|line| line.starts_with(&start)).collect()
    };
    let errors = of("infiniband_exporter_collect_errors");
    for collector in ["ibnetdiscover", "switch", "hca"] {
        let line = format!("infiniband_exporter_collect_errors{{collector=\"{collector}\"}} 0");
        assert!(errors.contains(&&line), "{errors:?}");
    }
    let ports = get(site.address(), "/api/v1/ports?page_size=1000").json();
    let guids: BTreeSet<String> = ports["ports"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|port| port["key"]["number"] == 1)
        .map(|port| port["guid"].as_str().unwrap().to_owned())
        .collect();
    let ends_with = |name: &str, value: &str| {
        let lines = of(name).into_iter();
        lines.filter(|line| line.ends_with(value)).count()
    };
    for kind in ["switch", "hca"] {
        let name = |of: &str| format!("infiniband_{kind}_{of}");
        let up = ends_with(&name("up"), " 1");
        let failed = [name("collect_error"), name("collect_timeout")];
        let failed = failed.iter().map(|name| ends_with(name, " 1"));
        let all = of(&name("up")).len();
        assert_eq!(all, of(&name("collect_error")).len());
        assert!(up > 0 && up + failed.sum::<usize>() == all, "{up} of {all}");
    }
    // Each of the six switches has four ports; sixteen cables have 24 ends at switches.
    assert_eq!(ends_with("infiniband_switch_port_state", " 1"), 24);
    let rates = of("infiniband_hca_rate_bytes_per_second");
    assert_eq!(rates.len(), 8);
    for line in rates {
        let guid = line.split('"').nth(1).unwrap();
        assert!(guids.contains(guid), "{line}: not among {guids:?}");
    }
}
