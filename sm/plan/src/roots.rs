//! The finding about root GUIDs that the fabric lacks.

use rsm_ids::Guid;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_routing::topology::Topology;

/// Maximum number of GUIDs that a finding names, enough for one row of spines; the finding counts
/// the others.
const GUIDS_SHOWN: usize = 8;

/// The finding about the GUIDs in `roots` that belong to no switch in `topology`; `None` if all
/// switches are present.
pub(super) fn absent(roots: &[Guid], topology: &Topology) -> Option<Finding> {
    let is_absent = |guid: &&Guid| topology.switch_by_guid(**guid).is_none();
    let absent: Vec<Guid> = roots.iter().filter(is_absent).copied().collect();
    if absent.is_empty() {
        return None;
    }
    let mut named = Vec::from_iter(absent.iter().take(GUIDS_SHOWN).map(Guid::to_string));
    if absent.len() > GUIDS_SHOWN {
        named.push(format!("and {} more", absent.len() - GUIDS_SHOWN));
    }
    let source = match roots.len() - absent.len() {
        0 => "roots found from the cabling".to_owned(),
        1 => "the other one".to_owned(),
        left => format!("the other {left}"),
    };
    let text = format!(
        "{} of {} switches in root_guid_file are not in the fabric ({}): routes go on with {source}; check that they have \
         power, or correct the file",
        absent.len(),
        roots.len(),
        named.join(", ")
    );
    let kind = FindingKind::RootsAbsent;
    Some(Finding::new(kind, Subject::Subnet, Severity::Warning, text))
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Lid, Lmc};
    use rsm_routing::topology::TopologyBuilder;

    use super::*;

    fn text(roots: &[u64]) -> Option<String> {
        let mut builder = TopologyBuilder::new();
        for guid in [1, 2] {
            let lid = Lid(guid as u16);
            builder
                .add_switch(Guid(guid), 4, lid, Lmc::ZERO, 100)
                .unwrap();
        }
        let topology = builder.build().unwrap();
        let roots: Vec<Guid> = roots.iter().copied().map(Guid).collect();
        absent(&roots, &topology).map(|finding| finding.text)
    }

    #[test]
    fn absent_roots_finding_names_them_and_the_remaining_roots() {
        assert_eq!(text(&[1, 2]), None);
        let some = text(&[1, 7, 2]).unwrap();
        assert!(some.starts_with("1 of 3 "), "{some}");
        assert!(some.contains("0x0000000000000007"), "{some}");
        assert!(some.contains("the other 2"), "{some}");
        let all = text(&[7, 8]).unwrap();
        assert!(all.contains("found from the cabling"), "{all}");
    }

    #[test]
    fn finding_counts_the_absent_roots_that_it_does_not_name() {
        let all = text(&Vec::from_iter(100..200)).unwrap();
        assert!(all.contains("and 92 more"), "{all}");
    }
}
