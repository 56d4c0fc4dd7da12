use clap::Args;
use rsm_proto::v1;

use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::port_or_gone;

/// Alias GUIDs of ports
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rsmctl aliases\n  rsmctl aliases --port gpu-0001:1")]
pub(crate) struct AliasesArguments {
    /// Only alias GUIDs of this port
    #[arg(long)]
    port: Option<String>,
}

pub(crate) async fn run(arguments: AliasesArguments, session: &mut Session) -> Result<(), Failure> {
    let aliases = all_pages(
        v1::ListAliasGuidsRequest {
            port: arguments.port.clone().unwrap_or_default(),
            ..Default::default()
        },
        async |request| session.sa().list_alias_guids(request).await,
    )
    .await?;
    session
        .output
        .list(aliases, ["PORT", ">INDEX", "ALIAS", "GID"], |alias| {
            let port = port_or_gone(&alias.description, alias.port.as_ref(), &alias.port_guid);
            [port, alias.index.to_string(), alias.alias_guid, alias.gid]
        })
}
