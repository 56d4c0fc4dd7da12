//! Tests of the attributes of congestion control against the values that libibmad of rdma-core 44,
//! an independent implementation, reads from the same random bytes.

use rsm_ids::PortNum;
use rsm_mad::ids::Tid;
use rsm_mad::wire::congestion::{
    AdapterCongestionLog, CC_DATA_LEN, CLASS_VERSION, CaCongestionSetting, CcAttribute, CcMad,
    CongestionControlTable, CongestionInfo, CongestionKeyInfo, CongestionTimestamp, PortMask,
    SwitchCongestionLog, SwitchCongestionSetting, SwitchControlMap, SwitchPortCongestionSetting,
    attribute,
};
use rsm_mad::wire::header::{Class, Method};

use crate::wire::captured::bytes;

/// The random bytes that libibmad decoded.
fn sample() -> [u8; CC_DATA_LEN] {
    let head: [u8; 76] = bytes(
        "dc0465aa1fad1d5adae5ac1b1e5f1370796cfd10ff19af601d04acb41d022b46\
         78733af2df5faeb70859d1ee3910cb4895b5cc892911ff06b6622edf3cf935fd\
         4b9428ca097c44b3025e965f",
    );
    let mut data = [0; CC_DATA_LEN];
    data[..head.len()].copy_from_slice(&head);
    data
}

#[test]
fn fields_of_nodes_and_keys_are_at_the_offsets_of_libibmad() {
    let info = CongestionInfo::of(&sample());
    assert_eq!(info.congestion_info(), 0xDC04);
    assert_eq!(info.control_table_cap(), 0x65);
    let key = CongestionKeyInfo::of(&sample());
    assert_eq!(key.cc_key(), 0xDC04_65AA_1FAD_1D5A);
    assert!(key.protect_bit());
    assert_eq!(key.lease_period(), 0xAC1B);
    assert_eq!(key.violations(), 0x1E5F);
}

#[test]
fn fields_of_a_switch_are_at_the_offsets_of_libibmad() {
    let setting = SwitchCongestionSetting::of(&sample());
    assert_eq!(setting.control_map(), SwitchControlMap(0xDC04_65AA));
    assert_eq!(
        setting.victim_mask.to_string(),
        "0x1fad1d5adae5ac1b1e5f1370796cfd10ff19af601d04acb41d022b4678733af2"
    );
    assert_eq!(
        setting.credit_mask.to_string(),
        "0xdf5faeb70859d1ee3910cb4895b5cc892911ff06b6622edf3cf935fd4b9428ca"
    );
    assert_eq!((setting.threshold(), setting.packet_size()), (0, 0x7C));
    assert_eq!(setting.cs_threshold(), 4);
    let delay = setting.cs_return_delay;
    assert_eq!((delay.shift(), delay.multiplier()), (0, 0x25E));
    assert_eq!(setting.marking_rate(), 0x965F);
}

#[test]
fn fields_of_an_adapter_are_at_the_offsets_of_libibmad() {
    let setting = CaCongestionSetting::of(&sample());
    assert_eq!(setting.port_control(), 0xDC04);
    assert_eq!(setting.control_map(), 0x65AA);
    // The bytes after the first fields are the entry of service level 0.
    let first = setting.entries[0];
    assert_eq!((first.ccti_timer(), first.ccti_increase()), (0x1FAD, 0x1D));
    assert_eq!((first.trigger_threshold(), first.ccti_min()), (0x5A, 0xDA));
    let table = CongestionControlTable::of(&sample());
    assert_eq!(table.ccti_limit(), 0xDC04);
    let entry = table.entries[0];
    assert_eq!((entry.shift(), entry.multiplier()), (0, 0x1FAD));
}

#[test]
fn written_fields_are_read_back_and_reserved_bytes_do_not_change() {
    let data = sample();
    let mut setting = SwitchCongestionSetting::of(&data);
    setting
        .set_threshold(15)
        .set_cs_threshold(9)
        .set_marking_rate(7);
    let written = setting.to_data();
    assert_eq!(written[68], 0xF9);
    assert_eq!(written[70..72], [0x94, 0xB3]);
    assert_eq!(written[74..76], [0, 7]);
    assert_eq!(written[..68], data[..68]);
    assert_eq!(written[76..], [0; CC_DATA_LEN - 76]);
}

#[test]
fn port_zero_is_the_last_bit_of_a_mask() {
    let mask = PortMask::default().with(PortNum(0)).with(PortNum(9));
    assert_eq!((mask.0[31], mask.0[30]), (1, 2));
    assert!(mask.contains(PortNum(9)) && !mask.contains(PortNum(10)));
    assert_eq!(mask.to_string(), "0x201");
    assert_eq!(PortMask::default().to_string(), "0x0");
    let last = PortMask::default().with(PortNum(254));
    assert_eq!(last.0[0], 0x40);
}

#[test]
fn a_request_carries_class_version_two_and_its_key() {
    let data = sample();
    let id = attribute::CONGESTION_CONTROL_TABLE;
    let key = 0x0102_0304_0506_0708;
    let mad = CcMad::request(Method::SET, id, 1, Tid(9), key, &data);
    let header = mad.header();
    assert_eq!(header.class(), Class::CONGESTION_CONTROL);
    assert_eq!(header.class_version(), CLASS_VERSION);
    assert_eq!((header.method(), header.attribute()), (Method::SET, id));
    assert_eq!((header.modifier(), header.tid()), (1, Tid(9)));
    let bytes = mad.as_bytes();
    assert_eq!(bytes[24..32], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes[32..64], [0; 32]);
    assert_eq!(bytes[64..], data);
    assert_eq!(CcMad::from_bytes(bytes).cc_key(), key);
}

/// The offsets are from the fields of libibmad, which `ibccquery` prints.
#[test]
fn ports_of_a_switch_and_clocks_are_at_the_offsets_of_libibmad() {
    let setting = SwitchPortCongestionSetting::of(&sample());
    let entry = setting.entries[0];
    assert!(entry.valid() && entry.control_type());
    assert_eq!((entry.threshold(), entry.packet_size()), (0xC, 4));
    assert_eq!(entry.marking_rate(), 0x65AA);
    assert_eq!(setting.entries[1].packet_size(), 0xAD);
    assert_eq!(CongestionTimestamp::of(&sample()).time(), 0xDC04_65AA);
}

#[test]
fn a_log_begins_after_the_key() {
    let mut mad = CcMad::request(
        Method::GET_RESPONSE,
        attribute::CONGESTION_LOG,
        0,
        Tid(9),
        0,
        &[0; CC_DATA_LEN],
    );
    let mut log = SwitchCongestionLog::default();
    log.set_events(3).set_current_time(0x0102_0304);
    log.port_map = PortMask::default().with(PortNum(0));
    log.log[0][0] = 7;
    *mad.log_mut() = log.to_log();
    assert_eq!(mad.as_bytes()[32..40], [1, 0, 0, 3, 1, 2, 3, 4]);
    assert_eq!((mad.as_bytes()[71], mad.as_bytes()[72]), (1, 7));
    assert_eq!(mad.log(), &log.to_log());

    let mut log = AdapterCongestionLog::default();
    log.set_event_map(0x0506).set_current_time(0x0102_0304);
    log.log[0][0] = 7;
    let bytes = log.to_log();
    assert_eq!(bytes[..13], [2, 0, 0, 0, 5, 6, 0, 0, 1, 2, 3, 4, 7]);
}
