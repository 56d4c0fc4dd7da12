//! The fabrics the tests run on.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// Where Debian puts the example nets of ibsim.
const IBSIM_EXAMPLES: &str = "/usr/share/doc/ibsim-utils/net-examples";

/// Names another place for the collection of real topologies.
const TOPOLOGIES: &str = "RSM_TOPOLOGIES";

/// The example nets that come with ibsim, in order of their names.
///
/// # Errors
///
/// When their directory cannot be read.
pub fn ibsim_examples() -> Result<Vec<PathBuf>, Error> {
    let mut nets = files_of(Path::new(IBSIM_EXAMPLES))?;
    nets.retain(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("net"))
    });
    Ok(nets)
}

/// An example net of ibsim by its name.
#[must_use]
pub fn ibsim_example(name: &str) -> PathBuf {
    Path::new(IBSIM_EXAMPLES).join(name)
}

/// Real fabrics as ibnetdiscover printed them, in order of their names; none where the collection
/// (`../shared/data/topologies`, or `RSM_TOPOLOGIES`) is not there.
///
/// # Errors
///
/// When its directory cannot be read.
pub fn real_topologies() -> Result<Vec<PathBuf>, Error> {
    let directory = std::env::var_os(TOPOLOGIES).map_or_else(
        || crate::binaries::workspace().join("../shared/data/topologies"),
        PathBuf::from,
    );
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut nets = files_of(&directory)?;
    nets.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    Ok(nets)
}

/// Writes the generated fabric `spec` to a file in `directory`, as `rsm generate` does.
///
/// # Errors
///
/// When rsm cannot generate it or the file cannot be written.
pub fn generate(spec: &str, directory: &Path) -> Result<PathBuf, Error> {
    const GENERATION_LIMIT: std::time::Duration = std::time::Duration::from_secs(60);
    let finished = crate::process::Invocation::new(crate::binaries::rsm(), directory)
        .args(["generate", spec])
        .run(GENERATION_LIMIT)?
        .success()?;
    let path = directory.join("generated.net");
    std::fs::write(&path, finished.stdout).map_err(|source| Error::Write {
        path: path.clone(),
        source,
    })?;
    Ok(path)
}

fn files_of(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let read_error = |source| Error::Read {
        path: directory.to_owned(),
        source,
    };
    let mut files = std::fs::read_dir(directory)
        .map_err(read_error)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(read_error)?;
    files.sort();
    Ok(files)
}
