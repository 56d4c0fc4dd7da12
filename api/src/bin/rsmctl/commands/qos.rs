use clap::Args;
use rsm_proto::v1;

use crate::failure::Failure;
use crate::session::Session;
use crate::table::Rows;
use crate::text::{count, printable};

/// Quality of service: tables of ports, and rules for the service levels of paths
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rsmctl qos\n  rsmctl qos --format json\n\n`rsmctl path SRC DST` shows the rule that a path has its service level from."
)]
pub(crate) struct QosArguments {}

pub(crate) async fn run(_: QosArguments, session: &mut Session) -> Result<(), Failure> {
    let answer = session.sa().get_qos(v1::GetQosRequest {}).await?;
    let qos = answer.into_inner().qos.unwrap_or_default();
    if session.output.is_json() {
        return session.output.json(&qos);
    }
    session.output.table(summary(&qos))?;
    let tables = [
        (qos.classes.is_empty(), classes(&qos.classes)),
        (qos.levels.is_empty(), levels(&qos.levels)),
        (qos.port_groups.is_empty(), port_groups(&qos.port_groups)),
        (qos.rules.is_empty(), rules(&qos.rules)),
    ];
    for (_, rows) in tables.into_iter().filter(|(is_empty, _)| !is_empty) {
        session.output.line("")?;
        session.output.table(rows)?;
    }
    Ok(())
}

fn summary(qos: &v1::Qos) -> Rows {
    let mut rows = Rows::plain(2);
    let mut row = |name: &str, value: String| rows.add([name.to_owned(), value]);
    let tables = match qos.enabled {
        true => "set by rsm, as below",
        false => "left as devices hold them: `qos.enabled` is false",
    };
    row("Tables", tables.to_owned());
    let policy = match qos.policy_file.as_str() {
        "" => "none: paths have the service level of their partition, or that which routes need"
            .to_owned(),
        file => {
            let rules = count(qos.rules.len() as u64, "rule", "rules");
            let file = printable(file);
            let level = printable(&qos.default_level);
            format!("{file}: {rules}; level {level} for all other queries")
        }
    };
    row("Policy", policy);
    rows
}

fn classes(classes: &[v1::QosClass]) -> Rows {
    let mut rows = Rows::new(&["CLASS", ">VLS", ">LIMIT", "VL OF EACH SL", "HIGH", "LOW"]);
    for class in classes {
        let lanes: Vec<String> = class.sl_to_vl.iter().map(u32::to_string).collect();
        rows.add([
            printable(&class.name),
            class.max_vls.to_string(),
            class.high_limit.to_string(),
            lanes.join(" "),
            weights(&class.vlarb_high),
            weights(&class.vlarb_low),
        ]);
    }
    rows
}

/// The VLs with a nonzero weight, and their weights; `table` has entries `VL:WEIGHT`, separated by
/// commas.
fn weights(table: &str) -> String {
    let entries = table.split(',').filter(|entry| !entry.ends_with(":0"));
    let entries: Vec<&str> = entries.collect();
    match entries.is_empty() {
        true => "-".to_owned(),
        false => printable(&entries.join(" ")),
    }
}

fn levels(levels: &[v1::QosLevel]) -> Rows {
    let mut rows = Rows::new(&["LEVEL", ">LINE", "LIMITS", "+DESCRIPTION"]);
    for level in levels {
        rows.add([
            printable(&level.name),
            line_number(level.line),
            printable(&level.limits),
            printable(&level.description),
        ]);
    }
    rows
}

fn port_groups(groups: &[v1::QosPortGroup]) -> Rows {
    let mut rows = Rows::new(&["GROUP", ">LINE", ">PORTS", "+DESCRIPTION"]);
    for group in groups {
        rows.add([
            printable(&group.name),
            line_number(group.line),
            group.ports.to_string(),
            printable(&group.description),
        ]);
    }
    rows
}

fn rules(rules: &[v1::QosRule]) -> Rows {
    let mut rows = Rows::new(&[">RULE", ">LINE", "QUERIES", "LEVEL", ">SL", "+DESCRIPTION"]);
    for (number, rule) in (1..).zip(rules) {
        rows.add([
            i32::to_string(&number),
            line_number(rule.line),
            printable(&rule.criteria),
            printable(&rule.level),
            rule.service_level.to_string(),
            printable(&rule.description),
        ]);
    }
    rows
}

/// A line number in a file; 0 means none.
fn line_number(number: u32) -> String {
    match number {
        0 => "-".to_owned(),
        number => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vls_of_weight_zero_are_left_out() {
        assert_eq!(weights("0:4,1:0,14:255"), "0:4 14:255");
        assert_eq!(weights("0:0,1:0"), "-");
    }
}
