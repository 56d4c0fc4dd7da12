//! Reads the forwarding tables that `routing.tables_file` names.

use std::path::Path;

use rsm_routing::lfts::{self, Dump};

use super::finding::{ConfigFinding, ConfigSeverity};
use super::text_file::ConfigError;

/// Maximum size of a file of forwarding tables in bytes, four times OpenSM's dump of 3,456 hosts
/// and 720 switches.
const TABLES_MAX: u64 = 1 << 30;

/// Reads a file of forwarding tables; [`lfts`] describes its formats.
///
/// # Errors
///
/// Fails if the file cannot be read, or has no forwarding tables.
pub fn load_tables(file: &Path) -> Result<Dump, ConfigError> {
    let unread = |source| ConfigError::Read {
        path: file.to_owned(),
        source,
    };
    let size = std::fs::metadata(file).map_err(unread)?.len();
    if size > TABLES_MAX {
        let text = format!("{size} bytes, where {TABLES_MAX} are the most");
        return Err(unread(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            text,
        )));
    }
    let text = std::fs::read(file).map_err(unread)?;
    lfts::parse(&text, "").map_err(|error| {
        let finding = ConfigFinding {
            file: file.to_owned(),
            line: error.line,
            column: 1,
            severity: ConfigSeverity::Error,
            found: error.reason.to_string(),
            expected: format!("expected {}", error.reason.expected()),
        };
        ConfigError::Invalid {
            findings: vec![finding],
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_reported_with_their_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tables");
        assert!(matches!(load_tables(&file), Err(ConfigError::Read { .. })));
        let head = "Unicast lids [0-2] of switch Lid 1 guid 0x20 (''):\n";
        std::fs::write(&file, format!("{head}0x0002 001\n")).unwrap();
        assert_eq!(load_tables(&file).unwrap().switches.len(), 1);
        std::fs::write(&file, format!("{head}0x0002 one\n")).unwrap();
        let said = load_tables(&file).unwrap_err().to_string();
        assert!(
            said.contains("tables:2:1: error: the port `one`: expected 000 to 255"),
            "{said}"
        );
    }
}
