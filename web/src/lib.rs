//! The web page of rsm, its data as JSON, and metrics for Prometheus, over HTTP/1.1.
//!
//! All routes of the page only read; [`UfmSettings`] adds a REST interface that changes partitions.
//! JSON routes answer with messages of `rsm.v1`, by the same services as gRPC
//! ([`rsm_api::Reader`]); the page draws the fabric from [`graph`].

mod api;
mod changes;
mod connection;
pub mod graph;
mod guard;
pub mod limits;
mod metrics;
mod netq;
mod page;
mod places;
mod reply;
mod scrape;
mod server;
mod shared;
mod shown;
mod sign_on;
mod ufm;

pub use server::{HttpServer, ServeError};
pub use sign_on::SignOn;
pub use ufm::{SmConf, UfmSettings};
