//! Tests of the MAD layer: wire, client, RMPP, transports.

mod client_answers;
mod client_excuses;
mod client_network;
mod client_properties;
mod client_rough;
mod rmpp;
mod transport_decorators;
mod transport_ibsim;
mod transport_umad;
mod wire;
