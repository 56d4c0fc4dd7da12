//! Findings about a place that is known as text.

use std::path::PathBuf;

use rsm_config::{ConfigFinding, ConfigSeverity};

/// A finding about `place`, a file name with a line behind a colon.
pub(super) fn finding(
    place: &str,
    severity: ConfigSeverity,
    found: String,
    expected: String,
) -> ConfigFinding {
    let (file, line) = place.rsplit_once(':').unwrap_or((place, "1"));
    ConfigFinding {
        file: PathBuf::from(file),
        line: line.parse().unwrap_or(1),
        column: 1,
        severity,
        found,
        expected,
    }
}
