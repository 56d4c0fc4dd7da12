//! Tests of events: subscriptions of hosts, and their reports.

mod partitions;
mod reporting;
mod subscribing;

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::{Grh, RemoteAddress};
use rsm_mad::wire::attr::*;
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::sa::*;
use rsm_model::fabric::Fabric;
use rsm_state::Snapshot;

use super::world::{PREFIX, SM_KEY, SMALL, World, records};
use crate::events::{NoticeReport, PublishedNotice, SavedSubscription, limits};
use crate::{Sa, SaConfig, SaRequest, SavedSaState};

const START: Time = Time::from_nanos(1_000_000_000);

/// The number of a queue pair that belongs to a program.
const QPN: u32 = 0x1234;

/// A subscription to all generic notices of `trap`.
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

/// Sends a Set of InformInfo from the address `from`. Returns the InformInfo in the answer, or its
/// status.
fn send(
    world: &mut World,
    from: RemoteAddress,
    info: &InformInfo,
    sm_key: u64,
) -> Result<InformInfo, Status> {
    let mut mad = SaMad::request(Method::SET, Tid(77), ComponentMask::NONE, info);
    mad.header.set_sm_key(sm_key);
    let request = SaRequest {
        bytes: mad.as_bytes(),
        requester: from,
    };
    let answer = world.sa.handle(request, START);
    let answer = answer.expect("every request is answered");
    assert_eq!(answer.header().mad().method(), Method::GET_RESPONSE);
    records(answer).map(|records| records[0])
}

/// Subscribes queue pair [`QPN`] of `host`, an untrusted requester, by a Set of InformInfo.
fn subscribe(world: &mut World, host: Lid, info: &InformInfo) -> Result<InformInfo, Status> {
    send(world, address(host, QPN), info, 0)
}

/// Ends the subscription `info` of queue pair [`QPN`] of `host`.
fn unsubscribe(world: &mut World, host: Lid, info: &InformInfo) -> Result<InformInfo, Status> {
    let mut info = *info;
    info.set_subscribe(0).set_qpn(QPN);
    subscribe(world, host, &info)
}

/// Takes all reports that are due at `now`.
fn reports(world: &mut World, now: Time) -> Vec<NoticeReport> {
    std::iter::from_fn(|| world.sa.poll_report(now)).collect()
}

/// Checks the header of a report, and returns its notice.
fn notice_in(report: &NoticeReport) -> SaNotice {
    let mad = SaMad::from_bytes(&report.mad);
    let header = mad.header.mad();
    assert_eq!(
        (header.method(), header.attribute()),
        (Method::REPORT, AttrId::NOTICE)
    );
    assert_eq!(header.class_version(), CLASS_VERSION);
    *SaNotice::from_prefix(&mad.data).unwrap()
}

/// The trap number of a report, and the LID that the report is sent to.
fn trap_of(report: &NoticeReport) -> (u16, Lid) {
    (
        notice_in(report).notice().trap_number().0,
        report.remote.lid,
    )
}

/// Answers a report as the subscriber at `from`.
fn answer_from(world: &mut World, report: &NoticeReport, from: RemoteAddress) {
    let mut mad = *SaMad::from_bytes(&report.mad);
    mad.header.mad_mut().set_method(Method::REPORT_RESPONSE);
    let request = SaRequest {
        bytes: mad.as_bytes(),
        requester: from,
    };
    let none = world.sa.handle(request, START);
    assert!(none.is_none());
}

fn answer(world: &mut World, report: &NoticeReport) {
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
fn without_host(world: &World, lid: Lid) -> Snapshot {
    let guid = world.guid(lid);
    let mut fabric = Fabric::clone(world.fabric());
    let ports = fabric.nodes_mut().flat_map(|node| &mut node.ports);
    for port in ports.filter(|port| port.guid == guid) {
        port.info = None;
    }
    let mut snapshot = world.snapshot.clone();
    snapshot.fabric = std::sync::Arc::new(fabric);
    snapshot
}

fn publish(world: &mut World, snapshot: &Snapshot, now: Time) {
    world.sa.replace(snapshot);
    world.sa.handle_deadline(now);
}

fn serving_world() -> World {
    let mut world = World::new(SMALL);
    world.sa.handle_deadline(START);
    world
}

/// A world with hosts 0 and 2 and the switches in one partition, and hosts 1 and 3 in another.
fn partitioned_world() -> World {
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
