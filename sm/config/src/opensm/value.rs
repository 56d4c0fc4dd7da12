//! From a value of OpenSM to one of rsm.

use std::path::Path;

use rsm_mad::wire::attr::SlToVlMapping;
use rsm_routing::engine::EngineKind;

use super::super::congestion_values::with_level;
use super::super::field::{ConfigKey, Given, Kind};
use super::super::{Config, KNOWN_KEY};
use super::UNSET;
use super::engine::{self, Choice};
use super::keys::Missing;

/// The conversion of OpenSM's value to rsm's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Convert {
    /// A number, as C writes numbers.
    Number,
    /// The same. With this value, OpenSM's default, rsm keeps its own default: OpenSM writes every
    /// key into a configuration, so that its default is no decision of the operator.
    NumberUnless(u64),
    /// The same, as the first time-out in milliseconds; the shortest and the longest time-out give
    /// way to it.
    TimeoutUnless(u64),
    /// The same, as the most requests in flight: 0 is no limit, and rsm has limits of its own.
    WindowUnless(u64),
    /// A number of seconds, kept here in milliseconds.
    Seconds,
    /// TRUE or FALSE.
    Flag,
    /// The same, where the key here has the opposite meaning.
    NotFlag,
    /// The same. With this value, OpenSM's default, rsm keeps its own default.
    FlagUnless(bool),
    /// A number; -1 is not set.
    Limit,
    /// A GUID, zero for none.
    Guid,
    /// A file or directory name.
    Path,
    /// The same. With this value, OpenSM's default, rsm keeps its own default.
    PathUnless(&'static str),
    /// The same. A path that ends with this one, OpenSM's default, counts only if there is such a
    /// file: OpenSM writes it into every configuration.
    PathIfThere(&'static str),
    /// A list of engines, of which the first that rsm has an engine for is taken.
    Engines,
    /// A number that only managers of the subnet know; with 1, OpenSM's default, none is set.
    SaKey,
    /// A word that means the same here.
    Text,
    /// The VLs of service levels; where there are fewer, VL 0 follows.
    SlToVl,
    /// 0 leaves virtual ports alone, 1 turns them off, 2 turns them on.
    Virtualization,
    /// 0 and 255 (NVIDIA's default) leave the devices alone, 1 enables FDR10, 2 disables it.
    Fdr10,
    /// 0 leaves aggregation nodes alone, 1 turns them off; with 2, the default of NVIDIA's manager,
    /// rsm keeps its own default.
    AggregationNodes,
    /// A service level and its number; the lines of other service levels stay.
    PerLevel,
    /// A mask: 0 leaves the hardware alone; this value enables everything supported, which is the
    /// hardware's default.
    Mask(u64),
}

/// Whether there is a file of this name, where the configuration is meant for.
pub(super) type IsThere<'a> = &'a dyn Fn(&Path) -> bool;

/// The effect of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The value is in force; a note says how, where it is not the same value.
    Set {
        /// How.
        note: Option<String>,
    },
    /// The value is in force, in a way that the file's author may not have meant.
    Odd {
        /// The effect.
        effect: String,
    },
    /// The key keeps its default.
    Default,
    /// rsm does not do what it asks for, and does its best.
    Lost(Missing),
    /// The value is in error: what was expected.
    Refused(String),
}

/// Sets `field` to the value; `is_there` says whether there is a file.
pub(super) fn take(
    config: &mut Config,
    field: &ConfigKey,
    convert: Convert,
    value: &str,
    is_there: IsThere<'_>,
) -> Taken {
    if value == UNSET {
        return Taken::Default;
    }
    if convert == Convert::Engines {
        return engines(config, value);
    }
    if convert == Convert::PerLevel {
        return per_level(config, field, value);
    }
    if convert == Convert::SlToVl {
        return sl_to_vl(config, field, value);
    }
    let given = match given(convert, value, is_there) {
        Ok(Some(given)) => given,
        Ok(None) => return Taken::Default,
        Err(expected) => {
            return Taken::Refused(
                expected.map_or_else(|| format!("expected {}", field.expected()), str::to_owned),
            );
        }
    };
    if let Convert::WindowUnless(_) = convert {
        return window(config, field, given);
    }
    if field.set(config, given).is_err() {
        let expected = match convert {
            Convert::Seconds => "expected seconds, at most a day".to_owned(),
            _ => format!("expected {}", field.expected()),
        };
        return Taken::Refused(expected);
    }
    if let Convert::TimeoutUnless(_) = convert {
        let sweep = &mut config.sweep;
        sweep.timeout_floor_ms = sweep.timeout_floor_ms.min(sweep.timeout_initial_ms);
        sweep.timeout_ceiling_ms = sweep.timeout_ceiling_ms.max(sweep.timeout_initial_ms);
    }
    if convert == Convert::SaKey && config.sm.sa_key == Some(KNOWN_KEY) {
        config.sm.sa_key = None;
        return Taken::Lost(Missing {
            lost: "everybody knows this key, and the SA trusts no request that shows it",
            instead: "give saquery --smkey the key in sa.key, which rsm migrate and the package make",
        });
    }
    Taken::Set { note: None }
}

/// The value to set; `None` where the key keeps its default.
///
/// # Errors
/// The form expected, where it is not that of the key.
fn given<'a>(
    convert: Convert,
    value: &'a str,
    is_there: IsThere<'_>,
) -> Result<Option<Given<'a>>, Option<&'static str>> {
    let read = || number(value).ok_or(None::<&'static str>);
    Ok(Some(match convert {
        Convert::Number | Convert::SaKey => Given::Number(read()?),
        Convert::NumberUnless(default)
        | Convert::TimeoutUnless(default)
        | Convert::WindowUnless(default) => match read()? {
            number if number == default => return Ok(None),
            number => Given::Number(number),
        },
        Convert::Seconds => Given::Number(read()?.checked_mul(1000).ok_or(None)?),
        Convert::Flag => Given::Flag(flag(value)?),
        Convert::NotFlag => Given::Flag(!flag(value)?),
        Convert::FlagUnless(default) => match flag(value)? {
            flag if flag == default => return Ok(None),
            flag => Given::Flag(flag),
        },
        Convert::Limit if value == "-1" => return Ok(None),
        Convert::Limit => Given::Number(read()?),
        Convert::PathIfThere(end) if value.ends_with(end) && !is_there(Path::new(value)) => {
            return Ok(None);
        }
        Convert::PathUnless(default) if value == default => return Ok(None),
        Convert::Guid
        | Convert::Path
        | Convert::PathUnless(_)
        | Convert::PathIfThere(_)
        | Convert::Text
        | Convert::SlToVl
        | Convert::PerLevel
        | Convert::Engines => Given::Text(value),
        Convert::Virtualization => Given::Text(match read()? {
            0 | 1 => "off",
            2 => "on",
            _ => return Err(Some("expected 0, 1 or 2")),
        }),
        Convert::Fdr10 => Given::Text(match read()? {
            0 | 255 => "as-is",
            1 => "on",
            2 => "off",
            _ => return Err(Some("expected 0, 1, 2 or 255")),
        }),
        Convert::AggregationNodes => Given::Text(match read()? {
            0 => "keep",
            1 => "off",
            2 => return Ok(None),
            _ => return Err(Some("expected 0, 1 or 2")),
        }),
        Convert::Mask(all) => match read()? {
            0 => return Ok(None),
            mask if mask == all => return Ok(None),
            mask => Given::Number(mask),
        },
    }))
}

fn flag(value: &str) -> Result<bool, Option<&'static str>> {
    match value.to_ascii_uppercase().as_str() {
        "TRUE" => Ok(true),
        "FALSE" => Ok(false),
        _ => Err(Some("expected TRUE or FALSE")),
    }
}

/// Takes the most requests in flight, within the limits of the key.
fn window(config: &mut Config, field: &ConfigKey, given: Given<'_>) -> Taken {
    let (Given::Number(asked), Kind::Number { min, max }) = (given, field.kind) else {
        return Taken::Default;
    };
    let window = match asked {
        0 => max,
        asked => asked.clamp(min, max),
    };
    if field.set(config, Given::Number(window)).is_err() {
        return Taken::Default;
    }
    let (section, key) = (field.section, field.key);
    let note = (window != asked)
        .then(|| format!("{section}.{key} = {window}: rsm has {min} to {max} requests in flight"));
    Taken::Set { note }
}

/// Takes the number of one service level.
fn per_level(config: &mut Config, field: &ConfigKey, value: &str) -> Taken {
    let pairs = with_level(field.held(config), value);
    let is_set = pairs.is_some_and(|pairs| field.set(config, Given::Text(&pairs)).is_ok());
    match is_set {
        true => Taken::Set { note: None },
        false => {
            let form = field.expected();
            Taken::Refused(format!("expected SL and NUMBER, of which rsm makes {form}"))
        }
    }
}

/// Takes the VLs of service levels. OpenSM reads VL 0 for those that the value leaves out.
fn sl_to_vl(config: &mut Config, field: &ConfigKey, value: &str) -> Taken {
    let given = value.split(',').count();
    let missing = SlToVlMapping::ENTRIES.saturating_sub(given);
    let filled = format!("{value}{}", ",0".repeat(missing));
    if field.set(config, Given::Text(&filled)).is_err() {
        return Taken::Refused(format!("expected {}", field.expected()));
    }
    match missing {
        0 => Taken::Set { note: None },
        _ => Taken::Odd {
            effect: format!(
                "{given} VLs: SLs {given} to {} get VL 0, as with OpenSM; name all 16",
                SlToVlMapping::ENTRIES - 1
            ),
        },
    }
}

fn engines(config: &mut Config, value: &str) -> Taken {
    let Some((name, choice)) = engine::first(value) else {
        return Taken::Lost(engine::UNKNOWN);
    };
    config.routing.engine = choice.engine();
    config.routing.fallback_engines = engine::after(value, name);
    match choice {
        Choice::Adaptive(_) => Taken::Lost(engine::ADAPTIVE),
        Choice::Chain => Taken::Lost(engine::CHAIN),
        Choice::Same(EngineKind::MinHop) if config.routing.fallback_engines.is_empty() => {
            let effect = engine::LONE_MINHOP.to_owned();
            Taken::Odd { effect }
        }
        Choice::Same(engine) if engine.name() == value.trim() => Taken::Set { note: None },
        Choice::Same(engine) | Choice::Like(engine) => {
            let others = config.routing.fallback_engines.iter();
            let others: Vec<&str> = others.map(|engine| engine.name()).collect();
            let then = match others[..] {
                [] => String::new(),
                _ => format!("; where its routes cannot be proved, {}", others.join(", ")),
            };
            Taken::Set {
                note: Some(format!("routing.engine = \"{engine}\", for `{name}`{then}")),
            }
        }
    }
}

/// A number as C's `strtoull` with base 0 reads it: `0x` is hexadecimal, a leading 0 octal.
pub fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    // `from_str_radix` alone would also take a sign.
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}
