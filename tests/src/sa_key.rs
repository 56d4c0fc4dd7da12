//! An SA key for tests that make requests as a trusted requester.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The SM_Key of trusted requesters, in tests that configure one.
pub const SA_KEY: u64 = 0x5EC2_E75A_0C0F_FEE5;

/// The key in the form that programs accept.
#[must_use]
pub fn text() -> String {
    format!("{SA_KEY:#018x}")
}

/// Writes [`SA_KEY`] to the file beside the configuration `config`, from which rsm reads the key.
///
/// # Panics
///
/// The file cannot be written.
pub fn put_beside(config: &Path) {
    let file = config.with_file_name("sa.key");
    fs::write(&file, format!("{}\n", text())).expect("the file can be written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))
        .expect("the file belongs to the test");
}

/// Writes a configuration of defaults to the new folder `folder`, with [`SA_KEY`] beside it.
///
/// # Panics
///
/// A file cannot be written.
#[must_use]
pub fn configuration(folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).expect("the file can be written");
    let config = folder.join("rsm.toml");
    fs::write(&config, "").expect("the file can be written");
    put_beside(&config);
    config
}
