//! Attributes of subnet management in the devices' last answers, field by field.

use rsm_api::model::Selector;
use rsm_api::resolve::{resolve_cable_port, resolve_node, resolve_port};
use rsm_api::{LookupError, v1};
use rsm_mad::wire::attr::Attribute;
use rsm_mad::wire::fields::of_attribute;

use super::api_view::core_key;
use super::published::Published;

/// The field that is never shown: its value permits writes to the port.
const SECRET: &str = "M_Key";

/// Fields of the attribute that `selector` names; empty if the device has not answered it.
pub(super) fn fields(
    published: &Published,
    attribute: v1::SmpAttribute,
    selector: &Selector,
) -> Result<Vec<v1::AttributeField>, LookupError> {
    let fabric = published.fabric();
    let fields = match attribute {
        v1::SmpAttribute::PortInfo => {
            let key = match resolve_port(&published.names, selector) {
                // A port without a link has no LID, and PortInfo all the same.
                Err(LookupError::NoLid { .. } | LookupError::WithoutLid { .. }) => {
                    resolve_cable_port(&published.names, selector)?
                }
                found => found?,
            };
            let port = fabric.find_port(core_key(key)).map(|at| fabric.port(at));
            port.and_then(|port| port.info.as_ref()).map(shown)
        }
        v1::SmpAttribute::SwitchInfo => {
            let node = fabric.node_of(resolve_node(&published.names, selector)?);
            node.and_then(|node| node.switch.as_ref()).map(shown)
        }
        v1::SmpAttribute::NodeInfo | v1::SmpAttribute::Unspecified => {
            let node = fabric.node_of(resolve_node(&published.names, selector)?);
            node.map(|node| shown(&node.info))
        }
    };
    Ok(fields.unwrap_or_default())
}

fn shown<A: Attribute>(attribute: &A) -> Vec<v1::AttributeField> {
    let fields = of_attribute(A::ID).unwrap_or_default().iter();
    let fields = fields.map(|field| v1::AttributeField {
        name: field.name.to_owned(),
        value: match field.name {
            SECRET => "not shown".to_owned(),
            _ => field.value(attribute.as_data()).to_string(),
        },
    });
    fields.collect()
}
