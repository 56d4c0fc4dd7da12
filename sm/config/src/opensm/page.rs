//! Generates `docs/opensm-keys.md` from the tables of keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::keys::{Fate, by_manager};
use super::{KeyGroup, NO_ENFORCEMENT, fields};

/// Text of the page before its tables.
const HEAD: &str = "\
# Keys of OpenSM

Every key of `opensm.conf`, and what rsm does with it. A test makes this page from the tables of the program.

Other pages: [migrating](migrating-from-opensm.md), [operating](operating.md), [limits](limits.md), [overview](../README.md).

`rsm check-config --verbose FILE` says the same about the keys of a file, with their values. Groups are those of
[Configuration](migrating-from-opensm.md#configuration). Values in brackets ask for nothing that rsm does not do: with them a
key that is not available causes no warning.
";

/// Group and effect of a key.
type Row = (KeyGroup, String);

/// The keys of OpenSM that set a key of rsm.
fn obeyed() -> BTreeMap<&'static str, Row> {
    let taken = fields().iter().filter_map(|field| {
        let (theirs, _) = field.opensm?;
        let key = format!("`{}.{}`", field.section, field.key);
        Some((theirs, (KeyGroup::Obeyed, key)))
    });
    let more = (KeyGroup::Obeyed, "`partitions.enforcement`".to_owned());
    taken.chain([(NO_ENFORCEMENT, more)]).collect()
}

/// Group and effect of a key without a counterpart; `None` if no manager has the key.
fn row(fate: Fate) -> Option<Row> {
    Some(match fate {
        Fate::NotNeeded(why) => (KeyGroup::NotNeeded, why.to_owned()),
        Fate::Tunes(missing) => {
            let why = format!(
                "it tunes a function that rsm does not have: {}",
                missing.lost
            );
            (KeyGroup::NotNeeded, why)
        }
        Fate::NotAvailable(missing, idle) => {
            let idle = idle.iter().map(|value| format!(" [{value}]"));
            let why = format!(
                "{}; {}{}",
                missing.lost,
                missing.instead,
                idle.collect::<String>()
            );
            (KeyGroup::NotAvailable, why)
        }
        Fate::Invented(_) => return None,
    })
}

/// A section of the page: the title, the number of keys in each group, and a table of the keys.
fn table(title: &str, rows: &BTreeMap<&str, Row>) -> String {
    let mut text = format!("\n## {title}\n\n");
    let groups = [
        KeyGroup::Obeyed,
        KeyGroup::NotNeeded,
        KeyGroup::NotAvailable,
    ];
    let counts = groups.map(|group| {
        let keys = rows.values().filter(|(of, _)| *of == group);
        format!("{} {group}", keys.count())
    });
    writeln!(text, "{} keys: {}.\n", rows.len(), counts.join(", ")).unwrap();
    text.push_str("| key | group | here |\n|---|---|---|\n");
    for (key, (group, here)) in rows {
        let here = here.replace('|', "\\|");
        writeln!(text, "| `{key}` | {group} | {here} |").unwrap();
    }
    text
}

/// The keys of OpenSM, and the keys that only NVIDIA's manager has. A key with a counterpart in rsm
/// is one of OpenSM, unless the list below has it.
fn tables() -> [BTreeMap<&'static str, Row>; 2] {
    /// Keys of NVIDIA's manager that rsm obeys.
    const NVIDIA: [&str; 11] = [
        "allowed_sm_guids",
        "enable_virt_rec_ext",
        "enhanced_qos_policy_file",
        "master_sm_priority",
        "qos_sw2sw_high_limit",
        "qos_sw2sw_sl2vl",
        "qos_sw2sw_vlarb_high",
        "qos_sw2sw_vlarb_low",
        "sa_enhanced_trust_model",
        "sharp_enabled",
        "virt_enabled",
    ];
    let mut tables = by_manager().map(|keys| {
        let rows = keys.into_iter();
        rows.filter_map(|(key, fate)| Some((key, row(fate)?)))
            .collect::<BTreeMap<_, _>>()
    });
    for (key, row) in obeyed() {
        tables[usize::from(NVIDIA.contains(&key))].insert(key, row);
    }
    tables
}

#[test]
fn page_of_opensm_keys_is_generated_from_the_tables() {
    let [opensm, nvidia] = tables();
    assert!(opensm.len() >= 162, "{} keys", opensm.len());
    assert!(nvidia.len() >= 219, "{} keys", nvidia.len());
    let text = format!(
        "{HEAD}{}{}",
        table("Keys of OpenSM 3.3", &opensm),
        table("Keys of NVIDIA's manager alone", &nvidia)
    );
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/opensm-keys.md");
    if std::env::var_os("RSM_UPDATE_GOLDEN").is_some() {
        std::fs::write(&page, &text).unwrap();
    }
    let found = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(
        found == text,
        "docs/opensm-keys.md is old: run this test with RSM_UPDATE_GOLDEN=1"
    );
}

/// The words of a key, without words that only name a manager.
fn words(key: &str) -> BTreeSet<&str> {
    let words = key.split('_');
    words
        .filter(|word| !["sm", "opensm"].contains(word))
        .collect()
}

#[test]
fn key_with_the_words_of_a_key_of_rsm_names_it() {
    for (key, (_, text)) in tables().into_iter().flatten() {
        if obeyed().contains_key(key) {
            continue;
        }
        let same = fields()
            .iter()
            .filter(|field| words(field.key) == words(key));
        // `health.reports` limits reports of devices; OpenSM's key concerns reports to hosts.
        let same = same.filter(|field| (field.section, field.key) != ("health", "reports"));
        for field in same {
            let ours = format!("{}.{}", field.section, field.key);
            assert!(text.contains(&ours), "`{key}` does not name {ours}: {text}");
        }
    }
}

#[test]
fn keys_of_rsm_named_in_the_tables_exist() {
    let sections: BTreeSet<&str> = fields().iter().map(|field| field.section).collect();
    for (key, (_, text)) in tables().into_iter().flatten() {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "._".contains(c)));
        let named = words.filter_map(|word| word.trim_end_matches('.').split_once('.'));
        // `partitions.conf` is a file.
        let named = named.filter(|&(section, key)| sections.contains(section) && key != "conf");
        for (section, ours) in named {
            let is_there = fields()
                .iter()
                .any(|field| (field.section, field.key) == (section, ours));
            assert!(
                is_there,
                "`{key}` names {section}.{ours}, which is no key of rsm"
            );
        }
    }
}

#[test]
fn migration_page_gives_keys_the_groups_of_the_tables() {
    let groups: BTreeMap<&str, String> = tables()
        .into_iter()
        .flatten()
        .map(|(key, (group, _))| (key, group.to_string()))
        .collect();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/migrating-from-opensm.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut checked = 0;
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let said = columns[2];
        if !KeyGroup::ALL.iter().any(|group| group.to_string() == said) {
            continue;
        }
        let quoted = columns[1].split('`').skip(1).step_by(2);
        for key in quoted.filter_map(|quoted| quoted.split_whitespace().next()) {
            // A single value may have another group than its key.
            let is_value = columns[1].contains(&format!("`{key} "));
            if let Some(group) = groups.get(key).filter(|_| !is_value) {
                assert_eq!(group, said, "{key}: {line}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 20, "{checked} keys");
}
