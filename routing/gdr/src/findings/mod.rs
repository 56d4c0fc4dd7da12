//! Faults of hosts and cables, with evidence and advice.

mod kind;

use std::fmt;

pub use kind::GpuFindingKind;
use serde::Serialize;

/// The severity of a finding, about GPU hosts or about the subnet, from the mildest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The finding is information; nothing is impaired.
    #[default]
    Info,
    /// Something is impaired, or will be.
    Warning,
    /// A part does not work.
    Error,
}

impl Severity {
    /// All severities.
    pub const ALL: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Error];

    /// The severity in lower case, as in reports, messages and the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A port of a host in display form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortName {
    /// The name of the host.
    pub host: String,
    /// The device name, with the port number unless it is 1.
    pub device: String,
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.host, self.device)
    }
}

/// A fault of one or several hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuFinding {
    /// The kind of fault.
    pub kind: GpuFindingKind,
    /// The host; of several hosts, the first.
    pub host: String,
    /// The other hosts with the same fault, sorted by name.
    pub also: Vec<String>,
    /// The GPUs by index; if several hosts have the fault, the GPUs of the first host.
    pub gpus: Vec<u16>,
    /// The ports; if several hosts have the fault, the ports of the first host.
    pub ports: Vec<PortName>,
    /// The evidence, in one sentence.
    pub evidence: String,
    /// The evidence that several hosts share, for findings whose evidence differs by host; `None`
    /// once findings are grouped.
    pub(crate) common: Option<Common>,
}

/// The evidence of a fault that several hosts have at different devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Common {
    /// The observation, without the devices of a host.
    pub(crate) observation: String,
    /// The devices of this host, or their positions.
    pub(crate) of_host: String,
}

/// The maximum number of host names on a line.
pub(crate) const MAX_NAMES_ON_LINE: usize = 4;

/// The hosts on a line: the first few names, and the number of further hosts.
pub fn subject_of(hosts: &[&str]) -> String {
    let names = hosts[..hosts.len().min(MAX_NAMES_ON_LINE)].join(", ");
    match hosts.len().saturating_sub(MAX_NAMES_ON_LINE) {
        0 => names,
        rest => format!("{names} and {rest} more"),
    }
}

/// A finding as `rsm gpu check`, `rsm plan` and `rsmctl gpu check` print it.
#[derive(Clone, Copy, Debug)]
pub struct FindingLines<'a> {
    /// The name of the severity.
    pub severity: &'a str,
    /// The hosts; see [`subject_of`].
    pub subject: &'a str,
    /// The name of the kind.
    pub kind: &'a str,
    /// The observation.
    pub evidence: &'a str,
    /// The effect on traffic; may be empty.
    pub effect: &'a str,
    /// The remedy; may be empty.
    pub advice: &'a str,
}

impl FindingLines<'_> {
    /// The lines of the finding, without line feeds.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let FindingLines {
            severity,
            subject,
            kind,
            evidence,
            ..
        } = self;
        let first = format!("{severity:<8} {subject} {kind}: {evidence}");
        let rest: Vec<String> = [self.effect, self.advice]
            .into_iter()
            .filter(|text| !text.is_empty())
            .map(|text| format!("         {text}"))
            .collect();
        std::iter::once(first).chain(rest)
    }
}

impl GpuFinding {
    /// Creates a finding about one host, without GPUs and ports.
    pub fn new(kind: GpuFindingKind, host: &str, evidence: String) -> GpuFinding {
        GpuFinding {
            kind,
            host: host.to_owned(),
            also: Vec::new(),
            gpus: Vec::new(),
            ports: Vec::new(),
            evidence,
            common: None,
        }
    }

    /// Adds an observation that other hosts share, and the devices of this host.
    pub(crate) fn like_others(mut self, observation: String, of_host: String) -> GpuFinding {
        self.common = Some(Common {
            observation,
            of_host,
        });
        self
    }

    /// All hosts with this fault, sorted by name.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.host.as_str()).chain(self.also.iter().map(String::as_str))
    }

    /// The hosts of the finding, as [`subject_of`] writes them.
    pub fn subject(&self) -> String {
        subject_of(&self.hosts().collect::<Vec<&str>>())
    }
}

impl fmt::Display for GpuFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}: {}; {}; {}",
            self.subject(),
            self.kind,
            self.evidence,
            self.kind.effect(),
            self.kind.advice()
        )
    }
}
