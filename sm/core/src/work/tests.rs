use rsm_ids::PortNum;

use super::*;

const SWITCH: Guid = Guid(7);
const PORT: PortKey = PortKey::new(Guid(9), PortNum(1));

fn at(milliseconds: u64) -> Time {
    Time::ZERO + Duration::from_millis(milliseconds)
}

fn targets(switches: &[Guid], ports: &[PortKey], unread: &[PortKey], repair: bool) -> Option<Next> {
    Some(Next::Targets {
        switches: switches.iter().copied().collect(),
        ports: ports.iter().copied().collect(),
        unread: unread.iter().copied().collect(),
        repair,
    })
}

#[test]
fn full_sweep_replaces_all_other_waiting_sweeps() {
    let mut work = Work::default();
    work.sweep_switch(SWITCH, "trap");
    work.read_port(PORT);
    work.read_again([PORT]);
    work.sweep_lightly();
    work.sweep_everything(FullSweep::before_writing(false), "requested");
    work.sweep_everything(FullSweep::in_use(true), "requested");
    assert_eq!(work.take_next(), Some(Next::Everything { audit: true }));
    assert_eq!(work.take_next(), None);
    assert!(work.is_empty());
}

#[test]
fn reported_changes_go_before_a_full_sweep_four_times() {
    let mut work = Work::default();
    work.sweep_switch(SWITCH, "trap");
    work.sweep_everything(FullSweep::in_use(true), "requested");
    for round in 0..GIVES_WAY {
        assert_eq!(
            work.take_next(),
            targets(&[SWITCH], &[], &[], false),
            "{round}"
        );
        assert!(work.owes_full_sweep());
        assert!(!work.is_urgent(), "the push for the change goes on");
        if round % 2 == 0 {
            assert_eq!(work.take_next(), Some(Next::Everything { audit: true }));
            assert!(
                work.take_cause()
                    .starts_with("the full sweep that gave way")
            );
            assert!(!work.full_sweep_gives_way(), "nothing is reported");
            work.sweep_switch(SWITCH, "trap");
            assert!(work.full_sweep_gives_way(), "{round}");
            work.sweep_everything_after_reports();
        } else {
            work.sweep_switch(SWITCH, "trap");
        }
    }
    assert_eq!(work.take_next(), Some(Next::Everything { audit: true }));
    work.sweep_switch(SWITCH, "trap");
    assert!(!work.full_sweep_gives_way());
    assert!(!work.owes_full_sweep());
}

#[test]
fn sweep_before_writing_never_gives_way_and_replaces_a_sweep_that_gave_way() {
    let mut work = Work::default();
    work.sweep_everything(FullSweep::in_use(true), "requested");
    work.take_next();
    work.sweep_switch(SWITCH, "trap");
    work.sweep_everything_after_reports();
    work.sweep_everything(FullSweep::before_writing(false), "the local port came up");
    assert!(work.is_urgent());
    assert_eq!(work.take_next(), Some(Next::Everything { audit: true }));
    work.sweep_switch(SWITCH, "trap");
    assert!(!work.full_sweep_gives_way());
    assert_eq!(work.take_next(), targets(&[SWITCH], &[], &[], false));
    assert_eq!(work.take_next(), None);
}

/// No plan follows a sweep that finds no change, so the wanted plan must stay queued.
#[test]
fn sweep_leaves_a_wanted_plan_waiting() {
    let mut work = Work::default();
    work.plan_again("a flapping link is quiet");
    work.sweep_everything(FullSweep::in_use(false), "requested");
    assert_eq!(work.take_next(), Some(Next::Everything { audit: false }));
    work.sweep_switch(SWITCH, "trap");
    assert_eq!(work.take_next(), targets(&[SWITCH], &[], &[], false));
    assert!(work.wants_plan());
    work.record_plan();
    assert_eq!(work.take_next(), None);
    work.plan_again("a flapping link is quiet");
    assert_eq!(work.take_next(), Some(Next::Plan));
    assert!(work.is_empty());
}

#[test]
fn targets_precede_light_sweep_and_master_poll() {
    let mut work = Work::default();
    work.sweep_lightly();
    work.read_again([PORT]);
    work.sweep_switch(SWITCH, "trap");
    assert_eq!(work.take_next(), targets(&[SWITCH], &[], &[PORT], false));
    assert_eq!(work.take_next(), Some(Next::Lightly));
    work.poll_master();
    assert_eq!(work.take_next(), Some(Next::Master));
    assert_eq!(work.take_next(), None);
}

#[test]
fn switch_queued_twice_for_later_is_swept_at_the_first_time() {
    let mut work = Work::default();
    work.sweep_switch_at(SWITCH, at(50));
    work.sweep_switch_at(SWITCH, at(90));
    work.sweep_switch_at(Guid(8), at(90));
    work.sweep_switch_at(Guid(8), at(60));
    assert!(!work.is_due() && !work.is_empty());
    assert_eq!(work.next_wake(), Some(at(50)), "the earlier time applies");
    work.wake(at(49));
    assert_eq!(work.take_next(), None);
    work.wake(at(50));
    assert_eq!(work.take_next(), targets(&[SWITCH], &[], &[], false));
    assert_eq!(work.next_wake(), Some(at(60)), "the earlier time applies");
    work.wake(at(60));
    assert_eq!(work.take_next(), targets(&[Guid(8)], &[], &[], false));
    assert!(work.is_empty());
}

/// The trap may say that the device is back, for which the repair waits.
#[test]
fn trap_does_not_wait_for_the_repair_of_its_switch() {
    let mut work = Work::default();
    work.repair([SWITCH], at(0));
    work.sweep_switch_at(SWITCH, at(50));
    assert_eq!(work.next_wake(), Some(at(50)));
}

#[test]
fn light_sweep_gives_way_four_times() {
    let mut work = Work::default();
    work.sweep_lightly();
    for round in 0..GIVES_WAY {
        work.sweep_switch(SWITCH, "trap");
        assert_eq!(
            work.take_next(),
            targets(&[SWITCH], &[], &[], false),
            "{round}"
        );
        work.sweep_lightly();
    }
    work.sweep_switch(SWITCH, "trap");
    assert_eq!(work.take_next(), Some(Next::Lightly));
    assert_eq!(work.take_next(), targets(&[SWITCH], &[], &[], false));
    assert_eq!(work.take_next(), None);
}

#[test]
fn ticket_waits_for_eight_passes_that_urgent_work_follows() {
    let mut work = Work::default();
    work.add_ticket(1);
    for _ in 1..TICKET_PASSES {
        assert_eq!(work.take_overdue_tickets(), Vec::<Ticket>::new());
    }
    work.add_ticket(2);
    assert_eq!(work.take_overdue_tickets(), [1]);
    assert_eq!(work.take_tickets(), [2]);
    assert_eq!(work.take_tickets(), Vec::<Ticket>::new());
}

#[test]
fn incomplete_sweep_is_repeated_when_a_missed_node_answers() {
    let mut work = Work::default();
    work.record_coverage(true, BTreeSet::from([SWITCH]));
    work.repeat_uncovered_sweep(|node| node != SWITCH);
    assert!(!work.is_covered() && work.is_empty());
    work.repeat_uncovered_sweep(|node| node == SWITCH);
    assert_eq!(work.take_next(), Some(Next::Everything { audit: true }));
    work.record_coverage(true, BTreeSet::new());
    assert!(work.is_covered());
}

#[test]
fn repair_pause_grows_until_a_repair_succeeds() {
    let mut work = Work::default();
    let mut now = Time::ZERO;
    let mut pauses = Vec::new();
    for _ in 0..12 {
        work.repair([SWITCH], now);
        let due = work.next_wake().unwrap();
        pauses.push(due.since(now));
        now = due;
        work.wake(now);
        assert_eq!(work.take_next(), targets(&[SWITCH], &[], &[], true));
    }
    assert_eq!(pauses[0], REPAIR_FIRST);
    assert!(pauses.is_sorted());
    assert_eq!(pauses.last(), Some(&REPAIR_LAST));
    work.end_repairs();
    work.repair([], now);
    assert_eq!(work.next_wake(), Some(now + REPAIR_FIRST));
}

/// Pushes that fail at shorter intervals than the pause must not put the repair off again and
/// again.
#[test]
fn second_failure_does_not_delay_a_repair() {
    let mut work = Work::default();
    work.repair([SWITCH], at(0));
    work.repair([SWITCH], at(100));
    assert_eq!(work.next_wake(), Some(at(250)));
    work.wake(at(250));
    assert_eq!(work.take_next(), targets(&[SWITCH], &[], &[], true));
    // Nor does it lengthen the next pause.
    work.repair([SWITCH], at(300));
    assert_eq!(work.next_wake(), Some(at(800)));
}

#[test]
fn postponed_work_waits_despite_new_work() {
    let mut work = Work::default();
    work.sweep_everything(FullSweep::before_writing(false), "start");
    work.postpone(at(0));
    work.sweep_switch(SWITCH, "trap");
    assert_eq!(work.take_next(), None);
    let due = work.next_wake().unwrap();
    work.wake(due);
    assert_eq!(work.take_next(), Some(Next::Everything { audit: false }));
}

#[test]
fn causes_of_a_trap_storm_are_cut_to_three() {
    let mut work = Work::default();
    for switch in 0..100 {
        work.sweep_switch(Guid(switch), format!("trap 128 from {switch}"));
        work.sweep_switch(Guid(switch), "again");
    }
    assert_eq!(
        work.take_cause(),
        "trap 128 from 0; trap 128 from 1; trap 128 from 2; and 97 more"
    );
    assert_eq!(work.take_cause(), "");
}

#[test]
fn changed_switch_is_urgent_and_changed_port_is_not() {
    let mut work = Work::default();
    work.read_port(PORT);
    work.read_again([PORT]);
    assert!(work.is_due() && !work.is_urgent());
    work.sweep_switch(SWITCH, "trap");
    assert!(work.is_urgent());
}

#[test]
fn succession_precedes_reports_and_a_full_sweep_replaces_it() {
    let mut work = Work::default();
    work.sweep_switch(Guid(1), "trap");
    work.queue_succession("the master is gone");
    assert!(work.is_urgent());
    assert_eq!(work.take_next(), Some(Next::Succession));
    assert!(matches!(work.take_next(), Some(Next::Targets { .. })));
    work.queue_succession("the master is gone");
    work.sweep_everything(FullSweep::in_use(false), "the local port came up");
    assert_eq!(work.take_next(), Some(Next::Everything { audit: false }));
    assert_eq!(work.take_next(), None);
}

#[test]
fn refused_reporters_are_offered_again_only_after_a_new_report_or_to_another_sweep() {
    let [a, b] = [1, 2].map(|guid| Reporter::Switch(Guid(guid)));
    let port = PortKey::new(Guid(3), PortNum(1));
    let mut work = Work::default();
    work.sweep_switch(Guid(1), "a trap");
    let mut offered = Vec::new();
    let mut offer = |work: &mut Work| {
        work.offer(|reporter| {
            offered.push(reporter);
            false
        });
        std::mem::take(&mut offered)
    };
    assert_eq!(offer(&mut work), [a]);
    assert_eq!(offer(&mut work), []);
    work.sweep_switch(Guid(2), "a trap");
    assert_eq!(offer(&mut work), [a, b]);
    assert_eq!(offer(&mut work), []);
    work.read_port(port);
    assert_eq!(offer(&mut work), [a, b, Reporter::Port(port)]);
    work.read_port(port);
    assert_eq!(offer(&mut work).len(), 3);
    assert_eq!(offer(&mut work), []);
    assert!(
        work.take_next().is_some(),
        "they wait for a sweep of their own"
    );
    work.sweep_switch(Guid(1), "a trap");
    assert_eq!(offer(&mut work), [a]);
}
