//! The log in a file of bounded size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rsm_config::LogConfig;

/// Bytes in a megabyte of `log.max_size_mb`.
const MEGABYTE: u64 = 1_000_000;

/// Log file. When the file reaches its limit, rsm appends `.1` to its name and begins a new file.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// Size of the file, in bytes.
    size: u64,
    /// Upper bound of the file's size in bytes; `None` for no bound.
    limit: Option<u64>,
}

impl LogFile {
    /// Opens the file `path` with the settings of `config`.
    pub(super) fn open(path: &Path, config: &LogConfig) -> io::Result<LogFile> {
        let mut options = OpenOptions::new();
        options.create(true);
        match config.append {
            true => options.append(true),
            false => options.write(true).truncate(true),
        };
        let file = options.open(path)?;
        Ok(LogFile {
            path: path.to_owned(),
            size: file.metadata()?.len(),
            file,
            limit: (config.max_size_mb > 0).then(|| u64::from(config.max_size_mb) * MEGABYTE),
        })
    }

    /// Renames the file, and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        let mut renamed = self.path.clone().into_os_string();
        renamed.push(".1");
        fs::rename(&self.path, renamed)?;
        self.file = File::create(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let grown = self.size.saturating_add(line.len() as u64);
        if self.size > 0 && self.limit.is_some_and(|limit| grown > limit) {
            self.rotate()?;
        }
        let written = self.file.write(line)?;
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(append: bool) -> LogConfig {
        LogConfig {
            max_size_mb: 1,
            append,
            ..LogConfig::default()
        }
    }

    #[test]
    fn full_file_is_renamed_and_a_new_file_begins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rsm.log");
        let mut log = LogFile::open(&path, &config(true)).unwrap();
        let line = vec![b'x'; 600_000];
        log.write_all(&line).unwrap();
        log.write_all(b"second").unwrap();
        log.write_all(&line).unwrap();
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        assert_eq!(size(&dir.path().join("rsm.log.1")), 600_006);
        assert_eq!(size(&path), 600_000);
        drop(log);
        let mut log = LogFile::open(&path, &config(true)).unwrap();
        log.write_all(b"more").unwrap();
        assert_eq!(size(&path), 600_004, "a restart appends");
        LogFile::open(&path, &config(false)).unwrap();
        assert_eq!(size(&path), 0);
        assert!(LogFile::open(dir.path(), &config(true)).is_err());
    }
}
