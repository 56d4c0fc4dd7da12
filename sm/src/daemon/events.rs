//! Watches events of the local adapter that umad does not deliver (feature `verbs`).

use rsm_mad::transport::{LocalPort, Sink};

use super::FabricSpec;

/// Delivers the events of the local port to `sink` while the returned value lives. Returns `None`
/// without the feature, on a simulated fabric, and if the events cannot be watched.
#[cfg(feature = "verbs")]
pub(super) fn watch(
    fabric: &FabricSpec,
    port: &LocalPort,
    sink: Sink,
) -> Option<impl Sized + use<>> {
    use rsm_mad::transport::verbs;
    if matches!(fabric, FabricSpec::Sim(_)) {
        return None;
    }
    match verbs::watch(&port.ca, port.port, sink) {
        Ok(watch) => Some(watch),
        Err(error) => {
            // umad reads the port's state once a second, so a missed event is soon noticed.
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the adapter's events cannot be watched: a change of the port is noticed up to a second later"
            );
            None
        }
    }
}

/// Delivers nothing: the feature `verbs` is off.
#[cfg(not(feature = "verbs"))]
pub(super) fn watch(_: &FabricSpec, _: &LocalPort, _: Sink) -> Option<()> {
    None
}
