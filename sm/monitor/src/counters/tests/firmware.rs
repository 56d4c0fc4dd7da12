use super::*;

#[test]
fn firmware_is_read_once_an_hour_and_counters_are_read_without_it() {
    let mut bench = Bench::new(&modern());
    let mut devices = bench.devices.values_mut();
    let [known, refusing, silent] = [(); 3].map(|()| devices.next().unwrap());
    let version = FirmwareVersion([31, 2012, 1068]);
    known.firmware = version;
    let status = Status::UNSUPPORTED_METHOD_ATTRIBUTE;
    refusing.refuses.insert(GENERAL_INFO.0, status);
    silent.ignores_vendor_class = true;
    bench.run(MINUTE * 70);
    let snapshot = bench.snapshot();
    let agents = snapshot.agents().filter(|agent| agent.lid <= Lid(3));
    let mut firmware: Vec<_> = agents.map(|one| (one.lid, one.firmware.clone())).collect();
    firmware.sort_by_key(|one| one.0);
    let psid = "MT_0000000838".to_owned();
    let expected = [
        DeviceFirmware::Known { version, psid },
        DeviceFirmware::Refused,
        DeviceFirmware::Silent,
    ];
    assert!(firmware.into_iter().map(|one| one.1).eq(expected));
    assert_eq!(snapshot.stats.silent, 0);
    let of_first = bench
        .sent
        .iter()
        .filter(|(_, one)| one.remote.lid == Lid(1));
    let class = |one: &Datagram| MadHeader::of(&one.mad).class();
    let requests = of_first.filter(|(_, one)| class(one) == Class::VENDOR_DEVICE);
    assert_eq!(requests.count(), 2);
}
