//! Settings of receivers.

use std::path::PathBuf;

use crate::filter::Filter;

/// Settings of all receivers; `None` for a receiver that is not configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Webhook.
    pub webhook: Option<ReceiverSettings>,
    /// Syslog daemon.
    pub syslog: Option<ReceiverSettings>,
    /// Collector of OpenTelemetry.
    pub otlp: Option<ReceiverSettings>,
}

/// Settings of one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverSettings {
    /// Address.
    pub target: Target,
    /// Filter of the events that the receiver gets.
    pub filter: Filter,
    /// Maximum size of the waiting events on the disk, in bytes.
    pub queue_bytes: u64,
}

/// Address of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Webhook.
    Webhook(HttpTarget),
    /// Syslog daemon.
    Syslog {
        /// Address.
        address: SyslogTarget,
        /// Number of the facility, 0 to 23.
        facility: u8,
    },
    /// Collector of OpenTelemetry.
    Otlp(HttpTarget),
}

/// Address of a syslog daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogTarget {
    /// Host and port of datagrams.
    Udp(String, u16),
    /// Host and port of a stream.
    Tcp(String, u16),
    /// Socket on this machine.
    Local(PathBuf),
}

/// An HTTP server.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpTarget {
    /// Whether the connection is TLS.
    pub tls: bool,
    /// Name or address, the latter without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path and query, which begin with a slash.
    pub path: String,
    /// Headers of each request and certificates of CAs, or the reason why their files cannot be
    /// used.
    pub access: Result<Access, String>,
}

/// Contents of the files that access to a server requires.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// Headers of each request, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// Certificates of CAs in PEM; `None` for the CAs that the system trusts.
    pub ca_pem: Option<Vec<u8>>,
}

impl HttpTarget {
    /// Host and port.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Formats without the path, which may be a secret.
impl std::fmt::Display for HttpTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

/// Formats without secrets.
impl std::fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Webhook(target) | Target::Otlp(target) => target.fmt(f),
            Target::Syslog { address, .. } => match address {
                SyslogTarget::Udp(host, port) => write!(f, "udp://{host}:{port}"),
                SyslogTarget::Tcp(host, port) => write!(f, "tcp://{host}:{port}"),
                SyslogTarget::Local(path) => write!(f, "unix:{}", path.display()),
            },
        }
    }
}
