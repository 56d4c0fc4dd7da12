//! The fabric as the page draws it: switches with their places, links between two switches as one,
//! hosts counted per switch.

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

/// A fabric to be drawn. Columns of one table have one length; indices are those of `guid`.
#[derive(Debug, Default, Serialize, PartialEq)]
pub struct Graph {
    /// The generation of the snapshot.
    pub generation: u64,
    /// Tiers of switches.
    pub tiers: u32,
    /// Width of the drawing, in cells.
    pub width: f64,
    /// Height of the drawing, in cells.
    pub height: f64,
    /// The switches, those that are gone where they were.
    pub switches: Switches,
    /// Rectangles of switches of one tier and pod: tier, pod or -1, switches, left and upper edge,
    /// width, height, pitch, and the distance of two lines.
    pub groups: Vec<[f64; 9]>,
    /// Links between switches, five numbers each: index of one end, of the other, how many links
    /// join the two, how many of them are not as they should be, and their worst [`LinkKind`].
    pub links: Vec<u32>,
    /// Ends of expected cables that are not there, between two switches that are: index of the
    /// switch, port.
    pub missing: Vec<(u32, u32)>,
    /// Links by state: active, and not.
    pub links_active: u64,
    /// See `links_active`.
    pub links_not_active: u64,
    /// Ports of links between switches, each with the place in `links` of the links that it is an end
    /// of.
    #[serde(skip)]
    pub(crate) places: Vec<(PortId, u32)>,
}

/// The switches of a [`Graph`], by tier and from the left.
#[derive(Debug, Default, Serialize, PartialEq)]
pub struct Switches {
    /// GUIDs, `0x` and 16 hexadecimal digits.
    pub guid: Vec<String>,
    /// NodeDescriptions.
    pub name: Vec<String>,
    /// LIDs; 0 for none.
    pub lid: Vec<u32>,
    /// Index of the group.
    pub group: Vec<u32>,
    /// Centre, in cells, two decimals.
    pub x: Vec<f64>,
    /// See `x`.
    pub y: Vec<f64>,
    /// Links to hosts.
    pub hosts: Vec<u32>,
    /// Links to hosts that are not as they should be.
    pub hosts_bad: Vec<u32>,
    /// The sum of 1 where the switch does not answer, 2 where it is drained, 4 where it is unhealthy
    /// and routes avoid it, 8 where it is gone.
    pub flags: Vec<u8>,
}

/// The kind of a link, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkKind {
    /// Active, and not slow.
    Good = 0,
    /// It, or a switch at an end of it, is drained; active or not.
    Drained = 1,
    /// It carries less than it should, as the finding `link-slow` has it.
    Slow = 2,
    /// It came and went, or it is unhealthy; routes avoid it.
    Avoided = 3,
    /// Not active.
    Inactive = 4,
    /// It was there, and it or a switch at an end of it is gone.
    Gone = 5,
}

/// Why there is no graph.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum GraphError {
    #[error("the fabric cannot be drawn: {0}")]
    Failed(String),
}

/// A graph as JSON.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) generation: u64,
    made: Instant,
    pub(crate) tag: String,
    pub(crate) json: Bytes,
    pub(crate) links_active: u64,
    pub(crate) links_not_active: u64,
    /// As in [`Graph`].
    places: Vec<(PortId, u32)>,
    /// The same by port, once load is asked for.
    place_of: OnceLock<HashMap<PortId, u32>>,
    /// How many links there are in [`Graph::links`].
    pub(crate) bundles: usize,
}

impl Drawn {
    /// The place in [`Graph::links`] of the links that each port is an end of.
    pub(crate) fn place_of(&self) -> &HashMap<PortId, u32> {
        let made = || self.places.iter().copied().collect();
        self.place_of.get_or_init(made)
    }
}

/// The last graph, drawn anew when the subnet has changed; by one request at a time.
pub(crate) struct GraphCache {
    subnet: Arc<dyn Subnet>,
    last: Mutex<Option<Arc<Drawn>>>,
}

impl GraphCache {
    pub(crate) fn new(subnet: Arc<dyn Subnet>) -> GraphCache {
        GraphCache {
            subnet,
            last: Mutex::default(),
        }
    }

    /// Whether nothing is being drawn.
    pub(crate) fn is_idle(&self) -> bool {
        self.last.try_lock().is_ok()
    }

    /// The graph of the present snapshot, or one made at most [`GRAPH_AGE`] ago.
    pub(crate) async fn current(&self) -> Result<Arc<Drawn>, GraphError> {
        let mut last = self.last.lock().await;
        if let Some(drawn) = &*last {
            let current = drawn.generation == self.subnet.status().generation;
            if current || drawn.made.elapsed() < GRAPH_AGE {
                return Ok(Arc::clone(drawn));
            }
        }
        let subnet = Arc::clone(&self.subnet);
        let drawn = tokio::task::spawn_blocking(move || draw(subnet.as_ref()))
            .await
            .map_err(|error| GraphError::Failed(error.to_string()))??;
        let drawn = Arc::new(drawn);
        *last = Some(Arc::clone(&drawn));
        Ok(drawn)
    }
}

fn draw(subnet: &dyn Subnet) -> Result<Drawn, GraphError> {
    let graph = Graph::read(subnet);
    let json = serde_json::to_vec(&graph).map_err(|error| GraphError::Failed(error.to_string()))?;
    Ok(Drawn {
        generation: graph.generation,
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
