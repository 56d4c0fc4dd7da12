//! Parses specifications of fabrics to generate: `name:positional,key=value,faults=…`.

use std::ops::RangeInclusive;

use super::faults::{Faults, Links};
use super::irregular;
use super::{GenerateError, GenerateReason};
use crate::netlist::LinkSpeed;

/// A piece of a specification.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) text: &'a str,
    /// The position of its first byte in the specification, from 0.
    pub(super) at: usize,
}

impl<'a> Item<'a> {
    /// The pieces between separators.
    pub(super) fn split(self, separator: char) -> impl Iterator<Item = Item<'a>> {
        self.text.split(separator).map(move |text| Item {
            text,
            at: self.at + (text.as_ptr() as usize - self.text.as_ptr() as usize),
        })
    }

    /// The pieces before and after the first separator; `None` without a separator.
    fn split_once(self, separator: char) -> Option<(Item<'a>, Item<'a>)> {
        let (before, after) = self.text.split_once(separator)?;
        let at = self.at + before.len() + separator.len_utf8();
        Some((
            Item {
                text: before,
                at: self.at,
            },
            Item { text: after, at },
        ))
    }
}

/// A parsed specification.
pub(super) struct Spec<'a> {
    text: &'a str,
    name: &'a str,
    positional: Option<Item<'a>>,
    /// The keys and values of the options, without `faults`.
    options: Vec<(Item<'a>, Item<'a>)>,
    faults: Option<Item<'a>>,
}

impl<'a> Spec<'a> {
    /// Splits a specification into its parts; the generator that it names reads them.
    pub(super) fn parse(text: &'a str) -> Result<Self, GenerateError> {
        let name_end = text.find([':', ',']).unwrap_or(text.len());
        let mut spec = Spec {
            text,
            name: &text[..name_end],
            positional: None,
            options: Vec::new(),
            faults: None,
        };
        let Some(separator) = text[name_end..].chars().next() else {
            return Ok(spec);
        };
        let at = name_end + 1;
        let rest = Item {
            text: &text[at..],
            at,
        };
        for item in rest.split(',') {
            let Some((key, value)) = item.split_once('=') else {
                // Some positional parameters contain commas.
                let start = spec.positional.map_or(item.at, |first| first.at);
                if separator == ',' || !spec.options.is_empty() {
                    return Err(spec.error(
                        item.at,
                        GenerateReason::Syntax {
                            text: item.text.to_owned(),
                        },
                        "an option like `speed=HDR`",
                    ));
                }
                spec.positional = Some(Item {
                    text: &text[start..item.at + item.text.len()],
                    at: start,
                });
                continue;
            };
            if key.text == "faults" {
                // The rest of the text is about faults, and has a `seed` of its own.
                spec.faults = Some(Item {
                    text: &text[value.at..],
                    at: value.at,
                });
                break;
            }
            if spec.options.iter().any(|(other, _)| other.text == key.text) {
                let reason = GenerateReason::RepeatedOption {
                    key: key.text.to_owned(),
                };
                return Err(spec.error(key.at, reason, "each option once"));
            }
            spec.options.push((key, value));
        }
        Ok(spec)
    }

    /// Parses the text after `faults=`, without a generator.
    pub(super) fn of_faults(text: &'a str) -> Self {
        Spec {
            text,
            name: "",
            positional: None,
            options: Vec::new(),
            faults: Some(Item { text, at: 0 }),
        }
    }

    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// An error at a byte position.
    pub(super) fn error(
        &self,
        at: usize,
        reason: GenerateReason,
        expected: impl Into<String>,
    ) -> GenerateError {
        let before = self.text.get(..at).unwrap_or(self.text);
        GenerateError {
            spec: self.text.to_owned(),
            column: before.chars().count() + 1,
            reason,
            expected: expected.into(),
        }
    }

    /// An error about the parameters as a whole.
    pub(super) fn parameter_error(
        &self,
        reason: GenerateReason,
        expected: impl Into<String>,
    ) -> GenerateError {
        self.error(self.name.len() + 1, reason, expected)
    }

    /// Checks that no positional parameter is given, and no options other than `keys` and those of
    /// all generators.
    pub(super) fn only(&self, keys: &[&str]) -> Result<(), GenerateError> {
        if let Some(item) = self.positional {
            let reason = GenerateReason::Syntax {
                text: item.text.to_owned(),
            };
            return Err(self.error(item.at, reason, list_keys(keys)));
        }
        self.only_options(keys)
    }

    /// Returns the positional parameter, which errors call `what`, after a check that no options
    /// other than `keys` and those of all generators are given.
    pub(super) fn positional(
        &self,
        what: &'static str,
        expected: &str,
        keys: &[&str],
    ) -> Result<Item<'a>, GenerateError> {
        self.only_options(keys)?;
        match self.positional {
            Some(item) if !item.text.is_empty() => Ok(item),
            _ => {
                let what = what.to_owned();
                Err(self.parameter_error(GenerateReason::Missing { what }, expected))
            }
        }
    }

    /// Checks that no options other than `keys` and those of all generators are given.
    fn only_options(&self, keys: &[&str]) -> Result<(), GenerateError> {
        match self
            .options
            .iter()
            .find(|(key, _)| !keys.contains(&key.text) && !is_common(key.text))
        {
            Some((key, _)) => {
                let reason = GenerateReason::UnknownOption {
                    key: key.text.to_owned(),
                };
                Err(self.error(key.at, reason, list_keys(keys)))
            }
            None => Ok(()),
        }
    }

    /// The value of an option; `None` if it is not given.
    fn option(&self, key: &str) -> Option<Item<'a>> {
        self.options
            .iter()
            .find(|(other, _)| other.text == key)
            .map(|(_, value)| *value)
    }

    /// The number of an option; `None` if it is not given. Fails outside the range.
    pub(super) fn number(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, GenerateError> {
        self.option(key)
            .map(|item| self.in_range(item, key, range))
            .transpose()
    }

    /// The number of an option and its position in the specification; `None` if it is not given.
    pub(super) fn number_at(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<(u64, usize)>, GenerateError> {
        let number = self.number(key, range)?;
        Ok(number.zip(self.option(key).map(|item| item.at)))
    }

    /// The two numbers of an option such as `5x2` and its position; `None` if it is not given.
    pub(super) fn product(
        &self,
        key: &str,
        first: RangeInclusive<u64>,
        second: RangeInclusive<u64>,
    ) -> Result<Option<(u64, u64, usize)>, GenerateError> {
        let Some(item) = self.option(key) else {
            return Ok(None);
        };
        let Some((one, other)) = item.split_once('x') else {
            let text = item.text.to_owned();
            let reason = GenerateReason::Syntax { text };
            return Err(self.error(item.at, reason, "two numbers like `5x2`"));
        };
        let one = self.in_range(one, key, first)?;
        Ok(Some((one, self.in_range(other, key, second)?, item.at)))
    }

    /// The number of an option that is required.
    pub(super) fn required(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<u64, GenerateError> {
        let expected = format!("`{key}=` and a number, {}", text_of(&range));
        self.number(key, range)?.ok_or_else(|| {
            let what = format!("`{key}`");
            let end = self.faults.map_or(self.text.len(), |faults| faults.at);
            self.error(end, GenerateReason::Missing { what }, expected)
        })
    }

    /// Parses a number within a range; errors call it `what`.
    pub(super) fn in_range(
        &self,
        item: Item<'_>,
        what: &str,
        range: RangeInclusive<u64>,
    ) -> Result<u64, GenerateError> {
        let number = digits(item.text).ok_or_else(|| {
            let text = item.text.to_owned();
            let expected = format!("a number, {}", text_of(&range));
            self.error(item.at, GenerateReason::Syntax { text }, expected)
        })?;
        if range.contains(&number) {
            return Ok(number);
        }
        let reason = GenerateReason::Range {
            what: format!("`{what}`"),
            text: item.text.to_owned(),
        };
        Err(self.error(item.at, reason, text_of(&range)))
    }

    /// The speed option; `None` if it is not given.
    pub(super) fn speed(&self) -> Result<Option<LinkSpeed>, GenerateError> {
        let Some(item) = self.option("speed") else {
            return Ok(None);
        };
        item.text.parse().map(Some).map_err(|_| {
            let names = LinkSpeed::ALL.map(LinkSpeed::name).join(", ");
            let text = item.text.to_owned();
            self.error(item.at, GenerateReason::Syntax { text }, names)
        })
    }

    /// The parts that should fail; `None` if no faults are given.
    pub(super) fn faults(&self) -> Result<Option<Faults>, GenerateError> {
        const EXPECTED: &str = "`links:3`, `links:1%`, `switches:2` or `seed=7`";
        const COUNT: RangeInclusive<u64> = 0..=u32::MAX as u64;
        let Some(faults) = self.faults else {
            return Ok(None);
        };
        let (mut links, mut switches, mut seed) = (None, None, None);
        for item in faults.split(',') {
            let syntax = || {
                let text = item.text.to_owned();
                self.error(item.at, GenerateReason::Syntax { text }, EXPECTED)
            };
            // Numbers of parts may follow `:` or `=`; the seed follows `=`.
            let (key, value) = item
                .split_once(':')
                .filter(|(key, _)| key.text != "seed")
                .or_else(|| item.split_once('='))
                .ok_or_else(syntax)?;
            let repeated = match key.text {
                "links" => links
                    .replace((value.at, self.fault_links(value)?))
                    .is_some(),
                "switches" => switches
                    .replace((value.at, self.in_range(value, "switches", COUNT)?))
                    .is_some(),
                "seed" => seed
                    .replace(self.in_range(value, "seed", 0..=u64::MAX)?)
                    .is_some(),
                _ => return Err(syntax()),
            };
            if repeated {
                let key = key.text.to_owned();
                let reason = GenerateReason::RepeatedOption { key };
                return Err(self.error(item.at, reason, "each of them once"));
            }
        }
        Ok(Some(Faults {
            links: links.unwrap_or((faults.at, Links::Count(0))),
            switches: switches.map_or((faults.at, 0), |(at, count)| (at, count as usize)),
            seed: seed.unwrap_or(0),
        }))
    }

    /// Parses the links that should fail: a number, or a percentage such as `1.5%`.
    fn fault_links(&self, value: Item<'_>) -> Result<Links, GenerateError> {
        let Some(percent) = value.text.strip_suffix('%') else {
            let count = self.in_range(value, "links", 0..=u64::from(u32::MAX))?;
            return Ok(Links::Count(count as usize));
        };
        let (whole, fraction) = percent.split_once('.').unwrap_or((percent, "0"));
        let thousandths = digits(whole)
            .filter(|whole| *whole <= 100)
            .zip(digits(fraction).filter(|_| fraction.len() <= 3))
            .map(|(whole, fraction_value)| {
                let scale = 10u64.pow(3 - fraction.len() as u32);
                whole * 1000 + fraction_value * scale
            })
            .filter(|thousandths| *thousandths <= 100_000);
        thousandths.map(Links::PercentThousandths).ok_or_else(|| {
            let text = value.text.to_owned();
            let expected = "0% to 100%, with up to three decimals";
            self.error(value.at, GenerateReason::Syntax { text }, expected)
        })
    }
}

/// Parses a decimal number without sign; `None` if the text is no such number. A number beyond 64
/// bits becomes `u64::MAX`.
fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

/// The range as text, such as `1 to 64`.
fn text_of(range: &RangeInclusive<u64>) -> String {
    format!("{} to {}", range.start(), range.end())
}

/// Whether every generator accepts the option.
fn is_common(key: &str) -> bool {
    key == "speed" || irregular::KEYS.contains(&key)
}

/// A list of the permitted options, for an error.
fn list_keys(keys: &[&str]) -> String {
    let common = irregular::KEYS.iter().chain(&["speed", "faults"]);
    let keys: Vec<_> = keys.iter().chain(common).copied().collect();
    format!("an option out of {}", keys.join(", "))
}
