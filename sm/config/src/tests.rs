use std::fs;
use std::net::IpAddr;
use std::path::Path;

use proptest::prelude::*;
use rsm_ids::Guid;

use super::schema::{SECTIONS, fields};
use super::value::{HeldValue, Kind};
use super::*;

fn parse(text: &str) -> Result<Loaded, ConfigError> {
    Config::parse(Path::new("rsm.toml"), text)
}

fn errors(text: &str) -> Vec<String> {
    match parse(text) {
        Err(ConfigError::Invalid { findings }) => findings
            .iter()
            .filter(|f| f.severity == ConfigSeverity::Error)
            .map(ConfigFinding::to_string)
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn empty_text_and_the_sample_give_the_default_configuration() {
    assert_eq!(parse("").unwrap().config, Config::default());
    let loaded = parse(&Config::sample()).unwrap();
    assert_eq!(loaded.findings, []);
    assert_eq!(loaded.config, Config::default());
}

#[test]
fn examples_of_unset_keys_can_be_set() {
    let sample: Vec<String> = Config::sample()
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    let config = parse(&sample.join("\n")).unwrap().config;
    assert_eq!(config.sm.guid, Some(Guid(0x0002_c903_0000_1234)));
    assert_eq!(config.links.force_width, Some(2));
    assert_eq!(config.dump.dir, Some("/var/log/rsm".into()));
}

/// The configuration that packages install; with `all`, the keys in its comments are set as well.
fn packaged(all: bool) -> Config {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/rsm.toml");
    let text = fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if all && !rest.starts_with(' ') => rest,
            _ => line,
        })
        .collect();
    parse(&lines.join("\n")).unwrap().config
}

#[test]
fn packaged_configuration_reads_counters_and_serves_the_page_to_its_own_machine_alone() {
    let config = packaged(false);
    assert!(config.counters.enabled);
    assert!(config.http.listen.unwrap().ip().is_loopback());
    assert_eq!(config.sm, SmConfig::default());
}

#[test]
fn commented_keys_of_the_packaged_configuration_give_each_port_an_m_key() {
    let config = packaged(true);
    assert_eq!(config.sm.m_keys, MKeyMode::PerPort);
    let secret = Path::new("/etc/rsm/m-key-secret");
    assert_eq!(config.sm.m_key_secret_file.as_deref(), Some(secret));
}

#[test]
fn every_key_is_in_a_section_once_and_has_a_default_or_an_example() {
    for (at, field) in fields().iter().enumerate() {
        assert!(SECTIONS.iter().any(|(name, _)| *name == field.section));
        let again = fields()[at + 1..]
            .iter()
            .any(|f| (f.section, f.key) == (field.section, field.key));
        assert!(!again, "{}.{}", field.section, field.key);
        let unset = field.value(&mut Config::default()).is_none();
        assert!(
            !unset || !field.example.is_empty(),
            "{} needs an example",
            field.key
        );
    }
}

#[test]
fn ends_of_every_range_are_accepted_and_values_past_them_refused() {
    for field in fields() {
        let (Kind::Number { min, max } | Kind::Hexadecimal { min, max }) = field.kind else {
            continue;
        };
        let written = |value: u128| match field.kind {
            Kind::Hexadecimal { max, .. } if max > i64::MAX as u64 => format!("\"{value:#x}\""),
            _ => value.to_string(),
        };
        let set = |value| format!("[{}]\n{} = {}\n", field.section, field.key, written(value));
        for value in [min, max] {
            let mut config = match parse(&set(u128::from(value))) {
                Ok(loaded) => loaded.config,
                // A value at the end of a range may be refused only if it contradicts another key's
                // default.
                Err(_) if field.key.starts_with("timeout_") => continue,
                Err(error) => panic!("{error}"),
            };
            assert_eq!(
                field.held(&mut config),
                Some(HeldValue::Number(value)),
                "{}",
                field.key
            );
        }
        let past = [u128::from(max) + 1, u128::from(min).wrapping_sub(1)];
        for value in past.into_iter().filter(|v| *v != u128::MAX) {
            assert_eq!(errors(&set(value)).len(), 1, "{} = {value}", field.key);
        }
        assert_eq!(
            errors(&format!("[{}]\n{} = -1", field.section, field.key)).len(),
            1
        );
    }
}

#[test]
fn all_errors_of_a_file_are_reported_with_line_and_column() {
    let text = "\
[sm]
priority = 16
guid = \"port one\"
m_key = 0xfe80000000000000
[lids]
lcm = 2
lmc_esp0 = 1
[sweeps]
[routing]
engine = \"ftree\"
[api]
listen = \"localhost\"
[sweep]
timeout_floor_ms = 5000
";
    let expected = [
        "rsm.toml:2:12: error: priority is 16: expected an integer from 0 to 15",
        "rsm.toml:3:8: error: guid is \"port one\": expected a GUID, a string of up to 16 hexadecimal digits",
        "rsm.toml:6:1: error: unknown key `lcm` in [lids]: expected one of lmc, lmc_esp0, reassign",
        "rsm.toml:7:12: error: lmc_esp0 is 1: expected true or false",
        "rsm.toml:8:2: error: unknown section `sweeps`: did you mean `sweep`? There are sm, sweep, sa, lids, links, routing, partitions, qos, flap, health, api, http, counters, congestion, gpu, names, design, dump, log, notify, history, state, store",
        "rsm.toml:10:10: error: engine is \"ftree\": expected one of \"auto\", \"fabric-tree\", \"updn\", \"dnup\", \"minhop\", \"dor\", \"torus\", \"dragonfly+\", \"nue\", \"dfsssp\", \"file\"",
        "rsm.toml:12:10: error: listen is \"localhost\": expected an address and port, a string such as \"127.0.0.1:50051\", or \"\" for none",
        "rsm.toml:14:20: error: timeouts of 5000 ms, at first 100 ms, to 1000 ms: expected timeout_floor_ms <= timeout_initial_ms <= timeout_ceiling_ms",
    ];
    assert_eq!(errors(text), expected);
}

#[test]
fn syntax_errors_do_not_hide_other_errors() {
    let errors = errors("[lids]\nlmc = 9\n[sm]\npriority = = 3\nsm_sl = 99\n");
    let lines: Vec<_> = errors
        .iter()
        .map(|e| e.split(':').nth(1).unwrap())
        .collect();
    assert!(
        lines.contains(&"2") && lines.contains(&"4") && lines.contains(&"5"),
        "{errors:?}"
    );
}

#[test]
fn values_of_64_bits_may_be_integers_or_hexadecimal_strings() {
    let key = |text: &str| parse(&format!("[sm]\nm_key = {text}")).map(|l| l.config.sm.m_key);
    assert_eq!(key("\"0xffffffffffffffff\"").unwrap(), u64::MAX);
    assert_eq!(key("0xfe80000000000000").unwrap(), 0xfe80_0000_0000_0000);
    assert_eq!(key("17").unwrap(), 17);
    for bad in [
        "\"17\"",
        "\"0x\"",
        "\"0x+1\"",
        "-1",
        "1.5",
        "true",
        "\"0x1ffffffffffffffff\"",
    ] {
        assert!(key(bad).is_err(), "{bad}");
    }
}

#[test]
fn questionable_values_cause_warnings() {
    let loaded = parse(
        "[sm]\nm_key_protection_level = 1\n[api]\ninsecure_admin = true\nlisten = \"0.0.0.0:1\"\n",
    )
    .unwrap();
    let said: Vec<_> = loaded
        .findings
        .iter()
        .map(|f| (f.line, f.severity))
        .collect();
    assert_eq!(
        said,
        [(2, ConfigSeverity::Warning), (4, ConfigSeverity::Warning)]
    );
    let loaded = parse("[api]\ninsecure_admin = true\nlisten = \"\"").unwrap();
    assert_eq!(loaded.findings.len(), 1);
    assert_eq!(loaded.config.api.listen, None);
}

#[test]
fn page_on_an_address_that_others_can_reach_causes_a_warning() {
    for address in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80"] {
        let loaded = parse(&format!("[http]\nlisten = \"{address}\"\n")).unwrap();
        let said = loaded.findings.iter().map(|f| (f.line, f.severity));
        let said: Vec<_> = said.collect();
        assert_eq!(said, [(2, ConfigSeverity::Warning)], "{address}");
    }
    for address in ["127.0.0.1:80", "[::1]:80"] {
        let loaded = parse(&format!("[http]\nlisten = \"{address}\"\n")).unwrap();
        assert_eq!(loaded.findings.len(), 0, "{address}");
    }
}

#[test]
fn each_kind_of_file_is_recognised() {
    let cases = [
        ("x", "[sm]\npriority = 1\n", FileKind::Toml),
        ("x", "# only\n\n", FileKind::Toml),
        ("x.toml", "lmc 3\n", FileKind::Toml),
        ("x", "# opensm\nlmc 3\n", FileKind::OpensmConf),
        ("x", "0x10 0x1 0x1\n\n", FileKind::Guid2Lid),
        ("guid2lid", "", FileKind::Guid2Lid),
        ("x", "# roots\n0x10\n", FileKind::GuidFile),
        ("x", "0x10 spine one\n", FileKind::GuidFile),
        ("x", "0x10 storage one\n", FileKind::Categories),
    ];
    for (name, text, kind) in cases {
        assert_eq!(
            FileKind::recognise(Path::new(name), text),
            kind,
            "{name}: {text}"
        );
    }
    let error = Config::parse(Path::new("x"), "0x10\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "x is a GUID list: expected a configuration"
    );
}

#[test]
fn check_includes_the_root_guid_file() {
    let dir = tempfile::tempdir().unwrap();
    let roots = dir.path().join("roots");
    let file = dir.path().join("rsm.toml");
    let text = format!(
        "[routing]\nroot_guid_file = {:?}\n",
        roots.display().to_string()
    );
    fs::write(&file, text).unwrap();
    let report = check(&file).unwrap();
    assert!(report.has_errors(), "{report}");
    assert!(load_guid_file(&roots).is_err());
    fs::write(&roots, "0x10\nspine\n").unwrap();
    let report = check(&file).unwrap();
    assert_eq!(report.findings.len(), 1);
    assert_eq!(
        (report.findings[0].file.as_path(), report.findings[0].line),
        (roots.as_path(), 2)
    );
    assert!(load_guid_file(&roots).is_err());
    fs::write(&roots, "0x10\n").unwrap();
    let report = check(&file).unwrap();
    assert!(!report.has_errors());
    assert_eq!(
        report.to_string(),
        format!(
            "{}: rsm configuration, 1 entries: 0 errors, 0 warnings, 0 notes",
            file.display()
        )
    );
    assert_eq!(load_guid_file(&roots).unwrap().len(), 1);
}

#[test]
fn checking_an_opensm_conf_shows_every_key_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("opensm.conf");
    fs::write(&file, "lmc 1\nconsole off\nnue_include_switches TRUE\n").unwrap();
    let report = check(&file).unwrap();
    let count = "keys: 1 obeyed, 1 not needed here, 1 not available, 0 unknown";
    let brief = report.to_string();
    let brief: Vec<_> = brief.lines().collect();
    assert!(brief[0].contains(":3:1: warning: nue_include_switches is `TRUE`: not available: "));
    assert_eq!((brief[1], brief.len()), (count, 3));
    let verbose = report.verbose().to_string();
    let verbose: Vec<_> = verbose.lines().collect();
    assert!(verbose[0].ends_with(":1:1: note: lmc is `1`: obeyed: lids.lmc = 1"));
    assert!(verbose[1].contains(":2:1: note: console is `off`: not needed here: "));
    assert_eq!((verbose[2], verbose[3]), (brief[0], count));
}

#[test]
fn files_that_are_missing_too_large_or_not_utf_8_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rsm.toml");
    fs::write(&file, b"[sm]\n\xff\xfe\n").unwrap();
    assert!(matches!(
        Config::load(&file),
        Err(ConfigError::NotText { .. })
    ));
    // "Zürich" in Latin-1, after a character of two bytes.
    fs::write(&file, b"[sm]\n# \xc3\xa4 Z\xfcrich\n").unwrap();
    for error in [Config::load(&file).unwrap_err(), check(&file).unwrap_err()] {
        let text = error.to_string();
        let place = format!(
            "{}:2:6: error: the byte 0xfc: expected UTF-8",
            file.display()
        );
        assert!(text.starts_with(&place), "{text}");
    }
    // For a file that the configuration names, the error states the place once.
    let partitions = dir.path().join("partitions.conf");
    fs::write(
        &partitions,
        b"Default=0x7fff : ALL=full ;\nCaf\xe9=0x2 : ALL=full ;\n",
    )
    .unwrap();
    fs::write(&file, format!("[partitions]\nfile = {partitions:?}\n")).unwrap();
    let report = check(&file).unwrap().to_string();
    let place = format!("{}:2:4: error: the byte 0xe9: ", partitions.display());
    assert!(report.starts_with(&place), "{report}");
    assert_eq!(report.matches("partitions.conf").count(), 1, "{report}");
    fs::write(&file, vec![b'\n'; FILE_MAX as usize + 1]).unwrap();
    assert!(matches!(
        Config::load(&file),
        Err(ConfigError::NotText { .. })
    ));
    fs::remove_file(&file).unwrap();
    assert!(matches!(Config::load(&file), Err(ConfigError::Read { .. })));
}

proptest! {
    #[test]
    fn any_text_in_any_format_never_panics(text: String, name in "(x|guid2lid|x.toml)") {
        let file = Path::new(&name);
        let _ = Config::parse(file, &text);
        let _ = toml_file::parse(file, &text);
        let _ = opensm::parse(file, &text);
        let _ = parse_guid2lid(file, &text);
        let _ = parse_guid_file(file, &text);
        let _ = parse_categories(file, &text);
    }

    #[test]
    fn samples_with_inserted_text_never_panic(at in 0usize..6000, with in "\\PC{0,3}") {
        let mut text = Config::sample();
        let at = (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.insert_str(at, &with);
        let _ = parse(&text);
    }
}

/// `docs/guards.md` lists every key with its power and its guards.
#[test]
fn every_key_is_in_the_page_of_guards() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guards.md");
    let page = std::fs::read_to_string(page).unwrap();
    let keys = fields()
        .iter()
        .map(|key| format!("`{}.{}`", key.section, key.key));
    let missing: Vec<String> = keys.filter(|key| !page.contains(key)).collect();
    assert_eq!(
        missing, [""; 0],
        "docs/guards.md does not say what guards these keys"
    );
    // The page names only keys that exist.
    let (_, keys) = page.split_once("\n## Configuration\n").unwrap();
    let words = keys.split('`').skip(1).step_by(2);
    let sections: Vec<&str> = fields().iter().map(|key| key.section).collect();
    let named = words.filter_map(|word| word.split_once('.'));
    let named = named.filter(|(section, _)| sections.contains(section));
    for (section, key) in named {
        let is_there = fields()
            .iter()
            .any(|field| (field.section, field.key) == (section, key));
        assert!(
            is_there,
            "docs/guards.md names `{section}.{key}`, which is no key"
        );
    }
}

#[test]
fn lids_reassign_causes_a_warning_at_its_line() {
    let loaded = parse("[lids]\nreassign = true\n").unwrap();
    let [finding] = &loaded.findings[..] else {
        panic!("{:?}", loaded.findings);
    };
    assert_eq!(finding.severity, ConfigSeverity::Warning);
    let text = finding.to_string();
    assert!(
        text.starts_with("rsm.toml:2:12: warning: all LIDs are given anew: "),
        "{text}"
    );
    assert_eq!(parse("[lids]\nreassign = false\n").unwrap().findings, []);
}

#[test]
fn isolating_hostile_hosts_requires_an_m_key_per_port() {
    let isolate = "[health]\nhostile_hosts = \"isolate\"\n";
    let [error] = &errors(isolate)[..] else {
        panic!("{:?}", errors(isolate));
    };
    assert!(error.contains("without M_Keys per port"), "{error}");
    let keys = "[sm]\nm_keys = \"per-port\"\nm_key_secret_file = \"/etc/rsm/m-key-secret\"\n";
    let loaded = parse(&format!("{keys}{isolate}")).unwrap();
    assert_eq!(loaded.config.health.hostile_hosts, HostileHosts::Isolate);
    let default = parse("").unwrap().config.health.hostile_hosts;
    assert_eq!(default, HostileHosts::Report);
}

#[test]
fn proxies_must_be_addresses_and_without_roles_file_cause_a_warning() {
    let loaded = parse("[http]\nproxies = \"10.0.0.5, ::ffff:10.0.0.6\"\n").unwrap();
    let wanted: [IpAddr; 2] = ["10.0.0.5", "10.0.0.6"].map(|address| address.parse().unwrap());
    assert_eq!(loaded.config.http.proxies, wanted);
    let warned = loaded
        .findings
        .iter()
        .any(|one| one.found.contains("without roles_file"));
    assert!(warned, "{:?}", loaded.findings);
    for wrong in ["\"\"", "\"10.0.0.5/24\"", "\"proxy.example\"", "5"] {
        assert_eq!(
            errors(&format!("[http]\nproxies = {wrong}\n")).len(),
            1,
            "{wrong}"
        );
    }
}
