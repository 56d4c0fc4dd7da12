use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{DumpSource, fdbs, guid2lid, lfts, lid_matrix, mcfdbs, subnet_lst};

/// Failure to write a dump file, whose earlier content is still there.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct DumpError {
    /// Path of the file.
    pub path: PathBuf,
    /// Cause of the failure.
    #[source]
    pub source: io::Error,
}

type Writer = fn(&DumpSource<'_>, &mut dyn Write) -> io::Result<()>;

/// Dump files, each with the function that writes it.
const FILES: [(&str, Writer); 6] = [
    ("opensm-subnet.lst", subnet_lst),
    ("opensm.fdbs", fdbs),
    // ibdmchk needs this file, even if it is empty.
    ("opensm.mcfdbs", mcfdbs),
    ("opensm-lfts.dump", lfts),
    ("opensm-lid-matrix.dump", lid_matrix),
    ("guid2lid", guid2lid),
];

/// Writes every file in OpenSM's formats to `dir`, and creates `dir` if necessary.
///
/// # Errors
/// The first file that could not be written. The files before it are new; that file and the files
/// after it keep their earlier content.
pub fn write_all(dir: &Path, source: &DumpSource<'_>) -> Result<(), DumpError> {
    for (name, write) in FILES {
        write_file(dir, name, |out| write(source, out))?;
    }
    Ok(())
}

/// Writes one file to `dir` atomically: a reader sees the complete old or the complete new file.
///
/// The file is not flushed to the disk, because the next convergence writes it again.
///
/// # Errors
/// The file could not be written, or `write` failed.
pub fn write_file(
    dir: &Path,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), DumpError> {
    let path = dir.join(name);
    let temporary = dir.join(format!(".{name}.tmp"));
    let result = (|| {
        fs::create_dir_all(dir)?;
        let mut out = BufWriter::new(File::create(&temporary)?);
        write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?;
        fs::rename(&temporary, &path)
    })();
    result.map_err(|source| {
        // A failed removal has no effect: the next attempt replaces the temporary file.
        let _ = fs::remove_file(&temporary);
        DumpError { path, source }
    })
}
