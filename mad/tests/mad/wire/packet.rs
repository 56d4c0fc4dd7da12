use rsm_mad::wire::MAD_LEN;
use rsm_mad::wire::fields::{DIRECTED, FieldSpec, HEADER, SMP};
use rsm_mad::wire::header::MadHeader;
use rsm_mad::wire::smp::Smp;

use crate::wire::accessor::{Accessor, accessors, check, check_layout, write_bits};

fn header_mut(data: &mut [u8]) -> &mut MadHeader {
    Smp::from_bytes_mut(data.try_into().unwrap()).header_mut()
}

fn header(data: &[u8]) -> &MadHeader {
    MadHeader::of(data.try_into().unwrap())
}

macro_rules! header_accessors {
    ($($name:literal: $get:ident, $set:ident;)*) => {
        [$(Accessor {
            name: $name,
            get: |data, _| crate::wire::accessor::Raw::raw(header(data).$get()),
            set: |data, _, value| {
                header_mut(data).$set(crate::wire::accessor::Raw::from_raw(value));
            },
        }),*]
    };
}

#[test]
fn mad_header_accessors_match_the_field_table() {
    check_layout(24, HEADER);
    check(
        MAD_LEN,
        HEADER,
        &header_accessors! {
            "BaseVersion": base_version, set_base_version;
            "MgmtClass": class, set_class;
            "ClassVersion": class_version, set_class_version;
            "Method": method, set_method;
            "Status": status, set_status;
            "ClassSpecific": class_specific, set_class_specific;
            "TransactionID": tid, set_tid;
            "AttributeID": attribute, set_attribute;
            "AttributeModifier": modifier, set_modifier;
        },
    );
}

/// The fields of `table` whose names are not in `names`.
fn without(table: &[FieldSpec], names: &[&str]) -> Vec<FieldSpec> {
    let is_kept = |field: &&FieldSpec| !names.contains(&field.name);
    table.iter().filter(is_kept).copied().collect()
}

#[test]
fn smp_accessors_match_the_field_table() {
    let smp_fields = [SMP, DIRECTED].concat();
    check_layout(MAD_LEN, &smp_fields);
    check(
        MAD_LEN,
        &without(&smp_fields, &["DrStatus"]),
        &accessors! { Smp, Smp::from_bytes, Smp::as_bytes;
            "M_Key": m_key, set_m_key;
            "D": is_returning, set_returning;
            "HopPointer": hop_pointer, set_hop_pointer;
            "HopCount": hop_count, set_hop_count;
            "DrSLID": dr_slid, set_dr_slid;
            "DrDLID": dr_dlid, set_dr_dlid;
        },
    );
}

#[test]
fn setting_a_directed_status_does_not_change_d() {
    const DIRECTED_CLASS: u8 = 0x81;
    let status = DIRECTED
        .iter()
        .find(|field| field.name == "DrStatus")
        .unwrap();
    for d in [0x00, 0x80] {
        let mut before = [0x5A; MAD_LEN];
        before[1] = DIRECTED_CLASS;
        before[4] = 0x3C | d;
        let read = Smp::from_bytes(&before).status().0;
        assert_eq!(u128::from(read), status.read(&before, 0));

        let mut after = before;
        let busy = rsm_mad::wire::header::Status(0x8001);
        Smp::from_bytes_mut(&mut after).set_status(busy);
        write_bits(&mut before, status, 0, 0x0001);
        assert_eq!(after, before);
    }
}

#[test]
fn data_and_paths_are_at_the_offsets_of_the_table() {
    let bytes = std::array::from_fn(|index| index as u8);
    let smp = Smp::from_bytes(&bytes);
    assert_eq!(smp.data()[..], bytes[64..128]);
    assert_eq!(smp.initial_path()[..], bytes[128..192]);
    assert_eq!(smp.return_path()[..], bytes[192..256]);
}
