//! Hosts as schedulers group them: scalable units, and NVLink domains.

use std::collections::BTreeMap;

use super::RenderError;
use crate::Analysis;

/// Hosts of one group.
pub(super) struct Group<'a> {
    /// A name of plain characters that is this group's alone.
    pub(super) name: String,
    /// The kind of group, for comments.
    pub(super) what: String,
    /// Its hosts, in the order of names.
    pub(super) hosts: Vec<&'a str>,
    /// The connected part of the fabric.
    pub(super) part: usize,
}

/// The scalable units with compute ports, at least one; hosts without any are in none.
pub(super) fn units(analysis: &Analysis) -> Result<Vec<Group<'_>>, RenderError> {
    let fabric = analysis.joined()?;
    let units = analysis
        .rails
        .units
        .iter()
        .enumerate()
        .map(|(number, unit)| {
            let leaves: Vec<String> = unit
                .leaves
                .iter()
                .map(|&leaf| fabric.switch_name(leaf))
                .collect();
            Group {
                name: format!("su{number}"),
                what: leaves.join(" "),
                hosts: unit
                    .hosts
                    .iter()
                    .map(|&host| analysis.hosts[host].name.as_str())
                    .collect(),
                part: unit
                    .leaves
                    .first()
                    .map_or(0, |&leaf| fabric.topology.component_of(leaf)),
            }
        });
    Ok(units.collect())
}

/// The NVLink domains across hosts, in the order of their names; none where no host has one.
pub(super) fn domains(analysis: &Analysis) -> Vec<Group<'_>> {
    let mut by_name: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for host in &analysis.hosts {
        if let Some(domain) = &host.inventory.domain {
            by_name
                .entry(domain.to_string())
                .or_default()
                .push(&host.name);
        }
    }
    let group = |(number, (what, hosts)): (usize, (String, Vec<_>))| Group {
        name: format!("nvl{number}"),
        what,
        hosts,
        part: 0,
    };
    by_name.into_iter().enumerate().map(group).collect()
}

/// Names folded as Slurm writes lists: `node[01-32],other`.
pub(super) fn host_list(names: &[&str]) -> String {
    let mut numbered: BTreeMap<(&str, usize), Vec<u64>> = BTreeMap::new();
    let mut out: Vec<String> = Vec::new();
    for &name in names {
        let stem = name.trim_end_matches(|char: char| char.is_ascii_digit());
        match name[stem.len()..].parse() {
            Ok(number) if !stem.is_empty() => {
                let width = name.len() - stem.len();
                numbered.entry((stem, width)).or_default().push(number);
            }
            _ => out.push(name.to_owned()),
        }
    }
    for ((stem, width), mut numbers) in numbered {
        numbers.sort_unstable();
        let runs: Vec<String> = numbers
            .chunk_by(|one, next| one + 1 == *next)
            .map(|run| match run {
                [only] => format!("{only:0width$}"),
                _ => format!("{:0width$}-{:0width$}", run[0], run[run.len() - 1]),
            })
            .collect();
        out.push(match (&runs[..], numbers.len()) {
            ([only], 1) => format!("{stem}{only}"),
            _ => format!("{stem}[{}]", runs.join(",")),
        });
    }
    out.sort();
    out.join(",")
}

#[cfg(test)]
mod tests {
    use super::host_list;

    #[test]
    fn lists_are_folded_without_losing_a_digit() {
        assert_eq!(host_list(&["n01", "n02", "n03", "n10"]), "n[01-03,10]");
        assert_eq!(host_list(&["n1", "n01", "login", "7"]), "7,login,n01,n1");
        assert_eq!(host_list(&[]), "");
        assert_eq!(host_list(&["a9", "a10", "a11"]), "a9,a[10-11]");
        assert_eq!(
            host_list(&["x99999999999999999999999"]),
            "x99999999999999999999999"
        );
    }
}
