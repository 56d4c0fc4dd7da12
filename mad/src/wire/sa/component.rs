use std::fmt;
use std::ops::{BitAnd, BitOr};

use crate::wire::bits::newtype_fields;

/// ComponentMask (IBA 15.2.1.4): the components of a record that a query compares. Bit n is the
/// n-th component in the order of the record's layout, reserved components included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ComponentMask(pub u64);

impl ComponentMask {
    /// The mask without components, which matches every record.
    pub const NONE: ComponentMask = ComponentMask(0);

    /// The mask of the components from number `first` to `last`.
    pub const fn range(first: u32, last: u32) -> ComponentMask {
        ComponentMask((u64::MAX >> (u64::BITS - 1 - (last - first))) << first)
    }

    /// Whether every component of `other` is in this mask.
    pub const fn contains(self, other: ComponentMask) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any component of `other` is in this mask.
    pub const fn intersects(self, other: ComponentMask) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether no component is in this mask.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The components of this mask that are not in `other`.
    pub const fn without(self, other: ComponentMask) -> ComponentMask {
        ComponentMask(self.0 & !other.0)
    }

    /// The union of both masks, as `|` computes it, for constants.
    pub const fn with(self, other: ComponentMask) -> ComponentMask {
        ComponentMask(self.0 | other.0)
    }
}

newtype_fields!(ComponentMask: u64);

impl BitOr for ComponentMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for ComponentMask {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl fmt::Display for ComponentMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl fmt::Debug for ComponentMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A component of a record: its bit of the mask, and its bits of the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Component {
    /// The name in the specification.
    pub name: &'static str,
    /// The bit of the mask.
    pub mask: ComponentMask,
    /// The first bit of the record; 0 is the most significant bit of byte 0.
    pub offset: u16,
    /// The width of the component in bits.
    pub width: u16,
}

/// Defines the components of a record: `number CONSTANT = "Name" at offset, width;` in bits,
/// without the reserved components.
macro_rules! components {
    ($record:ident { $($number:literal $constant:ident = $name:literal at $offset:literal, $width:literal;)* }) => {
        impl $record {
            $(
                #[doc = concat!("Component ", stringify!($number), ", ", $name, ".")]
                pub const $constant: $crate::wire::sa::ComponentMask =
                    $crate::wire::sa::ComponentMask(1 << $number);
            )*

            pub(super) const COMPONENT_TABLE: &'static [$crate::wire::sa::Component] = &[
                $($crate::wire::sa::Component {
                    name: $name,
                    mask: Self::$constant,
                    offset: $offset,
                    width: $width,
                }),*
            ];
        }
    };
}
pub(super) use components;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_of_two_components_contains_and_intersects_each() {
        let both = ComponentMask(0b101);
        assert!(both.contains(ComponentMask(0b100)) && !both.contains(ComponentMask(0b110)));
        assert!(both.intersects(ComponentMask(0b110)) && !both.is_empty());
        assert_eq!(both.without(ComponentMask(0b001)), ComponentMask(0b100));
        assert_eq!(ComponentMask::range(0, 63), ComponentMask(u64::MAX));
        assert_eq!(ComponentMask::range(4, 5), ComponentMask(0b11_0000));
    }
}
