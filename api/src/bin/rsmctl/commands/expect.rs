use clap::Args;
use rsm_proto::v1;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{NONE, label, or_none, timestamp};

/// Lists nodes and cables that the subnet manager misses, or accepts that they are gone for good
#[derive(Debug, Args)]
#[command(
    after_help = "Examples: rsmctl expect; rsmctl expect --accept leaf-03:7; rsmctl expect --accept-all"
)]
pub(crate) struct ExpectArguments {
    /// Accept that this node, or the cable at this port, is gone for good
    #[arg(add = of_nodes(), long, value_name = "NODE|NODE:PORT", conflicts_with = "accept_all")]
    accept: Option<String>,
    /// Accept that all missing nodes and cables are gone for good
    #[arg(long)]
    accept_all: bool,
}

impl ExpectArguments {
    /// Whether the command changes something.
    pub(super) fn acts(&self) -> bool {
        self.accept_all || self.accept.is_some()
    }
}

pub(crate) async fn run(arguments: ExpectArguments, session: &mut Session) -> Result<(), Failure> {
    if arguments.acts() {
        let request = v1::AcceptMissingRequest {
            name: arguments.accept.unwrap_or_default(),
            all: arguments.accept_all,
        };
        let answer = session.convergence().accept_missing(request).await?;
        let answer = answer.into_inner();
        if session.output.is_json() {
            return session.output.json(&answer);
        }
        let mut rows = Rows::new(&[">ACCEPTED"]);
        rows.add([answer.accepted.to_string()]);
        return session.output.table(rows);
    }
    let missing = all_pages(v1::ListMissingRequest::default(), async |request| {
        session.fabric().list_missing(request).await
    })
    .await?;
    session.output.list(
        missing,
        [
            "MISSING SINCE",
            "KIND",
            "NAME",
            "+AT",
            "WAS AT",
            "+SEEN NOW",
            "+STATE",
            "+>CABLES",
            "+>HOSTS",
            "+>MOVED",
            "LEFT",
        ],
        |missing| {
            let at = match missing.port {
                Some(port) => format!("{}:{port}", missing.node_guid),
                None => missing.node_guid,
            };
            let optional =
                |number: Option<u64>| number.map_or_else(|| NONE.to_owned(), |n| n.to_string());
            [
                missing
                    .lost_unix_ms
                    .map_or_else(|| NONE.to_owned(), timestamp),
                label::<v1::MissingKind>(missing.kind),
                missing.name,
                at,
                missing.place,
                or_none(&missing.seen),
                label::<v1::PortState>(missing.last_state),
                missing.cables.to_string(),
                missing.hosts_behind.to_string(),
                optional(missing.moved_routes),
                or_none(&missing.left),
            ]
        },
    )
}
