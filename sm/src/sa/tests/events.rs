//! Events as hosts subscribe to them and are told of them.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::*;
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::sa::*;

use super::world::{SM_KEY, SMALL, World, records};
use crate::core::snapshot::Snapshot;
use crate::fabric::Fabric;
use crate::sa::events::{News, Report, SavedSubscription, limits};
use crate::sa::{Administration, Config, Remembered, Request};

const START: Time = Time::from_nanos(1_000_000_000);

/// The queue pair of a program that has one of its own.
const QPN: u32 = 0x1234;

/// All generic notices of `trap`.
fn all_of(trap: u16) -> InformInfo {
    let mut info = InformInfo::default();
    info.set_lid_range_begin(InformInfo::LID_RANGE_ALL)
        .set_is_generic(1)
        .set_subscribe(1)
        .set_notice_type(InformInfo::ALL)
        .set_device_id(trap)
        .set_vendor_id(InformInfo::ALL_PRODUCERS);
    info
}

fn address(lid: Lid, qpn: u32) -> RemoteAddress {
    RemoteAddress {
        qpn,
        ..RemoteAddress::gsi(lid, 0)
    }
}

fn send(
    world: &mut World,
    from: RemoteAddress,
    info: &InformInfo,
    sm_key: u64,
) -> Result<InformInfo, Status> {
    let mut mad = SaMad::request(Method::SET, Tid(77), ComponentMask::NONE, info);
    mad.header.set_sm_key(sm_key);
    let request = Request {
        bytes: mad.as_bytes(),
        requester: from,
    };
    let answer = world.sa.handle(request, START);
    let answer = answer.expect("every request is answered");
    assert_eq!(answer.header().mad().method(), Method::GET_RESPONSE);
    records(answer).map(|records| records[0])
}

fn set(world: &mut World, host: Lid, info: &InformInfo) -> Result<InformInfo, Status> {
    send(world, address(host, QPN), info, 0)
}

fn unset(world: &mut World, host: Lid, info: &InformInfo) -> Result<InformInfo, Status> {
    let mut info = *info;
    info.set_subscribe(0).set_qpn(QPN);
    set(world, host, &info)
}

/// What is to be sent now.
fn reports(world: &mut World, now: Time) -> Vec<Report> {
    std::iter::from_fn(|| world.sa.poll_report(now)).collect()
}

fn told(report: &Report) -> SaNotice {
    let mad = SaMad::from_bytes(&report.mad);
    let header = mad.header.mad();
    assert_eq!(
        (header.method(), header.attribute()),
        (Method::REPORT, AttrId::NOTICE)
    );
    assert_eq!(header.class_version(), CLASS_VERSION);
    *SaNotice::from_prefix(&mad.data).unwrap()
}

fn trap_of(report: &Report) -> (u16, Lid) {
    (told(report).notice().trap_number().0, report.remote.lid)
}

/// A subscriber at `from` answers.
fn answer_from(world: &mut World, report: &Report, from: RemoteAddress) {
    let mut mad = *SaMad::from_bytes(&report.mad);
    mad.header.mad_mut().set_method(Method::REPORT_RESPONSE);
    let request = Request {
        bytes: mad.as_bytes(),
        requester: from,
    };
    let none = world.sa.handle(request, START);
    assert!(none.is_none());
}

fn answer(world: &mut World, report: &Report) {
    answer_from(world, report, report.remote);
}

fn link_change(issuer: Lid) -> Notice {
    let mut details = LinkStateChange::default();
    details.set_lid(issuer);
    let switch = ProducerType::SWITCH;
    let trap = Trap::LINK_STATE_CHANGED;
    Notice::generic(NoticeType::Urgent, switch, trap, issuer, &details)
}

/// The snapshot of `world` without the host with this LID.
fn without(world: &World, lid: Lid) -> Snapshot {
    let guid = world.guid(lid);
    let mut fabric = Fabric::clone(world.fabric());
    let ports = fabric.nodes.iter_mut().flat_map(|node| &mut node.ports);
    for port in ports.filter(|port| port.guid == guid) {
        port.info = None;
    }
    let mut snapshot = world.snapshot.clone();
    snapshot.fabric = std::sync::Arc::new(fabric);
    snapshot
}

fn stand(world: &mut World, snapshot: &Snapshot, now: Time) {
    world.sa.replace(snapshot);
    world.sa.handle_deadline(now);
}

fn up() -> World {
    let mut world = World::new(SMALL);
    world.sa.handle_deadline(START);
    world
}

#[test]
fn a_port_that_goes_and_comes_back_is_reported_to_subscribers() {
    let mut world = up();
    let hosts = world.hosts();
    let mut info = all_of(64);
    info.set_resp_time_value(31);
    let answered = set(&mut world, hosts[0], &info).unwrap();
    assert_eq!(answered, info, "a copy of the request (o13-12.1.1)");
    set(&mut world, hosts[0], &all_of(65)).unwrap();
    set(&mut world, hosts[1], &all_of(InformInfo::ALL)).unwrap();
    assert!(reports(&mut world, START).is_empty(), "nothing is news yet");
    let before = world.sa.events().counters().notices;

    let (whole, less) = (world.snapshot.clone(), without(&world, hosts[3]));
    stand(&mut world, &less, START);
    let sent = reports(&mut world, START);
    assert_eq!(
        sent.iter().map(trap_of).collect::<Vec<_>>(),
        [(65, hosts[0]), (65, hosts[1])]
    );
    let notice = told(&sent[0]);
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

    // Back at once: that is said after a while, when it is known whether it stays.
    stand(&mut world, &whole, START);
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

    // Taken back, one is left.
    unset(&mut world, hosts[0], &info).unwrap();
    assert_eq!(
        unset(&mut world, hosts[0], &info),
        Err(SaStatus::REQ_INVALID)
    );
    unset(&mut world, hosts[1], &all_of(InformInfo::ALL)).unwrap();
    assert_eq!(world.sa.events().len(), 1);
    let much_later = later + limits::QUIET * 2;
    world.sa.handle_deadline(much_later);
    stand(&mut world, &less, much_later);
    let sent = reports(&mut world, much_later);
    assert_eq!(
        sent.iter().map(trap_of).collect::<Vec<_>>(),
        [(65, hosts[0])]
    );
}

#[test]
fn what_a_switch_reports_is_forwarded_to_who_asked_for_it() {
    let mut world = up();
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
    let told_to: BTreeSet<u32> = reports(&mut world, START)
        .iter()
        .map(|report| {
            assert_eq!(told(report).notice(), notice);
            assert_eq!(told(report).issuer_gid(), gid);
            report.remote.qpn
        })
        .collect();
    let expected = wanted.iter().enumerate().filter(|(_, (_, told))| *told);
    let expected: BTreeSet<u32> = expected.map(|(number, _)| QPN + number as u32).collect();
    assert_eq!(told_to, expected);
    // Of a port that nobody knows nobody is told.
    world.sa.notice(&link_change(Lid(0xBFFF)), START);
    assert!(reports(&mut world, START).is_empty());
    assert_eq!(world.sa.counters().unknown_issuers, 1);
}

#[test]
fn a_storm_is_told_once_and_at_its_end() {
    let mut world = up();
    let (hosts, switches) = (world.hosts(), world.switches());
    set(&mut world, hosts[1], &all_of(128)).unwrap();
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
    // Five seconds: the first, and one in each second after that.
    assert_eq!(sent, 6);
    world.sa.handle_deadline(now + limits::QUIET);
    assert_eq!(
        world.sa.events().next_deadline().filter(|&due| due > now),
        None
    );
}

#[test]
fn who_is_slow_hears_the_last_of_each_thing_and_one_thing_at_a_time() {
    let mut world = up();
    let (hosts, switches) = (world.hosts(), world.switches());
    set(&mut world, hosts[1], &all_of(InformInfo::ALL)).unwrap();
    let (whole, less) = (world.snapshot.clone(), without(&world, hosts[3]));
    stand(&mut world, &less, START);
    let first = reports(&mut world, START);
    assert_eq!(first.len(), 1);
    let mut now = START;
    for round in 0..10 {
        now += limits::QUIET;
        world.sa.handle_deadline(now);
        let snapshot = if round % 2 == 0 { &whole } else { &less };
        stand(&mut world, snapshot, now);
        world.sa.notice(&link_change(switches[1]), now);
        // It is alive, and answers what is sent again; only too late for what is new.
        for report in reports(&mut world, now) {
            assert_eq!(told(&report), told(&first[0]));
            assert_eq!(report.mad, first[0].mad, "the same transaction");
        }
        if round == 1 {
            answer(&mut world, &first[0]);
            break;
        }
    }
    // One link state change, and the port that is gone again: that it was there meanwhile matters no more.
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
fn a_report_that_nobody_answers_ends_the_subscription() {
    let mut world = up();
    let (hosts, switches) = (world.hosts(), world.switches());
    set(&mut world, hosts[1], &all_of(128)).unwrap();
    set(&mut world, hosts[2], &all_of(128)).unwrap();
    world.sa.notice(&link_change(switches[0]), START);
    let first = reports(&mut world, START);
    assert_eq!(first.len(), 2);
    // Nobody can answer for another, nor in another transaction.
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
    // Its host is not asked to register anew: the program is gone, and the others would suffer.
    assert_eq!(world.sa.poll_reregister(), None);
    // Who answers late is nobody.
    answer(&mut world, &first[0]);
    assert_eq!(world.sa.events().counters().stray, 4);
}

#[test]
fn the_transport_says_when_it_gives_up() {
    let mut world = up();
    let (hosts, switches) = (world.hosts(), world.switches());
    set(&mut world, hosts[1], &all_of(128)).unwrap();
    world.sa.notice(&link_change(switches[0]), START);
    let first = reports(&mut world, START).pop().unwrap();
    let tid = SaMad::from_bytes(&first.mad).header.mad().tid();
    for attempt in 1..limits::ATTEMPTS {
        // The upper half is the kernel's.
        world.sa.unanswered(Tid(tid.0 | 7 << 32));
        world.sa.unanswered(tid);
        assert_eq!(reports(&mut world, START).len(), 1, "attempt {attempt}");
    }
    world.sa.unanswered(tid);
    assert!(world.sa.events().is_empty());
    assert!(reports(&mut world, START).is_empty());
}

#[test]
fn a_subscription_outlives_a_flap_and_dies_with_its_port() {
    let mut world = up();
    let (hosts, switches) = (world.hosts(), world.switches());
    set(&mut world, hosts[1], &all_of(128)).unwrap();
    let (whole, less) = (world.snapshot.clone(), without(&world, hosts[1]));
    world.sa.notice(&link_change(switches[0]), START);
    let before = reports(&mut world, START).pop().unwrap();
    stand(&mut world, &less, START);
    // What it has not answered, and what happens meanwhile, it hears when it is back.
    let mut now = START + (limits::KEEP - Duration::from_millis(1));
    while let Some(due) = world.sa.events().next_deadline().filter(|&due| due < now) {
        world.sa.handle_deadline(due.max(START));
        assert!(reports(&mut world, due.max(START)).is_empty());
    }
    world.sa.notice(&link_change(switches[1]), now);
    assert!(reports(&mut world, now).is_empty());
    stand(&mut world, &whole, now);
    let again = reports(&mut world, now).pop().unwrap();
    assert_eq!(told(&again), told(&before));
    answer(&mut world, &again);
    let next = reports(&mut world, now).pop().unwrap();
    assert_eq!(told(&next).notice().issuer_lid(), switches[1]);
    answer(&mut world, &next);
    assert_eq!(world.sa.poll_reregister(), None);

    stand(&mut world, &less, now);
    now += limits::KEEP;
    world.sa.handle_deadline(now);
    assert!(world.sa.events().is_empty());
    assert_eq!(world.sa.poll_reregister(), None, "it is not there");
    stand(&mut world, &whole, now);
    let lost = BTreeSet::from([world.guid(hosts[1])]);
    assert_eq!(world.sa.poll_reregister(), Some(lost));
    assert_eq!(world.sa.poll_reregister(), None, "once");
}

#[test]
fn ten_thousand_subscriptions_of_one_client_find_an_end() {
    let mut world = up();
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
    // The same again is no further one, and others have room.
    for _ in 0..10_000 {
        set(&mut world, hosts[2], &all_of(128)).unwrap();
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
fn what_cannot_be_is_refused() {
    let mut world = up();
    let hosts = world.hosts();
    let mut refused = |change: &dyn Fn(&mut InformInfo), status: Status| {
        let mut info = all_of(128);
        change(&mut info);
        assert_eq!(set(&mut world, hosts[1], &info), Err(status), "{info:?}");
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
    let nobody = Gid::new(super::world::PREFIX, rsm_ids::Guid(1));
    refused(
        &|info| {
            info.set_gid(nobody);
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
    // It is an action, not something to be read, and no less than a whole one.
    let got: Result<InformInfo, _> = world.get(ComponentMask::NONE, &all_of(128));
    assert_eq!(got, Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE));
    let mad = SaMad::request(Method::SET, Tid(1), ComponentMask::NONE, &all_of(128));
    let cut = world.handle(&mad.as_bytes()[..56 + 35]).unwrap();
    assert_eq!(cut.status(), SaStatus::REQ_INVALID);
    assert!(world.sa.events().is_empty());
}

/// Hosts 0 and 2 in one partition, 1 and 3 in another, switches in the first.
fn parted() -> World {
    let world = World::new(SMALL);
    let (hosts, switches) = (world.hosts(), world.switches());
    let mut tables: Vec<(Lid, &[u16])> = vec![
        (hosts[0], &[0x8001]),
        (hosts[1], &[0x8002]),
        (hosts[2], &[0x0001]),
        (hosts[3], &[0x8002]),
    ];
    tables.extend(switches.iter().map(|&lid| (lid, &[0x8001][..])));
    let mut world = world.with_partitions(&tables);
    world.sa.handle_deadline(START);
    world
}

#[test]
fn nobody_hears_of_another_partition() {
    let mut world = parted();
    let (hosts, switches) = (world.hosts(), world.switches());
    for &host in &hosts {
        set(&mut world, host, &all_of(InformInfo::ALL)).unwrap();
    }
    send(
        &mut world,
        address(hosts[3], 1),
        &all_of(InformInfo::ALL),
        SM_KEY,
    )
    .unwrap();
    world.sa.notice(&link_change(switches[0]), START);
    let to: Vec<(Lid, u32)> = reports(&mut world, START)
        .iter()
        .map(|report| (report.remote.lid, report.remote.qpn))
        .collect();
    // Who is trusted hears of everything.
    assert_eq!(to, [(hosts[0], QPN), (hosts[2], QPN), (hosts[3], 1)]);
    // A port that cannot be seen is as one that is not there.
    let mut hidden = all_of(128);
    hidden.set_gid(world.gid(switches[0]));
    let refused = set(&mut world, hosts[1], &hidden);
    assert_eq!(refused, Err(SaStatus::REQ_INVALID_GID));
    let mut range = all_of(128);
    range.set_lid_range_begin(switches[0]);
    assert_eq!(
        set(&mut world, hosts[1], &range),
        Err(SaStatus::REQ_INVALID)
    );
    set(&mut world, hosts[0], &hidden).unwrap();
    set(&mut world, hosts[0], &range).unwrap();
}

#[test]
fn wrong_keys_are_told_to_the_trusted_alone() {
    let mut world = up();
    let (hosts, switches) = (world.hosts(), world.switches());
    set(&mut world, hosts[1], &all_of(InformInfo::ALL)).unwrap();
    let trusted = address(hosts[2], QPN);
    send(&mut world, trusted, &all_of(256), SM_KEY).unwrap();
    let details = BadMKey::default();
    let (kind, producer) = (NoticeType::Security, ProducerType::SWITCH);
    let notice = Notice::generic(kind, producer, Trap::BAD_M_KEY, switches[0], &details);
    world.sa.notice(&notice, START);
    let sent = reports(&mut world, START);
    assert_eq!(
        sent.iter().map(trap_of).collect::<Vec<_>>(),
        [(256, hosts[2])]
    );
}

#[test]
fn groups_are_told_to_their_partition() {
    let mut world = up();
    let hosts = world.hosts();
    set(&mut world, hosts[1], &all_of(66)).unwrap();
    set(&mut world, hosts[1], &all_of(67)).unwrap();
    let mgid = Gid(0xFF12_401B_FFFF_0000_0000_0000_0000_0005);
    let mut member = McMemberRecord::default();
    member
        .set_mgid(mgid)
        .set_port_gid(world.gid(hosts[0]))
        .set_q_key(0x0B1B)
        .set_p_key(PKey::DEFAULT_FULL)
        .set_join_state(JoinState::FULL_MEMBER);
    let named = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    let mask = named
        | McMemberRecord::Q_KEY
        | McMemberRecord::P_KEY
        | McMemberRecord::T_CLASS
        | McMemberRecord::SL
        | McMemberRecord::FLOW_LABEL;
    world
        .ask::<_, McMemberRecord>(Method::SET, mask, &member)
        .unwrap();
    world.sa.handle_deadline(START);
    let created = reports(&mut world, START).pop().unwrap();
    assert_eq!(trap_of(&created), (66, hosts[1]));
    let notice = told(&created).notice();
    let TrapDetails::GidChange(change) = notice.details() else {
        panic!("{notice:?}");
    };
    assert_eq!(change.gid(), mgid);
    answer(&mut world, &created);
    world
        .ask::<_, McMemberRecord>(Method::DELETE, named, &member)
        .unwrap();
    world.sa.handle_deadline(START);
    let later = START + limits::QUIET;
    world.sa.handle_deadline(later);
    let deleted = reports(&mut world, later).pop().unwrap();
    assert_eq!(trap_of(&deleted), (67, hosts[1]));
    // A group of a partition that the subscriber is not in.
    let mut world = parted();
    let hosts = world.hosts();
    set(&mut world, hosts[1], &all_of(66)).unwrap();
    set(&mut world, hosts[2], &all_of(66)).unwrap();
    member.set_p_key(PKey(0x8001)).set_mgid(Gid(0));
    world
        .ask::<_, McMemberRecord>(Method::SET, mask, &member)
        .unwrap();
    world.sa.handle_deadline(START);
    let sent = reports(&mut world, START);
    assert_eq!(
        sent.iter().map(trap_of).collect::<Vec<_>>(),
        [(66, hosts[2])]
    );
}

#[test]
fn records_show_subscriptions_and_hide_queue_pairs() {
    let mut world = parted();
    let hosts = world.hosts();
    let infos = [all_of(64), all_of(65), all_of(128)];
    for info in &infos {
        set(&mut world, hosts[0], info).unwrap();
        set(&mut world, hosts[1], info).unwrap();
    }
    let mut record = InformInfoRecord::default();
    // The first host asks: those of the other partition are not there.
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
    assert_eq!(by_qpn, Err(SaStatus::NO_RECORDS), "nor can it be guessed");
    // Every component that the record has is matched.
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
    let mut world = up();
    let (hosts, switches) = (world.hosts(), world.switches());
    set(&mut world, hosts[1], &all_of(128)).unwrap();
    send(&mut world, address(hosts[2], 1), &all_of(65), SM_KEY).unwrap();
    let saved: Vec<_> = world.sa.events().view().save().collect();
    assert_eq!(saved.len(), 2);

    let mut after = Administration::new(Config { sm_key: SM_KEY });
    let mut twice = saved.clone();
    twice.extend(saved.clone());
    let mut broken = saved[0];
    broken.number = 9;
    broken.info.set_is_generic(7);
    twice.push(broken);
    // What is there already, and what makes no sense, is left out.
    assert_eq!(restore(&mut after, twice), 3);
    assert!(after.events().view().save().eq(saved));
    world.sa = after;
    let snapshot = world.snapshot.clone();
    stand(&mut world, &snapshot, START);
    assert!(
        reports(&mut world, START).is_empty(),
        "ports that were there are no news"
    );
    world.sa.notice(&link_change(switches[0]), START);
    let report = reports(&mut world, START).pop().unwrap();
    assert_eq!(trap_of(&report), (128, hosts[1]));
    // Who does not come back in time has lost it.
    let mut world = up();
    assert_eq!(restore(&mut world.sa, saved_of_nobody()), 0);
    world.sa.handle_deadline(START + Duration::from_secs(3600));
    assert!(world.sa.events().is_empty());
}

fn restore(sa: &mut Administration, subscriptions: Vec<SavedSubscription>) -> usize {
    let remembered = Remembered {
        subscriptions,
        ..Remembered::default()
    };
    sa.restore(remembered, START)
}

fn saved_of_nobody() -> Vec<SavedSubscription> {
    vec![SavedSubscription {
        port: rsm_ids::Guid(42),
        number: 3,
        gid: Gid(7),
        address: address(Lid(5), 1),
        trusted: false,
        info: all_of(64),
    }]
}

#[test]
fn a_notice_is_about_the_same_thing_whichever_way_it_went() {
    let world = up();
    let directory = crate::sa::Directory::of(&world.snapshot, None).unwrap();
    let port = |lid, up| {
        let ix = directory.by_lid(lid).unwrap();
        News::of_port(&directory, ix, up).subject()
    };
    let hosts = world.hosts();
    assert_eq!(port(hosts[0], true), port(hosts[0], false));
    assert_ne!(port(hosts[0], true), port(hosts[1], true));
}
