//! The SA: its datagrams, and its records, one file each (IBA 15.2).
//!
//! A message is an [`SaHeader`] and its data: one record, or as many records as RMPP carries. In a
//! table every record begins at a multiple of 8 bytes, so the views here end with the padding up to
//! that multiple. The record of a query is a template, whose components are compared if they are in
//! the component mask.

mod class_port_info;
mod component;
mod guid_info_record;
mod header;
mod inform_info;
mod linear_forwarding_table_record;
mod link_record;
mod mc_member_record;
mod multi_path_record;
mod multicast_forwarding_table_record;
mod node_record;
mod notice;
mod p_key_table_record;
mod path_record;
mod port_info_record;
mod rate;
mod selector;
mod service_record;
mod sl_to_vl_mapping_table_record;
mod sm_info_record;
mod status;
mod switch_info_record;
mod trace_record;
mod vl_arbitration_table_record;

pub use class_port_info::{ClassPortInfo, SaCapabilityMask, SaCapabilityMask2};
pub use component::{Component, ComponentMask};
pub use guid_info_record::GuidInfoRecord;
pub use header::{CLASS_VERSION, SA_DATA_LEN, SA_HEADER_LEN, SaHeader, SaMad};
pub use inform_info::{InformInfo, InformInfoRecord};
pub use linear_forwarding_table_record::LinearForwardingTableRecord;
pub use link_record::LinkRecord;
pub use mc_member_record::{JoinState, McMemberRecord};
pub use multi_path_record::MultiPathRecord;
pub use multicast_forwarding_table_record::MulticastForwardingTableRecord;
pub use node_record::NodeRecord;
pub use notice::SaNotice;
pub use p_key_table_record::PKeyTableRecord;
pub use path_record::PathRecord;
pub use port_info_record::PortInfoRecord;
pub use rate::Rate;
pub use selector::Selector;
pub use service_record::ServiceRecord;
pub use sl_to_vl_mapping_table_record::SlToVlMappingTableRecord;
pub use sm_info_record::SmInfoRecord;
pub use status::SaStatus;
pub use switch_info_record::SwitchInfoRecord;
pub use trace_record::TraceRecord;
pub use vl_arbitration_table_record::VlArbitrationTableRecord;

use component::components;

use super::attr::Attribute;
use super::header::AttrId;
use super::smp::SMP_DATA_LEN;

/// A view of a record, or of another attribute of the class, in a message.
pub trait Record: Copy + Default {
    /// The attribute identifier of the record. The class defines its own numbers: 0x0011 is
    /// NodeRecord here and NodeInfo in subnet management.
    const ID: AttrId;
    /// The name in the specification.
    const NAME: &'static str;
    /// The length in bytes, with the padding that makes it a multiple of 8.
    const LEN: usize;
    /// The length in the units of AttributeOffset, 8 bytes.
    const WORDS: u16 = (Self::LEN / 8) as u16;
    /// The components of the record; empty for an attribute that is not a record.
    const COMPONENTS: &'static [Component];

    /// The record at the start of `data`; `None` if `data` is shorter than [`Record::LEN`].
    fn from_prefix(data: &[u8]) -> Option<&Self>;

    /// The record at the start of `data`, mutable in place.
    fn from_prefix_mut(data: &mut [u8]) -> Option<&mut Self>;

    /// The bytes as they are sent.
    fn as_bytes(&self) -> &[u8];
}

/// Implements [`Record`] for a zerocopy structure.
macro_rules! record {
    ($view:ident, $id:literal, $name:literal) => {
        const _: () = assert!(
            size_of::<$view>() % 8 == 0 && size_of::<$view>() <= $crate::wire::sa::SA_DATA_LEN
        );

        impl $crate::wire::sa::Record for $view {
            const ID: $crate::wire::header::AttrId = $crate::wire::header::AttrId($id);
            const NAME: &'static str = $name;
            const LEN: usize = size_of::<$view>();
            const COMPONENTS: &'static [$crate::wire::sa::Component] = $view::COMPONENT_TABLE;

            #[inline]
            fn from_prefix(data: &[u8]) -> Option<&Self> {
                let (view, _) = <$view as zerocopy::FromBytes>::ref_from_prefix(data).ok()?;
                Some(view)
            }

            fn from_prefix_mut(data: &mut [u8]) -> Option<&mut Self> {
                let (view, _) = <$view as zerocopy::FromBytes>::mut_from_prefix(data).ok()?;
                Some(view)
            }

            #[inline]
            fn as_bytes(&self) -> &[u8] {
                zerocopy::IntoBytes::as_bytes(self)
            }
        }

        impl Default for $view {
            #[inline]
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }

        impl std::fmt::Debug for $view {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::wire::dissect::debug_record(self, f)
            }
        }
    };
}
use record;

/// Defines the accessors of GIDs, each by `getter, setter = field;`.
macro_rules! gids {
    ($view:ident { $($(#[$doc:meta])* $getter:ident, $setter:ident = $field:ident;)* }) => {
        impl $view {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $getter(&self) -> $crate::ids::Gid {
                    $crate::ids::Gid(u128::from_be_bytes(self.$field))
                }

                #[doc = concat!("Sets [`Self::", stringify!($getter), "`].")]
                #[inline]
                pub fn $setter(&mut self, gid: $crate::ids::Gid) -> &mut Self {
                    self.$field = gid.0.to_be_bytes();
                    self
                }
            )*
        }
    };
}
use gids;

/// The attribute of subnet management that begins with `bytes`; all later bytes are zero.
fn widen<A: Attribute, const N: usize>(bytes: &[u8; N]) -> A {
    let mut data = [0; SMP_DATA_LEN];
    data[..N].copy_from_slice(bytes);
    *A::from_data(&data)
}

/// The first `N` bytes of an attribute of subnet management, which are the bytes that it uses.
fn narrow<A: Attribute, const N: usize>(attribute: &A) -> [u8; N] {
    std::array::from_fn(|index| attribute.as_data()[index])
}
