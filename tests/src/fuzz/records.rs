//! Fuzzes the views of records: reading, printing and writing back must preserve any bytes.
//!
//! An input is the identifier of an attribute, followed by at most the data of one datagram.

use std::fmt::{Debug, Write as _};

use rsm_mad::wire::header::{AttrId, Status};
use rsm_mad::wire::sa::{
    ClassPortInfo, GuidInfoRecord, InformInfo, InformInfoRecord, LinearForwardingTableRecord,
    LinkRecord, McMemberRecord, MultiPathRecord, MulticastForwardingTableRecord, NodeRecord,
    PKeyTableRecord, PathRecord, PortInfoRecord, Record, SA_DATA_LEN, SaMad, ServiceRecord,
    SlToVlMappingTableRecord, SmInfoRecord, SwitchInfoRecord, TraceRecord,
    VlArbitrationTableRecord,
};
use rsm_mad::wire::{dissect, fields};

use super::Seed;
use super::bytes::Bytes;

/// Calls a function for every kind of record.
macro_rules! every_record {
    ($use:ident) => {
        $use! {
            ClassPortInfo, InformInfo, NodeRecord, PortInfoRecord, SlToVlMappingTableRecord, SwitchInfoRecord,
            LinearForwardingTableRecord, MulticastForwardingTableRecord, SmInfoRecord, LinkRecord, GuidInfoRecord,
            ServiceRecord, PKeyTableRecord, PathRecord, VlArbitrationTableRecord, McMemberRecord, TraceRecord,
            MultiPathRecord, InformInfoRecord,
        }
    };
}

/// Runs one input. Input that is too short is ignored.
pub(super) fn run(input: &[u8]) {
    let mut input = Bytes(input);
    let Some(attribute) = input.number().map(AttrId) else {
        return;
    };
    let data = input.up_to(SA_DATA_LEN);
    let mut text = String::new();
    macro_rules! view {
        ($($record:ident,)*) => {
            match attribute {
                $($record::ID => view::<$record>(data, &mut text),)*
                _ => {}
            }
        };
    }
    every_record!(view);
    if attribute == MultiPathRecord::ID {
        gids(data);
    }
    datagram(attribute, data, &mut text);
}

/// Checks that a record can be read, printed and written back unchanged, and that all its fields
/// can be read.
fn view<R: Record + Debug>(data: &[u8], text: &mut String) {
    let Some(record) = R::from_prefix(data) else {
        assert!(data.len() < R::LEN, "{}", R::NAME);
        return;
    };
    assert_eq!(record.as_bytes(), &data[..R::LEN], "{}", R::NAME);
    let mut copy = data.to_vec();
    *R::from_prefix_mut(&mut copy).expect("the copy has the length of the data") = *record;
    assert_eq!(copy, data, "{}", R::NAME);
    // Writing to a String cannot fail.
    let _ = write!(text, "{record:?}");
    let layout = fields::of_record(R::ID).expect("every record has a field layout");
    for component in R::COMPONENTS {
        let end = usize::from(component.offset + component.width);
        assert!(end <= R::LEN * 8, "{} {}", R::NAME, component.name);
    }
    for field in layout.fields {
        for index in 0..field.count {
            let _ = field.read(record.as_bytes(), index);
        }
        let _ = write!(text, "{}", field.value(record.as_bytes()));
    }
}

/// Checks the GIDs that follow a MultiPathRecord; the record states the number of GIDs.
fn gids(data: &[u8]) {
    let Some(record) = MultiPathRecord::from_prefix(data) else {
        return;
    };
    if let Some((sources, destinations)) = record.gids(data) {
        let counts = (
            usize::from(record.sgid_count()),
            usize::from(record.dgid_count()),
        );
        assert_eq!((sources.len(), destinations.len()), counts);
        let last = sources.chain(destinations).last();
        assert_eq!(last.is_some(), counts != (0, 0));
    }
}

/// Checks the whole datagram as a request, and the header of an answer to it.
fn datagram(attribute: AttrId, data: &[u8], text: &mut String) {
    let mut mad = SaMad::from_bytes(&[0; 256]).to_owned();
    mad.data[..data.len()].copy_from_slice(data);
    // The input also determines the header.
    let mut bytes = *mad.as_bytes();
    for (at, byte) in data.iter().enumerate() {
        bytes[at % 56] ^= byte.rotate_left(at as u32 / 56);
    }
    bytes[1] = 3;
    bytes[16..18].copy_from_slice(&attribute.0.to_be_bytes());
    let _ = write!(text, "{}", dissect(&bytes));
    let answer = SaMad::from_bytes(&bytes).header.response(Status::OK);
    assert!(answer.mad().method().is_response());
    assert_eq!(answer.sm_key(), 0);
}

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    macro_rules! seed {
        ($($record:ident,)*) => { $(seeds.extend(seeds_of::<$record>());)* };
    }
    every_record!(seed);
    let mut many = MultiPathRecord::default();
    many.set_sgid_count(3).set_dgid_count(8);
    let mut data = many.as_bytes().to_vec();
    data.extend((0..11 * 16).map(|at| at as u8));
    seeds.push(seed::<MultiPathRecord>("with gids", &data));
    seeds
}

/// A record with a distinct number in each component, and a record whose bits are all set.
fn seeds_of<R: Record>() -> [Seed; 2] {
    let mut numbered = vec![0; R::LEN];
    for (number, component) in (1u8..).zip(R::COMPONENTS) {
        numbered[usize::from(component.offset + component.width - 1) / 8] = number;
    }
    if R::COMPONENTS.is_empty() {
        numbered = (1..=R::LEN).map(|at| at as u8).collect();
    }
    [
        seed::<R>("numbered", &numbered),
        seed::<R>("ones", &vec![0xFF; R::LEN]),
    ]
}

/// The input with the identifier of the record's attribute, and `data`.
fn seed<R: Record>(kind: &str, data: &[u8]) -> Seed {
    let mut bytes = R::ID.0.to_be_bytes().to_vec();
    bytes.extend_from_slice(data);
    Seed::new(format!("{} {kind}", R::NAME).replace(' ', "-"), bytes)
}
