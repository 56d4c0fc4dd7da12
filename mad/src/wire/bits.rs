//! The accessor macro of the wire views, and its two traits.
//!
//! All functions behind an accessor are `#[inline]`, so that other crates read a field with a few
//! instructions, without calls.

use rsm_ids::{Guid, Lid, Lmc, PortNum};
use zerocopy::byteorder::network_endian::{U16, U32, U64};

/// A number on the wire that contains one or more fields of a view.
pub(crate) trait Word: Copy {
    /// The number of bits of the word.
    const WIDTH: u32;

    /// The value of the word.
    fn load(self) -> u64;

    /// A word with the low [`Word::WIDTH`] bits of `value`.
    fn store(value: u64) -> Self;
}

/// The type of a field in the interface of a view, converted from and to the bits of the field.
///
/// `to_bits(from_bits(x))` returns the bits of the field unchanged, for any bits.
pub(crate) trait Field: Copy {
    fn from_bits(bits: u64) -> Self;
    fn to_bits(self) -> u64;
}

macro_rules! words {
    ($($word:ty: $native:ty, $get:expr, $new:expr;)*) => {$(
        impl Word for $word {
            const WIDTH: u32 = <$native>::BITS;

            #[inline]
            fn load(self) -> u64 {
                let get: fn($word) -> $native = $get;
                u64::from(get(self))
            }

            #[inline]
            fn store(value: u64) -> Self {
                let new: fn($native) -> $word = $new;
                new(value as $native)
            }
        }
    )*};
}

words! {
    u8: u8, |word| word, |value| value;
    U16: u16, U16::get, U16::new;
    U32: u32, U32::get, U32::new;
    U64: u64, U64::get, U64::new;
}

macro_rules! number_fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            #[inline]
            fn from_bits(bits: u64) -> Self {
                bits as $type
            }

            #[inline]
            fn to_bits(self) -> u64 {
                self as u64
            }
        }
    )*};
}

number_fields!(u8, u16, u32, u64);

impl Field for bool {
    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }

    #[inline]
    fn to_bits(self) -> u64 {
        u64::from(self)
    }
}

impl Field for Lmc {
    #[inline]
    fn from_bits(bits: u64) -> Self {
        Lmc::from_bits(bits as u8)
    }

    #[inline]
    fn to_bits(self) -> u64 {
        u64::from(self.get())
    }
}

/// Implements [`Field`] for tuple structs that hold one number.
macro_rules! newtype_fields {
    ($($type:ident: $native:ty),* $(,)?) => {$(
        impl $crate::wire::bits::Field for $type {
            #[inline]
            fn from_bits(bits: u64) -> Self {
                $type(bits as $native)
            }

            #[inline]
            fn to_bits(self) -> u64 {
                u64::from(self.0)
            }
        }
    )*};
}
pub(crate) use newtype_fields;

newtype_fields!(Guid: u64, Lid: u16, PortNum: u8);

/// The mask of `width` ones, 1 to 64.
const fn ones(width: u32) -> u64 {
    u64::MAX >> (u64::BITS - width)
}

/// The bits `HIGH` down to `LOW` of `word`. A range that does not fit the word does not compile.
#[inline]
pub(crate) fn get<const HIGH: u32, const LOW: u32, W: Word, F: Field>(word: W) -> F {
    const { assert!(LOW <= HIGH && HIGH < W::WIDTH) };
    F::from_bits((word.load() >> LOW) & ones(HIGH - LOW + 1))
}

/// Replaces the bits `HIGH` down to `LOW` of `word`, and no other bits.
#[inline]
pub(crate) fn set<const HIGH: u32, const LOW: u32, W: Word, F: Field>(word: &mut W, value: F) {
    const { assert!(LOW <= HIGH && HIGH < W::WIDTH) };
    let mask = ones(HIGH - LOW + 1) << LOW;
    *word = W::store((word.load() & !mask) | ((value.to_bits() << LOW) & mask));
}

/// Defines the getters and setters of a view.
///
/// Each line reads `getter, setter: Type = word;` for a field that is all of `word`, or
/// `getter, setter: Type = word[high, low];` for bits `high` down to `low` of it, 0 being the least
/// significant, as the bit diagrams number them. The getter carries the documentation.
macro_rules! bits {
    ($view:ty { $(
        $(#[$doc:meta])*
        $getter:ident, $setter:ident: $type:ty = $($word:ident).+ $([$high:literal, $low:literal])?;
    )* }) => {
        impl $view {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $getter(&self) -> $type {
                    bits!(@get self.$($word).+ $(, $high, $low)?)
                }

                #[doc = concat!("Sets [`Self::", stringify!($getter), "`].")]
                #[inline]
                pub fn $setter(&mut self, value: $type) -> &mut Self {
                    bits!(@set self.$($word).+, value $(, $high, $low)?);
                    self
                }
            )*
        }
    };
    (@get $place:expr) => {
        $crate::wire::bits::Field::from_bits($crate::wire::bits::Word::load($place))
    };
    (@get $place:expr, $high:literal, $low:literal) => {
        $crate::wire::bits::get::<$high, $low, _, _>($place)
    };
    (@set $place:expr, $value:ident) => {
        $place = $crate::wire::bits::Word::store($crate::wire::bits::Field::to_bits($value))
    };
    (@set $place:expr, $value:ident, $high:literal, $low:literal) => {
        $crate::wire::bits::set::<$high, $low, _, _>(&mut $place, $value)
    };
}
pub(crate) use bits;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_cut_and_replaced_without_its_neighbours() {
        let mut word = U16::new(0b1010_0110_1111_0000);
        assert_eq!(get::<9, 4, _, u8>(word), 0b10_1111);
        set::<9, 4, _, _>(&mut word, 0xFFu8);
        assert_eq!(word.get(), 0b1010_0111_1111_0000);
        set::<9, 4, _, _>(&mut word, 0u8);
        assert_eq!(word.get(), 0b1010_0100_0000_0000);
    }

    #[test]
    fn the_widest_field_is_the_whole_word() {
        let mut word = U64::new(0);
        set::<63, 0, _, _>(&mut word, u64::MAX);
        assert_eq!(get::<63, 0, _, u64>(word), u64::MAX);
    }
}
