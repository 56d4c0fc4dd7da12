//! The text format of Prometheus, version 0.0.4.

use std::fmt::{self, Write as _};

/// Families of metrics as text. Each family is written as a whole: its head, then its samples.
#[derive(Debug, Default)]
pub(super) struct Text {
    text: String,
}

/// Writes the samples of one family.
#[derive(Debug)]
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

/// The text of a label, with `\`, `"` and line feeds escaped.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// The labels of a sample: pairs of name and value.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Text {
    /// Creates a text without families.
    pub(super) fn new() -> Text {
        Text::default()
    }

    /// Begins a family of counters; its name ends in `_total`.
    pub(super) fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    /// Begins a family of gauges.
    pub(super) fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    /// Begins a family of histograms.
    pub(super) fn histogram(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "histogram", help)
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family {
            text: &mut self.text,
            name,
        }
    }

    /// Returns the text.
    pub(super) fn finish(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// Writes a sample.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl fmt::Display) {
        self.line("", labels, None, value);
    }

    /// Writes a histogram: the number of values up to each bound, ascending, then the sum and the
    /// number of all values.
    pub(super) fn buckets(
        &mut self,
        labels: Labels<'_>,
        buckets: &[(f64, u64)],
        sum: f64,
        count: u64,
    ) {
        for (bound, below) in buckets {
            self.line("_bucket", labels, Some(&bound.to_string()), below);
        }
        self.line("_bucket", labels, Some("+Inf"), count);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count);
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: Labels<'_>,
        bound: Option<&str>,
        value: impl fmt::Display,
    ) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        let bound = bound.map(|bound| ("le", bound));
        let mut start = '{';
        for (name, text) in labels.iter().copied().chain(bound) {
            let _ = write!(self.text, "{start}{name}=\"{}\"", Escaped(text));
            start = ',';
        }
        if start == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_break_a_line() {
        let mut text = Text::new();
        let mut family = text.gauge("a", "Help.");
        family.sample(&[("name", "a\\b\"c\nd } 1"), ("port", "1")], 1);
        family.sample(&[], 2.5);
        assert_eq!(
            text.finish(),
            "# HELP a Help.\n# TYPE a gauge\na{name=\"a\\\\b\\\"c\\nd } 1\",port=\"1\"} 1\na 2.5\n"
        );
    }

    #[test]
    fn histogram_ends_with_the_bucket_of_all_values_the_sum_and_the_count() {
        let mut text = Text::new();
        let mut family = text.histogram("h", "Help.");
        family.buckets(&[("a", "b")], &[(0.5, 1), (1.0, 3)], 4.5, 4);
        let text = text.finish();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "h_bucket{a=\"b\",le=\"0.5\"} 1",
                "h_bucket{a=\"b\",le=\"1\"} 3",
                "h_bucket{a=\"b\",le=\"+Inf\"} 4",
                "h_sum{a=\"b\"} 4.5",
                "h_count{a=\"b\"} 4",
            ]
        );
    }
}
