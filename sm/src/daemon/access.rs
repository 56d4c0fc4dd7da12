//! Controls access to the API: the files of roles, certificates and keys of tokens, and the audit
//! log.
//!
//! A file that cannot be used leaves the rules in force unchanged, and causes a finding. No rules
//! are in force at the start: without a usable file of roles, only user 0 has rights at the socket;
//! without usable keys, no token is valid; without a usable certificate, every TLS connection is
//! refused. The daemon manages the fabric in any case.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use parking_lot::Mutex;
use rsm_api::access::audit::AuditFile;
use rsm_api::access::tls::{self, ServerTls, TlsFiles};
use rsm_api::access::{
    AccessPolicy, Anonymous, ApiTokens, AuditSink, Gate, MAX_API_TOKENS_BYTES, MAX_JWKS_BYTES,
    MAX_ROLES_BYTES, NoAudit, RateSettings, RoleTable, TokenSettings, TokenVerifier,
};
use rsm_config::{ApiConfig, HttpConfig};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use super::findings::{DaemonFindings, DaemonPart};

/// Time before the expiry of the server's certificate at which a finding appears.
const EXPIRES_SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// Time between two checks of the certificate's expiry.
const CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// Access to the API. Clones share one state.
#[derive(Clone)]
pub(super) struct Access {
    gate: Arc<Gate>,
    tls: Option<Arc<ServerTls>>,
    audit: Option<Arc<AuditFile>>,
    /// This manager's certificate for etcd; `None` if it has none.
    etcd_certificate: Option<PathBuf>,
    findings: DaemonFindings,
    state: Arc<Mutex<State>>,
}

/// Result of the last reading of the files.
#[derive(Default)]
struct State {
    roles: Option<RoleTable>,
    api_tokens: Option<ApiTokens>,
    /// Text of the key set in force; `None` without one.
    key_set: Option<String>,
    /// Expiry of the certificate in force, in seconds since the Unix epoch.
    certificate_expiry: Option<i64>,
    /// Texts of the findings about files that cannot be used.
    faults: Vec<String>,
}

impl Access {
    /// Reads the files that the configuration names. Writes the audit log in `state_dir`, if
    /// present.
    ///
    /// # Errors
    /// The thread of the audit log cannot be started.
    pub(super) fn start(
        (api, http): (&ApiConfig, &HttpConfig),
        state_dir: Option<&Path>,
        findings: DaemonFindings,
    ) -> anyhow::Result<Access> {
        let audit = state_dir.map(|dir| audit(dir, api, findings.clone()));
        let audit = audit.transpose()?.map(Arc::new);
        let sink: Arc<dyn AuditSink> = match &audit {
            Some(audit) => audit.clone(),
            None => Arc::new(NoAudit),
        };
        let files = api.tls_certificate.clone().zip(api.tls_key.clone());
        let tls = files.map(|(certificate, key)| {
            Arc::new(ServerTls::new(TlsFiles {
                certificate,
                key,
                client_ca: api.tls_client_ca.clone(),
                client_crl: api.tls_client_crl.clone(),
            }))
        });
        let access = Access {
            gate: Arc::new(Gate::new(AccessPolicy::without_files(anonymous(api)), sink)),
            tls,
            audit,
            etcd_certificate: None,
            findings,
            state: Arc::default(),
        };
        access.reload(api, http);
        Ok(access)
    }

    /// Also reports a certificate for etcd that expires soon.
    #[must_use]
    pub(super) fn presenting_to_etcd(self, certificate: Option<PathBuf>) -> Access {
        let access = Access {
            etcd_certificate: certificate,
            ..self
        };
        access.report();
        access
    }

    /// Gate that checks every call.
    pub(super) fn gate(&self) -> Arc<Gate> {
        self.gate.clone()
    }

    /// Expiry of the API's certificate, in seconds since the Unix epoch; `None` without a usable
    /// certificate.
    pub(super) fn certificate_expiry(&self) -> Option<i64> {
        self.state.lock().certificate_expiry
    }

    /// Expiry of this manager's certificate for etcd, in seconds since the Unix epoch, or the reason
    /// why the file cannot be used; `None` without such a file. Each connection to etcd reads the
    /// file again.
    pub(super) fn etcd_certificate_expiry(&self) -> Option<Result<i64, String>> {
        let read = tls::read_certificate(self.etcd_certificate.as_deref()?);
        Some(
            read.map(|read| read.not_after)
                .map_err(|error| error.to_string()),
        )
    }

    /// TLS of the TCP address; `None` if the address has no TLS.
    pub(super) fn tls(&self) -> Option<Arc<ServerTls>> {
        self.tls.clone()
    }

    /// Reads all files again. If a file cannot be used, its earlier content stays in force.
    pub(super) fn reload(&self, api: &ApiConfig, http: &HttpConfig) {
        let mut state = self.state.lock();
        state.faults.clear();
        let socket_default = self.read_roles(api, &mut state);
        let tokens = read_keys(api, &mut state);
        read_api_tokens(http, &mut state);
        self.gate.replace(AccessPolicy {
            roles: state.roles.clone().unwrap_or_default(),
            socket_default,
            tokens,
            api_tokens: state.api_tokens.clone().unwrap_or_default(),
            anonymous: anonymous(api),
            rates: RateSettings {
                reads_per_s: api.reads_per_s,
                changes_per_s: api.changes_per_s,
                reports_per_s: api.reports_per_s,
            },
        });
        match self.tls.as_ref().map(|tls| tls.reload()) {
            Some(Ok(certificate)) => state.certificate_expiry = Some(certificate.not_after),
            Some(Err(error)) => {
                let effect = match state.certificate_expiry {
                    Some(_) => "the earlier certificate and key stay in force",
                    None => "every connection there is refused",
                };
                state.faults.push(format!(
                    "TLS at {} cannot use the file {error}: {effect}; repair the file and send SIGHUP",
                    listen(api),
                ));
            }
            None => {}
        }
        drop(state);
        self.report();
    }

    /// Reads the file of roles. Returns whether a process that the file does not list has rights at
    /// the socket.
    fn read_roles(&self, api: &ApiConfig, state: &mut State) -> bool {
        let Some(path) = &api.roles_file else {
            state.roles = None;
            return true;
        };
        let read = read_text(path, MAX_ROLES_BYTES)
            .and_then(|text| RoleTable::parse(&text).map_err(|error| error.to_string()));
        match read {
            Ok(roles) => state.roles = Some(roles),
            Err(reason) => {
                let effect = match state.roles {
                    Some(_) => "the earlier roles stay in force",
                    None => "only user 0 has rights at the socket",
                };
                state.faults.push(format!(
                    "the file of roles {} cannot be used ({reason}): {effect}; repair the file and send SIGHUP",
                    path.display(),
                ));
            }
        }
        state.roles.is_some()
    }

    /// Reports all faults, and certificates that expire soon.
    fn report(&self) {
        let state = self.state.lock();
        let faults = state
            .faults
            .iter()
            .map(|text| (Severity::Warning, text.clone()));
        let ends = state
            .certificate_expiry
            .and_then(|ends| expiry_fault(&OF_API, ends, unix_s()));
        let of_etcd = self.etcd_certificate_expiry();
        let of_etcd = of_etcd.and_then(|ends| match ends {
            Ok(ends) => expiry_fault(&FOR_ETCD, ends, unix_s()),
            Err(reason) => Some((Severity::Warning, etcd_certificate_unusable(&reason))),
        });
        let findings = faults.chain(ends).chain(of_etcd).map(|(severity, text)| {
            Finding::new(FindingKind::AccessFile, Subject::Subnet, severity, text)
        });
        self.findings.report(DaemonPart::Access, findings.collect());
    }

    /// Checks the expiry of certificates periodically; never returns.
    pub(super) async fn watch_certificates(self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            self.report();
        }
    }

    /// Writes the waiting audit entries.
    pub(super) fn finish(&self) {
        if let Some(audit) = &self.audit {
            audit.finish();
        }
    }
}

/// Starts the audit log in `dir`.
fn audit(dir: &Path, api: &ApiConfig, findings: DaemonFindings) -> anyhow::Result<AuditFile> {
    let health = move |fault: Option<String>| match fault {
        Some(text) => findings.fail(DaemonPart::Audit, text),
        None => findings.clear(DaemonPart::Audit),
    };
    let max_bytes = u64::from(api.audit_max_mb) << 20;
    AuditFile::start(dir, max_bytes, Box::new(health))
        .context("cannot start the thread of the audit log")
}

/// Reads the keys of tokens. If the file cannot be used, the earlier keys stay in force; `None` if
/// there are none.
fn read_keys(api: &ApiConfig, state: &mut State) -> Option<TokenVerifier> {
    let Some(path) = &api.jwks_file else {
        state.key_set = None;
        return None;
    };
    let parse = |text: &str| {
        let settings = TokenSettings {
            issuer: api.jwt_issuer.clone(),
            audience: api.jwt_audience.clone(),
            roles_claim: api.jwt_roles_claim.clone(),
        };
        TokenVerifier::parse(text, settings).map_err(|error| error.to_string())
    };
    let text = read_text(path, MAX_JWKS_BYTES);
    match text.and_then(|text| Ok((parse(&text)?, text))) {
        Ok((verifier, text)) => {
            state.key_set = Some(text);
            Some(verifier)
        }
        Err(reason) => {
            let before = state.key_set.as_deref().and_then(|text| parse(text).ok());
            state.faults.push(format!(
                "the keys of tokens {} cannot be used ({reason}): {}; repair the file and send SIGHUP",
                path.display(),
                match before {
                    Some(_) => "the earlier keys stay in force",
                    None => "every token is refused",
                }
            ));
            before
        }
    }
}

/// Reads the tokens of the REST interface. Without usable tokens, the earlier tokens stay in force.
fn read_api_tokens(http: &HttpConfig, state: &mut State) {
    let Some(path) = http.ufm_tokens_file.as_ref().filter(|_| http.ufm) else {
        state.api_tokens = None;
        return;
    };
    let read = read_text(path, MAX_API_TOKENS_BYTES)
        .and_then(|text| ApiTokens::parse(&text).map_err(|error| error.to_string()));
    match read {
        Ok(tokens) => state.api_tokens = Some(tokens),
        Err(reason) => {
            let effect = match state.api_tokens {
                Some(_) => "the earlier tokens stay in force",
                None => "none of them counts",
            };
            state.faults.push(format!(
                "the file of tokens {} cannot be used ({reason}): {effect}; repair the file and send SIGHUP",
                path.display(),
            ));
        }
    }
}

/// Rights of callers without a certificate or token at the TCP address.
fn anonymous(api: &ApiConfig) -> Anonymous {
    match (api.insecure_admin, api.anonymous_reading) {
        (true, _) => Anonymous::Everything,
        (false, true) => Anonymous::Reading,
        (false, false) => Anonymous::Nothing,
    }
}

/// TCP address of the API, for texts.
fn listen(api: &ApiConfig) -> String {
    let address = api.listen.map(|address| address.to_string());
    address.unwrap_or_else(|| "no address".to_owned())
}

/// Reads a text file. Fails if the file is longer than `max_bytes`.
fn read_text(path: &Path, max_bytes: usize) -> Result<String, String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(max_bytes as u64 + 1).read_to_string(&mut text))
        .map_err(|error| error.to_string())?;
    if text.len() > max_bytes {
        return Err(format!("it is longer than {max_bytes} bytes"));
    }
    Ok(text)
}

/// Current time, in seconds since the Unix epoch.
fn unix_s() -> i64 {
    let since = UNIX_EPOCH.elapsed();
    i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

/// Texts about a certificate that expires.
struct Expiring {
    /// The certificate.
    name: &'static str,
    /// Effect of the expiry.
    effect: &'static str,
    /// Work of the operator.
    remedy: &'static str,
}

/// The certificate of the API.
const OF_API: Expiring = Expiring {
    name: "the certificate of the API",
    effect: "clients that check it connect no more",
    remedy: "renew it and send SIGHUP",
};

/// This manager's certificate for etcd.
const FOR_ETCD: Expiring = Expiring {
    name: "the certificate for etcd (store.cert_file)",
    effect: "etcd accepts no new connection, and a takeover is one without the shared store",
    remedy: "renew it",
};

/// Text of the finding about a certificate for etcd that cannot be read.
fn etcd_certificate_unusable(reason: &str) -> String {
    format!(
        "the certificate for etcd (store.cert_file) cannot be used ({reason}): connections to etcd use the earlier \
         one, which a restart forgets; repair the file"
    )
}

/// Severity and text of the fault if the certificate expires soon. `ends` and `now` are in seconds
/// since the Unix epoch.
fn expiry_fault(certificate: &Expiring, ends: i64, now: i64) -> Option<(Severity, String)> {
    let Expiring {
        name,
        effect,
        remedy,
    } = certificate;
    let left = ends.saturating_sub(now);
    let soon = i64::try_from(EXPIRES_SOON.as_secs()).unwrap_or(i64::MAX);
    let days = left / (24 * 3600);
    match left {
        ..=0 => Some((
            Severity::Error,
            format!("{name} has expired: {effect}; {remedy}"),
        )),
        left if left <= soon => Some((
            Severity::Warning,
            format!("{name} ends in {days} days: {effect} then; {remedy}"),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(findings: &DaemonFindings) -> Vec<String> {
        let all = findings.all().into_iter();
        all.map(|finding| finding.text).collect()
    }

    #[test]
    fn unusable_roles_leave_earlier_ones_in_force_and_are_a_finding() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("roles");
        let api = ApiConfig {
            roles_file: Some(file.clone()),
            ..ApiConfig::default()
        };
        let findings = DaemonFindings::new();
        let access = Access::start((&api, &HttpConfig::default()), None, findings.clone()).unwrap();
        assert!(
            texts(&findings)[0].contains("only user 0"),
            "{:?}",
            texts(&findings)
        );
        let peer = |uid| rsm_api::access::Peer::Unix {
            uid,
            gids: Some(Arc::from([])),
            pid: 0,
        };
        let grant = |uid| {
            access
                .gate
                .identify(&peer(uid), None)
                .unwrap()
                .grant
                .to_string()
        };
        assert_eq!(grant(7), "no role");
        assert_eq!(grant(0), "read report operate tenant admin secrets");
        std::fs::write(&file, "uid 7 operate\n").unwrap();
        access.reload(&api, &HttpConfig::default());
        assert_eq!((grant(7).as_str(), texts(&findings).len()), ("operate", 0));
        std::fs::write(&file, "uid 7 oper").unwrap();
        access.reload(&api, &HttpConfig::default());
        assert_eq!(grant(7), "operate");
        let text = texts(&findings).concat();
        assert!(
            text.contains("line 1") && text.contains("the earlier roles"),
            "{text}"
        );
        access.reload(&ApiConfig::default(), &HttpConfig::default());
        assert_eq!(
            (grant(7).as_str(), texts(&findings).len()),
            ("read operate admin", 0)
        );
    }

    #[test]
    fn certificate_that_ends_soon_or_has_ended_is_a_finding() {
        let day = 24 * 3600;
        assert_eq!(expiry_fault(&OF_API, 30 * day, 0), None);
        let (severity, text) = expiry_fault(&OF_API, 3 * day, 0).unwrap();
        assert_eq!(severity, Severity::Warning);
        assert!(text.contains("in 3 days"), "{text}");
        assert_eq!(expiry_fault(&OF_API, 5, 5).unwrap().0, Severity::Error);
    }

    #[test]
    fn certificate_for_etcd_is_a_finding_if_it_ends_soon_or_cannot_be_read() {
        let (severity, text) = expiry_fault(&FOR_ETCD, 3 * 24 * 3600, 0).unwrap();
        assert_eq!(severity, Severity::Warning);
        assert!(text.contains("store.cert_file") && text.contains("in 3 days"));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("etcd.pem");
        std::fs::write(&file, "half").unwrap();
        let findings = DaemonFindings::new();
        let settings = (&ApiConfig::default(), &HttpConfig::default());
        let access = Access::start(settings, None, findings.clone()).unwrap();
        assert_eq!(texts(&findings), [""; 0]);
        let _access = access.presenting_to_etcd(Some(file));
        let text = texts(&findings).concat();
        assert!(text.contains("store.cert_file") && text.contains("cannot be used"));
    }
}
