use std::fmt::Write as _;
use std::fs;

use proptest::prelude::*;
use rsm_mad::wire::attr::PKey;

use super::report::FINDINGS_MAX;
use super::*;
use crate::{Config, ConfigSeverity, FileKind, TrustMode, check};

fn read(text: &str) -> (Partitions, Vec<ConfigFinding>) {
    parse_partitions(Path::new("p.conf"), text, false)
}

fn messages(text: &str) -> Vec<String> {
    read(text).1.iter().map(ConfigFinding::to_string).collect()
}

/// The partitions, groups and rules of a file as text, one per line.
fn dump(partitions: &Partitions) -> String {
    let mut out = String::new();
    for Partition {
        p_key,
        name,
        sl,
        ipoib,
        groups,
        origin: _,
    } in &partitions.list
    {
        let ipoib = if *ipoib { " ipoib" } else { "" };
        writeln!(out, "{p_key} {name} sl={sl}{ipoib}").unwrap();
        for group in groups {
            assert_eq!(group.p_key.base(), p_key.base());
            assert!(group.p_key.is_full());
            writeln!(
                out,
                "  group {} mtu={} rate={} sl={} scope={} q_key={:#x} t_class={} flow_label={:#x} hops={}",
                group.mgid,
                group.mtu,
                group.rate,
                group.sl,
                group.scope,
                group.q_key,
                group.t_class,
                group.flow_label,
                group.hop_limit()
            )
            .unwrap();
        }
    }
    for Rule {
        p_key,
        members,
        membership,
        index0,
    } in &partitions.rules
    {
        let index0 = if *index0 { " index0" } else { "" };
        writeln!(out, "rule {p_key} {members:?} {membership}{index0}").unwrap();
    }
    out
}

#[test]
fn file_with_every_feature_yields_the_golden_partitions() {
    let (partitions, findings) = read(include_str!("samples/cluster.conf"));
    assert_eq!(dump(&partitions), include_str!("samples/cluster.golden"));
    let messages: Vec<_> = findings.iter().map(ConfigFinding::to_string).collect();
    assert_eq!(
        messages,
        [
            "p.conf:16:31: warning: `both`: it counts as full unless partitions.allow_both is set",
            "p.conf:16:37: warning: all members of `Storage` are limited: limited members talk to full members only, and so \
             not to each other: give those that all others talk to, such as servers, `=full`, or all by \
             `defmember=full` before the colon",
            "p.conf:16:59: warning: `limi`: read as `limited`",
            "p.conf:18:1: warning: `Tenants A and more` has the P_Key of `Tenant A`: both are one partition, 0x0010, with \
             the first name and the members of both: give each a P_Key of its own",
        ]
    );
    assert_eq!(partitions.find(PKey(0x8111)).unwrap().name, "Storage");
    assert_eq!(partitions.find(PKey(0x12)), None);
}

#[test]
fn without_a_file_all_ports_are_in_one_partition() {
    let expected = "\
0x7fff Default sl=0 ipoib
  group ff12:401b:ffff::ffff:ffff mtu=2048 rate=3 sl=0 scope=2 q_key=0xb1b t_class=0 flow_label=0x0 hops=0
rule 0x7fff All full
rule 0x7fff Own full
";
    assert_eq!(dump(&Partitions::default()), expected);
}

#[test]
fn layout_of_a_definition_does_not_change_its_meaning() {
    let expected = dump(&read("A=0x10,ipoib:0x1=full,0x2;").0);
    for text in [
        "  A = 0x10 , ipoib : 0x1 = full , 0x2 ;",
        "A=16,ipoib:\n0x1=full\n0x2\n;",
        "A=020,ipoib:0x1=full,;A=0x8010:,0x2;",
        "A=0x10,\n ipoib # comment : ;\n : 1=full, # ;\r\n 2 ; # end",
        "A=0x10,ipoib:0x1=f,0x2",
    ] {
        assert_eq!(dump(&read(text).0), expected, "{text}");
    }
}

#[test]
fn p_keys_are_chosen_for_definitions_without_one() {
    let (partitions, findings) =
        read("B : ALL; C=0x2 : ALL; D : SELF; B : SELF; : ALL; Default : ALL=full;");
    let keys: Vec<_> = partitions
        .list
        .iter()
        .map(|partition| (partition.p_key.0, partition.name.as_str()))
        .collect();
    let expected = [
        (1, "B"),
        (2, "C"),
        (3, "D"),
        (4, "0x0004"),
        (0x7fff, "Default"),
    ];
    assert_eq!(keys, expected);
    let severities: Vec<_> = findings.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [ConfigSeverity::Note; 3]);
    let rules: Vec<_> = partitions.rules.iter().map(|rule| rule.p_key.0).collect();
    assert_eq!(rules, [0x7fff, 0x7fff, 1, 2, 3, 1, 4, 0x7fff]);
}

#[test]
fn every_error_is_reported_with_its_place() {
    let text = "\
Default=0x7fff : ALL=full
A=0x10 : 0x1=full ;
B=0x0 : ALL ;
C=0x10000, indx1 : ALL ;
D=0x12, ipoib, rate=400, mtu=1500, sl=16 : 0x3 0x4, 0x5=, 0x6=ful1 ;
E=0x13, defmember, scope=0, Q_Key, TClass=256, FlowLabel=0x100000 : ALL_, SELFISH ;
F=0x14, indx0=1 : 0002c90300001234
  mgid=fe80::1
  mgid=ff12:401b:8015::1, rate=4, mtu=5, ratee=3
  mgid ;
just words ;
";
    let expected = [
        "p.conf:2:8: error: `:` within a list of members: expected `;` before the next definition",
        "p.conf:3:3: error: P_Key `0x0`: expected 0x0001 to 0x7fff, with or without the bit 0x8000",
        "p.conf:4:3: error: P_Key `0x10000`: expected 0x0001 to 0x7fff, with or without the bit 0x8000",
        "p.conf:4:12: error: flag `indx1`: did you mean `indx0`? There are indx0, ipoib, defmember, trust, mtu, rate, scope, Q_Key, TClass, sl, FlowLabel",
        "p.conf:5:21: error: rate is `400`: expected a rate such as 100G or 400G, or its code, 2 to 24",
        "p.conf:5:30: error: mtu is `1500`: expected 256, 512, 1024, 2048 or 4096, or its code, 1 to 5",
        "p.conf:5:39: error: sl is `16`: expected a service level, 0 to 15",
        "p.conf:5:44: error: `0x3 0x4`: expected a port GUID, in hexadecimal with 0x, and a comma after it",
        "p.conf:5:57: error: membership ``: expected one of full, limited, both",
        "p.conf:5:63: error: membership `ful1`: did you mean `full`? There are full, limited, both",
        "p.conf:6:9: error: membership ``: expected one of full, limited, both",
        "p.conf:6:26: error: scope is `0`: expected a scope, 1 to 15",
        "p.conf:6:29: error: Q_Key is ``: expected a Q_Key, 0 to 0xffffffff",
        "p.conf:6:43: error: TClass is `256`: expected a traffic class, 0 to 255",
        "p.conf:6:58: error: FlowLabel is `0x100000`: expected a flow label, 0 to 0xfffff",
        "p.conf:6:69: error: member `ALL_`: did you mean `ALL`? There are ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS, ALL_VCAS, SELF, NONE, mgid",
        "p.conf:6:75: error: member `SELFISH`: expected one of ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS, ALL_VCAS, SELF, NONE, mgid",
        "p.conf:7:15: error: indx0 is `1`: expected indx0 without a value",
        "p.conf:7:19: error: `0002c90300001234`: expected a port GUID, in hexadecimal with 0x, and a comma after it",
        "p.conf:8:8: error: mgid `fe80::1`: expected the GID of a multicast group, such as ff12:401b::16",
        "p.conf:9:8: error: IP group ff12:401b:8015::1 has another P_Key than its partition: expected 0x8014 or 0 in its P_Key bits",
        "p.conf:9:8: error: IP group ff12:401b:8015::1 has another MTU than its partition: expected mtu=4",
        "p.conf:9:8: error: IP group ff12:401b:8015::1 has another rate than its partition: expected rate=3",
        "p.conf:9:42: error: flag `ratee`: did you mean `rate`? There are mtu, rate, scope, Q_Key, TClass, sl, FlowLabel",
        "p.conf:10:3: error: `mgid`: expected `mgid=GID`, with its flags up to the end of the line",
        "p.conf:11:1: error: `just words`: expected `NAME=P_KEY, FLAGS : MEMBERS ;`",
    ];
    assert_eq!(messages(text), expected);
}

#[test]
fn unusual_but_usable_text_causes_a_warning() {
    let text = "A=0x10,,ipo : ALL_VCAS, 0x1=l\n mgid=ff12:401b:ffff::ffff:ffff,sl=2\n mgid=ff12::7\n mgid=ff13::7, Q";
    let expected = [
        "p.conf:1:8: warning: nothing between two commas: left out",
        "p.conf:1:9: warning: `ipo`: read as `ipoib`",
        "p.conf:1:29: warning: `l`: read as `limited`",
        "p.conf:2:7: warning: group ff12:401b:8010::ffff:ffff is there before, and different: the first one counts",
        "p.conf:4:16: warning: `Q`: read as `Q_Key`",
        "p.conf:4:16: error: Q_Key is ``: expected a Q_Key, 0 to 0xffffffff",
        "p.conf:4:17: warning: the file ends within a definition: expected `;`, as if it were there",
    ];
    assert_eq!(messages(text), expected);
}

#[test]
fn a_file_that_defines_nothing_is_an_error() {
    for text in ["", "\n\n", "# Default=0x7fff : ALL=full ;\n", ";;"] {
        let expected = "p.conf:1:1: error: no partition is defined: expected a definition such as `Default=0x7fff : ALL=full ;`";
        assert_eq!(messages(text), [expected], "{text:?}");
    }
}

#[test]
fn errors_are_bounded() {
    let text = "A=0x10 : x ;\n".repeat(FINDINGS_MAX + 7);
    let (_, findings) = read(&text);
    assert_eq!(findings.len(), FINDINGS_MAX + 1);
    assert_eq!(
        findings.last().unwrap().to_string(),
        "p.conf:101:10: error: 7 more errors from here on: the first 100 findings are shown"
    );
    let word = "x".repeat(100_000);
    let messages = messages(&format!("{word} : {word}={word} ;"));
    assert!(messages.iter().all(|line| line.len() < 300), "{messages:?}");
}

#[test]
fn all_p_keys_can_be_used_and_one_more_is_an_error() {
    let mut text = String::new();
    for number in 1..=0x7fff {
        writeln!(text, "P{number} : ALL ;").unwrap();
    }
    let (partitions, findings) = read(&text);
    assert_eq!(partitions.list.len(), 0x7fff);
    let errors: Vec<_> = findings
        .iter()
        .filter(|f| f.severity == ConfigSeverity::Error)
        .collect();
    // The default partition has the P_Key 0x7fff, so the last definition finds no free P_Key.
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].line, 0x7fff);
}

#[test]
fn partitions_are_read_from_the_file_that_a_configuration_names() {
    let dir = tempfile::tempdir().unwrap();
    let (file, config) = (dir.path().join("p"), dir.path().join("rsm.toml"));
    let named = format!(
        "[partitions]\nfile = {:?}\nallow_both = true\n",
        file.display().to_string()
    );
    fs::write(&config, named).unwrap();
    let loaded = Config::load(&config).unwrap().config.partitions;
    assert!(matches!(
        load_partitions(&loaded),
        Err(ConfigError::Read { .. })
    ));
    assert!(check(&config).unwrap().has_errors());

    fs::write(&file, "A=0x10 : ALL=both ;\n").unwrap();
    let (partitions, findings) = load_partitions(&loaded).unwrap();
    assert!(partitions.allow_both && findings.is_empty());
    assert!(!check(&config).unwrap().has_errors());
    let report = check(&file).unwrap();
    assert_eq!(report.kind, FileKind::Partitions);
    assert_eq!((report.entries, report.findings.len()), (2, 1));

    fs::write(&file, "A=0x10 : ALL=bot ;\nB\n").unwrap();
    let error = load_partitions(&loaded).unwrap_err().to_string();
    assert!(error.contains("p:2:1: error: `B`: expected"), "{error}");
    assert!(check(&config).unwrap().has_errors());

    let opensm = dir.path().join("opensm.conf");
    let missing = dir.path().join("missing");
    fs::write(
        &opensm,
        format!("lmc 0\npartition_config_file {}\n", missing.display()),
    )
    .unwrap();
    let loaded = Config::load(&opensm).unwrap().config.partitions;
    assert!(matches!(
        load_partitions(&loaded),
        Err(ConfigError::Read { .. })
    ));
    assert!(check(&opensm).unwrap().has_errors());

    // OpenSM writes this name into every configuration.
    let missing = dir.path().join("opensm/partitions.conf");
    fs::write(
        &opensm,
        format!("lmc 0\npartition_config_file {}\n", missing.display()),
    )
    .unwrap();
    let loaded = Config::load(&opensm).unwrap().config.partitions;
    let (partitions, findings) = load_partitions(&loaded).unwrap();
    assert_eq!(partitions, Partitions::default());
    assert_eq!(findings[0].severity, ConfigSeverity::Warning);
    assert!(!check(&opensm).unwrap().has_errors());
}

#[test]
fn a_partition_with_only_limited_members_is_a_warning_at_its_definition() {
    let warned = |text: &str| {
        let findings = read(text).1.into_iter();
        let warned = findings.filter(|finding| finding.found.contains("are limited"));
        warned.map(|finding| finding.line).collect::<Vec<_>>()
    };
    let all = "Default=0x7fff : ALL=full;\n";
    assert_eq!(warned(&format!("{all}st=0x10 : 0x10, 0x20;")), [2]);
    assert_eq!(
        warned(&format!("{all}st=0x10 : 0x10;\nst : 0x20=limited;")),
        [2]
    );
    for talking in [
        "st=0x10 : 0x10, 0x20=full;",
        "st=0x10 : 0x10;\nst : 0x20=full;",
        "st=0x10, defmember=full : 0x10;",
        "st=0x10 : ;",
        "st=0x10 : ALL;",
        "st=0x10 : SELF;",
    ] {
        assert_eq!(warned(talking), [0usize; 0], "{talking}");
    }
}

#[test]
fn two_names_for_a_p_key_or_two_p_keys_for_a_name_cause_warnings() {
    let messages =
        messages("A=0x10 : ALL=full;\nB=0x10 : ALL=full;\nA=0x11 : ALL=full;\nA : SELF=full;\n");
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].starts_with("p.conf:2:1: warning: `B` has the P_Key of `A`: both are one"));
    assert!(messages[1].starts_with("p.conf:3:1: warning: `A` is the name of 0x0010 as well: "));
}

#[test]
fn a_host_name_as_member_is_an_error_that_says_how_to_find_the_port_guid() {
    let text = "P=0x1 : hpc-node-[01-64]=full, ai-node-*=full, login=full ;";
    let messages = messages(text);
    assert_eq!(messages.len(), 3, "{messages:?}");
    for line in messages {
        assert!(
            line.contains("error: member `") && line.contains("`ibstat -p`"),
            "{line}"
        );
    }
    assert!(self::messages("P=0x1 : mgit ;")[0].contains("did you mean `mgid`?"));
}

#[test]
fn a_file_without_a_semicolon_is_recognised_as_partitions() {
    let text = "Default=0x7fff, ipoib : ALL=full\n";
    let kind = FileKind::recognise(Path::new("p.conf"), text);
    assert_eq!(kind, FileKind::Partitions);
    let (partitions, findings) = read(text);
    assert_eq!(partitions.list.len(), 1);
    assert_eq!(findings.len(), 1);
    for (other, kind) in [
        ("[api]\nlisten = \"127.0.0.1:1\"\n", FileKind::Toml),
        ("listen = \"127.0.0.1:1\"\n", FileKind::Toml),
        ("qos_vlarb_high 0:4,1:8\n", FileKind::OpensmConf),
    ] {
        assert_eq!(FileKind::recognise(Path::new("x"), other), kind, "{other}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_without_a_panic(text: String) {
        let _ = read(&text);
    }

    #[test]
    fn damaged_samples_are_read_or_refused(at in 0usize..900, gone in 0usize..40, with in "[:;,=#\nA-z0-9]{0,3}") {
        let mut text = include_str!("samples/cluster.conf").to_owned();
        let from = at.min(text.len());
        let to = (from + gone).min(text.len());
        text.replace_range(from..to, &with);
        let (partitions, findings) = read(&text);
        prop_assert!(partitions.find(PKey::DEFAULT_LIMITED).is_some());
        prop_assert!(partitions.list.is_sorted_by_key(|partition| partition.p_key));
        for finding in findings {
            prop_assert!(finding.line <= text.split('\n').count());
        }
    }
}

#[test]
fn names_and_trust_of_partitions_are_read() {
    let text = "\
Default=0x7fff : ALL=full ;
red=0x10, ipoib, trust=enforce : 0x1=full, mgids=ff12:a01d:10::/48, mgids=ff15:a01d:10::/48
 guids=0x0252000000100000/44, 0x2=full ;
blue=0x11, trust=off : 0x3=full
 guids=0x0252000000200000 ;
red=0x10 : 0x4=full, mgids=ff12:1234::/32 ;
";
    let (partitions, findings) = read(text);
    assert_eq!(findings, []);
    let of = |p_key| {
        let mut all = partitions.protections.by_partition();
        let protection = all.remove(&p_key).unwrap_or_default();
        let owned: Vec<String> = protection.owned.iter().map(Owned::to_string).collect();
        (protection.trust, owned.join(" "))
    };
    let red = "ff12:1234::/32 ff12:a01d:10::/48 ff15:a01d:10::/48 0x0252000000100000/44";
    assert_eq!(of(0x10), (Some(TrustMode::Enforce), red.to_owned()));
    assert_eq!(
        of(0x11),
        (Some(TrustMode::Off), "0x0252000000200000/64".to_owned())
    );
    assert_eq!(of(0x7fff), (None, String::new()));
    let ports = |p_key| {
        partitions
            .rules
            .iter()
            .filter(|rule| rule.p_key == PKey(p_key))
            .count()
    };
    assert_eq!((ports(0x10), ports(0x11)), (3, 1));
}

#[test]
fn wrong_names_and_trust_of_partitions_are_errors_with_their_place() {
    let text = "\
Default=0x7fff : ALL=full ;
red=0x10, trust=enfroce : 0x1=full, mgids=ff12:401b:8010::/48 ;
blue=0x11, trust : 0x2=full, mgids=ff12:a01d::/32, guids=0x1/65 ;
green=0x12 : 0x3=full, mgids=ff12:a01d:5::/48, mgids ;
";
    let expected = [
        "p.conf:2:17: error: trust `enfroce`: did you mean `enforce`? There are off, report, enforce",
        "p.conf:2:43: error: mgids `ff12:401b:8010::/48`: MGIDs of IP over InfiniBand (401b, 601b) belong to the partition",
        "p.conf:3:12: error: trust ``: expected one of off, report, enforce",
        "p.conf:3:58: error: guids `0x1/65`: expected a GUID with 1 to 64 bits that count, such as 0x0252000000100000/44",
        "p.conf:4:30: error: mgids `ff12:a01d:5::/48`: ff12:a01d::/32 belongs to the partition 0x0011 already: each name has one owner",
        "p.conf:4:48: error: mgids ``: expected an MGID with 32 to 128 bits that count, such as ff12:a01d:10::/48",
    ];
    let messages = messages(text);
    assert_eq!(messages.len(), expected.len(), "{messages:#?}");
    for (messages, expected) in messages.iter().zip(expected) {
        assert!(messages.starts_with(expected), "{messages}\n{expected}");
    }
}
