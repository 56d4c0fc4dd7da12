//! Counts of missing parts in words.

use crate::v1::MissingParts;

impl MissingParts {
    /// The counts without the exchanged cables.
    pub fn gone(&self) -> MissingParts {
        MissingParts {
            exchanged_cables: 0,
            summary: String::new(),
            ..self.clone()
        }
    }

    /// The count of the exchanged cables alone.
    pub fn exchanged(&self) -> MissingParts {
        MissingParts {
            exchanged_cables: self.exchanged_cables,
            ..MissingParts::default()
        }
    }

    /// The number of all parts.
    pub fn total(&self) -> u64 {
        let nodes = self.switches + self.hosts + self.adapters;
        nodes + self.cables + self.host_cables + self.exchanged_cables
    }

    /// The counts as a list, the cables of hosts with the others: `1 switch, 24 cables`. Empty if
    /// all counts are 0.
    pub fn listed(&self) -> String {
        let counts = [
            (self.switches, "switch", "switches"),
            (self.cables + self.host_cables, "cable", "cables"),
            (self.hosts, "host", "hosts"),
            (self.adapters, "adapter", "adapters"),
            (self.exchanged_cables, "exchanged cable", "exchanged cables"),
        ];
        let counts = counts.into_iter().filter(|&(number, ..)| number > 0);
        let parts = counts.map(|(number, one, many)| match number {
            1 => format!("1 {one}"),
            number => format!("{number} {many}"),
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_listed_by_kind_and_exchanged_cables_apart() {
        let parts = MissingParts {
            switches: 1,
            cables: 12,
            host_cables: 12,
            exchanged_cables: 2,
            ..MissingParts::default()
        };
        assert_eq!(parts.listed(), "1 switch, 24 cables, 2 exchanged cables");
        assert_eq!(parts.gone().listed(), "1 switch, 24 cables");
        assert_eq!(parts.exchanged().listed(), "2 exchanged cables");
        assert_eq!((parts.total(), parts.gone().total()), (27, 25));
        assert_eq!(MissingParts::default().listed(), "");
    }
}
