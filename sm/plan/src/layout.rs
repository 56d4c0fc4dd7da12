//! The finding about a torus layout of the operator that does not fit the fabric.

use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_routing::engine::{Coordinates, TorusLayout};

/// The finding that the routes follow the coordinates `places`, which differ from `layout`. `None`
/// if both agree, or if the routes follow no coordinates.
pub(super) fn misfit(
    layout: Option<&TorusLayout>,
    places: Option<&Coordinates>,
) -> Option<Finding> {
    let misfit = layout?.check(places?).err()?;
    let text = format!(
        "torus_file does not fit the fabric: {misfit}; datelines lie where rsm found a place for them, and the next start \
         may move them and the service levels of paths with them; correct the file, or see \
         whether its switches have power"
    );
    let kind = FindingKind::TorusLayout;
    Some(Finding::new(kind, Subject::Subnet, Severity::Warning, text))
}
