//! The finding about a torus layout of the operator that does not fit the fabric.

use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_routing::engine::{Coordinates, TorusLayout};

/// The finding that the routes follow other `coordinates` than those of `layout`. `None` if both
/// agree, or if the routes follow no coordinates.
pub(super) fn misfit(
    layout: Option<&TorusLayout>,
    coordinates: Option<&Coordinates>,
) -> Option<Finding> {
    let misfit = layout?.check(coordinates?).err()?;
    let text = format!(
        "torus_file does not fit the fabric: {misfit}; rsm has placed the datelines itself, and the next start may move \
         them, and with them the service levels of paths; correct the file, or check that its \
         switches have power"
    );
    let kind = FindingKind::TorusLayout;
    Some(Finding::new(kind, Subject::Subnet, Severity::Warning, text))
}
