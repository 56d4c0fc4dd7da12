use clap::Args;
use rsm_api::resolve::shell_word;
use rsm_proto::v1;
use rsm_proto::v1::foresee_loss_request::Loss;

use super::drained;
use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::Session;
use crate::table::Rows;
use crate::text::{HostTally, count, port_of};

/// The maximum number of names of a list in the text output; `--format json` has all.
const MAX_NAMES: usize = 8;

/// The consequence of losing a cable or a node, or of draining it; sends nothing to the fabric
#[derive(Debug, Args)]
#[command(
    after_help = "First what unplugging would break, then what to do before: whether `rsmctl drain` of the same parts\nis possible; then who would be cut off by unplugging.\n\nExamples:\n  rsmctl whatif leaf-03\n  rsmctl whatif leaf-03:33 spine-02\n  rsmctl whatif remove=spine-02 unlink=leaf-03:33"
)]
pub(crate) struct WhatifArguments {
    /// The nodes and cables that go at the same time; unlink= and remove= before a name say which
    /// of the two is meant
    #[arg(add = of_nodes(), value_name = "NODE|NODE:PORT", required = true)]
    losses: Vec<String>,
    /// All adapters and cables by name, rather than the first eight
    #[arg(long)]
    all: bool,
}

/// The request about the loss of parts on the command line.
fn request(losses: Vec<String>) -> v1::ForeseeLossRequest {
    let mut request = v1::ForeseeLossRequest::default();
    for text in losses {
        let loss = match text.split_once('=') {
            Some(("unlink", port)) => Loss::Unlink(port.to_owned()),
            Some(("remove", node)) => Loss::Remove(node.to_owned()),
            _ => {
                request.parts.push(text);
                continue;
            }
        };
        match (&mut request, loss) {
            (request, loss) if request.loss.is_none() => request.loss = Some(loss),
            (request, Loss::Unlink(port)) => request.further_unlinks.push(port),
            (request, Loss::Remove(node)) => request.further_removes.push(node),
        }
    }
    request
}

pub(crate) async fn run(arguments: WhatifArguments, session: &mut Session) -> Result<(), Failure> {
    let request = request(arguments.losses.clone());
    let answer = session.routing().foresee_loss(request).await?;
    let found = answer.into_inner().consequence.unwrap_or_default();
    if session.output.is_json() {
        return session.output.json(&found);
    }
    let most = if arguments.all { usize::MAX } else { MAX_NAMES };
    let undone = match &arguments.losses[..] {
        [part] => {
            let part = part.trim_start_matches("unlink=");
            drained::undrain_of(part.trim_start_matches("remove="), session).await
        }
        _ => None,
    };
    let undone = undone.map(|undone| undone.line);
    session
        .output
        .table(rows(&found, &arguments.losses, most, undone))
}

/// The first `most` names, and the number of the remaining names.
fn list(names: Vec<String>, most: usize) -> String {
    let more = names.len().saturating_sub(most);
    let mut text = names[..names.len() - more].join(", ");
    if more > 0 {
        text += &format!(" and {more} more (--all)");
    }
    text
}

/// Rows in the order of an operator's questions: the damage of unplugging, the steps to take, the
/// ports that are cut off, and figures. `asked` are the parts as the operator named them, and `most`
/// is the maximum number of names in a row. `undone` is the line about a drain of the part that an
/// operator ended.
fn rows(found: &v1::Consequence, asked: &[String], most: usize, undone: Option<String>) -> Rows {
    let mut rows = Rows::plain(2);
    let mut row = |name: &str, value: String| rows.add([name.to_owned(), value]);
    let adapters: Vec<String> = found
        .cut_off
        .iter()
        .map(|port| port_of(&port.description, port.port.as_ref()))
        .collect();
    row("Breaks", breaks(found, adapters.len() as u64));
    if let Some(verdict) = may_be_unplugged(found) {
        row("May be unplugged", verdict);
    }
    if let Some(undone) = undone {
        row("Drain ended", undone);
    }
    row("To do", to_do(found, asked));
    if !adapters.is_empty() {
        row("Cut off", format!("if unplugged: {}", list(adapters, most)));
    }
    let cables = found.cables.iter().map(|cable| {
        let near = port_of(&cable.description, cable.port.as_ref());
        let far = port_of(&cable.peer_description, cable.peer.as_ref());
        format!("{near} - {far}")
    });
    let number = count(found.cables.len() as u64, "cable", "cables");
    row(
        "Goes",
        format!("{number}: {}", list(cables.collect(), most)),
    );
    if found.refused.is_empty() {
        row("Then", new_routes(found));
        row("Engine", format!("{} ({})", found.engine, found.reason));
    }
    if let Some(drained) = load_while_drained(found) {
        let name = match found.drain_refused.is_empty() {
            true => "If drained",
            false => "If forced",
        };
        row(name, drained);
    }
    rows
}

/// The damage by the loss, the worst first; `adapters` is the number of adapters that are cut off.
fn breaks(found: &v1::Consequence, adapters: u64) -> String {
    let mut broken = Vec::new();
    if !found.refused.is_empty() {
        broken.push(format!(
            "no new routes would be possible, and those in force would lose {}: {}",
            count(found.broken_pairs, "pair", "pairs"),
            found.refused
        ));
    }
    if adapters > 0 {
        let cut_off = found.cut_off.iter();
        let hosts: HostTally<'_> = cut_off.map(|port| port.description.as_str()).collect();
        broken.push(format!(
            "unplugged, {} of {} would be cut off",
            count(adapters, "adapter", "adapters"),
            count(hosts.hosts(), "host", "hosts")
        ));
    }
    if found.unreachable_pairs > 0 {
        broken.push(format!(
            "{} that cables would connect would have no route",
            count(found.unreachable_pairs, "pair", "pairs")
        ));
    }
    if found.refused.is_empty() && !found.credit_loop_free {
        broken.push("CREDIT LOOPS would be possible".to_owned());
    }
    if found.refused.is_empty() && found.broken_pairs > 0 {
        broken.push(format!(
            "{} would lose packets until new routes are in force",
            count(found.broken_pairs, "pair", "pairs")
        ));
    }
    match broken.is_empty() {
        true => "nothing: no other part uses it".to_owned(),
        false => broken.join("; "),
    }
}

/// Whether the parts may be unplugged now, and why not; `None` if the server does not say.
fn may_be_unplugged(found: &v1::Consequence) -> Option<String> {
    let adapters = found.cut_off.len() as u64;
    let why = match found.unplug() {
        v1::Unplug::Unspecified => return None,
        v1::Unplug::Safe => return Some("yes: no path of another node crosses it".to_owned()),
        v1::Unplug::Changing => {
            return Some("not yet: tables are being written, ask again".to_owned());
        }
        v1::Unplug::CutsOff => "it is drained, and paths of other nodes still cross it".to_owned(),
        v1::Unplug::DrainFirst | v1::Unplug::DrainHost if adapters > 0 => format!(
            "{} would be cut off",
            count(adapters, "adapter", "adapters")
        ),
        v1::Unplug::DrainFirst | v1::Unplug::DrainHost => match found.broken_pairs {
            0 => "paths of other nodes cross it".to_owned(),
            pairs => format!("{} would lose packets", count(pairs, "pair", "pairs")),
        },
    };
    Some(format!("NO: {why}"))
}

/// The steps to take before the parts are lost.
fn to_do(found: &v1::Consequence, asked: &[String]) -> String {
    let parts: Vec<&str> = asked
        .iter()
        .map(|part| {
            let name = part.strip_prefix("unlink=");
            name.or_else(|| part.strip_prefix("remove="))
                .unwrap_or(part)
        })
        .collect();
    let command: Vec<String> = parts.into_iter().map(shell_word).collect();
    let command = command.join(" ");
    match found.unplug() {
        v1::Unplug::Safe => {
            return "nothing: no path of another node crosses it, it may be unplugged now"
                .to_owned();
        }
        v1::Unplug::CutsOff => {
            return "do NOT unplug it: it is drained, and paths of other nodes still cross it"
                .to_owned();
        }
        _ => {}
    }
    match found.drain_refused.as_str() {
        "" => format!("first `rsmctl drain {command}`: routes go around, no packet is lost"),
        reason => format!(
            "a drain would be REFUSED: {reason}; drain them as well, or `rsmctl drain {command} \
             --force` drains it all the same"
        ),
    }
}

/// The load while the parts are drained and still in use by their hosts; `None` if it is not known.
pub(super) fn load_while_drained(found: &v1::Consequence) -> Option<String> {
    let load = match found.max_paths_drained {
        0 => return None,
        paths => format!(
            "{paths} paths on the fullest link (now {})",
            found.max_paths_now
        ),
    };
    Some(match found.drain_effect.as_str() {
        "" => load,
        effect => format!("{effect}: {load}"),
    })
}

/// The load of the new routes, and the writes that put them into force.
fn new_routes(found: &v1::Consequence) -> String {
    format!(
        "{} paths on the fullest link (now {}); {} in {} to write: {} and {} before them, {}",
        found.max_paths_then,
        found.max_paths_now,
        count(found.entries, "entry", "entries"),
        count(found.switches, "switch", "switches"),
        count(found.blocks, "block", "blocks"),
        found.blocks_before,
        count(found.smps, "SMP", "SMPs")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(found: &v1::Consequence, asked: &str) -> String {
        rows(found, &[asked.to_owned()], MAX_NAMES, None)
            .laid_out(usize::MAX)
            .lines
            .join("\n")
    }

    #[test]
    fn rows_state_the_damage_before_the_hosts_and_the_remedy() {
        let port = |description: &str| v1::CutOffPort {
            description: description.to_owned(),
            ..v1::CutOffPort::default()
        };
        let found = v1::Consequence {
            cut_off: vec![port("host-1 mlx5_0"), port("host-1 mlx5_1")],
            drain_refused: "2 nodes would be cut off".to_owned(),
            credit_loop_free: true,
            ..v1::Consequence::default()
        };
        let text = text(&found, "leaf-1");
        let order =
            ["Breaks", "To do", "Cut off", "Goes", "Then"].map(|row| text.find(row).unwrap());
        assert!(order.is_sorted(), "{text}");
        assert!(
            text.starts_with("Breaks   unplugged, 2 adapters of 1 host would be cut off"),
            "{text}"
        );
        assert!(text.contains("a drain would be REFUSED: 2 nodes"), "{text}");
        assert!(text.contains("`rsmctl drain leaf-1 --force`"), "{text}");
        let verdict = |unplug: v1::Unplug| {
            may_be_unplugged(&v1::Consequence {
                unplug: unplug.into(),
                ..found.clone()
            })
        };
        let refused = "NO: 2 adapters would be cut off".to_owned();
        assert_eq!(verdict(v1::Unplug::DrainFirst), Some(refused));
        let safe = "yes: no path of another node crosses it".to_owned();
        assert_eq!(verdict(v1::Unplug::Safe), Some(safe));
        assert_eq!(verdict(v1::Unplug::Unspecified), None);
    }

    #[test]
    fn rows_say_that_a_drain_was_ended_and_name_everything_if_asked() {
        let port = |number: usize| v1::CutOffPort {
            description: format!("host-{number}"),
            port: Some(v1::PortKey {
                number: 1,
                ..v1::PortKey::default()
            }),
        };
        let found = v1::Consequence {
            cut_off: (0..12).map(port).collect(),
            ..v1::Consequence::default()
        };
        let text = |most, undone| {
            let rows = rows(&found, &["leaf-1".to_owned()], most, undone);
            rows.laid_out(usize::MAX).lines.join("\n")
        };
        let some = text(MAX_NAMES, None);
        assert!(some.contains("host-7"), "{some}");
        assert!(some.contains(" and 4 more (--all)"), "{some}");
        assert!(!some.contains("host-8"), "{some}");
        let all = text(usize::MAX, Some("no longer drained: leaf-1".to_owned()));
        assert!(all.contains("host-11") && !all.contains("more"), "{all}");
        assert!(all.contains("Drain ended"), "{all}");
    }

    #[test]
    fn rows_name_the_drain_of_the_same_parts_and_say_if_nothing_breaks() {
        let found = v1::Consequence {
            broken_pairs: 9,
            credit_loop_free: true,
            ..v1::Consequence::default()
        };
        let found_text = text(&found, "unlink=host-017 mlx5_3:1");
        assert!(
            found_text.contains("9 pairs would lose packets until"),
            "{found_text}"
        );
        assert!(
            found_text.contains("`rsmctl drain 'host-017 mlx5_3:1'`"),
            "{found_text}"
        );
        let nothing = v1::Consequence {
            credit_loop_free: true,
            ..v1::Consequence::default()
        };
        assert!(text(&nothing, "x").starts_with("Breaks  nothing"));
    }
}
