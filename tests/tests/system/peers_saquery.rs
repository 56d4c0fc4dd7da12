//! All records that saquery can query have the values that rsmctl shows.
//!
//! ibsim delivers 224 bytes of a datagram and no RMPP, so the test queries records one by one
//! there. rsm's simulator delivers whole tables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rsm_mad::wire::sa::Rate;
use rsm_tests::bringup::LIMIT;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::parse::saquery::{self, Record};
use rsm_tests::peer::require_peers;
use rsm_tests::process::Finished;
use rsm_tests::sa_key;
use rsm_tests::served::Served;
use rsm_tests::sm::Rsm;
use rsm_tests::{binaries, fabrics};
use serde_json::Value;

/// A fabric of 6 switches, 8 hosts with a port each, and 16 links.
const FABRIC: &str = "fat-tree:k=4,levels=2";

/// A subnet under rsm, and saquery at another host.
struct Subnet<'a> {
    rsm: &'a Rsm,
    /// Runs saquery with arguments.
    diagnose: &'a dyn Fn(&[&str]) -> Finished,
    /// Whether an answer may be longer than a datagram.
    whole: bool,
    /// The ports that have a LID, by LID.
    ends: BTreeMap<u64, End>,
}

/// A port with a LID.
struct End {
    /// The GUID of the node.
    node: String,
    /// The GUID of the port.
    guid: String,
    /// The port number.
    number: u64,
    is_switch: bool,
    /// The number of ports of the node.
    ports: u64,
    description: String,
}

fn number_at(value: &Value, pointer: &str) -> u64 {
    let found = value.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

fn list_of(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        other => panic!("no list: {other}"),
    }
}

impl<'a> Subnet<'a> {
    fn new(rsm: &'a Rsm, diagnose: &'a dyn Fn(&[&str]) -> Finished, whole: bool) -> Subnet<'a> {
        let nodes = list_of(rsm.ask(&["nodes"]).unwrap());
        let ports = list_of(rsm.ask(&["ports"]).unwrap());
        let with_lid = ports.iter().filter(|port| number_at(port, "/lid") != 0);
        let ends = with_lid.map(|port| {
            let guid = text_at(port, "/key/node_guid");
            let node = nodes.iter().find(|node| text_at(node, "/guid") == guid);
            let node = node.expect("a port is on a node");
            let end = End {
                node: guid.to_owned(),
                guid: text_at(port, "/guid").to_owned(),
                number: number_at(port, "/key/number"),
                is_switch: text_at(node, "/kind") == "switch",
                ports: number_at(node, "/num_ports"),
                description: text_at(node, "/description").to_owned(),
            };
            (number_at(port, "/lid"), end)
        });
        Subnet {
            rsm,
            diagnose,
            whole,
            ends: ends.collect(),
        }
    }

    fn switches(&self) -> impl Iterator<Item = (u64, &End)> {
        let ends = self.ends.iter().filter(|(_, end)| end.is_switch);
        ends.map(|(&lid, end)| (lid, end))
    }

    /// The JSON output of rsmctl.
    fn shown(&self, arguments: &[&str]) -> Value {
        self.rsm.ask(arguments).unwrap()
    }

    /// The records that saquery gets.
    fn queried(&self, arguments: &[&str]) -> Vec<Record> {
        let key = sa_key::text();
        let trusted = ["--smkey", &key];
        let finished = (self.diagnose)(&[&trusted[..], arguments].concat());
        let output = finished.success().unwrap().stdout;
        saquery::parse(&output).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    /// The records of a table. They come in one answer if answers may be long, otherwise one by one
    /// for each of `keys`.
    fn table(&self, name: &str, keys: &[String]) -> Vec<Record> {
        if self.whole {
            return self.queried(&[name]);
        }
        let one = |key: &String| {
            let records = self.queried(&[name, key]);
            assert_eq!(records.len(), 1, "{name} {key}");
            records
        };
        keys.iter().flat_map(one).collect()
    }

    /// A record of each end port, by the LID in its field `field`. A query of one record has the
    /// LID followed by `suffix` as its key.
    fn by_lid(&self, name: &str, field: &str, suffix: &str) -> BTreeMap<u64, Record> {
        let lids = self.ends.keys();
        let keys: Vec<String> = lids.map(|lid| format!("{lid}{suffix}")).collect();
        let records = self.table(name, &keys);
        assert_eq!(records.len(), self.ends.len(), "{name}");
        let by_lid = |record: Record| (record.number(field).unwrap(), record);
        records.into_iter().map(by_lid).collect()
    }

    /// Compares NodeRecords with `rsmctl nodes`.
    fn check_nodes(&self) {
        let queried = self.by_lid("NR", "lid", "");
        for (lid, end) in &self.ends {
            let record = &queried[lid];
            let kind = if end.is_switch {
                "Switch"
            } else {
                "Channel Adapter"
            };
            for (field, shown) in [
                ("node_guid", &end.node[..]),
                ("port_guid", &end.guid),
                ("node_type", kind),
                ("NodeDescription", &end.description),
            ] {
                assert_eq!(record.text(field).unwrap(), shown, "LID {lid}");
            }
            assert_eq!(record.number("num_ports").unwrap(), end.ports);
            assert_eq!(record.number("port_num").unwrap(), end.number);
        }
    }

    /// Compares GUID 0 of GUIDInfoRecords with the GUIDs of ports.
    fn check_guids(&self) {
        let queried = self.by_lid("GIR", "LID", "/0");
        for (lid, end) in &self.ends {
            assert_eq!(queried[lid].text("GUID 0").unwrap(), end.guid, "LID {lid}");
        }
    }

    /// The LID in records about a port: the LID of the switch, or of the port of an adapter.
    fn lid_of(&self, node: &str, port: u64) -> u64 {
        let mut ends = self.ends.iter();
        let found = ends.find(|(_, end)| end.node == node && (end.is_switch || end.number == port));
        *found.expect("the node has a LID").0
    }

    /// Compares PortInfoRecords with `rsmctl ports`.
    fn check_ports(&self) {
        let shown: BTreeMap<(u64, u64), Value> = list_of(self.shown(&["ports"]))
            .into_iter()
            .map(|port| {
                let on = number_at(&port, "/key/number");
                (
                    (self.lid_of(text_at(&port, "/key/node_guid"), on), on),
                    port,
                )
            })
            .collect();
        let keys: Vec<String> = shown
            .keys()
            .map(|(lid, port)| format!("{lid}/{port}"))
            .collect();
        let queried = self.table("PIR", &keys);
        assert_eq!(queried.len(), shown.len());
        for record in queried {
            let read = |field| record.number(field).unwrap();
            let at = (read("EndPortLid"), read("PortNum"));
            let port = &shown[&at];
            let state = match record.text("LinkState").unwrap() {
                "Active" => "active",
                "Armed" => "armed",
                "Initialize" => "init",
                _ => "down",
            };
            assert_eq!(text_at(port, "/state"), state, "{at:?}");
            if number_at(port, "/lid") != 0 {
                assert_eq!(read("Lid"), number_at(port, "/lid"));
                assert_eq!(read("LMC"), number_at(port, "/lmc"));
            }
            if state == "active" {
                assert_eq!(read("NeighborMTU"), number_at(port, "/mtu_bytes"), "{at:?}");
            }
        }
    }

    /// Compares LinkRecords with `rsmctl links`.
    fn check_links(&self) {
        let shown: BTreeSet<[u64; 4]> = list_of(self.shown(&["links"]))
            .iter()
            .flat_map(|link| {
                let end = |end: &str| {
                    let on = number_at(link, &format!("/{end}/port/number"));
                    let node = text_at(link, &format!("/{end}/port/node_guid"));
                    (self.lid_of(node, on), on)
                };
                let (a, b) = (end("a"), end("b"));
                [[a.0, a.1, b.0, b.1], [b.0, b.1, a.0, a.1]]
            })
            .collect();
        let keys: Vec<String> = shown
            .iter()
            .map(|end| format!("{}/{}", end[0], end[1]))
            .collect();
        let read = |record: &Record| {
            ["FromLID", "FromPort", "ToLID", "ToPort"].map(|field| record.number(field).unwrap())
        };
        let queried: BTreeSet<[u64; 4]> = self.table("LR", &keys).iter().map(read).collect();
        assert_eq!(queried, shown);
    }

    /// Compares SwitchInfoRecords and LinearForwardingTableRecords with `rsmctl lft`.
    fn check_switch_tables(&self) {
        let keys: Vec<String> = self.switches().map(|(lid, _)| lid.to_string()).collect();
        let infos = self.table("SWIR", &keys);
        let keys: Vec<String> = keys.iter().map(|lid| format!("{lid}/0")).collect();
        let tables = self.table("LFTR", &keys);
        assert_eq!((infos.len(), tables.len()), (keys.len(), keys.len()));
        for (lid, end) in self.switches() {
            let of = |records: &[Record]| {
                let mut records = records.iter();
                let found = records.find(|record| record.number("LID").unwrap() == lid);
                found.expect("every switch has one").clone()
            };
            let shown = self.shown(&["lft", &end.node]);
            assert_eq!(
                of(&infos).number("LinearFDBTop").unwrap(),
                number_at(&shown, "/top")
            );
            let entries: BTreeMap<u16, u16> = list_of(shown["entries"].clone())
                .iter()
                .map(|entry| {
                    (
                        number_at(entry, "/lid") as u16,
                        number_at(entry, "/port") as u16,
                    )
                })
                .collect();
            let mut queried = of(&tables).entries;
            queried.retain(|_, port| *port != 255);
            assert_eq!(queried, entries, "LID {lid}");
        }
    }

    /// Checks that the SA has SLtoVLMappingTableRecords and VLArbitrationRecords, which rsmctl does
    /// not show.
    fn check_lanes(&self) {
        for (lid, end) in &self.ends {
            let at = if end.is_switch { "1" } else { "0" };
            for (name, key) in [
                ("SL2VL", format!("{lid}/{at}/{at}")),
                ("VLAR", format!("{lid}/{at}/1")),
            ] {
                let records = self.queried(&[name, &key]);
                assert_eq!(records.len(), 1, "{name} {key}");
                assert_eq!(records[0].number("LID").unwrap(), *lid);
            }
        }
    }

    /// Compares P_KeyTableRecords with the members of the default partition in rsmctl.
    fn check_p_keys(&self) {
        for member in list_of(self.shown(&["partitions", "0x7fff"])) {
            let on = number_at(&member, "/port/number");
            let lid = self.lid_of(text_at(&member, "/port/node_guid"), on);
            // The port number of channel adapters is reserved here.
            let records = self.queried(&["PKTR", &format!("{lid}/0/0")]);
            assert_eq!(records.len(), 1, "LID {lid}");
            let index = number_at(&member, "/index") as usize;
            assert_eq!(text_at(&member, "/membership"), "full");
            assert_eq!(records[0].keys[index], 0xFFFF, "LID {lid}");
        }
    }

    /// Compares multicast groups with `rsmctl multicast`.
    fn check_groups(&self) {
        let shown = list_of(self.shown(&["multicast"]));
        assert!(!shown.is_empty(), "there is the broadcast group");
        let queried = self.queried(&["-g"]);
        assert_eq!(queried.len(), shown.len());
        for group in shown {
            let named = |record: &&Record| record.text("MGID").unwrap() == text_at(&group, "/mgid");
            let record = queried.iter().find(named).expect("it is told of");
            for (field, pointer) in [
                ("Mlid", "/mlid"),
                ("pkey", "/p_key"),
                ("SL", "/service_level"),
            ] {
                assert_eq!(
                    record.number(field).unwrap(),
                    number_at(&group, pointer),
                    "{field}"
                );
            }
            let rate = record.number("Rate").unwrap() & 0x3F;
            assert_eq!(gbps(rate), group["rate_gbps"].as_f64());
            let mtu = record.number("Mtu").unwrap() & 0x3F;
            assert_eq!(128 << mtu, number_at(&group, "/mtu_bytes"));
        }
    }

    /// Compares the SMInfoRecord of the master with `rsmctl status`.
    fn check_master(&self) {
        let status = self.shown(&["status"]);
        let lid = number_at(&status, "/lid");
        let queried = self.queried(&["SMIR", &lid.to_string()]);
        let [record] = &queried[..] else {
            panic!("{queried:?}");
        };
        assert_eq!(record.text("GUID").unwrap(), text_at(&status, "/port_guid"));
        let priority = record.number("Priority").unwrap();
        assert_eq!(priority, number_at(&status, "/priority"));
        // State 3 is master.
        assert_eq!(record.number("SMState").unwrap(), 3);
        // Each request that brought the subnet up counts.
        assert!(record.number("ActCount").unwrap() > 100, "{record:?}");
        let queried = self.queried(&["CPI"]);
        assert_eq!(queried[0].number("Class version").unwrap(), 2);
    }

    /// Compares PathRecords with `rsmctl path`.
    fn check_paths(&self) {
        let hosts: Vec<String> = self
            .ends
            .iter()
            .filter(|(_, end)| !end.is_switch)
            .map(|(lid, _)| lid.to_string())
            .collect();
        for (from, to) in hosts.iter().zip(hosts.iter().rev()) {
            let shown = self.shown(&["path", from, to]);
            let shown = list_of(shown["paths"].clone());
            let queried = self.queried(&["PR", "--slid", from, "--dlid", to]);
            assert_eq!((queried.len(), shown.len()), (1, 1));
            let (record, path) = (&queried[0], &shown[0]);
            for (field, pointer) in [
                ("slid", "/source_lid"),
                ("dlid", "/destination_lid"),
                ("pkey", "/p_key"),
                ("sl", "/service_level"),
            ] {
                assert_eq!(
                    record.number(field).unwrap(),
                    number_at(path, pointer),
                    "{field}"
                );
            }
            for (field, pointer) in [("sgid", "/source_gid"), ("dgid", "/destination_gid")] {
                assert_eq!(record.text(field).unwrap(), text_at(path, pointer));
            }
            let low = |field| record.number(field).unwrap() & 0x3F;
            assert_eq!(gbps(low("rate")), path["rate_gbps"].as_f64());
            assert_eq!(128 << low("mtu"), number_at(path, "/mtu_bytes"));
            assert_eq!(low("pkt_life"), number_at(path, "/packet_life_time"));
            let back = record.number("num_path_revers").unwrap() & 0x80 != 0;
            assert_eq!(Some(back), path["reversible"].as_bool());
        }
    }

    /// Compares all records with rsmctl.
    fn assert_agrees(&self) {
        self.check_nodes();
        self.check_guids();
        self.check_ports();
        self.check_links();
        self.check_switch_tables();
        self.check_lanes();
        self.check_p_keys();
        self.check_groups();
        self.check_master();
        self.check_paths();
        // The SA has counted every query above.
        let counters = self.shown(&["sa"]);
        let asked: u64 = list_of(counters["requests"].clone())
            .iter()
            .filter(|requests| text_at(requests, "/attribute") == "PathRecord")
            .map(|requests| number_at(requests, "/count"))
            .sum();
        assert!(asked >= 8, "{counters}");
        assert_eq!(number_at(&counters, "/wrong_keys"), 0);
        assert!(number_at(&counters, "/latencies/count") >= asked);
    }
}

/// The rate with this code in Gb/s; `None` if the code is reserved.
fn gbps(code: u64) -> Option<f64> {
    let tenths = Rate(code as u8).tenth_gbps()?;
    Some(f64::from(tenths) / 10.0)
}

#[test]
#[cfg_attr(not(peers), ignore = "needs ibsim-utils and infiniband-diags")]
fn saquery_of_single_records_on_ibsim_matches_rsmctl() {
    if !require_peers(&["ibsim", "ibsim-run", "saquery"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let net = fabrics::generate(FABRIC, directory.path()).unwrap();
    let ibsim = Ibsim::start(&net).unwrap();
    let hosts = ibsim.hosts();
    let state = ibsim.directory().join("state");
    let config = sa_key::configuration(&ibsim.directory().join("conf"));
    let arguments = ["--config", config.to_str().unwrap()];
    let rsm = Rsm::start_with(&ibsim, None, hosts[0], &state, &arguments, LIMIT).unwrap();
    let diagnose = |arguments: &[&str]| ibsim.diagnose(hosts[1], "saquery", arguments).unwrap();
    Subnet::new(&rsm, &diagnose, false).assert_agrees();
    rsm.stop().unwrap().success().unwrap();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs infiniband-diags")]
fn saquery_of_whole_tables_on_rsms_simulator_matches_rsmctl() {
    if !require_peers(&["saquery"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let state: &Path = &served.directory().join("state");
    let rsm = served.client("", binaries::rsm()).unwrap();
    let config = sa_key::configuration(&served.directory().join("conf"));
    let arguments = ["--config", config.to_str().unwrap()];
    let rsm = Rsm::run(rsm, state, &arguments, LIMIT).unwrap();
    let diagnose = |arguments: &[&str]| {
        let host = "host-002 mlx5_0";
        served.diagnose(host, "saquery", arguments).unwrap()
    };
    Subnet::new(&rsm, &diagnose, true).assert_agrees();
    rsm.stop().unwrap().success().unwrap();
}
