//! Fuzzes requests to the SA: every request has at most one answer, which ends, and which reveals
//! no host of a foreign partition.
//!
//! An input is a sequence of requests. Each request consists of a byte for the requester, a byte
//! for the time before the request and for the mode of fetching the answer, the length in 16 bits,
//! and the bytes of the request.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

use rsm_config::KNOWN_KEY;
use rsm_ids::{Guid, Lid};
use rsm_mad::Time;
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::sa::{
    ComponentMask, GuidInfoRecord, InformInfo, JoinState, LinkRecord, McMemberRecord,
    MultiPathRecord, NodeRecord, PathRecord, PortInfoRecord, Record, SA_DATA_LEN, SA_HEADER_LEN,
    SaHeader, SaMad, ServiceRecord, SlToVlMappingTableRecord, VlArbitrationTableRecord,
};
use rsm_sa::mcast::limits::{MAX_GROUPS, MAX_MEMBERS};
use rsm_sa::{Sa, SaAnswer, SaConfig, SaCounters, SaRequest, SaSnapshot};

use super::bytes::Bytes;
use super::{MAX_INPUT, Seed};
use crate::virtual_time::{Settings, World, partitions};

/// The SM_Key of trusted requests.
const SM_KEY: u64 = 0x1234;

/// A fabric of six switches and eight hosts.
const SPEC: &str = "fat-tree:k=4,levels=2";

/// The maximum number of pulls for an answer: ten times the number for the longest table of this
/// subnet.
const MAX_PULLS: usize = 1000;

/// A LID that no port holds.
const UNUSED_LID: Lid = Lid(0xBFF0);

/// The bit of the second byte that postpones fetching the answer to the end of the input.
const KEPT: u8 = 0x80;

/// The bit of the second byte that drops the answer after its first bytes.
const DROPPED: u8 = 0x40;

/// A host in one of two partitions. The first host is the manager's host, which is in neither
/// partition.
#[derive(Clone, Copy)]
struct Host {
    lid: Lid,
    guid: Guid,
    /// The partition: 0 for `Even`, 1 for `Odd`.
    group: usize,
}

/// The state from which the SA answers, and its hosts.
struct Subnet {
    sa_snapshot: SaSnapshot,
    hosts: Vec<Host>,
}

/// The subnet, which is brought up once per process.
fn subnet() -> &'static Subnet {
    static SUBNET: OnceLock<Subnet> = OnceLock::new();
    SUBNET.get_or_init(|| {
        let guids: Vec<Guid> = hosts_of(&World::brought_up(SPEC, Settings::default()))
            .map(|(guid, _)| guid)
            .collect();
        let members = |group: usize| -> String {
            let members = guids.iter().enumerate().skip(1);
            let members = members.filter(|(index, _)| index % 2 == group);
            members.map(|(_, guid)| format!(" {guid}=full,")).collect()
        };
        let text = format!(
            "Default=0x7fff, ipoib : ALL=limited, SELF=full, ALL_SWITCHES=full ;\n\
             Even=0x10, ipoib :{};\nOdd=0x11, ipoib :{};\n",
            members(0),
            members(1),
        );
        let mut settings = Settings::default();
        settings.core.policy = partitions::policy(&text);
        let world = World::brought_up(SPEC, settings);
        let snapshot = world.manager().snapshot().expect("the subnet is up");
        let hosts = hosts_of(&world).enumerate();
        Subnet {
            sa_snapshot: SaSnapshot::of(snapshot, None),
            hosts: hosts
                .map(|(index, (guid, lid))| Host {
                    lid,
                    guid,
                    group: index % 2,
                })
                .collect(),
        }
    })
}

/// The port GUIDs and LIDs of the hosts, beginning with the manager's host.
fn hosts_of(world: &World) -> impl Iterator<Item = (Guid, Lid)> {
    let snapshot = world.manager().snapshot().expect("the subnet is up");
    let (fabric, own) = (&snapshot.fabric, snapshot.own_guid);
    let ends = fabric.end_ports();
    let mut hosts: Vec<(Guid, Lid)> = ends
        .filter(|(at, _)| !fabric.node(at.node).is_switch())
        .map(|(_, port)| (port.guid, port.lid()))
        .collect();
    hosts.sort_by_key(|&(guid, _)| (guid != own, guid));
    hosts.into_iter()
}

/// Runs an input.
///
/// # Panics
///
/// The SA violates one of the properties.
pub(super) fn run(input: &[u8]) {
    let subnet = subnet();
    let mut sa = Sa::new(SaConfig {
        sm_key: SM_KEY,
        ..SaConfig::default()
    });
    sa.answer_from(subnet.sa_snapshot.clone());
    let mut now = Time::ZERO;
    let mut kept = Vec::new();
    // The bytes that each host has sent; an answer may repeat them.
    let mut sent: Vec<Vec<u8>> = vec![Vec::new(); subnet.hosts.len()];
    let mut input = Bytes(input);
    while let Some((requester, mode, length)) = head(&mut input) {
        let bytes = input.up_to(length.into());
        now += Duration::from_millis(1 << (mode & 0x0F));
        sa.handle_deadline(now);
        let _ = (sa.poll_groups(now), sa.poll_save(now));
        let requester = usize::from(requester) % (subnet.hosts.len() + 1);
        let lid = subnet
            .hosts
            .get(requester)
            .map_or(UNUSED_LID, |host| host.lid);
        if let Some(sent) = sent.get_mut(requester) {
            sent.extend_from_slice(bytes);
        }
        let before = sa.counters();
        let request = SaRequest {
            bytes,
            requester: RemoteAddress::gsi(lid, 0),
        };
        let answer = sa.handle(request, now);
        // A requester at an unknown LID gets no answer; it repeats its request when the LID is
        // known.
        let is_known = subnet.hosts.get(requester).is_some();
        assert_eq!(answer.is_some(), is_known && is_answered(bytes));
        // The counters count each request once.
        let counters = sa.counters();
        let open = u64::from(answer.as_ref().is_some_and(SaAnswer::is_open));
        let answers = counters.answers.values().sum::<u64>() + open;
        let unanswered =
            |counters: &SaCounters| counters.ignored + counters.wrong_keys + counters.unserved;
        assert_eq!(
            answers + unanswered(&counters),
            before.answers.values().sum::<u64>() + unanswered(&before) + 1
        );
        let registry = sa.multicast();
        assert!(registry.members() <= MAX_MEMBERS && registry.groups().len() <= MAX_GROUPS);
        let Some(mut answer) = answer else {
            continue;
        };
        while !sa.continue_search(&mut answer) {}
        check_header(bytes, &answer);
        let trusted = SaHeader::split(bytes).is_some_and(|(header, _)| header.sm_key() == SM_KEY);
        let viewer = (!trusted).then_some(requester);
        match mode & (KEPT | DROPPED) {
            0 => fetch(answer, viewer, &sent),
            KEPT => kept.push((answer, viewer)),
            _ => {
                let mut answer = answer;
                let _ = answer.pull(&mut [0; 40]);
            }
        }
    }
    // Changes after the request do not affect an answer under way.
    for (answer, viewer) in kept {
        fetch(answer, viewer, &sent);
    }
}

/// The requester, the mode and the length of the next request; `None` at the end of the input.
fn head(input: &mut Bytes<'_>) -> Option<(u8, u8, u16)> {
    Some((input.byte()?, input.byte()?, input.number()?))
}

/// Whether the SA must answer this request from a known requester.
fn is_answered(bytes: &[u8]) -> bool {
    let Some((header, _)) = SaHeader::split(bytes) else {
        return false;
    };
    let mad = header.mad();
    mad.class().0 == 3
        && !mad.method().is_response()
        && ![Method::TRAP_REPRESS, Method::SEND].contains(&mad.method())
        && [0, KNOWN_KEY, SM_KEY].contains(&header.sm_key())
}

/// Checks the header of an answer to the request in `bytes`.
fn check_header(bytes: &[u8], answer: &SaAnswer) {
    let Some((asked, _)) = SaHeader::split(bytes) else {
        panic!("an answer to bytes that are not a request");
    };
    let header = answer.header();
    assert!(header.mad().method().is_response());
    assert_eq!(header.mad().tid(), asked.mad().tid());
    assert_eq!(header.sm_key(), 0);
    if !answer.status().is_ok() {
        let datagram = answer.datagram().expect("a refusal is one datagram");
        assert_eq!(datagram[SA_HEADER_LEN..], [0; SA_DATA_LEN]);
    }
}

/// Fetches an answer until it ends, and checks that it reveals no host which is hidden from
/// `viewer`; `None` is a trusted requester.
fn fetch(mut answer: SaAnswer, viewer: Option<usize>, sent: &[Vec<u8>]) {
    let (attribute, words) = (
        answer.header().mad().attribute(),
        answer.header().attribute_offset(),
    );
    let is_ok = answer.status().is_ok();
    let data = match answer.datagram() {
        Some(datagram) => datagram[SA_HEADER_LEN..].to_vec(),
        None => {
            let data = pull_all(&mut answer);
            assert!(words > 0 && data.len().is_multiple_of(usize::from(words) * 8));
            data
        }
    };
    let Some(viewer) = viewer.filter(|_| is_ok) else {
        return;
    };
    let hosts = &subnet().hosts;
    // The manager's host may see every host, and a requester at an unknown LID gets no answer.
    let Some(own) = hosts.get(viewer).filter(|_| viewer > 0) else {
        return;
    };
    let others = hosts.iter().skip(1);
    let hidden: Vec<Host> = others
        .filter(|host| host.group != own.group)
        .copied()
        .collect();
    for host in &hidden {
        let guid = host.guid.0.to_be_bytes();
        let shown = |bytes: &[u8]| bytes.windows(guid.len()).any(|window| window == guid);
        assert!(
            !shown(&data) || shown(&sent[viewer]),
            "{} learns about {} from {attribute:?}",
            own.guid,
            host.guid
        );
    }
    let hidden: BTreeSet<Lid> = hidden.iter().map(|host| host.lid).collect();
    let length = if words > 0 {
        usize::from(words) * 8
    } else {
        SA_DATA_LEN
    };
    for record in data.chunks(length) {
        let shown = lids(attribute, record);
        assert!(
            shown.iter().all(|lid| !hidden.contains(lid)),
            "{} learns about {shown:?} from {attribute:?}",
            own.guid
        );
    }
}

/// The records of an answer.
fn pull_all(answer: &mut SaAnswer) -> Vec<u8> {
    let mut data = Vec::new();
    let mut room = [0; 4096];
    for _ in 0..MAX_PULLS {
        let pulled = answer.pull(&mut room);
        data.extend_from_slice(&room[..pulled.bytes]);
        if pulled.ended {
            return data;
        }
    }
    panic!("{answer:?} does not end");
}

/// The LIDs in a record.
fn lids(attribute: AttrId, record: &[u8]) -> Vec<Lid> {
    fn of<R: Record>(record: &[u8], lids: impl FnOnce(&R) -> Vec<Lid>) -> Vec<Lid> {
        R::from_prefix(record).map(lids).unwrap_or_default()
    }
    match attribute {
        NodeRecord::ID => of(record, |r: &NodeRecord| vec![r.lid()]),
        PortInfoRecord::ID => of(record, |r: &PortInfoRecord| vec![r.end_port_lid()]),
        GuidInfoRecord::ID => of(record, |r: &GuidInfoRecord| vec![r.lid()]),
        LinkRecord::ID => of(record, |r: &LinkRecord| vec![r.from_lid(), r.to_lid()]),
        PathRecord::ID | MultiPathRecord::ID => {
            of(record, |r: &PathRecord| vec![r.slid(), r.dlid()])
        }
        SlToVlMappingTableRecord::ID => of(record, |r: &SlToVlMappingTableRecord| vec![r.lid()]),
        VlArbitrationTableRecord::ID => of(record, |r: &VlArbitrationTableRecord| vec![r.lid()]),
        _ => Vec::new(),
    }
}

/// The attributes of the SA class that the seeds request.
const ATTRIBUTES: [u16; 19] = [
    0x01, 0x03, 0x11, 0x12, 0x13, 0x14, 0x15, 0x17, 0x18, 0x20, 0x30, 0x31, 0x33, 0x35, 0x36, 0x38,
    0x39, 0x3A, 0xF3,
];

/// The inputs from which the fuzzer starts.
pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for attribute in ATTRIBUTES {
        let requests = [0, SM_KEY]
            .into_iter()
            .flat_map(|key| [Method::GET, Method::GET_TABLE].map(|method| (key, method)));
        let bytes = requests
            .flat_map(|(key, method)| {
                let mut mad =
                    SaMad::request(method, Tid(7), ComponentMask::NONE, &NodeRecord::default());
                mad.header.set_sm_key(key);
                mad.header.mad_mut().set_attribute(AttrId(attribute));
                frame(1, 0, mad.as_bytes())
            })
            .collect();
        seeds.push(Seed::new(format!("all-of-{attribute:04x}"), bytes));
    }
    seeds.extend(paths());
    seeds.push(Seed::new("members", members()));
    seeds.push(Seed::new("services-and-subscriptions", subscriptions()));
    assert!(seeds.iter().all(|seed| seed.bytes.len() <= MAX_INPUT));
    seeds
}

/// The part of an input that contains one request.
fn frame(requester: u8, mode: u8, request: &[u8]) -> Vec<u8> {
    let mut frame = vec![requester, mode];
    frame.extend_from_slice(&(request.len() as u16).to_be_bytes());
    frame.extend_from_slice(request);
    frame
}

fn gid(host: usize) -> Gid {
    Gid::new(0xFE80_0000_0000_0000, subnet().hosts[host].guid)
}

/// Inputs of queries for paths.
fn paths() -> Vec<Seed> {
    let hosts = &subnet().hosts;
    let mut by_gid = PathRecord::default();
    by_gid.set_sgid(gid(1)).set_dgid(gid(3)).set_numb_path(3);
    let mut by_lid = PathRecord::default();
    by_lid.set_slid(hosts[2].lid).set_dlid(hosts[1].lid);
    let gids = PathRecord::SGID | PathRecord::DGID;
    let lids = PathRecord::SLID | PathRecord::DLID;
    let mut pairs = Vec::new();
    for (method, mask, record) in [
        (Method::GET, gids, &by_gid),
        (Method::GET_TABLE, gids | PathRecord::NUMB_PATH, &by_gid),
        (Method::GET, lids, &by_lid),
        (Method::GET_TRACE_TABLE, lids, &by_lid),
    ] {
        let mad = SaMad::request(method, Tid(9), mask, record);
        pairs.extend(frame(1, 1, mad.as_bytes()));
    }
    let mut several = MultiPathRecord::default();
    several.set_sgid_count(2).set_dgid_count(2).set_numb_path(9);
    let mask = MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT;
    let mad = SaMad::request(Method::GET_MULTI, Tid(3), mask, &several);
    let mut message = mad.as_bytes()[..SA_HEADER_LEN + MultiPathRecord::LEN].to_vec();
    for host in [1, 3, 5, 7] {
        message.extend_from_slice(&gid(host).0.to_be_bytes());
    }
    vec![
        Seed::new("paths-of-a-pair", pairs),
        Seed::new("paths-of-several", frame(1, 0, &message)),
    ]
}

/// An input of joins and leaves in two partitions, with queries for members.
fn members() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mask = McMemberRecord::MGID
        | McMemberRecord::PORT_GID
        | McMemberRecord::JOIN_STATE
        | McMemberRecord::P_KEY
        | McMemberRecord::Q_KEY
        | McMemberRecord::T_CLASS
        | McMemberRecord::SL
        | McMemberRecord::FLOW_LABEL;
    for (host, p_key, mgid) in [
        (1, 0x8011, 0xFF12_401B_8011_0000_0000_0000_FFFF_FFFF),
        (2, 0x8010, 0xFF12_401B_8010_0000_0000_0000_FFFF_FFFF),
        (3, 0x8011, 0),
        (5, 0x8011, 0xFF12_A01C_8011_0000_0000_0000_0000_0001),
    ] {
        let mut record = McMemberRecord::default();
        record
            .set_mgid(Gid(mgid))
            .set_port_gid(gid(host))
            .set_q_key(0x0B1B)
            .set_p_key(PKey(p_key))
            .set_join_state(JoinState::FULL_MEMBER);
        for method in [Method::SET, Method::GET_TABLE, Method::DELETE, Method::SET] {
            let mad = SaMad::request(method, Tid(1), mask, &record);
            bytes.extend(frame(host as u8, 4, mad.as_bytes()));
        }
    }
    for (requester, mode) in [(1, KEPT), (2, 0), (0, DROPPED), (8, 0)] {
        let mad = SaMad::request(
            Method::GET_TABLE,
            Tid(2),
            ComponentMask::NONE,
            &McMemberRecord::default(),
        );
        bytes.extend(frame(requester, mode, mad.as_bytes()));
    }
    bytes
}

/// An input with a service, queries for it, and a subscription.
fn subscriptions() -> Vec<u8> {
    let mut service = ServiceRecord::default();
    service
        .set_service_gid(gid(1))
        .set_service_p_key(PKey(0x8011))
        .set_service_lease(60);
    let mut inform = InformInfo::default();
    inform.set_is_generic(1).set_subscribe(1);
    let mut bytes = Vec::new();
    for method in [Method::SET, Method::GET, Method::GET_TABLE, Method::DELETE] {
        let mad = SaMad::request(method, Tid(4), ComponentMask(0x7), &service);
        bytes.extend(frame(1, 9, mad.as_bytes()));
    }
    let mad = SaMad::request(Method::SET, Tid(5), ComponentMask::NONE, &inform);
    bytes.extend(frame(1, 9, mad.as_bytes()));
    bytes
}
