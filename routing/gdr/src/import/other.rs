//! Recognises tools of other vendors with output similar to `nvidia-smi topo -m`.

use super::error::{ImportError, ImportReason};

/// Words in the output of a tool, and the name of the tool.
const TOOLS: [(&[&str], &str); 8] = [
    (
        &["mthreads-gmi", "Moore Threads", "MTLink"],
        "Moore Threads' mthreads-gmi",
    ),
    (&["npu-smi", "HCCS"], "Huawei's npu-smi"),
    (&["xpu-smi", "XeLink"], "Intel's xpu-smi"),
    (&["hl-smi", "Gaudi"], "Intel's hl-smi"),
    (&["mx-smi", "MetaX"], "MetaX's mx-smi"),
    (&["ixsmi", "Iluvatar"], "Iluvatar's ixsmi"),
    (&["cnmon", "MLULINK", "MLU-Link"], "Cambricon's cnmon"),
    (
        &["ROCm System Management", "AMD-SMI", "amd-smi"],
        "an AMD tool without its table of link types (`amd-smi topology`, `rocm-smi --showtopo`)",
    ),
];

/// Adds the tool to the error about a text that is not a matrix of `nvidia-smi`.
pub(super) fn with_tool_name(text: &str, error: ImportError) -> ImportError {
    let is_of = |words: &&[&str]| words.iter().any(|word| text.contains(word));
    match TOOLS.iter().find(|(words, _)| is_of(words)) {
        None => error,
        Some(&(_, tool)) => {
            let reason = Box::new(error.reason);
            ImportError::new(error.line, ImportReason::OtherTool { tool, reason })
        }
    }
}
