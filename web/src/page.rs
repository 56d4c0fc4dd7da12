//! The page: files that are part of the program.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::get;

use crate::reply;
use crate::routes_state::Shared;

/// A file of the page.
struct File {
    path: &'static str,
    media: &'static str,
    bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

macro_rules! files {
    ($($path:literal: $media:ident = $file:literal,)+) => {
        const FILES: &[File] = &[$(File {
            path: $path,
            media: $media,
            bytes: include_bytes!(concat!("../page/", $file)),
        }),+];
    };
}

files! {
    "/": HTML = "index.html",
    "/page.css": CSS = "page.css",
    "/icon.svg": IMAGE = "icon.svg",
    "/main.js": SCRIPT = "main.js",
    "/data.js": SCRIPT = "data.js",
    "/early.js": SCRIPT = "early.js",
    "/dom.js": SCRIPT = "dom.js",
    "/scene.js": SCRIPT = "scene.js",
    "/canvas.js": SCRIPT = "canvas.js",
    "/pods.js": SCRIPT = "pods.js",
    "/fabric.js": SCRIPT = "fabric.js",
    "/detail.js": SCRIPT = "detail.js",
    "/path.js": SCRIPT = "path.js",
    "/tables.js": SCRIPT = "tables.js",
    "/history.js": SCRIPT = "history.js",
    "/time.js": SCRIPT = "time.js",
    "/refresh.js": SCRIPT = "refresh.js",
    "/whatif.js": SCRIPT = "whatif.js",
    "/gpus.js": SCRIPT = "gpus.js",
    "/chart.js": SCRIPT = "chart.js",
    "/past.js": SCRIPT = "past.js",
    "/port.js": SCRIPT = "port.js",
    "/causes.js": SCRIPT = "causes.js",
    "/overview.js": SCRIPT = "overview.js",
    "/report.js": SCRIPT = "report.js",
}

/// The entity tags of [`FILES`], in their order.
static TAGS: LazyLock<Vec<String>> =
    LazyLock::new(|| FILES.iter().map(|file| reply::etag(file.bytes)).collect());

pub(crate) fn routes() -> Router<Arc<Shared>> {
    let mut routes = Router::new();
    for (file, tag) in FILES.iter().zip(TAGS.iter()) {
        let answer = move |State(shared): State<Arc<Shared>>, headers: HeaderMap| async move {
            if file.media == HTML {
                draw_ahead(shared);
            }
            reply::tagged(&headers, file.media, tag, Bytes::from_static(file.bytes))
        };
        routes = routes.route(file.path, get(answer));
    }
    routes
}

/// Draws the fabric while the browser reads the scripts of the page. The browser requests the
/// drawing next, and a large fabric takes a few tenths of a second to draw.
fn draw_ahead(shared: Arc<Shared>) {
    if shared.graphs.is_idle() {
        // If there is an error, the request that follows gets it.
        tokio::spawn(async move { drop(shared.graphs.current().await) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(file: &File) -> &'static str {
        std::str::from_utf8(file.bytes).expect("files of the page are text")
    }

    #[test]
    fn every_imported_script_is_served() {
        for script in FILES.iter().filter(|file| file.media == SCRIPT) {
            for line in text(script).lines().filter(|line| line.contains("from \"")) {
                let from = line.split("from \"").nth(1).unwrap();
                let name = from.split('"').next().unwrap();
                let path = name.strip_prefix('.').expect("imports are relative");
                let served = FILES.iter().any(|file| file.path == path);
                assert!(served, "{}: {name}", script.path);
            }
        }
    }

    #[test]
    fn index_html_references_every_script_so_that_the_browser_loads_them_in_parallel() {
        let html = FILES.iter().find(|file| file.media == HTML).map(text);
        let html = html.expect("there is a page");
        for script in FILES.iter().filter(|file| file.media == SCRIPT) {
            let named = format!("=\"{}\"", script.path);
            assert!(html.contains(&named), "{}", script.path);
        }
    }

    #[test]
    fn page_has_no_inline_code_and_no_markup_from_data() {
        for file in FILES {
            let text = text(file);
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
            ] {
                assert!(!text.contains(forbidden), "{}: {forbidden}", file.path);
            }
            if file.media == HTML {
                assert!(!text.contains(" style="), "styles are in page.css");
                assert!(!text.contains(" onclick="), "handlers are in scripts");
                assert!(!text.contains("://"), "nothing comes from another server");
            }
        }
    }
}
