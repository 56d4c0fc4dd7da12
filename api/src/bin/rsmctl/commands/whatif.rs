use clap::Args;
use rsm_proto::v1;
use rsm_proto::v1::foresee_loss_request::Loss;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::Session;
use crate::table::Rows;
use crate::text::{count, port_of};

/// The maximum number of names of a list in the text output; `--format json` has all.
const SHOWN: usize = 8;

/// The consequence of losing a cable or a node; sends nothing to the fabric
#[derive(Debug, Args)]
#[command(
    after_help = "`Drain` says whether `rsmctl drain` of the same parts would be refused.\n\nExamples:\n  rsmctl whatif leaf-03\n  rsmctl whatif leaf-03:33 spine-02\n  rsmctl whatif remove=spine-02 unlink=leaf-03:33"
)]
pub(crate) struct WhatifArguments {
    /// The nodes and cables that go at the same time; unlink= and remove= before a name say which
    /// of the two is meant
    #[arg(add = of_nodes(), value_name = "NODE|NODE:PORT", required = true)]
    losses: Vec<String>,
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
    let request = request(arguments.losses);
    let answer = session.routing().foresee_loss(request).await?;
    let found = answer.into_inner().consequence.unwrap_or_default();
    if session.output.is_json() {
        return session.output.json(&found);
    }
    session.output.table(rows(&found))
}

fn list(names: Vec<String>) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let mut text = names[..names.len() - more].join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}

fn rows(found: &v1::Consequence) -> Rows {
    let mut rows = Rows::plain(2);
    let mut row = |name: &str, value: String| rows.add([name.to_owned(), value]);
    let cables = found.cables.iter().map(|cable| {
        let near = port_of(&cable.description, cable.port.as_ref());
        let far = port_of(&cable.peer_description, cable.peer.as_ref());
        format!("{near} - {far}")
    });
    row("Cables", list(cables.collect()));
    let ports = found.cut_off.iter();
    let names: Vec<String> = ports
        .map(|port| port_of(&port.description, port.port.as_ref()))
        .collect();
    row(
        "Cut off",
        if names.is_empty() {
            "none".to_owned()
        } else {
            format!(
                "{}: {}",
                count(names.len() as u64, "port", "ports"),
                list(names)
            )
        },
    );
    row(
        "Drain",
        match found.drain_refused.as_str() {
            "" => "possible: routes would go around, then it may be unplugged".to_owned(),
            reason => format!("would be REFUSED: {reason}"),
        },
    );
    row("Until then", format!("{} pairs lost", found.broken_pairs));
    if !found.refused.is_empty() {
        row("REFUSED", found.refused.clone());
        return rows;
    }
    row(
        "Repair",
        format!(
            "{} in {}: {} and {} before them, {}",
            count(found.entries, "entry", "entries"),
            count(found.switches, "switch", "switches"),
            count(found.blocks, "block", "blocks"),
            found.blocks_before,
            count(found.smps, "SMP", "SMPs")
        ),
    );
    row(
        "Then",
        format!(
            "{} pairs lost, {}, {} paths on the fullest link (now {})",
            found.unreachable_pairs,
            if found.credit_loop_free {
                "no credit loop"
            } else {
                "CREDIT LOOPS"
            },
            found.max_paths_then,
            found.max_paths_now
        ),
    );
    row("Engine", format!("{} ({})", found.engine, found.reason));
    rows
}
