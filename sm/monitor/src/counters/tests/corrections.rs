use super::*;

/// Ports whose PortExtendedSpeedsCounters were requested since the last call.
fn correction_requests(bench: &mut Bench, lid: Lid) -> Vec<u8> {
    let requests = bench.take_requests(lid).into_iter();
    let requests = requests.filter(|&(attribute, _)| attribute == 0x1F);
    requests.map(|(_, port)| port).collect()
}

#[test]
fn corrections_are_read_after_link_errors_if_the_agent_supports_them() {
    for (bit, expected) in [
        (PerfCapabilityMask(0), 0),
        (PerfCapabilityMask::RS_FEC_COUNTERS, 1),
    ] {
        let mut device = modern();
        device.mask = device.mask | bit;
        let mut bench = Bench::new(&device);
        bench.set_speed(LinkSpeed::Fdr);
        let (switch, lid) = bench.switch();
        bench.run(MINUTE);
        assert_eq!(
            correction_requests(&mut bench, lid),
            [0; 0],
            "no correction"
        );
        bench.add(lid, 1, Counter::XmitData, 1000);
        bench.add(lid, 1, Counter::XmitDiscards, 7);
        bench.run(Duration::from_secs(31));
        let requests = correction_requests(&mut bench, lid);
        assert_eq!(requests, [0; 0], "no link error");
        bench.add(lid, 1, Counter::SymbolError, 3);
        bench.run(Duration::from_secs(31));
        let requests = correction_requests(&mut bench, lid);
        assert_eq!(requests, vec![1; expected]);
        let snapshot = bench.snapshot();
        let reading = snapshot.port(key(switch, 1)).unwrap().reading;
        assert_eq!(reading.corrected().is_some(), expected > 0);
    }
}

#[test]
fn corrections_of_links_with_a_code_are_read_every_hour() {
    const HOUR: Duration = Duration::from_secs(3600);
    let mut device = modern();
    device.mask = device.mask | PerfCapabilityMask::RS_FEC_COUNTERS;
    device.corrected.insert(1, 500);
    let mut bench = Bench::new(&device);
    bench.set_speed(LinkSpeed::Ndr);
    let (switch, lid) = bench.switch();
    bench.run(MINUTE);
    let mut ports = correction_requests(&mut bench, lid);
    ports.sort_unstable();
    let cabled: Vec<u8> = (1..=ports.len() as u8).collect();
    assert_eq!(ports, cabled, "each port at first");
    // Within an hour, each port is read in its own phase.
    bench.run(HOUR);
    bench.take_requests(lid);
    bench.device(lid).corrected.insert(1, 500 + 36_000_000);
    bench.run(HOUR);
    let mut ports = correction_requests(&mut bench, lid);
    ports.sort_unstable();
    assert_eq!(ports, cabled, "each port once an hour");
    let snapshot = bench.snapshot();
    let corrected = |port| {
        snapshot
            .port(key(switch, port))
            .unwrap()
            .reading
            .corrected()
    };
    let rate = corrected(1).unwrap().symbols_per_s().unwrap();
    assert!((9_900.0..=10_100.0).contains(&rate), "{rate}");
    let share = corrected(1).unwrap().share().unwrap();
    assert!((0.9e-4..1.1e-4).contains(&share), "{share:e}");
    assert!(corrected(1).unwrap().is_watched());
    assert!(!corrected(2).unwrap().is_watched());
}

#[test]
fn agent_that_refuses_corrections_is_not_asked_for_them_again() {
    let mut device = modern();
    device.mask = device.mask | PerfCapabilityMask::RS_FEC_COUNTERS;
    let refused = Status::UNSUPPORTED_METHOD_ATTRIBUTE;
    device.refuses.insert(0x1F, refused);
    let mut bench = Bench::new(&device);
    bench.set_speed(LinkSpeed::Fdr);
    let (_, lid) = bench.switch();
    bench.run(MINUTE);
    bench.take_requests(lid);
    for _ in 0..3 {
        bench.add(lid, 1, Counter::SymbolError, 3);
        bench.run(Duration::from_secs(31));
    }
    let requests = bench.take_requests(lid);
    assert_eq!(
        requests.iter().filter(|one| one.0 == 0x1F).count(),
        1,
        "{requests:?}"
    );
}
