//! Exports files for other programs, whole or in pieces.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rsm_gdr::Analysis;
use rsm_gdr::render::{EXPORTERS, ExportOptions, Exporter, NcclVersion};
use rsm_proto::{Label as _, v1};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;

use super::gpu::{host_index, invalid, not_ready};
use crate::limits::{FILE_PIECE_BYTES, FILE_PIECE_PAUSE, MAX_WHOLE_FILE_BYTES};
use crate::refusal::{Reason, refusal};

/// The stream of a file's pieces.
pub(super) type FileStream =
    Pin<Box<dyn Stream<Item = Result<v1::ExportGpuFilePiecesResponse, Status>> + Send>>;

/// The format that a request names.
fn exporter(request: &v1::ExportGpuFileRequest) -> Result<&'static Exporter, Status> {
    let name = match request.name.as_str() {
        "" => v1::GpuFile::label(request.file).unwrap_or_default(),
        name => name,
    };
    Exporter::named(name).ok_or_else(|| {
        let names: Vec<&str> = EXPORTERS.iter().map(|exporter| exporter.name).collect();
        invalid(format!("name: expected one of {}", names.join(", ")))
    })
}

/// The text of the file that a request names, and warnings about what the file lacks.
///
/// # Errors
/// A field has an invalid value, or hosts or fabric lack data that the format needs.
pub(super) fn export(
    analysis: &Analysis,
    request: v1::ExportGpuFileRequest,
) -> Result<(String, Vec<String>), Status> {
    let exporter = exporter(&request)?;
    if exporter.of_host {
        if request.host.is_empty() {
            return Err(invalid("host: expected the name of a host"));
        }
        host_index(analysis, &request.host)?;
    }
    let pinned;
    let analysis = match request.sl {
        None => analysis,
        Some(sl) => {
            pinned = with_level(analysis, sl)?;
            &pinned
        }
    };
    let options = ExportOptions {
        host: request.host,
        nccl: match request.nccl_version.as_str() {
            "" => NcclVersion::RAILS,
            text => text.parse().map_err(invalid)?,
        },
        label_domain: match request.label_prefix.as_str() {
            "" => ExportOptions::LABEL_DOMAIN.to_owned(),
            _ => request.label_prefix,
        },
    };
    let content = exporter.render(analysis, &options).map_err(not_ready)?;
    Ok((content, exporter.left_out(analysis, &options)))
}

/// The analysis with a service level that files pin.
fn with_level(analysis: &Analysis, sl: u32) -> Result<Analysis, Status> {
    let level = u8::try_from(sl).ok().filter(|sl| *sl < 16);
    let level = level.ok_or_else(|| invalid(format!("sl: {sl} is none, expected 0 to 15")))?;
    let mut pinned = analysis.clone();
    pinned.config.sl = Some(level);
    Ok(pinned)
}

/// A file as one answer.
///
/// # Errors
/// The file has more than [`MAX_WHOLE_FILE_BYTES`].
pub(super) fn whole(file: v1::ExportGpuFileResponse) -> Result<v1::ExportGpuFileResponse, Status> {
    match file.content.len() {
        0..=MAX_WHOLE_FILE_BYTES => Ok(file),
        bytes => Err(refusal(
            Reason::FileTooLarge,
            format!(
                "the file has {bytes} bytes, more than one answer takes: ask ExportGpuFilePieces, which sends it in pieces"
            ),
        )),
    }
}

/// A file in pieces, for a reader that holds `permit`; an empty file is one piece. The stream ends
/// with an error if the reader takes no piece for [`FILE_PIECE_PAUSE`], or if the server stops.
pub(super) fn pieces(
    file: v1::ExportGpuFileResponse,
    mut stopping: watch::Receiver<bool>,
    permit: OwnedSemaphorePermit,
) -> FileStream {
    let (sender, stream) = mpsc::channel(1);
    let is_whole = Arc::new(AtomicBool::new(false));
    let sent = Arc::clone(&is_whole);
    tokio::spawn(async move {
        let _permit = permit;
        tokio::select! {
            whole = send(&file, &sender) => sent.store(whole, Ordering::Release),
            _stopping = stopping.wait_for(|stopping| *stopping) => {}
        }
    });
    // Without an error, the end of the channel would look like the end of the file.
    let cut = std::iter::once_with(move || {
        let cut = || {
            refusal(
                Reason::FileCutShort,
                "the file was not read in time, or the server stops",
            )
        };
        (!is_whole.load(Ordering::Acquire)).then(|| Err(cut()))
    });
    Box::pin(ReceiverStream::new(stream).chain(tokio_stream::iter(cut.flatten())))
}

/// Sends a file's pieces; returns whether all of them were taken.
async fn send(
    file: &v1::ExportGpuFileResponse,
    sender: &mpsc::Sender<Result<v1::ExportGpuFilePiecesResponse, Status>>,
) -> bool {
    let mut rest = file.content.as_str();
    let mut warnings = file.warnings.clone();
    loop {
        let most = FILE_PIECE_BYTES.min(rest.len());
        let end = (1..=most).rev().find(|&end| rest.is_char_boundary(end));
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        let piece = v1::ExportGpuFilePiecesResponse {
            content: piece.to_owned(),
            generation: file.generation,
            warnings: std::mem::take(&mut warnings),
        };
        let sent = timeout(FILE_PIECE_PAUSE, sender.send(Ok(piece))).await;
        if !matches!(sent, Ok(Ok(()))) {
            return false;
        }
        if after.is_empty() {
            return true;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Semaphore;

    #[test]
    fn formats_are_found_by_name_and_numbered_formats_by_number() {
        let asked = |name: &str, file: i32| {
            let request = v1::ExportGpuFileRequest {
                name: name.to_owned(),
                file,
                ..Default::default()
            };
            exporter(&request).map(|exporter| exporter.name)
        };
        for format in EXPORTERS {
            assert_eq!(asked(format.name, 0).unwrap(), format.name);
        }
        for &(number, label) in v1::GpuFile::LABELS {
            assert_eq!(asked("", number).unwrap(), label);
        }
        for refused in [asked("", 0), asked("", 99), asked("nccl", 1)] {
            let error = refused.unwrap_err();
            assert!(error.message().contains("nccl-env, nccl-xml"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_large_file_is_sent_in_pieces_and_ends_with_an_error_if_the_server_stops() {
        let content = "é-".repeat(FILE_PIECE_BYTES);
        let file = v1::ExportGpuFileResponse {
            content: content.clone(),
            generation: 7,
            warnings: vec!["gpu-1 is away".to_owned()],
        };
        let permit = || Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (stop, stopping) = watch::channel(false);
        let read: Vec<_> = pieces(file.clone(), stopping.clone(), permit())
            .collect()
            .await;
        assert_eq!(read.len(), 4);
        let warned = read
            .iter()
            .map(|piece| piece.as_ref().unwrap().warnings.len());
        assert_eq!(warned.collect::<Vec<_>>(), [1, 0, 0, 0]);
        let text: String = read
            .into_iter()
            .map(|piece| piece.unwrap().content)
            .collect();
        assert!(text == content);
        let empty = v1::ExportGpuFileResponse::default();
        let read: Vec<_> = pieces(empty, stopping.clone(), permit()).collect().await;
        assert_eq!(read.len(), 1);

        let mut cut = pieces(file.clone(), stopping, permit());
        assert!(cut.next().await.unwrap().is_ok());
        stop.send(true).unwrap();
        let rest: Vec<_> = cut.collect().await;
        assert!(rest.last().unwrap().is_err(), "{}", rest.len());
        let large = v1::ExportGpuFileResponse {
            content: "x".repeat(MAX_WHOLE_FILE_BYTES + 1),
            generation: 7,
            warnings: Vec::new(),
        };
        assert_eq!(whole(file).unwrap().generation, 7);
        assert_eq!(whole(large).unwrap_err().code(), tonic::Code::OutOfRange);
    }
}
