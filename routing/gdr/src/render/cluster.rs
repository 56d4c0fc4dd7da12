//! Files for schedulers of Kubernetes, and for topograph.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::RenderError;
use super::groups::{Group, domains, fnv, units};
use crate::Analysis;

/// The longest value of a label of Kubernetes.
const MAX_LABEL: usize = 63;

#[derive(Serialize)]
struct Graph<'a> {
    instances: Vec<Instance<'a>>,
}

#[derive(Serialize)]
struct Instance<'a> {
    id: &'a str,
    network_layers: [String; 2],
    labels: BTreeMap<&'static str, String>,
}

/// The graph that topograph's `graph` engine gives: every host with its unit and its part of the
/// fabric.
///
/// # Errors
/// No fabric, or no host in it.
pub fn topograph_graph(analysis: &Analysis) -> Result<String, RenderError> {
    let domain = domain_of(analysis);
    let units = units(analysis)?;
    let mut instances = Vec::new();
    for unit in &units {
        for &id in &unit.hosts {
            let label = domain
                .get(id)
                .map(|name| ("nvidia.com/gpu.clique", name.clone()));
            instances.push(Instance {
                id,
                network_layers: [unit.name.clone(), unit.part.clone()],
                labels: label.into_iter().collect(),
            });
        }
    }
    // Text and lists of text are always written.
    Ok(serde_json::to_string_pretty(&Graph { instances }).unwrap_or_default() + "\n")
}

/// The labels of each node, as commands of kubectl. `prefix` is the domain of the tiers' labels,
/// `fabric.topograph.run` for schedulers that follow topograph.
///
/// # Errors
/// No fabric, no host in it, or a host or prefix whose name Kubernetes does not take.
pub fn kubernetes_labels(analysis: &Analysis, prefix: &str) -> Result<String, RenderError> {
    subdomain(prefix)?;
    let domain = domain_of(analysis);
    let mut out = String::new();
    for unit in units(analysis)? {
        for host in &unit.hosts {
            subdomain(host)?;
            let _ = write!(
                out,
                "kubectl label node --overwrite {host} {prefix}/tier-0={} {prefix}/tier-1={}",
                label(&unit.name),
                unit.part
            );
            if let Some(domain) = domain.get(*host) {
                let value = label(domain);
                let _ = write!(
                    out,
                    " accelerator.topograph.run/domain={value} nvidia.com/gpu.clique={value}"
                );
            }
            out.push('\n');
        }
    }
    Ok(out)
}

/// Volcano's HyperNodes: a unit is of tier 1, a connected part of the fabric of tier 2, with names
/// for jobs that state `highestTierName`.
///
/// # Errors
/// No fabric, no host in it, or a host whose name Kubernetes does not take.
pub fn volcano_hypernodes(analysis: &Analysis) -> Result<String, RenderError> {
    let units = units(analysis)?;
    let mut parts: BTreeMap<&str, Vec<&Group<'_>>> = BTreeMap::new();
    let mut out = String::new();
    for unit in &units {
        parts.entry(&unit.part).or_default().push(unit);
        let hosts = unit.hosts.iter().copied();
        hypernode(&mut out, &unit.name, (1, "unit"), "Node", hosts)?;
    }
    for (part, units) in parts {
        let names = units.iter().map(|unit| unit.name.as_str());
        hypernode(&mut out, part, (2, "fabric"), "HyperNode", names)?;
    }
    Ok(out)
}

fn hypernode<'a>(
    out: &mut String,
    name: &str,
    (tier, tier_name): (u8, &str),
    kind: &str,
    members: impl Iterator<Item = &'a str>,
) -> Result<(), RenderError> {
    if !out.is_empty() {
        out.push_str("---\n");
    }
    let _ = write!(
        out,
        "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata:\n  name: {name}\nspec:\n  tier: {tier}\n  tierName: {tier_name}\n  members:\n"
    );
    for member in members {
        subdomain(member)?;
        // Quoted, since a name of digits alone would be a number.
        let _ = write!(
            out,
            "  - type: {kind}\n    selector:\n      exactMatch:\n        name: \"{member}\"\n"
        );
    }
    Ok(())
}

fn domain_of(analysis: &Analysis) -> BTreeMap<&str, String> {
    let of_group = |group: Group<'_>| {
        (
            group.what,
            group
                .hosts
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    };
    let named: BTreeMap<String, String> = domains(analysis)
        .into_iter()
        .map(of_group)
        .flat_map(|(what, hosts)| hosts.into_iter().map(move |host| (host, what.clone())))
        .collect();
    let hosts = analysis.hosts.iter();
    hosts
        .filter_map(|host| Some((host.name.as_str(), named.get(&host.name)?.clone())))
        .collect()
}

/// A name that Kubernetes takes for a node: RFC 1123.
pub(super) fn subdomain(name: &str) -> Result<(), RenderError> {
    let part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=MAX_LABEL).contains(&part.len())
            && part.bytes().all(plain)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    match name.split('.').all(part) && name.len() <= 253 {
        true => Ok(()),
        false => Err(RenderError::Name {
            name: name.to_owned(),
            format: "Kubernetes",
            rule: "lower-case letters, digits, `-` and `.`, a letter or digit at both ends of each part",
        }),
    }
}

/// A value that a label takes; other text becomes `x` and its FNV-1a hash, as topograph does.
fn label(value: &str) -> String {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = |at: Option<&u8>| at.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    let fits = bytes.len() <= MAX_LABEL && bytes.iter().all(|&byte| inner(byte));
    if fits && ends(bytes.first()) && ends(bytes.last()) {
        return value.to_owned();
    }
    let hash = fnv(bytes);
    format!("x{hash:016x}")
}
