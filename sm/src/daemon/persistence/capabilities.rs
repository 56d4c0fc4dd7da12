//! Stores capabilities of device types, one row for each type.

use rsm_mad::wire::attr::Capabilities;
use rsm_model::capabilities::{DeviceCapabilities, DeviceType};
use rsm_store::{ChangeSet, Persisted};

use super::table;

/// Table of capabilities. A key is a device type, and a value the four words of its answer.
const TABLE: &str = "device-capabilities";

/// Capabilities in the store. Logs and skips invalid rows.
pub(super) fn restored(persisted: &Persisted) -> DeviceCapabilities {
    let mut known = DeviceCapabilities::default();
    let rows = table::read(persisted, TABLE, |key, value| {
        Some((decode_type(key)?, decode_words(value)?))
    });
    for (device, capabilities) in rows {
        known.restore(device, capabilities);
    }
    known
}

/// Adds the changes after which the store holds `known`.
pub(super) fn changes(persisted: &Persisted, known: &DeviceCapabilities, changes: &mut ChangeSet) {
    let row = |(device, Capabilities(words)): (DeviceType, Capabilities)| {
        let words = words.iter().flat_map(|word| word.to_be_bytes());
        (encode_type(device).to_vec(), words.collect::<Vec<u8>>())
    };
    let rows: table::Rows = known.answers().map(row).collect();
    table::replace(persisted, TABLE, &rows, changes);
}

/// Encodes vendor, device and revision, big-endian, in 10 bytes.
fn encode_type(device: DeviceType) -> [u8; 10] {
    let mut key = [0; 10];
    key[..4].copy_from_slice(&device.vendor.to_be_bytes());
    key[4..6].copy_from_slice(&device.device.to_be_bytes());
    key[6..].copy_from_slice(&device.revision.to_be_bytes());
    key
}

/// Decodes a key that [`encode_type`] returned; `None` if the key is invalid.
fn decode_type(key: &[u8]) -> Option<DeviceType> {
    let key: &[u8; 10] = key.try_into().ok()?;
    Some(DeviceType {
        vendor: u32::from_be_bytes(key[..4].try_into().ok()?),
        device: u16::from_be_bytes(key[4..6].try_into().ok()?),
        revision: u32::from_be_bytes(key[6..].try_into().ok()?),
    })
}

/// Decodes the four words of an answer; `None` if the value is invalid.
fn decode_words(value: &[u8]) -> Option<Capabilities> {
    let value: &[u8; 16] = value.try_into().ok()?;
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(value.chunks_exact(4)) {
        *word = u32::from_be_bytes(bytes.try_into().ok()?);
    }
    Some(Capabilities(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: DeviceType = DeviceType {
        vendor: 0x2C9,
        device: 0xD2F2,
        revision: 0xA0,
    };

    #[test]
    fn capabilities_are_restored_and_forgotten() {
        let mut known = DeviceCapabilities::default();
        known.learn(DEVICE, Capabilities([0xA02D_3775, 0x2030_5000, 1, 0]));
        let mut persisted = Persisted::default();
        let mut change = ChangeSet::new();
        changes(&persisted, &known, &mut change);
        persisted.apply(&change);
        let after = restored(&persisted);
        assert!(after.answers().eq(known.answers()));
        let mut change = ChangeSet::new();
        changes(&persisted, &after, &mut change);
        assert!(change.is_empty(), "nothing is written twice");
        changes(&persisted, &DeviceCapabilities::default(), &mut change);
        persisted.apply(&change);
        assert_eq!(restored(&persisted).answers().count(), 0);
    }

    #[test]
    fn rows_of_a_wrong_length_are_not_decoded() {
        assert_eq!(decode_type(&[0; 9]), None);
        assert_eq!(decode_words(&[0; 15]), None);
        assert_eq!(decode_type(&encode_type(DEVICE)), Some(DEVICE));
    }
}
