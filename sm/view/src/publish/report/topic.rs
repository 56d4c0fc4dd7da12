//! The checks by name, the findings that belong to each check, and the assembly of a check.

use std::cmp::Reverse;

use rsm_api::v1;
use rsm_gdr::findings::GpuFindingKind;
use rsm_model::findings::{Finding, FindingKind, Severity};

use super::super::published::Published;

/// Maximum number of parts that a check names.
const MAX_NAMED: usize = 3;

/// A check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Topic {
    Nodes,
    LinkRates,
    LinkErrors,
    LinkFlaps,
    Congestion,
    Cabling,
    Orders,
    Routes,
    Balance,
    Multicast,
    Partitions,
    Security,
    Managers,
    GpuRails,
    SinglePoints,
    Capacity,
    Firmware,
    Settings,
    Store,
    Clock,
    Certificates,
}

impl Topic {
    /// Every check, in the order of the report.
    pub(super) const ALL: [Topic; 21] = [
        Topic::Nodes,
        Topic::LinkRates,
        Topic::LinkErrors,
        Topic::LinkFlaps,
        Topic::Congestion,
        Topic::Cabling,
        Topic::Orders,
        Topic::Routes,
        Topic::Balance,
        Topic::Multicast,
        Topic::Partitions,
        Topic::Security,
        Topic::Managers,
        Topic::GpuRails,
        Topic::SinglePoints,
        Topic::Capacity,
        Topic::Firmware,
        Topic::Settings,
        Topic::Store,
        Topic::Clock,
        Topic::Certificates,
    ];

    /// The name, and the command that shows more.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Topic::Nodes => ("nodes", "rsmctl expect"),
            Topic::LinkRates => ("link-rates", "rsmctl links --slow"),
            Topic::LinkErrors => ("link-errors", "rsmctl top --errors"),
            Topic::LinkFlaps => ("link-flaps", "rsmctl flaps"),
            Topic::Congestion => ("congestion", "rsmctl slow"),
            Topic::Cabling => ("cabling", "rsmctl expect"),
            Topic::Orders => ("orders", "rsmctl drained"),
            Topic::Routes => ("routes", "rsmctl status"),
            Topic::Balance => ("balance", "rsmctl quality"),
            Topic::Multicast => ("multicast", "rsmctl multicast"),
            Topic::Partitions => ("partitions", "rsmctl partitions"),
            Topic::Security => ("security", "rsmctl findings"),
            Topic::Managers => ("managers", "rsmctl status"),
            Topic::GpuRails => ("gpu-rails", "rsmctl gpu check"),
            Topic::SinglePoints => ("single-points-of-failure", "rsmctl whatif"),
            Topic::Capacity => ("capacity", "rsmctl nodes --kind switch"),
            Topic::Firmware => ("firmware", "rsmctl firmware"),
            Topic::Settings => ("settings", "rsmctl findings"),
            Topic::Store => ("store", "rsmctl findings"),
            Topic::Clock => ("clock", "timedatectl"),
            Topic::Certificates => ("certificates", "rsmctl findings"),
        }
    }

    /// The check to which findings of this kind belong.
    fn of(kind: FindingKind) -> Topic {
        use FindingKind as Kind;
        match kind {
            Kind::DuplicateGuid
            | Kind::ZeroGuid
            | Kind::Unanswering
            | Kind::Incomplete
            | Kind::SmpLoss
            | Kind::MKeyMismatch
            | Kind::MKeyBehind
            | Kind::SwitchMissing
            | Kind::HostMissing
            | Kind::SetFailed
            | Kind::LocalPort
            | Kind::DeviceHabit => Topic::Nodes,
            Kind::LinkMismatch | Kind::LinkSlow => Topic::LinkRates,
            Kind::LinkFlapping => Topic::LinkFlaps,
            Kind::LinkErrors | Kind::BabblingPort | Kind::ErrorCorrection => Topic::LinkErrors,
            Kind::LoopbackCable
            | Kind::SelfCabled
            | Kind::CableMissing
            | Kind::CablesExchanged
            | Kind::CableMiswired
            | Kind::CableExtra
            | Kind::DesignUnmatched => Topic::Cabling,
            Kind::RoutingRefused
            | Kind::EngineReplaced
            | Kind::RootsAbsent
            | Kind::TorusLayout
            | Kind::Unreachable
            | Kind::AdaptiveRouting
            | Kind::AdaptiveUnused
            | Kind::ServiceLevel => Topic::Routes,
            Kind::Drained | Kind::DrainedInUse => Topic::Orders,
            Kind::MulticastUnserved | Kind::MulticastRefused | Kind::JoinRefused => {
                Topic::Multicast
            }
            Kind::PartitionTableTooSmall
            | Kind::PartitionIndexClaimed
            | Kind::PartitionConflict
            | Kind::PartitionTooFast
            | Kind::PartitionLimitedOnly
            | Kind::PartitionApart
            | Kind::PartitionNodeGuid => Topic::Partitions,
            Kind::KeyViolation
            | Kind::ForeignWrite
            | Kind::ForgedTrap
            | Kind::HandoverFlood
            | Kind::SaTrust
            | Kind::SaShare => Topic::Security,
            Kind::OtherMaster
            | Kind::EpochHeld
            | Kind::RegistrationsLost
            | Kind::ConfigDiffers
            | Kind::ManagerNotAllowed
            | Kind::ManagerSilent => Topic::Managers,
            Kind::Gpu(_) => Topic::GpuRails,
            Kind::LidSpaceExhausted
            | Kind::LidConflict
            | Kind::LmcNotApplied
            | Kind::TableTooSmall => Topic::Capacity,
            Kind::ConfigRefused | Kind::RestartNeeded | Kind::CongestionControl => Topic::Settings,
            Kind::Storage | Kind::StoreUnreachable | Kind::EventsUndelivered => Topic::Store,
            Kind::AccessFile => Topic::Certificates,
        }
    }

    /// A check that cannot be made, with the reason.
    pub(super) fn not_known(self, reason: String) -> v1::Check {
        self.check(Measured::not_known(reason))
    }

    fn check(self, measured: Measured) -> v1::Check {
        let (name, command) = self.names();
        let more = measured.worst.len().saturating_sub(MAX_NAMED) as u64;
        let mut worst = measured.worst;
        worst.truncate(MAX_NAMED);
        v1::Check {
            name: name.to_owned(),
            verdict: measured.verdict.into(),
            summary: measured.summary,
            worst,
            more,
            command: command.to_owned(),
        }
    }

    /// The check with its measurement and the findings of this topic, without those of severity
    /// info. The texts of findings precede the measured parts.
    pub(super) fn with_findings(self, mut measured: Measured, published: &Published) -> v1::Check {
        let findings = published.snapshot.findings.iter();
        let own = findings.filter(|one| Topic::of(one.kind) == self);
        let mut own: Vec<&Finding> = own.filter(|one| one.severity > Severity::Info).collect();
        own.sort_by_key(|one| (Reverse(one.severity), !is_loss(one.kind)));
        let mut worst = Vec::new();
        for finding in own {
            let verdict = match finding.severity {
                Severity::Error => v1::Verdict::Fail,
                Severity::Warning | Severity::Info => v1::Verdict::Warn,
            };
            // A finding is known even if the measurement is not.
            measured.verdict = match measured.verdict {
                v1::Verdict::NotKnown => verdict,
                known => known.max(verdict),
            };
            worst.push(finding.text.clone());
        }
        worst.append(&mut measured.worst);
        measured.worst = worst;
        self.check(measured)
    }
}

/// Whether a finding of this kind is about a node that is gone, which comes before parts that work
/// badly.
fn is_loss(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::SwitchMissing
            | FindingKind::HostMissing
            | FindingKind::Gpu(GpuFindingKind::HostAbsent)
    )
}

/// The result of a measurement.
pub(super) struct Measured {
    pub(super) verdict: v1::Verdict,
    pub(super) summary: String,
    /// The impaired parts, the worst first.
    pub(super) worst: Vec<String>,
}

impl Measured {
    /// The measured part works as it should.
    pub(super) fn pass(summary: String) -> Measured {
        Measured {
            verdict: v1::Verdict::Pass,
            summary,
            worst: Vec::new(),
        }
    }

    /// The measured part works, but is impaired.
    pub(super) fn warn(summary: String) -> Measured {
        Measured {
            verdict: v1::Verdict::Warn,
            summary,
            worst: Vec::new(),
        }
    }

    /// Passes if there are no `worst` parts; otherwise has the verdict `verdict`.
    pub(super) fn unless(worst: Vec<String>, verdict: v1::Verdict, summary: String) -> Measured {
        match worst.is_empty() {
            true => Measured::pass(summary),
            false => Measured {
                verdict,
                summary,
                worst,
            },
        }
    }

    /// The part could not be measured, for `reason`.
    pub(super) fn not_known(reason: String) -> Measured {
        Measured {
            verdict: v1::Verdict::NotKnown,
            summary: reason,
            worst: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_checks_are_unique() {
        let names: BTreeSet<&str> = Topic::ALL.iter().map(|topic| topic.names().0).collect();
        assert_eq!(names.len(), Topic::ALL.len());
    }

    #[test]
    fn a_check_names_three_parts_and_counts_the_others() {
        let parts = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let measured = Measured::unless(parts, v1::Verdict::Warn, "5 of 9".to_owned());
        let check = Topic::Nodes.check(measured);
        assert_eq!(check.worst, ["a", "b", "c"]);
        assert_eq!((check.more, check.verdict()), (2, v1::Verdict::Warn));
    }
}
