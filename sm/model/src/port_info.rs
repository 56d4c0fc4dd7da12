//! The fields of PortInfo that the subnet manager owns (IBA 14.2.5.6): which fields a Set changes,
//! and which values a port keeps.

use rsm_ids::{Lid, Lmc};
use rsm_mad::wire::attr::{
    LinkDownDefault, LinkSpeedExt, LinkSpeeds, LinkWidths, Mtu, PortInfo, PortPhysicalState,
    PortState, VlCap,
};

/// A field of PortInfo that the subnet manager writes.
pub struct Field {
    /// Name of the field in the specification.
    pub name: &'static str,
    get: fn(&PortInfo) -> u64,
    set: fn(&mut PortInfo, u64),
    /// Whether the field must be set before data flows: ports that are Armed or Active do not
    /// accept a change.
    before_active: bool,
}

macro_rules! fields {
    ($($(#[$doc:meta])* $index:ident: $name:literal, $get:expr, $set:expr, $before_active:literal;)*) => {
        /// Index of a field in [`FIELDS`].
        #[derive(Clone, Copy)]
        #[expect(missing_docs, reason = "the names are those of the fields")]
        pub enum FieldIndex { $($index),* }

        /// Every field that the subnet manager owns; a [`FieldMask`] has one bit for each field.
        /// The store keeps masks, so a new field must be added at the end.
        pub static FIELDS: &[Field] = &[
            $(Field { name: $name, get: $get, set: $set, before_active: $before_active }),*
        ];

        const FIELD_COUNT: usize = [$($name),*].len();
    };
}

fields! {
    MKey: "M_Key", |info| info.m_key(), |info, value| { info.set_m_key(value); }, false;
    Prefix: "GidPrefix", |info| info.gid_prefix(), |info, value| { info.set_gid_prefix(value); }, false;
    BaseLid: "LID", |info| u64::from(info.lid().0), |info, value| { info.set_lid(Lid(value as u16)); }, false;
    MasterSmLid: "MasterSMLID", |info| u64::from(info.master_sm_lid().0), |info, value| { info.set_master_sm_lid(Lid(value as u16)); }, false;
    MKeyLease: "M_KeyLeasePeriod", |info| u64::from(info.m_key_lease_period()), |info, value| { info.set_m_key_lease_period(value as u16); }, false;
    MKeyProtect: "M_KeyProtectBits", |info| u64::from(info.m_key_protect_bits()), |info, value| { info.set_m_key_protect_bits(value as u8); }, false;
    LidMask: "LMC", |info| u64::from(info.lmc().get()), |info, value| { info.set_lmc(Lmc::from_bits(value as u8)); }, false;
    NeighborMtu: "NeighborMTU", |info| u64::from(info.neighbor_mtu().code()), |info, value| { info.set_neighbor_mtu(Mtu::from_code(value as u8)); }, true;
    MasterSmSl: "MasterSMSL", |info| u64::from(info.master_sm_sl()), |info, value| { info.set_master_sm_sl(value as u8); }, false;
    VlStall: "VLStallCount", |info| u64::from(info.vl_stall_count()), |info, value| { info.set_vl_stall_count(value as u8); }, false;
    HoqLife: "HOQLife", |info| u64::from(info.hoq_life()), |info, value| { info.set_hoq_life(value as u8); }, false;
    VlHighLimit: "VLHighLimit", |info| u64::from(info.vl_high_limit()), |info, value| { info.set_vl_high_limit(value as u8); }, false;
    OperationalVls: "OperationalVLs", |info| u64::from(info.operational_vls().code()), |info, value| { info.set_operational_vls(VlCap::from_code(value as u8)); }, true;
    SubnetTimeout: "SubnetTimeOut", |info| u64::from(info.subnet_timeout()), |info, value| { info.set_subnet_timeout(value as u8); }, false;
    LocalPhyErrors: "LocalPhyErrors", |info| u64::from(info.local_phy_errors()), |info, value| { info.set_local_phy_errors(value as u8); }, false;
    OverrunErrors: "OverrunErrors", |info| u64::from(info.overrun_errors()), |info, value| { info.set_overrun_errors(value as u8); }, false;
    WidthEnabled: "LinkWidthEnabled", |info| u64::from(info.link_width_enabled().0), |info, value| { info.set_link_width_enabled(LinkWidths(value as u8)); }, false;
    SpeedEnabled: "LinkSpeedEnabled", |info| u64::from(info.link_speed_enabled().0), |info, value| { info.set_link_speed_enabled(LinkSpeeds(value as u8)); }, false;
    SpeedExtEnabled: "LinkSpeedExtEnabled", |info| u64::from(info.link_speed_ext_enabled().0), |info, value| { info.set_link_speed_ext_enabled(LinkSpeedExt(value as u8)); }, false;
    EnforceInbound: "PartitionEnforcementInbound", |info| u64::from(info.partition_enforcement_inbound()), |info, value| { info.set_partition_enforcement_inbound(value != 0); }, false;
    EnforceOutbound: "PartitionEnforcementOutbound", |info| u64::from(info.partition_enforcement_outbound()), |info, value| { info.set_partition_enforcement_outbound(value != 0); }, false;
    LinkDownDefault: "LinkDownDefaultState", |info| u64::from(info.link_down_default_state().code()), |info, value| { info.set_link_down_default_state(LinkDownDefault::from_code(value as u8)); }, false;
    /// NeighborMTU of port 0 of a switch, which is always Active and has no link.
    Port0Mtu: "NeighborMTU", |info| u64::from(info.neighbor_mtu().code()), |info, value| { info.set_neighbor_mtu(Mtu::from_code(value as u8)); }, false;
}

/// A set of [`FIELDS`]: bit n stands for the field at index n.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct FieldMask(pub u32);

impl FieldMask {
    /// Fields without which a port does not work. A port that does not keep one of them is faulty,
    /// and teaches no habit of its kind of device.
    pub const ESSENTIAL: FieldMask = FieldMask(
        1 << FieldIndex::MKey as u32
            | 1 << FieldIndex::BaseLid as u32
            | 1 << FieldIndex::MasterSmLid as u32
            | 1 << FieldIndex::LidMask as u32
            | 1 << FieldIndex::NeighborMtu as u32,
    );

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The fields in both sets.
    pub const fn and(self, other: FieldMask) -> FieldMask {
        FieldMask(self.0 & other.0)
    }

    /// The fields that are not in `other`.
    pub const fn without(self, other: FieldMask) -> FieldMask {
        FieldMask(self.0 & !other.0)
    }

    /// Copies these fields from `from` to `to`.
    pub fn copy(self, to: &mut PortInfo, from: &PortInfo) {
        for (bit, field) in FIELDS.iter().enumerate() {
            if self.0 & 1 << bit != 0 {
                (field.set)(to, (field.get)(from));
            }
        }
    }

    /// The fields of the set in which `a` and `b` differ.
    pub fn differing(self, a: &PortInfo, b: &PortInfo) -> FieldMask {
        let fields = FIELDS.iter().enumerate();
        let differ = |field: &Field| (field.get)(a) != (field.get)(b);
        let bits = fields.filter(|&(bit, field)| self.0 & 1 << bit != 0 && differ(field));
        FieldMask(bits.fold(0, |mask, (bit, _)| mask | 1 << bit))
    }

    /// The names of the fields in the set.
    pub fn names(self) -> Vec<&'static str> {
        FIELDS
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.0 & 1 << bit != 0)
            .map(|(_, field)| field.name)
            .collect()
    }
}

/// Fields of an Active port that differ from its plan and can change only while its link is down,
/// each as (held, planned).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkMismatch {
    /// NeighborMTU, if it differs.
    pub mtu: Option<(Mtu, Mtu)>,
    /// OperationalVLs, if they differ.
    pub vls: Option<(VlCap, VlCap)>,
}

/// The planned fields of a port with their values; all other fields keep their values.
///
/// A bring-up plans settings for every port: in a fabric of 45,056 hosts, these are 225,000
/// settings of 64 bytes each.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PortSettings {
    planned: FieldMask,
    /// Values of M_Key and GidPrefix; zero for a field that is not planned.
    wide: [u64; WIDE],
    /// Values of the other fields, which have at most 16 bits.
    narrow: [u16; FIELD_COUNT - WIDE],
}

/// Number of 64-bit fields, which come first.
const WIDE: usize = FieldIndex::Prefix as usize + 1;

const _: () = assert!(size_of::<PortSettings>() <= 64);

impl PortSettings {
    /// Plans `value` for a field.
    pub fn put(&mut self, index: FieldIndex, value: u64) {
        self.planned.0 |= 1 << index as u32;
        match (index as usize).checked_sub(WIDE) {
            None => self.wide[index as usize] = value,
            Some(narrow) => self.narrow[narrow] = value as u16,
        }
    }

    /// The stored value of a field; zero for a field that is not planned.
    fn stored(&self, index: usize) -> u64 {
        match index.checked_sub(WIDE) {
            None => self.wide[index],
            Some(narrow) => u64::from(self.narrow[narrow]),
        }
    }

    /// The planned fields, each with its bit and value.
    fn planned(&self) -> impl Iterator<Item = (u32, &'static Field, u64)> {
        let fields = FIELDS.iter().enumerate();
        let planned = fields.filter(|&(bit, _)| self.planned.0 & 1 << bit != 0);
        planned.map(|(bit, field)| (bit as u32, field, self.stored(bit)))
    }

    /// The planned value of a field; `None` if the field is not planned.
    pub fn value(&self, index: FieldIndex) -> Option<u64> {
        let is_planned = self.planned.0 & 1 << index as u32 != 0;
        is_planned.then(|| self.stored(index as usize))
    }

    /// The planned fields whose value in `info` differs, except fields in `ignored` and fields that
    /// cannot change in the port's state.
    pub fn differing(&self, info: &PortInfo, ignored: FieldMask) -> FieldMask {
        let accepts_all = matches!(info.port_state(), PortState::Init | PortState::Down);
        let mut mask = 0;
        for (bit, field, value) in self.planned() {
            let differs = (field.get)(info) != value;
            if differs && ignored.0 & 1 << bit == 0 && (accepts_all || !field.before_active) {
                mask |= 1 << bit;
            }
        }
        FieldMask(mask)
    }

    /// `current` with the settings applied, ready to be sent. All other fields, and those in
    /// `left_out`, keep their values, or are marked "no change" if the specification has such a
    /// mark (IBA 14.2.5.6).
    pub fn apply(&self, current: &PortInfo, left_out: FieldMask) -> PortInfo {
        let mut info = *current;
        let accepts_all = matches!(info.port_state(), PortState::Init | PortState::Down);
        info.set_port_state(PortState::NoChange);
        info.set_port_physical_state(PortPhysicalState::NoChange);
        info.set_link_down_default_state(LinkDownDefault::NoChange);
        info.set_link_width_enabled(LinkWidths(0));
        info.set_link_speed_enabled(LinkSpeeds(0));
        info.set_client_reregister(false);
        for (bit, field, value) in self.planned() {
            if left_out.0 & 1 << bit == 0 && (accepts_all || !field.before_active) {
                (field.set)(&mut info, value);
            }
        }
        info
    }

    /// `current` as it will be after the Set, which leaves out the fields in `ignored` and fields
    /// that cannot change in the port's state.
    pub fn expected(&self, current: &PortInfo, ignored: FieldMask) -> PortInfo {
        let mut info = *current;
        let FieldMask(mask) = self.differing(current, ignored);
        for (bit, field, value) in self.planned() {
            if mask & 1 << bit != 0 {
                (field.set)(&mut info, value);
            }
        }
        info
    }

    /// The fields among `asked` whose values the device did not keep, according to its answer
    /// `info`.
    pub fn not_kept(&self, asked: FieldMask, info: &PortInfo) -> FieldMask {
        let mut mask = 0;
        for (bit, field, value) in self.planned() {
            if asked.0 & 1 << bit != 0 && (field.get)(info) != value {
                mask |= 1 << bit;
            }
        }
        FieldMask(mask)
    }

    /// Writes into `info` the planned values that must be set before data flows. `info` is the
    /// PortInfo of a port that was just set and carries no data yet.
    pub fn put_before_active(&self, info: &mut PortInfo) {
        for (_, field, value) in self.planned() {
            if field.before_active {
                (field.set)(info, value);
            }
        }
    }

    /// NeighborMTU and OperationalVLs, if they differ and cannot be set because the link carries
    /// data; `None` if neither differs.
    pub fn link_mismatch(&self, info: &PortInfo) -> Option<LinkMismatch> {
        if info.port_state() != PortState::Active {
            return None;
        }
        let planned = |index: FieldIndex, held: u8| {
            let planned = self.value(index).map(|value| value as u8);
            planned.filter(|&planned| planned != held)
        };
        let (mtu, vls) = (info.neighbor_mtu(), info.operational_vls());
        let mismatch = LinkMismatch {
            mtu: planned(FieldIndex::NeighborMtu, mtu.code())
                .map(|planned| (mtu, Mtu::from_code(planned))),
            vls: planned(FieldIndex::OperationalVls, vls.code())
                .map(|planned| (vls, VlCap::from_code(planned))),
        };
        (mismatch != LinkMismatch::default()).then_some(mismatch)
    }

    /// Whether MasterSMLID or GidPrefix differs, so that the client behind the port must register
    /// again: its registrations are with another subnet manager, or under GIDs that it no longer
    /// has. Fields in `ignored` do not count: a device that does not keep a field would always
    /// differ.
    pub fn ends_registrations(&self, info: &PortInfo, ignored: FieldMask) -> bool {
        let FieldMask(differing) = self.differing(info, ignored);
        let decisive = [FieldIndex::MasterSmLid, FieldIndex::Prefix];
        let mut bits = decisive.map(|index| 1 << index as u32).into_iter();
        bits.any(|bit| differing & bit != 0)
    }
}
