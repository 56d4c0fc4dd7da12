//! Parser of the TOML form, which reports all errors at once.
//!
//! serde is not used, because its deserialiser stops at the first error.

use std::path::Path;

use rsm_routing::engine::EngineKind;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::finding::{ConfigFinding, ConfigSeverity, Findings};
use super::known_key::OPENS_NOTHING;
use super::schema::{ConfigKey, SECTIONS, field, fields};
use super::suggest::one_of;
use super::value::Given;
use super::{Config, HostileHosts, MKeyMode, StoreBackend, opensm};

/// Parses `text`. The configuration is usable only if no finding is an error.
pub(super) fn parse(file: &Path, text: &str) -> (Config, Vec<ConfigFinding>) {
    if let Some(finding) = opensm_in_toml(file, text) {
        return (Config::default(), vec![finding]);
    }
    let mut reader = Reader {
        text,
        findings: Findings::new(file, text),
        config: Config::default(),
        places: Vec::new(),
    };
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let offset = error.span().map_or(0, |span| span.start);
        reader.error(offset, error.message(), "expected TOML");
    }
    reader.document(document.get_ref());
    reader.check_combinations();
    (reader.config, reader.findings.finish())
}

/// The error about an `opensm.conf` in place of a TOML file, because errors of the TOML parser
/// would not help the operator.
fn opensm_in_toml(file: &Path, text: &str) -> Option<ConfigFinding> {
    let mut lines = (1..).zip(text.lines().map(str::trim));
    let (line, first) = lines.find(|(_, line)| !line.is_empty() && !line.starts_with('#'))?;
    let key = opensm::key_of(first)?;
    let shown = file.display();
    Some(ConfigFinding {
        file: file.to_owned(),
        line,
        column: 1,
        severity: ConfigSeverity::Error,
        found: format!("`{key}` is a key of OpenSM: this is an opensm.conf, not TOML"),
        expected: format!(
            "rename it to opensm.conf, so that `rsm --config` reads it as one, or make an rsm.toml of it with \
             `rsm migrate --config {shown} --output rsm.toml`"
        ),
    })
}

/// A file while it is parsed.
struct Reader<'a> {
    text: &'a str,
    findings: Findings,
    config: Config,
    /// Byte offset of each key that the file sets, as (section, key, offset).
    places: Vec<(&'static str, &'static str, usize)>,
}

impl Reader<'_> {
    /// Adds an error at a byte offset.
    fn error(&mut self, offset: usize, found: impl Into<String>, expected: impl Into<String>) {
        self.findings
            .at(self.text, offset, ConfigSeverity::Error, found, expected);
    }

    /// Reads all sections.
    fn document(&mut self, document: &DeTable<'_>) {
        for (name, value) in document {
            let offset = name.span().start;
            let name = name.get_ref();
            let known = SECTIONS.iter().find(|(section, _)| section == name);
            match (known, value.get_ref()) {
                (Some((section, _)), DeValue::Table(table)) => self.section(section, table),
                (Some((section, _)), other) => self.error(
                    offset,
                    format!("`{section}` is {}", article(other.type_str())),
                    format!("expected a section, [{section}]"),
                ),
                (None, _) => {
                    let sections: Vec<_> = SECTIONS.iter().map(|(name, _)| *name).collect();
                    let expected = one_of(name, &sections);
                    self.error(offset, format!("unknown section `{name}`"), expected);
                }
            }
        }
    }

    /// Reads the keys of a section.
    fn section(&mut self, section: &'static str, table: &DeTable<'_>) {
        for (key, value) in table {
            let offset = key.span().start;
            let key = key.get_ref();
            match field(section, key) {
                Some(field) => self.value(field, value),
                None => {
                    let keys: Vec<_> = fields()
                        .iter()
                        .filter(|f| f.section == section)
                        .map(|f| f.key)
                        .collect();
                    let found = format!("unknown key `{key}` in [{section}]");
                    self.error(offset, found, one_of(key, &keys));
                }
            }
        }
    }

    /// Sets a key. An invalid value is an error and changes nothing.
    fn value(&mut self, field: &'static ConfigKey, value: &Spanned<DeValue<'_>>) {
        let span = value.span();
        let given = match value.get_ref() {
            DeValue::Integer(n) => {
                u64::from_str_radix(n.as_str(), n.radix()).map_or(Given::Other, Given::Number)
            }
            DeValue::String(text) => Given::Text(text),
            DeValue::Boolean(flag) => Given::Flag(*flag),
            _ => Given::Other,
        };
        match field.set(&mut self.config, given) {
            Ok(()) => self.places.push((field.section, field.key, span.start)),
            Err(_) => {
                let written = self.text.get(span.clone()).unwrap_or("");
                // A table or a multi-line string would hide the message.
                let shown = written.lines().next().unwrap_or("");
                let found = match field.key.ends_with("_key") {
                    // Findings are logged, and keys are secret.
                    true => format!("{} is something else", field.key),
                    false => format!("{} is {shown}", field.key),
                };
                self.error(span.start, found, format!("expected {}", field.expected()));
            }
        }
    }

    /// Checks combinations of keys.
    fn check_combinations(&mut self) {
        let sweep = &self.config.sweep;
        let (floor, initial, ceiling) = (
            sweep.timeout_floor_ms,
            sweep.timeout_initial_ms,
            sweep.timeout_ceiling_ms,
        );
        if floor > initial || initial > ceiling {
            let keys = [
                "timeout_ceiling_ms",
                "timeout_initial_ms",
                "timeout_floor_ms",
            ];
            let found = format!("timeouts of {floor} ms, at first {initial} ms, to {ceiling} ms");
            let expected = "expected timeout_floor_ms <= timeout_initial_ms <= timeout_ceiling_ms";
            let offset = self.place("sweep", &keys);
            self.error(offset, found, expected);
        }
        let sm = &self.config.sm;
        let has_keys = sm.m_key != 0 || sm.m_keys == MKeyMode::PerPort;
        if !has_keys && (sm.m_key_protection_level != 0 || sm.m_key_lease_period_s != 0) {
            let keys = ["m_key_protection_level", "m_key_lease_period_s"];
            let offset = self.place("sm", &keys);
            let found = "M_Key protection without an m_key";
            self.warning(offset, found, "a port without a key protects nothing");
        }
        self.check_qos();
        self.check_engine();
        if self.config.lids.reassign {
            let offset = self.place("lids", &["reassign"]);
            let expected = "every port gets a new LID at each start with this key, and hosts lose all connections: take it out after \
                            that start";
            self.warning(offset, "all LIDs are given anew", expected);
        }
        self.check_m_keys();
        self.check_sa_key();
        self.check_tls();
        self.check_http();
        self.check_store();
        let api = self.config.api.clone();
        if api.insecure_admin && api.listen.is_none() {
            let offset = self.place("api", &["insecure_admin"]);
            let found = "insecure_admin without listen";
            self.warning(
                offset,
                found,
                "it says what listen serves, and does nothing",
            );
        }
        if api.insecure_admin
            && api
                .listen
                .is_some_and(|address| !address.ip().is_loopback())
        {
            let offset = self.place("api", &["insecure_admin"]);
            let found = "insecure_admin on an address that others can reach";
            self.warning(offset, found, "anybody there can change the subnet");
        }
    }

    /// Warns that the tables of section qos have no effect while the section is off.
    fn check_qos(&mut self) {
        /// Keys of the section that have an effect even while it is off.
        const OTHERS: [&str; 3] = ["enabled", "optimized_sl2vl", "rate_limits_file"];
        let mut idle = self.places.iter().filter(|(section, key, _)| {
            *section == "qos" && !OTHERS.contains(key) && !self.config.qos.enabled
        });
        if let Some(&(_, key, offset)) = idle.next() {
            let others = match idle.count() {
                0 => String::new(),
                more => format!(" and {more} more keys"),
            };
            let found = format!("{key}{others} of [qos] without enabled");
            let expected = "they have no effect: set enabled = true, or delete them";
            self.warning(offset, &found, expected);
        }
    }

    /// Warns of the engine minhop without a fallback engine, because minhop is not free of
    /// deadlocks on every fabric.
    fn check_engine(&mut self) {
        let routing = &self.config.routing;
        if routing.engine == EngineKind::MinHop && routing.fallback_engines.is_empty() {
            let offset = self.place("routing", &["engine"]);
            self.warning(
                offset,
                "minhop without fallback_engines",
                opensm::LONE_MINHOP,
            );
        }
    }

    /// Checks that keys per port have a secret, that the isolation of hostile hosts has keys per
    /// port, and that the file of cables has a table of keys.
    fn check_m_keys(&mut self) {
        let sm = &self.config.sm;
        let lacks_secret = sm.m_keys == MKeyMode::PerPort && sm.m_key_secret_file.is_none();
        let lacks_table = sm.m_key_neighbors_file.is_some() && sm.m_key_table_file.is_none();
        let isolates_without_keys = sm.m_keys != MKeyMode::PerPort
            && self.config.health.hostile_hosts == HostileHosts::Isolate;
        if lacks_secret {
            let offset = self.place("sm", &["m_keys"]);
            let expected = "expected m_key_secret_file as well";
            self.error(offset, "M_Keys per port without a secret", expected);
        }
        if isolates_without_keys {
            let offset = self.place("health", &["hostile_hosts"]);
            let expected = "expected m_keys = \"per-port\" in section [sm]: without it a host takes the LID of another one, \
                            which is then isolated";
            self.error(
                offset,
                "hostile_hosts = \"isolate\" without M_Keys per port",
                expected,
            );
        }
        if lacks_table {
            let offset = self.place("sm", &["m_key_neighbors_file"]);
            let expected = "without m_key_table_file there is no key to find by it";
            self.warning(offset, "cables without a table of M_Keys", expected);
        }
    }

    /// Checks that the SA has only one key, which is not publicly known.
    fn check_sa_key(&mut self) {
        let sm = &self.config.sm;
        let known = sm.known_sa_key();
        let is_twice = sm.sa_key.is_some() && sm.sa_key_file.is_some();
        let offset = self.place("sm", &["sa_key"]);
        if is_twice {
            let expected = "the key of the file counts: delete sa_key";
            self.warning(offset, "sa_key beside sa_key_file", expected);
        } else if let Some(found) = known {
            self.warning(offset, found, OPENS_NOTHING);
        }
    }

    /// Checks that the HTTP listener has the TLS files of section api, that other hosts reach it
    /// only through proxies that name users, and that tokens are sent only encrypted.
    fn check_http(&mut self) {
        let (http, api) = (self.config.http.clone(), self.config.api.clone());
        if http.tls && (api.tls_certificate.is_none() || api.tls_key.is_none()) {
            let offset = self.place("http", &["tls"]);
            let expected = "expected tls_certificate and tls_key in section [api] as well";
            self.error(offset, "tls without a certificate", expected);
        }
        if http.ufm && http.listen.is_none() {
            let offset = self.place("http", &["ufm"]);
            let expected = "it says what listen serves, and does nothing";
            self.warning(offset, "ufm without listen", expected);
        }
        let is_open = http
            .listen
            .is_some_and(|address| !address.ip().is_loopback());
        if is_open && http.proxies.is_empty() {
            // The page has no users: TLS only encrypts it.
            let offset = self.place("http", &["listen"]);
            let found = "listen at an address that others can reach";
            let expected = "any client there reads all nodes, routes, partitions and GPU hosts: name a proxy that asks for \
                            users (proxies), or listen at 127.0.0.1 or in a network of management hosts alone";
            self.warning(offset, found, expected);
        }
        if !http.proxies.is_empty() && self.config.api.roles_file.is_none() {
            let offset = self.place("http", &["proxies"]);
            let found = "proxies without roles_file in section [api]";
            let expected = "no user has a role, and the page shows nothing: name a file with lines `user NAME read`";
            self.warning(offset, found, expected);
        }
        if http.ufm && is_open && !http.tls {
            let offset = self.place("http", &["ufm"]);
            let found = "ufm without TLS on an address that others can reach";
            let expected = "tokens that come there over the network are refused: set tls = true";
            self.warning(offset, found, expected);
        }
    }

    /// Checks that TLS has both its files, and that client certificates are only used with TLS.
    fn check_tls(&mut self) {
        let api = &self.config.api;
        let (certificate, key) = (api.tls_certificate.is_some(), api.tls_key.is_some());
        let has_client_ca = api.tls_client_ca.is_some();
        if certificate != key {
            let keys = ["tls_certificate", "tls_key"];
            let offset = self.place("api", &keys);
            let found = "one of tls_certificate and tls_key without the other".to_owned();
            self.error(offset, found, "expected both, or neither");
        } else if has_client_ca && !certificate {
            let offset = self.place("api", &["tls_client_ca"]);
            let found = "tls_client_ca without tls_certificate and tls_key".to_owned();
            self.error(offset, found, "expected all three, or none");
        } else if api.tls_client_crl.is_some() && !has_client_ca {
            let offset = self.place("api", &["tls_client_crl"]);
            let found = "tls_client_crl without tls_client_ca".to_owned();
            self.error(offset, found, "expected the CAs of these lists as well");
        }
    }

    /// Checks that etcd has addresses, and that a user has a password.
    fn check_store(&mut self) {
        let store = self.config.store.clone();
        if store.backend == StoreBackend::Etcd && store.endpoints.is_empty() {
            let offset = self.place("store", &["backend"]);
            let found = "backend \"etcd\" without endpoints".to_owned();
            self.error(offset, found, "expected the addresses of etcd's members");
        }
        if !store.user.is_empty() && store.password_file.is_none() {
            let offset = self.place("store", &["user"]);
            let found = "user without password_file".to_owned();
            self.error(offset, found, "expected the file of its password");
        }
        if store.user.is_empty() && store.password_file.is_some() {
            let offset = self.place("store", &["password_file"]);
            self.warning(offset, "password_file without user", "it does nothing");
        }
        if store.cert_file.is_some() != store.key_file.is_some() {
            let offset = self.place("store", &["cert_file", "key_file"]);
            let found = "one of cert_file and key_file without the other".to_owned();
            self.error(offset, found, "expected both, or neither");
        }
        if store.backend == StoreBackend::Sled && !store.endpoints.is_empty() {
            let offset = self.place("store", &["endpoints"]);
            let found = "endpoints without backend = \"etcd\"";
            self.warning(offset, found, "they do nothing");
        }
    }

    /// Adds a warning at a byte offset.
    fn warning(&mut self, offset: usize, found: &str, expected: &str) {
        self.findings
            .at(self.text, offset, ConfigSeverity::Warning, found, expected);
    }

    /// Byte offset of the first of `keys` that the file sets; 0 if it sets none.
    fn place(&self, section: &str, keys: &[&str]) -> usize {
        let of = |key: &&str| {
            let found = self
                .places
                .iter()
                .find(|(s, k, _)| *s == section && k == key);
            found.map(|(_, _, offset)| *offset)
        };
        keys.iter().find_map(of).unwrap_or(0)
    }
}

/// The name of a kind of value, with its article.
fn article(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}
