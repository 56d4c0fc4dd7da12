//! Figures of the benches: medians, tables, and a line of JSON for programs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// The median of `values`: the middle value, or the mean of the two middle ones.
///
/// # Panics
///
/// `values` is empty.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// The smallest value that at least `percent` of `values` do not exceed.
///
/// # Panics
///
/// `values` is empty.
#[must_use]
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}

/// A duration in milliseconds.
#[must_use]
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A memory field of `/proc/PROCESS/status`, such as `VmHWM:`, in bytes; 0 for a process that has
/// ended. The name `self` stands for this process.
#[must_use]
pub fn memory(process: &str, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or_default() * 1024
}

/// Resets the peak memory of a process (`VmHWM:`).
///
/// # Panics
///
/// The kernel refuses.
pub fn reset_peak(process: &str) {
    if let Err(error) = std::fs::write(format!("/proc/{process}/clear_refs"), "5") {
        panic!("the peak of memory cannot be reset: {error}");
    }
}

/// The figures of one contender: each name, which ends with the unit, has one value per round.
#[derive(Debug, Clone, Default)]
pub struct Figures(Vec<(&'static str, Vec<f64>)>);

impl Figures {
    /// Adds the value of one more round.
    pub fn add(&mut self, name: &'static str, value: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => self.0.push((name, vec![value])),
        }
    }

    /// The median of a figure; `None` if the contender lacks the figure.
    #[must_use]
    pub fn median(&self, name: &str) -> Option<f64> {
        self.values(name).map(median)
    }

    fn values(&self, name: &str) -> Option<&[f64]> {
        self.0
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, values)| values.as_slice())
    }
}

/// The figures of all contenders of one bench.
#[derive(Debug, Clone, Default)]
pub struct Comparison(Vec<(&'static str, Figures)>);

impl Comparison {
    /// The figures of `contender`, to which values can be added.
    pub fn of(&mut self, contender: &'static str) -> &mut Figures {
        let index = self
            .0
            .iter()
            .position(|(name, _)| *name == contender)
            .unwrap_or_else(|| {
                self.0.push((contender, Figures::default()));
                self.0.len() - 1
            });
        &mut self.0[index].1
    }

    /// A table with a row per contender: the medians, with the minimum and maximum in brackets.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = String::new();
        for (contender, figures) in &self.0 {
            let _ = write!(table, "{contender:<20}");
            for (name, values) in &figures.0 {
                let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let _ = write!(table, "  {name} {:.1}", median(values));
                if values.len() > 1 {
                    let _ = write!(table, " [{least:.1}..{greatest:.1}]");
                }
            }
            table.push('\n');
        }
        table
    }

    /// For each other contender and each figure, the median of `subject` divided by the median of
    /// the other contender.
    #[must_use]
    pub fn ratios(&self, subject: &str) -> Value {
        let Some((_, ours)) = self.0.iter().find(|(name, _)| *name == subject) else {
            return json!({});
        };
        let others = self.0.iter().filter(|(name, _)| *name != subject);
        let ratios = others.map(|(name, theirs)| {
            let by_figure: Map<String, Value> = ours
                .0
                .iter()
                .filter_map(|(figure, values)| {
                    Some((
                        (*figure).to_owned(),
                        json!(median(values) / theirs.median(figure)?),
                    ))
                })
                .collect();
            ((*name).to_owned(), Value::Object(by_figure))
        });
        Value::Object(ratios.collect())
    }

    /// All figures as JSON.
    #[must_use]
    pub fn json(&self, bench: &str, subject: &str) -> Value {
        let contenders: Map<String, Value> = self
            .0
            .iter()
            .map(|(name, figures)| {
                let figures: Map<String, Value> = figures
                    .0
                    .iter()
                    .map(|(figure, values)| {
                        let entry = json!({ "median": median(values), "values": values });
                        ((*figure).to_owned(), entry)
                    })
                    .collect();
                ((*name).to_owned(), Value::Object(figures))
            })
            .collect();
        json!({ "bench": bench, "contenders": contenders, "ratios": self.ratios(subject) })
    }
}

#[cfg(test)]
mod tests {
    use super::{Comparison, median, percentile};

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 95).to_bits(), 19.0_f64.to_bits());
        assert_eq!(percentile(&values, 100).to_bits(), 20.0_f64.to_bits());
        assert_eq!(percentile(&[7.0], 95).to_bits(), 7.0_f64.to_bits());
    }

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(&[3.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]).to_bits(), 2.5_f64.to_bits());
    }

    #[test]
    fn ratios_divide_medians_and_skip_figures_that_one_side_lacks() {
        let mut comparison = Comparison::default();
        comparison.of("ours").add("wall_ms", 1.0);
        comparison.of("ours").add("extra", 7.0);
        comparison.of("theirs").add("wall_ms", 4.0);
        let ratios = comparison.ratios("ours");
        assert_eq!(ratios["theirs"]["wall_ms"], 0.25);
        assert_eq!(ratios["theirs"].get("extra"), None);
    }
}
