//! Rules for services: `qos-ulps`, OpenSM's simplified policy.

use super::super::partitions::report::quoted;
use super::build::{Builder, GUIDS, SERVICE_IDS};
use super::lines::{Entry, Part};
use super::model::{MatchRule, PortGroup};
use super::ranges::Ranges;

/// First ServiceID of SDP, to which the TCP port is added.
const SDP: u64 = 0x1_0000;
/// First ServiceID of RDS and iSER, to which the TCP port is added (IBA annex A11).
const RDMA_IP_CM: u64 = 0x106_0000;
const RDS_PORT: u64 = 0x48ca;
const ISER_PORT: u64 = 0x0cbc;
/// P_Key of the default partition, without the membership bit.
const DEFAULT_P_KEY: u64 = 0x7fff;

/// Text for errors: the services, each with the qualifiers that a list may follow.
const FORMS: &str = "expected `default`, `sdp`, `rds`, `iser` or `ipoib`; \
                     `sdp`, `rds` or `iser` with `port-num`; `ipoib` with `pkey`; `srp` with \
                     `target-port-guid`; or `any` with `service-id`, `pkey`, `target-port-guid`, \
                     `source-port-guid` or `source-target-port-guid`";

/// The criterion of a rule.
enum Criterion {
    ServiceIds(Ranges),
    PKeys(Ranges),
    Source(Ranges),
    Destination(Ranges),
    /// A GUID in these ranges at either end of the path.
    Either(Ranges),
}

/// Parses a rule, such as `any, service-id 0x6234 : 6`.
pub(super) fn rule(builder: &mut Builder<'_, '_>, entry: &Entry<'_>) {
    let Some(sl) = builder.sl(entry.value) else {
        return;
    };
    let head = entry.key.text.split_once(',');
    let (service, qualifier, list) = match head {
        None => (entry.key.text, "", None),
        Some((service, _)) => {
            let rest = entry.key.part(service.len() + 1..).trimmed();
            let end = rest.text.find([' ', '\t']).unwrap_or(rest.text.len());
            let list = rest.part(end..).trimmed();
            (service.trim_end(), &rest.text[..end], Some(list))
        }
    };
    let service = service.to_ascii_lowercase();
    if (service.as_str(), qualifier) == ("default", "") {
        if builder.simple_default.is_some() {
            let expected = "expected one only";
            builder
                .report
                .error(entry.key.offset, "a second `default`", expected);
        }
        builder.simple_default = Some(sl);
        return;
    }
    let Some(criterion) = criterion(builder, &service, qualifier, list) else {
        builder
            .report
            .error(entry.key.offset, quoted(entry.key.text), FORMS);
        return;
    };
    push_rules(builder, entry, criterion, sl);
}

/// The criterion of a rule; `None` if the rule has no valid form. `list` is the text after
/// `qualifier`, and `None` if only the service is given.
fn criterion(
    builder: &mut Builder<'_, '_>,
    service: &str,
    qualifier: &str,
    list: Option<Part<'_>>,
) -> Option<Criterion> {
    let one = |number: u64| Ranges::of(vec![(number, number)]);
    let Some(list) = list else {
        return Some(match service {
            "sdp" => Criterion::ServiceIds(Ranges::of(vec![(SDP, SDP + 0xffff)])),
            "rds" => Criterion::ServiceIds(one(RDMA_IP_CM + RDS_PORT)),
            "iser" => Criterion::ServiceIds(one(RDMA_IP_CM + ISER_PORT)),
            "ipoib" => Criterion::PKeys(one(DEFAULT_P_KEY)),
            _ => return None,
        });
    };
    let mut ports_of = |base: u64| {
        let expected = "expected TCP ports or ranges of them, such as 10000-20000";
        let ports = builder.ranges(list, 0xffff, expected);
        Ranges::of(ports.iter().map(|(a, b)| (base + a, base + b)).collect())
    };
    Some(match (service, qualifier) {
        ("sdp", "port-num") => Criterion::ServiceIds(ports_of(SDP)),
        ("rds" | "iser", "port-num") => Criterion::ServiceIds(ports_of(RDMA_IP_CM)),
        ("ipoib" | "any", "pkey") => Criterion::PKeys(builder.p_keys(list)),
        ("any", "service-id") => Criterion::ServiceIds(builder.ranges(list, u64::MAX, SERVICE_IDS)),
        ("srp" | "any", "target-port-guid") => {
            Criterion::Destination(builder.ranges(list, u64::MAX, GUIDS))
        }
        ("any", "source-port-guid") => Criterion::Source(builder.ranges(list, u64::MAX, GUIDS)),
        ("any", "source-target-port-guid") => {
            Criterion::Either(builder.ranges(list, u64::MAX, GUIDS))
        }
        _ => return None,
    })
}

/// Adds the rules for a criterion: two for [`Criterion::Either`], otherwise one.
fn push_rules(builder: &mut Builder<'_, '_>, entry: &Entry<'_>, criterion: Criterion, sl: u8) {
    let level = builder.simple_level(sl);
    let line = builder.line(entry.key.offset);
    let rule = MatchRule {
        line,
        description: entry.key.text.to_owned(),
        sources: Vec::new(),
        destinations: Vec::new(),
        qos_classes: Ranges::default(),
        service_ids: Ranges::default(),
        p_keys: Ranges::default(),
        level,
    };
    let mut group = |guids: Ranges| {
        builder.policy.groups.push(PortGroup {
            line,
            name: format!("ports of line {line}"),
            description: entry.key.text.to_owned(),
            guids,
            ..PortGroup::default()
        });
        vec![builder.policy.groups.len() - 1]
    };
    let rules = match criterion {
        Criterion::ServiceIds(service_ids) => vec![MatchRule {
            service_ids,
            ..rule
        }],
        Criterion::PKeys(p_keys) => vec![MatchRule { p_keys, ..rule }],
        Criterion::Source(guids) => {
            let sources = group(guids);
            vec![MatchRule { sources, ..rule }]
        }
        Criterion::Destination(guids) => {
            let destinations = group(guids);
            vec![MatchRule {
                destinations,
                ..rule
            }]
        }
        // A query may match by either end, which takes two successive rules.
        Criterion::Either(guids) => {
            let ports = group(guids);
            let by_source = MatchRule {
                sources: ports.clone(),
                ..rule.clone()
            };
            let by_destination = MatchRule {
                destinations: ports,
                ..rule
            };
            vec![by_source, by_destination]
        }
    };
    builder.services.extend(rules);
}
