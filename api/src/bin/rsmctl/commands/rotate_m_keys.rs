use clap::Args;
use rsm_proto::v1;

use super::waiting;
use crate::failure::Failure;
use crate::session::Session;
use crate::table::Rows;

/// Gives every port another M_Key, and waits until the ports that answer hold it
#[derive(Debug, Args)]
#[command(after_help = "Example: rsmctl rotate-m-keys")]
pub(crate) struct RotateMKeysArguments {
    /// Rotate although ports do not hold their key of the rotation before yet
    #[arg(long)]
    force: bool,
}

pub(crate) async fn run(
    arguments: RotateMKeysArguments,
    session: &mut Session,
) -> Result<(), Failure> {
    let request = v1::RotateManagementKeysRequest {
        force: arguments.force,
    };
    let mut client = session.maintenance();
    let answer = waiting::for_answer(session, client.rotate_management_keys(request)).await?;
    let answer = answer.into_inner();
    let keys = answer.key_status.unwrap_or_default();
    if session.output.is_json() {
        session.output.json(&answer)?;
        return check_held_by_all(&keys);
    }
    let mut rows = Rows::new(&[">GENERATION", ">PORTS", ">BEHIND"]);
    rows.add([
        keys.generation.to_string(),
        keys.ports.to_string(),
        keys.ports_behind.to_string(),
    ]);
    session.output.table(rows)?;
    check_held_by_all(&keys)
}

/// A failure while ports hold their former key, so that a script learns of them.
fn check_held_by_all(keys: &v1::ManagementKeys) -> Result<(), Failure> {
    match keys.ports_behind {
        0 => Ok(()),
        _ => Err(Failure::Checked { fails: false }),
    }
}
