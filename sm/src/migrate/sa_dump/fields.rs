//! Reads numbers after their names in a line of the dump.

use rsm_mad::ids::Gid;

/// Rest of a line, read from left to right as OpenSM reads it.
pub(super) struct Fields<'a> {
    rest: &'a str,
}

impl<'a> Fields<'a> {
    /// The fields of `line`.
    pub(super) fn new(line: &'a str) -> Fields<'a> {
        Fields { rest: line }
    }

    /// Reads the hexadecimal number after the next `name`. The number must be below 2^`bits`.
    ///
    /// # Errors
    /// The name or number is missing; the error states what was expected.
    pub(super) fn number(&mut self, name: &str, bits: u32) -> Result<u64, String> {
        let expected = || format!("expected `{name}=0x` and a number of {bits} bits");
        let named = format!("{name}=0x");
        let at = self.named(&named).ok_or_else(expected)?;
        self.digits(at, bits).ok_or_else(expected)
    }

    /// Reads the GID after the next `name`: two numbers of 64 bits, separated by a colon.
    ///
    /// # Errors
    /// The name or GID is missing; the error states what was expected.
    pub(super) fn gid(&mut self, name: &str) -> Result<Gid, String> {
        let [upper, lower] = self.pair(name)?;
        Ok(Gid(u128::from(upper) << 64 | u128::from(lower)))
    }

    /// Reads the two numbers of 64 bits after the next `name`.
    ///
    /// # Errors
    /// The name or a number is missing; the error states what was expected.
    pub(super) fn pair(&mut self, name: &str) -> Result<[u64; 2], String> {
        let upper = self.number(name, 64)?;
        let expected =
            || format!("expected two numbers with a colon between them behind `{name}=`");
        let lower = self.rest.strip_prefix(":0x").ok_or_else(expected)?;
        let lower = self.digits(lower, 64).ok_or_else(expected)?;
        Ok([upper, lower])
    }

    /// Reads the quoted text after the next `name`, up to the last quote before `next`.
    ///
    /// # Errors
    /// The name or a quote is missing; the error states what was expected.
    pub(super) fn quoted(&mut self, name: &str, next: &str) -> Result<&'a str, String> {
        let expected = || format!("expected `{name}='TEXT'` before `{next}`");
        let rest = self.named(&format!("{name}='")).ok_or_else(expected)?;
        // The text itself may contain quotes; the numbers after the text contain none.
        let end = rest.rfind(&format!("' {next}")).ok_or_else(expected)?;
        let (text, rest) = rest.split_at(end);
        self.rest = rest;
        Ok(text)
    }

    /// Rest of the line after the next `named` at the start of a word; `None` without one.
    fn named(&self, named: &str) -> Option<&'a str> {
        let mut all = self.rest.match_indices(named);
        let (at, _) = all.find(|(at, _)| {
            let before = self.rest[..*at].chars().next_back();
            before.is_none_or(char::is_whitespace)
        })?;
        self.rest.get(at + named.len()..)
    }

    /// Reads the hexadecimal number at the start of `text`; `None` without a number below 2^`bits`.
    fn digits(&mut self, text: &'a str, bits: u32) -> Option<u64> {
        let end = text
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(text.len());
        let (digits, rest) = text.split_at(end);
        if !(rest.is_empty() || rest.starts_with([' ', '\t', ':'])) {
            return None;
        }
        let number = u64::from_str_radix(digits, 16).ok()?;
        self.rest = rest;
        (bits == 64 || number >> bits == 0).then_some(number)
    }
}
