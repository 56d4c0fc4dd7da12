use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lid, LinkSpeed, Lmc, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::{Datagram, Inbound, SendFailure};
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{Class, MadHeader, Method, Status};
use rsm_mad::wire::perf::{
    ALL_PORTS, Counter, CounterSet, PERF_DATA_LEN, PerfCapabilityMask, PerfCapabilityMask2,
    PerfMad, PortCounterAttribute, PortCounters, PortCountersExtended, PortExtendedSpeedsCounters,
    attribute,
};
use rsm_mad::wire::sa::{ClassPortInfo, Record as _, SaCapabilityMask, SaCapabilityMask2};
use rsm_mad::wire::vendor::{FirmwareVersion, GENERAL_INFO, GeneralInfoMad};
use rsm_model::fabric::Fabric;
use rsm_routing::generate::generate;
use rsm_routing::netlist::{Netlist, NodeKind, PortSpec};

use super::*;

mod corrections;
mod firmware;

/// AllPortSelect, 64-bit counters, PortXmitWait and QP1Dropped.
const FULL: PerfCapabilityMask = PerfCapabilityMask(0x9300);
const ADDITIONAL: PerfCapabilityMask2 = PerfCapabilityMask2::ADDITIONAL_COUNTERS;

/// A device's agent of performance management.
#[derive(Clone, Default)]
struct Device {
    mask: PerfCapabilityMask,
    mask2: PerfCapabilityMask2,
    /// Counters by port number.
    ports: BTreeMap<u8, CounterSet>,
    is_silent: bool,
    /// Status of the answers by attribute; other attributes get a valid answer.
    refuses: BTreeMap<u16, Status>,
    /// Target of redirections: LID, queue pair, P_Key.
    redirects: Option<(Lid, u32, PKey)>,
    /// Attribute and port of each request since the last [`Bench::take_requests`].
    requests: Vec<(u16, u8)>,
    firmware: FirmwareVersion,
    /// Whether requests of the vendor's class are not answered.
    ignores_vendor_class: bool,
    /// Number of corrected symbols by port number.
    corrected: BTreeMap<u8, u32>,
}

impl Device {
    /// The counters of a port, or the sums of all ports.
    fn sum(&self, port: u8) -> CounterSet {
        let mut sum = CounterSet::default();
        let chosen = self
            .ports
            .iter()
            .filter(|&(&one, _)| port == ALL_PORTS || one == port);
        chosen.for_each(|(_, counters)| sum.add_all(counters));
        sum
    }

    /// The answer to a request; `None` if the device does not answer.
    fn answer(&mut self, request: &Datagram) -> Option<Datagram> {
        if self.is_silent {
            return None;
        }
        let mut answer = *request;
        if MadHeader::of(&answer.mad).class() == Class::VENDOR_DEVICE {
            GeneralInfoMad::from_bytes_mut(&mut answer.mad)
                .set_firmware(self.firmware)
                .set_psid(b"MT_0000000838");
            let status = self.refuses.get(&GENERAL_INFO.0).copied();
            answer.mad[3] = Method::GET_RESPONSE.0;
            answer.mad[4..6].copy_from_slice(&status.unwrap_or(Status::OK).0.to_be_bytes());
            return Some(answer).filter(|_| !self.ignores_vendor_class);
        }
        let mad = PerfMad::from_bytes_mut(&mut answer.mad);
        let attribute = mad.header().attribute();
        let port = mad.data()[1];
        self.requests.push((attribute.0, port));
        let status = self
            .refuses
            .get(&attribute.0)
            .copied()
            .unwrap_or(Status::OK);
        let data = mad.data_mut();
        match attribute {
            attribute::CLASS_PORT_INFO => self.class_port_info(data),
            attribute::PORT_COUNTERS => {
                PortCounters::from_data_mut(data).set_counters(&self.sum(port));
            }
            attribute::PORT_EXTENDED_SPEEDS_COUNTERS => {
                let symbols = self.corrected.get(&port).copied().unwrap_or_default();
                let counters = PortExtendedSpeedsCounters::from_data_mut(data);
                counters.set_corrected_symbols(symbols);
            }
            _ => {
                PortCountersExtended::from_data_mut(data).set_counters(&self.sum(port));
            }
        }
        answer.mad[3] = Method::GET_RESPONSE.0;
        answer.mad[4..6].copy_from_slice(&status.0.to_be_bytes());
        Some(answer)
    }

    fn class_port_info(&self, data: &mut [u8; PERF_DATA_LEN]) {
        data.fill(0);
        let info = ClassPortInfo::from_prefix_mut(data).unwrap();
        info.set_capability_mask(SaCapabilityMask(self.mask.0))
            .set_capability_mask2(SaCapabilityMask2(self.mask2.0));
        if let Some((lid, qpn, p_key)) = self.redirects {
            info.set_redirect_lid(lid)
                .set_redirect_qp(qpn)
                .set_redirect_q_key(0x8001_0000)
                .set_redirect_p_key(p_key);
        }
    }
}

/// A collector, and devices by LID.
struct Bench {
    collector: Collector,
    subnet: CountedSubnet,
    devices: BTreeMap<Lid, Device>,
    now: Time,
    /// Requests sent so far, with their times.
    sent: Vec<(Time, Datagram)>,
    /// Maximum number of requests in flight so far.
    max_in_flight: usize,
}

/// Two leaves with two hosts each, under two spines. LIDs ascend with the index of the node.
fn fabric() -> Fabric {
    fabric_at(None)
}

/// The fabric with links of this speed; `None` for the usual speed.
fn fabric_at(speed: Option<LinkSpeed>) -> Fabric {
    let (mut nodes, mut cables) = generate("pgft:2;2,2;1,2;1,1").unwrap().into_parts();
    for (node, lid) in nodes.iter_mut().zip(1..) {
        let port = match node.kind {
            NodeKind::Switch => PortNum::ZERO,
            _ => PortNum(1),
        };
        let spec = PortSpec {
            guid: node.guid,
            lid: Lid(lid),
            lmc: Lmc::ZERO,
        };
        node.ports.insert(port, spec);
    }
    if let Some(speed) = speed {
        cables.iter_mut().for_each(|cable| cable.speed = speed);
    }
    Fabric::of_netlist(&Netlist::new(nodes, cables).unwrap())
}

impl Bench {
    fn new(device: &Device) -> Bench {
        let config = CountersConfig {
            interval: Duration::from_secs(5),
            ports_interval: Duration::from_secs(30),
            adapters_interval: Duration::from_secs(60),
            ..CountersConfig::default()
        };
        Bench::with(config, device)
    }

    fn with(config: CountersConfig, device: &Device) -> Bench {
        let fabric = fabric();
        let lids = fabric.end_ports().map(|(_, port)| port.lid());
        let mut bench = Bench {
            devices: lids.map(|lid| (lid, device.clone())).collect(),
            collector: Collector::new(config, 7),
            subnet: CountedSubnet {
                is_master: true,
                fabric: Arc::new(fabric),
                levels: None,
                sl: 3,
            },
            now: Time::ZERO,
            sent: Vec::new(),
            max_in_flight: 0,
        };
        bench.follow();
        bench
    }

    fn set_speed(&mut self, speed: LinkSpeed) {
        self.subnet.fabric = Arc::new(fabric_at(Some(speed)));
        self.follow();
    }

    fn follow(&mut self) {
        self.collector.follow(self.subnet.clone(), self.now);
    }

    /// Lets time pass; answers take 10 microseconds.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        let mut arriving: BTreeMap<(Time, usize), Datagram> = BTreeMap::new();
        let mut order = 0;
        loop {
            while let Some(transmit) = self.collector.poll_transmit(self.now) {
                self.sent.push((self.now, transmit.datagram));
                let device = self.devices.get_mut(&transmit.datagram.remote.lid);
                if let Some(answer) = device.and_then(|device| device.answer(&transmit.datagram)) {
                    order += 1;
                    arriving.insert((self.now + Duration::from_micros(10), order), answer);
                }
            }
            self.max_in_flight = self.max_in_flight.max(arriving.len());
            let arrival = arriving.first_key_value().map(|(&(at, _), _)| at);
            let next = arrival
                .into_iter()
                .chain(self.collector.next_deadline())
                .min();
            let Some(next) = next.filter(|&next| next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let (_, datagram) = arriving.pop_first().unwrap();
                self.collector.handle(&Inbound::Mad(datagram), self.now);
            }
            self.collector.handle_deadline(self.now);
        }
        self.now = end;
    }

    fn snapshot(&self) -> CountersSnapshot {
        self.collector.snapshot(self.now)
    }

    /// GUID and LID of the first switch.
    fn switch(&self) -> (Guid, Lid) {
        let (_, node) = self.subnet.fabric.switches().next().unwrap();
        (node.guid, node.ports[0].lid())
    }

    /// GUID and LID of the first channel adapter.
    fn adapter(&self) -> (Guid, Lid) {
        let mut nodes = self.subnet.fabric.nodes();
        let node = nodes.find(|node| !node.is_switch()).unwrap();
        (node.guid, node.ports[1].lid())
    }

    fn device(&mut self, lid: Lid) -> &mut Device {
        self.devices.get_mut(&lid).unwrap()
    }

    /// Adds `count` to a counter of the device with this LID.
    fn add(&mut self, lid: Lid, port: u8, counter: Counter, count: u64) {
        let counters = self.device(lid).ports.entry(port).or_default();
        counters.add(counter, count);
    }

    /// Removes and returns the attribute and port of each request to a device since the last call.
    fn take_requests(&mut self, lid: Lid) -> Vec<(u16, u8)> {
        std::mem::take(&mut self.device(lid).requests)
    }

    fn state(&self, node: Guid) -> AgentState {
        self.snapshot().of_node(node).next().unwrap().state
    }
}

/// A device with sums, and with traffic and errors of 64 bits.
fn modern() -> Device {
    Device {
        mask: FULL,
        mask2: ADDITIONAL,
        ..Device::default()
    }
}

const MINUTE: Duration = Duration::from_secs(60);

fn key(node: Guid, port: u8) -> PortKey {
    PortKey::new(node, PortNum(port))
}

#[test]
fn each_cabled_port_is_read_and_adapters_less_often_than_switches() {
    let mut bench = Bench::new(&modern());
    let ((switch, lid), (_, host)) = (bench.switch(), bench.adapter());
    bench.run(MINUTE * 2);
    let snapshot = bench.snapshot();
    assert!(snapshot.is_collecting);
    let cabled = bench
        .subnet
        .fabric
        .nodes()
        .flat_map(rsm_model::fabric::Node::cables);
    assert_eq!(snapshot.ports(None).count(), cabled.count());
    assert!(snapshot.port(key(switch, 1)).is_some());
    assert!(snapshot.port(key(switch, 0)).is_none());
    let requests = bench.take_requests(lid);
    let of =
        |requests: &[(u16, u8)], port| requests.iter().filter(|one| **one == (0x1D, port)).count();
    assert!(
        (23..=25).contains(&of(&requests, ALL_PORTS)),
        "{requests:?}"
    );
    assert!((4..=5).contains(&of(&requests, 1)), "{requests:?}");
    let requests = bench.take_requests(host);
    assert!((2..=3).contains(&of(&requests, 1)), "{requests:?}");
    assert_eq!(of(&requests, ALL_PORTS), 0);
    assert_eq!(snapshot.stats.timed_out + snapshot.stats.stray, 0);
}

#[test]
fn error_makes_the_ports_of_its_switch_be_read_before_their_turn() {
    let mut bench = Bench::new(&modern());
    let (switch, lid) = bench.switch();
    bench.run(Duration::from_secs(35));
    bench.add(lid, 2, Counter::SymbolError, 40);
    bench.run(Duration::from_secs(11));
    let snapshot = bench.snapshot();
    let port = snapshot.port(key(switch, 2)).unwrap();
    assert_eq!(port.reading.total(Counter::SymbolError), Some(40));
    let rates = port.reading.errors().unwrap();
    assert!(rates.per_hour(Counter::SymbolError) > 0.0);
}

#[test]
fn silent_agent_is_asked_at_growing_intervals_until_it_answers() {
    let mut bench = Bench::new(&modern());
    let (switch, lid) = bench.switch();
    bench.device(lid).is_silent = true;
    bench.run(MINUTE * 30);
    assert!(matches!(bench.state(switch), AgentState::Silent(5..)));
    let requests_to_agent = |bench: &Bench, from: Time| {
        let sent = bench.sent.iter().filter(|(at, _)| *at >= from);
        sent.filter(|(_, datagram)| datagram.remote.lid == lid)
            .count()
    };
    let late = Time::ZERO + MINUTE * 20;
    assert!(
        (1..=4).contains(&requests_to_agent(&bench, late)),
        "{}",
        requests_to_agent(&bench, late)
    );
    assert_eq!(bench.snapshot().stats.silent, 1);
    bench.device(lid).is_silent = false;
    bench.run(MINUTE * 10);
    assert_eq!(bench.state(switch), AgentState::Answers);
    bench.run(Duration::from_secs(40));
    assert!(bench.snapshot().port(key(switch, 1)).is_some());
}

#[test]
fn agent_without_class_port_info_is_read_with_port_counters() {
    let mut device = Device::default();
    device
        .refuses
        .insert(0x0001, Status::UNSUPPORTED_METHOD_ATTRIBUTE);
    let mut bench = Bench::new(&device);
    let (switch, lid) = bench.switch();
    bench.add(lid, 1, Counter::XmitData, 500);
    bench.run(MINUTE * 2);
    let requests = bench.take_requests(lid);
    assert!(
        requests
            .iter()
            .all(|&(attribute, port)| attribute != 0x1D && port != ALL_PORTS)
    );
    assert_eq!(
        requests
            .iter()
            .filter(|(attribute, _)| *attribute == 1)
            .count(),
        1
    );
    let snapshot = bench.snapshot();
    let port = snapshot.port(key(switch, 1)).unwrap().reading;
    assert_eq!(port.total(Counter::XmitData), Some(500));
    assert_eq!(port.total(Counter::UnicastXmitPkts), None);
    assert_eq!(
        port.total(Counter::XmitWait),
        None,
        "no ClassPortInfo announces the counter"
    );
}

#[test]
fn refused_attribute_is_requested_again_only_after_an_hour() {
    let mut device = modern();
    device.refuses.insert(0x001D, Status::UNSUPPORTED_METHOD);
    let mut bench = Bench::new(&device);
    let (switch, lid) = bench.switch();
    bench.run(MINUTE * 50);
    let requests = bench.take_requests(lid);
    let wide = |requests: &[(u16, u8)]| requests.iter().filter(|(one, _)| *one == 0x1D).count();
    assert!((1..=2).contains(&wide(&requests)), "{}", wide(&requests));
    assert!(bench.snapshot().port(key(switch, 1)).is_some());
    bench.run(MINUTE * 20);
    assert!((1..=2).contains(&wide(&bench.take_requests(lid))));
}

#[test]
fn agent_that_refuses_all_counters_is_not_asked_for_an_hour() {
    let mut device = modern();
    for attribute in [0x0012, 0x001D] {
        device
            .refuses
            .insert(attribute, Status::UNSUPPORTED_METHOD_ATTRIBUTE);
    }
    let mut bench = Bench::new(&device);
    let (switch, lid) = bench.switch();
    bench.run(MINUTE * 55);
    assert_eq!(bench.state(switch), AgentState::Unreadable);
    assert!(bench.take_requests(lid).len() <= 5);
    bench.device(lid).refuses.clear();
    bench.run(MINUTE * 10);
    assert_eq!(bench.state(switch), AgentState::Answers);
}

#[test]
fn redirected_requests_go_to_the_target_in_its_partition() {
    let mut bench = Bench::new(&modern());
    let ((switch, lid), (_, host)) = (bench.switch(), bench.adapter());
    let at = bench.subnet.fabric.local.unwrap();
    let keys = vec![PKey(0xFFFF), PKey(0x8007)];
    let mut fabric = Fabric::clone(&bench.subnet.fabric);
    fabric.port_mut(at).p_keys = Some(Arc::new(rsm_model::p_keys::PKeyImage::known(keys)));
    bench.subnet.fabric = Arc::new(fabric);
    bench.follow();
    bench.device(lid).redirects = Some((host, 0x55, PKey(0x0007)));
    bench.add(host, 1, Counter::XmitData, 9);
    bench.run(MINUTE);
    let redirected = bench
        .sent
        .iter()
        .filter(|(_, datagram)| datagram.remote.qpn == 0x55);
    let remotes: Vec<_> = redirected.map(|(_, datagram)| datagram.remote).collect();
    assert!(!remotes.is_empty());
    assert!(
        remotes
            .iter()
            .all(|remote| remote.lid == host && remote.pkey_index == 1)
    );
    assert_eq!(bench.state(switch), AgentState::Answers);
    let plain = bench
        .sent
        .iter()
        .find(|(_, datagram)| datagram.remote.qpn == 1)
        .unwrap();
    assert_eq!((plain.1.remote.pkey_index, plain.1.remote.sl), (0, 3));
    // After the target of the redirection has vanished, requests go to the node itself again.
    bench.device(lid).redirects = None;
    bench.devices.remove(&host);
    bench.run(MINUTE * 3);
    assert_eq!(bench.state(switch), AgentState::Answers);
}

#[test]
fn agents_that_redirect_to_each_other_count_as_unreadable() {
    let mut bench = Bench::new(&modern());
    let ((switch, lid), (_, host)) = (bench.switch(), bench.adapter());
    bench.device(lid).redirects = Some((host, 1, PKey(0xFFFF)));
    bench.device(host).redirects = Some((lid, 1, PKey(0xFFFF)));
    bench.run(MINUTE);
    assert_eq!(bench.state(switch), AgentState::Unreadable);
    assert!(bench.take_requests(lid).len() + bench.take_requests(host).len() < 20);
}

#[test]
fn busy_agent_is_asked_again_after_a_pause() {
    let mut bench = Bench::new(&modern());
    let (switch, lid) = bench.switch();
    bench.device(lid).refuses.insert(0x001D, Status::BUSY);
    bench.run(MINUTE);
    assert!(bench.take_requests(lid).len() < 30);
    bench.device(lid).refuses.clear();
    bench.run(MINUTE);
    assert_eq!(bench.state(switch), AgentState::Answers);
    assert!(bench.snapshot().port(key(switch, 1)).is_some());
}

#[test]
fn late_and_forged_answers_count_as_stray() {
    let mut bench = Bench::new(&modern());
    let (_, lid) = bench.switch();
    bench.device(lid).is_silent = true;
    bench.run(MINUTE);
    let (_, request) = bench
        .sent
        .iter()
        .rfind(|(_, sent)| sent.remote.lid == lid)
        .unwrap();
    let request = *request;
    bench.device(lid).is_silent = false;
    let late = bench.device(lid).answer(&request).unwrap();
    let stray = bench.snapshot().stats.stray;
    bench.collector.handle(&Inbound::Mad(late), bench.now);
    // The second stray answer comes from another LID; the third is a request instead of an answer.
    bench.run(Duration::from_secs(5));
    let transmit = loop {
        if let Some(transmit) = bench.collector.poll_transmit(bench.now) {
            break transmit;
        }
        bench.now = bench.collector.next_deadline().unwrap();
        bench.collector.handle_deadline(bench.now);
    };
    let mut forged = modern().answer(&transmit.datagram).unwrap();
    forged.remote.lid = Lid(0x99);
    bench.collector.handle(&Inbound::Mad(forged), bench.now);
    bench
        .collector
        .handle(&Inbound::Mad(transmit.datagram), bench.now);
    assert_eq!(bench.snapshot().stats.stray, stray + 3);
}

#[test]
fn window_and_rate_limit_requests() {
    let config = CountersConfig {
        window: 2,
        requests_per_s: 100,
        ..CountersConfig::default()
    };
    let mut bench = Bench::with(config, &modern());
    bench.run(Duration::from_secs(10));
    assert!(bench.max_in_flight <= 2);
    let times: Vec<Time> = bench.sent.iter().map(|(at, _)| *at).collect();
    for (first, last) in times.iter().zip(times.iter().skip(100)) {
        assert!(last.since(*first) >= Duration::from_millis(940));
    }
}

#[test]
fn requests_that_are_not_sent_make_no_agent_silent() {
    let mut bench = Bench::new(&modern());
    for _ in 0..200 {
        while let Some(transmit) = bench.collector.poll_transmit(bench.now) {
            if bench.now.as_nanos().is_multiple_of(3) {
                bench.collector.not_sent(&transmit, bench.now);
            } else {
                let failed = Inbound::SendFailed {
                    class: Class::PERFORMANCE,
                    tid: MadHeader::of(&transmit.datagram.mad).tid(),
                    kind: SendFailure::Flushed,
                };
                bench.collector.handle(&failed, bench.now);
            }
        }
        bench.now = bench.collector.next_deadline().unwrap();
        bench.collector.handle_deadline(bench.now);
    }
    assert_eq!(bench.snapshot().stats.silent, 0);
    bench.run(MINUTE);
    assert!(bench.snapshot().ports(None).count() > 0);
}

#[test]
fn standby_sends_nothing_and_keeps_the_last_readings() {
    let mut bench = Bench::new(&modern());
    bench.run(MINUTE);
    bench.subnet.is_master = false;
    bench.follow();
    let (sent, read) = (bench.sent.len(), bench.snapshot().ports(None).count());
    bench.run(MINUTE * 10);
    assert_eq!(bench.sent.len(), sent);
    assert_eq!(bench.collector.next_deadline(), None);
    assert!(!bench.snapshot().is_collecting);
    assert_eq!(bench.snapshot().ports(None).count(), read);
    bench.subnet.is_master = true;
    bench.follow();
    bench.run(MINUTE);
    assert!(bench.sent.len() > sent);
}

#[test]
fn agents_are_created_when_reading_begins() {
    let mut bench = Bench::new(&modern());
    bench.run(MINUTE);
    let all = bench.snapshot().stats.agents;
    let read = bench.snapshot().ports(None).count();
    assert!(all > 0 && read > 0);
    let off = CountersConfig {
        enabled: false,
        ..CountersConfig::default()
    };
    let mut bench = Bench::with(off, &modern());
    bench.run(MINUTE);
    assert_eq!((bench.sent.len(), bench.snapshot().stats.agents), (0, 0));
    // The collector also sends nothing while another manager is master.
    bench.subnet.is_master = false;
    bench.follow();
    bench
        .collector
        .configure(CountersConfig::default(), bench.now);
    bench.run(MINUTE);
    assert_eq!((bench.sent.len(), bench.snapshot().stats.agents), (0, 0));
    bench.subnet.is_master = true;
    bench.follow();
    bench.run(MINUTE * 10);
    assert_eq!(bench.snapshot().stats.agents, all);
    assert_eq!(bench.snapshot().ports(None).count(), read);
    assert!(
        bench
            .snapshot()
            .ports(None)
            .all(|port| port.reading.at().is_some())
    );
}

/// The fabric, with another end of the cable at a port.
fn with_peer(fabric: &Fabric, at: PortKey, peer: Option<PortKey>) -> Arc<Fabric> {
    let mut fabric = Fabric::clone(fabric);
    let at = fabric.find_port(at).unwrap();
    fabric.port_mut(at).peer = peer;
    Arc::new(fabric)
}

#[test]
fn errors_of_a_link_are_kept_over_a_flap_and_forgotten_with_another_cable() {
    let mut bench = Bench::new(&modern());
    let (switch, lid) = bench.switch();
    let at = key(switch, 1);
    let found = bench.subnet.fabric.find_port(at).unwrap();
    let peer = bench.subnet.fabric.port(found).peer.unwrap();
    bench.run(MINUTE);
    let errors = |bench: &Bench| {
        let snapshot = bench.snapshot();
        snapshot
            .port(at)
            .unwrap()
            .reading
            .errors()
            .map_or(0.0, |rates| rates.sum())
    };
    let set_peer = |bench: &mut Bench, peer| {
        bench.subnet.fabric = with_peer(&bench.subnet.fabric, at, peer);
        bench.follow();
    };
    for _ in 0..5 {
        bench.add(lid, 1, Counter::LinkDowned, 1);
        set_peer(&mut bench, None);
        bench.run(MINUTE);
        set_peer(&mut bench, Some(peer));
        bench.run(MINUTE);
    }
    let counted = errors(&bench);
    assert!(counted > 20.0, "{counted} an hour");
    set_peer(&mut bench, None);
    set_peer(&mut bench, Some(key(Guid(0x77), 3)));
    assert_eq!(errors(&bench), 0.0);
}

#[test]
fn agent_follows_a_new_lid_and_ends_when_its_node_vanishes() {
    let mut bench = Bench::new(&modern());
    bench.run(MINUTE);
    let (host, _) = bench.adapter();
    let mut fabric = Fabric::clone(&bench.subnet.fabric);
    let at = fabric.find_port(key(host, 1)).unwrap();
    let mut info = fabric.port(at).info.unwrap();
    info.set_lid(Lid(0x300));
    fabric.port_mut(at).info = Some(info);
    bench.subnet.fabric = Arc::new(fabric);
    bench.follow();
    bench.devices.insert(Lid(0x300), modern());
    bench.run(MINUTE * 2);
    assert!(!bench.take_requests(Lid(0x300)).is_empty());
    let count = bench.snapshot().stats.agents;
    bench.subnet.fabric = Arc::new(Fabric::default());
    bench.follow();
    assert_eq!(bench.snapshot().stats.agents, 0);
    assert!(count > 0);
    bench.run(MINUTE);
    assert_eq!(bench.snapshot().ports(None).count(), 0);
}

#[test]
fn rebooted_device_gives_no_rates_and_keeps_its_totals() {
    let mut bench = Bench::new(&modern());
    let (switch, lid) = bench.switch();
    for counter in Counter::ALL {
        bench.add(lid, 1, counter, 1_000_000);
    }
    bench.run(MINUTE * 2);
    bench.device(lid).ports.clear();
    bench.run(Duration::from_secs(31));
    let snapshot = bench.snapshot();
    let port = snapshot.port(key(switch, 1)).unwrap().reading;
    assert_eq!(port.total(Counter::XmitData), Some(1_000_000));
    assert_eq!(port.errors().map(|rates| rates.sum()), Some(0.0));
    assert!(port.rates().is_none_or(|rates| rates.xmit_bytes == 0.0));
    assert!(snapshot.stats.resets > 0);
}

#[test]
fn causes_are_read_only_for_errors_that_increased() {
    let mut bench = Bench::new(&modern());
    let (switch, lid) = bench.switch();
    bench.run(MINUTE);
    bench.add(lid, 1, Counter::RcvErrors, 3);
    bench.take_requests(lid);
    bench.run(Duration::from_secs(30));
    let requests = bench.take_requests(lid);
    assert_eq!(
        requests.iter().filter(|one| **one == (0x15, 1)).count(),
        1,
        "{requests:?}"
    );
    assert!(!requests.iter().any(|(attribute, _)| *attribute == 0x16));
    let snapshot = bench.snapshot();
    let reading = snapshot.port(key(switch, 1)).unwrap().reading;
    assert!(
        reading
            .causes()
            .is_some_and(|causes| causes.rcv.is_some() && causes.xmit.is_none())
    );
}

#[test]
fn errors_of_32_bits_are_read_in_addition_to_traffic_of_64_bits() {
    let device = Device {
        mask: FULL,
        ..Device::default()
    };
    let mut bench = Bench::new(&device);
    let (switch, lid) = bench.switch();
    bench.add(lid, 1, Counter::XmitData, 1 << 40);
    bench.add(lid, 1, Counter::SymbolError, 70_000);
    bench.run(MINUTE);
    let snapshot = bench.snapshot();
    let reading = snapshot.port(key(switch, 1)).unwrap().reading;
    assert_eq!(reading.total(Counter::XmitData), Some(1 << 40));
    assert_eq!(reading.total(Counter::SymbolError), Some(0xFFFF));
    assert!(reading.is_full(Counter::SymbolError));
    assert!(reading.rates().is_some());
}

mod hostile {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The answers have any status and any data.
        #[test]
        fn collector_continues_after_any_answers(
            seeds in proptest::collection::vec((any::<u16>(), any::<[u8; 32]>()), 1..200),
        ) {
            let mut bench = Bench::new(&modern());
            for (status, bytes) in seeds {
                while let Some(transmit) = bench.collector.poll_transmit(bench.now) {
                    let mut answer = modern().answer(&transmit.datagram).unwrap();
                    answer.mad[4..6].copy_from_slice(&status.to_be_bytes());
                    answer.mad[66..98].copy_from_slice(&bytes);
                    bench.collector.handle(&Inbound::Mad(answer), bench.now);
                }
                bench.now = bench.collector.next_deadline().expect("there is a deadline");
                bench.collector.handle_deadline(bench.now);
            }
            for port in bench.snapshot().ports(None) {
                if let Some(rates) = port.reading.rates() {
                    prop_assert!(rates.xmit_bytes.is_finite() && rates.xmit_bytes >= 0.0);
                }
            }
        }
    }
}
