//! Builds cables from links. One or both ends of a cable state its link.

use std::collections::HashMap;

use rsm_ids::{Guid, Lid, Lmc, PortNum};

use super::assemble::{Assembly, Link, port_number};
use super::line::PortRate;
use super::{Fault, LeftOut, ParseReason, Parsed, WarningKind};
use crate::netlist::{
    Cable, CableEnd, LinkRate, LinkSpeed, LinkWidth, Netlist, NetlistError, NodeKind,
};

/// The rate that is assumed for a link without a stated rate: every port supports it.
const SLOWEST: LinkRate = LinkRate {
    width: LinkWidth::X4,
    speed: LinkSpeed::Sdr,
};

/// The other end of a link, as far as the file states it.
enum Across<'a> {
    /// The node at the other end is not in the file.
    Unknown,
    /// The other end states the link as well.
    Stated(CableEnd, &'a Link),
    /// The other end does not mention the link.
    Unstated(CableEnd),
}

impl Assembly {
    /// Builds the cables, and returns the fabric with the warnings in the order of lines.
    pub(super) fn finish(mut self) -> Result<Parsed, Fault> {
        self.drop_pending();
        let cables = self.connect()?;
        self.check_port_guids()?;
        self.warnings.sort_by_key(|warning| warning.line);
        // Every rule has been checked with the line that breaks it.
        let netlist =
            Netlist::new(self.nodes, cables).map_err(|error| (1, ParseReason::Fabric(error)))?;
        Ok(Parsed {
            netlist,
            warnings: self.warnings,
        })
    }

    /// Builds the cables from all links.
    fn connect(&mut self) -> Result<Vec<Cable>, Fault> {
        let links = std::mem::take(&mut self.links);
        let mut cables = Vec::with_capacity(links.len() / 2 + 1);
        // Ports whose link only the other end states, each with the line of that end.
        let mut claimed: HashMap<CableEnd, usize> = HashMap::new();
        for (&end, link) in &links {
            let across = self.across(end, link, |there| {
                let claim = links.get(&there);
                claim.ok_or_else(|| *claimed.entry(there).or_insert(link.line))
            });
            match across {
                Err(reason) => self.refuse_part(link.line, LeftOut::Link, reason)?,
                Ok(Across::Unknown) => {
                    let id = link.peer.text();
                    self.warn(link.line, WarningKind::UnknownPeer { id });
                }
                Ok(Across::Stated(there, back)) => {
                    self.check_peer(there, link);
                    self.warn_of_missing_rate(link, Some(back));
                    if end <= there {
                        self.warn_of_loop(end, there, link.line);
                        cables.push(cable(end, there, self.agreed_rate(link, back)));
                    }
                }
                Ok(Across::Unstated(there)) => {
                    self.check_peer(there, link);
                    let id = self.nodes[there.0].id();
                    let port = there.1;
                    self.warn(link.line, WarningKind::OneSided { id, port });
                    self.warn_of_missing_rate(link, None);
                    self.warn_of_loop(end, there, link.line);
                    cables.push(cable(end, there, rate_of(link).unwrap_or(SLOWEST)));
                }
            }
        }
        Ok(cables)
    }

    /// Finds the other end of a link. `stated` returns the link that an end states or, if the end
    /// states none, the line of the first link that leads to the end.
    fn across<'a>(
        &self,
        end: CableEnd,
        link: &Link,
        stated: impl FnOnce(CableEnd) -> Result<&'a Link, usize>,
    ) -> Result<Across<'a>, ParseReason> {
        let Some(peer) = self.index_of(&link.peer) else {
            return Ok(Across::Unknown);
        };
        let peer_port = port_number(link.peer_port, self.nodes[peer].num_ports)?;
        let there = (peer, peer_port);
        let other_line = match stated(there) {
            Ok(back) => {
                let points_here = self.index_of(&back.peer) == Some(end.0)
                    && back.peer_port == u64::from(end.1.0);
                if points_here {
                    return Ok(Across::Stated(there, back));
                }
                back.line
            }
            Err(first) if first == link.line => return Ok(Across::Unstated(there)),
            Err(first) => first,
        };
        Err(ParseReason::Contradiction {
            id: self.nodes[peer].id(),
            port: peer_port,
            other_line,
        })
    }

    /// Compares the statements of a link about the port at its other end with the statements of
    /// that port's node, and warns of differences. If the node states nothing, the link's
    /// statements count.
    fn check_peer(&mut self, there: CableEnd, link: &Link) {
        let node = &self.nodes[there.0];
        let is_switch = node.kind == NodeKind::Switch;
        let end_port = if is_switch {
            (there.0, PortNum::ZERO)
        } else {
            there
        };
        // A system image GUID, which several nodes share, is not the GUID of a port.
        let of_system = |guid: &Guid| is_switch && *guid == node.system_image_guid;
        let peer_guid = link.peer_guid.filter(|guid| !of_system(guid));
        let Some(own) = node.ports.get(&end_port.1).copied() else {
            let lid = link.peer_lid.unwrap_or(Lid::NONE);
            self.set_address(end_port, (peer_guid, lid, Lmc::ZERO), link.line);
            return;
        };
        if let Some(here) = peer_guid
            && here != own.guid
        {
            let there = own.guid;
            self.warn(link.line, WarningKind::PeerGuidMismatch { here, there });
        }
        if let Some(here) = link.peer_lid
            && here != own.lid
        {
            let there = own.lid;
            self.warn(link.line, WarningKind::PeerLidMismatch { here, there });
        }
    }

    /// Warns of a line without a readable rate, and which rate counts instead. `back` is the link
    /// that the other end states.
    fn warn_of_missing_rate(&mut self, link: &Link, back: Option<&Link>) {
        if link.rate != PortRate::Missing {
            return;
        }
        let there = back.and_then(|back| Some((rate_of(back)?, back.line)));
        let kind = match there {
            Some((there, other_line)) => WarningKind::RateOfOtherEnd { there, other_line },
            None => WarningKind::NoRate,
        };
        self.warn(link.line, kind);
    }

    /// Warns that both ends of a cable are at one node: no path can use it.
    fn warn_of_loop(&mut self, (node, port): CableEnd, (other, to): CableEnd, line: usize) {
        if node == other {
            let id = self.nodes[node].id();
            self.warn(line, WarningKind::Loop { id, port, to });
        }
    }

    /// The rate of a cable: the highest that both stated rates permit, or the only stated rate.
    fn agreed_rate(&mut self, one: &Link, other: &Link) -> LinkRate {
        let (here, there) = match (one.rate, other.rate) {
            (PortRate::Written(written), PortRate::Assumed(_))
            | (PortRate::Assumed(_), PortRate::Written(written)) => return written,
            _ => match (rate_of(one), rate_of(other)) {
                (Some(here), Some(there)) => (here, there),
                (here, there) => return here.or(there).unwrap_or(SLOWEST),
            },
        };
        if here != there {
            let other_line = other.line;
            let kind = WarningKind::RateMismatch {
                here,
                there,
                other_line,
            };
            self.warn(one.line, kind);
        }
        LinkRate {
            width: here.width.min(there.width),
            speed: here.speed.min(there.speed),
        }
    }

    /// Checks that no port GUID is stated for two ports.
    fn check_port_guids(&mut self) -> Result<(), Fault> {
        let mut first: HashMap<Guid, CableEnd> = HashMap::new();
        for index in 0..self.nodes.len() {
            let stated: Vec<_> = self.nodes[index]
                .ports
                .iter()
                .map(|(port, spec)| (*port, spec.guid))
                .collect();
            for (port, guid) in stated {
                let end = (index, port);
                let reason = if guid.is_zero() {
                    let id = self.nodes[index].id();
                    ParseReason::Fabric(NetlistError::ZeroPortGuid { id, port })
                } else if let Some(&other) = first.get(&guid) {
                    let first_line = self.address_line(other);
                    ParseReason::DuplicatePortGuid { guid, first_line }
                } else {
                    first.insert(guid, end);
                    continue;
                };
                self.refuse_part(self.address_line(end), LeftOut::Address, reason)?;
                self.nodes[index].ports.remove(&port);
            }
        }
        Ok(())
    }
}

/// The rate that a line states or that its format implies; `None` if it is missing.
fn rate_of(link: &Link) -> Option<LinkRate> {
    match link.rate {
        PortRate::Written(rate) | PortRate::Assumed(rate) => Some(rate),
        PortRate::Missing => None,
    }
}

fn cable(a: CableEnd, b: CableEnd, rate: LinkRate) -> Cable {
    Cable {
        a,
        b,
        width: rate.width,
        speed: rate.speed,
    }
}
