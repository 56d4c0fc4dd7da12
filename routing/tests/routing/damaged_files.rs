//! Files of fabrics with any damage: cut off, with other bytes, with moved lines.

use proptest::prelude::*;
use rsm_routing::ibnetdiscover::{Strictness, WarningKind, parse, parse_as, write};
use rsm_routing::netlist::NodeKind;

use super::ibsim_nets::NET;
use super::site_files::{CHASSIS, counts, lenient};

/// Neither reading of any file panics, what a lenient one gives is a valid fabric, and nothing is
/// left out without a warning.
pub(crate) fn assert_readings_are_sound(text: &[u8]) -> Result<(), TestCaseError> {
    let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
    let strict = parse(text, "spoiled");
    let lenient = parse_as(text, "spoiled", Strictness::Lenient);
    let Ok(parsed) = lenient else {
        let error = lenient.expect_err("no fabric");
        prop_assert!((1..=lines).contains(&error.line), "{}", error);
        prop_assert!(strict.is_err());
        return Ok(());
    };
    prop_assert!(!parsed.netlist.nodes().is_empty());
    for warning in &parsed.warnings {
        prop_assert!((1..=lines).contains(&warning.line), "{}", warning);
    }
    let left_out = |kind: &WarningKind| matches!(kind, WarningKind::LeftOut { .. });
    match strict {
        // Nothing is left out of a file that a strict reading takes.
        Ok(strict) => prop_assert_eq!(&strict, &parsed),
        Err(error) => {
            let found = parsed
                .warnings
                .iter()
                .find(|warning| left_out(&warning.kind));
            prop_assert!(found.is_some(), "{}", error);
        }
    }
    let mut written = Vec::new();
    write(&parsed.netlist, &mut written).unwrap();
    let again = parse(&written, "again").map(|parsed| parsed.netlist);
    prop_assert_eq!(again, Ok(parsed.netlist));
    Ok(())
}

#[test]
fn a_file_cut_off_at_any_byte_is_read_or_refused() {
    for text in [CHASSIS, NET] {
        let whole = lenient(text);
        for len in 0..=text.len() {
            let cut = &text.as_bytes()[..len];
            assert_readings_are_sound(cut).unwrap_or_else(|error| panic!("{len}: {error}"));
            // A shorter file never has more nodes or cables.
            if let Ok(parsed) = parse_as(cut, "cut", Strictness::Lenient) {
                let count = |kind| parsed.netlist.count(kind);
                assert!(count(NodeKind::Switch) <= whole.netlist.count(NodeKind::Switch));
                assert!(counts(&parsed.netlist) <= counts(&whole.netlist), "{len}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_bytes_is_fatal(
        is_net in any::<bool>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        moved in prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>())),
    ) {
        let text = if is_net { NET } else { CHASSIS };
        let mut text = text.as_bytes().to_vec();
        for (at, byte) in flips {
            let at = at.index(text.len());
            text[at] = byte;
        }
        // A line in another place, as a bad merge leaves it.
        if let Some((from, to)) = moved {
            let mut lines: Vec<_> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            let line = lines.remove(from.index(lines.len()));
            lines.insert(to.index(lines.len() + 1), line);
            text = lines.join(&b'\n');
        }
        assert_readings_are_sound(&text)?;
    }
}
