//! Finds and reads OpenSM's files on a host.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rsm_config::{ConfigFinding, ConfigSeverity, Findings};
use rsm_ids::Guid;

/// Largest size of a file that is read, in bytes. The registrations of 45,000 hosts with five
/// groups each take 35 MB.
const FILE_MAX: u64 = 256 * 1024 * 1024;

/// Folders of configurations: OpenSM's own and Red Hat's.
const CONFIGURATIONS: [&str; 2] = ["etc/opensm", "etc/rdma"];

/// Default folder of OpenSM's tables, which `OSM_CACHE_DIR` replaces.
const CACHE: &str = "/var/cache/opensm";

/// Reason why no file is migrated.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file exists but cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// A file is longer than all files that OpenSM writes.
    #[error("{}: error: the file is too long: expected at most {FILE_MAX} bytes", path.display())]
    TooLong {
        /// Path of the file.
        path: PathBuf,
    },
    /// There is no file of OpenSM below the root.
    #[error(
        "no file of OpenSM below {}: expected etc/opensm, etc/rdma/opensm.conf or var/cache/opensm/guid2lid",
        root.display()
    )]
    Nothing {
        /// Root folder.
        root: PathBuf,
    },
    /// There are several configurations, each of a separate manager.
    #[error(
        "found {} configurations of OpenSM, each of a separate manager: {}; choose one with --config, and run \
         rsm migrate once for each, with its own --output and --state-dir",
        files.len(),
        names(files)
    )]
    Configurations {
        /// Paths of the configurations.
        files: Vec<PathBuf>,
    },
    /// OpenSM manages several ports, each with a separate manager.
    #[error(
        "{place}: OpenSM manages the ports {}: choose one with --guid, and run rsm migrate once for each, with its own \
         --output and --state-dir",
        ports.iter().map(Guid::to_string).collect::<Vec<_>>().join(", ")
    )]
    Ports {
        /// File and line that names the ports.
        place: String,
        /// GUIDs of the ports.
        ports: Vec<Guid>,
    },
}

/// Paths of files, separated by commas.
fn names(files: &[PathBuf]) -> String {
    let names = files.iter().map(|file| file.display().to_string());
    names.collect::<Vec<_>>().join(", ")
}

/// Files below a root.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    /// Paths of the files that were read, each with a summary of its content.
    read: Vec<(PathBuf, String)>,
}

impl Files {
    /// Files below `root`, none of them read yet.
    pub(super) fn below(root: &Path) -> Files {
        Files {
            root: root.to_owned(),
            read: Vec::new(),
        }
    }

    /// Resolves a path from OpenSM's configuration below the root. A relative path counts from `/`.
    /// A path that already begins with the root stays unchanged.
    pub(super) fn under(&self, path: &Path) -> PathBuf {
        if path.starts_with(&self.root) {
            return path.to_owned();
        }
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Whether the files belong to this host, and are not a copy of another host's files.
    pub(super) fn are_of_this_host(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Finds `opensm.conf`: the file `chosen`, or the only existing configuration.
    ///
    /// # Errors
    /// There are several configurations, or a folder of configurations cannot be read.
    pub(super) fn configuration(
        &self,
        chosen: Option<&Path>,
    ) -> Result<Option<PathBuf>, SourceError> {
        if let Some(chosen) = chosen {
            return Ok(Some(chosen.to_owned()));
        }
        let mut found = Vec::new();
        for folder in CONFIGURATIONS {
            let folder = self.root.join(folder);
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => {
                    return Err(SourceError::Read {
                        path: folder,
                        source,
                    });
                }
            };
            let names = entries.map(|entry| Ok(entry?.file_name()));
            let names: Result<Vec<OsString>, io::Error> = names.collect();
            let names = names.map_err(|source| SourceError::Read {
                path: folder.clone(),
                source,
            })?;
            let names = names.into_iter().filter_map(|name| name.into_string().ok());
            let mut names: Vec<_> = names.filter(|name| is_configuration(name)).collect();
            names.sort();
            found.extend(names.iter().map(|name| folder.join(name)));
        }
        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => Err(SourceError::Configurations { files: found }),
        }
    }

    /// The partitions.conf that OpenSM reads by default: beside `conf`, else in the first folder of
    /// configurations that has one. `None` if there is no such file.
    pub(super) fn partitions(&self, conf: Option<&Path>) -> Option<PathBuf> {
        let beside = conf.and_then(Path::parent).map(Path::to_owned);
        let folders = CONFIGURATIONS.map(|folder| self.root.join(folder));
        let files = beside.into_iter().chain(folders);
        let mut files = files.map(|folder| folder.join("partitions.conf"));
        files.find(|file| is_present(file))
    }

    /// Folder of OpenSM's tables.
    pub(super) fn cache(&self, named: Option<&Path>) -> PathBuf {
        self.under(named.unwrap_or(Path::new(CACHE)))
    }

    /// Text of a file; `None` if the file does not exist. Bytes that are not UTF-8 are taken as
    /// Latin-1, and a finding names the first such byte of each line.
    ///
    /// # Errors
    /// The file cannot be read, or is too long.
    pub(super) fn text(
        &mut self,
        path: &Path,
        findings: &mut Vec<ConfigFinding>,
    ) -> Result<Option<String>, SourceError> {
        let read = |source| SourceError::Read {
            path: path.to_owned(),
            source,
        };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(read(error)),
        };
        let mut bytes = Vec::new();
        file.take(FILE_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(read)?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(SourceError::TooLong {
                path: path.to_owned(),
            });
        }
        self.read.push((path.to_owned(), String::new()));
        let (text, invalid) = decoded(&bytes);
        let mut reported = Findings::new(path, &text);
        for (offset, byte) in invalid {
            reported.at(
                &text,
                offset,
                ConfigSeverity::Warning,
                format!("the byte {byte:#04x}"),
                "expected UTF-8 text: such bytes of the line are taken as Latin-1",
            );
        }
        findings.extend(reported.finish());
        Ok(Some(text))
    }

    /// Records the content of a file that was read.
    pub(super) fn set_content(&mut self, path: &Path, content: String) {
        if let Some(read) = self.read.iter_mut().find(|(read, _)| read == path) {
            read.1 = content;
        }
    }

    /// Files that were read, with their content.
    pub(super) fn into_read(self) -> Vec<(PathBuf, String)> {
        self.read
    }
}

/// Whether a file with this name exists. A file that cannot be examined, or a link to a missing
/// file, counts as existing: its reader reports the fault.
pub(super) fn is_present(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ),
    }
}

/// Whether `name` is `opensm.conf`, or `opensm.conf.` and a number: Red Hat's service starts a
/// manager for each such file.
fn is_configuration(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("opensm.conf") else {
        return false;
    };
    let number = rest.strip_prefix('.');
    rest.is_empty()
        || number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Decodes `bytes`; bytes that are not UTF-8 are taken as Latin-1. Also returns, for each line with
/// such bytes, the offset of the first one in the text, and its value.
fn decoded(bytes: &[u8]) -> (String, Vec<(usize, u8)>) {
    let mut text = String::with_capacity(bytes.len());
    let mut invalid = Vec::new();
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let mut first = None;
        for chunk in line.utf8_chunks() {
            text.push_str(chunk.valid());
            if let Some(&byte) = chunk.invalid().first() {
                first = first.or(Some((text.len(), byte)));
            }
            text.extend(chunk.invalid().iter().map(|&byte| char::from(byte)));
        }
        invalid.extend(first);
    }
    (text, invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_opensm_conf_and_numbered_ones() {
        for name in ["opensm.conf", "opensm.conf.1", "opensm.conf.12"] {
            assert!(is_configuration(name), "{name}");
        }
        for name in [
            "opensm.conf.",
            "opensm.conf.bak",
            "opensm.conf.1~",
            "my-opensm.conf",
        ] {
            assert!(!is_configuration(name), "{name}");
        }
    }

    #[test]
    fn latin_1_line_is_decoded_and_its_byte_named() {
        let (text, others) = decoded(b"caf\xc3\xa9\ncaf\xe9 \xfc\nx\n");
        assert_eq!(text, "café\ncafé ü\nx\n");
        assert_eq!(others, [("café\ncaf".len(), 0xe9)]);
    }

    #[test]
    fn utf_8_stays_as_it_is_in_a_line_with_a_byte_of_latin_1() {
        let (text, others) = decoded(b"M\xc3\xbcller\xe9 M\xc3\xbcnchen\xc3\n");
        assert_eq!(text, "Mülleré MünchenÃ\n");
        assert_eq!(others, [("Müller".len(), 0xe9)]);
    }
}
