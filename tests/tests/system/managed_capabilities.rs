//! Runs `rsmctl nodes --capabilities` with a real rsm, on a fabric of devices that answer a query
//! of GeneralInfo, refuse it, leave it unanswered, or are not queried.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_routing::ibnetdiscover;
use rsm_routing::netlist::{Cable, LinkSpeed, LinkWidth, Netlist, Node, NodeKind};
use rsm_sim::Devices;
use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::managed::Managed;
use rsm_tests::process::Invocation;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(500);

const SWITCH: Guid = Guid(0x1000);

/// A device: description, DeviceID, habits in the simulator, and the capabilities that `rsmctl`
/// shows.
type Device = (&'static str, u16, &'static str, &'static str);

/// The devices: a Quantum-2, a ConnectX-7 that answers, a ConnectX-5 that refuses, three ConnectX-6
/// that are silent, and a ConnectX-3, a model that rsm does not query.
const DEVICES: [Device; 7] = [
    (
        "switch",
        0xD2F2,
        "general-info",
        "ExtendedPortInfo, ExtendedNodeInfo, aggregation node, special ports marked, enhanced trap 128",
    ),
    (
        "knows",
        0x1021,
        "general-info",
        "ExtendedPortInfo, packets out of order",
    ),
    ("refuses", 0x1017, "", "none"),
    ("silent-1", 0x101B, "deaf-to-general-info", "not known"),
    ("silent-2", 0x101B, "deaf-to-general-info", "not known"),
    ("silent-3", 0x101B, "deaf-to-general-info", "not known"),
    ("not-asked", 0x1003, "general-info", "not known"),
];

/// The GUID of the device with this index in [`DEVICES`].
fn guid(number: usize) -> Guid {
    match number {
        0 => SWITCH,
        _ => Guid(0x2000 + 0x10 * number as u64),
    }
}

/// The switch, with the other devices at its ports 1, 2, ….
fn netlist() -> Netlist {
    let nodes = DEVICES.iter().enumerate();
    let nodes = nodes.map(|(number, &(description, device_id, ..))| Node {
        kind: match number {
            0 => NodeKind::Switch,
            _ => NodeKind::Ca,
        },
        guid: guid(number),
        system_image_guid: guid(number),
        vendor_id: 0x02C9,
        device_id,
        description: description.into(),
        num_ports: if number == 0 { 8 } else { 1 },
        enhanced_port0: number == 0,
        ports: BTreeMap::new(),
    });
    let cables = (1..DEVICES.len()).map(|host| Cable {
        a: (0, PortNum(host as u8)),
        b: (host, PortNum(1)),
        width: LinkWidth::X4,
        speed: LinkSpeed::Hdr,
    });
    Netlist::new(nodes.collect(), cables.collect()).unwrap()
}

/// Serves the fabric of [`netlist`], whose devices have the habits in [`DEVICES`].
fn managed() -> Managed {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fabric.txt");
    let mut text = Vec::new();
    ibnetdiscover::write(&netlist(), &mut text).unwrap();
    std::fs::write(&file, text).unwrap();
    let managed = Managed::start(&file.display().to_string());
    let sim = &managed.fabric.sim;
    let habits = sim.with(|sim| {
        for (number, &(_, _, habits, _)) in DEVICES.iter().enumerate() {
            if habits.is_empty() {
                continue;
            }
            let kind = match number {
                0 => NodeKind::Switch,
                _ => NodeKind::Ca,
            };
            let personality = Devices::parse(habits).unwrap().of(kind, guid(number));
            sim.set_personality(guid(number), personality).unwrap();
        }
    });
    habits.unwrap();
    managed
}

#[test]
fn capabilities_are_listed_if_answered_none_if_refused_and_not_known_otherwise() {
    let managed = managed();
    let config = managed.fabric.directory().join("rsm.toml");
    std::fs::write(&config, "[sweep]\ncapabilities = true\n").unwrap();
    let mut host = managed.host(1);
    let config = config.display().to_string();
    let rsm = managed.rsm_with(&mut host, &["--config", &config]);
    let socket = format!("unix:{}", managed.state().join("rsm.sock").display());
    let printed = |arguments: &[&str]| {
        let rsmctl = Invocation::new(binaries::rsmctl(), managed.fabric.directory());
        let rsmctl = rsmctl.args(["--server", &socket, "nodes", "--capabilities"]);
        let finished = rsmctl.args(arguments).run(LIMIT).unwrap();
        finished.success().unwrap().stdout
    };
    // The row of each node ends with its capabilities.
    let is_as_expected = |text: &str| {
        DEVICES.iter().all(|(name, _, _, shown)| {
            let mut rows = text.lines();
            let row = rows.find(|row| row.split_whitespace().any(|word| word == *name));
            let rest = row.and_then(|row| row.rsplit_once(name));
            rest.is_some_and(|(_, rest)| rest.trim() == *shown)
        })
    };
    let table = || printed(&["--wide"]);
    let text = wait_for_every(POLL, LIMIT, || {
        let text = table();
        is_as_expected(&text).then_some(text)
    });
    let text = text.unwrap_or_else(|| panic!("{}\n{}", table(), rsm.stderr_so_far()));
    assert_eq!(text.lines().count(), 1 + DEVICES.len(), "{text}");

    let nodes: Value = serde_json::from_str(&printed(&["--format", "json"])).unwrap();
    for (name, device, _, shown) in DEVICES {
        let nodes = nodes.as_array().unwrap();
        let node = nodes.iter().find(|node| node["description"] == name);
        let node = node.unwrap();
        let names: Vec<&str> = shown.split(", ").collect();
        let expected = match shown {
            "not known" => Value::Null,
            "none" => json!({"names": [], "unnamed": []}),
            _ => json!({"names": names, "unnamed": []}),
        };
        assert_eq!(node["capabilities"], expected, "{name}");
        assert_eq!(node["device_id"], device, "{name}");
    }
}
