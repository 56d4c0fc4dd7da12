//! Reads the text after a node's identifier: description, addresses, rate.

use rsm_ids::{Lid, Lmc};

use super::ParseReason;
use super::cursor::{Cursor, quote};
use super::text::unescape;
use crate::netlist::{LinkRate, LinkWidth};

/// The text after the `#` that follows a node's identifier.
#[derive(Default)]
pub(super) struct Comment<'a> {
    /// The text before the description.
    pub(super) before: &'a [u8],
    /// The description; `None` without quotes, where `before` and `after` hold the whole comment.
    pub(super) description: Option<Vec<u8>>,
    /// The text after the description.
    pub(super) after: &'a [u8],
}

/// Reads the comment at the cursor, up to the end of the line.
pub(super) fn comment<'a>(cursor: &mut Cursor<'a>) -> Result<Comment<'a>, ParseReason> {
    cursor.skip_blanks();
    let mut text = cursor.rest();
    if let Some(rest) = text.strip_prefix(b"#") {
        text = rest;
    } else if !text.is_empty() && !text[0].is_ascii_alphabetic() {
        return Err(cursor.unexpected("`#` and the description"));
    } else {
        // Hand-written files have options here, and no description.
        text = &[];
    }
    // Not every tool escapes quotes in a description. A line has one description, which therefore
    // ends at the last quote, whatever it contains.
    let is_quote = |byte: &u8| *byte == b'"';
    let Some(first) = text.iter().position(is_quote) else {
        let text = text.trim_ascii();
        return Ok(Comment {
            before: text,
            description: None,
            after: text,
        });
    };
    let last = text.iter().rposition(is_quote).unwrap_or(first);
    if last == first {
        return Err(ParseReason::OpenDescription);
    }
    let description = unescape(&text[first + 1..last]);
    if description.contains(&0) {
        return Err(ParseReason::DescriptionNul);
    }
    Ok(Comment {
        before: &text[..first],
        description: Some(description),
        after: &text[last + 1..],
    })
}

/// The words of a text, separated by blanks.
pub(super) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// The first word that is a rate, such as `4xHDR`; `None` if there is none.
///
/// # Errors
/// [`ParseReason::Syntax`] for a word such as `4xFOO`, before any rate. ibnetdiscover prints
/// `4x???` for a speed that it does not know: that word is no rate, and no error.
pub(super) fn rate(text: &[u8]) -> Result<Option<LinkRate>, ParseReason> {
    for word in words(text) {
        let read = std::str::from_utf8(word).ok();
        if let Some(rate) = read.and_then(|word| word.parse().ok()) {
            return Ok(Some(rate));
        }
        if speed(word).is_some_and(|speed| speed.first().is_some_and(u8::is_ascii_alphabetic)) {
            return Err(ParseReason::Syntax {
                found: quote(word),
                column: 1,
                expected: "a rate of width and speed, such as `4xHDR`",
            });
        }
    }
    Ok(None)
}

/// The part of a word after a link width; `None` if the word does not have the form of a rate.
fn speed(word: &[u8]) -> Option<&[u8]> {
    let mut widths = LinkWidth::ALL.iter().map(ToString::to_string);
    widths.find_map(|width| word.strip_prefix(width.as_bytes()))
}

/// The numbers after the words `lid` and `lmc`: `None` for a LID that is absent, and 0 for an LMC
/// that is absent.
pub(super) fn address(text: &[u8]) -> Result<(Option<Lid>, Lmc), ParseReason> {
    let lid = number_after(text, b"lid", "a LID after the word `lid`")?
        .map(|lid| u16::try_from(lid).map_err(|_| ParseReason::Lid { lid }))
        .transpose()?;
    let lmc = number_after(text, b"lmc", "an LMC after the word `lmc`")?.unwrap_or(0);
    let lmc = u8::try_from(lmc)
        .ok()
        .and_then(|bits| Lmc::new(bits).ok())
        .ok_or(ParseReason::Lmc { lmc })?;
    Ok((lid.map(Lid), lmc))
}

/// The number after the word `name`; `None` if the word is absent, or if another field or the end
/// of the text follows it.
fn number_after(
    text: &[u8],
    name: &[u8],
    expected: &'static str,
) -> Result<Option<u64>, ParseReason> {
    let mut words = words(text).skip_while(|word| *word != name);
    words.next();
    let Some(word) = words.next() else {
        return Ok(None);
    };
    let is_next_field = [b"lid".as_slice(), b"lmc", b"N/A", b"-"].contains(&word)
        || word.contains(&b'=')
        || speed(word).is_some();
    if is_next_field {
        return Ok(None);
    }
    let mut cursor = Cursor::new(word);
    let number = cursor.number(expected)?;
    // The `4` of an unreadable rate is not a number.
    if cursor.rest().first().is_some_and(u8::is_ascii_alphabetic) {
        return Err(ParseReason::Syntax {
            found: quote(word),
            column: 1,
            expected,
        });
    }
    Ok(Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_followed_by_an_unknown_speed_is_refused() {
        for text in ["lid 5 4xFOO", "4xH", "12xQ"] {
            let Err(ParseReason::Syntax { found, .. }) = rate(text.as_bytes()) else {
                panic!("{text}");
            };
            assert_eq!(text.split(' ').next_back(), Some(found.as_str()));
        }
        for (text, read) in [
            ("lid 5 4xHDR 4xFOO", Some("4xHDR")),
            ("lid 5 4x???", None),
            ("4x", None),
            ("lid 5", None),
        ] {
            let rate = rate(text.as_bytes()).unwrap();
            assert_eq!(rate.map(|rate| rate.to_string()).as_deref(), read, "{text}");
        }
    }

    #[test]
    fn lid_without_a_number_is_none_and_a_malformed_number_an_error() {
        let lmc = Lmc::from_bits;
        let cases: [(&str, Option<Lid>, Lmc); 9] = [
            ("lid 5 lmc 1", Some(Lid(5)), lmc(1)),
            ("lid  lmc 2", None, lmc(2)),
            ("lid lmc", None, lmc(0)),
            ("lid", None, lmc(0)),
            (" enhanced port 0 lid ", None, lmc(0)),
            ("lid 4xHDR", None, lmc(0)),
            ("lid 4x???", None, lmc(0)),
            ("lid  s=4 w=2", None, lmc(0)),
            ("lid N/A lmc N/A", None, lmc(0)),
        ];
        for (text, lid, lmc) in cases {
            assert_eq!(address(text.as_bytes()), Ok((lid, lmc)), "{text}");
        }
        for text in ["lid x", "lid 5a", "lid 70000", "lmc 8", "lmc x"] {
            assert!(address(text.as_bytes()).is_err(), "{text}");
        }
    }
}
