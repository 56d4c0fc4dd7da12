//! Partitions on ibsim: smpquery reads the same P_Keys under rsm and under OpenSM with one file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use rsm_tests::bringup::{LIMIT, PEERS, QUIET, SMALL};
use rsm_tests::clock::wait_for_every;
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::parse::pkeys;
use rsm_tests::peer::{require_peer, require_peers};
use rsm_tests::sm::{OnceReport, Rsm, check_states, opensm_once, rsm_once};
use rsm_tests::tap::Tap;
use serde_json::Value;

/// The interval at which a test reads rsm's findings and partitions after a reload.
const POLL: Duration = Duration::from_millis(100);

/// The P_Keys of every end port in the order of their indices, by port GUID.
fn p_keys(ibsim: &Ibsim, host: &str) -> BTreeMap<u64, Vec<u16>> {
    let lids = check_states(ibsim, host).unwrap().lids;
    let read = |lid: u16| {
        let arguments = ["pkeys", &lid.to_string()];
        let finished = ibsim.diagnose(host, "smpquery", &arguments).unwrap();
        pkeys::parse(&finished.success().unwrap().stdout).unwrap()
    };
    lids.into_iter()
        .map(|(guid, lid)| (guid, read(lid)))
        .collect()
}

/// The P_Keys of each port, without their indices.
fn sets(p_keys: &BTreeMap<u64, Vec<u16>>) -> BTreeMap<u64, BTreeSet<u16>> {
    let set = |keys: &Vec<u16>| keys.iter().copied().filter(|&key| key != 0).collect();
    p_keys
        .iter()
        .map(|(&guid, keys)| (guid, set(keys)))
        .collect()
}

/// Runs `rsm --once` with the file `partitions`; returns its report.
fn once(ibsim: &Ibsim, tap: Option<&Tap>, host: &str, partitions: &Path) -> OnceReport {
    let state = ibsim.directory().join("state");
    let invocation = rsm_once(ibsim, tap, host, &state).unwrap();
    let invocation = invocation.arg("--partitions").arg(partitions);
    let finished = invocation.run(LIMIT).unwrap().success().unwrap();
    OnceReport::of(&finished).unwrap()
}

/// Writes a file with every kind of port definition, for the fabric of `ibsim`.
fn write_file(ibsim: &Ibsim, path: &Path) {
    let is_switch = |guid: &u64| {
        let id = format!("S-{guid:016x}");
        ibsim.nodes().iter().any(|node| node.id == id)
    };
    // No port has a LID yet.
    let ports = check_states(ibsim, ibsim.hosts()[0]).unwrap().lids;
    let adapters: Vec<u64> = ports.into_keys().filter(|guid| !is_switch(guid)).collect();
    let [a, b, c, ..] = adapters[..] else {
        panic!("{adapters:?}")
    };
    let text = format!(
        "Default=0x7fff, ipoib : ALL=limited, ALL_SWITCHES=full, SELF=full ;\n\
         A=0x8010, indx0 : {a:#x}=full, {b}, {c:#x}=both ; # {b} in decimal\n\
         B=0x11, defmember=full, ipoib, rate=3, mtu=4 :\n\
         \tALL_CAS\n\
         \tmgid=ff12:401b::16,sl=0\n\
         \t{b:#x}=limited ;\n\
         chosen : SELF=full, {c:#x} ;\n\
         B=0x11 : ALL_SWITCHES ; also chosen : ALL=full ; C=0x7ffe : {a:#x} ;\n"
    );
    std::fs::write(path, text).unwrap();
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn rsm_and_opensm_set_the_same_keys_from_a_file() {
    if !require_peers(PEERS) || !require_peer("smpquery") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("partitions.conf");

    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let host = ibsim.hosts()[0].to_owned();
    write_file(&ibsim, &file);
    let report = once(&ibsim, None, &host, &file);
    assert_eq!(
        report.findings_but_habits().unwrap(),
        [] as [&serde_json::Value; 0]
    );
    let ours = p_keys(&ibsim, &host);

    // A second run sends no Set, and every key keeps its index.
    let tap = Tap::open(&ibsim).unwrap();
    once(&ibsim, Some(&tap), &host, &file);
    assert!(tap.wait_quiet(QUIET, LIMIT));
    assert_eq!(tap.tally().sets(), 0, "{}", tap.tally());
    assert_eq!(p_keys(&ibsim, &host), ours);
    drop(tap);
    drop(ibsim);

    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let opensm = opensm_once(&ibsim, None, &host).unwrap();
    let opensm = opensm.arg("-P").arg(&file);
    opensm.run(LIMIT).unwrap().success().unwrap();
    let theirs = p_keys(&ibsim, &host);
    assert_eq!(sets(&ours), sets(&theirs));
    let first = |keys: &BTreeMap<u64, Vec<u16>>| -> BTreeMap<u64, u16> {
        keys.iter().map(|(&guid, keys)| (guid, keys[0])).collect()
    };
    assert_eq!(first(&ours), first(&theirs), "index 0");
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn without_a_file_every_port_has_only_the_default_key() {
    if !require_peers(PEERS) || !require_peer("smpquery") {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let host = ibsim.hosts()[0].to_owned();
    let state = ibsim.directory().join("state");
    let rsm = rsm_once(&ibsim, None, &host, &state).unwrap();
    rsm.run(LIMIT).unwrap().success().unwrap();
    let held = p_keys(&ibsim, &host);
    assert!(
        !held.is_empty() && held.values().all(|keys| keys == &[0xffff]),
        "{held:?}"
    );
}

/// The partitions that rsmctl shows: P_Key, number of full members, number of limited members.
fn shown(rsm: &Rsm) -> Vec<(u64, u64, u64)> {
    let list = rsm.ask(&["partitions"]).unwrap();
    let number = |one: &Value, key: &str| one[key].as_u64().unwrap();
    let list = list.as_array().unwrap().iter();
    list.map(|one| {
        (
            number(one, "p_key"),
            number(one, "full_members"),
            number(one, "limited_members"),
        )
    })
    .collect()
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn reload_of_a_partition_file_with_an_error_changes_nothing() {
    if !require_peers(PEERS) || !require_peer("smpquery") {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let host = ibsim.hosts()[0].to_owned();
    let file = ibsim.directory().join("partitions.conf");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("Default=0x7fff : ALL=limited, SELF=full ;\nA=0x10 : ALL_CAS=full ;\n");
    let (state, path) = (ibsim.directory().join("state"), file.display().to_string());
    let arguments = ["--partitions", path.as_str()];
    let mut rsm = Rsm::start_with(&ibsim, None, &host, &state, &arguments, LIMIT).unwrap();
    let findings = |rsm: &Rsm| rsm.ask(&["findings", "--kind", "config-refused"]).unwrap();
    let wait = |rsm: &Rsm, condition: &dyn Fn(&Rsm) -> bool| {
        wait_for_every(POLL, LIMIT, || condition(rsm).then_some(())).unwrap();
    };
    let before = [(0x10, 4, 0), (0x7fff, 1, 5)];
    assert_eq!(shown(&rsm), before);
    let held = p_keys(&ibsim, &host);

    write("Default=0x7fff : ALL=full ;\nA=0x10 : ALL_CA=full ; B ;\n");
    rsm.process().hang_up();
    wait(&rsm, &|rsm| findings(rsm) != Value::Array(Vec::new()));
    let messages = findings(&rsm).to_string();
    for part in [
        "partitions.conf:2:24: error: `B`",
        "the configuration in force stays",
    ] {
        assert!(messages.contains(part), "{messages}");
    }
    std::fs::remove_file(&file).unwrap();
    rsm.process().hang_up();
    wait(&rsm, &|rsm| {
        findings(rsm).to_string().contains("cannot read")
    });
    assert_eq!(shown(&rsm), before);
    assert_eq!(p_keys(&ibsim, &host), held);

    write("Default=0x7fff : ALL=full ;\nA=0x10 : SELF=full ;\n");
    rsm.process().hang_up();
    wait(&rsm, &|rsm| shown(rsm) == [(0x10, 1, 0), (0x7fff, 6, 0)]);
    assert_eq!(findings(&rsm), Value::Array(Vec::new()));
    wait(&rsm, &|_| {
        let keys = p_keys(&ibsim, &host);
        let with_a = keys.values().filter(|keys| **keys == [0xffff, 0x8010]);
        with_a.count() == 1 && keys.values().all(|keys| keys[0] == 0xffff)
    });
    rsm.stop().unwrap().success().unwrap();
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn partition_file_with_an_error_is_refused_at_the_start() {
    if !require_peers(PEERS) {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let file = ibsim.directory().join("partitions.conf");
    std::fs::write(&file, "A=0x10 : ALL=full ;\nB=0x11 : ALL=ful1 ;\n").unwrap();
    let state = ibsim.directory().join("state");
    let rsm = rsm_once(&ibsim, None, ibsim.hosts()[0], &state).unwrap();
    let finished = rsm.arg("--partitions").arg(&file).run(LIMIT).unwrap();
    assert!(!finished.status.success());
    let expected = "partitions.conf:2:14: error: membership `ful1`: did you mean `full`?";
    assert!(finished.stderr.contains(expected), "{}", finished.stderr);
}
