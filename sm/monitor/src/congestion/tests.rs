//! Tests of the comparison of devices' settings with the policy.
//! `tests/tests/system/sim_congestion.rs` tests the state machine on simulated fabrics.

use rsm_config::{CongestionPolicy, KeyPolicy, SwitchPorts};
use rsm_mad::wire::congestion::{
    CaCongestionSetting, CongestionControlTableEntry, CongestionKeyInfo, PortMask,
    SwitchCongestionSetting, SwitchControlMap,
};

/// An entry of the congestion control table with this multiplier.
fn entry(multiplier: u16) -> CongestionControlTableEntry {
    let mut entry = CongestionControlTableEntry::default();
    entry.set_multiplier(multiplier);
    entry
}

#[test]
fn only_fields_in_the_control_map_are_compared() {
    let mut policy = CongestionPolicy::default();
    policy
        .switch
        .set_control_map(SwitchControlMap::MARKING_RATE)
        .set_threshold(7)
        .set_marking_rate(3);
    let ports = SwitchPorts {
        external: 4,
        with_port_0: false,
    };
    let mut held = SwitchCongestionSetting::default();
    assert!(!policy.has_switch_setting(ports, &held));
    held.set_marking_rate(3);
    assert!(policy.has_switch_setting(ports, &held));
    policy.switch.set_control_map(SwitchControlMap::THRESHOLD);
    assert!(!policy.has_switch_setting(ports, &held));
    let mut adapter = CaCongestionSetting::default();
    policy.adapter.set_control_map(0b10);
    policy.adapter.entries[0].set_ccti_min(1);
    assert!(policy.has_adapter_setting(&adapter));
    policy.adapter.entries[1].set_ccti_min(1);
    assert!(!policy.has_adapter_setting(&adapter));
    adapter.entries[1].set_ccti_min(1);
    assert!(policy.has_adapter_setting(&adapter));
    adapter.set_port_control(1);
    assert!(!policy.has_adapter_setting(&adapter));
}

#[test]
fn port_masks_are_compared_only_for_ports_that_the_switch_has() {
    let mut policy = CongestionPolicy::default();
    policy
        .switch
        .set_control_map(SwitchControlMap::VICTIM_MASK | SwitchControlMap::CREDIT_MASK);
    policy.switch.victim_mask = PortMask([0xFF; 32]);
    let mut held = SwitchCongestionSetting::default();
    for (external, with_port_0, mask) in [(3, false, 0x0E), (3, true, 0x0F)] {
        let ports = SwitchPorts {
            external,
            with_port_0,
        };
        held.victim_mask = PortMask::default();
        held.victim_mask.0[31] = mask;
        let wanted = policy.switch_setting(ports);
        assert_eq!(wanted.victim_mask, held.victim_mask);
        // A device may show bits of ports that it lacks.
        held.victim_mask.0[0] = 0x80;
        assert!(policy.has_switch_setting(ports, &held));
        held.credit_mask.0[31] = 2;
        assert!(!policy.has_switch_setting(ports, &held));
        held.credit_mask = PortMask::default();
    }
    let widest = SwitchPorts {
        external: 255,
        with_port_0: true,
    };
    assert_eq!(policy.switch_setting(widest).victim_mask.0[0], 0x7F);
}

#[test]
fn each_table_block_has_the_common_limit_and_its_own_entries() {
    let policy = CongestionPolicy {
        table: (0..65).map(entry).collect(),
        ..CongestionPolicy::default()
    };
    assert_eq!(policy.table_blocks(), 2);
    let mut second = policy.table_block(1);
    assert_eq!(second.ccti_limit(), 64);
    assert_eq!(second.entries[0].multiplier(), 64);
    assert_eq!(second.entries[1].multiplier(), 0);
    // Entries above the limit are not compared.
    second.entries[1] = entry(9);
    assert!(policy.has_table_block(1, &second));
    second.entries[0] = entry(9);
    assert!(!policy.has_table_block(1, &second));
    let mut first = policy.table_block(0);
    first.set_ccti_limit(63);
    assert!(!policy.has_table_block(0, &first));
    assert_eq!(CongestionPolicy::default().table_blocks(), 0);
}

#[test]
fn key_is_compared_with_its_protection_and_lease_if_the_policy_gives_keys() {
    let policy = CongestionPolicy {
        key: 7,
        gives_key: Some(KeyPolicy {
            protects: true,
            lease_s: 60,
        }),
        ..CongestionPolicy::default()
    };
    let mut held = CongestionKeyInfo::default();
    held.set_violations(3);
    assert!(!policy.has_key(&held));
    let wanted = policy.key_info(&held);
    assert_eq!((wanted.cc_key(), wanted.lease_period()), (7, 60));
    assert!(wanted.protect_bit() && policy.has_key(&wanted));
    let gives_no_key = CongestionPolicy {
        key: 7,
        ..CongestionPolicy::default()
    };
    assert!(gives_no_key.has_key(&held));
}
