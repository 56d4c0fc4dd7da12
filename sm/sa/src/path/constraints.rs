//! The constraints that a query puts on its paths.

use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{ComponentMask, PathRecord, Rate, Record, SaStatus, Selector};

use crate::path_qos::Criteria;

/// The components of a query that constrain the path; `None` for a component that the query lacks.
/// Fields of the global route header are answered as requested, because a path within the subnet
/// permits any value.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct PathConstraints {
    pub(super) service_id: Option<u64>,
    pub(super) qos_class: Option<u16>,
    pub(super) raw_traffic: bool,
    pub(super) flow_label: u32,
    pub(super) hop_limit: u8,
    pub(super) t_class: u8,
    /// Whether the reverse path must exist; otherwise, it may exist.
    pub(super) reversible: bool,
    /// Maximum number of paths between two ports.
    pub(super) numb_path: Option<u8>,
    pub(super) p_key: Option<PKey>,
    pub(super) sl: Option<u8>,
    mtu: Option<(Selector, Mtu)>,
    rate: Option<(Selector, Rate)>,
    packet_life_time: Option<(Selector, u8)>,
}

/// Largest code of a packet life time, which has six bits.
const LIFE_TIME_MAX: u8 = 63;

impl PathConstraints {
    /// The constraints in the components `mask` of `record`. A value without its selector, or a
    /// selector without its value, is no constraint.
    ///
    /// # Errors
    /// ERR_REQ_INSUFFICIENT_COMPONENTS for half a ServiceID; ERR_REQ_INVALID for an undefined MTU
    /// or rate, and for components that the record lacks.
    pub(crate) fn of(record: &PathRecord, mask: ComponentMask) -> Result<PathConstraints, Status> {
        let last = PathRecord::COMPONENTS.last().map_or(0, |last| last.mask.0);
        if mask.0 > last | last.wrapping_sub(1) {
            return Err(SaStatus::REQ_INVALID);
        }
        let has = |component| mask.contains(component);
        let service = mask & PathRecord::SERVICE_ID;
        if !service.is_empty() && service != PathRecord::SERVICE_ID {
            return Err(SaStatus::REQ_INSUFFICIENT_COMPONENTS);
        }
        let mtu = has(PathRecord::MTU | PathRecord::MTU_SELECTOR)
            .then(|| (record.mtu_selector(), record.mtu()));
        let rate = has(PathRecord::RATE | PathRecord::RATE_SELECTOR)
            .then(|| (record.rate_selector(), record.rate()));
        let unknown_mtu = mtu
            .is_some_and(|(selector, mtu)| selector != Selector::Extreme && mtu.bytes().is_none());
        let unknown_rate = rate.is_some_and(|(selector, rate)| {
            selector != Selector::Extreme && rate.tenth_gbps().is_none()
        });
        if unknown_mtu || unknown_rate {
            return Err(SaStatus::REQ_INVALID);
        }
        Ok(PathConstraints {
            service_id: (!service.is_empty()).then(|| record.service_id()),
            qos_class: has(PathRecord::QOS_CLASS).then(|| record.qos_class()),
            raw_traffic: has(PathRecord::RAW_TRAFFIC) && record.raw_traffic(),
            flow_label: value_or_default(has(PathRecord::FLOW_LABEL), record.flow_label()),
            hop_limit: value_or_default(has(PathRecord::HOP_LIMIT), record.hop_limit()),
            t_class: value_or_default(has(PathRecord::T_CLASS), record.t_class()),
            reversible: has(PathRecord::REVERSIBLE) && record.reversible(),
            numb_path: has(PathRecord::NUMB_PATH).then(|| record.numb_path()),
            p_key: has(PathRecord::P_KEY).then(|| record.p_key()),
            sl: has(PathRecord::SL).then(|| record.sl()),
            mtu,
            rate,
            packet_life_time: has(
                PathRecord::PACKET_LIFE_TIME | PathRecord::PACKET_LIFE_TIME_SELECTOR
            )
            .then(|| {
                (
                    record.packet_life_time_selector(),
                    record.packet_life_time(),
                )
            }),
        })
    }

    /// The components that rules of a QoS policy match.
    pub(super) fn criteria(&self) -> Criteria {
        Criteria {
            service_id: self.service_id,
            qos_class: self.qos_class,
            p_key: self.p_key,
        }
    }

    /// The largest MTU that the query accepts, on a path that carries packets up to `most`; `None`
    /// if the query accepts no such MTU.
    pub(super) fn mtu(&self, most: Mtu) -> Option<Mtu> {
        let all = (1..=5).map(Mtu::from_code);
        largest(self.mtu, most, all, |mtu| mtu)
    }

    /// The highest rate that the query accepts, on a path with rates up to `most`; `None` if the
    /// query accepts no such rate.
    pub(super) fn rate(&self, most: Rate) -> Option<Rate> {
        largest(self.rate, most, Rate::all(), Rate::tenth_gbps)
    }

    /// The shortest packet life time that the query accepts, on a path where packets live up to
    /// `least`; `None` if the query accepts no such life time. As the value is an upper bound, any
    /// value from `least` on is valid.
    pub(super) fn packet_life_time(&self, least: u8) -> Option<u8> {
        match self.packet_life_time {
            None | Some((Selector::Extreme, _)) => Some(least),
            Some((selector, wanted)) => {
                (least..=LIFE_TIME_MAX).find(|&value| selector.accepts(value, wanted))
            }
        }
    }
}

/// `value` if `is_given` is true; otherwise 0.
fn value_or_default<T: Default>(is_given: bool, value: T) -> T {
    if is_given { value } else { T::default() }
}

/// The largest value up to `most` that `constraint` accepts, among `all` values, which must be
/// ascending by `key`; `None` if no value fits.
fn largest<T: Copy + PartialEq, K: Ord>(
    constraint: Option<(Selector, T)>,
    most: T,
    all: impl DoubleEndedIterator<Item = T>,
    key: impl Fn(T) -> K,
) -> Option<T> {
    match constraint {
        None | Some((Selector::Extreme, _)) => Some(most),
        Some((selector, wanted)) => all
            .rev()
            .skip_while(|&value| key(value) > key(most))
            .find(|&value| selector.accepts(key(value), key(wanted))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mtu(selector: Selector, wanted: Mtu) -> Option<Mtu> {
        let mut record = PathRecord::default();
        record.set_mtu(wanted).set_mtu_selector(selector);
        let mask = PathRecord::MTU | PathRecord::MTU_SELECTOR;
        PathConstraints::of(&record, mask)
            .unwrap()
            .mtu(Mtu::Bytes2048)
    }

    #[test]
    fn path_gets_the_highest_mtu_that_the_query_accepts() {
        assert_eq!(
            mtu(Selector::GreaterThan, Mtu::Bytes1024),
            Some(Mtu::Bytes2048)
        );
        assert_eq!(mtu(Selector::GreaterThan, Mtu::Bytes2048), None);
        assert_eq!(
            mtu(Selector::LessThan, Mtu::Bytes2048),
            Some(Mtu::Bytes1024)
        );
        assert_eq!(
            mtu(Selector::LessThan, Mtu::Bytes4096),
            Some(Mtu::Bytes2048)
        );
        assert_eq!(mtu(Selector::LessThan, Mtu::Bytes256), None);
        assert_eq!(mtu(Selector::Exactly, Mtu::Bytes512), Some(Mtu::Bytes512));
        assert_eq!(mtu(Selector::Exactly, Mtu::Bytes4096), None);
        assert_eq!(
            mtu(Selector::Extreme, Mtu::Unknown(0)),
            Some(Mtu::Bytes2048)
        );
    }

    #[test]
    fn rates_are_compared_by_speed_and_not_by_code() {
        let mut record = PathRecord::default();
        let mask = PathRecord::RATE | PathRecord::RATE_SELECTOR;
        // Code 4 is 30 Gb/s, code 3 is 10 Gb/s, code 6 is 20 Gb/s.
        record
            .set_rate(Rate(4))
            .set_rate_selector(Selector::LessThan);
        let constraints = PathConstraints::of(&record, mask).unwrap();
        assert_eq!(constraints.rate(Rate::GBPS_400), Some(Rate(19)));
        assert_eq!(constraints.rate(Rate(6)), Some(Rate(6)));
        record.set_rate(Rate(63));
        assert_eq!(
            PathConstraints::of(&record, mask),
            Err(SaStatus::REQ_INVALID)
        );
    }

    #[test]
    fn packet_life_times_above_the_life_time_of_the_subnet_are_accepted() {
        let mut record = PathRecord::default();
        let mask = PathRecord::PACKET_LIFE_TIME | PathRecord::PACKET_LIFE_TIME_SELECTOR;
        let mut of = |selector, value| {
            record
                .set_packet_life_time(value)
                .set_packet_life_time_selector(selector);
            PathConstraints::of(&record, mask)
                .unwrap()
                .packet_life_time(18)
        };
        assert_eq!(of(Selector::LessThan, 18), None);
        assert_eq!(of(Selector::LessThan, 20), Some(18));
        assert_eq!(of(Selector::Exactly, 20), Some(20));
        assert_eq!(of(Selector::Exactly, 17), None);
        assert_eq!(of(Selector::GreaterThan, 18), Some(19));
        assert_eq!(of(Selector::GreaterThan, 63), None);
        assert_eq!(of(Selector::Extreme, 0), Some(18));
    }

    #[test]
    fn value_without_selector_is_ignored_and_half_a_service_id_is_refused() {
        let mut record = PathRecord::default();
        record.set_mtu(Mtu::Bytes4096);
        let constraints = PathConstraints::of(&record, PathRecord::MTU).unwrap();
        assert_eq!(constraints, PathConstraints::default());
        let half = PathConstraints::of(&record, PathRecord::SERVICE_ID_8_MSB);
        assert_eq!(half, Err(SaStatus::REQ_INSUFFICIENT_COMPONENTS));
        let beyond = PathConstraints::of(&record, ComponentMask(1 << 23));
        assert_eq!(beyond, Err(SaStatus::REQ_INVALID));
    }
}
