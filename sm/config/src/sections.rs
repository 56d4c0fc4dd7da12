//! The macro with which [`schema`](super::schema) declares its sections and keys.

/// Kind of a key: the stated kind, or else the kind of the key's type.
macro_rules! kind {
    ($type:ty) => {
        <$type as Takes>::KIND
    };
    ($type:ty, $kind:expr) => {
        $kind
    };
}

/// OpenSM's name of a key and the conversion of its values; `None` without a counterpart.
macro_rules! opensm {
    () => {
        None
    };
    ($theirs:literal, $convert:expr) => {
        Some(($theirs, $convert))
    };
}

/// Time at which a change of the key takes effect.
macro_rules! applies {
    () => {
        Applies::OnReload
    };
    (start) => {
        Applies::AtStart
    };
}

/// Declares the sections and their keys. Each key has a text for operators and for readers of the
/// code, a name, a type and a default. Four parts are optional: `takes` with a range of numbers,
/// `example` for a key that is not set by default, `opensm` with OpenSM's name and the conversion
/// of its values, and `at start` if a change takes effect only at the next start. Fields under
/// `without a key` belong to the section, but no key in files sets them.
macro_rules! sections {
    ($(
        #[doc = $about:literal]
        $section:ident: $Section:ident {
            $(
                $(#[doc = $doc:literal])+
                $key:ident: $type:ty = $default:expr
                    $(, takes $kind:expr)?
                    $(, example $example:literal)?
                    $(, opensm $theirs:literal as $convert:ident $(($all:literal))?)?
                    $(, at $when:ident)?;
            )+
        } $(without a key {$(
            $(#[doc = $unwritten_doc:literal])+
            $unwritten:ident: $unwritten_type:ty = $unwritten_default:expr;
        )+})?
    )+) => {
        /// All settings of an operator. [`Config::sample`], generated from the table that also
        /// parses files, states meaning, range and unit of each field as well.
        #[derive(Clone, Debug, PartialEq, Eq, Default)]
        pub struct Config {
            $(#[doc = $about] pub $section: $Section,)+
        }

        $(
            #[doc = concat!("Section `", stringify!($section), "`.", $about)]
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $Section {
                $($(#[doc = $doc])+ pub $key: $type,)+
                $($($(#[doc = $unwritten_doc])+ pub $unwritten: $unwritten_type,)+)?
            }

            impl Default for $Section {
                fn default() -> $Section {
                    $Section {
                        $($key: $default,)+
                        $($($unwritten: $unwritten_default,)+)?
                    }
                }
            }
        )+

        /// The sections, each with its subject.
        pub(super) const SECTIONS: &[(&str, &str)] = &[$((stringify!($section), $about)),+];

        const KEYS: &[ConfigKey] = &[$($(ConfigKey {
            section: stringify!($section),
            key: stringify!($key),
            doc: &[$($doc),+],
            kind: kind!($type $(, $kind)?),
            example: concat!($($example)?),
            opensm: opensm!($($theirs, Convert::$convert $(($all))?)?),
            applies: applies!($($when)?),
            place: Place::Key(|config| &mut config.$section.$key),
        }),+),+];
    };
}
