//! rsm brings up real fabrics, as ibnetdiscover printed them, on ibsim.
//!
//! There is one test for each fabric, so that a failure names it. Ports start with the LIDs in the
//! files: each run takes over a configured subnet. Without the collection (see
//! [`rsm_tests::fabrics::real_topologies`]) the tests print a note and end.

use std::io::Write;

use rsm_tests::Error;
use rsm_tests::bringup::{
    PEERS, assert_diagnostics_agree, assert_routes_are_good, ca_ports, once_with_dumps,
};
use rsm_tests::fabrics;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::peer::require_peers;

/// The files of the collection that ibsim refuses to load, each with its message.
const REFUSED: &[(&str, &str)] = &[
    // A switch names a neighbour that is not in the file.
    (
        "superbench-faked-hdr-full.txt",
        "sim_init failed, status -2",
    ),
];

fn real_fabric_comes_up(name: &str) {
    if !require_peers(PEERS) {
        return;
    }
    let fabrics = fabrics::real_topologies().unwrap();
    let Some(net) = fabrics.iter().find(|path| path.ends_with(name)) else {
        let _ = writeln!(std::io::stderr(), "skipped: {name} is not at hand");
        return;
    };
    let ibsim = Ibsim::start(net).unwrap();
    let host = ibsim.hosts()[0];
    let (report, dumps) = once_with_dumps(&ibsim, host);
    assert_diagnostics_agree(&ibsim, host, &report);
    assert_routes_are_good(&dumps, ca_ports(&ibsim, host));
}

macro_rules! real_fabrics {
    ($($test:ident: $file:literal,)*) => {
        $(
            #[test]
            #[cfg_attr(
                not(peers),
                ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
            )]
            fn $test() {
                real_fabric_comes_up($file);
            }
        )*

        /// The files that have a test of their own.
        const TESTED: &[&str] = &[$($file),*];
    };
}

real_fabrics! {
    voltaire_sample_comes_up: "ibtopotool-1-manpage-voltaire-sdr.txt",
    ibm_sample_comes_up: "ibtopotool-2-ibm-anafa.txt",
    nvidia_sample_comes_up: "ibtopotool-3-nvidia-mixed.txt",
    oracle_sample_comes_up: "ibtopotool-4-oracle-sun.txt",
    dgx_ndr_pod_comes_up: "nvidia-dgx-ndr-p1.txt",
    dgx_ndr_pod_as_hdr_comes_up: "nvidia-dgx-ndr-p1.hdr.txt",
    directors_from_a_terminal_log_comes_up: "nvidia-sat11-director-puttylog.txt",
    selene_compute_comes_up: "nvidia-selene-compute.txt",
    selene_storage_comes_up: "nvidia-selene-storage.txt",
    ufm_lab_comes_up: "nvidia-ufmlab-small.txt",
    tartu_rocket_comes_up: "tartu-rocket-qdr-fdr10.txt",
    oddities_comes_up: "synthetic-oddities.txt",
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn every_file_has_a_test_or_is_refused_by_ibsim() {
    if !require_peers(PEERS) {
        return;
    }
    for net in fabrics::real_topologies().unwrap() {
        let name = net
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Some((_, expected)) = REFUSED.iter().find(|(refused, _)| *refused == name) else {
            let known = TESTED.contains(&name.as_str()) || name == "INDEX.md";
            assert!(known, "{name} has no test");
            continue;
        };
        match Ibsim::start(&net) {
            Err(Error::Refused { reason, .. }) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{name} was to be refused: {other:?}"),
        }
    }
}
