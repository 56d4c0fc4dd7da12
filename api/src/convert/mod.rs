//! From the model to messages: one file per resource.
//!
//! Conversion goes from the model to messages only; `server` parses requests.

mod convergence;
mod event;
mod finding;
mod forwarding_table;
pub(crate) mod gpu;
mod multicast;
mod route;
mod sa;
mod service;
mod status;
mod subscription;

/// Units of 100 Mb/s as Gb/s.
fn gbps(tenths: u16) -> f64 {
    f64::from(tenths) / 10.0
}

/// Messages of a list of models.
pub(crate) fn messages<M, T: From<M>>(models: Vec<M>) -> Vec<T> {
    models.into_iter().map(T::from).collect()
}
