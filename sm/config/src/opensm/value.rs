//! Converts a value of OpenSM into one of rsm.

use std::path::Path;

use rsm_mad::wire::attr::SlToVlMapping;
use rsm_routing::engine::EngineKind;

use super::super::congestion_values::with_level;
use super::super::convert::Convert;
use super::super::schema::ConfigKey;
use super::super::value::{Given, Kind};
use super::super::{Config, KNOWN_KEY, number};
use super::UNSET;
use super::engine::{self, Choice};
use super::keys::Missing;

/// Returns whether a file exists on the machine that the configuration is for.
pub(super) type IsThere<'a> = &'a dyn Fn(&Path) -> bool;

/// Effect of a converted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The value is in force.
    Set {
        /// Difference from OpenSM's effect; `None` if there is none.
        note: Option<String>,
    },
    /// The value is in force in a way that the author of the file may not have intended.
    Odd {
        /// Effect of the value.
        effect: String,
    },
    /// The key keeps its default.
    Default,
    /// rsm lacks the function that the value requests, and does the closest thing that it supports.
    Lost(Missing),
    /// The value is in error. The text states the expected form.
    Refused(String),
}

/// Sets `field` to the converted value; `is_there` returns whether a file exists.
pub(super) fn convert_value(
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

/// Converts the value; `None` if the key keeps its default.
///
/// # Errors
///
/// The expected form; `None` if rsm's key expects the same form.
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
        Convert::TrustMode => match flag(value)? {
            true => Given::Text("enforce"),
            false => return Ok(None),
        },
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

/// Sets the maximum number of requests in flight, limited to the range of rsm's key. 0 means no
/// limit, and becomes the maximum of the range.
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

/// Sets the number of one service level.
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

/// Sets the VLs of service levels. Levels that the value omits get VL 0, as with OpenSM.
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

/// Sets the routing engine and its fallbacks from OpenSM's list of engines.
fn engines(config: &mut Config, value: &str) -> Taken {
    let Some((name, choice)) = engine::choose(value) else {
        return Taken::Lost(engine::UNKNOWN);
    };
    config.routing.engine = choice.engine();
    config.routing.fallback_engines = engine::fallbacks(value, name);
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
