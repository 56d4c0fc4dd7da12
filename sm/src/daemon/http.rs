//! The HTTP listener beside the core.

use anyhow::Context as _;
use rsm_api::Backend;
use rsm_web::HttpServer;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::HttpConfig;

/// A running listener.
pub(super) struct ServingHttp {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Serves `backend` over HTTP, if so configured.
pub(super) async fn serve(
    config: &HttpConfig,
    backend: &Backend,
) -> anyhow::Result<Option<ServingHttp>> {
    let Some(address) = config.listen else {
        return Ok(None);
    };
    let server = HttpServer::bind(address, names())
        .await
        .context("cannot serve the web page")?;
    tracing::info!(
        "serving the web page and metrics at http://{}",
        server.address()
    );
    let (stop, stopped) = oneshot::channel::<()>();
    let backend = backend.clone();
    let task = tokio::spawn(server.run(backend, async move {
        // Dropping the sender stops as well.
        let _ = stopped.await;
    }));
    Ok(Some(ServingHttp { stop, task }))
}

/// The name of this machine; none where the system does not tell, and then clients use its address.
fn names() -> Vec<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = name.map(|name| name.trim().to_owned());
    name.into_iter().filter(|name| !name.is_empty()).collect()
}

impl ServingHttp {
    /// Stops the listener, after the requests under way.
    pub(super) async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the listener of the web page panicked");
        }
    }
}
