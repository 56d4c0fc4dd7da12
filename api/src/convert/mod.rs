//! From the model to messages: one file per resource.
//!
//! Conversion goes from the model to messages only; `server` parses requests.

pub(crate) mod gpu;
