//! Sends events to receivers outside the fabric, as section `notify` of the configuration states.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::Mutex;
use rsm_api::v1;
use rsm_config::{Config, EventKinds, HttpUrl, SyslogAddress, load_headers};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_notify::filter::{Filter, SendingRole};
use rsm_notify::settings::{Access, HttpTarget, ReceiverSettings, Settings, SyslogTarget, Target};
use rsm_notify::source::Source;
use rsm_notify::{Notifier, ReceiverFault, Report};
use rsm_state::Role;
use rsm_view::publish::EventOutlet;

use super::findings::{DaemonFindings, DaemonPart};

/// Sender of events to all receivers. Clones share the receivers.
#[derive(Clone)]
pub(super) struct Notify {
    notifier: Arc<Notifier>,
}

impl Notify {
    /// Starts the threads of the configured receivers. `state_dir` holds their queues; `None` keeps
    /// events in memory. `started_unix_ms` is the start of this run, and `fabric` is the value of
    /// `--fabric`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(
        config: &Config,
        state_dir: Option<&Path>,
        fabric: String,
        started_unix_ms: u64,
        findings: DaemonFindings,
    ) -> anyhow::Result<Notify> {
        let source = Source {
            host: super::http::names().pop().unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            fabric,
            run: started_unix_ms,
        };
        let notifier = Notifier::new(state_dir, source, report(findings));
        let configured = notifier.configure(settings(config));
        configured.context("cannot start a thread that sends events")?;
        Ok(Notify {
            notifier: Arc::new(notifier),
        })
    }

    /// Applies the configuration, and reads the files that it names.
    pub(super) fn configure(&self, config: &Config) {
        if let Err(error) = self.notifier.configure(settings(config)) {
            tracing::error!(%error, "a thread that sends events cannot be started: send SIGHUP again");
        }
    }

    /// Sends an event of this machine that is not part of a snapshot.
    pub(super) fn put(&self, event: Arc<v1::Event>) {
        self.notifier.put(&[event], SendingRole::Undecided);
    }

    /// Writes waiting events to the disk, and ends the threads.
    pub(super) fn stop(&self) {
        self.notifier.stop();
    }
}

impl EventOutlet for Notify {
    fn put(&self, events: &[Arc<v1::Event>], role: &Role) {
        let sending_role = match role {
            Role::Discovering => SendingRole::Undecided,
            Role::Master => SendingRole::Master,
            Role::Standby { .. } | Role::NotActive => SendingRole::Other,
        };
        self.notifier.put(events, sending_role);
    }

    fn receivers(&self) -> Vec<v1::EventReceiver> {
        self.notifier.receivers()
    }
}

/// Function with which receivers report their faults, by kind of receiver. The function publishes
/// the faults of all receivers as findings.
fn report(findings: DaemonFindings) -> Report {
    let all: Mutex<BTreeMap<&'static str, Vec<ReceiverFault>>> = Mutex::default();
    Arc::new(move |kind, faults| {
        let mut all = all.lock();
        all.insert(kind, faults);
        let findings_of_all = all.values().flatten().map(|fault| {
            let (kind, text) = match fault {
                ReceiverFault::Undelivered(text) => (FindingKind::EventsUndelivered, text),
                ReceiverFault::Disk(text) => (FindingKind::Storage, text),
            };
            Finding::new(kind, Subject::Subnet, Severity::Warning, text.clone())
        });
        findings.report(DaemonPart::Notify, findings_of_all.collect());
    })
}

/// Settings of the receivers. Reads the files that `config` names; an unusable file disables only
/// its own receiver.
fn settings(config: &Config) -> Settings {
    let notify = &config.notify;
    let receiver = |target: Target, severity: Severity, kinds: &EventKinds| ReceiverSettings {
        target,
        filter: filter(severity, kinds),
        queue_bytes: u64::from(notify.queue_max_mb) << 20,
    };
    Settings {
        webhook: notify.webhook_url.as_ref().map(|url| {
            let access = access(&notify.webhook_header_file, &notify.webhook_ca_file);
            let target = Target::Webhook(http_target(url, access));
            receiver(target, notify.webhook_min_severity, &notify.webhook_kinds)
        }),
        syslog: notify.syslog.as_ref().map(|address| {
            let target = Target::Syslog {
                address: syslog_target(address),
                facility: notify.syslog_facility.code(),
            };
            receiver(target, notify.syslog_min_severity, &notify.syslog_kinds)
        }),
        otlp: notify.otlp_endpoint.as_ref().map(|url| {
            let access = match url.path.as_str() {
                "/" => access(&notify.otlp_header_file, &notify.otlp_ca_file),
                _ => Err(
                    "otlp_endpoint has a path, and gRPC takes only scheme, host and port: remove the path"
                        .to_owned(),
                ),
            };
            let target = Target::Otlp(http_target(url, access));
            receiver(target, notify.otlp_min_severity, &notify.otlp_kinds)
        }),
    }
}

/// Filter that passes events of at least this severity, and of these kinds.
fn filter(severity: Severity, kinds: &EventKinds) -> Filter {
    use rsm_notify::described::Severity as Shown;
    let mut passed = EventKinds::ALL.to_vec();
    passed.retain(|kind| kinds.contains(kind));
    Filter {
        min_severity: match severity {
            Severity::Info => Shown::Info,
            Severity::Warning => Shown::Warning,
            Severity::Error => Shown::Error,
        },
        kinds: passed,
    }
}

/// Target at a URL.
fn http_target(url: &HttpUrl, access: Result<Access, String>) -> HttpTarget {
    HttpTarget {
        tls: url.tls,
        host: url.host.clone(),
        port: url.port,
        path: url.path.clone(),
        access,
    }
}

/// Address of a syslog daemon, as its receiver expects it.
fn syslog_target(address: &SyslogAddress) -> SyslogTarget {
    match address {
        SyslogAddress::Udp(host, port) => SyslogTarget::Udp(host.clone(), *port),
        SyslogAddress::Tcp(host, port) => SyslogTarget::Tcp(host.clone(), *port),
        SyslogAddress::Local(path) => SyslogTarget::Local(path.clone()),
    }
}

/// Contents of the files of headers and of CAs, or the reason why one of them is unusable.
fn access(headers: &Option<PathBuf>, ca: &Option<PathBuf>) -> Result<Access, String> {
    let headers = match headers {
        Some(file) => load_headers(file).map_err(|error| error.to_string())?,
        None => Vec::new(),
    };
    let ca_pem = match ca {
        Some(file) => {
            let read = std::fs::read(file);
            Some(read.map_err(|error| format!("cannot read {}: {error}", file.display()))?)
        }
        None => None,
    };
    Ok(Access { headers, ca_pem })
}
