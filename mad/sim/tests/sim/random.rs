//! Tests with random operations: nothing panics, the counters balance, and equal seeds give equal
//! runs.

use crate::common;

use std::time::Duration;

use common::{H1, H2, H3, S1, S2, path};
use proptest::prelude::*;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::{Datagram, Inbound, RemoteAddress};
use rsm_mad::wire::attr::PortState;
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_sim::{AttachId, Silence, Sim, SimConfig};

/// An operation on the fabric, or a datagram of a client.
#[derive(Debug, Clone)]
enum Action {
    /// Advances the time by this number of nanoseconds.
    Wait(u64),
    Unlink(Guid, u8),
    Relink(Guid, u8),
    Reboot(Guid),
    PowerOff(Guid),
    PowerOn(Guid),
    Loss(f64),
    /// Sets the probabilities of duplicate and of late answers.
    AnswerFaults(f64, f64),
    Silence(Guid, Silence),
    Directed(Vec<u8>, SmpRequest),
    /// Sends a request of the given class to a LID.
    ByLid(u16, u8, SmpRequest),
    /// Sends arbitrary bytes to a LID.
    Bytes(Vec<u8>, u16),
}

fn guid() -> impl Strategy<Value = Guid> {
    prop::sample::select(vec![S1, S2, H1, H2, H3, Guid(0x999)])
}

fn request() -> impl Strategy<Value = SmpRequest> {
    let attributes = prop::sample::select(vec![
        AttrId::NODE_INFO,
        AttrId::SWITCH_INFO,
        AttrId::PORT_INFO,
        AttrId::LINEAR_FORWARDING_TABLE,
        AttrId::MULTICAST_FORWARDING_TABLE,
        AttrId::P_KEY_TABLE,
        AttrId::SL_TO_VL_MAPPING,
        AttrId::VL_ARBITRATION,
        AttrId::GUID_INFO,
        AttrId::SM_INFO,
        AttrId::NOTICE,
    ]);
    let methods = prop::sample::select(vec![
        Method::GET,
        Method::SET,
        Method::TRAP,
        Method::TRAP_REPRESS,
        Method::GET_RESPONSE,
    ]);
    (
        methods,
        attributes,
        prop_oneof![0u32..6, any::<u32>()],
        any::<u64>(),
        prop::array::uniform32(prop_oneof![3 => 0u8..5, 1 => any::<u8>()]),
    )
        .prop_map(|(method, attribute, modifier, tid, bytes)| {
            let mut data = [0; 64];
            data[16..48].copy_from_slice(&bytes);
            SmpRequest {
                method,
                attribute,
                modifier,
                tid: rsm_mad::ids::Tid(tid),
                m_key: 0,
                data,
            }
        })
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => prop_oneof![0..20_000u64, 0..2_000_000_000u64].prop_map(Action::Wait),
        2 => (guid(), 0u8..6).prop_map(|(node, port)| Action::Unlink(node, port)),
        2 => (guid(), 0u8..6).prop_map(|(node, port)| Action::Relink(node, port)),
        1 => guid().prop_map(Action::Reboot),
        1 => guid().prop_map(Action::PowerOff),
        1 => guid().prop_map(Action::PowerOn),
        1 => (0.0..0.5).prop_map(Action::Loss),
        1 => (0.0..1.0, 0.0..1.0).prop_map(|(double, late)| Action::AnswerFaults(double, late)),
        1 => (guid(), prop::sample::select(vec![
            Silence::None, Silence::Answers, Silence::Everything
        ])).prop_map(|(node, silence)| Action::Silence(node, silence)),
        8 => (prop::collection::vec(0u8..6, 0..5), request())
            .prop_map(|(hops, request)| Action::Directed(hops, request)),
        4 => (prop_oneof![0u16..8, any::<u16>()], 1u8..5, request())
            .prop_map(|(lid, class, request)| Action::ByLid(lid, class, request)),
        1 => (prop::collection::vec(any::<u8>(), 256), any::<u16>())
            .prop_map(|(bytes, lid)| Action::Bytes(bytes, lid)),
    ]
}

/// All outputs of a run, each with its time and its client.
type Log = Vec<(Time, AttachId, Inbound)>;

/// Runs the actions. After each, checks the balance of the counters and the states of the links.
fn run(seed: u64, actions: &[Action]) -> (Log, Sim) {
    let mut sim = Sim::new(&common::netlist(), SimConfig::default(), seed).unwrap();
    let clients = [H1, S2].map(|guid| {
        let port = u8::from(guid == H1);
        sim.attach(guid, PortNum(port)).unwrap()
    });
    let mut log = Vec::new();
    let mut now = Time::ZERO;
    for (index, action) in actions.iter().enumerate() {
        let client = clients[index % 2];
        match action.clone() {
            Action::Wait(nanos) => {
                now += Duration::from_nanos(nanos);
                while let Some((to, inbound)) = sim.poll(now) {
                    log.push((sim.now(), to, inbound));
                }
            }
            // Operations on missing nodes, ports or cables only return errors.
            Action::Unlink(node, port) => drop(sim.unlink(node, PortNum(port))),
            Action::Relink(node, port) => drop(sim.relink(node, PortNum(port))),
            Action::Reboot(node) => drop(sim.reboot(node)),
            Action::PowerOff(node) => drop(sim.power_off(node)),
            Action::PowerOn(node) => drop(sim.power_on(node)),
            Action::Loss(loss) => sim.set_loss(loss).unwrap(),
            Action::AnswerFaults(double, late) => {
                sim.set_duplicates(double).unwrap();
                sim.set_late(late).unwrap();
            }
            Action::Silence(node, silence) => drop(sim.set_silence(node, silence)),
            Action::Directed(hops, request) => {
                let mad = *Smp::directed(&path(&hops), &request).as_bytes();
                let remote = RemoteAddress::directed();
                sim.send(client, &Datagram { mad, remote }, now);
            }
            Action::ByLid(lid, class, request) => {
                let mut smp = Smp::lid_routed(&request);
                smp.header_mut()
                    .set_class(rsm_mad::wire::header::Class(class));
                let mad = *smp.as_bytes();
                let remote = RemoteAddress::smi(Lid(lid));
                sim.send(client, &Datagram { mad, remote }, now);
            }
            Action::Bytes(bytes, lid) => {
                let mad: [u8; 256] = bytes.try_into().unwrap();
                let remote = RemoteAddress::smi(Lid(lid));
                sim.send(client, &Datagram { mad, remote }, now);
            }
        }
        let counters = sim.counters();
        assert_eq!(
            counters.sent + counters.traps + counters.duplicates,
            counters.delivered + counters.consumed + counters.dropped() + counters.in_flight,
        );
        for (guid, _) in sim.nodes() {
            for port in 1..=sim.num_ports(guid).unwrap() {
                let port = PortNum(port);
                if let Some((far, far_port)) = sim.peer(guid, port).unwrap() {
                    let near_state = sim.port_info(guid, port).unwrap().port_state();
                    let far = sim.port_info(far, far_port).unwrap().port_state();
                    assert_eq!(near_state == PortState::Down, far == PortState::Down);
                }
            }
        }
    }
    // After this time all packets and traps have ended.
    now += Duration::from_secs(100);
    while let Some((to, inbound)) = sim.poll(now) {
        log.push((sim.now(), to, inbound));
    }
    assert_eq!(sim.counters().in_flight, 0);
    (log, sim)
}

proptest! {
    #[test]
    fn random_operations_balance_counters_and_repeat_by_seed(
        seed: u64,
        actions in prop::collection::vec(action(), 1..60),
    ) {
        let (log, sim) = run(seed, &actions);
        let (second_log, second_sim) = run(seed, &actions);
        prop_assert_eq!(log, second_log);
        prop_assert_eq!(sim.counters(), second_sim.counters());
    }

    #[test]
    fn a_probe_always_ends(lft in prop::collection::vec(0u8..6, 64), lid in 0u16..70, sl: u8) {
        let mut requester = common::requester();
        requester.program();
        for hops in [&[1][..], &[1, 2]] {
            let mut block = rsm_mad::wire::attr::LinearForwardingTable::default();
            block.ports_mut().copy_from_slice(&lft);
            requester.set(hops, 0, &block);
        }
        requester.sim.probe((H3, PortNum(1)), Lid(lid), sl).unwrap();
    }
}
