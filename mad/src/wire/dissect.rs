//! Writes datagrams as text for people, according to the field tables.

use std::fmt::{self, Formatter};

use super::MadBytes;
use super::attr::{Attribute, Notice};
use super::fields::{self, FieldSpec};
use super::header::{AttrId, Class, MadHeader};
use super::sa::{Record, SaMad};
use super::smp::Smp;

/// Displays all fields of a datagram, one per line; see [`dissect`].
///
/// The first line is the header. Datagrams of classes other than subnet management and the SA have
/// no further lines. A table of records has only the lines of its first record.
#[derive(Clone, Copy)]
pub struct Dissection<'a> {
    mad: &'a MadBytes,
}

/// The text form of a datagram of any content.
pub fn dissect(mad: &MadBytes) -> Dissection<'_> {
    Dissection { mad }
}

impl fmt::Display for Dissection<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let header = MadHeader::of(self.mad);
        if header.class() == Class::SUBNET_ADMINISTRATION {
            return write_sa(self.mad, f);
        }
        if !header.class().is_subnet_management() {
            return writeln!(f, "{header:?}");
        }
        let smp = Smp::from_bytes(self.mad);
        writeln!(f, "{smp:?}")?;
        write_fields(fields::SMP, self.mad, f)?;
        if smp.is_directed() {
            write_fields(fields::DIRECTED, self.mad, f)?;
        }
        writeln!(f, "{}", header.attribute())?;
        if smp.data().iter().all(|&byte| byte == 0) {
            return writeln!(f, "  all zeroes");
        }
        let Some(table) = fields::of_attribute(header.attribute()) else {
            return write_hex(smp.data(), f);
        };
        write_fields(table, smp.data(), f)?;
        if header.attribute() == AttrId::NOTICE {
            let notice = Notice::from_data(smp.data());
            write_fields(details_of(notice), notice.data_details(), f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Dissection<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes a datagram of the SA.
fn write_sa(bytes: &MadBytes, f: &mut Formatter<'_>) -> fmt::Result {
    let mad = SaMad::from_bytes(bytes);
    writeln!(f, "{mad:?}")?;
    write_fields(fields::RMPP, bytes, f)?;
    write_fields(fields::SA, bytes, f)?;
    writeln!(f, "{}", mad.header.attribute_name())?;
    let rmpp = mad.header.rmpp();
    let continued = rmpp.is_active() && rmpp.segment_number() > 1;
    match fields::of_record(mad.header.mad().attribute()) {
        _ if mad.data.iter().all(|&byte| byte == 0) => writeln!(f, "  all zeroes"),
        // Later segments may begin anywhere in a record.
        Some(layout) if !continued => {
            write_fields(layout.fields, &mad.data, f)?;
            layout.embedded.iter().try_for_each(|&(offset, table)| {
                let data = mad.data.get(usize::from(offset / 8)..);
                write_fields(table, data.unwrap_or(&[]), f)
            })
        }
        _ => write_hex(&mad.data, f),
    }
}

/// Writes the `Debug` form of a record: its fields by their names in the specification.
pub(super) fn debug_record<R: Record>(record: &R, f: &mut Formatter<'_>) -> fmt::Result {
    let mut out = f.debug_struct(R::NAME);
    let data = record.as_bytes();
    if let Some(layout) = fields::of_record(R::ID) {
        for field in layout.fields {
            out.field(field.name, &format_args!("{}", field.value(data)));
        }
        for &(offset, table) in layout.embedded {
            let data = data.get(usize::from(offset / 8)..).unwrap_or(&[]);
            for field in table {
                out.field(field.name, &format_args!("{}", field.value(data)));
            }
        }
    }
    out.finish()
}

/// The fields of the details of a notice; empty if the trap is unknown.
fn details_of(notice: &Notice) -> &'static [FieldSpec] {
    let table = match notice.nvidia_trap() {
        Some(trap) => fields::of_nvidia_trap(trap),
        None if notice.is_generic() => fields::of_trap(notice.trap_number()),
        None => None,
    };
    table.unwrap_or(&[])
}

/// Writes each field of `table` on a line, with its value in `data`.
fn write_fields(table: &[FieldSpec], data: &[u8], f: &mut Formatter<'_>) -> fmt::Result {
    table
        .iter()
        .try_for_each(|field| writeln!(f, "  {}: {}", field.name, field.value(data)))
}

/// Writes `data` in hexadecimal digits, 16 bytes a line.
fn write_hex(data: &[u8], f: &mut Formatter<'_>) -> fmt::Result {
    const BYTES_PER_LINE: usize = 16;
    for line in data.chunks(BYTES_PER_LINE) {
        f.write_str(" ")?;
        for byte in line {
            write!(f, " {byte:02x}")?;
        }
        writeln!(f)?;
    }
    Ok(())
}

/// Writes the `Debug` form of an attribute: its fields by their names in the specification.
pub(super) fn debug_attribute<A: Attribute>(attribute: &A, f: &mut Formatter<'_>) -> fmt::Result {
    let mut out = f.debug_struct(A::NAME);
    let data = attribute.as_data();
    for field in fields::of_attribute(A::ID).unwrap_or(&[]) {
        out.field(field.name, &format_args!("{}", field.value(data)));
    }
    if A::ID == AttrId::NOTICE {
        let notice = Notice::from_data(data);
        for field in details_of(notice) {
            let value = field.value(notice.data_details());
            out.field(field.name, &format_args!("{value}"));
        }
    }
    out.finish()
}
