use clap::{Args, ValueEnum};
use rsm_proto::v1;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::Session;
use crate::table::Rows;

/// An attribute of a node or port, field by field, as the device last answered it
#[derive(Debug, Args)]
#[command(
    after_help = "The fields have the names of the specification. Nothing is sent: `rsmctl sweep` reads what changed.\nThe M_Key is not shown.\n\nExamples:\n  rsmctl get portinfo leaf-03:7\n  rsmctl get switchinfo leaf-03\n  rsmctl get nodeinfo 'host-001 mlx5_0' --format json"
)]
pub(crate) struct GetArguments {
    /// The attribute
    attribute: Attribute,
    /// The node, or for portinfo the port
    #[arg(add = of_nodes(), value_name = "NODE|NODE:PORT")]
    name: String,
}

/// The attributes, by the names of smpquery's operations.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Attribute {
    /// NodeInfo
    #[value(name = "nodeinfo", alias = "ni")]
    Node,
    /// PortInfo
    #[value(name = "portinfo", alias = "pi")]
    Port,
    /// SwitchInfo
    #[value(name = "switchinfo", alias = "si")]
    Switch,
}

pub(crate) async fn run(arguments: GetArguments, session: &mut Session) -> Result<(), Failure> {
    let attribute = match arguments.attribute {
        Attribute::Node => v1::SmpAttribute::NodeInfo,
        Attribute::Port => v1::SmpAttribute::PortInfo,
        Attribute::Switch => v1::SmpAttribute::SwitchInfo,
    };
    let request = v1::GetAttributeRequest {
        attribute: attribute.into(),
        name: arguments.name.clone(),
    };
    let answer = session.fabric().get_attribute(request).await?.into_inner();
    if session.output.is_json() {
        return session.output.json(&answer);
    }
    if answer.fields.is_empty() {
        return Err(Failure::Refused(format!(
            "{} has not answered this attribute, or does not have it",
            arguments.name
        )));
    }
    let mut rows = Rows::plain(2);
    for field in answer.fields {
        rows.add([field.name, field.value]);
    }
    session.output.table(rows)
}
