//! One key of the configuration: how it is written, what it may be, where it goes.

use std::net::SocketAddr;
use std::path::PathBuf;

use rsm_ids::{Guid, Lmc};
use rsm_routing::engine::EngineKind;

use super::{Config, Enforcement, Takeover};

/// A key, and all that reading, writing and explaining it needs.
pub(super) struct Field {
    pub(super) section: &'static str,
    pub(super) key: &'static str,
    /// What it does, a line each.
    pub(super) doc: &'static [&'static str],
    pub(super) kind: Kind,
    /// Shown, commented out, where the default is that it is not set.
    pub(super) example: &'static str,
    pub(super) slot: fn(&mut Config) -> Slot<'_>,
}

/// What may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An integer in a range, both ends included.
    Number {
        min: u64,
        max: u64,
    },
    /// The same, usually written in hexadecimal; also as a string, because TOML's integers end at 2^63.
    Hexadecimal {
        min: u64,
        max: u64,
    },
    Flag,
    Guid,
    Path,
    Address,
    Engine,
    Enforcement,
    Takeover,
}

/// Where the value goes.
pub(super) enum Slot<'a> {
    U8(&'a mut u8),
    OptionU8(&'a mut Option<u8>),
    U16(&'a mut u16),
    U32(&'a mut u32),
    U64(&'a mut u64),
    Lmc(&'a mut Lmc),
    Flag(&'a mut bool),
    Guid(&'a mut Option<Guid>),
    Path(&'a mut PathBuf),
    OptionPath(&'a mut Option<PathBuf>),
    Address(&'a mut Option<SocketAddr>),
    Engine(&'a mut EngineKind),
    Enforcement(&'a mut Enforcement),
    Takeover(&'a mut Takeover),
}

/// A value as a file states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given<'a> {
    Number(u64),
    Text(&'a str),
    Flag(bool),
    /// Something that no key takes; negative numbers are among it.
    Other,
}

/// The value is not what the key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused;

impl Field {
    /// Sets the field. The configuration is as before when it is refused.
    pub(super) fn set(&self, config: &mut Config, given: Given<'_>) -> Result<(), Refused> {
        let number = self.number(given);
        match ((self.slot)(config), given) {
            (Slot::U8(slot), _) => *slot = narrow(number)?,
            (Slot::OptionU8(slot), _) => *slot = Some(narrow(number)?),
            (Slot::U16(slot), _) => *slot = narrow(number)?,
            (Slot::U32(slot), _) => *slot = narrow(number)?,
            (Slot::U64(slot), _) => *slot = number.ok_or(Refused)?,
            (Slot::Lmc(slot), _) => *slot = Lmc::new(narrow(number)?).map_err(|_| Refused)?,
            (Slot::Flag(slot), Given::Flag(flag)) => *slot = flag,
            (Slot::Guid(slot), Given::Text(text)) => {
                let guid: Guid = text.parse().map_err(|_| Refused)?;
                *slot = (!guid.is_zero()).then_some(guid);
            }
            (Slot::Path(slot), Given::Text(text)) if !text.is_empty() => *slot = text.into(),
            (Slot::OptionPath(slot), Given::Text(text)) => {
                *slot = (!text.is_empty()).then(|| text.into());
            }
            (Slot::Address(slot), Given::Text("")) => *slot = None,
            (Slot::Address(slot), Given::Text(text)) => {
                *slot = Some(text.parse().map_err(|_| Refused)?);
            }
            (Slot::Engine(slot), Given::Text(text)) => {
                let known = EngineKind::ALL.into_iter().find(|e| e.name() == text);
                *slot = known.ok_or(Refused)?;
            }
            (Slot::Enforcement(slot), Given::Text(text)) => {
                let known = Enforcement::ALL.into_iter().find(|e| e.name() == text);
                *slot = known.ok_or(Refused)?;
            }
            (Slot::Takeover(slot), Given::Text(text)) => {
                let known = Takeover::ALL.into_iter().find(|t| t.name() == text);
                *slot = known.ok_or(Refused)?;
            }
            _ => return Err(Refused),
        }
        Ok(())
    }

    fn number(&self, given: Given<'_>) -> Option<u64> {
        let (min, max, value) = match (self.kind, given) {
            (Kind::Number { min, max }, Given::Number(n)) => (min, max, n),
            (Kind::Hexadecimal { min, max }, Given::Number(n)) => (min, max, n),
            (Kind::Hexadecimal { min, max }, Given::Text(text)) => {
                let digits = text.strip_prefix("0x")?;
                if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return None;
                }
                (min, max, u64::from_str_radix(digits, 16).ok()?)
            }
            _ => return None,
        };
        (min..=max).contains(&value).then_some(value)
    }

    /// What the key takes, for a person.
    pub(super) fn expected(&self) -> String {
        match self.kind {
            Kind::Number { min, max } => format!("an integer from {min} to {max}"),
            Kind::Hexadecimal { min, max } if max > i64::MAX as u64 => {
                format!("a string of hexadecimal digits from \"{min:#x}\" to \"{max:#x}\"")
            }
            Kind::Hexadecimal { min, max } => format!("an integer from {min:#x} to {max:#x}"),
            Kind::Flag => "true or false".to_owned(),
            Kind::Guid => "a GUID, a string of up to 16 hexadecimal digits".to_owned(),
            Kind::Path => "a path, a string".to_owned(),
            Kind::Address => "an address and port, a string such as \"127.0.0.1:50051\", \
                              or \"\" for none"
                .to_owned(),
            Kind::Engine => one_of(&EngineKind::ALL.map(EngineKind::name)),
            Kind::Enforcement => one_of(&Enforcement::ALL.map(Enforcement::name)),
            Kind::Takeover => one_of(&Takeover::ALL.map(Takeover::name)),
        }
    }

    /// The value as TOML; `None` when it is not set.
    pub(super) fn value(&self, config: &mut Config) -> Option<String> {
        let quoted = |text: String| format!("{text:?}");
        Some(match (self.slot)(config) {
            Slot::U8(v) => self.written(u64::from(*v)),
            Slot::OptionU8(v) => self.written(u64::from((*v)?)),
            Slot::U16(v) => self.written(u64::from(*v)),
            Slot::U32(v) => self.written(u64::from(*v)),
            Slot::U64(v) => self.written(*v),
            Slot::Lmc(v) => v.to_string(),
            Slot::Flag(v) => v.to_string(),
            Slot::Guid(v) => quoted((*v)?.to_string()),
            Slot::Path(v) => quoted(v.display().to_string()),
            Slot::OptionPath(v) => quoted(v.as_ref()?.display().to_string()),
            Slot::Address(v) => quoted((*v)?.to_string()),
            Slot::Engine(v) => quoted(v.name().to_owned()),
            Slot::Enforcement(v) => quoted(v.name().to_owned()),
            Slot::Takeover(v) => quoted(v.name().to_owned()),
        })
    }

    fn written(&self, value: u64) -> String {
        match self.kind {
            Kind::Hexadecimal { max, .. } if max > i64::MAX as u64 => format!("\"{value:#018x}\""),
            Kind::Hexadecimal { .. } => format!("{value:#04x}"),
            _ => value.to_string(),
        }
    }
}

fn one_of(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    format!("one of {}", names.join(", "))
}

fn narrow<T: TryFrom<u64>>(number: Option<u64>) -> Result<T, Refused> {
    number.ok_or(Refused)?.try_into().map_err(|_| Refused)
}
