use clap::Args;
use rsm_proto::v1;

use super::waiting;
use crate::failure::Failure;
use crate::session::Session;
use crate::table::Rows;
use crate::text::{count, duration, label, lid, milliseconds, service_levels};
use crate::time::timestamp;

/// The subnet and its manager at one glance
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {}

pub(crate) async fn run(_: StatusArguments, session: &mut Session) -> Result<(), Failure> {
    let answer = session.fabric().get_status(v1::GetStatusRequest {}).await?;
    let answer = answer.into_inner();
    let status = answer.status.unwrap_or_default();
    if session.output.is_json() {
        return session.output.json(&status);
    }
    let mut rows = rows(&status);
    if let Some(clients) = answer.connections.filter(|clients| clients.refused > 0) {
        rows.add(["API".to_owned(), refusals(&clients)]);
    }
    session.output.table(rows)
}

/// The text about refused clients, for a count above 0.
fn refusals(clients: &v1::Connections) -> String {
    format!(
        "{} connections were refused since the start; open now {} of {} over TCP, {} of {} at the socket: \
         end idle clients, or raise the limit of open files (LimitNOFILE)",
        clients.refused, clients.tcp_open, clients.tcp_limit, clients.unix_open, clients.unix_limit
    )
}

fn rows(status: &v1::SubnetStatus) -> Rows {
    let mut rows = Rows::plain(2);
    let mut row = |name: &str, value: String| rows.add([name.to_owned(), value]);
    row("Fabric", status.fabric.clone());
    row("State", state(status));
    row("Manager", this_manager(status));
    if status.master.is_none() && is_master(status.state()) {
        let at = match status.description.as_str() {
            "" => String::new(),
            host => format!(", {host}"),
        };
        row("Master", format!("this manager{at}"));
    }
    for (name, manager) in managers(status) {
        row(name, manager);
    }
    if let Some(store) = &status.shared_store {
        row("Shared store", shared_store(store));
    }
    for receiver in &status.event_receivers {
        row("Events to", event_receiver(receiver));
    }
    if let Some(keys) = status.key_status.filter(|keys| keys.per_port) {
        row("M_Keys", management_keys(&keys));
    }
    if let Some(activity) = &status.activity {
        row("Under way", waiting::under_way(activity));
    }
    row("Generation", status.generation.to_string());
    match &status.activity {
        // No sweep has ended yet, so zeros would be misleading.
        Some(activity) if status.switches + status.cas + status.routers == 0 => {
            row("Nodes", format!("{} found so far", activity.nodes));
        }
        _ => counts(status, &mut row),
    }
    if let Some(design) = &status.design {
        row("Design", design_state(design));
    }
    if let Some(engine) = &status.engine {
        row("Engine", format!("{} ({})", engine.name, engine.reason));
    }
    if let Some(verify) = &status.verify {
        row("Routes", proof(verify));
    }
    if !status.partitions_apart.is_empty() {
        let apart = &status.partitions_apart;
        row("Partitions", format!("{apart} (`rsmctl partitions`)"));
    }
    if let Some(adaptive) = &status.adaptive_routing {
        row("Adaptive routing", adaptive_routing(adaptive));
    }
    let findings = status.findings.unwrap_or_default();
    row("Findings", number_of_findings(&findings));
    if let Some(avoided) = status.avoided.as_ref().and_then(avoided) {
        row("Avoided", avoided);
    }
    if let Some(last) = &status.last_convergence {
        row("Last convergence", last_convergence(last));
    }
    rows
}

/// The state, with its reason if there is one, and missing parts.
fn state(status: &v1::SubnetStatus) -> String {
    let state = label::<v1::SubnetState>(status.state);
    match status.state_reason.as_str() {
        "" => state + &missing(status),
        reason => format!("{state} ({reason}){}", missing(status)),
    }
}

/// The version, port and priority of this manager, and the time since its start.
fn this_manager(status: &v1::SubnetStatus) -> String {
    format!(
        "rsm {}, port {}, LID {}, priority {}, up for {}",
        status.version,
        status.port_guid,
        lid(status.lid),
        status.priority,
        duration(status.uptime_ms)
    )
}

/// The text `1 error, 2 warnings, 3 info`.
fn number_of_findings(findings: &v1::FindingCounts) -> String {
    format!(
        "{}, {}, {} info",
        count(findings.error, "error", "errors"),
        count(findings.warning, "warning", "warnings"),
        findings.info
    )
}

/// The cause, the duration and the SMPs of the last convergence.
fn last_convergence(last: &v1::Convergence) -> String {
    let smps = last.smps.unwrap_or_default();
    format!(
        "{}: {} ms, {}, {}",
        last.cause,
        milliseconds(last.timing_ms.unwrap_or_default().total),
        count(smps.get, "Get", "Gets"),
        count(smps.set, "Set", "Sets")
    )
}

/// Adds the counts of the fabric's parts, each by a call of `row`.
fn counts(status: &v1::SubnetStatus, row: &mut impl FnMut(&str, String)) {
    row(
        "Nodes",
        format!(
            "{}, {}, {}",
            count(status.switches, "switch", "switches"),
            count(status.cas, "CA", "CAs"),
            count(status.routers, "router", "routers")
        ),
    );
    row("Links", status.links.to_string());
    row("LIDs", status.lids.to_string());
    row(
        "Ports",
        format!(
            "{} active, {} not active",
            status.ports_active, status.ports_not_active
        ),
    );
}

/// The text `, 1 switch and 36 cables missing`; empty if nothing is missing.
fn missing(status: &v1::SubnetStatus) -> String {
    match status
        .missing
        .as_ref()
        .map(|missing| missing.summary.as_str())
    {
        None | Some("") => String::new(),
        Some(missing) => format!(", {missing} (`rsmctl expect`)"),
    }
}

/// The text `1290 of 1296 cables as designed (99 %), 3 moves to make (`rsmctl design`)`.
fn design_state(design: &v1::DesignState) -> String {
    let percent = design.right * 100 / design.designed.max(1);
    let done = format!(
        "{} of {} cables as designed ({percent} %)",
        design.right, design.designed
    );
    match (design.right == design.designed, design.moves) {
        (true, 0) => done,
        (_, moves) => format!(
            "{done}, {} to make (`rsmctl design`)",
            count(moves, "move", "moves")
        ),
    }
}

/// The text `on 12 of 12 switches, 8 groups, SLs 0-15`.
fn adaptive_routing(adaptive: &v1::AdaptiveRoutingStatus) -> String {
    let recovery = match adaptive.fast_recovery {
        true => ", with fast recovery",
        false => "",
    };
    format!(
        "on {} of {}, {}, {}{recovery}",
        adaptive.switches,
        count(adaptive.switches_planned, "switch", "switches"),
        count(adaptive.groups, "group", "groups"),
        service_levels(adaptive.service_levels)
    )
}

/// The text `2 drained, 1 isolated: leaf-03, spine-01:7`; `None` if routes avoid nothing.
fn avoided(avoided: &v1::AvoidedParts) -> Option<String> {
    let counts = [
        (avoided.draining, "being drained"),
        (avoided.drained, "drained"),
        (avoided.isolated, "isolated"),
        (avoided.in_use, "in use all the same"),
    ];
    let total: u64 = counts.iter().map(|&(count, _)| count).sum();
    let counts = counts.iter().filter(|&&(count, _)| count > 0);
    let counts: Vec<String> = counts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let mut text = format!("{}: {}", counts.join(", "), avoided.names.join(", "));
    match total.saturating_sub(avoided.names.len() as u64) {
        0 => {}
        more => text.push_str(&format!(", and {more} more")),
    }
    (total > 0).then_some(text)
}

fn is_master(state: v1::SubnetState) -> bool {
    use v1::SubnetState::{Converging, Degraded, Up};
    matches!(state, Converging | Up | Degraded)
}

/// The text `one for each port, generation 3; 64 ports hold their own, 2 do not yet`, and the
/// generation of switches if theirs is ahead.
fn management_keys(keys: &v1::ManagementKeys) -> String {
    let ahead = match keys.switch_generation > keys.generation {
        true => format!(", of switches {}", keys.switch_generation),
        false => String::new(),
    };
    let behind = match keys.ports_behind {
        0 => String::new(),
        ports => format!(", {ports} do not yet"),
    };
    format!(
        "one for each port, generation {}{ahead}; {}{behind}",
        keys.generation,
        count(keys.ports, "port holds its own", "ports hold their own"),
    )
}

/// The text `epoch 7, held by this manager; no change waits`. A standby adds which plan of the
/// master it has read; a store that fails adds since when and why.
fn shared_store(store: &v1::SharedStore) -> String {
    let epoch = match (store.epoch, store.held) {
        (0, _) => "no epoch yet".to_owned(),
        (epoch, true) => format!("epoch {epoch}, held by this manager"),
        (epoch, false) => format!("epoch {epoch}, held by {}", store.holder),
    };
    let lag = match store.waiting_rows {
        0 => "no change waits".to_owned(),
        rows => format!(
            "{} for {} ms",
            count(rows, "change waits", "changes wait"),
            store.lag_ms
        ),
    };
    let lag = match (store.master_plan, store.read_plan) {
        (None, _) => lag,
        (Some(plan), Some(read)) if plan == read => {
            format!("{lag}; subnet read as of plan {plan}, the last one")
        }
        (Some(plan), Some(read)) => {
            format!("{lag}; subnet read as of plan {read}, the last one is {plan}")
        }
        (Some(_), None) => format!("{lag}; subnet being read"),
    };
    match store.failing_since_unix_ms {
        Some(since) => format!(
            "{epoch}; {lag}; failing since {}: {}",
            timestamp(since),
            store.failure
        ),
        None => format!("{epoch}; {lag}"),
    }
}

/// The text `webhook https://host:443: 12 sent, 0 wait, 0 lost`, and the failure if there is one.
fn event_receiver(receiver: &v1::EventReceiver) -> String {
    let counts = format!(
        "{} {}: {} sent, {} wait, {} lost",
        receiver.kind, receiver.address, receiver.sent, receiver.waiting, receiver.lost
    );
    match (receiver.failing_since_unix_ms, receiver.failure.as_str()) {
        (Some(since), why) => format!("{counts}; failing since {}: {why}", timestamp(since)),
        (None, "") => counts,
        (None, why) => format!("{counts}; {why}"),
    }
}

/// The rows about other subnet managers; if the master is one of them, it comes first.
fn managers(status: &v1::SubnetStatus) -> Vec<(&'static str, String)> {
    let master = status.master.as_ref();
    let is_the_master =
        |other: &&v1::OtherManager| master.is_some_and(|master| master.guid == other.guid);
    let mut rows = Vec::new();
    if let Some(master) = master {
        let name = status.other_managers.iter().find(is_the_master);
        let name = name.map_or("", |other| other.description.as_str());
        let place = identity(name, &master.guid, master.lid);
        rows.push(("Master", format!("{place}, priority {}", master.priority)));
    }
    let others = status.other_managers.iter();
    for other in others.filter(|other| !is_the_master(other)) {
        let text = format!(
            "{}, priority {}, {}",
            identity(&other.description, &other.guid, other.lid),
            other.priority,
            label::<v1::ManagerState>(other.state)
        );
        rows.push(("Other manager", text));
    }
    let is_alone = master.is_none() && status.other_managers.is_empty();
    if is_alone && is_master(status.state()) {
        rows.push(("Other manager", "none: no manager stands by".to_owned()));
    }
    rows
}

/// The text `host-1 (0x0002c90300100000), LID 9`.
fn identity(description: &str, guid: &str, at: u32) -> String {
    match description {
        "" => format!("{guid}, LID {}", lid(at)),
        name => format!("{name} ({guid}), LID {}", lid(at)),
    }
}

/// The text `all 992 pairs reachable, no loop, no credit loop, at most 4 hops`.
fn proof(verify: &v1::Verification) -> String {
    let reach = match verify.unreachable_pairs {
        0 => format!("all {} pairs reachable", verify.reachable_pairs),
        lost => format!(
            "{lost} pairs UNREACHABLE, {} reachable",
            verify.reachable_pairs
        ),
    };
    let loops = match (verify.loop_free, verify.credit_loop_free) {
        (false, _) => "LOOPS",
        (true, false) => "no loop, CREDIT LOOPS possible",
        (true, true) => "no loop, no credit loop",
    };
    format!("{reach}, {loops}, at most {} hops", verify.max_hops)
}
