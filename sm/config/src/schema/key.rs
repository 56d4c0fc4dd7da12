//! One key of the configuration: its section, values and place.

use rsm_routing::engine::EngineOption;

use super::Config;
use crate::convert::Convert;
use crate::value::{Given, HeldValue, InvalidValue, Kind, Value};

/// A key, with everything that is required to read, write and explain it.
#[derive(Clone)]
pub(crate) struct ConfigKey {
    pub(crate) section: &'static str,
    pub(crate) key: &'static str,
    /// Effect of the key, one text for each line. Blanks at the ends of a text do not matter.
    pub(crate) doc: &'static [&'static str],
    pub(crate) kind: Kind,
    /// Example shown, commented out, for a key that is not set by default.
    pub(crate) example: &'static str,
    /// OpenSM's name of the key, and the conversion of OpenSM's value.
    pub(crate) opensm: Option<(&'static str, Convert)>,
    pub(crate) applies: Applies,
    pub(crate) place: Place,
}

/// Time at which a change of a key takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applies {
    /// The change takes effect when rsm reads the configuration again.
    OnReload,
    /// The change takes effect at the next start of rsm.
    AtStart,
}

/// Place of a key's value in a configuration.
#[derive(Clone)]
pub(crate) enum Place {
    Key(fn(&mut Config) -> &mut dyn Value),
    EngineOption(&'static EngineOption),
}

impl Place {
    fn of<'a>(&self, config: &'a mut Config) -> &'a mut dyn Value {
        match self {
            Place::Key(key) => key(config),
            Place::EngineOption(option) => config.routing.engine_options.get_mut(option),
        }
    }
}

impl ConfigKey {
    /// Sets the key in `config`. A refused value leaves `config` unchanged.
    pub(crate) fn set(&self, config: &mut Config, given: Given<'_>) -> Result<(), InvalidValue> {
        self.place.of(config).set(self.kind.read(given)?)
    }

    /// The values that the key accepts, in words.
    pub(crate) fn expected(&self) -> String {
        match self.kind {
            Kind::Number { min, max } => format!("an integer from {min} to {max}"),
            Kind::Hexadecimal { min, max } if max > i64::MAX as u64 => {
                format!("a string of hexadecimal digits from \"{min:#x}\" to \"{max:#x}\"")
            }
            Kind::Hexadecimal { min, max } => format!("an integer from {min:#x} to {max:#x}"),
            Kind::Flag => "true or false".to_owned(),
            Kind::Guid => "a GUID, a string of up to 16 hexadecimal digits".to_owned(),
            Kind::Path => "a path, a string".to_owned(),
            Kind::Text => "a string".to_owned(),
            Kind::Address => "an address and port, a string such as \"127.0.0.1:50051\", \
                              or \"\" for none"
                .to_owned(),
            Kind::Form(form) => form.to_owned(),
            Kind::Word(words) => {
                let words: Vec<_> = words().iter().map(|word| format!("\"{word}\"")).collect();
                format!("one of {}", words.join(", "))
            }
        }
    }

    /// The value of the key in `config`; `None` if the key is not set.
    pub(crate) fn held(&self, config: &mut Config) -> Option<HeldValue> {
        self.place.of(config).held()
    }

    /// The value of the key in `config`, as TOML; `None` if the key is not set.
    pub(crate) fn value(&self, config: &mut Config) -> Option<String> {
        Some(match (self.held(config)?, self.kind) {
            (HeldValue::Number(number), Kind::Hexadecimal { max, .. }) if max > i64::MAX as u64 => {
                format!("\"{number:#018x}\"")
            }
            (HeldValue::Number(number), Kind::Hexadecimal { .. }) => format!("{number:#04x}"),
            (HeldValue::Number(number), _) => number.to_string(),
            (HeldValue::Text(text), _) => toml::Value::String(text).to_string(),
            (HeldValue::Flag(flag), _) => flag.to_string(),
        })
    }
}
