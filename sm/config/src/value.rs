//! Values of keys: their forms in files, and the types that hold them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use rsm_ids::{Guid, Lmc};
use rsm_model::findings::Severity;
use rsm_routing::engine::EngineKind;

use super::{
    AdaptiveRouting, AggregationNodes, Enforcement, Fdr10, HostileHosts, Isolate, MKeyMode, SmLid,
    StoreBackend, SyslogFacility, Takeover, TrustMode, Virtualization,
};

/// The values that a key accepts in a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// An integer from `min` to `max`.
    Number {
        min: u64,
        max: u64,
    },
    /// An integer from `min` to `max`, usually written in hexadecimal; a string is accepted as
    /// well, because TOML's integers end at 2^63.
    Hexadecimal {
        min: u64,
        max: u64,
    },
    Flag,
    Guid,
    Path,
    Address,
    Text,
    /// One of the words that the function returns.
    Word(fn() -> Vec<&'static str>),
    /// A string of the described form.
    Form(&'static str),
}

/// A value in the form in which a file states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given<'a> {
    Number(u64),
    Text(&'a str),
    Flag(bool),
    /// A value that no key accepts, such as a negative number.
    Other,
}

/// The error that a key does not accept the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InvalidValue;

/// The current value of a key, to be written to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HeldValue {
    Number(u64),
    Text(String),
    Flag(bool),
}

/// A type of a key's value.
pub(super) trait Value {
    /// Sets the value from a file. A number is already within the range of the key.
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue>;

    /// The value; `None` if it is not set.
    fn held(&self) -> Option<HeldValue>;
}

/// A type whose keys all accept the same values.
pub(super) trait Takes {
    const KIND: Kind;
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
                *self = narrow(given)?;
                Ok(())
            }

            fn held(&self) -> Option<HeldValue> {
                Some(HeldValue::Number(u64::from(*self)))
            }
        }
    )+};
}

numbers!(u8, u16, u32, u64);

impl Value for Option<u8> {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        *self = Some(narrow(given)?);
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        self.map(|number| HeldValue::Number(u64::from(number)))
    }
}

impl Value for Option<u64> {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        *self = Some(narrow(given)?);
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        self.map(HeldValue::Number)
    }
}

impl Value for Lmc {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        *self = Lmc::new(narrow(given)?).map_err(|_| InvalidValue)?;
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        Some(HeldValue::Number(u64::from(self.get())))
    }
}

impl Takes for bool {
    const KIND: Kind = Kind::Flag;
}

impl Value for bool {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        let Given::Flag(flag) = given else {
            return Err(InvalidValue);
        };
        *self = flag;
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        Some(HeldValue::Flag(*self))
    }
}

impl Takes for Option<Guid> {
    const KIND: Kind = Kind::Guid;
}

impl Value for Option<Guid> {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        let guid: Guid = text(given)?.parse().map_err(|_| InvalidValue)?;
        *self = (!guid.is_zero()).then_some(guid);
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        self.map(|guid| HeldValue::Text(guid.to_string()))
    }
}

/// A list of words separated by commas, such as addresses.
impl Value for Vec<String> {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        *self = list(given, str::parse)?;
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        held_list(self, String::clone)
    }
}

/// A list of GUIDs separated by commas.
impl Takes for Vec<Guid> {
    const KIND: Kind =
        Kind::Form("a string of GUIDs, each of up to 16 hexadecimal digits, separated by commas");
}

impl Value for Vec<Guid> {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        let guids: Vec<Guid> = list(given, str::parse)?;
        // An empty list is refused, because it does not mean "none": a key without a value allows
        // all GUIDs.
        if guids.is_empty() || guids.iter().any(|guid| guid.is_zero()) {
            return Err(InvalidValue);
        }
        *self = guids;
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        held_list(self, Guid::to_string)
    }
}

/// A list of addresses separated by commas.
impl Takes for Vec<IpAddr> {
    const KIND: Kind = Kind::Form("a string of IP addresses, separated by commas");
}

impl Value for Vec<IpAddr> {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        let addresses: Vec<IpAddr> = list(given, str::parse)?;
        // An empty list is refused, because it does not mean "none": a key without a value shows
        // the page to all.
        if addresses.is_empty() {
            return Err(InvalidValue);
        }
        *self = addresses.iter().map(IpAddr::to_canonical).collect();
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        held_list(self, IpAddr::to_string)
    }
}

/// A list of engines separated by commas.
impl Takes for Vec<EngineKind> {
    const KIND: Kind = Kind::Form("a string of routing engines, separated by commas");
}

impl Value for Vec<EngineKind> {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        *self = list(given, str::parse)?;
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        held_list(self, |engine| engine.name().to_owned())
    }
}

/// A list of DeviceIDs separated by commas.
impl Takes for Vec<u16> {
    const KIND: Kind = Kind::Form("a string of DeviceIDs such as 0xd2f2, separated by commas");
}

impl Value for Vec<u16> {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        *self = list(given, |word| match word.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16),
            None => word.parse(),
        })?;
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        held_list(self, |number| format!("{number:#06x}"))
    }
}

impl Takes for String {
    const KIND: Kind = Kind::Text;
}

impl Value for String {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        *self = text(given)?.to_owned();
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        Some(HeldValue::Text(self.clone()))
    }
}

impl Takes for PathBuf {
    const KIND: Kind = Kind::Path;
}

impl Value for PathBuf {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        let path = text(given)?;
        if path.is_empty() {
            return Err(InvalidValue);
        }
        *self = path.into();
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        Some(HeldValue::Text(self.display().to_string()))
    }
}

impl Takes for Option<PathBuf> {
    const KIND: Kind = Kind::Path;
}

impl Value for Option<PathBuf> {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        let path = text(given)?;
        *self = (!path.is_empty()).then(|| path.into());
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        self.as_ref().and_then(Value::held)
    }
}

impl Takes for Option<SocketAddr> {
    const KIND: Kind = Kind::Address;
}

impl Value for Option<SocketAddr> {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        *self = match text(given)? {
            "" => None,
            address => Some(address.parse().map_err(|_| InvalidValue)?),
        };
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        self.map(|address| HeldValue::Text(address.to_string()))
    }
}

macro_rules! words {
    ($($type:ty),+) => {$(
        impl Takes for $type {
            const KIND: Kind = Kind::Word(|| <$type>::ALL.map(<$type>::name).to_vec());
        }

        impl Value for $type {
            fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
                let name = text(given)?;
                let known = <$type>::ALL.into_iter().find(|word| word.name() == name);
                *self = known.ok_or(InvalidValue)?;
                Ok(())
            }

            fn held(&self) -> Option<HeldValue> {
                Some(HeldValue::Text(self.name().to_owned()))
            }
        }
    )+};
}

words!(
    AdaptiveRouting,
    AggregationNodes,
    EngineKind,
    Enforcement,
    Fdr10,
    HostileHosts,
    Isolate,
    MKeyMode,
    Severity,
    SmLid,
    StoreBackend,
    SyslogFacility,
    Takeover,
    TrustMode,
    Virtualization
);

/// The text of a value. Fails for a value of another kind.
pub(super) fn text(given: Given<'_>) -> Result<&str, InvalidValue> {
    match given {
        Given::Text(text) => Ok(text),
        _ => Err(InvalidValue),
    }
}

/// Parses the items of a list separated by commas. Blanks around items and empty items are ignored.
pub(super) fn list<T, E>(
    given: Given<'_>,
    item: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, InvalidValue> {
    let words = text(given)?.split(',').map(str::trim);
    let words = words.filter(|word| !word.is_empty());
    words
        .map(|word| item(word).map_err(|_| InvalidValue))
        .collect()
}

/// Writes a list with commas between the items; `None` if the list is empty.
fn held_list<T>(items: &[T], word: impl Fn(&T) -> String) -> Option<HeldValue> {
    let words: Vec<String> = items.iter().map(word).collect();
    (!words.is_empty()).then(|| HeldValue::Text(words.join(",")))
}

/// Converts a number to a smaller type. Fails if the number does not fit, or the value is no
/// number.
fn narrow<T: TryFrom<u64>>(given: Given<'_>) -> Result<T, InvalidValue> {
    match given {
        Given::Number(number) => number.try_into().map_err(|_| InvalidValue),
        _ => Err(InvalidValue),
    }
}

impl Kind {
    /// Checks the value of a key that accepts numbers: the number must be in the range, and
    /// hexadecimal digits are converted. Values of other keys are returned unchanged.
    pub(super) fn read(self, given: Given<'_>) -> Result<Given<'_>, InvalidValue> {
        let (min, max, number) = match (self, given) {
            (Kind::Number { min, max }, Given::Number(number)) => (min, max, number),
            (Kind::Hexadecimal { min, max }, Given::Number(number)) => (min, max, number),
            (Kind::Hexadecimal { min, max }, Given::Text(text)) => {
                (min, max, digits(text).ok_or(InvalidValue)?)
            }
            (Kind::Number { .. } | Kind::Hexadecimal { .. }, _) => return Err(InvalidValue),
            (_, given) => return Ok(given),
        };
        let number = Some(number).filter(|number| (min..=max).contains(number));
        number.map(Given::Number).ok_or(InvalidValue)
    }
}

/// Parses `0x` followed by hexadecimal digits.
pub(super) fn digits(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    // `from_str_radix` alone would also accept a sign.
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}
