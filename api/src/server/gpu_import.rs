//! Imports inventories, one or many at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_gdr::import::import;
use rsm_proto::v1;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use tonic::{Request, Response, Status, Streaming};

use super::gpu::{Answer, GpuHints, invalid, inventory_format};
use crate::access::{Caller, Need};
use crate::gpu::{GpuImport, GpuSubject, Gpus, listed};
use crate::limits::{BULK_IMPORT_PAUSE, MAX_BULK_IMPORT_BYTES, MAX_STATUS_NAMES};
use crate::refusal::{Reason, panicked, refusal};

/// Reads an inventory from a file; errors name the host.
fn read(host: String, number: i32, content: &[u8]) -> Result<GpuImport, Status> {
    let format = inventory_format(number)?;
    let inventory = import(format, content).map_err(|error| {
        let host = host.escape_debug();
        invalid(format!("the inventory of `{host}`: {error}"))
    })?;
    Ok(GpuImport {
        host,
        inventory,
        digest: Sha256::digest(content).into(),
    })
}

/// The names that a request removes, each once.
pub(super) fn to_forget(request: &v1::ForgetGpuHostRequest) -> Vec<String> {
    let mut names: BTreeSet<String> = request.hosts.iter().cloned().collect();
    if !request.host.is_empty() || names.is_empty() {
        names.insert(request.host.clone());
    }
    names.into_iter().collect()
}

/// Removes the inventories of these hosts or machine types, all or none.
pub(super) fn forget(
    gpus: &dyn Gpus,
    names: &[String],
    is_machine_type: bool,
) -> Result<v1::ForgetGpuHostResponse, Status> {
    let most = rsm_gdr::hosts::MAX_HOSTS;
    if names.len() > most {
        let text = format!("hosts: {} names, expected at most {most}", names.len());
        return Err(invalid(text));
    }
    let subject = |name| match is_machine_type {
        true => GpuSubject::MachineType(name),
        false => GpuSubject::Host(name),
    };
    let subjects: Vec<GpuSubject<'_>> = names.iter().map(|name| subject(name)).collect();
    let unknown = gpus.forget(&subjects);
    if unknown.is_empty() {
        return Ok(v1::ForgetGpuHostResponse {});
    }
    let (one, many) = match is_machine_type {
        true => ("machine type", "machine types"),
        false => ("host", "hosts"),
    };
    let text = match &unknown[..] {
        [only] => format!("no inventory of {one} `{}`", only.escape_debug()),
        _ => {
            let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
            format!(
                "no inventory of the {many} {}",
                listed(&unknown).escape_debug()
            )
        }
    };
    Err(refusal(
        Reason::NoSuchGpuHost,
        match names.len() {
            1 => text,
            _ => format!("nothing is forgotten: {text}"),
        },
    ))
}

/// Whether the caller may change more than the inventories of hosts.
fn may_operate(caller: Option<&Arc<Caller>>) -> bool {
    caller.is_none_or(|caller| caller.grant.satisfies(Need::Operate))
}

impl GpuHints {
    pub(super) async fn import_one(
        &self,
        request: Request<v1::ImportGpuHostRequest>,
    ) -> Answer<v1::ImportGpuHostResponse> {
        let asked = request.get_ref();
        let host = asked.host.clone();
        let is_refused = asked.machine_type && !may_operate(request.extensions().get());
        let act = (self.acts).begin(request.extensions(), "import-gpu-inventory", host);
        if is_refused {
            return act.end(Err(refusal(
                Reason::RoleLacking,
                "a machine type is for many hosts: importing one needs the role operate or admin",
            )));
        }
        let request = request.into_inner();
        let done = self
            .with_inventories(move |gpus| {
                let read = read(request.host, request.format, &request.content)?;
                let response = v1::ImportGpuHostResponse {
                    gpus: read.inventory.gpus.len() as u32,
                    ports: read.inventory.hca_ports.len() as u32,
                    unknown_members: read.inventory.unknown_members.clone(),
                };
                match request.machine_type {
                    true => gpus.import_machine_type(&read.host, read.inventory),
                    false => gpus.import_hosts(vec![read]).map(drop),
                }?;
                Ok(response)
            })
            .await;
        act.end(done)
    }

    pub(super) async fn import_many(
        &self,
        request: Request<Streaming<v1::ImportGpuHostsRequest>>,
    ) -> Answer<v1::ImportGpuHostsResponse> {
        let act = (self.acts).begin(
            request.extensions(),
            "import-gpu-inventories",
            String::new(),
        );
        act.end(self.import_stream(request.into_inner()).await)
    }

    async fn import_stream(
        &self,
        mut files: Streaming<v1::ImportGpuHostsRequest>,
    ) -> Answer<v1::ImportGpuHostsResponse> {
        let gpus = self.gpus()?;
        let (mut hosts, mut names, mut bytes) = (Vec::new(), BTreeSet::new(), 0usize);
        loop {
            let next = timeout(BULK_IMPORT_PAUSE, files.message()).await;
            let next = next.map_err(|_| {
                let pause = BULK_IMPORT_PAUSE.as_secs();
                refusal(
                    Reason::ImportStalled,
                    format!("no file came for {pause} s: nothing is imported"),
                )
            })?;
            let Some(file) = next? else { break };
            bytes = bytes.saturating_add(file.content.len());
            if bytes > MAX_BULK_IMPORT_BYTES || hosts.len() >= rsm_gdr::hosts::MAX_HOSTS {
                let hosts = rsm_gdr::hosts::MAX_HOSTS;
                return Err(refusal(
                    Reason::ImportTooLarge,
                    format!(
                        "more than {hosts} hosts or {MAX_BULK_IMPORT_BYTES} bytes: import them in parts"
                    ),
                ));
            }
            let read =
                tokio::task::spawn_blocking(move || read(file.host, file.format, &file.content));
            let read = read.await.map_err(|error| panicked(&error))??;
            if !names.insert(read.host.clone()) {
                let host = read.host.escape_debug();
                let text = format!("host `{host}` is there twice, expected once");
                return Err(invalid(text));
            }
            hosts.push(read);
        }
        let count = hosts.len() as u32;
        let members = hosts
            .iter()
            .flat_map(|host| &host.inventory.unknown_members);
        let unknown: BTreeSet<String> = members.cloned().collect();
        let changed = tokio::task::spawn_blocking(move || gpus.import_hosts(hosts)).await;
        let changed = changed.map_err(|error| panicked(&error))?;
        Ok(Response::new(v1::ImportGpuHostsResponse {
            hosts: count,
            changed: changed? as u32,
            unknown_members: unknown.into_iter().take(MAX_STATUS_NAMES).collect(),
        }))
    }
}
