//! Tests that notices are reported to subscribers, and that reports are answered.

use super::*;

#[test]
fn port_that_vanishes_and_returns_is_reported_to_subscribers() {
    let mut world = serving_world();
    let hosts = world.hosts();
    let mut info = all_of(64);
    info.set_resp_time_value(31);
    let answered = subscribe(&mut world, hosts[0], &info).unwrap();
    assert_eq!(answered, info, "a copy of the request (o13-12.1.1)");
    subscribe(&mut world, hosts[0], &all_of(65)).unwrap();
    subscribe(&mut world, hosts[1], &all_of(InformInfo::ALL)).unwrap();
    assert!(
        reports(&mut world, START).is_empty(),
        "nothing has changed yet"
    );
    let before = world.sa.events().counters().notices;

    let (present, absent) = (world.snapshot.clone(), without_host(&world, hosts[3]));
    publish(&mut world, &absent, START);
    let sent = reports(&mut world, START);
    assert_eq!(
        sent.iter().map(trap_of).collect::<Vec<_>>(),
        [(65, hosts[0]), (65, hosts[1])]
    );
    let notice = notice_in(&sent[0]);
    let about = notice.notice();
    let TrapDetails::GidChange(change) = about.details() else {
        panic!("{notice:?}");
    };
    assert_eq!(change.gid(), world.gid(hosts[3]));
    assert_eq!(notice.notice().producer_type(), ProducerType::CLASS_MANAGER);
    assert_eq!(notice.notice().notice_type(), NoticeType::SubnetManagement);
    let manager = world.snapshot.plan.as_ref().unwrap().sm_lid;
    assert_eq!(notice.notice().issuer_lid(), manager);
    assert_eq!(notice.issuer_gid(), world.gid(manager));
    assert_eq!(sent[0].remote, address(hosts[0], QPN));
    assert_eq!(sent[0].patience, limits::SHORTEST_WAIT);

    // The port returns at once: the report waits for the end of the quiet time.
    publish(&mut world, &present, START);
    for report in &sent {
        answer(&mut world, report);
    }
    assert!(reports(&mut world, START).is_empty());
    let later = START + limits::QUIET;
    assert_eq!(world.sa.events().next_deadline(), Some(later));
    world.sa.handle_deadline(later);
    let sent = reports(&mut world, later);
    assert_eq!(
        sent.iter().map(trap_of).collect::<Vec<_>>(),
        [(64, hosts[0]), (64, hosts[1])]
    );
    for report in &sent {
        answer(&mut world, report);
    }
    let counters = world.sa.events().counters();
    assert_eq!((counters.notices - before, counters.answered), (2, 4));
    assert_eq!((counters.stray, counters.unanswered), (0, 0));

    // One subscription is left after these two end.
    unsubscribe(&mut world, hosts[0], &info).unwrap();
    assert_eq!(
        unsubscribe(&mut world, hosts[0], &info),
        Err(SaStatus::REQ_INVALID)
    );
    unsubscribe(&mut world, hosts[1], &all_of(InformInfo::ALL)).unwrap();
    assert_eq!(world.sa.events().len(), 1);
    let much_later = later + limits::QUIET * 2;
    world.sa.handle_deadline(much_later);
    publish(&mut world, &absent, much_later);
    let sent = reports(&mut world, much_later);
    assert_eq!(
        sent.iter().map(trap_of).collect::<Vec<_>>(),
        [(65, hosts[0])]
    );
}

#[test]
fn traps_of_a_switch_are_forwarded_to_matching_subscriptions() {
    let mut world = serving_world();
    let (hosts, switches) = (world.hosts(), world.switches());
    let of = |change: &dyn Fn(&mut InformInfo)| {
        let mut info = all_of(128);
        change(&mut info);
        info
    };
    let gid = world.gid(switches[0]);
    let other = world.gid(switches[1]);
    let (first, last) = (Lid(switches[0].0), Lid(switches[0].0));
    let wanted: Vec<(InformInfo, bool)> = vec![
        (of(&|_| ()), true),
        (
            of(&|info| {
                info.set_device_id(144);
            }),
            false,
        ),
        (
            of(&|info| {
                info.set_notice_type(1);
            }),
            true,
        ),
        (
            of(&|info| {
                info.set_notice_type(3);
            }),
            false,
        ),
        (
            of(&|info| {
                info.set_vendor_id(2);
            }),
            true,
        ),
        (
            of(&|info| {
                info.set_vendor_id(1);
            }),
            false,
        ),
        (
            of(&|info| {
                info.set_is_generic(0);
            }),
            false,
        ),
        (
            of(&|info| {
                info.set_gid(gid);
            }),
            true,
        ),
        (
            of(&|info| {
                info.set_gid(other);
            }),
            false,
        ),
        (
            of(&|info| {
                info.set_lid_range_begin(first).set_lid_range_end(last);
            }),
            true,
        ),
        (
            of(&|info| {
                info.set_lid_range_begin(first);
            }),
            true,
        ),
        (
            of(&|info| {
                info.set_lid_range_begin(hosts[0]);
            }),
            false,
        ),
    ];
    for (number, (info, _)) in wanted.iter().enumerate() {
        let from = address(hosts[1], QPN + number as u32);
        send(&mut world, from, info, 0).unwrap();
    }
    let notice = link_change(switches[0]);
    world.sa.notice(&notice, START);
    let mut reported_to = BTreeSet::new();
    loop {
        let sent = reports(&mut world, START);
        if sent.is_empty() {
            break;
        }
        for report in &sent {
            assert_eq!(notice_in(report).notice(), notice);
            assert_eq!(notice_in(report).issuer_gid(), gid);
            reported_to.insert(report.remote.qpn);
            answer(&mut world, report);
        }
    }
    let expected = wanted
        .iter()
        .enumerate()
        .filter(|(_, (_, matches))| *matches);
    let expected: BTreeSet<u32> = expected.map(|(number, _)| QPN + number as u32).collect();
    assert_eq!(reported_to, expected);
    // A trap of an unknown port goes to no subscriber.
    world.sa.notice(&link_change(Lid(0xBFFF)), START);
    assert!(reports(&mut world, START).is_empty());
    assert_eq!(world.sa.counters().unknown_issuers, 1);
}

#[test]
fn storm_of_traps_is_reported_once_per_quiet_time() {
    let mut world = serving_world();
    let (hosts, switches) = (world.hosts(), world.switches());
    subscribe(&mut world, hosts[1], &all_of(128)).unwrap();
    let mut now = START;
    let mut sent = 0;
    for _ in 0..1000 {
        world.sa.notice(&link_change(switches[0]), now);
        for report in reports(&mut world, now) {
            sent += 1;
            answer(&mut world, &report);
        }
        now += Duration::from_millis(5);
        world.sa.handle_deadline(now);
    }
    now += limits::QUIET;
    world.sa.handle_deadline(now);
    for report in reports(&mut world, now) {
        sent += 1;
        answer(&mut world, &report);
    }
    // Six reports in five seconds: the first one, and one in each second after it.
    assert_eq!(sent, 6);
    world.sa.handle_deadline(now + limits::QUIET);
    assert_eq!(
        world.sa.events().next_deadline().filter(|&due| due > now),
        None
    );
}

#[test]
fn slow_subscriber_gets_only_the_last_notice_of_each_subject() {
    let mut world = serving_world();
    let (hosts, switches) = (world.hosts(), world.switches());
    subscribe(&mut world, hosts[1], &all_of(InformInfo::ALL)).unwrap();
    let (present, absent) = (world.snapshot.clone(), without_host(&world, hosts[3]));
    publish(&mut world, &absent, START);
    let first = reports(&mut world, START);
    assert_eq!(first.len(), 1);
    let mut now = START;
    for round in 0..10 {
        now += limits::QUIET;
        world.sa.handle_deadline(now);
        let snapshot = if round % 2 == 0 { &present } else { &absent };
        publish(&mut world, snapshot, now);
        world.sa.notice(&link_change(switches[1]), now);
        // The slow subscriber gets only repetitions of the first report until it answers.
        for report in reports(&mut world, now) {
            assert_eq!(notice_in(&report), notice_in(&first[0]));
            assert_eq!(report.mad, first[0].mad, "the same transaction");
        }
        if round == 1 {
            answer(&mut world, &first[0]);
            break;
        }
    }
    // One link state change, and the port that vanished again; its return in between is not
    // reported.
    let second = reports(&mut world, now);
    assert_eq!(second.len(), 1);
    answer(&mut world, &second[0]);
    let third = reports(&mut world, now);
    answer(&mut world, &third[0]);
    assert!(reports(&mut world, now).is_empty());
    let traps: BTreeSet<u16> = [&second[0], &third[0]].map(|r| trap_of(r).0).into();
    assert_eq!(traps, BTreeSet::from([65, 128]));
}

#[test]
fn unanswered_reports_end_the_subscription() {
    let mut world = serving_world();
    let (hosts, switches) = (world.hosts(), world.switches());
    subscribe(&mut world, hosts[1], &all_of(128)).unwrap();
    subscribe(&mut world, hosts[2], &all_of(128)).unwrap();
    world.sa.notice(&link_change(switches[0]), START);
    let first = reports(&mut world, START);
    assert_eq!(first.len(), 2);
    // No other port or queue pair can answer the report, and no other transaction ID.
    answer_from(&mut world, &first[0], address(hosts[2], QPN));
    answer_from(&mut world, &first[0], address(hosts[1], 1));
    let mut wrong = first[0].clone();
    SaMad::from_bytes_mut(&mut wrong.mad)
        .header
        .mad_mut()
        .set_tid(Tid(0xFFFF));
    answer(&mut world, &wrong);
    assert_eq!(world.sa.events().counters().stray, 3);
    answer(&mut world, &first[1]);
    let mut now = START;
    let mut attempts = 1;
    while let Some(due) = world.sa.events().next_deadline().filter(|_| attempts < 100) {
        now = now.max(due);
        world.sa.handle_deadline(now);
        for report in reports(&mut world, now) {
            assert_eq!(report.remote.lid, hosts[1]);
            assert_eq!(report.mad, first[0].mad, "the same transaction");
            attempts += 1;
        }
    }
    assert_eq!(attempts, limits::ATTEMPTS);
    let waited = now.since(START);
    assert!(waited < limits::LONGEST_WAIT * (limits::ATTEMPTS + 1));
    assert_eq!(world.sa.events().len(), 1);
    assert_eq!(world.sa.events().counters().unanswered, 1);
    // The SA does not ask the host to register again: the program has ended, and all other programs
    // of the host would have to register again.
    assert_eq!(world.sa.poll_reregister(), None);
    // A late answer matches no report.
    answer(&mut world, &first[0]);
    assert_eq!(world.sa.events().counters().stray, 4);
}

#[test]
fn reports_are_sent_again_after_the_transport_gave_up() {
    let mut world = serving_world();
    let (hosts, switches) = (world.hosts(), world.switches());
    subscribe(&mut world, hosts[1], &all_of(128)).unwrap();
    world.sa.notice(&link_change(switches[0]), START);
    let first = reports(&mut world, START).pop().unwrap();
    let tid = SaMad::from_bytes(&first.mad).header.mad().tid();
    for attempt in 1..limits::ATTEMPTS {
        // The upper half of the TID belongs to the kernel.
        world.sa.unanswered(Tid(tid.0 | 7 << 32));
        world.sa.unanswered(tid);
        assert_eq!(reports(&mut world, START).len(), 1, "attempt {attempt}");
    }
    world.sa.unanswered(tid);
    assert!(world.sa.events().is_empty());
    assert!(reports(&mut world, START).is_empty());
}

#[test]
fn port_that_answers_no_reports_has_few_in_flight_and_delays_no_others() {
    let mut world = serving_world();
    let (hosts, switches) = (world.hosts(), world.switches());
    let count = limits::MAX_PER_PORT as u32;
    for number in 0..count {
        send(&mut world, address(hosts[1], QPN + number), &all_of(128), 0).unwrap();
    }
    subscribe(&mut world, hosts[2], &all_of(128)).unwrap();
    world.sa.notice(&link_change(switches[0]), START);
    let mut sent = reports(&mut world, START);
    let of_silent = |report: &&NoticeReport| report.remote.lid == hosts[1];
    assert_eq!(
        sent.iter().filter(of_silent).count(),
        limits::MAX_REPORTS_PER_PORT
    );
    let to_other = sent.extract_if(.., |report| report.remote.lid == hosts[2]);
    assert_eq!(to_other.count(), 1);
    assert!(
        world.sa.events().next_deadline() > Some(START),
        "parked subscribers are no work"
    );
    // Each report that ends makes room for the next subscriber of the port.
    let mut served = BTreeSet::new();
    while let Some(report) = sent.pop() {
        assert!(
            served.insert(report.remote.qpn),
            "one report for each queue pair"
        );
        answer(&mut world, &report);
        let next = reports(&mut world, START);
        assert!(next.len() <= 1);
        sent.extend(next);
    }
    assert_eq!(served, (QPN..QPN + count).collect());
}

#[test]
fn notices_that_a_port_appeared_or_vanished_have_the_same_subject() {
    let world = serving_world();
    let directory = crate::Directory::of(&world.snapshot, None).unwrap();
    let port = |lid, up| {
        let ix = directory.by_lid(lid).unwrap();
        PublishedNotice::of_port(&directory, ix, up).subject()
    };
    let hosts = world.hosts();
    assert_eq!(port(hosts[0], true), port(hosts[0], false));
    assert_ne!(port(hosts[0], true), port(hosts[1], true));
}
