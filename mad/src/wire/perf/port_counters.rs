use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::PERF_DATA_LEN;
use super::counter::{Counter, CounterField, CounterSet};
use crate::wire::bits::bits;

/// PortCounters (IBA 16.1.3.5): counters of up to 32 bits, which stop at their highest value. The
/// table of [`Counter`] has the position of each.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -               | PortSelect      | CounterSelect
///    4  counters to byte 17
///   16                                    | CounterSelect2  | counters
///   20  counters to byte 43
///   44  - to byte 191
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PortCounters {
    reserved: u8,
    port_select: u8,
    counter_select: U16,
    counters_4: [u8; 14],
    counter_select2: u8,
    counters_19: [u8; 173],
}

/// PortCountersExtended (IBA 16.1.4.11): the counters of [`PortCounters`] and a few more, with 64
/// bits each.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -               | PortSelect      | CounterSelect
///    4  CounterSelect2
///    8  22 counters to byte 183
///  184  - to byte 191
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PortCountersExtended {
    reserved: u8,
    port_select: u8,
    counter_select: U16,
    counter_select2: U32,
    counters: [u8; 184],
}

bits! { PortCounters {
    /// The PortSelect of the port, see [`PortCounterAttribute::port_select`].
    port_select, set_port_select: u8 = port_select;
    /// The mask of the counters that a Set resets, among the first 16 counters.
    counter_select, set_counter_select: u16 = counter_select;
    /// The mask of the counters that a Set resets: bit 0 for PortXmitWait, bit 1 for QP1Dropped.
    counter_select2, set_counter_select2: u8 = counter_select2;
} }

bits! { PortCountersExtended {
    /// The PortSelect of the port, see [`PortCounterAttribute::port_select`].
    port_select, set_port_select: u8 = port_select;
    /// The mask of the counters that a Set resets, among the first eight counters.
    counter_select, set_counter_select: u16 = counter_select;
    /// The mask of the counters that a Set resets, among the counters without a bit in
    /// [`Self::counter_select`].
    counter_select2, set_counter_select2: u32 = counter_select2;
} }

/// An attribute with the counters of the selected ports.
pub trait PortCounterAttribute: Copy + Default {
    /// Views `data` as the attribute. Any bytes are valid.
    fn from_data(data: &[u8; PERF_DATA_LEN]) -> &Self;

    /// The attribute in `data`, mutable in place.
    fn from_data_mut(data: &mut [u8; PERF_DATA_LEN]) -> &mut Self;

    /// The bytes as they are sent.
    fn as_data(&self) -> &[u8; PERF_DATA_LEN];

    /// The port, 0 to 254; [`ALL_PORTS`](super::ALL_PORTS) for all ports.
    fn port_select(&self) -> u8;

    /// The value of a counter; `None` if the attribute does not have the counter.
    fn counter(&self, counter: Counter) -> Option<u64>;

    /// Whether a Set of these data resets the counter.
    fn resets(&self, counter: Counter) -> bool;

    /// Sets all counters that the attribute has. A value that a counter cannot hold becomes the
    /// counter's highest value.
    fn set_counters(&mut self, values: &CounterSet) -> &mut Self;
}

/// Implements [`PortCounterAttribute`] for a view whose counters have the positions that the
/// function `$field` returns.
macro_rules! port_counter_attribute {
    ($view:ident, $field:expr) => {
        const _: () = assert!(size_of::<$view>() == PERF_DATA_LEN);

        impl PortCounterAttribute for $view {
            fn from_data(data: &[u8; PERF_DATA_LEN]) -> &Self {
                zerocopy::transmute_ref!(data)
            }

            fn from_data_mut(data: &mut [u8; PERF_DATA_LEN]) -> &mut Self {
                zerocopy::transmute_mut!(data)
            }

            fn as_data(&self) -> &[u8; PERF_DATA_LEN] {
                zerocopy::transmute_ref!(self)
            }

            fn port_select(&self) -> u8 {
                self.port_select
            }

            fn counter(&self, counter: Counter) -> Option<u64> {
                let field: Option<CounterField> = $field(counter);
                field.map(|field| read(self.as_data(), field))
            }

            fn resets(&self, counter: Counter) -> bool {
                let field: Option<CounterField> = $field(counter);
                let selected =
                    u64::from(self.counter_select()) | u64::from(self.counter_select2()) << 16;
                field.is_some_and(|field| selected >> field.select & 1 != 0)
            }

            fn set_counters(&mut self, values: &CounterSet) -> &mut Self {
                let data: &mut [u8; PERF_DATA_LEN] = zerocopy::transmute_mut!(self);
                for counter in Counter::ALL {
                    if let Some(field) = $field(counter) {
                        write(data, field, values[counter]);
                    }
                }
                self
            }
        }

        impl Default for $view {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }

        impl std::fmt::Debug for $view {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut out = f.debug_struct(stringify!($view));
                out.field("PortSelect", &self.port_select);
                for counter in Counter::ALL {
                    if let Some(value) = self.counter(counter) {
                        out.field(counter.name(), &value);
                    }
                }
                out.finish()
            }
        }
    };
}

port_counter_attribute!(PortCounters, Counter::narrow);
port_counter_attribute!(PortCountersExtended, |counter: Counter| Some(
    counter.wide()
));

/// The value of the counter in `field`, which is whole bytes or half a byte.
fn read(data: &[u8; PERF_DATA_LEN], field: CounterField) -> u64 {
    let bits = field.offset..field.offset + field.width;
    bits.fold(0, |value, bit| {
        value << 1 | u64::from(data[bit / 8] >> (7 - bit % 8) & 1)
    })
}

/// Replaces the counter in `field`, and no other bits.
fn write(data: &mut [u8; PERF_DATA_LEN], field: CounterField, value: u64) {
    let value = value.min(u64::MAX >> (u64::BITS as usize - field.width));
    for bit in 0..field.width {
        let at = field.offset + field.width - 1 - bit;
        let mask = 1 << (7 - at % 8);
        if value >> bit & 1 != 0 {
            data[at / 8] |= mask;
        } else {
            data[at / 8] &= !mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of IBA 16.1.3.5 and 16.1.4.11, as bytes.
    #[test]
    fn counters_have_the_positions_of_the_figures() {
        let mut values = CounterSet::default();
        for (number, counter) in Counter::ALL.into_iter().enumerate() {
            values[counter] = number as u64 + 1;
        }
        let mut narrow = PortCounters::default();
        narrow.set_port_select(7).set_counter_select(0xABCD);
        narrow.set_counter_select2(3).set_counters(&values);
        let expected = [
            0, 7, 0xAB, 0xCD, 0, 1, 2, 3, 0, 4, 0, 5, 0, 6, 0, 7, 8, 9, 3, 0xAB, 0, 12, 0, 13, 0,
            0, 0, 14, 0, 0, 0, 15, 0, 0, 0, 16, 0, 0, 0, 17, 0, 0, 0, 18,
        ];
        assert_eq!(narrow.as_data()[..44], expected);
        assert!(narrow.as_data()[44..].iter().all(|&byte| byte == 0));
        let mut wide = PortCountersExtended::default();
        wide.set_counters(&values);
        let row: Vec<u8> = wide.as_data()[8..184]
            .chunks(8)
            .map(|word| word[7])
            .collect();
        let expected = [
            14, 15, 16, 17, 19, 20, 21, 22, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 18, 12,
        ];
        assert_eq!(row, expected);
        for counter in Counter::ALL {
            assert_eq!(wide.counter(counter), Some(values[counter]), "{counter}");
        }
    }

    #[test]
    fn narrow_counters_stop_at_their_highest_value() {
        let mut values = CounterSet::default();
        values.add(Counter::ExcessiveBufferOverrunErrors, 16);
        values.add(Counter::LinkDowned, 256);
        values.add(Counter::XmitData, 1 << 32);
        let mut narrow = PortCounters::default();
        narrow.set_counters(&values);
        let counter = |counter| narrow.counter(counter);
        assert_eq!(counter(Counter::ExcessiveBufferOverrunErrors), Some(15));
        assert_eq!(counter(Counter::LocalLinkIntegrityErrors), Some(0));
        assert_eq!(counter(Counter::LinkDowned), Some(255));
        assert_eq!(counter(Counter::XmitData), Some(u64::from(u32::MAX)));
        assert_eq!(counter(Counter::UnicastRcvPkts), None);
    }

    #[test]
    fn each_counter_has_a_bit_of_its_own_to_reset_it() {
        for chosen in Counter::ALL {
            let mut wide = PortCountersExtended::default();
            let select = chosen.wide().select;
            if select < 16 {
                wide.set_counter_select(1 << select);
            } else {
                wide.set_counter_select2(1 << (select - 16));
            }
            let reset: Vec<Counter> = Counter::ALL
                .into_iter()
                .filter(|&counter| wide.resets(counter))
                .collect();
            assert_eq!(reset, [chosen]);
        }
        let mut narrow = PortCounters::default();
        narrow.set_counter_select(u16::MAX).set_counter_select2(3);
        for counter in Counter::ALL {
            assert_eq!(
                narrow.resets(counter),
                counter.narrow().is_some(),
                "{counter}"
            );
        }
    }
}
