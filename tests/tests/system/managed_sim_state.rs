//! Tests that rsm at a simulated port of `rsm sim serve` does not write to the site's own state,
//! log and dump paths.

use std::fs;

use rsm_tests::binaries;
use rsm_tests::bringup::LIMIT;
use rsm_tests::process::Invocation;
use rsm_tests::served::Served;

#[test]
fn rsm_at_a_simulated_port_writes_to_no_path_of_its_configuration() {
    let served = Served::start("ring:4").unwrap();
    let directory = served.directory();
    let site_folder = directory.join("site");
    fs::create_dir(&site_folder).unwrap();
    let config = directory.join("rsm.toml");
    let text = format!(
        "[state]\ndir = {:?}\n[log]\nfile = {:?}\n[dump]\ndir = {:?}\n",
        site_folder.join("state"),
        site_folder.join("rsm.log"),
        site_folder.join("dumps"),
    );
    fs::write(&config, text).unwrap();
    let rsm = binaries::rsm();
    let run_once = |arguments: &[&str]| {
        Invocation::new(&rsm, directory)
            .args(["sim", "run", "--socket"])
            .arg(served.socket())
            .arg(&rsm)
            .args(["--once", "--config"])
            .arg(&config)
            .args(arguments)
            .run(LIMIT)
            .unwrap()
            .success()
            .unwrap()
    };
    run_once(&[]);
    // A state folder of the command line is used, and marked as that of a simulation.
    run_once(&["--state-dir", "own"]);
    assert!(fs::read_dir(&site_folder).unwrap().next().is_none());
    let fabric_kind = fs::read_to_string(directory.join("own/fabric")).unwrap();
    assert_eq!(fabric_kind, "simulation\n");
}
