use std::collections::BTreeSet;
use std::path::Path;

use rsm_ids::{Guid, Lmc};
use rsm_routing::engine::EngineKind;

use super::super::PartitionConfig;
use super::super::finding::any_error;
use super::super::number;
use super::*;

fn read(text: &str) -> (Config, Vec<ConfigFinding>) {
    parse(Path::new("opensm.conf"), text)
}

#[test]
fn keys_with_a_counterpart_are_not_in_the_tables_of_missing_keys() {
    let mut theirs: Vec<_> = fields().iter().filter_map(|field| field.opensm).collect();
    theirs.sort_unstable_by_key(|(key, _)| *key);
    let names = theirs.windows(2).map(|pair| [pair[0].0, pair[1].0]);
    names.for_each(|[one, next]| assert_ne!(one, next, "two keys of ours for one"));
    for (key, _) in theirs {
        assert!(
            !keys_without_counterpart().contains_key(key),
            "{key} is in both tables"
        );
    }
}

#[test]
fn keys_with_a_counterpart_set_the_configuration() {
    let (config, findings) = read(
        "# comment\n\nguid 0x0002c90300001234\nlmc 2 # two\nlmc_esp0 TRUE\n\
         head_of_queue_lifetime 0x11\nleaf_vl_stall_count 05\nsweep_interval 30\n\
         routing_engine updn,minhop\nroot_guid_file \"/etc/roots\"\n\
         m_key 0xffffffffffffffff\nforce_link_width 255\nforce_link_speed 0\n\
         force_link_speed_ext 4\ndump_files_dir (null)\n",
    );
    assert_eq!(findings, []);
    assert_eq!(config.sm.guid, Some(Guid(0x0002_c903_0000_1234)));
    assert_eq!(config.lids.lmc, Lmc::new(2).unwrap());
    assert!(config.lids.lmc_esp0);
    assert_eq!(config.links.hoq_life, 0x11);
    assert_eq!(config.links.leaf_vl_stall_count, 5);
    assert_eq!(config.sweep.light_interval_ms, 30_000);
    assert_eq!(config.routing.engine, EngineKind::UpDn);
    assert_eq!(config.routing.root_guid_file, Some("/etc/roots".into()));
    assert_eq!(config.sm.m_key, u64::MAX);
    assert_eq!(config.links.force_width, None);
    assert_eq!(config.links.force_speed, None);
    assert_eq!(config.links.force_speed_ext, Some(4));
    assert_eq!(config.dump.dir, None);
}

#[test]
fn keys_without_a_counterpart_are_reported_with_their_line() {
    let (config, findings) =
        read("lmc 0\nnue_include_switches FALSE\n  lcm 1\nrouting_engine ftree,updn\n");
    assert_eq!(config.routing.engine, EngineKind::FabricTree);
    let said: Vec<_> = findings
        .iter()
        .map(|f| (f.line, f.column, f.severity))
        .collect();
    assert_eq!(
        said,
        [
            (2, 1, ConfigSeverity::Note),
            (3, 3, ConfigSeverity::Warning),
        ]
    );
    assert!(!any_error(&findings));
}

#[test]
fn secret_keys_are_not_in_findings() {
    let text = "sa_key 0x1234567x\nm_key 0x1234567x\ncc_key 0x1234567x\nkey_mgr_seed 0x1234567\n";
    let (_, findings) = read(text);
    assert_eq!(findings.len(), 4);
    assert!(findings.iter().all(|f| !f.to_string().contains("1234567")));
}

#[test]
fn invalid_values_are_errors_and_change_nothing() {
    let (mut config, findings) = read(
        "lmc 8\nlmc_esp0 maybe\nsm_priority -1\nguid here\nvl_stall_count 09\nsubnet_timeout\n",
    );
    assert_eq!(findings.len(), 6, "{findings:?}");
    assert!(findings.iter().all(|f| f.severity == ConfigSeverity::Error));
    assert_eq!(
        findings[0].to_string(),
        "opensm.conf:1:5: error: lmc is `8`: expected an integer from 0 to 7"
    );
    config.partitions.file_may_be_missing = false;
    config.qos.policy_may_be_missing = false;
    assert_eq!(config, Config::default());
}

#[test]
fn partition_keys_set_the_configuration() {
    let (config, findings) = read(
        "partition_config_file /etc/opensm/partitions.conf\npart_enforce in\nallow_both_pkeys TRUE\n\
         no_partition_enforcement FALSE\n",
    );
    assert_eq!(findings, []);
    let expected = PartitionConfig {
        file: Some("/etc/opensm/partitions.conf".into()),
        file_may_be_missing: true,
        enforcement: Enforcement::In,
        allow_both: true,
    };
    assert_eq!(config.partitions, expected);
    let (config, findings) = read("no_partition_enforcement TRUE\npart_enforce both\n");
    assert_eq!(findings, []);
    assert_eq!(config.partitions.enforcement, Enforcement::Off);
    let (_, findings) = read("part_enforce always\nno_partition_enforcement maybe\n");
    assert_eq!(
        findings[0].to_string(),
        "opensm.conf:1:14: error: part_enforce is `always`: expected one of \"both\", \"in\", \"out\", \"off\""
    );
    assert_eq!(findings.len(), 2);
}

#[test]
fn numbers_are_read_as_c_reads_them() {
    let cases = [
        ("0", Some(0)),
        ("10", Some(10)),
        ("010", Some(8)),
        ("0x10", Some(16)),
    ];
    for (text, value) in cases {
        assert_eq!(number(text), value, "{text}");
    }
    for text in ["", "0x", "08", "+1", "-1", "1s", "0x1ffffffffffffffff"] {
        assert_eq!(number(text), None, "{text}");
    }
}

/// The groups of all keys, and the findings.
fn groups(text: &str) -> (Vec<KeyGroup>, Vec<String>) {
    let read = super::read(Path::new("opensm.conf"), text, &|_| false);
    let groups = read.outcomes.iter().map(|key| key.group).collect();
    (
        groups,
        read.findings.iter().map(ToString::to_string).collect(),
    )
}

#[test]
fn every_key_is_in_one_of_four_groups() {
    use KeyGroup::{NotAvailable, NotNeeded, Obeyed, Unknown};
    let text = "lmc 1\nnue_include_switches TRUE\nnue_include_switches FALSE\nkey_mgr_seed 0x12\nuse_ucast_cache TRUE\nvirt_enabled 2\n\
                sharp_enable TRUE\nmax_wire_smp 4\nrouting_engine ar_updn\n";
    let (groups, findings) = groups(text);
    let expected = [
        Obeyed,
        NotAvailable,
        NotNeeded,
        NotNeeded,
        NotNeeded,
        Obeyed,
        Unknown,
        Unknown,
        NotAvailable,
    ];
    assert_eq!(groups, expected);
    assert_eq!(findings.len(), 7);
    assert!(
        findings[0].starts_with(
            "opensm.conf:2:1: warning: nue_include_switches is `TRUE`: not available: "
        )
    );
    assert_eq!(
        findings[1],
        "opensm.conf:3:1: note: nue_include_switches is `FALSE`: not needed here: this value asks for nothing that rsm does not do"
    );
    assert!(
        findings[2].starts_with("opensm.conf:4:1: note: key_mgr_seed is set: "),
        "{}",
        findings[2]
    );
    assert!(findings[4].ends_with(
        "what is meant is `sharp_enabled` of NVIDIA's manager, here sm.aggregation_nodes"
    ));
    assert!(
        findings[5].ends_with("did you mean `max_wire_smps`?"),
        "{}",
        findings[5]
    );
    assert!(findings[6].contains("routing_engine is `ar_updn`: not available: "));
}

#[test]
fn notes_of_obeyed_keys_name_the_key_of_rsm_and_its_value() {
    let read = super::read(
        Path::new("opensm.conf"),
        "lmc 1\nm_key 0x1234567\nguid (null)\nmax_wire_smps 4\nmax_wire_smps 0\nrouting_engine ftree\n\
         no_partition_enforcement TRUE\nsweep_interval 5\n",
        &|_| false,
    );
    let taken = read
        .outcomes
        .iter()
        .map(|key| key.taken.as_ref().unwrap().expected.as_str());
    let expected = [
        "obeyed: lids.lmc = 1",
        "obeyed: sm.m_key",
        "obeyed: sm.guid keeps its default",
        "obeyed: sweep.window keeps its default",
        "obeyed: sweep.window = 96: rsm has 4 to 96 requests in flight",
        "obeyed: routing.engine = \"fabric-tree\", for `ftree`",
        "obeyed: partitions.enforcement = \"off\"",
        "obeyed: sweep.light_interval_ms = 5000",
    ];
    assert!(taken.eq(expected), "{:?}", read.outcomes);
    assert_eq!(read.findings, []);
}

#[test]
fn default_values_of_opensm_keep_the_times_of_rsm_and_other_values_set_them() {
    let (config, findings) =
        read("transaction_timeout 200\nsminfo_polling_timeout 10000\nmax_wire_smps 4\n");
    assert_eq!(findings, []);
    assert_eq!(config.sweep, Config::default().sweep);
    assert_eq!(config.sm, Config::default().sm);
    let (config, findings) =
        read("transaction_timeout 2000\nsminfo_polling_timeout 500\nmax_wire_smps 8\n");
    assert_eq!(findings, []);
    let sweep = &config.sweep;
    assert_eq!(
        (sweep.timeout_floor_ms, sweep.timeout_initial_ms),
        (25, 2000)
    );
    assert_eq!((sweep.timeout_ceiling_ms, sweep.window), (2000, 8));
    assert_eq!(config.sm.poll_interval_ms, 500);
    let (config, _) = read("transaction_timeout 10\n");
    assert_eq!(
        (
            config.sweep.timeout_floor_ms,
            config.sweep.timeout_initial_ms
        ),
        (10, 10)
    );
}

#[test]
fn keys_of_the_performance_manager_set_the_counters() {
    let counters = |text: &str| {
        let (config, findings) = read(text);
        (!any_error(&findings)).then_some(config.counters)
    };
    let default = Config::default().counters;
    let off = "perfmgr FALSE\nperfmgr_sweep_time_s 180\nperfmgr_ignore_cas FALSE\n";
    assert_eq!(counters(off).unwrap(), default);
    let on =
        "perfmgr TRUE\nperfmgr_sweep_time_s 600\nperfmgr_ignore_cas TRUE\nperfmgr_redir TRUE\n";
    let counters_on = counters(on).unwrap();
    assert!(counters_on.enabled && !counters_on.adapters);
    assert_eq!(counters_on.ports_interval_s, 600);
    assert_eq!(counters("perfmgr_sweep_time_s 0\n"), None);
    assert_eq!(counters("perfmgr_ignore_cas maybe\n"), None);
}

#[test]
fn log_file_is_used_unless_it_has_opensms_default_name() {
    let (config, findings) =
        read("log_file /var/log/opensm.log\nlog_max_size 4096\naccum_log_file FALSE\n");
    assert_eq!(findings, []);
    assert_eq!(config.log.file, None);
    assert_eq!((config.log.max_size_mb, config.log.append), (4096, false));
    let (config, _) = read("log_file /var/log/opensm-ib1.log\n");
    assert_eq!(config.log.file, Some("/var/log/opensm-ib1.log".into()));
}

#[test]
fn keys_about_the_manager_set_the_configuration() {
    let (config, findings) = read(
        "sa_key 0x7\nsm_inactive TRUE\nsweep_on_trap FALSE\nio_guid_file /etc/io\n\
              ignore_other_sm TRUE\npolling_retry_number 10\n",
    );
    assert_eq!(findings, []);
    assert_eq!(config.sm.sa_key, Some(7));
    assert!(config.sm.inactive && !config.sweep.on_trap);
    assert!(config.sm.ignore_others);
    assert_eq!(config.sm.poll_limit, 10);
    assert_eq!(config.routing.storage_guid_file, Some("/etc/io".into()));
}

#[test]
fn keys_of_congestion_control_set_the_policy() {
    let text = "congestion_control TRUE\ncc_key 0x77\ncc_max_outstanding_mads 500\n\
                cc_sw_cong_setting_control_map 0x1F\ncc_sw_cong_setting_victim_mask 0x6\n\
                cc_sw_cong_setting_credit_mask 0x0\ncc_sw_cong_setting_threshold 0x0F\n\
                cc_sw_cong_setting_packet_size 8\n\
                cc_sw_cong_setting_credit_starvation_threshold 0x03\n\
                cc_sw_cong_setting_credit_starvation_return_delay 1:20\n\
                cc_sw_cong_setting_marking_rate 10\ncc_ca_cong_setting_port_control 0x0001\n\
                cc_ca_cong_setting_control_map 0x8001\ncc_ca_cong_setting_ccti_timer 0 150\n\
                cc_ca_cong_setting_ccti_timer 15 151\ncc_ca_cong_setting_ccti_increase 0 1\n\
                cc_ca_cong_setting_trigger_threshold 0 2\ncc_ca_cong_setting_ccti_min 0 3\n\
                cc_cct 0:0,1:100,3:16383\n";
    let (config, findings) = read(text);
    assert!(findings.is_empty(), "{findings:?}");
    let policy = config.congestion.policy();
    assert!(policy.enabled && policy.gives_key.is_none());
    assert_eq!((policy.key, policy.window), (0x77, 64));
    let switch = policy.switch;
    assert_eq!(switch.control_map().0, 0x1F);
    assert_eq!(switch.victim_mask.to_string(), "0x6");
    assert_eq!(switch.credit_mask.to_string(), "0x0");
    let bytes = zerocopy_bytes(&switch);
    assert_eq!(bytes[68..76], [0xF0, 8, 0x30, 0, 0x40, 20, 0, 10]);
    let adapter = policy.adapter;
    assert_eq!(adapter.port_control(), 1);
    assert_eq!(adapter.control_map(), 0x8001);
    let values = |level: usize| {
        let entry = adapter.entries[level];
        let rest = (entry.trigger_threshold(), entry.ccti_min());
        (entry.ccti_timer(), entry.ccti_increase(), rest)
    };
    assert_eq!(values(0), (150, 1, (2, 3)));
    assert_eq!(values(15), (151, 0, (0, 0)));
    let table: Vec<_> = policy
        .table
        .iter()
        .map(|entry| (entry.shift(), entry.multiplier()))
        .collect();
    assert_eq!(table, [(0, 0), (1, 100), (3, 16383)]);
}

fn zerocopy_bytes(
    setting: &rsm_mad::wire::congestion::SwitchCongestionSetting,
) -> [u8; rsm_mad::wire::congestion::CC_DATA_LEN] {
    use rsm_mad::wire::congestion::CcAttribute as _;
    setting.to_data()
}

#[test]
fn invalid_values_of_congestion_control_are_refused() {
    for line in [
        "cc_cct 0:0,4:1",
        "cc_sw_cong_setting_victim_mask 0xzz",
        "cc_ca_cong_setting_ccti_timer 16 1",
        "cc_ca_cong_setting_ccti_increase 0 256",
        "cc_ca_cong_setting_ccti_min 5",
        "cc_sw_cong_setting_threshold 16",
    ] {
        let (_, findings) = read(line);
        assert_eq!(findings.len(), 1, "{line}");
        assert_eq!(findings[0].severity, ConfigSeverity::Error, "{line}");
    }
    let (config, findings) = read("cc_max_outstanding_mads 9999\ncc_cct (null)\n");
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(config.congestion.policy().window, 96);
}

#[test]
fn minhop_without_another_engine_causes_a_warning_at_its_line() {
    let (config, findings) = read("lmc 0\nrouting_engine minhop\n");
    assert_eq!(config.routing.engine, EngineKind::MinHop);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(
        (findings[0].line, findings[0].severity),
        (2, ConfigSeverity::Warning)
    );
    assert!(
        findings[0].expected.contains("engine-replaced"),
        "{}",
        findings[0]
    );
    for others in ["minhop,updn", "updn,minhop", "(null)"] {
        let (_, findings) = read(&format!("routing_engine {others}\n"));
        assert_eq!(findings, [], "{others}");
    }
}

#[test]
fn each_qos_key_without_qos_true_causes_a_warning() {
    let keys = "qos_max_vls 2\nqos_high_limit 255\nqos_ca_vlarb_high 1:4\nqos_sl2vl 0,1\n\
                qos_policy_file /etc/opensm/site.conf\n";
    let without = super::read(Path::new("opensm.conf"), keys, &|_| false);
    let warned: BTreeSet<usize> = without
        .findings
        .iter()
        .filter(|finding| finding.severity == ConfigSeverity::Warning)
        .map(|finding| finding.line)
        .collect();
    assert_eq!(warned, BTreeSet::from([2, 3, 4, 5]));
    let groups: BTreeSet<_> = without.outcomes.iter().map(|key| key.group).collect();
    assert_eq!(groups, BTreeSet::from([KeyGroup::NotNeeded]));

    // The order of lines does not matter, and defaults are no decision of the operator.
    let (_, findings) = read(&format!("{}qos TRUE\n", keys.replace("0,1\n", "0\n")));
    let warned = findings
        .iter()
        .filter(|f| f.severity > ConfigSeverity::Note);
    assert_eq!(warned.count(), 1, "{findings:?}");
    let (_, findings) = read(
        "qos FALSE\nqos_max_vls 0\nqos_high_limit -1\nqos_sl2vl (null)\n\
         qos_policy_file /etc/opensm/qos-policy.conf\n",
    );
    assert!(findings.iter().all(|f| f.severity == ConfigSeverity::Note));
}

#[test]
fn service_levels_omitted_by_sl2vl_get_vl_0_with_a_warning() {
    let (config, findings) = read("qos TRUE\nqos_sl2vl 0,1\nqos_swe_sl2vl 3\n");
    let held = config.qos.sl2vl.unwrap().to_string();
    assert_eq!(held, "0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0");
    assert_eq!(config.qos.swe.sl2vl.unwrap().0[..2], [3, 0]);
    let lines: Vec<_> = findings.iter().map(|f| (f.line, f.severity)).collect();
    let warning = ConfigSeverity::Warning;
    assert_eq!(lines, [(2, warning), (3, warning)]);
    for refused in ["0,16", "", "0,,1", &["0"; 17].join(",")] {
        let (_, findings) = read(&format!("qos_sl2vl {refused}\n"));
        assert!(any_error(&findings), "{refused}");
    }
}

#[test]
fn existing_default_files_of_opensm_are_used() {
    let is_there = |path: &Path| path.starts_with("/etc/rdma");
    let read = |text: &str| super::read(Path::new("opensm.conf"), text, &is_there).config;
    let partitions = Some("/etc/rdma/partitions.conf".into());
    assert_eq!(read("lmc 0\n").partitions.file, partitions);
    assert_eq!(read("lmc 0\n").qos.policy_file, None);
    let policy = Some("/etc/rdma/qos-policy.conf".into());
    assert_eq!(read("qos TRUE\n").qos.policy_file, policy);
    let named = read("partition_config_file /etc/site\n").partitions;
    assert_eq!(named.file, Some("/etc/site".into()));
    assert!(!named.file_may_be_missing);
    for default in ["/etc/opensm", "/usr/local/etc/opensm", "/etc/rdma"] {
        let named = read(&format!(
            "partition_config_file {default}/partitions.conf\n"
        ));
        assert!(named.partitions.file_may_be_missing, "{default}");
    }
}
