//! Events end to end: a real rsm on a fabric in the test's process, and hosts that subscribe.

use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Trap, TrapDetails};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ComponentMask, InformInfo, InformInfoRecord, SaNotice};
use rsm_routing::netlist::NodeKind;
use rsm_tests::answering::Host;
use rsm_tests::bringup::LIMIT;
use rsm_tests::clock::wait_for_every;
use rsm_tests::managed::Managed;
use rsm_tests::sa_key::SA_KEY;

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";

/// A time longer than rsm takes to write new registrations to its store, its delay included.
const WRITE_TIME: Duration = Duration::from_secs(2);

/// A time longer than rsm keeps the registrations of absent hosts.
const EXPIRY_TIME: Duration = Duration::from_secs(12);

/// The empty mask: a query with it selects all records.
const ALL: ComponentMask = ComponentMask::NONE;

/// A subscription to all generic notices of `trap`.
fn all_of(trap: Trap) -> InformInfo {
    let mut info = InformInfo::default();
    info.set_lid_range_begin(InformInfo::LID_RANGE_ALL)
        .set_is_generic(1)
        .set_subscribe(1)
        .set_notice_type(InformInfo::ALL)
        .set_trap_number(trap)
        .set_vendor_id(InformInfo::ALL_PRODUCERS);
    info
}

fn subscribe(host: &mut Host, trap: Trap) {
    let answer = host.ask(Method::SET, ALL, &all_of(trap));
    assert_eq!(answer.record::<InformInfo>(), all_of(trap));
}

fn gid(hosted: &Managed, place: usize) -> Gid {
    let (node, port) = hosted.hosts[place];
    let guid = hosted.fabric.sim.with(move |sim| sim.port_guid(node, port));
    let guid = guid.expect("it runs").expect("it is there");
    Gid::new(0xFE80_0000_0000_0000, guid)
}

fn unlink(hosted: &Managed, (node, port): (Guid, PortNum)) {
    let done = hosted.fabric.sim.with(move |sim| sim.unlink(node, port));
    done.expect("it runs").expect("there is a cable");
}

fn relink(hosted: &Managed, (node, port): (Guid, PortNum)) {
    let done = hosted.fabric.sim.with(move |sim| sim.relink(node, port));
    done.expect("it runs").expect("there was a cable");
}

/// Receives reports until one of `trap` about the GID `about` comes; confirms all of them. `about`
/// is `None` for a trap that is not about a GID.
fn wait_report(host: &mut Host, trap: Trap, about: Option<Gid>) -> SaNotice {
    for _ in 0..100 {
        let report = host.report(LIMIT).expect("there is a report");
        host.confirm(&report);
        let record: SaNotice = report.record();
        let notice = record.notice();
        let gid = match notice.details() {
            TrapDetails::GidChange(change) => Some(change.gid()),
            _ => None,
        };
        if notice.trap_number() == trap && gid == about {
            return record;
        }
    }
    panic!("no report of {trap}");
}

/// All subscriptions, as a trusted requester sees them.
fn subscriptions(host: &mut Host) -> Vec<InformInfoRecord> {
    let question = (Method::GET_TABLE, ALL, SA_KEY);
    let answer = host.try_ask(LIMIT, question, &InformInfoRecord::default());
    answer.expect("there is an answer").records()
}

#[test]
fn subscribers_get_reports_of_a_pulled_cable() {
    let hosted = Managed::start(FABRIC);
    let mut host = hosted.host(1);
    let rsm = hosted.rsm(&mut host);
    for trap in [
        Trap::GID_IN_SERVICE,
        Trap::GID_OUT_OF_SERVICE,
        Trap::GROUP_CREATED,
        Trap::LINK_STATE_CHANGED,
    ] {
        subscribe(&mut host, trap);
    }
    assert_eq!(subscriptions(&mut host).len(), 4);
    let (other, about) = (hosted.hosts[5], gid(&hosted, 5));
    let leaf = hosted.fabric.sim.with(move |sim| {
        let (leaf, _) = sim.peer(other.0, other.1).unwrap().expect("it has a cable");
        sim.port_guid(leaf, PortNum::ZERO).expect("it is a switch")
    });
    let leaf = leaf.expect("it runs");
    unlink(&hosted, other);
    // The switch of the link reports that a link state has changed; the sweep finds which link.
    let changed = wait_report(&mut host, Trap::LINK_STATE_CHANGED, None);
    assert_eq!(changed.issuer_gid().guid(), leaf);
    let gone = wait_report(&mut host, Trap::GID_OUT_OF_SERVICE, Some(about));
    assert_eq!(gone.issuer_gid(), gid(&hosted, 0), "the manager says so");
    assert_eq!(gone.notice().issuer_lid(), hosted.lid(0));
    relink(&hosted, other);
    wait_report(&mut host, Trap::GID_IN_SERVICE, Some(about));

    // After unsubscribing, no report comes.
    let mut info = all_of(Trap::GID_OUT_OF_SERVICE);
    info.set_subscribe(0).set_qpn(1);
    let answer = host.ask(Method::SET, ALL, &info);
    assert_eq!(answer.status(), Status::OK);
    assert_eq!(subscriptions(&mut host).len(), 3);

    // rsm stops reporting to a host that does not answer: there is no longer a program at this
    // port.
    let mut silent = hosted.host(2);
    subscribe(&mut silent, Trap::LINK_STATE_CHANGED);
    drop(silent);
    assert_eq!(subscriptions(&mut host).len(), 4);
    unlink(&hosted, other);
    wait_report(&mut host, Trap::LINK_STATE_CHANGED, None);
    let left = wait_for_every(Duration::from_millis(500), LIMIT, || {
        while let Some(report) = host.report(Duration::ZERO) {
            host.confirm(&report);
        }
        let left = subscriptions(&mut host);
        (left.len() == 3).then_some(left)
    });
    let left = left.expect("the subscription ends");
    assert!(
        left.iter()
            .all(|record| record.subscriber_gid() == gid(&hosted, 1))
    );
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}

#[test]
fn subscriptions_survive_sigkill_and_a_lost_store_requests_reregistration_once() {
    let hosted = Managed::start(FABRIC);
    let mut host = hosted.host(1);
    let rsm = hosted.rsm(&mut host);
    subscribe(&mut host, Trap::GID_OUT_OF_SERVICE);
    subscribe(&mut host, Trap::GID_IN_SERVICE);
    std::thread::sleep(WRITE_TIME);
    let before = subscriptions(&mut host);
    // The first manager has requested reregistration once.
    assert_eq!(host.reregistrations(), 1);
    rsm.kill().unwrap();

    let rsm = hosted.rsm(&mut host);
    assert_eq!(subscriptions(&mut host), before);
    let (other, about) = (hosted.hosts[5], gid(&hosted, 5));
    unlink(&hosted, other);
    wait_report(&mut host, Trap::GID_OUT_OF_SERVICE, Some(about));
    relink(&hosted, other);
    wait_report(&mut host, Trap::GID_IN_SERVICE, Some(about));
    assert_eq!(host.reregistrations(), 1);
    rsm.kill().unwrap();

    // The registrations are lost: rsm requests reregistration from every host, once.
    std::fs::remove_dir_all(hosted.state()).unwrap();
    let rsm = hosted.rsm(&mut host);
    let asked = wait_for_every(Duration::from_millis(50), LIMIT, || {
        (host.reregistrations() == 2).then_some(())
    });
    assert!(asked.is_some(), "{}", rsm.stderr_so_far());
    assert!(subscriptions(&mut host).is_empty());
    subscribe(&mut host, Trap::GID_OUT_OF_SERVICE);
    subscribe(&mut host, Trap::GID_IN_SERVICE);
    unlink(&hosted, other);
    wait_report(&mut host, Trap::GID_OUT_OF_SERVICE, Some(about));
    relink(&hosted, other);
    wait_report(&mut host, Trap::GID_IN_SERVICE, Some(about));
    assert_eq!(host.reregistrations(), 2);
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}

#[test]
fn no_clients_rereg_keeps_rsm_from_requesting_reregistration() {
    let hosted = Managed::start(FABRIC);
    let mut host = hosted.host(1);
    let conf = hosted.fabric.directory().join("opensm.conf");
    std::fs::write(&conf, "no_clients_rereg TRUE\n").unwrap();
    let arguments = ["--config", conf.to_str().unwrap()];
    // First a new manager starts, then one that has lost all registrations.
    for _ in 0..2 {
        let rsm = hosted.rsm_with(&mut host, &arguments);
        subscribe(&mut host, Trap::GID_OUT_OF_SERVICE);
        assert_eq!(host.reregistrations(), 0);
        rsm.kill().unwrap();
        std::fs::remove_dir_all(hosted.state()).unwrap();
    }
}

#[test]
fn only_a_host_cut_off_until_its_registrations_expire_is_asked_to_reregister() {
    let hosted = Managed::start(FABRIC);
    let mut near = hosted.host(1);
    let rsm = hosted.rsm(&mut near);
    let last = hosted.hosts.len() - 1;
    let mut far = hosted.host(last);
    subscribe(&mut far, Trap::GID_OUT_OF_SERVICE);
    subscribe(&mut near, Trap::GID_OUT_OF_SERVICE);
    subscribe(&mut near, Trap::GID_IN_SERVICE);
    // The port of the host stays up: the fault cuts off its switch.
    let (node, port) = hosted.hosts[last];
    let uplinks = hosted.fabric.sim.with(move |sim| {
        let kinds: std::collections::BTreeMap<Guid, NodeKind> = sim.nodes().collect();
        let (leaf, _) = sim.peer(node, port).unwrap().expect("it has a cable");
        (1..=64)
            .map(|number| (leaf, PortNum(number)))
            .filter(|&(node, port)| {
                let peer = sim.peer(node, port).ok().flatten();
                peer.is_some_and(|(peer, _)| kinds.get(&peer) == Some(&NodeKind::Switch))
            })
            .collect::<Vec<_>>()
    });
    let uplinks = uplinks.expect("it runs");
    assert!(uplinks.len() > 1);
    for &uplink in &uplinks {
        unlink(&hosted, uplink);
    }
    let about = Some(gid(&hosted, last));
    wait_report(&mut near, Trap::GID_OUT_OF_SERVICE, about);
    std::thread::sleep(EXPIRY_TIME);
    let before = (near.reregistrations(), far.reregistrations());
    for &uplink in &uplinks {
        relink(&hosted, uplink);
    }
    wait_report(&mut near, Trap::GID_IN_SERVICE, about);
    let requested = wait_for_every(Duration::from_millis(50), LIMIT, || {
        (far.reregistrations() > before.1).then_some(())
    });
    assert!(requested.is_some(), "{}", rsm.stderr_so_far());
    std::thread::sleep(WRITE_TIME);
    let after = (near.reregistrations(), far.reregistrations());
    assert_eq!(after, (before.0, before.1 + 1));
    let left = subscriptions(&mut near);
    assert!(
        left.iter()
            .all(|record| Some(record.subscriber_gid()) != about)
    );
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}
