//! Macros for the small types of fields: enumerations that keep unknown codes, and bit masks that
//! print by name.

/// An enumeration over a code of up to 8 bits. A code without a name becomes `Unknown`, which keeps
/// the code.
macro_rules! code_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $code:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
            /// A code without a name in the specification. [`Self::from_code`] never returns
            /// `Unknown` for a code with a name.
            Unknown(u8),
        }

        impl $name {
            /// The value that has the code `code`.
            pub const fn from_code(code: u8) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    other => Self::Unknown(other),
                }
            }

            /// The code on the wire.
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code,)*
                    Self::Unknown(code) => code,
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from_code(0)
            }
        }

        /// Compares the codes of the values.
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.code().cmp(&other.code())
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant => f.pad($text),)*
                    Self::Unknown(code) => write!(f, "{code:#x}"),
                }
            }
        }

        impl $crate::wire::bits::Field for $name {
            #[inline]
            fn from_bits(bits: u64) -> Self {
                Self::from_code(bits as u8)
            }

            #[inline]
            fn to_bits(self) -> u64 {
                u64::from(self.code())
            }
        }
    };
}
pub(crate) use code_enum;

/// Defines a set of bits, some of which have names. Bits without a name are kept.
macro_rules! bit_mask {
    ($(#[$doc:meta])* $name:ident($native:ty) { $($(#[$vdoc:meta])* $constant:ident = $value:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $native);

        impl $name {
            $($(#[$vdoc])* pub const $constant: Self = Self($value);)*

            /// The empty set.
            pub const NONE: Self = Self(0);

            const NAMES: &'static [(Self, &'static str)] = &[$((Self::$constant, $text),)*];

            /// Whether every bit of `other` is in this set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether no bit is set.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The bits of this set that are not in `other`.
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl std::ops::BitAnd for $name {
            type Output = Self;

            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        /// The names of the named bits, and all other bits as one hexadecimal number, joined by
        /// `|`; `0` for the empty set.
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut unnamed = *self;
                let mut separator = "";
                for &(bit, text) in Self::NAMES {
                    if unnamed.contains(bit) {
                        write!(f, "{separator}{text}")?;
                        separator = "|";
                        unnamed = unnamed.without(bit);
                    }
                }
                if unnamed.is_empty() && !self.is_empty() {
                    return Ok(());
                }
                if unnamed.is_empty() {
                    f.write_str("0")
                } else {
                    write!(f, "{separator}{:#x}", unnamed.0)
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        $crate::wire::bits::newtype_fields!($name: $native);
    };
}
pub(crate) use bit_mask;

#[cfg(test)]
mod tests {
    use crate::wire::attr::{LinkSpeeds, LinkWidths, NodeType};

    #[test]
    fn every_code_survives_a_round_trip() {
        for code in 0..=u8::MAX {
            assert_eq!(NodeType::from_code(code).code(), code);
        }
        assert_eq!(NodeType::from_code(2), NodeType::Switch);
        assert_eq!(NodeType::default(), NodeType::Unknown(0));
        assert_eq!(NodeType::Unknown(7).to_string(), "0x7");
    }

    #[test]
    fn codes_are_ordered_by_their_numbers() {
        assert!(NodeType::Unknown(0) < NodeType::Ca);
        assert!(NodeType::Router < NodeType::Unknown(4));
    }

    #[test]
    fn masks_print_names_and_unnamed_bits_in_hexadecimal() {
        assert_eq!(LinkSpeeds::NONE.to_string(), "0");
        assert_eq!((LinkSpeeds::SDR | LinkSpeeds::QDR).to_string(), "SDR|QDR");
        assert_eq!(LinkSpeeds(0x9).to_string(), "SDR|0x8");
        assert_eq!(LinkSpeeds(0x8).to_string(), "0x8");
    }

    #[test]
    fn masks_support_union_containment_and_difference() {
        let both = LinkWidths::X1 | LinkWidths::X4;
        assert!(both.contains(LinkWidths::X4) && !both.contains(LinkWidths::X2));
        assert_eq!(both.without(LinkWidths::X1), LinkWidths::X4);
        assert_eq!(both & LinkWidths::X12, LinkWidths::NONE);
        assert!((both & LinkWidths::X12).is_empty());
    }
}
