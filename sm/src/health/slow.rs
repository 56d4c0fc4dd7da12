//! Links that run below the rate that both ends could have.

use std::collections::BTreeMap;

use rsm_ids::{LinkSpeed, PortKey};
use rsm_mad::wire::attr::{LinkSpeedExt, LinkSpeedExt2, LinkSpeeds, LinkWidths, PortInfo};

use crate::fabric::{Fabric, Node};
use crate::findings::{Finding, FindingKind, Severity, Subject};

/// Slow links with a finding of their own; one more finding counts the others.
const NAMED: usize = 16;

/// A link below the rate that both ends could have.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SlowLink {
    peer: PortKey,
    /// Lanes: those in use, and those of the best width of both ends.
    lanes: (u8, u8),
    /// The speed in use, and the best one of both ends.
    speed: (LinkSpeed, LinkSpeed),
}

/// The links that run below the rate that both ends could have, each by its lower end.
#[derive(Clone, Default, Debug)]
pub struct SlowLinks {
    links: BTreeMap<PortKey, SlowLink>,
}

impl SlowLinks {
    /// Follows the fabric from `before` to `now`. Looks only at nodes that the two do not share.
    /// Returns whether a link has become slow, or is no longer.
    pub fn follow(&mut self, before: &Fabric, now: &Fabric) -> bool {
        let mut looked: BTreeMap<PortKey, Option<SlowLink>> = BTreeMap::new();
        for (old, new) in before.differing(now) {
            let cables = [old, new].into_iter().flatten().flat_map(Node::cables);
            for (here, there) in cables {
                let low = here.min(there);
                looked.entry(low).or_insert_with(|| slow(now, low));
            }
        }
        let mut changed = false;
        for (low, link) in looked {
            let earlier = match link.clone() {
                Some(link) => self.links.insert(low, link),
                None => self.links.remove(&low),
            };
            changed |= earlier != link;
        }
        changed
    }

    /// The findings about them, but for those that `is_told` names already.
    pub fn findings(
        &self,
        fabric: &Fabric,
        is_told: impl Fn(PortKey) -> bool,
    ) -> impl Iterator<Item = Finding> {
        let links = self.links.iter();
        let links: Vec<_> = links.filter(|(low, _)| !is_told(**low)).collect();
        let more = links.len().saturating_sub(NAMED);
        let named: Vec<Finding> = links
            .into_iter()
            .take(NAMED)
            .map(|(&low, link)| link.finding(low, fabric))
            .collect();
        let rest = (more > 0).then(|| {
            let text = format!(
                "{more} more links run below the width or speed that both their ends could have: `rsmctl links` lists rates"
            );
            let kind = FindingKind::LinkSlow;
            Finding::new(kind, Subject::Subnet, Severity::Warning, text)
        });
        named.into_iter().chain(rest)
    }
}

impl SlowLink {
    fn finding(&self, low: PortKey, fabric: &Fabric) -> Finding {
        let name = |key: PortKey| {
            let node = fabric.node_of(key.node);
            let node = node.map_or_else(|| key.node.to_string(), Node::name);
            format!("{node} port {}", key.port)
        };
        let SlowLink { lanes, speed, .. } = self;
        let advice = match lanes.0 < lanes.1 {
            true => "lanes are dead: clean or replace the cable, or train the link again",
            false => "use a cable for that speed, or train the link again",
        };
        let text = format!(
            "the link between {} and {} runs at {}x {}, both ends could do {}x {}: it carries less than it could; {advice}",
            name(low),
            name(self.peer),
            lanes.0,
            speed.0,
            lanes.1,
            speed.1
        );
        let subject = Subject::Port(low);
        Finding::new(FindingKind::LinkSlow, subject, Severity::Warning, text)
    }
}

/// The link at a port, if it is up and below the best rate of both ends.
fn slow(fabric: &Fabric, low: PortKey) -> Option<SlowLink> {
    let port = |key: PortKey| {
        let port = fabric.port(fabric.find_port(key)?);
        Some(port).filter(|port| port.up)
    };
    let near = port(low)?;
    let far = port(near.peer?)?;
    let (one, other) = (near.info.as_ref()?, far.info.as_ref()?);
    let rate = one.link_rate()?;
    let lanes = best_width(one, other)?;
    let speed = best_speed(one, other)?;
    let is_slow = rate.lanes < lanes || rate.speed.data_kbps() < speed.data_kbps();
    is_slow.then(|| SlowLink {
        peer: near.peer.unwrap_or(low),
        lanes: (rate.lanes, lanes),
        speed: (rate.speed, speed),
    })
}

/// The lanes of the widest width that both ports have, and have enabled.
fn best_width(one: &PortInfo, other: &PortInfo) -> Option<u8> {
    let widths = |info: &PortInfo| {
        let supported = info.link_width_supported();
        match info.link_width_enabled() {
            LinkWidths::ALL_SUPPORTED => supported,
            enabled => supported & enabled,
        }
    };
    let common = widths(one) & widths(other);
    let all = [
        LinkWidths::X12,
        LinkWidths::X8,
        LinkWidths::X4,
        LinkWidths::X2,
        LinkWidths::X1,
    ];
    let best = all.into_iter().find(|&width| common.contains(width))?;
    Some(best.single()?.lanes())
}

/// The highest speed that both ports have, and have enabled.
fn best_speed(one: &PortInfo, other: &PortInfo) -> Option<LinkSpeed> {
    let (one, other) = (Speeds::of(one), Speeds::of(other));
    let base = one.base & other.base;
    let ext = one.ext & other.ext;
    let ext2 = one.ext2 & other.ext2;
    if ext2.contains(LinkSpeedExt2::XDR) {
        return Some(LinkSpeed::Xdr);
    }
    let extended = [
        (LinkSpeedExt::NDR, LinkSpeed::Ndr),
        (LinkSpeedExt::HDR, LinkSpeed::Hdr),
        (LinkSpeedExt::EDR, LinkSpeed::Edr),
        (LinkSpeedExt::FDR, LinkSpeed::Fdr),
    ];
    let original = [
        (LinkSpeeds::QDR, LinkSpeed::Qdr),
        (LinkSpeeds::DDR, LinkSpeed::Ddr),
        (LinkSpeeds::SDR, LinkSpeed::Sdr),
    ];
    let extended = extended.into_iter().find(|&(bit, _)| ext.contains(bit));
    let original = original.into_iter().find(|&(bit, _)| base.contains(bit));
    let extended = extended.map(|(_, speed)| speed);
    extended.or(original.map(|(_, speed)| speed))
}

/// The speeds that a port has, and has enabled.
struct Speeds {
    base: LinkSpeeds,
    ext: LinkSpeedExt,
    ext2: LinkSpeedExt2,
}

impl Speeds {
    fn of(info: &PortInfo) -> Speeds {
        let base = match info.link_speed_enabled() {
            LinkSpeeds::ALL_SUPPORTED => info.link_speed_supported(),
            enabled => info.link_speed_supported() & enabled,
        };
        let ext = match info.link_speed_ext_enabled() {
            LinkSpeedExt::ALL_SUPPORTED => info.link_speed_ext_supported(),
            LinkSpeedExt::DISABLED => LinkSpeedExt::NONE,
            enabled => info.link_speed_ext_supported() & enabled,
        };
        Speeds {
            base,
            ext,
            ext2: info.link_speed_ext_supported2() & info.link_speed_ext_enabled2(),
        }
    }
}
