//! Tells the findings of one kind about one subject from each other, by a number that each keeps
//! while it holds.

use std::collections::BTreeMap;

/// Numbers the findings of one kind about one subject.
///
/// A finding continues a known one if its text is equal, or else begins with the same word, which
/// names the part; counts are equal words. About a node or a port (`is_about_part`), a finding then
/// continues any other known one. All other findings get numbers that no known one has.
pub(super) fn numbered<'a>(
    known: &BTreeMap<u32, &str>,
    texts: &[&'a str],
    is_about_part: bool,
) -> BTreeMap<u32, &'a str> {
    let names: &[fn(&str) -> &str] = match is_about_part {
        true => &[whole, first_word, |_| ""],
        false => &[whole, first_word],
    };
    let mut numbers = BTreeMap::new();
    let mut open = known.clone();
    let mut rest = texts.to_vec();
    for name_of in names {
        let mut by_name: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (&number, &text) in open.iter().rev() {
            by_name.entry(name_of(text)).or_default().push(number);
        }
        rest.retain(|text| {
            let continued = by_name.get_mut(name_of(text)).and_then(Vec::pop);
            if let Some(number) = continued {
                open.remove(&number);
                numbers.insert(number, *text);
            }
            continued.is_none()
        });
    }
    let free = (0..=u32::MAX).filter(|number| !known.contains_key(number));
    numbers.extend(free.zip(rest));
    numbers
}

fn whole(text: &str) -> &str {
    text
}

/// The first word; "0" for a count.
fn first_word(text: &str) -> &str {
    let word = text.split_whitespace().next().unwrap_or_default();
    match word.starts_with(|first: char| first.is_ascii_digit()) {
        true => "0",
        false => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known<'a>(texts: &[(u32, &'a str)]) -> BTreeMap<u32, &'a str> {
        texts.iter().copied().collect()
    }

    #[test]
    fn findings_of_a_kind_keep_their_numbers_when_others_come_and_go() {
        let before = numbered(
            &BTreeMap::new(),
            &["host-050: lost", "host-098: lost"],
            false,
        );
        assert_eq!(
            before,
            known(&[(0, "host-050: lost"), (1, "host-098: lost")])
        );
        let later = numbered(&before, &["host-030: lost", "host-098: lost"], false);
        assert_eq!(
            later,
            known(&[(1, "host-098: lost"), (2, "host-030: lost")])
        );
        let again = numbered(&later, &["host-030: lost", "host-066: lost"], false);
        assert_eq!(
            again,
            known(&[(2, "host-030: lost"), (0, "host-066: lost")])
        );
    }

    #[test]
    fn finding_whose_numbers_change_stays_the_same() {
        let before = known(&[(0, "3 of 8 ports wait"), (1, "host-7: 12 errors")]);
        let later = ["host-7: 15 errors", "4 of 8 ports wait"];
        let expected = known(&[(0, "4 of 8 ports wait"), (1, "host-7: 15 errors")]);
        assert_eq!(numbered(&before, &later, false), expected);
    }

    #[test]
    fn finding_about_a_part_stays_the_same_whatever_it_says() {
        let before = known(&[(0, "the link is slow")]);
        let later = numbered(&before, &["link errors: 12"], true);
        assert_eq!(later, known(&[(0, "link errors: 12")]));
        let elsewhere = numbered(&before, &["link errors: 12"], false);
        assert_eq!(elsewhere, known(&[(1, "link errors: 12")]));
    }
}
