//! The fabric as the page draws it: switches with their positions, all links between two switches
//! as one, and the number of hosts of each switch.

mod load;
mod read;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use rsm_api::Subnet;
use rsm_api::model::PortId;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

pub(crate) use self::load::Load;
use crate::limits::GRAPH_AGE;
use crate::reply;

/// A fabric to be drawn. All columns of a table have one length; indices of switches refer to
/// `guid`.
#[derive(Debug, Default, Serialize, PartialEq)]
pub struct Graph {
    /// The generation of the snapshot.
    pub generation: u64,
    /// The name of the list of switches and links: two graphs of one server with the same shape
    /// have the same switches and links in the same order, whatever their states.
    pub shape: String,
    /// The number of tiers of switches.
    pub tiers: u32,
    /// The width of the drawing, in cells.
    pub width: f64,
    /// The height of the drawing, in cells.
    pub height: f64,
    /// The switches, including switches that have gone, at their former positions.
    pub switches: Switches,
    /// The rectangles of the switches of one tier and pod: tier, pod or -1, number of switches,
    /// left and upper edge, width, height, pitch, and the distance of two lines.
    pub groups: Vec<[f64; 9]>,
    /// The links between switches, five numbers each: the indices of both ends, the number of links
    /// between the two switches, the number of links that are not [`LinkKind::Good`], and the worst
    /// [`LinkKind`].
    pub links: Vec<u32>,
    /// The ends of expected cables that are missing between two present switches: the index of the
    /// switch, and the port.
    pub missing: Vec<(u32, u32)>,
    /// The number of Active links.
    pub links_active: u64,
    /// The number of links that are not Active.
    pub links_not_active: u64,
    /// The ports of links between switches, each with the index in `links` of the links to which it
    /// belongs.
    #[serde(skip)]
    pub(crate) places: Vec<(PortId, u32)>,
}

/// The switches of a [`Graph`], by tier and from left to right.
#[derive(Debug, Default, Serialize, PartialEq)]
pub struct Switches {
    /// The GUIDs, as `0x` and 16 hexadecimal digits.
    pub guid: Vec<String>,
    /// The NodeDescription of each switch.
    pub name: Vec<String>,
    /// The LIDs; 0 for none.
    pub lid: Vec<u32>,
    /// The index of each switch's group.
    pub group: Vec<u32>,
    /// The horizontal centre, in cells, with two decimals.
    pub x: Vec<f64>,
    /// The vertical centre, in cells, with two decimals.
    pub y: Vec<f64>,
    /// The number of links to hosts.
    pub hosts: Vec<u32>,
    /// The number of links to hosts that are not [`LinkKind::Good`].
    pub hosts_bad: Vec<u32>,
    /// The sum of 1 if the switch does not answer, 2 if it is drained, 4 if it is unhealthy and
    /// routes avoid it, and 8 if it has gone.
    pub flags: Vec<u8>,
}

/// The kind of a link, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkKind {
    /// The link is Active, and not slow.
    Good = 0,
    /// The link, or a switch at its end, is drained, whether Active or not.
    Drained = 1,
    /// The link carries less than it should, as in the finding `link-slow`.
    Slow = 2,
    /// The link has flapped, or it is unhealthy; routes avoid it.
    Avoided = 3,
    /// The link is not Active.
    Inactive = 4,
    /// The link was present, and it or a switch at its end has gone.
    Gone = 5,
}

/// The reason why there is no graph.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum GraphError {
    #[error("the fabric cannot be drawn: {0}")]
    Failed(String),
}

/// A graph as JSON.
#[derive(Debug)]
pub(crate) struct GraphJson {
    pub(crate) generation: u64,
    /// The shape, as in [`Graph`].
    pub(crate) shape: String,
    made: Instant,
    pub(crate) tag: String,
    pub(crate) json: Bytes,
    pub(crate) links_active: u64,
    pub(crate) links_not_active: u64,
    /// The ports of links, as in [`Graph`].
    places: Vec<(PortId, u32)>,
    /// The index of each port's links, computed when load is first requested.
    place_of: OnceLock<HashMap<PortId, u32>>,
    /// The number of links in [`Graph::links`].
    pub(crate) bundles: usize,
}

impl GraphJson {
    /// For each port, the index in [`Graph::links`] of the links to which it belongs.
    pub(crate) fn place_of(&self) -> &HashMap<PortId, u32> {
        let made = || self.places.iter().copied().collect();
        self.place_of.get_or_init(made)
    }
}

/// The last graph, which is drawn again when the subnet has changed, by one request at a time.
pub(crate) struct GraphCache {
    subnet: Arc<dyn Subnet>,
    last: Arc<Mutex<Option<Arc<GraphJson>>>>,
}

impl GraphCache {
    pub(crate) fn new(subnet: Arc<dyn Subnet>) -> GraphCache {
        GraphCache {
            subnet,
            last: Arc::default(),
        }
    }

    /// Whether no graph is being drawn.
    pub(crate) fn is_idle(&self) -> bool {
        self.last.try_lock().is_ok()
    }

    /// The graph of the snapshot in force, or a graph made at most [`GRAPH_AGE`] ago.
    pub(crate) async fn current(&self) -> Result<Arc<GraphJson>, GraphError> {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if let Some(drawn) = &*last {
            let current = drawn.generation == self.subnet.status().generation;
            if current || drawn.made.elapsed() < GRAPH_AGE {
                return Ok(Arc::clone(drawn));
            }
        }
        let subnet = Arc::clone(&self.subnet);
        // The lock belongs to the work, which continues if the client leaves.
        let drawing = tokio::task::spawn_blocking(move || {
            let drawn = Arc::new(draw(subnet.as_ref())?);
            *last = Some(Arc::clone(&drawn));
            Ok(drawn)
        });
        let drawn = drawing.await;
        drawn.map_err(|error| GraphError::Failed(error.to_string()))?
    }
}

fn draw(subnet: &dyn Subnet) -> Result<GraphJson, GraphError> {
    let graph = Graph::read(subnet);
    let json = serde_json::to_vec(&graph).map_err(|error| GraphError::Failed(error.to_string()))?;
    Ok(GraphJson {
        generation: graph.generation,
        shape: graph.shape,
        made: Instant::now(),
        tag: reply::etag(&json),
        json: Bytes::from(json),
        links_active: graph.links_active,
        links_not_active: graph.links_not_active,
        bundles: graph.links.len() / 5,
        places: graph.places,
        place_of: OnceLock::new(),
    })
}
