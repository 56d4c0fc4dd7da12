//! Checks of the files that a configuration names.
//!
//! `rsm check-config`, `rsm migrate`, the start and a reload use the same table, so that all four
//! report the same findings. A file that is missing, cannot be read, or defines nothing is always
//! reported, because most of these files restrict the rights of hosts.

use std::path::Path;

use super::finding::{ConfigFinding, ConfigSeverity};
use super::policy_files::PolicyFiles;
use super::text_file::{findings_of_file, read_text, unreadable_file};
use super::{Config, StoreBackend, load_headers, load_tables};

/// Returns `findings` with the findings about every file that the configuration names.
pub fn with_files(config: &Config, mut findings: Vec<ConfigFinding>) -> Vec<ConfigFinding> {
    findings.extend(PolicyFiles::read(config).1);
    if let Some(tables) = &config.routing.tables_file {
        let read = load_tables(tables).map(|_| ((), Vec::new()));
        findings.extend(findings_of_file(tables, "tables_file", read).1);
    }
    findings.extend(findings_of_access_files(config));
    findings
}

/// Findings about the files for access and for the shared store, which rsm does not read together
/// with the policy files. A missing access file is a warning: access is restricted, but the fabric
/// is still managed. A missing file of the store is an error: rsm does not start.
fn findings_of_access_files(config: &Config) -> Vec<ConfigFinding> {
    const NO_TLS: &str = "every TLS connection is refused";
    const NO_START: &str = "rsm does not start without it";
    const NOT_SENT: &str = "events wait on the disk";
    let (api, http, store) = (&config.api, &config.http, &config.store);
    let notify = &config.notify;
    let access = [
        (
            &api.roles_file,
            "roles_file",
            "only user 0 has rights at the socket",
        ),
        (&api.jwks_file, "jwks_file", "no bearer token counts"),
        (&api.tls_certificate, "tls_certificate", NO_TLS),
        (&api.tls_key, "tls_key", NO_TLS),
        (&api.tls_client_ca, "tls_client_ca", NO_TLS),
        (&api.tls_client_crl, "tls_client_crl", NO_TLS),
        (
            &http.ufm_tokens_file,
            "ufm_tokens_file",
            "no token of UFM's paths counts",
        ),
        (&notify.webhook_ca_file, "webhook_ca_file", NOT_SENT),
        (&notify.otlp_ca_file, "otlp_ca_file", NOT_SENT),
    ];
    let shared = [
        (&store.ca_file, "store.ca_file", NO_START),
        (&store.cert_file, "store.cert_file", NO_START),
        (&store.key_file, "store.key_file", NO_START),
        (&store.password_file, "store.password_file", NO_START),
    ];
    let is_shared = store.backend == StoreBackend::Etcd;
    let shared = shared.into_iter().filter(|_| is_shared);
    let access = access
        .into_iter()
        .map(|named| (named, ConfigSeverity::Warning));
    let named = access.chain(shared.map(|named| (named, ConfigSeverity::Error)));
    let unusable = named.filter_map(|((file, key, effect), severity)| {
        let file = file.as_ref()?;
        let expected = format!("{effect}: {key} names it");
        let finding = match read_text(file) {
            Ok(text) if !text.trim().is_empty() => return None,
            Ok(_) => empty(file, expected),
            Err(error) => unreadable_file(file, &error, &expected),
        };
        Some(ConfigFinding {
            severity,
            ..finding
        })
    });
    unusable.chain(findings_of_header_files(config)).collect()
}

/// Warnings about files of HTTP headers for receivers of events. If such a file is missing, events
/// wait, but the fabric is still managed.
fn findings_of_header_files(config: &Config) -> Vec<ConfigFinding> {
    let notify = &config.notify;
    let files = [
        (&notify.webhook_header_file, "webhook_header_file"),
        (&notify.otlp_header_file, "otlp_header_file"),
    ];
    let mut findings = Vec::new();
    for (file, key) in files {
        let Some(file) = file else { continue };
        let read = load_headers(file).map(|_| ((), Vec::new()));
        findings.extend(findings_of_file(file, key, read).1);
    }
    for finding in &mut findings {
        finding.severity = ConfigSeverity::Warning;
    }
    findings
}

/// A warning about an empty file.
fn empty(file: &Path, expected: String) -> ConfigFinding {
    ConfigFinding {
        file: file.to_owned(),
        line: 1,
        column: 1,
        severity: ConfigSeverity::Warning,
        found: "the file is empty".to_owned(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::schema::fields;
    use super::super::value::Kind;
    use super::super::{FileKind, check};
    use super::*;

    /// Keys that name a file or folder that rsm itself creates.
    const CREATED_BY_RSM: [(&str, &str); 4] = [
        ("api", "socket"),
        ("dump", "dir"),
        ("log", "file"),
        ("state", "dir"),
    ];

    /// The highest severity of findings about `file` if `section.key` names it; `None` without
    /// findings.
    fn severity(section: &str, key: &str, file: &Path) -> Option<ConfigSeverity> {
        let (mut config, _) = (Config::default(), ());
        config.qos.enabled = true;
        config.store.backend = StoreBackend::Etcd;
        let mut keys = fields().iter();
        let field = keys.find(|field| (field.section, field.key) == (section, key));
        let text = file.display().to_string();
        let given = super::super::value::Given::Text(&text);
        field.unwrap().set(&mut config, given).unwrap();
        let findings = with_files(&config, Vec::new()).into_iter();
        let about = findings.filter(|finding| finding.file == file);
        about.map(|finding| finding.severity).max()
    }

    /// Section and name of each key that names a file which must exist.
    fn named() -> Vec<(&'static str, &'static str)> {
        let paths = fields()
            .iter()
            .filter(|field| matches!(field.kind, Kind::Path));
        let names = paths.map(|field| (field.section, field.key));
        names
            .filter(|name| !CREATED_BY_RSM.contains(name))
            .collect()
    }

    #[test]
    fn every_named_file_is_reported_if_it_is_missing_unreadable_or_empty() {
        let dir = tempfile::tempdir().unwrap();
        let (missing, empty) = (dir.path().join("missing"), dir.path().join("empty"));
        let folder = dir.path().join("folder");
        fs::write(&empty, "").unwrap();
        fs::create_dir(&folder).unwrap();
        assert!(named().len() >= 25, "{:?}", named());
        // Node names only serve operators, and their file may be empty.
        let map = ("names", "file");
        let findings_of_access_files = ["roles_file", "jwks_file", "ufm_tokens_file"];
        for (section, key) in named() {
            let is_warning = (section, key) == map
                || findings_of_access_files.contains(&key)
                || key.starts_with("tls_")
                || section == "notify";
            let expected = match is_warning {
                true => ConfigSeverity::Warning,
                false => ConfigSeverity::Error,
            };
            for unreadable in [&missing, &folder] {
                let found = severity(section, key, unreadable);
                assert_eq!(found, Some(expected), "{section}.{key} {unreadable:?}");
            }
            let found = severity(section, key, &empty);
            let is_reported = found >= Some(ConfigSeverity::Warning);
            assert!(
                is_reported || (section, key) == map,
                "{section}.{key}: {found:?}"
            );
        }
    }

    #[test]
    fn empty_list_of_managers_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rsm.toml");
        for list in ["", ",", "0x0"] {
            fs::write(&file, format!("[sm]\nallowed_sm_guids = \"{list}\"\n")).unwrap();
            assert!(check(&file).unwrap().has_errors(), "{list}");
        }
    }

    #[test]
    fn opensm_conf_named_rsm_toml_is_one_error_that_suggests_migrate() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rsm.toml");
        fs::write(&file, "# site\nrouting_engine updn\nlmc 1\n").unwrap();
        let report = check(&file).unwrap();
        assert_eq!(report.kind, FileKind::Toml);
        assert_eq!(report.findings.len(), 1, "{report}");
        let said = report.findings[0].to_string();
        assert!(
            said.contains(":2:1: error: `routing_engine` is a key of OpenSM"),
            "{said}"
        );
        assert!(said.contains("rsm migrate --config"), "{said}");
        for toml in ["[lids]\nlmc = 1\n", "lmc = 1\n", ""] {
            fs::write(&file, toml).unwrap();
            let said = check(&file).unwrap().to_string();
            assert!(!said.contains("OpenSM"), "{said}");
        }
    }

    #[test]
    fn toml_keys_without_effect_cause_a_warning() {
        for (text, warned) in [
            (
                "[qos]\nhigh_limit = 3\nca_high_limit = 4\n",
                "high_limit and 1 more keys",
            ),
            ("[qos]\nenabled = true\nhigh_limit = 3\n", ""),
            (
                "[routing]\nengine = \"minhop\"\n",
                "minhop without fallback_engines",
            ),
            (
                "[routing]\nengine = \"minhop\"\nfallback_engines = \"updn\"\n",
                "",
            ),
        ] {
            let loaded = Config::parse(Path::new("rsm.toml"), text).unwrap();
            let said: Vec<_> = loaded.findings.iter().map(|f| f.found.as_str()).collect();
            match warned {
                "" => assert!(said.is_empty(), "{text}: {said:?}"),
                warned => assert!(
                    said.len() == 1 && said[0].contains(warned),
                    "{text}: {said:?}"
                ),
            }
        }
    }
}
