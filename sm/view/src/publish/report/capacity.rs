//! The use of the subnet's number ranges, and of its switches' tables.

use rsm_api::v1;
use rsm_ids::Lid;
use rsm_plan::Plan;

use super::super::published::Published;
use super::topic::Measured;

/// Reason why the use of multicast is not known: the SA has passed no member to the core.
pub(super) const NO_MEMBERS: &str =
    "no host has joined a multicast group since this manager started";

/// Minimum used share of a number range or a table, in percent, at which the check warns.
const WARN_PERCENT: usize = 80;

/// Minimum used share of a number range or a table, in percent, that is shown.
const SHOWN_PERCENT: usize = 10;

/// Number of unicast LIDs of a subnet (IBA 4.1.3).
const UNICAST_LIDS: usize = Lid::UNICAST_LAST.0 as usize;

/// Number of multicast LIDs of a subnet: 0xC000 to 0xFFFE.
const MULTICAST_LIDS: usize = (Lid::PERMISSIVE.0 - Lid::MULTICAST_FIRST.0) as usize;

/// A range of numbers or a table, with its used part.
struct Fill {
    name: &'static str,
    /// The switch with the table; empty for a number range.
    switch: String,
    used: usize,
    of: usize,
}

impl Fill {
    fn percent(&self) -> usize {
        100 * self.used / self.of.max(1)
    }
}

impl std::fmt::Display for Fill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, used, of) = (self.name, self.used, self.of);
        write!(f, "{name} {used} of {of}")?;
        if self.percent() >= SHOWN_PERCENT {
            write!(f, " ({} %)", self.percent())?;
        }
        match self.switch.as_str() {
            "" => Ok(()),
            switch => write!(f, " at {switch}"),
        }
    }
}

/// Checks the use of LIDs and tables. `multicast_lids` is the number of multicast LIDs of the SA's
/// groups; without it, the multicast trees of `plan` count.
pub(super) fn capacity(
    published: &Published,
    plan: &Plan,
    multicast_lids: Option<usize>,
) -> Measured {
    let trees = plan.multicast.as_ref();
    let trees = trees.map_or(0, |groups| groups.trees.by_mlid.len());
    let range = |name, used, of| Fill {
        name,
        switch: String::new(),
        used,
        of,
    };
    let lids = usize::try_from(published.counts.lids).unwrap_or(usize::MAX);
    let unicast = range("LIDs", lids, UNICAST_LIDS);
    let multicast = range("MLIDs", multicast_lids.unwrap_or(trees), MULTICAST_LIDS);
    let [lft, mft] = fullest_tables(published, plan);
    let summary: Vec<String> = [Some(&unicast), Some(&multicast), lft.first(), mft.first()]
        .into_iter()
        .flatten()
        .map(Fill::to_string)
        .collect();
    let summary = summary.join(", ");
    let all = [unicast, multicast].into_iter().chain(lft).chain(mft);
    let mut full: Vec<Fill> = all.filter(|fill| fill.percent() >= WARN_PERCENT).collect();
    full.sort_by_key(|fill| std::cmp::Reverse(fill.percent()));
    let is_over = full.iter().any(|fill| fill.used > fill.of);
    let verdict = match is_over {
        true => v1::Verdict::Fail,
        false => v1::Verdict::Warn,
    };
    Measured::unless(full.iter().map(Fill::to_string).collect(), verdict, summary)
}

/// The linear and the multicast forwarding tables of all switches, the fullest first. An entry's
/// index is its LID, so the highest LID determines how full a table is.
fn fullest_tables(published: &Published, plan: &Plan) -> [Vec<Fill>; 2] {
    let linear_used = plan.top().index() + 1;
    let top = plan.multicast.as_ref().and_then(|groups| groups.top());
    let multicast_used = top.map(|top| usize::from(top.0 - Lid::MULTICAST_FIRST.0) + 1);
    let mut tables = [Vec::new(), Vec::new()];
    for (_, node) in published.fabric().switches() {
        let Some(info) = &node.switch else { continue };
        let mut add = |kind: usize, name: &'static str, used: usize, of: u16| {
            tables[kind].push(Fill {
                name,
                switch: node.name(),
                used,
                of: of.into(),
            });
        };
        add(0, "LFT", linear_used, info.linear_fdb_cap());
        if let Some(used) = multicast_used.filter(|_| info.multicast_fdb_cap() > 0) {
            add(1, "MFT", used, info.multicast_fdb_cap());
        }
    }
    for table in &mut tables {
        table.sort_by_key(|fill| std::cmp::Reverse(fill.percent()));
    }
    tables
}
