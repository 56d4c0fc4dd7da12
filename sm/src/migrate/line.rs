//! Makes findings about a place that is given as text.

use std::path::PathBuf;

use rsm_config::{ConfigFinding, ConfigSeverity};

/// Finding about `place`, a file name followed by a colon and a line number.
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
