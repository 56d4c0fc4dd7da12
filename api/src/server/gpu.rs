//! The service of GPU hosts: inventories, hints, job plans and files, matched with the fabric.

use std::sync::Arc;

use rsm_gdr::import::InventoryFormat;
use rsm_gdr::job::Pattern;
use rsm_gdr::render;
use rsm_gdr::{Analysis, JoinError};
use rsm_proto::v1;
use rsm_proto::v1::gpu_service_server::GpuService;
use tokio::sync::{Semaphore, watch};
use tonic::{Request, Response, Status, Streaming};

use super::acts::ActionRecorder;
use super::gpu_export::{self, FileStream};
use super::gpu_import;
use super::gpu_messages;
use super::gpu_watch::{self, GpuStream};
use super::paging::Cursor;
use crate::blocking;
use crate::gpu::{Gpus, InventoryDigest, listed};
use crate::limits::{MAX_FILE_READERS, MAX_WATCHERS};
use crate::refusal::{Reason, of_pair, panicked, refusal};
use crate::traits::Subnet;

/// Serves inventories of GPU hosts, matched with the fabric.
#[derive(Clone)]
pub(super) struct GpuHints {
    pub(super) gpus: Option<Arc<dyn Gpus>>,
    pub(super) subnet: Arc<dyn Subnet>,
    /// One permit for each client that watches; at most [`MAX_WATCHERS`].
    pub(super) watchers: Arc<Semaphore>,
    /// One permit for each answer from the analysis in progress.
    pub(super) analyses: Arc<Semaphore>,
    /// One permit for each client that reads a file in pieces; at most [`MAX_FILE_READERS`].
    pub(super) readers: Arc<Semaphore>,
    /// Becomes true when the server stops.
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) acts: ActionRecorder,
}

/// The result of a call: a response, or the status of its refusal.
pub(super) type Answer<T> = Result<Response<T>, Status>;

impl GpuHints {
    /// The inventories of GPU hosts; refuses the call if this server manages no subnet.
    pub(super) fn gpus(&self) -> Result<Arc<dyn Gpus>, Status> {
        self.gpus.clone().ok_or_else(|| {
            refusal(
                Reason::NoSubnet,
                "this server manages no subnet, so it keeps no inventories of GPU hosts",
            )
        })
    }

    /// Runs `work` on a thread for blocking work as soon as `analyses` has a free permit. `work`
    /// answers from the analysis, and may wait until the analysis is up to date.
    async fn with_analysis<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Gpus) -> Result<T, Status> + Send + 'static,
    ) -> Answer<T> {
        let gpus = self.gpus()?;
        let result = blocking::at_place(&self.analyses, move || work(&*gpus)).await;
        // If the work panics, the client gets INTERNAL.
        let result = result.map_err(|error| panicked(&error))?;
        result.map(Response::new)
    }

    /// Runs `work` on a thread for blocking work, without a permit. `work` is short, but may wait
    /// for a lock.
    pub(super) async fn with_inventories<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Gpus) -> Result<T, Status> + Send + 'static,
    ) -> Answer<T> {
        let gpus = self.gpus()?;
        let result = tokio::task::spawn_blocking(move || work(&*gpus)).await;
        // If the work panics, the client gets INTERNAL.
        let result = result.map_err(|error| panicked(&error))?;
        result.map(Response::new)
    }

    /// Renders the requested file.
    async fn render_file(
        &self,
        request: v1::ExportGpuFileRequest,
    ) -> Result<v1::ExportGpuFileResponse, Status> {
        let response = self.with_analysis(move |gpus| {
            let analysis = gpus.analysis();
            analysis.joined().map_err(not_ready)?;
            let (content, warnings) = gpu_export::export(&analysis, request)?;
            Ok(v1::ExportGpuFileResponse {
                content,
                generation: generation(&analysis),
                warnings,
            })
        });
        response.await.map(Response::into_inner)
    }
}

/// The refusal of a request with an invalid field.
pub(super) fn invalid(error: impl std::fmt::Display) -> Status {
    refusal(Reason::InvalidField, error)
}

/// The refusal of a request that needs the GPU hosts joined with the fabric, which they are not.
pub(super) fn not_ready(error: impl std::fmt::Display) -> Status {
    refusal(Reason::GpuHostsNotJoined, error)
}

/// The analysis; refuses the call if the analysis has no fabric, because ports, rails and paths are
/// then unknown.
fn with_fabric(gpus: &dyn Gpus) -> Result<Arc<Analysis>, Status> {
    let analysis = gpus.analysis();
    match analysis.fabric {
        Some(_) => Ok(analysis),
        None => Err(not_ready(JoinError::NoFabric)),
    }
}

/// The generation of the fabric in the analysis; 0 without a fabric.
fn generation(analysis: &Analysis) -> u64 {
    analysis
        .fabric
        .as_ref()
        .map_or(0, |fabric| fabric.generation)
}

/// The index of a host in the analysis; refuses an unknown host.
pub(super) fn host_index(analysis: &Analysis, host: &str) -> Result<usize, Status> {
    let index = analysis.place(host);
    index.ok_or_else(|| refusal(Reason::NoSuchGpuHost, render::why_unknown(analysis, host)))
}

/// The inventory format with a number of the protocol.
pub(super) fn inventory_format(number: i32) -> Result<InventoryFormat, Status> {
    Ok(match v1::GpuFormat::try_from(number) {
        Ok(v1::GpuFormat::NvidiaSmi) => InventoryFormat::NvidiaSmi,
        Ok(v1::GpuFormat::AmdSmi) => InventoryFormat::AmdSmi,
        Ok(v1::GpuFormat::NcclXml) => InventoryFormat::NcclXml,
        Ok(v1::GpuFormat::Hwloc) => InventoryFormat::Hwloc,
        Ok(v1::GpuFormat::Sysfs) => InventoryFormat::Sysfs,
        Ok(v1::GpuFormat::Json) => InventoryFormat::Json,
        Ok(v1::GpuFormat::Unspecified) | Err(_) => {
            return Err(invalid(
                "format: expected nvidia-smi, amd-smi, nccl-xml, hwloc, sysfs or json",
            ));
        }
    })
}

/// The communication pattern with a number of the protocol; a ring if unspecified.
fn pattern(number: i32) -> Result<Pattern, Status> {
    Ok(match v1::GpuPattern::try_from(number) {
        Ok(v1::GpuPattern::Unspecified | v1::GpuPattern::Ring) => Pattern::Ring,
        Ok(v1::GpuPattern::Tree) => Pattern::Tree,
        Ok(v1::GpuPattern::RecursiveDoubling) => Pattern::RecursiveDoubling,
        Ok(v1::GpuPattern::AllToAll) => Pattern::AllToAll,
        Err(_) => {
            return Err(invalid(
                "pattern: expected ring, tree, recursive-doubling or all-to-all",
            ));
        }
    })
}

/// The GPU index in `field` of a request.
fn gpu_index(field: &str, index: u32) -> Result<u16, Status> {
    u16::try_from(index).map_err(|_| {
        invalid(format!(
            "{field}: {index} is out of range, expected 0 to 65535"
        ))
    })
}

#[tonic::async_trait]
impl GpuService for GpuHints {
    async fn import_gpu_host(
        &self,
        request: Request<v1::ImportGpuHostRequest>,
    ) -> Answer<v1::ImportGpuHostResponse> {
        self.import_one(request).await
    }

    async fn import_gpu_hosts(
        &self,
        request: Request<Streaming<v1::ImportGpuHostsRequest>>,
    ) -> Answer<v1::ImportGpuHostsResponse> {
        self.import_many(request).await
    }

    async fn check_gpu_host(
        &self,
        request: Request<v1::CheckGpuHostRequest>,
    ) -> Answer<v1::CheckGpuHostResponse> {
        let request = request.into_inner();
        let digest = InventoryDigest::try_from(&request.digest[..]).map_err(|_| {
            let length = request.digest.len();
            invalid(format!(
                "digest: {length} bytes, expected the 32 of SHA-256"
            ))
        })?;
        self.with_inventories(move |gpus| {
            let known = gpus.check(&request.host, &digest);
            Ok(v1::CheckGpuHostResponse { known })
        })
        .await
    }

    async fn get_gpu_status(
        &self,
        _: Request<v1::GetGpuStatusRequest>,
    ) -> Answer<v1::GetGpuStatusResponse> {
        self.with_analysis(|gpus| Ok(gpu_messages::current_status(gpus)))
            .await
    }

    async fn forget_gpu_host(
        &self,
        request: Request<v1::ForgetGpuHostRequest>,
    ) -> Answer<v1::ForgetGpuHostResponse> {
        let names = gpu_import::to_forget(request.get_ref());
        let detail = match &names[..] {
            [name] => name.clone(),
            names => listed(&names.iter().map(String::as_str).collect::<Vec<_>>()),
        };
        let act = (self.acts).begin(request.extensions(), "forget-gpu-inventory", detail);
        let is_machine_type = request.get_ref().machine_type;
        let result = self
            .with_inventories(move |gpus| gpu_import::forget(gpus, &names, is_machine_type))
            .await;
        act.end(result)
    }

    async fn list_gpu_hosts(
        &self,
        request: Request<v1::ListGpuHostsRequest>,
    ) -> Answer<v1::ListGpuHostsResponse> {
        let mut request = request.into_inner();
        let cursor: Cursor<String> = Cursor::take(&mut request)?;
        self.with_analysis(move |gpus| {
            let analysis = gpus.analysis();
            let after = cursor.after.as_deref();
            let inventoried = analysis.hosts.iter().map(|host| host.name.as_str());
            let mut names: Vec<&str> = inventoried.chain(analysis.without_inventory()).collect();
            names.sort_unstable();
            let first = names.partition_point(|name| after.is_some_and(|after| *name <= after));
            let is_listed =
                |host: &v1::GpuHost| !request.only_with_findings || !host.findings.is_empty();
            let mut hosts: Vec<v1::GpuHost> = names[first..]
                .iter()
                .map(|name| gpu_messages::named(&analysis, name))
                .filter(is_listed)
                .take(cursor.limit())
                .collect();
            let next_page_token = cursor.cut(&mut hosts, |host| host.name.clone());
            Ok(v1::ListGpuHostsResponse {
                hosts,
                next_page_token,
                generation: generation(&analysis),
                not_joined: analysis
                    .joined()
                    .err()
                    .map_or_else(String::new, |error| error.to_string()),
            })
        })
        .await
    }

    async fn get_gpu_hints(
        &self,
        request: Request<v1::GetGpuHintsRequest>,
    ) -> Answer<v1::GetGpuHintsResponse> {
        let host = request.into_inner().host;
        self.with_analysis(move |gpus| {
            let analysis = with_fabric(gpus)?;
            let index = host_index(&analysis, &host)?;
            Ok(v1::GetGpuHintsResponse {
                hints: gpu_messages::hints(&analysis, index),
                text: render::describe(&analysis, &host).unwrap_or_default(),
                generation: generation(&analysis),
            })
        })
        .await
    }

    async fn get_gpu_pair(
        &self,
        request: Request<v1::GetGpuPairRequest>,
    ) -> Answer<v1::GetGpuPairResponse> {
        let request = request.into_inner();
        let gpu = gpu_index("gpu", request.gpu)?;
        let peer_gpu = gpu_index("peer_gpu", request.peer_gpu)?;
        self.with_analysis(move |gpus| {
            let analysis = with_fabric(gpus)?;
            let pair = analysis.pair((&request.host, gpu), (&request.peer_host, peer_gpu));
            let pair = pair.map_err(|error| of_pair(&error))?;
            let host = host_index(&analysis, &request.host)?;
            let relay = pair
                .relay
                .map(|relay| analysis.hosts[host].inventory.gpus[relay].index);
            Ok(gpu_messages::pair(&pair, relay))
        })
        .await
    }

    async fn plan_gpu_job(
        &self,
        request: Request<v1::PlanGpuJobRequest>,
    ) -> Answer<v1::PlanGpuJobResponse> {
        let request = request.into_inner();
        let pattern = pattern(request.pattern)?;
        self.with_analysis(move |gpus| {
            let analysis = gpus.analysis();
            analysis.joined().map_err(not_ready)?;
            let gpus = request.gpus_per_host as usize;
            let job = analysis.job_request(request.hosts, gpus, pattern);
            let plan = analysis.plan(&job).map_err(invalid)?;
            Ok(gpu_messages::plan(&analysis, &plan))
        })
        .await
    }

    async fn export_gpu_file(
        &self,
        request: Request<v1::ExportGpuFileRequest>,
    ) -> Answer<v1::ExportGpuFileResponse> {
        let file = self.render_file(request.into_inner()).await?;
        gpu_export::whole(file).map(Response::new)
    }

    type ExportGpuFilePiecesStream = FileStream;

    async fn export_gpu_file_pieces(
        &self,
        request: Request<v1::ExportGpuFilePiecesRequest>,
    ) -> Answer<Self::ExportGpuFilePiecesStream> {
        let permit = Arc::clone(&self.readers).try_acquire_owned().map_err(|_| {
            refusal(
                Reason::TooManyClients,
                format!("{MAX_FILE_READERS} clients are reading files already: try again"),
            )
        })?;
        let request = request.into_inner().file.unwrap_or_default();
        let file = self.render_file(request).await?;
        let stream = gpu_export::pieces(file, self.stopping.clone(), permit);
        Ok(Response::new(stream))
    }

    type WatchGpuHostsStream = GpuStream;

    async fn watch_gpu_hosts(
        &self,
        _: Request<v1::WatchGpuHostsRequest>,
    ) -> Answer<Self::WatchGpuHostsStream> {
        let source = gpu_watch::Source {
            gpus: self.gpus()?,
            analyses: Arc::clone(&self.analyses),
            subnet: Arc::clone(&self.subnet),
            stopping: self.stopping.clone(),
        };
        let permit = Arc::clone(&self.watchers)
            .try_acquire_owned()
            .map_err(|_| {
                refusal(
                    Reason::TooManyClients,
                    format!(
                        "{MAX_WATCHERS} clients are watching already: end one, or ask ListGpuHosts"
                    ),
                )
            })?;
        Ok(Response::new(gpu_watch::follow(source, permit)))
    }
}
