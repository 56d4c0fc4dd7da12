//! rsm at a port that `rsm sim serve` simulates keeps its state separate from the state of the
//! site.

use std::fs;

use rsm_tests::binaries;
use rsm_tests::bringup::LIMIT;
use rsm_tests::process::Invocation;
use rsm_tests::served::Served;

#[test]
fn rsm_started_by_sim_run_writes_to_no_path_of_the_sites_configuration() {
    let served = Served::start("ring:4").unwrap();
    let directory = served.directory();
    let site = directory.join("site");
    fs::create_dir(&site).unwrap();
    let config = directory.join("rsm.toml");
    let text = format!(
        "[state]\ndir = {:?}\n[log]\nfile = {:?}\n[dump]\ndir = {:?}\n",
        site.join("state"),
        site.join("rsm.log"),
        site.join("dumps"),
    );
    fs::write(&config, text).unwrap();
    let rsm = binaries::rsm();
    let once = |more: &[&str]| {
        Invocation::new(&rsm, directory)
            .args(["sim", "run", "--socket"])
            .arg(served.socket())
            .arg(&rsm)
            .args(["--once", "--config"])
            .arg(&config)
            .args(more)
            .run(LIMIT)
            .unwrap()
            .success()
            .unwrap()
    };
    once(&[]);
    once(&["--state-dir", "own"]);
    assert!(fs::read_dir(&site).unwrap().next().is_none());
    let mark = fs::read_to_string(directory.join("own/fabric")).unwrap();
    assert_eq!(mark, "simulation\n");
}
