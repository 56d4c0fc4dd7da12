//! `rsmctl services`: the services that ports offer, as a table.

use clap::Args;
use rsm_proto::v1;

use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{NONE, duration, hex, or_none, port_of};

/// Services that ports offer
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rsmctl services\n  rsmctl services --name DAPL --port gpu-0001:1"
)]
pub(crate) struct ServicesArguments {
    /// Only services of this name
    #[arg(long)]
    name: Option<String>,
    /// Only services of this port
    #[arg(long)]
    port: Option<String>,
}

pub(crate) async fn run(
    arguments: ServicesArguments,
    session: &mut Session,
) -> Result<(), Failure> {
    let services = all_pages(
        v1::ListServicesRequest {
            name: arguments.name.clone().unwrap_or_default(),
            port: arguments.port.clone().unwrap_or_default(),
            ..Default::default()
        },
        async |request| session.sa().list_services(request).await,
    )
    .await?;
    session.output.list(
        services,
        ["SERVICE", "NAME", "P_KEY", "LEASE", "PORT", "+GID"],
        |service| {
            let port = port_of(&service.description, service.port.as_ref());
            [
                service.service_id,
                or_none(&service.name),
                if service.p_key == 0 {
                    "any".to_owned()
                } else {
                    hex(service.p_key)
                },
                match service.lease_s {
                    Some(seconds) => duration(u64::from(seconds) * 1000),
                    None => NONE.to_owned(),
                },
                port,
                service.gid,
            ]
        },
    )
}
