//! Tests of the migration from OpenSM.

use std::fs;
use std::path::Path;

use rsm_ids::{Lid, Lmc, PortNum};
use rsm_routing::engine::{EngineKind, Options, route};
use rsm_routing::generate::generate;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_routing::tables::Tables;
use rsm_routing::topology::{Destination, EndpointKind, Topology};
use rsm_sa::SavedSaState;
use rsm_store::{SledStore, Store as _, StoreFabric};
use tempfile::TempDir;

use super::*;
use crate::daemon::import;

/// Files of a host below a separate folder.
struct Host {
    root: TempDir,
}

impl Host {
    fn new(files: &[(&str, &str)]) -> Host {
        let host = Host {
            root: tempfile::tempdir().unwrap(),
        };
        for (path, text) in files {
            host.put(path, text.as_bytes());
        }
        host
    }

    fn put(&self, path: &str, content: &[u8]) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn options(&self) -> MigrateOptions {
        MigrateOptions {
            root: self.root.path().to_owned(),
            config: None,
            guid: None,
            state_dir: Some(self.root.path().join("state")),
            now: 1_000,
        }
    }

    fn read(&self) -> Migration {
        read(&self.options()).unwrap()
    }

    fn outputs(&self) -> Outputs {
        Outputs {
            config: self.root.path().join("rsm.toml"),
            state_dir: self.root.path().join("state"),
        }
    }
}

/// Places of the findings, each as `FILE:LINE SEVERITY`, without the folder.
fn places(migration: &Migration) -> Vec<String> {
    let place = |finding: &ConfigFinding| {
        let name = finding
            .file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        format!("{name}:{} {}", finding.line, finding.severity)
    };
    migration.findings.iter().map(place).collect()
}

/// OpenSM's table with two ports, one of them with two LIDs.
const GUID2LID: &str = "0x0000000000000010 0x0001 0x0001\n\n0x0000000000000012 0x0004 0x0005\n\n";

#[test]
fn written_configuration_names_the_origin_of_each_key() {
    let host = Host::new(&[
        (
            "etc/opensm/opensm.conf",
            "lmc 1\nsm_priority 3\nsweep_interval 10\nroot_guid_file /etc/opensm/roots\n\
             log_file /var/log/opensm.log\ndump_files_dir /var/log/\n",
        ),
        ("etc/opensm/roots", "0x10\n"),
        (
            "etc/opensm/partitions.conf",
            "Default=0x7fff : ALL=full ;\n",
        ),
        ("etc/default/opensm", "PORTS=\"0x0000000000000012\"\n"),
        ("var/cache/opensm/guid2lid", GUID2LID),
        ("var/log/opensm-sa.dump", ""),
    ]);
    let migration = host.read();
    assert_eq!(places(&migration), [""; 0], "{migration}");
    let root = host.root.path().display();
    let expected = format!(
        "# Written by rsm migrate from the files behind each key.\n\n[sm]\n\
         priority = 3 # {root}/etc/opensm/opensm.conf:2\n\
         guid = \"0x0000000000000012\" # {root}/etc/default/opensm:1\n\n[lids]\n\
         lmc = 1 # {root}/etc/opensm/opensm.conf:1\n\n[routing]\n\
         root_guid_file = \"{root}/etc/opensm/roots\" # {root}/etc/opensm/opensm.conf:4\n\n[partitions]\n\
         file = \"{root}/etc/opensm/partitions.conf\" # where OpenSM looks for it\n\n[state]\n\
         dir = \"{root}/state\" # --state-dir\n"
    );
    assert_eq!(migration.checked(&host.outputs()).unwrap(), expected);
}

#[test]
fn order_to_reassign_lids_is_not_migrated() {
    let conf = ("etc/opensm/opensm.conf", "lmc 1\nreassign_lids TRUE\n");
    let migration = Host::new(&[
        conf,
        ("var/cache/opensm/guid2lid", GUID2LID),
        ("var/log/opensm-sa.dump", ""),
    ])
    .read();
    assert_eq!(places(&migration), ["opensm.conf:2 warning"], "{migration}");
    assert!(!migration.config.lids.reassign);
}

#[test]
fn store_has_the_claims_and_is_marked_until_a_daemon_uses_it() {
    let host = Host::new(&[("var/cache/opensm/guid2lid", GUID2LID)]);
    let migration = host.read();
    let imported = migration.write(&host.outputs()).unwrap();
    assert_eq!(imported.left_out, 0);
    let mut store = SledStore::open(&host.outputs().state_dir, StoreFabric::Hardware).unwrap();
    let (persisted, _) = store.load().unwrap();
    let claim = persisted.claims[&Guid(0x12)];
    assert_eq!((claim.lid, claim.lmc), (Lid(4), Lmc::new(1).unwrap()));
    assert_eq!(persisted.records.len(), 1);
    drop(store);
    // The mark does not count as a record that a second import would replace.
    let (dir, claims) = (host.outputs().state_dir, &migration.claims);
    let again = import(&dir, claims, SavedSaState::default());
    let refused = again.unwrap_err().to_string();
    assert_eq!(refused, "the store has 2 records already");
}

#[test]
fn lmc_of_the_table_overrides_the_configuration() {
    let host = Host::new(&[
        ("etc/rdma/opensm.conf", "lmc 0\n"),
        ("var/cache/opensm/guid2lid", GUID2LID),
    ]);
    let migration = host.read();
    assert_eq!(migration.config.lids.lmc, Lmc::new(1).unwrap());
    assert!(places(&migration).contains(&"guid2lid:3 warning".to_owned()));
    let text = migration.checked(&host.outputs()).unwrap();
    assert!(text.contains("guid2lid:3\n"), "{text}");
}

#[test]
fn nothing_is_overwritten() {
    let host = Host::new(&[
        ("var/cache/opensm/guid2lid", GUID2LID),
        ("rsm.toml", "[sm]\n"),
    ]);
    let error = host.read().write(&host.outputs()).unwrap_err();
    assert!(matches!(error, WriteError::Exists { .. }), "{error}");
    assert!(!host.outputs().state_dir.exists());
    fs::remove_file(host.outputs().config).unwrap();
    host.read().write(&host.outputs()).unwrap();
    fs::remove_file(host.outputs().config).unwrap();
    let error = host.read().write(&host.outputs()).unwrap_err();
    assert!(matches!(error, WriteError::Store { .. }), "{error}");
    let entries = fs::read_dir(host.root.path()).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        names
            .iter()
            .all(|name| !name.to_string_lossy().contains("toml")),
        "{names:?}"
    );
}

#[test]
fn error_in_a_file_writes_nothing() {
    let host = Host::new(&[
        ("etc/opensm/opensm.conf", "lmc 9\n"),
        ("etc/opensm/partitions.conf", "Default=0xzz : ALL=full ;\n"),
        ("var/cache/opensm/guid2lid", GUID2LID),
    ]);
    let migration = host.read();
    assert!(migration.has_errors());
    let error = migration.write(&host.outputs()).unwrap_err();
    assert!(
        matches!(error, WriteError::Errors { errors: 2 }),
        "{error}\n{migration}"
    );
    assert!(!host.outputs().config.exists() && !host.outputs().state_dir.exists());
}

#[test]
fn damaged_entries_are_reported_and_other_ports_keep_their_lids() {
    let text = "0x0000000000000010 0x0001 0x0001\r\n\r\n0x0000000000000011 0x0001 0x0001\r\n\r\n\
                0x0000000000000012 0x0004 0x0005\r\n\r\n0x0000000000000013 0x00";
    let host = Host::new(&[("var/cache/opensm/guid2lid", text)]);
    host.put("etc/opensm/opensm.conf", b"# caf\xe9\r\nlmc 1\r\nlmc 1\r\n");
    let migration = host.read();
    assert_eq!(migration.claims.len(), 2);
    let found = places(&migration);
    for expected in [
        "opensm.conf:1 warning",
        "opensm.conf:3 warning",
        "guid2lid:3 warning",
        "guid2lid:7 warning",
    ] {
        assert!(
            found.contains(&expected.to_owned()),
            "{expected}: {migration}"
        );
    }
}

#[test]
fn port_that_the_table_lacks_is_a_warning() {
    let host = Host::new(&[
        ("etc/sysconfig/opensm", "GUIDS=0x99\nPRIORITY=15\n"),
        ("var/cache/opensm/guid2lid", GUID2LID),
        ("var/log/opensm-sa.dump", ""),
    ]);
    let migration = host.read();
    assert_eq!(migration.config.sm.priority, 15);
    assert!(
        places(&migration).contains(&"opensm:1 warning".to_owned()),
        "{migration}"
    );
}

#[test]
fn several_configurations_and_no_files_are_refused() {
    let host = Host::new(&[
        ("etc/rdma/opensm.conf.1", ""),
        ("etc/rdma/opensm.conf.2", "lmc 1\n"),
    ]);
    let error = read(&host.options()).unwrap_err();
    assert!(error.to_string().contains("--config"), "{error}");
    let mut options = host.options();
    options.config = Some(host.root.path().join("etc/rdma/opensm.conf.2"));
    assert_eq!(
        read(&options).unwrap().config.lids.lmc,
        Lmc::new(1).unwrap()
    );
    options.root = host.root.path().join("empty");
    options.config = None;
    assert!(matches!(read(&options), Err(SourceError::Nothing { .. })));
}

#[test]
fn m_key_that_all_ports_hold_is_adopted_and_not_shown() {
    let keys = "0x0000000000000010 0x00000000deadbeef\n\n0x0000000000000012 0x00000000deadbeef\n\nrubbish\n";
    let host = Host::new(&[
        ("var/cache/opensm/guid2lid", GUID2LID),
        ("var/cache/opensm/guid2mkey", keys),
    ]);
    let migration = host.read();
    assert_eq!(migration.config.sm.m_key, 0xDEAD_BEEF);
    assert!(places(&migration).contains(&"guid2mkey:5 warning".to_owned()));
    assert!(!migration.to_string().contains("deadbeef"), "{migration}");
    migration.write(&host.outputs()).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    let access = fs::metadata(host.outputs().config).unwrap().permissions();
    assert_eq!(access.mode() & 0o777, 0o640);
}

#[test]
fn ports_with_other_m_keys_are_counted() {
    let keys = "0x10 0x1\n\n0x11 0x2\n\n0x12 0x2\n\n";
    let host = Host::new(&[
        ("etc/opensm/opensm.conf", "m_key 0x1\n"),
        ("var/cache/opensm/guid2mkey", keys),
    ]);
    let migration = host.read();
    let finding = migration
        .findings
        .iter()
        .find(|f| f.file.ends_with("guid2mkey"));
    assert_eq!(finding.unwrap().line, 3);
    assert!(finding.unwrap().found.contains("and 1 more"));
    assert_eq!(migration.config.sm.m_key, 1);
}

#[test]
fn written_configuration_is_read_by_the_daemon() {
    let host = Host::new(&[
        (
            "etc/opensm/opensm.conf",
            "routing_engine updn\nlog_file /var/log/o.log\n",
        ),
        ("var/cache/opensm/guid2lid", GUID2LID),
    ]);
    let migration = host.read();
    assert!(
        places(&migration).contains(&"opensm.conf:2 warning".to_owned()),
        "{migration}"
    );
    migration.write(&host.outputs()).unwrap();
    let loaded = Config::load(Path::new(&host.outputs().config)).unwrap();
    let mut written = migration.config.clone();
    written.sm.sa_key_file = Some(host.outputs().config.with_file_name("sa.key"));
    assert_eq!(loaded.config, written);
    assert_eq!(loaded.config.log.file, None);
}

#[test]
fn ports_with_a_cable_and_without_a_lid_are_reported() {
    let neighbors = "0x0000000000000010:1 0x0000000000000012:1\n\n\
                     0x0000000000000012:1 0x0000000000000010:1\n\n\
                     0x0000000000000010:2 0x0000000000000020:1\n\n\
                     0x10:0 0x12:1\n0x10 0x12\n0x10:1 0x12:300\n0x10:3";
    let host = Host::new(&[
        ("var/cache/opensm/guid2lid", GUID2LID),
        ("var/cache/opensm/neighbors", neighbors),
    ]);
    let migration = host.read();
    let expected = [
        "neighbors:7 warning",
        "neighbors:8 warning",
        "neighbors:9 warning",
        "neighbors:10 warning",
        "neighbors:1 warning",
    ];
    let found = places(&migration);
    let found: Vec<_> = found
        .iter()
        .filter(|place| place.starts_with("neighbors"))
        .collect();
    assert_eq!(found, expected);
    let text = migration.to_string();
    assert!(text.contains("neighbors: 2 cables"), "{text}");
    assert!(
        text.contains("port 0x0000000000000020 and 0 more have a cable"),
        "{text}"
    );
    assert!(!migration.has_errors());
}

#[test]
fn name_map_is_adopted_only_if_the_file_exists() {
    let conf = "node_name_map_name /etc/opensm/ib-node-name-map\n";
    let host = Host::new(&[
        ("etc/opensm/opensm.conf", conf),
        ("etc/opensm/ib-node-name-map", "0x10 \"leaf 1\"\nslip\n"),
    ]);
    let migration = host.read();
    let map = host.root.path().join("etc/opensm/ib-node-name-map");
    assert_eq!(migration.config.names.file, Some(map));
    assert!(places(&migration).contains(&"ib-node-name-map:2 warning".to_owned()));
    assert!(!migration.has_errors());

    let host = Host::new(&[("etc/opensm/opensm.conf", conf)]);
    let migration = host.read();
    assert_eq!(migration.config.names.file, None);
    assert!(places(&migration).contains(&"opensm.conf:1 warning".to_owned()));
    assert!(!migration.has_errors());
}

#[test]
fn files_with_default_names_are_adopted_only_if_they_exist() {
    let conf = "torus_config /etc/opensm/torus-2QoS.conf\n\
                prefix_routes_file /etc/opensm/prefix-routes.conf\n";
    let host = Host::new(&[
        ("etc/opensm/opensm.conf", conf),
        (
            "etc/opensm/torus-2QoS.conf",
            "torus 5 5 1\nxp_link 0x1 0x2\n",
        ),
    ]);
    let migration = host.read();
    let torus = host.root.path().join("etc/opensm/torus-2QoS.conf");
    assert_eq!(migration.config.routing.torus_file, Some(torus));
    assert_eq!(migration.config.sa.prefix_routes_file, None);
    assert!(!migration.has_errors());

    let host = Host::new(&[("etc/opensm/opensm.conf", conf)]);
    let migration = host.read();
    assert_eq!(migration.config.routing.torus_file, None);
    assert!(!migration.has_errors());
}

#[test]
fn paths_below_the_given_root_stay_unchanged() {
    let host = Host::new(&[("etc/opensm/roots", "0x10\n")]);
    let roots = host.root.path().join("etc/opensm/roots");
    host.put(
        "etc/opensm/opensm.conf",
        format!("root_guid_file {}\n", roots.display()).as_bytes(),
    );
    let migration = host.read();
    assert_eq!(migration.config.routing.root_guid_file, Some(roots));
    assert!(!migration.has_errors());
}

#[test]
fn mapping_tables_keep_the_form_that_opensm_used() {
    for (conf, optimized) in [
        ("qos TRUE\n", false),
        ("qos TRUE\nuse_optimized_slvl FALSE\n", false),
        ("qos TRUE\nuse_optimized_slvl TRUE\n", true),
        ("use_optimized_slvl FALSE\n", true),
    ] {
        let host = Host::new(&[("etc/opensm/opensm.conf", conf)]);
        let migration = host.read();
        assert_eq!(migration.config.qos.optimized_sl2vl, optimized, "{conf}");
        let text = migration.text().unwrap();
        assert_eq!(
            text.contains("optimized_sl2vl = false # "),
            !optimized,
            "{text}"
        );
    }
}

#[test]
fn missing_files_that_restrict_access_are_errors_at_their_lines() {
    let conf = "lmc 0\nqos TRUE\npartition_config_file /etc/opensm/site-partitions.conf\n\
                qos_policy_file /etc/opensm/site-policy.conf\n";
    let default_names = "lmc 0\nqos TRUE\npartition_config_file /etc/opensm/partitions.conf\n\
                         qos_policy_file /etc/opensm/qos-policy.conf\n";
    for conf in [conf, default_names] {
        let host = Host::new(&[("etc/opensm/opensm.conf", conf)]);
        let migration = host.read();
        let found = places(&migration);
        for line in ["opensm.conf:3 error", "opensm.conf:4 error"] {
            assert!(found.contains(&line.to_owned()), "{migration}");
        }
        let text = migration.to_string();
        assert!(
            text.contains("every port is a full member of the default partition"),
            "{text}"
        );
        let error = migration.write(&host.outputs()).unwrap_err();
        assert!(matches!(error, WriteError::Errors { errors: 2 }), "{error}");
        assert!(!host.outputs().config.exists());
    }
}

#[test]
fn missing_files_with_default_names_are_warnings_on_the_host_of_opensm() {
    let mut migration = Host::new(&[("etc/opensm/opensm.conf", "lmc 0\n")]).read();
    let own = Files::below(Path::new("/"));
    for (named, path, severity) in [
        (
            &PARTITION_FILE,
            "/absent/opensm/partitions.conf",
            ConfigSeverity::Warning,
        ),
        (
            &PARTITION_FILE,
            "/absent/opensm/site.conf",
            ConfigSeverity::Error,
        ),
        (
            &POLICY,
            "/absent/opensm/qos-policy.conf",
            ConfigSeverity::Warning,
        ),
        (
            &POLICY,
            "/absent/opensm/partitions.conf",
            ConfigSeverity::Error,
        ),
    ] {
        assert_eq!(migration.resolve(&own, named, Path::new(path)), None);
        let last = migration.findings.last().unwrap();
        assert_eq!(last.severity, severity, "{path}: {last}");
    }
}

#[test]
fn broken_symlinks_are_errors() {
    let host = Host::new(&[("etc/opensm/opensm.conf", "lmc 0\n")]);
    let partitions = host.root.path().join("etc/opensm/partitions.conf");
    std::os::unix::fs::symlink("gone", partitions).unwrap();
    let migration = host.read();
    assert!(migration.has_errors(), "{migration}");
    assert!(
        places(&migration).contains(&"partitions.conf:1 error".to_owned()),
        "{migration}"
    );
}

#[test]
fn all_ports_of_a_host_are_a_warning_that_names_the_guid_option() {
    let host = Host::new(&[
        ("etc/default/opensm", "# ports\nPORTS=\"ALL\"\n"),
        ("etc/opensm/partitions.conf", "Default=0x7fff : ALL=full;\n"),
    ]);
    let migration = host.read();
    let found = places(&migration);
    assert!(
        found.contains(&"opensm:2 warning".to_owned()),
        "{migration}"
    );
    let text = migration.to_string();
    assert!(text.contains("--guid"), "{text}");
    assert!(!migration.has_errors());
}

#[test]
fn keys_without_effect_in_opensm_are_warnings() {
    let conf = "routing_engine minhop\nqos_high_limit 3\nqos_sl2vl 0,1\n";
    let migration = Host::new(&[("etc/opensm/opensm.conf", conf)]).read();
    let found = places(&migration);
    for line in 1..=3 {
        let place = format!("opensm.conf:{line} warning");
        assert!(found.contains(&place), "{place}: {migration}");
    }
    assert!(!migration.has_errors());
}

/// Files of an OpenSM that routed `netlist` with `tables`, including the dump of the routes.
fn routed_host(netlist: &Netlist, topology: &Topology, tables: &Tables) -> Host {
    let end = |(node, port): (usize, PortNum)| {
        let node = &netlist.nodes()[node];
        let guid = match node.kind {
            NodeKind::Switch => node.guid,
            NodeKind::Ca | NodeKind::Router => node.port(port).guid,
        };
        format!("{guid}:{port}")
    };
    let cables = netlist.cables().iter();
    let cables = cables.flat_map(|cable| [(cable.a, cable.b), (cable.b, cable.a)]);
    let neighbors: String = cables
        .map(|(a, b)| format!("{} {}\n\n", end(a), end(b)))
        .collect();
    let claim = |port: &Destination| {
        let last = port.own_lids().last().unwrap();
        format!("{} {:#06x} {:#06x}\n\n", port.guid, port.lid.0, last.0)
    };
    let claims: String = topology.destinations().iter().map(claim).collect();
    let mut dump = String::new();
    for switch in topology.indices() {
        let guid = topology.switch(switch).guid;
        dump += &format!("Unicast lids [0-99] of switch Lid 1 guid {guid} ('a switch'):\n");
        for port in topology.destinations() {
            let name = match port.kind {
                EndpointKind::AggregationNode => "Mellanox Technologies Aggregation Node",
                _ => "a host",
            };
            for lid in port.own_lids() {
                let (out, guid) = (tables.lft(switch).entry(lid), port.guid);
                dump += &format!("{:#06x} {out:03} # portguid {guid}: '{name}'\n", lid.0);
            }
        }
    }
    Host::new(&[
        ("etc/opensm/opensm.conf", "lmc 0\n"),
        ("var/cache/opensm/guid2lid", &claims),
        ("var/cache/opensm/neighbors", &neighbors),
        ("var/log/opensm-lfts.dump", &dump),
    ])
}

#[test]
fn dump_with_other_routes_than_planned_adds_one_line() {
    // A superpod has reduction engines at all switches.
    for spec in ["fat-tree:k=8,levels=3", "superpod:su=1"] {
        let netlist = generate(spec).unwrap();
        let topology = Topology::from_netlist(&netlist).unwrap();
        let routed = route(EngineKind::Auto, &topology, &Options::default(), None).unwrap();
        let line = |tables: &Tables| {
            let migration = routed_host(&netlist, &topology, tables).read();
            assert!(!migration.has_errors(), "{migration}");
            let text = migration.to_string();
            let line = text.lines().find(|line| line.starts_with("routes in the"));
            line.map(str::to_owned)
        };
        assert_eq!(line(&routed.tables), None, "{spec}: routes are equal");
        // All packets that a leaf sends up take its first cable.
        let leaf = topology.indices().find(|&leaf| topology.hosts(leaf) > 0);
        let leaf = leaf.unwrap();
        let uplinks: Vec<u8> = topology
            .groups(leaf)
            .flat_map(|group| group.links)
            .map(|link| link.port.0)
            .collect();
        let mut crowded = routed.tables.clone();
        for lid in (1..=topology.top_lid().0).map(Lid) {
            if uplinks.contains(&crowded.lft(leaf).entry(lid)) {
                crowded.lfts[leaf.index()].set_entry(lid, uplinks[0]);
            }
        }
        let line = line(&crowded).unwrap();
        assert!(line.ends_with("bisection"), "{spec}: {line}");
    }
}

#[test]
fn dump_that_cannot_be_read_is_a_note() {
    let cables = "0x10:1 0x12:1\n0x12:1 0x10:1\n";
    for dump in ["", "Unicast lids [0-1] of nothing\n"] {
        let migration = Host::new(&[
            ("var/cache/opensm/guid2lid", GUID2LID),
            ("var/cache/opensm/neighbors", cables),
            ("var/log/opensm-lfts.dump", dump),
        ])
        .read();
        assert!(!migration.has_errors(), "{migration}");
        let text = migration.to_string();
        assert!(text.contains("the dry run compares routes"), "{text}");
    }
}
