//! Compares the expected fabric with the design: earlier cables that the design contradicts, and
//! findings about the differences between a fabric and its design.

use std::sync::Arc;

use rsm_mad::wire::attr::NodeType;

use super::Expected;
use crate::design::{Cable, Comparison, Design, Fault, FaultKind, GoneNode, Place, Spot};
use crate::fabric::Fabric;
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::text::count;

/// Maximum number of faults, and of names, with separate findings; one more finding counts all
/// others.
const FINDINGS_MAX: usize = 64;

/// Number of cables that a finding names; a fault of two or three cables is the common case.
const NAMED_CABLES: usize = 4;

impl Expected {
    /// Compares `fabric` with `design`, and keeps the comparison. An earlier cable that the design
    /// contradicts is no longer expected.
    pub fn compare_with_design(&mut self, design: &Design, fabric: &Fabric) {
        let gone = self.nodes().map(|(guid, node)| GoneNode {
            guid,
            description: &node.description,
            is_switch: node.kind == NodeType::Switch,
        });
        let gone: Vec<GoneNode<'_>> = gone.collect();
        let comparison = Comparison::of(design, fabric, &gone);
        self.ports
            .retain(|&key, lost| comparison.keeps_expected(key, lost.peer));
        self.recabled.retain(|&key, before| {
            !comparison.has_cable_at(key) && !comparison.has_cable_at(before.peer)
        });
        self.design = Arc::new(comparison);
    }

    /// Name of a node that the design names, present or absent.
    pub fn place_name(&self, fabric: &Fabric, place: Place) -> String {
        match place {
            Place::Node(guid) => self.name(fabric, guid),
            Place::Absent(at) => {
                let absent = self.design.absent.get(at);
                absent.map_or_else(String::new, |absent| absent.name.clone())
            }
        }
    }

    /// The name of a port for operators: `leaf-03 port 7`.
    fn spot_name(&self, fabric: &Fabric, spot: Spot) -> String {
        format!("{} port {}", self.place_name(fabric, spot.place), spot.port)
    }

    /// Findings about faults, absent names and unclear lines of the design: one for each of the
    /// first [`FINDINGS_MAX`], and one that counts all others. A missing cable that was present
    /// before is left out, because its missing entry has a finding.
    pub(super) fn design_findings(&self, fabric: &Fabric) -> Vec<Finding> {
        let design = &*self.design;
        let faults = design.faults.iter();
        let faults: Vec<&Fault> = faults.filter(|fault| !self.was_present(fault)).collect();
        let names = design.absent.len() + design.unclear.len();
        let mut findings: Vec<Finding> = faults
            .iter()
            .take(FINDINGS_MAX)
            .map(|fault| self.design_finding(fault, fabric))
            .collect();
        let rest = faults.len().saturating_sub(FINDINGS_MAX);
        if rest > 0 {
            let text =
                format!("{rest} more cables are not as designed: rsmctl design lists all moves");
            findings.push(on_subnet(FindingKind::CableMiswired, text));
        }
        let absent = (0..design.absent.len()).map(|at| self.absent_text(at, fabric));
        let unclear = design.unclear.iter().map(|unclear| {
            let (line, reason) = (unclear.line, &unclear.reason);
            format!("line {line} of the design cannot be compared: {reason}; correct the line, and reload")
        });
        let texts = absent.chain(unclear).take(FINDINGS_MAX);
        findings.extend(texts.map(|text| on_subnet(FindingKind::DesignUnmatched, text)));
        let rest = names.saturating_sub(FINDINGS_MAX);
        if rest > 0 {
            let text =
                format!("{rest} more names or lines of the design match nothing in the fabric");
            findings.push(on_subnet(FindingKind::DesignUnmatched, text));
        }
        findings
    }

    /// Text of the finding about the absent name with this index.
    fn absent_text(&self, at: usize, fabric: &Fabric) -> String {
        let absent = &self.design.absent[at];
        let mut cables = self.design.wanted_at(Place::Absent(at));
        let first = cables.next().map_or_else(String::new, |(here, there)| {
            let more = match cables.count() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let peer = there.key().and_then(|key| fabric.find_port(key));
            let peer = peer.and_then(|at| fabric.port(at).peer);
            let [here, there] = [here, there].map(|spot| self.spot_name(fabric, spot));
            let now = peer.map_or_else(String::new, |peer| {
                format!(" ({there} leads to {})", fabric.port_name(peer))
            });
            format!(": its cable {here} to {there}{more} cannot be seen{now}")
        });
        format!(
            "line {} of the design has {}, and no node of that name is there{first}; power it on, or correct \
             the name in the design",
            absent.line, absent.name
        )
    }

    /// The finding about a difference between fabric and design.
    fn design_finding(&self, fault: &Fault, fabric: &Fabric) -> Finding {
        let listed = |cables: &[Cable], verb: &str| {
            let named = cables.iter().take(NAMED_CABLES).map(|&[a, b]| {
                let [a, b] = [a, b].map(|spot| self.spot_name(fabric, spot));
                format!("{a} {verb} {b}")
            });
            let mut named: Vec<String> = named.collect();
            if let Some(more @ 1..) = cables.len().checked_sub(NAMED_CABLES) {
                named.push(format!("and {more} more"));
            }
            named.join(", ")
        };
        let wrong = listed(&fault.wrong, "leads to");
        let wanted = listed(&fault.wanted, "to");
        let moves = count(fault.moves.len() as u64, "move makes", "moves make");
        let advice = format!("routes use the cables as they are; {moves} it right: rsmctl design");
        let (kind, text) = match fault.kind {
            FaultKind::Exchanged => (
                FindingKind::CablesExchanged,
                format!("cables are exchanged: {wrong}; designed: {wanted}; {advice}"),
            ),
            FaultKind::Miswired => (
                FindingKind::CableMiswired,
                format!("miswired: {wrong}; designed: {wanted}; {advice}"),
            ),
            FaultKind::Extra => (
                FindingKind::CableExtra,
                format!(
                    "{wrong}, and the design has no such cable; routes use it: take it out, or add it to the design"
                ),
            ),
            FaultKind::Missing => (
                FindingKind::CableMissing,
                format!(
                    "the cable {wanted} is designed and not there{}: lay it, or take it out of the design",
                    self.disabled_end(fault, fabric)
                ),
            ),
        };
        let is_of_host = |spot: &Spot| {
            let key = spot.key();
            key.is_some_and(|key| !self.is_switch(fabric, key.node))
        };
        let cables = || fault.wrong.iter().chain(&fault.wanted);
        let severity = match fault.kind {
            FaultKind::Missing if cables().flatten().any(is_of_host) => Severity::Info,
            _ => Severity::Warning,
        };
        let key = cables().flatten().find_map(|spot| spot.key());
        Finding::new(
            kind,
            key.map_or(Subject::Subnet, Subject::Port),
            severity,
            text,
        )
    }

    /// The disabled end of a missing cable, as text for a finding; empty if no end is disabled.
    fn disabled_end(&self, fault: &Fault, fabric: &Fabric) -> String {
        let mut spots = fault.wanted.iter().flatten();
        let disabled = spots.find(|spot| spot.key().is_some_and(|key| fabric.is_disabled(key)));
        disabled.map_or_else(String::new, |&spot| {
            format!(", {} is disabled", self.spot_name(fabric, spot))
        })
    }

    /// Whether a fault is a missing cable that was present before: the finding of the missing entry
    /// names its time and the lost redundancy.
    fn was_present(&self, fault: &Fault) -> bool {
        let &[[here, there]] = &fault.wanted[..] else {
            return false;
        };
        let was_there = |here: Spot, there: Spot| {
            let lost = here.key().and_then(|key| self.port(key));
            lost.is_some_and(|lost| Some(lost.peer) == there.key())
        };
        fault.wrong.is_empty() && (was_there(here, there) || was_there(there, here))
    }
}

/// A warning about the subnet as a whole.
fn on_subnet(kind: FindingKind, text: String) -> Finding {
    Finding::new(kind, Subject::Subnet, Severity::Warning, text)
}
