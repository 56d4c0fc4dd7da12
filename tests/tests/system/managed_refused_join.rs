//! A real rsm whose broadcast group is faster than its hosts: a finding predicts that joins will be
//! refused, and a refused join becomes a finding, an event and a line of the log.

use std::fs;
use std::time::Duration;

use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::Method;
use rsm_mad::wire::sa::{ComponentMask, JoinState, McMemberRecord, SaStatus};
use rsm_tests::answering::Host;
use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::managed::Managed;
use rsm_tests::process::Invocation;

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// The broadcast group of the default partition: ff12:401b:ffff::ffff:ffff.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);

/// Joins host `number` to the broadcast group as IP over InfiniBand does; returns the SA's status.
fn join(managed: &Managed, host: &mut Host, number: usize) -> rsm_mad::wire::header::Status {
    let mut record = McMemberRecord::default();
    record
        .set_mgid(BROADCAST)
        .set_port_gid(managed.gid(number))
        .set_p_key(PKey::DEFAULT_FULL)
        .set_join_state(JoinState::FULL_MEMBER);
    let mask: ComponentMask = McMemberRecord::MGID
        .with(McMemberRecord::PORT_GID)
        .with(McMemberRecord::P_KEY)
        .with(McMemberRecord::JOIN_STATE);
    host.ask_lid(managed.lid(0));
    host.ask(Method::SET, mask, &record).status()
}

#[test]
fn refused_join_of_a_slow_host_is_predicted_and_then_is_a_finding_event_and_log_line() {
    let managed = Managed::start("fat-tree:k=4,levels=2");
    let file = managed.fabric.directory().join("partitions.conf");
    let partitions = |rate| format!("Default=0x7fff, ipoib{rate} : ALL=full ;\n");
    fs::write(&file, partitions(", rate=24")).expect("there is room");
    let mut host = managed.host(1);
    let argument = file.display().to_string();
    let rsm = managed.rsm_with(&mut host, &["--partitions", &argument]);
    let run = |arguments: &[&str]| {
        let rsmctl = Invocation::new(binaries::rsmctl(), managed.fabric.directory());
        let rsmctl = rsmctl.arg("--socket").arg(managed.state().join("rsm.sock"));
        let finished = rsmctl.args(arguments).arg("--wide").run(LIMIT);
        let finished = finished.expect("it can be started").success();
        finished.unwrap_or_else(|error| panic!("{error}")).stdout
    };
    let wait_for = |arguments: &[&str], is_so: &dyn Fn(&str) -> bool| {
        let mut last = String::new();
        let found = wait_for_every(POLL, LIMIT, || {
            last = run(arguments);
            is_so(&last).then_some(())
        });
        assert!(
            found.is_some(),
            "{arguments:?}: {last}\n{}",
            rsm.stderr_so_far()
        );
    };
    let foreseen = |text: &str| text.contains("partition-too-fast") && text.contains("code 24");
    wait_for(&["findings"], &foreseen);

    assert_eq!(join(&managed, &mut host, 1), SaStatus::REQ_INVALID);
    let refused = |text: &str| {
        // The line below the finding's kind has its text.
        let mut lines = text.lines();
        lines.any(|line| line.contains("join-refused"))
            && lines.next().is_some_and(|line| {
                line.contains("(partition `Default`, 0x7fff)")
                    && line.contains("200 Gb/s (code 17)")
                    && line.contains("1200 Gb/s (code 24)")
            })
    };
    wait_for(&["findings"], &refused);
    wait_for(&["events"], &|text| text.contains("join-refused"));
    let log = rsm.stderr_so_far();
    assert!(
        log.contains("is refused: the rate of its link is 200 Gb/s"),
        "{log}"
    );

    // The operator follows the advice, and the host joins.
    fs::write(&file, partitions("")).expect("there is room");
    rsm.hang_up();
    wait_for(&["findings"], &|text| !text.contains("partition-too-fast"));
    let joined = wait_for_every(POLL, LIMIT, || {
        join(&managed, &mut host, 1).is_ok().then_some(())
    });
    assert!(joined.is_some(), "{}", rsm.stderr_so_far());
    wait_for(&["findings"], &|text| !text.contains("join-refused"));
}
