//! GPU hosts whose adapters are all off: commands and the page keep them, with where and until when
//! they were.

use std::time::Duration;

use rsm_gdr::generate::{FleetFaults, fleet};
use rsm_gdr::import::to_json;
use rsm_routing::generate::generate;
use rsm_tests::clock::wait_for;
use rsm_tests::gpu_matrix::gpu_matrix;
use rsm_tests::web::{Site, get, write};
use serde_json::Value;

const FABRIC: &str = "superpod:su=1";
const LIMIT: Duration = Duration::from_secs(60);

/// The hosts without power: the name of the inventory, the name in the fabric, and the port of each
/// leaf at which the host was. The inventory of the first has GUIDs and another name than the
/// fabric, that of the second has GUIDs, and that of the third has names alone.
pub(crate) const OFF: [(&str, &str, u32); 3] = [
    ("gpu-13", "host-013", 13),
    ("host-007", "host-007", 7),
    ("host-009", "host-009", 9),
];

/// Starts a manager that knows the inventories of three hosts, and takes the power of these hosts
/// away.
pub(crate) fn site_with_hosts_off() -> Site {
    let site = Site::start(FABRIC);
    let netlist = generate(FABRIC).expect("a published fabric");
    let fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    for (place, (name, in_fabric, _)) in OFF.into_iter().enumerate() {
        let text = match place {
            2 => gpu_matrix(&[]),
            _ => to_json(&fleet.inventory.hosts()[in_fabric].inventory),
        };
        let file = site.directory().join("inventory");
        write(&file, text.as_bytes());
        let imported = site.printed(&["gpu", "import", "--host", name, "inventory"]);
        assert_eq!(imported, "8 GPUs, 8 ports\n");
    }
    // While the hosts are there, no place is a former one.
    let hosts = listed(&site);
    for (name, _, _) in OFF {
        assert_eq!(hosts[name]["was_at"], "", "{name}");
        assert!(hosts[name]["unit"].is_number(), "{name}");
    }
    for (_, in_fabric, _) in OFF {
        site.rsmctl(&["sim", "power-off", in_fabric]);
    }
    let are_off = || {
        let hosts = listed(&site);
        let mut off = OFF.into_iter();
        off.all(|(name, _, _)| hosts[name]["was_at"] != "")
            .then_some(())
    };
    assert!(
        wait_for(LIMIT, are_off).is_some(),
        "{}",
        site.printed(&["status"])
    );
    site
}

/// The GPU hosts with inventories by name, as the page gets them.
fn listed(site: &Site) -> Value {
    let answer = get(site.address(), "/api/v1/gpu-hosts").json();
    let hosts = answer["hosts"].as_array().expect("hosts").iter();
    let by_name = hosts.map(|host| {
        (
            host["name"].as_str().expect("text").to_owned(),
            host.clone(),
        )
    });
    Value::Object(by_name.collect())
}

/// Asserts that a text names the leaf and the port at which a host was, and a time of this century.
fn assert_place(text: &str, port: u32) {
    let place = format!(" port {port} until 20");
    assert!(
        text.contains("su-01-leaf-0") && text.contains(&place),
        "{place}: {text}"
    );
}

#[test]
fn hosts_without_power_stay_in_the_list_of_gpu_hosts_with_their_former_places() {
    let site = site_with_hosts_off();
    let hosts = site.printed(&["gpu", "hosts", "--wide"]);
    for (name, _, port) in OFF {
        let line = hosts
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")));
        assert_place(line.unwrap_or_else(|| panic!("{name}: {hosts}")), port);
    }
    let json = site.printed(&["gpu", "hosts", "--format", "json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    for (name, _, port) in OFF {
        let host = json.as_array().expect("hosts").iter();
        let host = host.clone().find(|host| host["name"] == name).expect(name);
        assert_place(host["was_at"].as_str().expect("text"), port);
    }
}

#[test]
fn check_names_hosts_without_power_as_one_error_with_their_former_places() {
    let site = site_with_hosts_off();
    let (code, text) = site.told(&["gpu", "check"]);
    assert_eq!(code, 1, "{text}");
    // The lines of a finding, which fit a terminal, as one.
    let findings = text.replace("\n         ", " ");
    let line = findings.lines().find(|line| line.contains("host-absent"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.starts_with("error"), "{line}");
    for (name, in_fabric, port) in OFF {
        let (_, place) = line.split_once(&format!(" {name} at ")).expect(line);
        let place = place.split(',').next().unwrap_or_default();
        assert_place(place, port);
        // The reader learns that the host is known by its GUIDs alone.
        let other_name = format!(" (there called {in_fabric})");
        assert_eq!(place.contains(&other_name), name != in_fabric, "{line}");
    }
    // The ports of these hosts are no findings of their own.
    assert!(!text.contains("unjoined"), "{text}");
    // A host that has its power back has its place back.
    let (name, in_fabric, _) = OFF[1];
    site.rsmctl(&["sim", "power-on", in_fabric]);
    let is_back = || (listed(&site)[name]["was_at"] == "").then_some(());
    assert!(
        wait_for(LIMIT, is_back).is_some(),
        "{}",
        listed(&site)[name]
    );
}

#[test]
fn page_lists_hosts_without_power_with_their_former_places() {
    let site = site_with_hosts_off();
    let hosts = listed(&site);
    for (name, _, port) in OFF {
        let host = &hosts[name];
        assert_place(host["was_at"].as_str().expect("text"), port);
        assert_eq!(host["unit"], Value::Null, "{host}");
        let mut findings = host["findings"].as_array().expect("findings").iter();
        let absent = findings.find(|finding| finding["kind"] == "host-absent");
        let evidence = absent.expect(name)["evidence"].as_str();
        assert_place(evidence.expect("text"), port);
    }
}
