//! Two subnet managers: beside a master that wins the election, rsm stays standby and writes
//! nothing.

use rsm_tests::bringup::{LIMIT, PEERS, QUIET, SMALL};
use rsm_tests::clock::wait_for;
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::parse::sminfo::{self, SmInfo};
use rsm_tests::peer::require_peers;
use rsm_tests::sm::{OpenSm, Rsm, check_states};
use rsm_tests::tap::Tap;

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn rsm_beside_a_running_master_is_standby_and_sends_no_set() {
    if !require_peers(PEERS) {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    // OpenSM has the highest priority, which wins over any priority of rsm.
    let opensm = OpenSm::start(&ibsim, None, "Hca1", &["-p", "15"], LIMIT).unwrap();
    let before = check_states(&ibsim, "Hca3").unwrap();

    let tap = Tap::open(&ibsim).unwrap();
    let state = ibsim.directory().join("state");
    let rsm = Rsm::spawn(&ibsim, Some(&tap), "Hca2", &state).unwrap();
    let standby = wait_for(LIMIT, || {
        let status = rsm.ask(&["status"]).ok()?;
        (status["state"].as_str()?.to_lowercase().contains("standby")).then_some(status)
    });
    let status = standby.unwrap_or_else(|| panic!("never standby: {:?}", rsm.ask(&["status"])));
    assert_eq!(status["master"]["guid"], "0x0000000000100001", "{status}");
    assert!(tap.wait_quiet(QUIET, LIMIT));
    assert_eq!(tap.tally().sets(), 0, "{}", tap.tally());

    // rsm answers SMInfo as standby, and the master stays master.
    let ask = |arguments: &[&str]| ask_sm_info(&ibsim, arguments);
    let own_lid = before.lids[&0x10_0004].to_string();
    let own = ask(&[&own_lid]);
    assert_eq!((own.guid, own.state), (0x10_0004, 2), "{own:?}");
    let master = ask(&[]);
    assert_eq!((master.guid, master.state), (0x10_0001, 3), "{master:?}");
    assert_eq!(check_states(&ibsim, "Hca3").unwrap(), before);

    rsm.stop().unwrap().success().unwrap();
    opensm.stop().unwrap();
}

/// The answer of `sminfo` with these arguments at a third host.
fn ask_sm_info(ibsim: &Ibsim, arguments: &[&str]) -> SmInfo {
    let answer = ibsim.diagnose("Hca3", "sminfo", arguments).unwrap();
    sminfo::parse(&answer.success().unwrap().stdout).unwrap()
}
