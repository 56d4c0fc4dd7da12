//! The body of a request to a webhook.

use rsm_proto::v1;
use serde::Serialize;

use crate::described::{rate, sentence};
use crate::source::{Record, Source, timestamp};

/// Version of the body's format. A later version may add fields, but change or remove none.
const VERSION: u32 = 1;

/// The JSON object of a request.
#[derive(Serialize)]
struct Body<'a> {
    version: u32,
    manager: Manager<'a>,
    events: Vec<Item<'a>>,
}

/// The manager that sends the events.
#[derive(Serialize)]
struct Manager<'a> {
    host: &'a str,
    fabric: &'a str,
    version: &'a str,
}

/// One event.
#[derive(Serialize)]
struct Item<'a> {
    id: String,
    time: String,
    kind: &'static str,
    change: &'static str,
    severity: &'static str,
    text: String,
    event: &'a v1::Event,
}

/// Formats events as one JSON object. An event whose change this version does not know is left out.
pub fn body(source: &Source, records: &[Record]) -> Vec<u8> {
    let items = records.iter().filter_map(|record| {
        let change = record.event.change.as_ref()?;
        let rating = rate(change);
        Some(Item {
            id: record.id(),
            time: timestamp(record.event.at_unix_ms),
            kind: rating.kind,
            change: rating.name,
            severity: rating.shown.name(),
            text: sentence(change),
            event: &record.event,
        })
    });
    let body = Body {
        version: VERSION,
        manager: Manager {
            host: &source.host,
            fabric: &source.fabric,
            version: &source.version,
        },
        events: items.collect(),
    };
    // Numbers, texts and lists always serialize.
    serde_json::to_vec(&body).unwrap_or_default()
}
