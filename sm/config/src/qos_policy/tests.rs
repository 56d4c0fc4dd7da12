use proptest::prelude::*;
use rsm_ids::PortNum;
use rsm_mad::wire::attr::Mtu;
use rsm_mad::wire::sa::Rate;

use super::*;
use crate::{FileKind, any_error, check};

/// The example of OpenSM's documentation, with every keyword.
const FULL: &str = include_str!("samples/full.conf");

/// The example of the simplified policy.
const SIMPLE: &str = include_str!("samples/simple.conf");

fn read(text: &str) -> (QosPolicy, Vec<String>) {
    let (policy, findings) = parse_qos_policy(Path::new("q"), text);
    (policy, findings.iter().map(ToString::to_string).collect())
}

/// The policy of a text without findings.
fn policy(text: &str) -> QosPolicy {
    let (policy, findings) = read(text);
    assert_eq!(findings, [] as [&str; 0]);
    policy
}

/// Asserts that a text has an error; returns its findings.
fn refused(text: &str) -> Vec<String> {
    let (_, findings) = read(text);
    assert!(
        findings.iter().any(|finding| finding.contains(": error: ")),
        "{text}"
    );
    findings
}

#[test]
fn full_policy_of_opensms_documentation_is_read() {
    let (full, findings) = read(FULL);
    assert_eq!(
        findings,
        [
            "q:33:1: warning: `qos-setup` has no effect, neither here nor with OpenSM: the keys `sl2vl`, \
          `vlarb_high`, `vlarb_low` and `high_limit` of section `qos` set tables"
        ]
    );
    let groups: Vec<&str> = full
        .groups
        .iter()
        .map(|group| group.name.as_str())
        .collect();
    assert_eq!(
        groups,
        ["Storage", "Virtual Servers", "Partitions", "CAs and SM"]
    );
    let [storage, servers, partitions, adapters] = &full.groups[..] else {
        panic!("{groups:?}");
    };
    assert_eq!(storage.description, "SRP Targets");
    assert_eq!(
        storage.guids.to_string(),
        "0x10000000000001, 0x10000000000005-0x1000000000fffa, 0x1000000000ffff"
    );
    let port = |name: &str| (name.to_owned(), PortNum(1));
    assert!(
        servers
            .ports
            .iter()
            .eq(&[port("vs1 HCA-1"), port("vs2 HCA-1")])
    );
    assert_eq!(partitions.p_keys.to_string(), "0x1234");
    assert!(partitions.partitions.iter().eq(["Part1"]));
    let kinds = [GroupKind::ChannelAdapter, GroupKind::Own];
    assert!(adapters.kinds.iter().eq(&kinds));

    let whole = &full.levels[1];
    assert_eq!((whole.sl, whole.mtu), (1, Some(Mtu::Bytes2048)));
    assert_eq!((whole.rate, whole.packet_life), (Some(Rate(5)), Some(8)));
    assert_eq!(
        whole.to_string(),
        "SL 1, MTU up to 2048, up to 5 Gb/s, packet life time 8, P_Key 0x1234"
    );
    assert_eq!(full.default_level().name, "DEFAULT");
    let criteria: Vec<String> = full.rules.iter().map(|rule| full.criteria(rule)).collect();
    assert_eq!(
        criteria,
        [
            "QoS class 0x7-0x9, 0xb",
            "to Storage; service ID 0x10000000000001, 0x10000000000008-0x10000000000fff",
            "from Storage",
            "from Virtual Servers; to Storage; QoS class 0x7-0x9, 0xb; \
             service ID 0x10000-0x1ffff; P_Key 0xf00-0xfff",
        ]
    );
    let lines: Vec<usize> = full.rules.iter().map(|rule| rule.line).collect();
    assert_eq!(lines, [54, 60, 67, 73]);
}

#[test]
fn rules_of_qos_ulps_keep_their_order_and_follow_match_rules() {
    let simple = policy(SIMPLE);
    let rules: Vec<(String, u8)> = simple
        .rules
        .iter()
        .map(|rule| (simple.criteria(rule), simple.level_of(rule).sl))
        .collect();
    let rule = |criteria: &str, sl| (criteria.to_owned(), sl);
    assert_eq!(
        rules,
        [
            rule("service ID 0x17530", 0),
            rule("service ID 0x12710-0x14e20", 0),
            rule("service ID 0x10000-0x1ffff", 1),
            rule("service ID 0x10648ca", 2),
            rule("service ID 0x1060384", 0),
            rule("service ID 0x1060cbc", 3),
            rule("P_Key 0x1", 0),
            rule("P_Key 0x7fff", 4),
            rule("service ID 0x6234", 6),
            rule("P_Key 0xabc", 6),
            rule("to ports of line 14", 5),
            rule("to ports of line 15", 6),
            rule("from ports of line 16", 7),
            rule("from ports of line 17", 8),
            rule("to ports of line 17", 8),
        ]
    );
    assert_eq!(simple.default_level().sl, 0);
    assert_eq!(
        simple.service_levels().into_iter().collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5, 6, 7, 8]
    );

    let both = policy(
        "qos-ulps\n default : 3\n sdp : 1\nend-qos-ulps\nqos-levels\n qos-level\n  name: default\n  \
         sl: 2\n end-qos-level\nend-qos-levels\nqos-match-rules\n qos-match-rule\n  service-id: 7\n  \
         qos-level-name: DEFAULT\n end-qos-match-rule\nend-qos-match-rules\n",
    );
    assert_eq!(
        both.rules.iter().map(|rule| rule.line).collect::<Vec<_>>(),
        [12, 3]
    );
    assert_eq!(both.default_level().sl, 2);
}

#[test]
fn names_are_quoted_or_not_and_comments_end_lines() {
    let policy = policy(
        "qos-ulps # all\n default : 010 # eight\nend-qos-ulps\nport-groups\nport-group\n\
         name : \"a # b, c\" d\nport-name: \"x, y/P1\", z w/p0x2\npartition: \"p, q\" , r\n\
         end-port-group\nend-port-groups",
    );
    assert_eq!(policy.default_level().sl, 8);
    let group = &policy.groups[0];
    assert_eq!(group.name, "a # b, c d");
    let ports = [
        ("x, y".to_owned(), PortNum(1)),
        ("z w".to_owned(), PortNum(2)),
    ];
    assert!(group.ports.iter().eq(&ports));
    assert!(group.partitions.iter().eq(["p, q", "r"]));
}

#[test]
fn errors_state_line_column_and_expected_form() {
    let level = |entries: &str| {
        format!("qos-levels\nqos-level\n{entries}\nend-qos-level\nend-qos-levels\n")
    };
    let rule = |entries: &str| {
        let level = level("name: DEFAULT\nsl: 0");
        format!(
            "{level}qos-match-rules\nqos-match-rule\n{entries}\nend-qos-match-rule\nend-qos-match-rules\n"
        )
    };
    let group = |entries: &str| {
        let level = level("name: DEFAULT\nsl: 0");
        format!("{level}port-groups\nport-group\n{entries}\nend-port-group\nend-port-groups\n")
    };
    let service = |line: &str| format!("qos-ulps\ndefault: 0\n{line}\nend-qos-ulps\n");
    let cases: Vec<(String, &str)> = vec![
        (
            String::new(),
            "q:1:1: error: no level for queries that match no rule",
        ),
        (
            "qos-level\n".into(),
            "q:1:1: error: `qos-level`: did you mean `qos-levels`?",
        ),
        (
            "sl: 1\n".into(),
            "q:1:1: error: `sl: 1`: expected a section",
        ),
        (
            "qos-levels\n".into(),
            "q:1:1: error: `qos-levels` without an end: expected `end-qos-levels`",
        ),
        (
            "qos-levels\nend-qos-ulps\n".into(),
            "q:2:1: error: `end-qos-ulps`: expected `qos-level` or `end-qos-levels`",
        ),
        (
            level("name: DEFAULT"),
            "q:2:1: error: `qos-level` without `sl`",
        ),
        (level("sl: 3"), "q:2:1: error: `qos-level` without `name`"),
        (
            level("name: DEFAULT\nsl: 16"),
            "q:4:5: error: `16`: expected a service level, 0 to 15",
        ),
        (
            level("name: DEFAULT\nsl: 1\nsl: 2"),
            "q:5:1: error: a second `sl`: expected one only: the first is in line 4",
        ),
        (
            level("name: DEFAULT\nsl: 1\nmtu-limit: 6"),
            "q:5:12: error: `6`: expected the code of an MTU",
        ),
        (
            level("name: DEFAULT\nsl: 1\nrate-limit: 1"),
            "q:5:13: error: `1`: expected the code of a rate",
        ),
        (
            level("name: DEFAULT\nsl: 1\npacket-life: 64"),
            "q:5:14: error: `64`: expected 0 to 63",
        ),
        (
            level("name: DEFAULT\nsl: 1\nmtu_limit: 4"),
            "q:5:1: error: `mtu_limit` in `qos-level`: did you mean `mtu-limit`?",
        ),
        (
            level("name: DEFAULT\nsl: 1\npkey: 0x10000"),
            "q:5:7: error: `0x10000`: expected P_Keys",
        ),
        (
            level("name: DEFAULT\nsl: 1\npkey: 0x8001-0x0005"),
            "q:5:7: error: `0x8001-0x0005`: expected a range across 0x8000 in ascending order",
        ),
        (
            level("name: DEFAULT\nsl: 1\nend-qos-level\nqos-level\nname: default\nsl: 1"),
            "q:6:1: error: a second `default`: expected one only: the first is in line 2",
        ),
        (
            rule("service-id: 1"),
            "q:8:1: error: `qos-match-rule` without `qos-level-name`",
        ),
        (
            rule("qos-level-name: best"),
            "q:9:17: error: `best`: expected the name of a `qos-level`",
        ),
        (
            rule("qos-level-name: DEFAULT\nsource: Storage"),
            "q:10:9: error: `Storage`: expected the name of a `port-group`",
        ),
        (
            rule("qos-level-name: DEFAULT\nqos-class: 1-"),
            "q:10:12: error: `1-`: expected numbers or ranges up to 0xfff",
        ),
        (
            rule("qos-level-name: DEFAULT\nservice-id: 1,,2"),
            "q:10:15: error: ``: expected service IDs",
        ),
        (
            group("name: a\nport-name: x"),
            "q:10:12: error: `x`: expected a description",
        ),
        (
            group("name: a\nport-name: x/P0"),
            "q:10:12: error: `x/P0`: expected a description",
        ),
        (
            group("name: a\nnode-type: HCA"),
            "q:10:12: error: `HCA`: expected one of CA, SWITCH, ROUTER, SELF, ALL",
        ),
        (
            group("port-guid: 1"),
            "q:8:1: error: `port-group` without `name`",
        ),
        (
            service("sdp"),
            "q:3:1: error: `sdp`: expected `end-qos-ulps`",
        ),
        (
            service("sdp : x"),
            "q:3:7: error: `x`: expected a service level, 0 to 15",
        ),
        (
            service("nfs : 1"),
            "q:3:1: error: `nfs`: expected `default`, `sdp`",
        ),
        (
            service("any, port-num 1 : 1"),
            "q:3:1: error: `any, port-num 1`: expected `default`",
        ),
        (
            service("sdp, port-num 65536 : 1"),
            "q:3:15: error: `65536`: expected TCP ports",
        ),
        (
            service("default : 1"),
            "q:3:1: error: a second `default`: expected one only",
        ),
    ];
    for (text, expected) in cases {
        let findings = refused(&text);
        let named = findings.iter().any(|finding| finding.starts_with(expected));
        assert!(named, "{text}\n{expected}\n{findings:?}");
    }
}

#[test]
fn tables_of_qos_setup_are_checked_although_they_have_no_effect() {
    let setup = |entry: &str| {
        format!(
            "qos-ulps\ndefault: 0\nend-qos-ulps\nqos-setup\nsl2vl-tables\nsl2vl-scope\ngroup: a\n\
             {entry}\nend-sl2vl-scope\nend-sl2vl-tables\nend-qos-setup\n"
        )
    };
    let good = "from: *\nto: 1-3,7\nsl2vl-table: 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7";
    assert_eq!(read(&setup(good)).1.len(), 1);
    // A node has at most 254 ports.
    let many_ports = "from: 128-254\nto: *\nsl2vl-table: 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7";
    assert_eq!(read(&setup(many_ports)).1.len(), 1);
    for entry in ["sl2vl-table: 0,1", "to: x", "to: 255", "sl2vl: 1"] {
        let findings = refused(&setup(entry));
        let is_there = |finding: &String| finding.starts_with("q:8:");
        assert!(findings.iter().any(is_there), "{entry}: {findings:?}");
    }
}

#[test]
fn rules_after_a_rule_without_criteria_are_reported() {
    let rule = "qos-match-rule\nqos-level-name: DEFAULT\nend-qos-match-rule\n";
    let text = format!(
        "qos-ulps\nsdp : 1\nend-qos-ulps\nqos-levels\nqos-level\nname: DEFAULT\nsl: 0\nend-qos-level\n\
         end-qos-levels\nqos-match-rules\n{rule}end-qos-match-rules\n"
    );
    let (_, findings) = read(&text);
    assert_eq!(findings.len(), 1);
    assert!(
        findings[0].starts_with("q:2:1: warning: an earlier rule has no criteria"),
        "{findings:?}"
    );
}

#[test]
fn p_keys_and_partitions_that_do_not_exist_are_reported() {
    let policy = policy(
        "qos-ulps\ndefault : 0\nany, pkey 0x7fff : 1\nipoib, pkey 0x8010-0x8020 : 1\nend-qos-ulps\n\
         port-groups\nport-group\nname: g\npartition: Default, other\nend-port-group\nend-port-groups\n",
    );
    let findings = policy.undefined_partitions(&Partitions::default());
    let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
    let [key, name] = &texts[..] else {
        panic!("{texts:?}");
    };
    assert!(
        key.starts_with("q:4:1: warning: no partition has a P_Key of 0x10-0x20"),
        "{key}"
    );
    assert!(
        name.starts_with("q:7:1: warning: there is no partition `other`"),
        "{name}"
    );
}

#[test]
fn p_key_ranges_across_the_membership_bit_are_split_there() {
    for (range, keys) in [
        ("0x7f00-0x80ff", "0x0-0xff, 0x7f00-0x7fff"),
        ("0x20-0x10", "0x10-0x20"),
        ("0x7fff-0x8000", "0x0, 0x7fff"),
        ("0x8010-0x8020", "0x10-0x20"),
        ("0x10-0x20", "0x10-0x20"),
        ("0-0xffff", "0x0-0x7fff"),
    ] {
        let policy = policy(&format!(
            "qos-ulps\ndefault : 0\nany, pkey {range} : 1\nend-qos-ulps\n"
        ));
        let rules = policy.rules.iter().filter(|rule| !rule.p_keys.is_empty());
        let found: Vec<String> = rules.map(|rule| rule.p_keys.to_string()).collect();
        assert_eq!(found, [keys], "{range}");
    }
}

#[test]
fn too_many_rules_are_refused() {
    let rules = "any, service-id 1 : 1\n".repeat(build::ENTRIES_MAX + 1);
    let text = format!("qos-ulps\ndefault : 0\n{rules}end-qos-ulps\n");
    let findings = refused(&text);
    assert_eq!(
        findings,
        ["q:1:1: error: 1025 rules: expected 1024 at most"]
    );
}

#[test]
fn a_file_is_recognised_by_its_name_and_by_its_first_section() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["qos-policy.conf", "other"] {
        let file = directory.path().join(name);
        std::fs::write(&file, SIMPLE).unwrap();
        let report = check(&file).unwrap();
        assert_eq!(
            (report.kind, report.has_errors()),
            (FileKind::QosPolicy, false),
            "{report}"
        );
    }
}

#[test]
fn missing_file_is_an_error_unless_it_is_opensms_default() {
    let config = |may_be_missing| QosConfig {
        enabled: true,
        policy_file: Some("/nonexistent/qos-policy.conf".into()),
        policy_may_be_missing: may_be_missing,
        ..QosConfig::default()
    };
    let (policy, findings) = load_qos_policy(&config(true)).unwrap();
    assert_eq!((policy, findings.len()), (None, 1));
    assert!(matches!(
        load_qos_policy(&config(false)),
        Err(ConfigError::Read { .. })
    ));
    let off = QosConfig {
        enabled: false,
        ..config(false)
    };
    assert_eq!(load_qos_policy(&off).unwrap(), (None, Vec::new()));
}

/// Lines of a policy, whole or damaged, and any other text.
fn line() -> impl Strategy<Value = String> {
    let lines: Vec<String> = FULL
        .lines()
        .chain(SIMPLE.lines())
        .map(str::to_owned)
        .collect();
    let known = proptest::sample::select(lines);
    let damaged = (
        known.clone(),
        any::<proptest::sample::Index>(),
        any::<char>(),
    )
        .prop_map(|(mut line, at, with)| {
            let places: Vec<usize> = line.char_indices().map(|(at, _)| at).collect();
            if !places.is_empty() {
                let at = places[at.index(places.len())];
                line.remove(at);
                line.insert(at, with);
            }
            line
        });
    prop_oneof![4 => known, 2 => damaged, 1 => "\\PC{0,40}", 1 => "[-\"#,:0-9a-fx ]{0,30}"]
}

proptest! {
    #[test]
    fn any_text_is_a_policy_or_has_errors_with_places(
        lines in proptest::collection::vec(line(), 0..60),
    ) {
        let text = lines.join("\n");
        let (policy, findings) = parse_qos_policy(Path::new("q"), &text);
        let count = text.split('\n').count();
        for finding in &findings {
            prop_assert!((1..=count).contains(&finding.line), "{finding}");
            prop_assert!(!finding.to_string().contains('\n'));
        }
        if !any_error(&findings) {
            prop_assert!(policy.default_level < policy.levels.len());
            for rule in &policy.rules {
                prop_assert!(policy.level_of(rule).sl < 16);
                policy.criteria(rule);
            }
        }
    }

    #[test]
    fn shuffled_lines_of_a_policy_never_panic(
        lines in proptest::sample::subsequence(FULL.lines().collect::<Vec<_>>(), 0..80)
            .prop_shuffle(),
    ) {
        parse_qos_policy(Path::new("q"), &lines.join("\n"));
    }
}
