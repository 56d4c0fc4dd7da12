//! Whole-system tests of rsm: simulation, peers, crashes, benches.
//!
//! This library drives foreign programs (ibsim, OpenSM, infiniband-diags, ibutils) and reads their
//! output; the tests below `tests/` compare rsm with them.
//!
//! * [`ibsim`] starts the simulator and its clients; [`tap`] records every MAD between them.
//! * [`served`] runs `rsm sim serve`, which simulates a fabric for programs, through the
//!   preloaded library.
//! * [`hosted`] simulates a fabric in this process, for programs and for [`load`].
//! * [`sm`] runs a subnet manager, OpenSM or rsm, once or resident.
//! * [`osmtest`] runs OpenSM's own test program against rsm.
//! * [`parse`] reads the outputs, [`fabrics`] names the fabrics.
//! * [`measure`] turns rounds of a bench into medians and ratios.
//! * [`virtual_time`] runs rsm's core on the simulated fabric, without a clock.
//! * [`answering`] has hosts that query the SA, on the simulated fabric in real time.
//! * [`managed`] runs a real rsm on a simulated fabric, with hosts that query the SA.
//! * [`sa_key`] holds a key for requests that the SA trusts.
//! * [`certificates`] makes certificates with openssl.
//! * [`etcd`] runs a cluster of etcd for the shared store.
//! * [`fuzz`] accepts arbitrary bytes: records, requests, RMPP.
//! * [`load`] runs many hosts that query the SA as fast as it answers.
//! * [`web`] runs rsm with its page, and a browser; [`gpu_matrix`] describes a GPU host for the
//!   page.
//! * [`webhook`] runs a server that receives the events of managers.
//! * [`sharing`] runs managers that share a store; [`slow_link`] delays or cuts their connections
//!   to it.
//! * [`bringup`] contains the assertions that the peer tests of rsm share.
//! * [`stories`] tells stories of slow jobs, and judges what `rsmctl blame` says of them.
//! * [`structure`] reads the sources of the workspace: its module graphs and sizes.
//! * [`peer`] handles missing programs, [`binaries`] finds rsm's own programs.

pub mod answering;
pub mod binaries;
pub mod bringup;
pub mod certificates;
pub mod clock;
mod error;
pub mod etcd;
pub mod fabrics;
pub mod fuzz;
pub mod gpu_matrix;
pub mod hosted;
pub mod ibsim;
pub mod key_relay;
pub mod load;
pub mod managed;
pub mod measure;
pub mod osmtest;
pub mod parse;
pub mod peer;
pub mod process;
pub mod sa_key;
pub mod served;
pub mod sharing;
pub mod slow_link;
pub mod sm;
pub mod stories;
pub mod storm;
pub mod structure;
pub mod tap;
pub mod virtual_time;
pub mod web;
pub mod webhook;

pub use error::Error;
