//! The personalities of a fabric's devices.

use rsm_ids::Guid;
use rsm_routing::netlist::NodeKind;

use super::{HABITS, Habit, MODELS, Personality, PortField, PortFields};
use crate::rng::Rng;
use crate::specification::split_key;

/// The personalities of all devices of a fabric; the default is no habits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Devices {
    /// Every node has the part of this personality that a node of its kind can have.
    Alike(Personality),
    /// Every node has different habits, drawn from this seed and the GUID of the node.
    Mixed(u64),
}

impl Default for Devices {
    fn default() -> Devices {
        Devices::Alike(Personality::POLITE)
    }
}

/// A part of `devices=` is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`devices={text}`: `{part}` is no device: expected {expected}")]
pub struct DevicesError {
    /// The value of `devices=`.
    text: String,
    /// The unknown part.
    part: String,
    expected: String,
}

/// A constructor of a personality with one kind of mishandling of the given fields of PortInfo.
type Mishandles = fn(PortFields) -> Personality;

/// The key of the devices in a specification.
const KEY: &str = "devices=";
/// The fields of PortInfo that a device of a mix can ignore for good: those without effect on
/// traffic.
const HARMLESS_FIELDS: [PortField; 4] = [
    PortField::MasterSmSl,
    PortField::HoqLife,
    PortField::VlStallCount,
    PortField::ErrorThresholds,
];
/// For each kind of mishandling fields, one in this many nodes of a mix has that kind.
const MISHANDLING_ONE_IN: u64 = 6;

/// The first habit that is drawn from the second generator of random numbers. Earlier habits are
/// drawn from the first generator.
const FIRST_LATER_HABIT: Habit = Habit::GeneralInfo;

impl Devices {
    /// Removes `devices=…` from the specification of a fabric, which is a generator or the name of
    /// a file: `ring:6,devices=mix:7`, `fabric.topo,devices=qib+slow-processor`. Returns the rest
    /// of the specification and the devices.
    ///
    /// # Errors
    /// A part of the value is neither a habit nor a model nor the name of a field.
    pub fn split(spec: &str) -> Result<(String, Devices), DevicesError> {
        match split_key(spec, KEY) {
            Some((left, value)) => Ok((left, Devices::parse(value)?)),
            None => Ok((spec.to_owned(), Devices::default())),
        }
    }

    /// The devices that `text` names: either `mix:SEED`, or parts joined by `+`. A part is a habit,
    /// a model, or `old-once`, `old-always` or `drops` with a field's name (`old-once:lid`).
    ///
    /// # Errors
    /// A part has none of these forms.
    pub fn parse(text: &str) -> Result<Devices, DevicesError> {
        if let Some(seed) = text.strip_prefix("mix:").and_then(|seed| seed.parse().ok()) {
            return Ok(Devices::Mixed(seed));
        }
        let mut combined = Personality::POLITE;
        for part in text.split('+') {
            let personality = parse_part(part).ok_or_else(|| DevicesError {
                text: text.to_owned(),
                part: part.to_owned(),
                expected: Devices::names(),
            })?;
            combined = combined | personality;
        }
        Ok(Devices::Alike(combined))
    }

    /// A line that lists the texts which [`parse`](Devices::parse) accepts.
    pub fn names() -> String {
        let models = MODELS.iter().map(|model| model.name);
        let habits = HABITS.iter().map(|info| info.name);
        let fields: Vec<_> = PortField::ALL.iter().map(|field| field.name()).collect();
        let names: Vec<_> = models.chain(habits).collect();
        format!(
            "mix:SEED, or out of {}, old-once:FIELD, old-always:FIELD and drops:FIELD, joined by + (fields: {})",
            names.join(", "),
            fields.join(", ")
        )
    }

    /// The personality of the node of this kind and GUID.
    pub fn of(self, kind: NodeKind, guid: Guid) -> Personality {
        match self {
            Devices::Alike(personality) => personality.fitting(kind),
            Devices::Mixed(seed) => drawn_personality(seed, kind, guid),
        }
    }
}

/// The personality that one part of `devices=` names; `None` if the part is unknown.
fn parse_part(part: &str) -> Option<Personality> {
    if let Some(model) = MODELS.iter().find(|model| model.name == part) {
        return Some(model.personality());
    }
    if let Some(info) = HABITS.iter().find(|info| info.name == part) {
        return Some(info.habit.into());
    }
    let (mishandling, field) = part.split_once(':')?;
    let field = PortField::ALL.iter().find(|known| known.name() == field)?;
    let fields = PortFields::of(*field);
    match mishandling {
        "old-once" => Some(Personality::shows_old_once(fields)),
        "old-always" => Some(Personality::shows_old_always(fields)),
        "drops" => Some(Personality::drops(fields)),
        _ => None,
    }
}

/// Draws the personality of a node, independently of the other nodes of the fabric.
fn drawn_personality(seed: u64, kind: NodeKind, guid: Guid) -> Personality {
    let mut rng = Rng::new(seed ^ guid.0.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    // Habits that were added later are drawn from a second generator, so that a seed still gives a
    // node the same earlier habits.
    let mut later = Rng::new(!seed ^ guid.0.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut personality = Personality::POLITE;
    for info in HABITS.iter().filter(|info| info.nodes.contains(kind)) {
        let generator = if info.habit < FIRST_LATER_HABIT {
            &mut rng
        } else {
            &mut later
        };
        if info.one_in > 0 && generator.below(info.one_in) == 0 {
            personality = personality | info.habit;
        }
    }
    let mut one_in = |count: u64| count > 0 && rng.below(count) == 0;
    let mishandlings: [(_, Mishandles); 3] = [
        (PortField::ALL, Personality::shows_old_once),
        (PortField::ALL, Personality::shows_old_always),
        (&HARMLESS_FIELDS, Personality::drops),
    ];
    for (fields, mishandling) in mishandlings {
        if one_in(MISHANDLING_ONE_IN) {
            let drawn = fields
                .iter()
                .filter(|_| one_in(fields.len() as u64))
                .fold(PortFields::NONE, |set, &field| set | PortFields::of(field));
            personality = personality | mishandling(drawn);
        }
    }
    personality
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_removed_from_any_place_of_a_specification() {
        let qib = Devices::Alike(Habit::NoExtendedSpeeds | Habit::SelfActivating);
        for (spec, left, devices) in [
            ("ring:6", "ring:6", Devices::default()),
            ("ring:6,devices=mix:7", "ring:6", Devices::Mixed(7)),
            ("superpod,devices=qib", "superpod", qib),
            ("superpod:devices=qib,su=2", "superpod:su=2", qib),
            (
                "ring:6,devices=qib,faults=links:1",
                "ring:6,faults=links:1",
                qib,
            ),
            (
                "/tmp/my fabric.topo,devices=qib",
                "/tmp/my fabric.topo",
                qib,
            ),
        ] {
            assert_eq!(Devices::split(spec), Ok((left.to_owned(), devices)));
        }
    }

    #[test]
    fn parts_are_joined_and_an_unknown_part_is_an_error() {
        let lid = PortFields::of(PortField::Lid);
        let devices = Devices::parse("silent+old-once:lid").unwrap();
        let both = Personality::shows_old_once(lid) | Habit::Silent;
        assert_eq!(devices, Devices::Alike(both));
        for bad in ["", "rude", "old-once", "old-once:x", "mix:x", "qib+"] {
            let error = Devices::parse(bad).unwrap_err().to_string();
            assert!(error.contains("expected mix:SEED"), "{error}");
        }
    }

    #[test]
    fn a_mix_depends_on_seed_and_guid_and_fits_the_kind() {
        let draw = |seed, kind| {
            let guids = (0..200).map(Guid);
            let drawn = guids.map(|guid| Devices::Mixed(seed).of(kind, guid));
            drawn.collect::<Vec<_>>()
        };
        let adapters = draw(1, NodeKind::Ca);
        assert_eq!(adapters, draw(1, NodeKind::Ca));
        assert_ne!(adapters, draw(2, NodeKind::Ca));
        for info in HABITS {
            let count = adapters.iter().filter(|some| some.has(info.habit)).count();
            let possible = info.one_in > 0 && info.nodes.contains(NodeKind::Ca);
            assert_eq!(count > 0, possible, "{}", info.name);
            assert!(count < 120, "{}", info.name);
        }
    }
}
