use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use clap::{Args, Subcommand};
use rsm_proto::v1::DesignMoveKind;
use rsm_proto::{AGGREGATION_NODE, v1};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Tint;
use crate::session::{Session, all_pages};
use crate::text::{count, plain_names, port_of, printable, wrapped};

/// The cables compared with the design file, and the moves that make them right
#[derive(Debug, Args)]
#[command(
    after_help = "The moves are in the order to make them, and no sequence is shorter: only wildcards of the design may\ncost one more. None touches a cable that is right.\n\nExamples:\n  rsmctl design\n  rsmctl design export > design.csv\n  rsmctl design --format json | jq .design"
)]
pub(crate) struct DesignArguments {
    #[command(subcommand)]
    action: Option<DesignAction>,
}

#[derive(Debug, Subcommand)]
enum DesignAction {
    /// Writes a design file of the fabric as it is now
    Export,
}

/// The JSON output of the command.
#[derive(Serialize)]
struct Compared {
    design: v1::DesignState,
    moves: Vec<v1::DesignMove>,
}

/// The number of columns before the text of a move.
const INDENT: usize = 6;

pub(crate) async fn run(arguments: DesignArguments, session: &mut Session) -> Result<(), Failure> {
    if let Some(DesignAction::Export) = arguments.action {
        return export(session).await;
    }
    let answer = session.fabric().get_status(v1::GetStatusRequest {}).await?;
    let design = answer.into_inner().status.and_then(|status| status.design);
    let Some(design) = design else {
        let message = "there is no design to compare with: `rsmctl design export > FILE` writes one of the fabric as it is, \
                       and `design.file` in the configuration names it";
        return Err(Failure::Refused(message.to_owned()));
    };
    let mut moves = all_pages(v1::ListDesignMovesRequest::default(), async |request| {
        session.fabric().list_design_moves(request).await
    })
    .await?;
    session.output.shorten(&mut moves);
    if session.output.is_json() {
        return session.output.json(&Compared { design, moves });
    }
    let width = session.output.width();
    let mut lines = summary(&design, width);
    let present = match moves.is_empty() {
        true => Present::default(),
        false => Present::read(session).await?,
    };
    for one in &moves {
        let text = plain_names(&printable(&sentence(one, &present)));
        lines.extend(
            wrapped(&text, width, INDENT)
                .into_iter()
                .map(|line| (Tint::None, line)),
        );
    }
    for (tint, line) in lines {
        let line = session.output.tinted(tint, &line);
        session.output.line(&line)?;
    }
    Ok(())
}

/// The cables of the fabric, and those that were there before.
#[derive(Default)]
struct Present {
    /// The other end of each cabled port, by its name in the form `leaf-03:7`.
    peers: HashMap<String, String>,
    /// The ends of the cables that are gone, one after the other.
    gone: HashSet<[String; 2]>,
}

impl Present {
    async fn read(session: &Session) -> Result<Present, Failure> {
        let links = all_pages(v1::ListLinksRequest::default(), async |request| {
            session.fabric().list_links(request).await
        })
        .await?;
        let request = v1::ListMissingRequest {
            each: true,
            ..v1::ListMissingRequest::default()
        };
        let missing = all_pages(request, async |request| {
            session.fabric().list_missing(request).await
        })
        .await?;
        Ok(Present::of(&links, &missing))
    }

    fn of(links: &[v1::Link], missing: &[v1::Missing]) -> Present {
        let name = |end: &v1::LinkEnd| port_of(&end.description, end.port.as_ref());
        let ends = links
            .iter()
            .filter_map(|link| Some([link.a.as_ref()?, link.b.as_ref()?]));
        let both = ends.flat_map(|[a, b]| [(name(a), name(b)), (name(b), name(a))]);
        let gone = missing.iter().filter_map(|one| {
            let near = format!("{}:{}", one.name, one.port?);
            Some([near, one.place.clone()].map(|end| plain_names(&end)))
        });
        Present {
            peers: both
                .map(|(here, there)| (plain_names(&here), there))
                .collect(),
            gone: gone.collect(),
        }
    }

    /// Where the plug in a port leads now: `leaf-03:7 leads to spine-01:4`; `None` without a cable.
    fn leads(&self, port: &str) -> Option<String> {
        let peer = self.peers.get(&plain_names(port))?;
        Some(format!("{port} leads to {peer}"))
    }

    /// Whether a cable was there before.
    fn was_there(&self, first: &str, second: &str) -> bool {
        let [first, second] = [first, second].map(plain_names);
        let ways = [[first.clone(), second.clone()], [second, first]];
        ways.iter().any(|ends| self.gone.contains(ends))
    }
}

/// The lines above the moves.
fn summary(design: &v1::DesignState, width: usize) -> Vec<(Tint, String)> {
    let percent = design.right * 100 / design.designed.max(1);
    let mut parts = vec![format!(
        "cables as designed: {} of {} ({percent} %)",
        design.right, design.designed
    )];
    let counts = [
        (design.wrong, "wrong"),
        (
            design.unseen,
            "not seen: a node is not there or does not answer",
        ),
        (design.unclear, "not comparable: see rsmctl findings"),
    ];
    let counts = counts.into_iter().filter(|&(number, _)| number > 0);
    parts.extend(counts.map(|(number, what)| format!("{number} {what}")));
    let tint = match design.right == design.designed && design.wrong == 0 {
        true => Tint::Good,
        false => Tint::Warning,
    };
    let mut texts = vec![(tint, parts.join(", "))];
    if design.absent_names > 0 {
        let mut names = design.absent.join(", ");
        match design
            .absent_names
            .saturating_sub(design.absent.len() as u64)
        {
            0 => {}
            more => names.push_str(&format!(" and {more} more")),
        }
        texts.push((Tint::None, format!("no node has the name: {names}")));
    }
    if design.moves > 0 {
        let moves = count(design.moves, "move makes", "moves make");
        texts.push((Tint::None, format!("{moves} the others right:")));
    }
    let lines = texts.into_iter().flat_map(|(tint, text)| {
        let lines = wrapped(&plain_names(&printable(&text)), width, 2);
        lines.into_iter().map(move |line| (tint, line))
    });
    lines.collect()
}

/// The line of a move: `   1  swap the plugs in leaf-01:5 and leaf-02:6; now: …; right then: …`.
fn sentence(one: &v1::DesignMove, present: &Present) -> String {
    let (first, second) = (&one.first, &one.second);
    let what = match one.kind() {
        DesignMoveKind::Swap => format!("swap the plugs in {first} and {second}"),
        DesignMoveKind::Shift => format!("move the plug in {first} to {second}"),
        DesignMoveKind::Remove => format!("take out the cable {first} - {second}"),
        DesignMoveKind::Connect if present.was_there(first, second) => {
            format!("plug in again the cable {first} - {second}, which is gone")
        }
        DesignMoveKind::Connect => format!("lay a cable {first} - {second}"),
        DesignMoveKind::Unspecified => format!("{first}, {second}"),
    };
    let is_shown = matches!(one.kind(), DesignMoveKind::Swap | DesignMoveKind::Shift);
    let ends = match one.kind() {
        DesignMoveKind::Swap => vec![first, second],
        DesignMoveKind::Shift => vec![first],
        _ => Vec::new(),
    };
    let now: Vec<String> = ends
        .into_iter()
        .filter_map(|end| present.leads(end))
        .collect();
    let now = match now.is_empty() {
        true => String::new(),
        false => format!("; now {}", now.join(" and ")),
    };
    let cables = [one.makes.as_str(), one.also_makes.as_str()];
    let cables: Vec<&str> = cables.into_iter().filter(|one| !one.is_empty()).collect();
    let makes = match is_shown && !cables.is_empty() {
        true => format!("; right then: {}", cables.join(" and ")),
        false => String::new(),
    };
    format!("{:>4}  {what}{now}{makes}", one.number)
}

/// Prints the design file of the current cables. A node is named by its description, or by its GUID
/// if the description is not unique or would be read as something else.
async fn export(session: &mut Session) -> Result<(), Failure> {
    let links = all_pages(v1::ListLinksRequest::default(), async |request| {
        session.fabric().list_links(request).await
    })
    .await?;
    session.output.limited_by_server();
    session.output.file(&design_file(&links))
}

fn design_file(links: &[v1::Link]) -> String {
    let ends = |link: &v1::Link| Some([link.a.clone()?, link.b.clone()?]);
    let cables: Vec<[v1::LinkEnd; 2]> = links.iter().filter_map(ends).collect();
    let mut nodes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for end in cables.iter().flatten() {
        let guid = end.port.as_ref().map_or("", |port| &port.node_guid);
        nodes.entry(&end.description).or_default().insert(guid);
    }
    let field = |end: &v1::LinkEnd| {
        let name = end.description.as_str();
        let guid = end.port.as_ref().map_or("", |port| &port.node_guid);
        let is_plain = !name.contains(['*', '\u{fffd}']) && !name.chars().any(char::is_control);
        let is_name = name.trim() == name && !name.is_empty() && !name.starts_with(['#', '0']);
        let is_one = nodes.get(name).is_some_and(|guids| guids.len() == 1);
        let name = if is_plain && is_name && is_one {
            name
        } else {
            guid
        };
        let number = end.port.as_ref().map_or(0, |port| port.number);
        match name.contains([',', ';', '"']) {
            true => format!("\"{}\",Port {number}", name.replace('"', "\"\"")),
            false => format!("{name},Port {number}"),
        }
    };
    let mut file = "StartDevice,StartPort,EndDevice,EndPort\n".to_owned();
    for [a, b] in &cables {
        let is_inside = [a, b]
            .iter()
            .any(|end| end.description.starts_with(AGGREGATION_NODE));
        if !is_inside && a.port != b.port {
            file.push_str(&format!("{},{}\n", field(a), field(b)));
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(name: &str, guid: &str, number: u32) -> Option<v1::LinkEnd> {
        Some(v1::LinkEnd {
            port: Some(v1::PortKey {
                node_guid: guid.to_owned(),
                number,
            }),
            description: name.to_owned(),
            kind: v1::NodeKind::Switch.into(),
        })
    }

    #[test]
    fn export_quotes_names_and_uses_guids_for_ambiguous_names() {
        let link = |a, b| v1::Link {
            a,
            b,
            ..v1::Link::default()
        };
        let links = [
            link(end("a, \"1\"", "0x1", 1), end("twin", "0x2", 2)),
            link(end("leaf-*", "0x4", 7), end("twin", "0x3", 2)),
            link(end("leaf-01", "0x5", 9), end("#b", "0x6", 1)),
            link(end("leaf-01", "0x5", 41), end(AGGREGATION_NODE, "0x7", 1)),
            link(end("leaf-01", "0x5", 3), end("leaf-01", "0x5", 3)),
        ];
        assert_eq!(
            design_file(&links),
            "StartDevice,StartPort,EndDevice,EndPort\n\
             \"a, \"\"1\"\"\",Port 1,0x2,Port 2\n\
             0x4,Port 7,0x3,Port 2\n\
             leaf-01,Port 9,0x6,Port 1\n"
        );
    }

    #[test]
    fn summary_fits_eighty_columns_and_a_move_names_its_ports() {
        let design = v1::DesignState {
            designed: 1296,
            right: 1290,
            unseen: 4,
            unclear: 1,
            wrong: 2,
            moves: 3,
            absent: (0..16)
                .map(|number| format!("host-{number:04} mlx5_0"))
                .collect(),
            absent_names: 20,
        };
        let lines = summary(&design, 80);
        assert!(
            lines.iter().all(|(_, line)| line.chars().count() <= 80),
            "{lines:?}"
        );
        assert!(
            lines[0]
                .1
                .starts_with("cables as designed: 1290 of 1296 (99 %), 2 wrong"),
            "{lines:?}"
        );
        let text: String = lines.iter().map(|(_, line)| line.as_str()).collect();
        assert!(text.contains("and 4 more"), "{text}");
        let one = v1::DesignMove {
            number: 1,
            kind: DesignMoveKind::Swap.into(),
            first: "MF0;leaf-01:MQM9700/U1:5".to_owned(),
            second: "leaf-02:6".to_owned(),
            makes: "leaf-01:5 - spine-01:1".to_owned(),
            also_makes: "leaf-02:6 - spine-01:2".to_owned(),
        };
        assert_eq!(
            plain_names(&sentence(&one, &Present::default())),
            "   1  swap the plugs in leaf-01:5 and leaf-02:6; right then: leaf-01:5 - spine-01:1 and \
             leaf-02:6 - spine-01:2"
        );
    }

    #[test]
    fn a_move_says_where_plugs_lead_now_and_that_a_gone_cable_is_plugged_in_again() {
        let link = v1::Link {
            a: end("MF0;leaf-01:MQM9700/U1", "0x1", 5),
            b: end("spine-09", "0x9", 2),
            ..v1::Link::default()
        };
        let missing = v1::Missing {
            name: "spine-01".to_owned(),
            port: Some(3),
            place: "MF0;leaf-03:MQM9700/U1:4".to_owned(),
            ..v1::Missing::default()
        };
        let present = Present::of(&[link], &[missing]);
        let one = |kind: DesignMoveKind, first: &str, second: &str| {
            let one = v1::DesignMove {
                number: 1,
                kind: kind.into(),
                first: first.to_owned(),
                second: second.to_owned(),
                ..v1::DesignMove::default()
            };
            sentence(&one, &present)
        };
        assert_eq!(
            one(DesignMoveKind::Swap, "leaf-01:5", "leaf-02:6"),
            "   1  swap the plugs in leaf-01:5 and leaf-02:6; now leaf-01:5 leads to spine-09:2"
        );
        assert_eq!(
            one(DesignMoveKind::Connect, "leaf-03:4", "spine-01:3"),
            "   1  plug in again the cable leaf-03:4 - spine-01:3, which is gone"
        );
        assert_eq!(
            one(DesignMoveKind::Connect, "leaf-03:5", "spine-01:3"),
            "   1  lay a cable leaf-03:5 - spine-01:3"
        );
    }
}
