//! Reads text files of bounded size, and reports why rsm does not use a file.

use std::error::Error as _;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::FileKind;
use super::finding::{ConfigFinding, ConfigSeverity, Findings, any_error};

/// Maximum size of a file in bytes. A `guid2lid` of a full subnet takes two megabytes.
pub const FILE_MAX: u64 = 16 * 1024 * 1024;

/// Permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Reason why rsm does not use a file, not even in part.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Reason of the failure.
        #[source]
        source: io::Error,
    },
    /// The file is longer than any configuration, or not UTF-8 text.
    #[error("{}{reason}", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The reason why the file is not text.
        reason: NotText,
    },
    /// The file is of a kind that is not a configuration.
    #[error("{} is a {kind}: expected a configuration", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// The recognised kind.
        kind: FileKind,
    },
    /// A key requests a feature that this program was built without.
    #[error(
        "{key} is set, and this rsm was built without the feature `{feature}`: expected it unset"
    )]
    NotBuilt {
        /// The key, with its section.
        key: &'static str,
        /// The cargo feature.
        feature: &'static str,
    },
    /// The file has errors. `Display` prints a line for each.
    #[error("{}", lines(findings))]
    Invalid {
        /// All findings, with warnings and notes, in the order of the file.
        findings: Vec<ConfigFinding>,
    },
}

/// Reason why rsm does not accept a file as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// The text is longer than any configuration.
    #[error(": error: the file is too long: expected at most {FILE_MAX} bytes")]
    TooLong,
    /// A byte at which the text is not valid UTF-8.
    #[error(
        ":{line}:{column}: error: the byte {byte:#04x}: expected UTF-8 text; \
         `iconv -f latin1 -t utf-8` converts a file in Latin-1"
    )]
    Byte {
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
        /// The byte.
        byte: u8,
    },
}

fn lines(findings: &[ConfigFinding]) -> String {
    let errors = findings
        .iter()
        .filter(|f| f.severity == ConfigSeverity::Error);
    errors
        .map(ConfigFinding::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Whether the error says that the file does not exist.
pub(super) fn is_missing(error: &ConfigError) -> bool {
    matches!(error, ConfigError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Reads a text file of bounded size.
pub(super) fn read_text(path: &Path) -> Result<String, ConfigError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes))
        .map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
    let not_text = |reason| ConfigError::NotText {
        path: path.to_owned(),
        reason,
    };
    if bytes.len() as u64 > FILE_MAX {
        return Err(not_text(NotText::TooLong));
    }
    String::from_utf8(bytes).map_err(|error| {
        let (before, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        // The bytes before the first invalid one are text.
        let before = String::from_utf8_lossy(before);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        not_text(NotText::Byte {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            byte: rest.first().copied().unwrap_or_default(),
        })
    })
}

/// The content of a file and the findings. The content is usable only if no finding is an error.
pub(super) type Parsed<T> = (T, Vec<ConfigFinding>);

/// Reads the content of `file`.
///
/// # Errors
///
/// Fails if the file cannot be read, or has any error.
pub(super) fn load<T>(
    file: &Path,
    parse: impl FnOnce(&Path, &str) -> Parsed<T>,
) -> Result<T, ConfigError> {
    Ok(usable(parse(file, &read_text(file)?))?.0)
}

/// The content and the findings of a file.
///
/// # Errors
///
/// Fails with all findings if any is an error.
pub(super) fn usable<T>((read, findings): Parsed<T>) -> Result<Parsed<T>, ConfigError> {
    match any_error(&findings) {
        true => Err(ConfigError::Invalid { findings }),
        false => Ok((read, findings)),
    }
}

/// The finding about a file that cannot be read. It points at the invalid byte, if there is one.
pub(super) fn unreadable_file(file: &Path, error: &ConfigError, expected: &str) -> ConfigFinding {
    if let ConfigError::NotText {
        reason: NotText::Byte { line, column, byte },
        ..
    } = *error
    {
        return ConfigFinding {
            file: file.to_owned(),
            line,
            column,
            severity: ConfigSeverity::Error,
            found: format!("the byte {byte:#04x}"),
            expected: "expected UTF-8 text; `iconv -f latin1 -t utf-8` converts a file in Latin-1"
                .to_owned(),
        };
    }
    let found = match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    ConfigFinding {
        file: file.to_owned(),
        line: 1,
        column: 1,
        severity: ConfigSeverity::Error,
        found,
        expected: expected.to_owned(),
    }
}

/// The content of a file that `key` names, and the findings about it. A file that cannot be used
/// has no content.
pub(super) fn findings_of_file<T: Default>(
    file: &Path,
    key: &str,
    read: Result<Parsed<T>, ConfigError>,
) -> Parsed<T> {
    match read {
        Ok(read) => read,
        Err(ConfigError::Invalid { findings }) => (T::default(), findings),
        Err(error) => {
            let finding = unreadable_file(file, &error, &format!("{key} names it"));
            (T::default(), vec![finding])
        }
    }
}

/// An error if users other than the owner have access to the secret `file`; otherwise no finding.
/// `why` is the reason in the text of the error.
///
/// # Errors
///
/// Fails if the file no longer exists.
pub(super) fn access_of_others(
    file: &Path,
    text: &str,
    why: &str,
) -> Result<Vec<ConfigFinding>, ConfigError> {
    let access = std::fs::metadata(file).map_err(|source| ConfigError::Read {
        path: file.to_owned(),
        source,
    })?;
    let mode = access.permissions().mode();
    let mut findings = Findings::new(file, text);
    if mode & OTHERS != 0 {
        let found = format!(
            "mode {:04o}: others than its owner have access",
            mode & 0o7777
        );
        let expected = format!("expected 0600 or 0400: {why}");
        findings.at(text, 0, ConfigSeverity::Error, found, expected);
    }
    Ok(findings.finish())
}
