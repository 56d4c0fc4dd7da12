//! Tests of subscriptions: how many a port may have, how long they last, and which requesters see
//! them.

use super::*;

#[test]
fn subscription_outlives_a_short_absence_of_its_port_but_not_a_long_one() {
    let mut world = serving_world();
    let (hosts, switches) = (world.hosts(), world.switches());
    subscribe(&mut world, hosts[1], &all_of(128)).unwrap();
    let (present, absent) = (world.snapshot.clone(), without_host(&world, hosts[1]));
    world.sa.notice(&link_change(switches[0]), START);
    let before = reports(&mut world, START).pop().unwrap();
    publish(&mut world, &absent, START);
    // After its return, the port gets the report that it has not answered, and reports of the
    // notices since then.
    let mut now = START + (limits::KEEP - Duration::from_millis(1));
    while let Some(due) = world.sa.events().next_deadline().filter(|&due| due < now) {
        world.sa.handle_deadline(due.max(START));
        assert!(reports(&mut world, due.max(START)).is_empty());
    }
    world.sa.notice(&link_change(switches[1]), now);
    assert!(reports(&mut world, now).is_empty());
    publish(&mut world, &present, now);
    let again = reports(&mut world, now).pop().unwrap();
    assert_eq!(notice_in(&again), notice_in(&before));
    answer(&mut world, &again);
    let next = reports(&mut world, now).pop().unwrap();
    assert_eq!(notice_in(&next).notice().issuer_lid(), switches[1]);
    answer(&mut world, &next);
    assert_eq!(world.sa.poll_reregister(), None);

    publish(&mut world, &absent, now);
    now += limits::KEEP;
    world.sa.handle_deadline(now);
    assert!(world.sa.events().is_empty());
    assert_eq!(world.sa.poll_reregister(), None, "the port is absent");
    publish(&mut world, &present, now);
    let lost = BTreeSet::from([world.guid(hosts[1])]);
    assert_eq!(world.sa.poll_reregister(), Some(lost));
    assert_eq!(world.sa.poll_reregister(), None, "only once");
}

#[test]
fn subscriptions_of_one_port_are_refused_beyond_max_per_port() {
    let mut world = serving_world();
    let (hosts, switches) = (world.hosts(), world.switches());
    let mut refused = 0;
    for number in 0..10_000u32 {
        let mut info = all_of(128);
        info.set_vendor_id(number % 5000);
        match send(&mut world, address(hosts[1], QPN + number % 7), &info, 0) {
            Ok(_) => {}
            Err(status) => {
                assert_eq!(status, SaStatus::NO_RESOURCES);
                refused += 1;
            }
        }
    }
    assert_eq!(world.sa.events().len(), limits::MAX_PER_PORT);
    assert_eq!(refused, 10_000 - limits::MAX_PER_PORT);
    // Repeating a subscription adds none, and other ports still have room.
    for _ in 0..10_000 {
        subscribe(&mut world, hosts[2], &all_of(128)).unwrap();
    }
    assert_eq!(world.sa.events().len(), limits::MAX_PER_PORT + 1);
    world.sa.notice(&link_change(switches[0]), START);
    let sent = reports(&mut world, START);
    let to = |lid| {
        sent.iter()
            .filter(|report| report.remote.lid == lid)
            .count()
    };
    assert!(to(hosts[1]) <= 7, "one for each queue pair at most");
    assert_eq!(to(hosts[2]), 1);
}

#[test]
fn invalid_subscriptions_are_refused() {
    let mut world = serving_world();
    let hosts = world.hosts();
    let mut refused = |change: &dyn Fn(&mut InformInfo), status: Status| {
        let mut info = all_of(128);
        change(&mut info);
        assert_eq!(
            subscribe(&mut world, hosts[1], &info),
            Err(status),
            "{info:?}"
        );
    };
    let range = |info: &mut InformInfo, first, last| {
        info.set_lid_range_begin(Lid(first))
            .set_lid_range_end(Lid(last));
    };
    refused(
        &|info| {
            info.set_subscribe(2);
        },
        SaStatus::REQ_INVALID,
    );
    refused(
        &|info| {
            info.set_is_generic(2);
        },
        SaStatus::REQ_INVALID,
    );
    refused(&|info| range(info, 0, 5), SaStatus::REQ_INVALID);
    refused(&|info| range(info, 7, 5), SaStatus::REQ_INVALID);
    refused(&|info| range(info, 0xC000, 0xC001), SaStatus::REQ_INVALID);
    refused(&|info| range(info, 0xB000, 0xBFFF), SaStatus::REQ_INVALID);
    let unknown = Gid::new(PREFIX, rsm_ids::Guid(1));
    refused(
        &|info| {
            info.set_gid(unknown);
        },
        SaStatus::REQ_INVALID_GID,
    );
    for trap in 256..=259 {
        refused(
            &|info| {
                info.set_device_id(trap);
            },
            SaStatus::REQ_INVALID,
        );
    }
    // InformInfo supports only Set, and a truncated Set is refused.
    let got: Result<InformInfo, _> = world.get(ComponentMask::NONE, &all_of(128));
    assert_eq!(got, Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE));
    let mad = SaMad::request(Method::SET, Tid(1), ComponentMask::NONE, &all_of(128));
    let cut = world.handle(&mad.as_bytes()[..56 + 35]).unwrap();
    assert_eq!(cut.status(), SaStatus::REQ_INVALID);
    assert!(world.sa.events().is_empty());
}

#[test]
fn records_show_subscriptions_and_hide_queue_pairs_from_untrusted_requesters() {
    let mut world = partitioned_world();
    let hosts = world.hosts();
    let infos = [all_of(64), all_of(65), all_of(128)];
    for info in &infos {
        subscribe(&mut world, hosts[0], info).unwrap();
        subscribe(&mut world, hosts[1], info).unwrap();
    }
    let mut record = InformInfoRecord::default();
    // The requester is host 0, which does not see the subscriptions of host 1 in another partition.
    let shown = world.table(ComponentMask::NONE, &record);
    assert_eq!(shown.len(), 3);
    for (number, (shown, info)) in shown.iter().zip(&infos).enumerate() {
        assert_eq!(shown.subscriber_gid(), world.gid(hosts[0]));
        assert_eq!(usize::from(shown.enumeration()), number);
        assert_eq!(shown.inform_info(), *info);
    }
    record.set_enumeration(1);
    let one = world.get(InformInfoRecord::ENUM, &record).unwrap();
    assert_eq!(one, shown[1]);
    let mut wanted = InformInfo::default();
    wanted.set_device_id(128).set_qpn(QPN);
    record.set_inform_info(&wanted);
    assert_eq!(
        world.get(InformInfoRecord::TRAP_NUMBER, &record),
        Ok(shown[2])
    );
    let by_qpn = world.get(InformInfoRecord::QPN, &record);
    assert_eq!(by_qpn, Err(SaStatus::NO_RECORDS), "a guess finds nothing");
    // Every component of the record is compared.
    for component in InformInfoRecord::COMPONENTS {
        assert_eq!(
            world.get(component.mask | InformInfoRecord::ENUM, &shown[1]),
            Ok(shown[1])
        );
        let mut bytes = shown[1].as_bytes().to_vec();
        let last = component.offset + component.width - 1;
        bytes[usize::from(last / 8)] ^= 0x80 >> (last % 8);
        let other = *InformInfoRecord::from_prefix(&bytes).unwrap();
        let differing = world.table(component.mask | InformInfoRecord::ENUM, &other);
        assert!(!differing.contains(&shown[1]), "{}", component.name);
    }
    let all: Vec<InformInfoRecord> = world
        .ask_with(
            Method::GET_TABLE,
            ComponentMask::NONE,
            &InformInfoRecord::default(),
            |header| {
                header.set_sm_key(SM_KEY);
            },
        )
        .unwrap();
    assert_eq!(all.len(), 6);
    assert!(all.iter().all(|record| record.inform_info().qpn() == QPN));
}

#[test]
fn subscriptions_survive_a_restart() {
    let mut world = serving_world();
    let (hosts, switches) = (world.hosts(), world.switches());
    subscribe(&mut world, hosts[1], &all_of(128)).unwrap();
    send(&mut world, address(hosts[2], 1), &all_of(65), SM_KEY).unwrap();
    let saved: Vec<_> = world.sa.events().view().save().collect();
    assert_eq!(saved.len(), 2);

    let mut after = Sa::new(SaConfig {
        sm_key: SM_KEY,
        ..SaConfig::default()
    });
    let mut twice = saved.clone();
    twice.extend(saved.clone());
    let mut broken = saved[0];
    broken.number = 9;
    broken.info.set_is_generic(7);
    twice.push(broken);
    // Subscriptions that exist already or are invalid are skipped.
    assert_eq!(restore(&mut after, twice), 3);
    assert!(after.events().view().save().eq(saved));
    world.sa = after;
    let snapshot = world.snapshot.clone();
    publish(&mut world, &snapshot, START);
    assert!(
        reports(&mut world, START).is_empty(),
        "ports that were present cause no report"
    );
    world.sa.notice(&link_change(switches[0]), START);
    let report = reports(&mut world, START).pop().unwrap();
    assert_eq!(trap_of(&report), (128, hosts[1]));
    // A port that does not return in time loses its subscriptions.
    let mut world = serving_world();
    assert_eq!(restore(&mut world.sa, saved_of_unknown_port()), 0);
    world.sa.handle_deadline(START + Duration::from_secs(3600));
    assert!(world.sa.events().is_empty());
}

#[test]
fn saved_subscribers_are_not_trusted_if_the_sa_has_no_sm_key() {
    let mut world = serving_world();
    let host = world.hosts()[2];
    send(&mut world, address(host, 1), &all_of(65), SM_KEY).unwrap();
    let saved: Vec<_> = world.sa.events().view().save().collect();
    assert!(saved[0].trusted);
    let mut after = Sa::new(SaConfig::default());
    assert_eq!(restore(&mut after, saved), 0);
    let restored: Vec<_> = after.events().view().save().collect();
    assert_eq!(restored.len(), 1);
    assert!(!restored[0].trusted);
}

/// Restores saved subscriptions. Returns the number of skipped ones.
fn restore(sa: &mut Sa, subscriptions: Vec<SavedSubscription>) -> usize {
    let saved = SavedSaState {
        subscriptions,
        ..SavedSaState::default()
    };
    sa.restore(saved, START)
}

/// A saved subscription of a port that the subnet does not have.
fn saved_of_unknown_port() -> Vec<SavedSubscription> {
    vec![SavedSubscription {
        port: rsm_ids::Guid(42),
        number: 3,
        gid: Gid(7),
        address: address(Lid(5), 1),
        p_key: None,
        trusted: false,
        info: all_of(64),
    }]
}
