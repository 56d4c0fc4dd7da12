//! Tables of the fields of datagrams: the name, bit offset and width of each.
//!
//! The tables are written from the figures of the specification, independently of the views in
//! [`attr`](super::attr) and in another form, so that tables and views check each other. They drive
//! [`dissect`](super::dissect).

mod attributes;
mod details;
mod packet;
mod records;

use std::fmt::{self, Formatter};

pub use packet::{DIRECTED, HEADER, RMPP, SA, SMP};
pub use records::RecordLayout;

use super::attr::{Trap, VPORT_LOCAL_CHANGE, VPORT_STATE_CHANGE};
use super::header::AttrId;
use crate::ids::Gid;

/// A field, or a row of equal fields.
#[derive(Clone, Copy)]
pub struct FieldSpec {
    /// The name in the specification.
    pub name: &'static str,
    /// The first bit; 0 is the most significant bit of byte 0.
    pub offset: u16,
    /// The number of bits of the field: up to 64, 128 for a GID, or whole bytes for text and paths.
    pub width: u16,
    /// The number of fields in the row; 1 for a single field.
    pub count: u16,
    /// The distance in bits between the starts of two fields of the row; it equals the width if the
    /// fields are adjacent.
    pub stride: u16,
    show: Show,
}

/// The text form of a value.
#[derive(Clone, Copy)]
enum Show {
    Decimal,
    Hexadecimal,
    Gid,
    Text,
    Bytes,
    Named(fn(u64, &mut Formatter<'_>) -> fmt::Result),
}

const fn field(name: &'static str, offset: u16, width: u16, show: Show) -> FieldSpec {
    FieldSpec {
        name,
        offset,
        width,
        count: 1,
        stride: width,
        show,
    }
}

const fn dec(name: &'static str, offset: u16, width: u16) -> FieldSpec {
    field(name, offset, width, Show::Decimal)
}

const fn hex(name: &'static str, offset: u16, width: u16) -> FieldSpec {
    field(name, offset, width, Show::Hexadecimal)
}

const fn gid(name: &'static str, offset: u16) -> FieldSpec {
    field(name, offset, 128, Show::Gid)
}

const fn bytes(name: &'static str, offset: u16, width: u16) -> FieldSpec {
    field(name, offset, width, Show::Bytes)
}

const fn text(name: &'static str, offset: u16, width: u16) -> FieldSpec {
    field(name, offset, width, Show::Text)
}

/// A field with the text form of `T`.
const fn named<T: super::bits::Field + fmt::Display>(
    name: &'static str,
    offset: u16,
    width: u16,
) -> FieldSpec {
    let show = |bits, f: &mut Formatter<'_>| T::from_bits(bits).fmt(f);
    field(name, offset, width, Show::Named(show))
}

impl FieldSpec {
    /// A row of `count` fields like this one, whose starts are `stride` bits apart.
    const fn times(mut self, count: u16, stride: u16) -> FieldSpec {
        self.count = count;
        self.stride = stride;
        self
    }

    /// The first bit of the field at `index` in the row.
    pub const fn offset_of(&self, index: u16) -> usize {
        self.offset as usize + index as usize * self.stride as usize
    }

    /// The low 128 bits of the field at `index` in the row. Bits beyond `data` read as 0.
    pub fn read(&self, data: &[u8], index: u16) -> u128 {
        let start = self.offset_of(index);
        (start..start + usize::from(self.width)).fold(0, |value, bit| {
            let byte = data.get(bit / 8).copied().unwrap_or(0);
            value << 1 | u128::from(byte >> (7 - bit % 8) & 1)
        })
    }

    /// The field's bytes, for a field of whole bytes; bytes beyond `data` are left out.
    fn slice<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let start = usize::from(self.offset / 8).min(data.len());
        let end = (start + usize::from(self.width / 8)).min(data.len());
        &data[start..end]
    }

    /// The field's value in `data`, for display.
    pub fn value<'a>(&'a self, data: &'a [u8]) -> impl fmt::Display + 'a {
        Value { field: self, data }
    }

    /// Writes the field at `index` in the row.
    fn write_one(&self, data: &[u8], index: u16, f: &mut Formatter<'_>) -> fmt::Result {
        match self.show {
            Show::Decimal => write!(f, "{}", self.read(data, index)),
            Show::Hexadecimal => {
                let digits = usize::from(self.width.div_ceil(4));
                write!(f, "0x{:0digits$x}", self.read(data, index))
            }
            Show::Gid => write!(f, "{}", Gid(self.read(data, index))),
            Show::Text => {
                let bytes = self.slice(data);
                let end = bytes.iter().position(|&byte| byte == 0);
                write!(
                    f,
                    "\"{}\"",
                    bytes[..end.unwrap_or(bytes.len())].escape_ascii()
                )
            }
            Show::Bytes => self
                .slice(data)
                .iter()
                .try_for_each(|byte| write!(f, "{byte:02x}")),
            Show::Named(show) => show(self.read(data, index) as u64, f),
        }
    }
}

impl fmt::Debug for FieldSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}, {} bits", self.name, self.offset, self.width)?;
        if self.count > 1 {
            write!(f, ", {} times every {}", self.count, self.stride)?;
        }
        Ok(())
    }
}

/// A field with the data from which it is displayed.
struct Value<'a> {
    field: &'a FieldSpec,
    data: &'a [u8],
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for index in 0..self.field.count {
            if index > 0 {
                f.write_str(" ")?;
            }
            self.field.write_one(self.data, index, f)?;
        }
        Ok(())
    }
}

/// The fields of an attribute in the 64 data bytes of an SMP, in wire order; `None` if the
/// attribute is unknown.
pub const fn of_attribute(attribute: AttrId) -> Option<&'static [FieldSpec]> {
    match attribute {
        AttrId::NOTICE => Some(attributes::NOTICE),
        AttrId::NODE_DESCRIPTION => Some(attributes::NODE_DESCRIPTION),
        AttrId::NODE_INFO => Some(attributes::NODE_INFO),
        AttrId::SWITCH_INFO => Some(attributes::SWITCH_INFO),
        AttrId::GUID_INFO => Some(attributes::GUID_INFO),
        AttrId::PORT_INFO => Some(attributes::PORT_INFO),
        AttrId::P_KEY_TABLE => Some(attributes::P_KEY_TABLE),
        AttrId::SL_TO_VL_MAPPING => Some(attributes::SL_TO_VL_MAPPING),
        AttrId::VL_ARBITRATION => Some(attributes::VL_ARBITRATION),
        AttrId::LINEAR_FORWARDING_TABLE => Some(attributes::LINEAR_FORWARDING_TABLE),
        AttrId::MULTICAST_FORWARDING_TABLE => Some(attributes::MULTICAST_FORWARDING_TABLE),
        AttrId::SM_INFO => Some(attributes::SM_INFO),
        AttrId::AR_INFO => Some(attributes::AR_INFO),
        AttrId::PORT_INFO_EXTENDED => Some(attributes::PORT_INFO_EXTENDED),
        AttrId::SWITCH_PORT_STATE_TABLE => Some(attributes::SWITCH_PORT_STATE_TABLE),
        AttrId::GENERAL_INFO => Some(attributes::GENERAL_INFO),
        AttrId::QOS_CONFIG_SL => Some(attributes::QOS_CONFIG_SL),
        AttrId::EXTENDED_PORT_INFO => Some(attributes::EXTENDED_PORT_INFO),
        AttrId::EXTENDED_NODE_INFO => Some(attributes::EXTENDED_NODE_INFO),
        AttrId::EXTENDED_SWITCH_INFO => Some(attributes::EXTENDED_SWITCH_INFO),
        AttrId::AR_GROUP_TABLE => Some(attributes::AR_GROUP_TABLE),
        AttrId::AR_LINEAR_FORWARDING_TABLE => Some(attributes::AR_LINEAR_FORWARDING_TABLE),
        AttrId::VIRTUALIZATION_INFO => Some(attributes::VIRTUALIZATION_INFO),
        AttrId::VPORT_INFO => Some(attributes::VPORT_INFO),
        AttrId::VNODE_INFO => Some(attributes::VNODE_INFO),
        AttrId::VPORT_STATE => Some(attributes::VPORT_STATE),
        AttrId::VNODE_DESCRIPTION => Some(attributes::NODE_DESCRIPTION),
        AttrId::VPORT_GUID_INFO => Some(attributes::GUID_INFO),
        AttrId::VPORT_P_KEY_TABLE => Some(attributes::P_KEY_TABLE),
        _ => None,
    }
}

/// The layout of a record or of another attribute of the SA; `None` if it is unknown.
pub fn of_record(attribute: AttrId) -> Option<&'static RecordLayout> {
    match attribute.0 {
        0x0001 => Some(&records::CLASS_PORT_INFO),
        0x0002 => Some(&records::NOTICE),
        0x0003 => Some(&records::INFORM_INFO),
        0x0011 => Some(&records::NODE_RECORD),
        0x0012 => Some(&records::PORT_INFO_RECORD),
        0x0013 => Some(&records::SL_TO_VL_MAPPING_TABLE_RECORD),
        0x0014 => Some(&records::SWITCH_INFO_RECORD),
        0x0015 => Some(&records::LINEAR_FORWARDING_TABLE_RECORD),
        0x0017 => Some(&records::MULTICAST_FORWARDING_TABLE_RECORD),
        0x0018 => Some(&records::SM_INFO_RECORD),
        0x0020 => Some(&records::LINK_RECORD),
        0x0030 => Some(&records::GUID_INFO_RECORD),
        0x0031 => Some(&records::SERVICE_RECORD),
        0x0033 => Some(&records::P_KEY_TABLE_RECORD),
        0x0035 => Some(&records::PATH_RECORD),
        0x0036 => Some(&records::VL_ARBITRATION_TABLE_RECORD),
        0x0038 => Some(&records::MC_MEMBER_RECORD),
        0x0039 => Some(&records::TRACE_RECORD),
        0x003A => Some(&records::MULTI_PATH_RECORD),
        0x00F3 => Some(&records::INFORM_INFO_RECORD),
        _ => None,
    }
}

/// The fields of a trap of NVIDIA in the 54 bytes DataDetails of a Notice, in wire order; `None` if
/// the trap is unknown.
pub const fn of_nvidia_trap(trap: u16) -> Option<&'static [FieldSpec]> {
    match trap {
        VPORT_LOCAL_CHANGE => Some(details::VPORT_LOCAL_CHANGE),
        VPORT_STATE_CHANGE => Some(details::VPORT_STATE_CHANGE),
        _ => None,
    }
}

/// The fields of a generic trap in the 54 bytes DataDetails of a Notice, in wire order; `None` if
/// the trap is unknown.
pub const fn of_trap(trap: Trap) -> Option<&'static [FieldSpec]> {
    match trap.0 {
        64..=67 => Some(details::GID_CHANGE),
        128 => Some(details::LINK_STATE_CHANGE),
        129..=131 => Some(details::PORT_THRESHOLD),
        144 => Some(details::LOCAL_CHANGE),
        145 => Some(details::SYSTEM_IMAGE_GUID_CHANGE),
        256 => Some(details::BAD_M_KEY),
        257 | 258 => Some(details::BAD_KEYS),
        259 => Some(details::BAD_P_KEY_AT_SWITCH),
        _ => None,
    }
}
