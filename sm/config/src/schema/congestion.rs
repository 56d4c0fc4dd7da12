//! The keys of section `congestion`, except the key that turns congestion control on.

use rsm_mad::wire::congestion::{CaCongestionSetting, SwitchCongestionSetting, SwitchControlMap};

use super::key::{Applies, ConfigKey, Place};
use super::{CongestionConfig, number};
use crate::congestion_values::{CctEntries, CctEntry, PerLevel, PortMaskValue};
use crate::convert::Convert;
use crate::value::{Kind, Takes};
use crate::{CongestionPolicy, KeyPolicy};

/// The keys with the settings of congestion control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CongestionKeys {
    /// CC_Key of requests.
    pub cc_key: u64,
    /// Whether agents get this key.
    pub set_cc_key: bool,
    /// Whether agents hide the key.
    pub(crate) cc_key_protect: bool,
    /// Seconds after which an agent gives up its protection.
    pub(crate) cc_key_lease_period_s: u16,
    /// Maximum number of requests in flight.
    pub window: u32,
    /// Mask of the fields of SwitchCongestionSetting that rsm sets.
    pub(crate) switch_control_map: u32,
    /// Victim_Mask.
    pub(crate) switch_victim_mask: PortMaskValue,
    /// Credit_Mask.
    pub(crate) switch_credit_mask: PortMaskValue,
    /// Threshold.
    pub(crate) switch_threshold: u8,
    /// Packet_Size.
    pub(crate) switch_packet_size: u8,
    /// CS_Threshold.
    pub(crate) switch_credit_starvation_threshold: u8,
    /// CS_ReturnDelay.
    pub(crate) switch_credit_starvation_return_delay: CctEntry,
    /// Marking_Rate.
    pub(crate) switch_marking_rate: u16,
    /// Port_Control of CACongestionSetting.
    pub(crate) ca_port_control: u16,
    /// Mask of the service levels of CACongestionSetting that rsm sets.
    pub(crate) ca_control_map: u16,
    /// CCTI_Timer.
    pub(crate) ca_ccti_timer: PerLevel<65535>,
    /// CCTI_Increase.
    pub(crate) ca_ccti_increase: PerLevel<255>,
    /// Trigger_Threshold.
    pub(crate) ca_trigger_threshold: PerLevel<255>,
    /// CCTI_Min.
    pub(crate) ca_ccti_min: PerLevel<255>,
    /// The CongestionControlTable.
    pub table: CctEntries,
}

impl Default for CongestionKeys {
    fn default() -> CongestionKeys {
        CongestionKeys {
            cc_key: 0,
            set_cc_key: false,
            cc_key_protect: true,
            cc_key_lease_period_s: 60,
            window: CongestionPolicy::WINDOW,
            switch_control_map: 0,
            switch_victim_mask: PortMaskValue::default(),
            switch_credit_mask: PortMaskValue::default(),
            switch_threshold: 0,
            switch_packet_size: 0,
            switch_credit_starvation_threshold: 0,
            switch_credit_starvation_return_delay: CctEntry::default(),
            switch_marking_rate: 0,
            ca_port_control: 0,
            ca_control_map: 0,
            ca_ccti_timer: PerLevel::default(),
            ca_ccti_increase: PerLevel::default(),
            ca_trigger_threshold: PerLevel::default(),
            ca_ccti_min: PerLevel::default(),
            table: CctEntries::default(),
        }
    }
}

impl CongestionConfig {
    /// The policy that these keys define.
    pub fn policy(&self) -> CongestionPolicy {
        let keys = &self.keys;
        CongestionPolicy {
            enabled: self.enabled,
            key: keys.cc_key,
            gives_key: keys.set_cc_key.then_some(KeyPolicy {
                protects: keys.cc_key_protect,
                lease_s: keys.cc_key_lease_period_s,
            }),
            window: keys.window,
            switch: keys.switch_setting(),
            adapter: keys.adapter_setting(),
            table: keys.table.0.clone(),
        }
    }
}

impl CongestionKeys {
    fn switch_setting(&self) -> SwitchCongestionSetting {
        let mut setting = SwitchCongestionSetting::default();
        setting
            .set_control_map(SwitchControlMap(self.switch_control_map))
            .set_threshold(self.switch_threshold)
            .set_packet_size(self.switch_packet_size)
            .set_cs_threshold(self.switch_credit_starvation_threshold)
            .set_marking_rate(self.switch_marking_rate);
        setting.victim_mask = self.switch_victim_mask.0;
        setting.credit_mask = self.switch_credit_mask.0;
        setting.cs_return_delay = self.switch_credit_starvation_return_delay.0;
        setting
    }

    fn adapter_setting(&self) -> CaCongestionSetting {
        let mut setting = CaCongestionSetting::default();
        setting
            .set_port_control(self.ca_port_control)
            .set_control_map(self.ca_control_map);
        for (level, entry) in (0..).zip(&mut setting.entries) {
            entry
                .set_ccti_timer(self.ca_ccti_timer.of(level))
                .set_ccti_increase(self.ca_ccti_increase.of(level) as u8)
                .set_trigger_threshold(self.ca_trigger_threshold.of(level) as u8)
                .set_ccti_min(self.ca_ccti_min.of(level) as u8);
        }
        setting
    }
}

const fn hexadecimal(max: u64) -> Kind {
    Kind::Hexadecimal { min: 0, max }
}

/// Declares the keys: name, kind, example for a key without a default, OpenSM's name with the
/// conversion of its values, and text.
macro_rules! congestion_keys {
    ($($key:ident, $kind:expr, $example:literal, $opensm:expr, $($doc:literal),+;)+) => {
        pub(super) const CONGESTION_KEYS: &[ConfigKey] = &[$(ConfigKey {
            section: "congestion",
            key: stringify!($key),
            doc: &[$($doc),+],
            kind: $kind,
            example: $example,
            opensm: $opensm,
            applies: Applies::OnReload,
            place: Place::Key(|config| &mut config.congestion.keys.$key),
        }),+];
    };
}

congestion_keys! {
    cc_key, hexadecimal(u64::MAX), "", Some(("cc_key", Convert::Number)),
        " CC_Key of requests of congestion control; a device with another key ignores them. Zero:",
        " devices have no key.";
    set_cc_key, bool::KIND, "", None,
        " Whether rsm gives this key to devices that have another key or none.";
    cc_key_protect, bool::KIND, "", None,
        " With `set_cc_key`: whether devices hide their key from requests with another key.";
    cc_key_lease_period_s, number(0, 65_535), "", None,
        " With `set_cc_key`: seconds after a request with a wrong key until a device gives up its",
        " protection. Zero: never.";
    window, number(1, 96), "", Some(("cc_max_outstanding_mads", Convert::WindowUnless(500))),
        " Maximum number of requests of congestion control in flight.";
    switch_control_map, hexadecimal(0x1F), "",
        Some(("cc_sw_cong_setting_control_map", Convert::Number)),
        " The settings of switches that rsm writes, as a sum: 1 victim mask, 2 credit mask, 4",
        " threshold and packet size, 8 credit starvation, 16 marking rate.";
    switch_victim_mask, PortMaskValue::KIND, "\"0x1fffffffffffffffe\"",
        Some(("cc_sw_cong_setting_victim_mask", Convert::Text)),
        " Ports of switches that mark packets even if another port is the cause of the congestion;",
        " bit 0 is port 0.";
    switch_credit_mask, PortMaskValue::KIND, "\"0x0\"",
        Some(("cc_sw_cong_setting_credit_mask", Convert::Text)),
        " Ports of switches that apply credit starvation; bit 0 is port 0.";
    switch_threshold, number(0, 15), "", Some(("cc_sw_cong_setting_threshold", Convert::Number)),
        " How readily a port of a switch marks packets: 0 never, 15 most readily.";
    switch_packet_size, number(0, 255), "",
        Some(("cc_sw_cong_setting_packet_size", Convert::Number)),
        " Packets below this size are not marked, in credits of 64 bytes.";
    switch_credit_starvation_threshold, number(0, 15), "",
        Some(("cc_sw_cong_setting_credit_starvation_threshold", Convert::Number)),
        " How readily a port of a switch applies credit starvation: 0 never, 15 most readily.";
    switch_credit_starvation_return_delay, CctEntry::KIND, "\"0:0\"",
        Some(("cc_sw_cong_setting_credit_starvation_return_delay", Convert::Text)),
        " The delay with which a starved port returns credits, in the form of an entry of `table`.";
    switch_marking_rate, number(0, 65_535), "",
        Some(("cc_sw_cong_setting_marking_rate", Convert::Number)),
        " The mean number of packets between two marks.";
    ca_port_control, hexadecimal(0xFFFF), "",
        Some(("cc_ca_cong_setting_port_control", Convert::Number)),
        " What an adapter slows down: 0 the queue pair of the marked packet, 1 all packets of its",
        " service level.";
    ca_control_map, hexadecimal(0xFFFF), "",
        Some(("cc_ca_cong_setting_control_map", Convert::Number)),
        " The service levels whose settings rsm writes at adapters, by bits.";
    ca_ccti_timer, PerLevel::<65535>::KIND, "\"0:150,1:150\"",
        Some(("cc_ca_cong_setting_ccti_timer", Convert::PerLevel)),
        " By service level, the time after which an adapter goes back by one entry of the table,",
        " in units of 1.024 us.";
    ca_ccti_increase, PerLevel::<255>::KIND, "\"0:1,1:1\"",
        Some(("cc_ca_cong_setting_ccti_increase", Convert::PerLevel)),
        " By service level, the number of entries of the table that an adapter advances for each",
        " notification.";
    ca_trigger_threshold, PerLevel::<255>::KIND, "\"0:2,1:2\"",
        Some(("cc_ca_cong_setting_trigger_threshold", Convert::PerLevel)),
        " By service level, the entry of the table from which on an adapter logs an event.";
    ca_ccti_min, PerLevel::<255>::KIND, "\"0:0,1:0\"",
        Some(("cc_ca_cong_setting_ccti_min", Convert::PerLevel)),
        " By service level, the lowest entry of the table: above 0 an adapter is always slowed",
        " down.";
    table, CctEntries::KIND, "\"0:0,0:1,0:2,1:2\"", Some(("cc_cct", Convert::Text)),
        " The delays between packets that an adapter selects from, SHIFT:MULTIPLIER each, up to",
        " 128. Not set: adapters keep their tables.";
}
