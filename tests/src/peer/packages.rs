// Shared by the library and by build.rs, hence a file without a module header of its own.

/// Every foreign program the tests drive, with the Debian package that ships it.
pub(crate) const PROGRAMS: &[(&str, &str)] = &[
    ("ibsim", "ibsim-utils"),
    ("ibsim-run", "ibsim-utils"),
    ("opensm", "opensm"),
    ("iblinkinfo", "infiniband-diags"),
    ("ibnetdiscover", "infiniband-diags"),
    ("ibroute", "infiniband-diags"),
    ("ibtracert", "infiniband-diags"),
    ("sminfo", "infiniband-diags"),
    ("saquery", "infiniband-diags"),
    ("smpquery", "infiniband-diags"),
    ("osmtest", "opensm"),
    ("ibdmchk", "ibutils"),
    ("etcd", "etcd-server"),
    ("etcdctl", "etcd-client"),
    ("openssl", "openssl"),
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
    ("promtool", "prometheus"),
    ("slurmctld", "slurmctld"),
    ("strace", "strace"),
];

/// Directories searched besides `PATH`: Debian keeps most of these programs where an unprivileged
/// `PATH` does not look.
const SYSTEM_DIRECTORIES: &[&str] = &["/usr/sbin", "/sbin", "/usr/bin"];

/// The path of `program`, if it is installed.
pub(crate) fn find_program(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.iter().map(std::path::PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}
