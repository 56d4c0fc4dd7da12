use clap::Args;
use rsm_proto::v1;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{PAGE_SIZE, Session};
use crate::table::Rows;
use crate::text::{port_of, printable};

/// The linear forwarding table of a switch
#[derive(Debug, Args)]
#[command(after_help = "Example: rsmctl lft leaf-03")]
pub(crate) struct LftArguments {
    /// The switch
    #[arg(add = of_nodes())]
    switch: String,
}

pub(crate) async fn run(arguments: LftArguments, session: &mut Session) -> Result<(), Failure> {
    let mut table = fetch(session, &arguments.switch).await?;
    if session.output.is_json() {
        session.output.shorten(&mut table.entries);
        return session.output.json(&table);
    }
    let heading = format!(
        "{} {}, LID {}, top {}",
        table.switch_guid,
        printable(&table.description),
        table.lid,
        table.top
    );
    session.output.line(&heading)?;
    let mut rows = Rows::new(&[">LID", ">PORT", "DESTINATION"]);
    for entry in table.entries {
        rows.add([
            entry.lid.to_string(),
            entry.port.to_string(),
            port_of(&entry.destination_description, entry.destination.as_ref()),
        ]);
    }
    session.output.table(rows)
}

/// Fetches all pages of the table.
async fn fetch(session: &Session, switch: &str) -> Result<v1::ForwardingTable, Failure> {
    let mut whole: Option<v1::ForwardingTable> = None;
    let mut page_token = String::new();
    loop {
        let request = v1::GetForwardingTableRequest {
            page_size: PAGE_SIZE,
            page_token,
            switch: switch.to_owned(),
        };
        let page = session
            .fabric()
            .get_forwarding_table(request)
            .await?
            .into_inner();
        let table = page.table.unwrap_or_default();
        match &mut whole {
            Some(whole) => whole.entries.extend(table.entries),
            None => whole = Some(table),
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(whole.unwrap_or_default());
        }
    }
}
