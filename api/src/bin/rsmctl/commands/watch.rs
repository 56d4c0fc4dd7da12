use clap::Args;
use rsm_proto::v1;
use rsm_proto::v1::watch_response::Message;

use super::events;
use crate::failure::Failure;
use crate::session::{Session, next_message};
use crate::text::count;

/// Events as they happen, until interrupted
#[derive(Debug, Args)]
#[command(
    after_help = "With --format json, one object a line: an event, or {\"lost\":{\"count\":N}} where rsmctl read too slowly.\n\nExample: rsmctl watch --format json | jq .finding_raised.message"
)]
pub(crate) struct WatchArguments {
    /// First the kept events after this sequence number; 0 for all kept events
    #[arg(long, value_name = "SEQUENCE")]
    after: Option<u64>,
}

pub(crate) async fn run(arguments: WatchArguments, session: &mut Session) -> Result<(), Failure> {
    stream(session, arguments.after).await
}

/// Prints events until the server ends the stream, the reader closes the output or the operator
/// interrupts.
pub(super) async fn stream(
    session: &mut Session,
    after_sequence: Option<u64>,
) -> Result<(), Failure> {
    let request = v1::WatchRequest { after_sequence };
    let mut stream = session.watch().watch(request).await?.into_inner();
    while let Some(response) = next_message(&mut stream).await? {
        match response.message {
            Some(Message::Event(event)) => events::print(&mut session.output, &event)?,
            Some(Message::Lost(lost)) => print_lost(session, lost)?,
            Some(Message::Started(_)) | None => {}
        }
        session.output.flush()?;
    }
    Ok(())
}

fn print_lost(session: &mut Session, lost: v1::EventsLost) -> Result<(), Failure> {
    if session.output.is_json() {
        return session.output.json_line(&v1::WatchResponse {
            message: Some(Message::Lost(lost)),
        });
    }
    let line = format!("-- {} lost here --", count(lost.count, "event", "events"));
    session.output.line(&line)
}
