//! With packet loss, the subnet comes up complete within one run, and no finding is stale.

use rsm_tests::bringup::{PEERS, SMALL, assert_diagnostics_agree, generated, once};
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::peer::require_peers;
use rsm_tests::sm::OnceReport;
use rsm_tests::tap::{Tap, attribute};

/// The percentage of MADs that are lost.
const PERCENT: u8 = 5;

/// Every attribute that a subnet manager needs to bring a subnet up.
const ATTRIBUTES: [u16; 6] = [
    attribute::NODE_DESCRIPTION,
    attribute::NODE_INFO,
    attribute::SWITCH_INFO,
    attribute::PORT_INFO,
    attribute::P_KEY_TABLE,
    attribute::LINEAR_FORWARDING_TABLE,
];

/// Brings the subnet up while MADs of `attribute`, or all MADs if `None`, are lost. Returns the
/// report and the number of lost MADs.
fn bring_up_with_loss(ibsim: &Ibsim, attribute: Option<u16>) -> (OnceReport, usize) {
    let host = ibsim.hosts()[0];
    let tap = Tap::open(ibsim).unwrap();
    ibsim.lose(PERCENT, attribute).unwrap();
    let (report, up) = once(ibsim, Some(&tap), host, &ibsim.directory().join("state"));
    assert!(up, "{report:?}");
    ibsim.lose(0, attribute).unwrap();
    assert_diagnostics_agree(ibsim, host, &report);
    assert!(
        report.findings_but_habits().unwrap().is_empty(),
        "{report:?}"
    );
    assert_eq!(report.smps_sent().unwrap(), tap.tally().total());
    let lost = tap
        .packets()
        .iter()
        .filter(|packet| packet.is_loss())
        .count();
    (report, lost)
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn loss_of_any_one_attribute_does_not_stop_bring_up() {
    if !require_peers(PEERS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut lost = 0;
    for attribute in ATTRIBUTES {
        let ibsim = generated("fat-tree:k=4,levels=3", directory.path());
        lost += bring_up_with_loss(&ibsim, Some(attribute)).1;
    }
    assert!(lost > 0, "ibsim lost nothing");
}

/// Here ibsim drops MADs at every port that they pass, in both directions: a request to the far
/// switch is lost about every third time.
#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn loss_on_every_hop_does_not_stop_bring_up() {
    if !require_peers(PEERS) {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let (report, lost) = bring_up_with_loss(&ibsim, None);
    assert!(lost > 0, "ibsim lost nothing");
    // rsm notices each loss: the request times out, or it is overdue and withdrawn when all other
    // requests were answered. Most of these requests are retried, the other requests are sent anew.
    let noticed =
        report.count("/smps/timeouts").unwrap() + report.count("/smps/withdrawn").unwrap();
    assert!(noticed >= lost as u64, "{lost} lost: {report:?}");
    assert!(report.count("/smps/retries").unwrap() > 0, "{report:?}");
}
