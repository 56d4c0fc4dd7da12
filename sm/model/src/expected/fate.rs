//! The fate of missing cables, and the operator's remedies: enable a port that rsm keeps disabled,
//! put a moved plug back, or give up a part that is gone for good.

use rsm_ids::{PortKey, PortNum};

use super::missing::{Missing, MissingKind, NAMED_CABLES};
use super::{Expected, shown_at};
use crate::fabric::Fabric;

/// The fate of missing cables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The cables are gone, or their present place is not known.
    Gone,
    /// rsm keeps an end of each cable disabled.
    Disabled,
    /// An end of a cable has another cable now.
    Moved,
}

impl Expected {
    /// The fate of a group of cables, the present state of one of their ends, and the remedy. Both
    /// texts are empty if the cables are gone and no end shows why.
    pub(super) fn fate(
        &self,
        fabric: &Fabric,
        cables: &[(PortKey, PortKey)],
    ) -> (Fate, String, String) {
        let ends = || cables.iter().map(|&(near, far)| [near, far]);
        if let Some(port) = ends().find_map(|ends| self.disabled_of(ends)) {
            let now = self.disabled_by(fabric, port).unwrap_or_default();
            return (Fate::Disabled, now, self.enable(fabric, port));
        }
        let moved = ends().find_map(|ends| Some((ends, self.moved_end(ends)?)));
        if let Some((ends, end)) = moved
            && let Some(now) = shown_at(fabric, end)
        {
            let other = if ends[0] == end { ends[1] } else { ends[0] };
            let [end, now, other] = [end, now, other].map(|port| self.port_name(fabric, port));
            let mend = format!("put its plug from {now} back into {other}");
            return (Fate::Moved, format!("{now} leads to {end} now"), mend);
        }
        let (now, mend) = self.disabled_elsewhere(fabric, cables).unwrap_or_default();
        (Fate::Gone, now, mend)
    }

    /// The end of a missing cable that has another cable now; `None` if neither end has another.
    fn moved_end(&self, [here, there]: [PortKey; 2]) -> Option<PortKey> {
        let has_other = |end: PortKey, peer: PortKey| {
            let before = self.recabled.get(&end);
            before.is_some_and(|before| before.peer == peer)
        };
        match (has_other(here, there), has_other(there, here)) {
            (true, _) => Some(here),
            (_, true) => Some(there),
            _ => None,
        }
    }

    /// Describes the first end of these cables that is disabled, though not by rsm, and the remedy.
    fn disabled_elsewhere(
        &self,
        fabric: &Fabric,
        cables: &[(PortKey, PortKey)],
    ) -> Option<(String, String)> {
        let mut ends = cables.iter().flat_map(|&(near, far)| [near, far]);
        let end = ends.find(|&end| fabric.is_disabled(end))?;
        let now = format!("{} is disabled", self.port_name(fabric, end));
        let enable = self.enable(fabric, end);
        Some((now, format!("{enable}, unless it is to stay so")))
    }

    /// The command that enables a port.
    pub(super) fn enable(&self, fabric: &Fabric, port: PortKey) -> String {
        let name = format!("{}:{}", self.name(fabric, port.node), port.port);
        format!("rsmctl port enable '{name}'")
    }
}

impl Missing {
    /// The steps that end the finding. Cables that rsm keeps disabled should not be given up.
    pub(super) fn remedy(&self) -> String {
        let accept = format!("rsmctl expect --accept {}", self.to_accept());
        let (now, mend) = (&self.now, &self.mend);
        match self.kind {
            MissingKind::Exchanged => format!(
                "; routes use them as they are now: {mend}, or if they are to stay: {accept}"
            ),
            _ if self.fate == Fate::Disabled => format!("; {now}: {mend}"),
            _ if self.fate == Fate::Moved => {
                format!("; {now}: {mend}, or if it is to stay so: {accept}")
            }
            _ if !now.is_empty() => {
                format!("; {now}: {mend}; if it is gone for good: {accept}")
            }
            _ => format!("; if it is gone for good: {accept}"),
        }
    }

    /// The argument of `rsmctl expect --accept`: the node or port that is gone, or one port of each
    /// cable that is gone.
    fn to_accept(&self) -> String {
        let is_node = matches!(self.kind, MissingKind::Switch | MissingKind::Host);
        if is_node || self.key.port != PortNum::ZERO {
            return match self.key.port {
                PortNum::ZERO => self.key.node.to_string(),
                _ => self.key.to_string(),
            };
        }
        let ports = self.cables.iter().take(NAMED_CABLES);
        let mut ports: Vec<String> = ports.map(|(near, _)| near.to_string()).collect();
        if let Some(more @ 1..) = self.cables.len().checked_sub(NAMED_CABLES) {
            ports.push(format!("{more} more (rsmctl expect --all)"));
        }
        format!("PORT, for each of {}", ports.join(", "))
    }
}
