//! The folder of a queue.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;

/// Files of one folder, by name.
pub trait Files {
    /// Names of all files; empty if the folder is absent.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Content of a file; `None` if the file is absent.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Appends to a file, durably; creates the file and its folder if they are absent.
    ///
    /// # Errors
    /// The disk does not take all bytes, and may have taken some.
    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Replaces the content of a file. After an error, the file has its old or its new content.
    ///
    /// # Errors
    /// The disk does not take the bytes.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Removes a file. An absent file is no error.
    ///
    /// # Errors
    /// The file cannot be removed.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// A folder on the disk.
#[derive(Clone, Debug)]
pub struct Folder(pub PathBuf);

/// The value of `result`; `None` if the file is absent.
fn unless_absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Files for Folder {
    fn list(&self) -> io::Result<Vec<String>> {
        let entries = unless_absent(fs::read_dir(&self.0))?;
        let mut names = Vec::new();
        for entry in entries.into_iter().flatten() {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        unless_absent(fs::read(self.0.join(name)))
    }

    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        let path = self.0.join(name);
        let is_new = !path.try_exists()?;
        let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        if is_new {
            File::open(&self.0)?.sync_all()?;
        }
        Ok(())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        let temporary = self.0.join(format!("{name}.tmp"));
        fs::write(&temporary, bytes)?;
        fs::rename(&temporary, self.0.join(name))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        unless_absent(fs::remove_file(self.0.join(name))).map(|_| ())
    }
}
