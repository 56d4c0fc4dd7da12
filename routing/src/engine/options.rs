use std::collections::BTreeMap;

use super::EngineKind;

/// A numeric option of an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineOption {
    /// The option's name, unique among all engines: the key in section `routing` of the
    /// configuration.
    pub name: &'static str,
    /// The option's effect, one element for each line of text.
    pub doc: &'static [&'static str],
    /// The minimum value.
    pub min: u8,
    /// The maximum value.
    pub max: u8,
    /// The default value.
    pub default: u8,
    /// OpenSM's name for the option in `opensm.conf`, if it has one.
    pub opensm: Option<&'static str>,
}

/// A value for every option of every engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineOptions(BTreeMap<&'static str, u8>);

impl Default for EngineOptions {
    /// The default value of each option.
    fn default() -> EngineOptions {
        let engines = EngineKind::ALL.into_iter();
        let options = engines.flat_map(|kind| kind.engine().options());
        EngineOptions(
            options
                .map(|option| (option.name, option.default))
                .collect(),
        )
    }
}

impl EngineOptions {
    /// The value of `option`.
    pub fn get(&self, option: &EngineOption) -> u8 {
        self.0.get(option.name).copied().unwrap_or(option.default)
    }

    /// The value of `option`, to be changed. The caller keeps it between the option's `min` and
    /// `max`.
    pub fn get_mut(&mut self, option: &EngineOption) -> &mut u8 {
        self.0.entry(option.name).or_insert(option.default)
    }

    /// Sets `option` to `value`, which the caller keeps between the option's `min` and `max`.
    #[must_use]
    pub fn with(mut self, option: &EngineOption, value: u8) -> EngineOptions {
        *self.get_mut(option) = value;
        self
    }
}
