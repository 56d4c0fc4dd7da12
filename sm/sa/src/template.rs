//! The comparison of records with the record in a query.

use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{ComponentMask, Record, SA_DATA_LEN, SaStatus};

/// Number of bytes compared at once.
const UNIT: usize = 8;

/// The template of a query: a record of which only some components are compared (IBA 15.4.4).
///
/// The component mask is converted once into a mask of the record's bits, so that any query
/// compares a few words of each record.
#[derive(Clone, Default, Debug)]
pub(super) struct Template {
    /// Mask of the compared bits.
    mask: [u64; SA_DATA_LEN / UNIT],
    /// Values of the compared bits; 0 for all other bits.
    wanted: [u64; SA_DATA_LEN / UNIT],
}

impl Template {
    /// The template with the components of `record` that are in `mask` and not in `not_compared`.
    ///
    /// # Errors
    /// ERR_REQ_INVALID for a component that the record lacks. Reserved components are ignored.
    pub(super) fn new<R: Record>(
        record: &R,
        mask: ComponentMask,
        not_compared: ComponentMask,
    ) -> Result<Template, Status> {
        let last = R::COMPONENTS.last().map_or(0, |last| last.mask.0);
        // All components up to the last component, including reserved components.
        if mask.0 > last | (last.wrapping_sub(1)) {
            return Err(SaStatus::REQ_INVALID);
        }
        let compared = mask.without(not_compared);
        if compared.is_empty() {
            // Most queries contain only a LID or GUID, by which the caller finds the record.
            return Ok(Template::default());
        }
        let mut bits = [0; SA_DATA_LEN];
        for component in R::COMPONENTS {
            if compared.contains(component.mask) {
                set_bits(&mut bits, component.offset, component.width);
            }
        }
        let mut wanted = [0; SA_DATA_LEN];
        wanted[..R::LEN].copy_from_slice(record.as_bytes());
        let mask = words(&bits);
        let mut wanted = words(&wanted);
        for (wanted, mask) in wanted.iter_mut().zip(&mask) {
            *wanted &= mask;
        }
        Ok(Template { mask, wanted })
    }

    /// Whether `record` has the wanted values in all compared components.
    pub(super) fn matches<R: Record>(&self, record: &R) -> bool {
        let (units, _) = record.as_bytes().as_chunks::<UNIT>();
        units
            .iter()
            .zip(self.mask.iter().zip(&self.wanted))
            .all(|(unit, (mask, wanted))| u64::from_ne_bytes(*unit) & mask == *wanted)
    }
}

/// Sets `width` bits from bit `offset` on; bit 0 is the most significant bit of byte 0.
fn set_bits(bytes: &mut [u8; SA_DATA_LEN], offset: u16, width: u16) {
    for bit in offset..offset + width {
        bytes[usize::from(bit / 8)] |= 0x80 >> (bit % 8);
    }
}

/// The bytes as words in the byte order of the machine.
fn words(bytes: &[u8; SA_DATA_LEN]) -> [u64; SA_DATA_LEN / UNIT] {
    let (units, _) = bytes.as_chunks::<UNIT>();
    std::array::from_fn(|index| u64::from_ne_bytes(units[index]))
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Lid, PortNum};
    use rsm_mad::wire::sa::{LinkRecord, NodeRecord, ServiceRecord};

    use super::*;

    #[test]
    fn only_components_in_the_mask_are_compared() {
        let mut record = LinkRecord::default();
        record.set_from_lid(Lid(5)).set_to_port(PortNum(3));
        let mask = LinkRecord::FROM_LID | LinkRecord::TO_PORT;
        let template = Template::new(&record, mask, ComponentMask::NONE).unwrap();
        let mut other = record;
        other.set_to_lid(Lid(9)).set_from_port(PortNum(1));
        assert!(template.matches(&other));
        other.set_to_port(PortNum(4));
        assert!(!template.matches(&other));
        let everything = Template::new(&record, mask, mask).unwrap();
        assert!(everything.matches(&other));
    }

    #[test]
    fn unknown_components_are_refused_and_reserved_components_ignored() {
        let record = NodeRecord::default();
        let reserved = ComponentMask(0b10);
        assert!(Template::new(&record, reserved, ComponentMask::NONE).is_ok());
        assert!(Template::new(&record, NodeRecord::NODE_DESCRIPTION, ComponentMask::NONE).is_ok());
        let beyond = Template::new(&record, ComponentMask(1 << 15), ComponentMask::NONE);
        assert_eq!(beyond.unwrap_err(), SaStatus::REQ_INVALID);
        let last = ServiceRecord::SERVICE_DATA64_1;
        assert!(Template::new(&ServiceRecord::default(), last, ComponentMask::NONE).is_ok());
    }
}
