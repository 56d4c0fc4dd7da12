//! The fields of PortInfo that a Set can change, and the ports at which an agent accepts each of
//! them. A personality contains the fields that its device mishandles.

use std::ops::BitOr;

use rsm_mad::wire::attr::PortInfo;

/// Copies one field from the second PortInfo to the first.
type CopyField = fn(&mut PortInfo, &PortInfo);

/// The ports at which an agent accepts a field of PortInfo without a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcceptingPorts {
    /// Ports with an address have the field: adapters' ports, and port 0 of a switch.
    Address,
    /// Ports with a link have the field.
    Link,
    /// No port: the agent checks the value first.
    Checked,
}

macro_rules! port_fields {
    ($($variant:ident: $name:literal, $accepting:ident, [$($get:ident => $set:ident),+];)*) => {
        /// A field of PortInfo, or a pair of related fields, that a Set can change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum PortField { $(
            #[doc = concat!("`", $name, "` on a command line.")]
            $variant,
        )* }

        impl PortField {
            /// All fields of the enumeration.
            pub const ALL: &'static [PortField] = &[$(PortField::$variant),*];

            /// The name of the field on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(PortField::$variant => $name),* }
            }

            /// The ports at which an agent accepts the field without a check.
            const fn accepting_ports(self) -> AcceptingPorts {
                match self { $(PortField::$variant => AcceptingPorts::$accepting),* }
            }

            /// The function that copies this field.
            fn copier(self) -> CopyField {
                match self {
                    $(PortField::$variant => |to, from| { $(to.$set(from.$get());)+ }),*
                }
            }
        }
    };
}

port_fields! {
    Lid: "lid", Checked, [lid => set_lid];
    Lmc: "lmc", Checked, [lmc => set_lmc];
    MasterSmLid: "sm-lid", Address, [master_sm_lid => set_master_sm_lid];
    MasterSmSl: "sm-sl", Address, [master_sm_sl => set_master_sm_sl];
    MKey: "m-key", Address, [m_key => set_m_key];
    MKeyProtection: "m-key-protection", Address, [m_key_protect_bits => set_m_key_protect_bits, m_key_lease_period => set_m_key_lease_period];
    GidPrefix: "gid-prefix", Address, [gid_prefix => set_gid_prefix];
    SubnetTimeout: "subnet-timeout", Address, [subnet_timeout => set_subnet_timeout];
    Mtu: "mtu", Checked, [neighbor_mtu => set_neighbor_mtu];
    Vls: "vls", Checked, [operational_vls => set_operational_vls];
    VlHighLimit: "vl-high-limit", Link, [vl_high_limit => set_vl_high_limit];
    VlStallCount: "vl-stall-count", Link, [vl_stall_count => set_vl_stall_count];
    HoqLife: "hoq-life", Link, [hoq_life => set_hoq_life];
    PartitionEnforcement: "partition-enforcement", Link, [partition_enforcement_inbound => set_partition_enforcement_inbound, partition_enforcement_outbound => set_partition_enforcement_outbound];
    ErrorThresholds: "error-thresholds", Link, [local_phy_errors => set_local_phy_errors, overrun_errors => set_overrun_errors];
    WidthEnabled: "width-enabled", Checked, [link_width_enabled => set_link_width_enabled];
}

/// A set of [`PortField`]s. The number of each bit is the discriminant of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortFields(u16);

impl PortFields {
    /// A set without fields.
    pub const NONE: PortFields = PortFields(0);
    /// The set of all fields.
    pub const ALL: PortFields = PortFields(u16::MAX);

    /// The set of one field.
    pub const fn of(field: PortField) -> PortFields {
        PortFields(1 << field as u8)
    }

    /// Whether the set has no field.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The fields that are not in `other`.
    pub(crate) const fn without(self, other: PortFields) -> PortFields {
        PortFields(self.0 & !other.0)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = PortField> {
        let fields = PortField::ALL.iter().copied();
        fields.filter(move |&field| self.0 & PortFields::of(field).0 != 0)
    }

    /// The fields that an agent accepts without a check at the ports that `ports` names.
    pub(crate) fn accepted_at(ports: AcceptingPorts) -> PortFields {
        let fields = PortField::ALL.iter().copied();
        fields
            .filter(|field| field.accepting_ports() == ports)
            .fold(PortFields::NONE, |all, field| all | PortFields::of(field))
    }

    /// Copies these fields of `from` to `to`. Returns the fields that changed.
    pub(crate) fn copy(self, to: &mut PortInfo, from: &PortInfo) -> PortFields {
        self.iter().fold(PortFields::NONE, |changed, field| {
            let before = *to;
            field.copier()(to, from);
            if *to == before {
                changed
            } else {
                changed | PortFields::of(field)
            }
        })
    }
}

impl BitOr for PortFields {
    type Output = PortFields;

    fn bitor(self, other: PortFields) -> PortFields {
        PortFields(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_use_all_16_bits_of_the_set() {
        assert_eq!(PortField::ALL.len(), u16::BITS as usize);
        let all = PortField::ALL
            .iter()
            .fold(PortFields::NONE, |all, &field| all | PortFields::of(field));
        assert_eq!(all, PortFields::ALL);
    }

    #[test]
    fn copying_returns_the_fields_that_differed() {
        let (mut to, mut from) = (PortInfo::default(), PortInfo::default());
        from.set_lid(rsm_ids::Lid(7)).set_hoq_life(3);
        let lid = PortFields::of(PortField::Lid);
        let both = lid | PortFields::of(PortField::Mtu);
        assert_eq!(both.copy(&mut to, &from), lid);
        assert_eq!((to.lid(), to.hoq_life()), (rsm_ids::Lid(7), 0));
    }
}
