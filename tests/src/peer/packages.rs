// This file is shared by the library and by build.rs, and therefore has no module header.

/// All foreign programs that the tests drive, each with the Debian package that contains it.
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
    ("prometheus", "prometheus"),
    ("slurmctld", "slurmctld"),
    ("nginx", "nginx"),
    ("strace", "strace"),
];

/// Directories that are searched in addition to `PATH`: Debian keeps most of these programs in
/// directories that an unprivileged `PATH` lacks.
const SYSTEM_DIRECTORIES: &[&str] = &["/usr/sbin", "/sbin", "/usr/bin"];

/// The path of `program`; `None` if it is not installed.
pub(crate) fn find_program(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.iter().map(std::path::PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}
