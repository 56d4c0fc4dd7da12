//! Checks that the accessors of a view agree with the table of its fields.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::wire::attr::*;
use rsm_mad::wire::fields::FieldSpec;
use rsm_mad::wire::header::{AttrId, Class, Method, Status};
use rsm_mad::wire::rmpp::{RmppFlags, RmppStatus, RmppType};
use rsm_mad::wire::sa::{
    ComponentMask, JoinState, Rate, SaCapabilityMask, SaCapabilityMask2, Selector,
};

/// The getter and setter of one field of a view; the second argument is the index in a row of
/// fields.
pub(crate) struct Accessor {
    pub(crate) name: &'static str,
    pub(crate) get: fn(&[u8], u16) -> u128,
    pub(crate) set: fn(&mut [u8], u16, u128),
}

/// A value of a field as a plain number.
pub(crate) trait Raw {
    fn raw(self) -> u128;

    /// The field's value in `bits`, whose upper bits may not fit the field.
    fn from_raw(bits: u128) -> Self;
}

macro_rules! raw_numbers {
    ($($type:ty),*) => {$(
        impl Raw for $type {
            fn raw(self) -> u128 {
                self.into()
            }

            fn from_raw(bits: u128) -> Self {
                bits as $type
            }
        }
    )*};
}

macro_rules! raw_newtypes {
    ($($type:ident: $native:ty),* $(,)?) => {$(
        impl Raw for $type {
            fn raw(self) -> u128 {
                self.0.into()
            }

            fn from_raw(bits: u128) -> Self {
                $type(bits as $native)
            }
        }
    )*};
}

macro_rules! raw_codes {
    ($($type:ident),*) => {$(
        impl Raw for $type {
            fn raw(self) -> u128 {
                self.code().into()
            }

            fn from_raw(bits: u128) -> Self {
                $type::from_code(bits as u8)
            }
        }
    )*};
}

raw_numbers!(u8, u16, u32, u64);
raw_newtypes!(
    Guid: u64, Lid: u16, PortNum: u8, Gid: u128, Tid: u64, PKey: u16, Trap: u16, ProducerType: u32,
    AttrId: u16, Class: u8, Method: u8, Status: u16, CapabilityMask: u32, CapabilityMask2: u16,
    LinkWidths: u8, LinkSpeeds: u8, LinkSpeedExt: u8, LinkSpeedExt2: u8, MlnxLinkSpeed: u8,
    ExtendedPortCapabilities: u16, PortInfoExtendedCapabilities: u32,
    LocalChanges: u16, RmppFlags: u8, ComponentMask: u64, JoinState: u8, Rate: u8, SaCapabilityMask: u16,
    SaCapabilityMask2: u32,
);
raw_codes!(
    NodeType,
    NoticeType,
    PortState,
    PortPhysicalState,
    LinkDownDefault,
    Mtu,
    VlCap,
    SmState,
    RmppType,
    RmppStatus,
    Selector,
    SpecialPortType,
    UnhealthyReason
);

impl Raw for bool {
    fn raw(self) -> u128 {
        self.into()
    }

    fn from_raw(bits: u128) -> Self {
        bits & 1 == 1
    }
}

impl Raw for Lmc {
    fn raw(self) -> u128 {
        self.get().into()
    }

    fn from_raw(bits: u128) -> Self {
        Lmc::from_bits(bits as u8)
    }
}

/// Lists accessors: `accessors!(View, from_bytes, as_bytes; "Name": getter, setter; ...)`.
macro_rules! accessors {
    ($view:ty, $view_of:path, $data_of:path; $($name:literal: $get:ident, $set:ident;)*) => {
        [$($crate::wire::accessor::Accessor {
            name: $name,
            get: |data, _| {
                let view: &$view = $view_of(data.try_into().unwrap());
                $crate::wire::accessor::Raw::raw(view.$get())
            },
            set: |data, _, value| {
                let mut view: $view = *$view_of((&*data).try_into().unwrap());
                view.$set($crate::wire::accessor::Raw::from_raw(value));
                data.copy_from_slice($data_of(&view));
            },
        }),*]
    };
}
pub(crate) use accessors;

/// The width of the widest field that is a number; wider fields are text and paths.
const NUMBER_BITS: u16 = 128;

/// Checks `accessors` against `table` for views of `len` bytes. Every number in the table must have
/// an accessor and every accessor a number in the table; both must read equal values from arbitrary
/// bytes; and a setter must change exactly the bits that the table states, whatever the value.
pub(crate) fn check(len: usize, table: &[FieldSpec], accessors: &[Accessor]) {
    let in_table: BTreeSet<_> = table
        .iter()
        .filter(|field| field.width <= NUMBER_BITS)
        .map(|field| field.name)
        .collect();
    let accessible: BTreeSet<_> = accessors.iter().map(|accessor| accessor.name).collect();
    assert_eq!(in_table, accessible);

    for accessor in accessors {
        let field = table.iter().find(|field| field.name == accessor.name);
        check_one(len, field.unwrap(), accessor);
    }
}

fn check_one(len: usize, field: &FieldSpec, accessor: &Accessor) {
    let bytes = prop::collection::vec(any::<u8>(), len);
    let input = (bytes, 0..field.count, any::<u128>());
    let mut runner = TestRunner::deterministic();
    let outcome = runner.run(&input, |(before, index, value)| {
        prop_assert_eq!((accessor.get)(&before, index), field.read(&before, index));

        let mut after = before.clone();
        (accessor.set)(&mut after, index, value);
        let mut expected = before;
        write_bits(&mut expected, field, index, value);
        prop_assert_eq!(after, expected);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{field:?}: {failure}");
    }
}

/// Writes the low bits of `value` to the field at `index`, a bit at a time.
pub(crate) fn write_bits(data: &mut [u8], field: &FieldSpec, index: u16, value: u128) {
    for position in 0..usize::from(field.width) {
        let bit = field.offset_of(index) + usize::from(field.width) - 1 - position;
        let mask = 0x80 >> (bit % 8);
        if value >> position & 1 == 1 {
            data[bit / 8] |= mask;
        } else {
            data[bit / 8] &= !mask;
        }
    }
}

/// Checks that the fields of `table` lie inside `len` bytes and that no two share a bit.
pub(crate) fn check_layout(len: usize, table: &[FieldSpec]) {
    let mut used = vec![None; len * 8];
    for field in table {
        for index in 0..field.count {
            let start = field.offset_of(index);
            for (bit, slot) in used
                .iter_mut()
                .enumerate()
                .skip(start)
                .take(usize::from(field.width))
            {
                assert_eq!(slot.replace(field.name), None, "{field:?} at bit {bit}");
            }
            assert!(start + usize::from(field.width) <= len * 8, "{field:?}");
        }
    }
}
