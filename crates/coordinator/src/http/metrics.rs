//! `GET /metrics`, for Prometheus. A coordinator that does not lead tells what it counted itself.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::respond::Failure;
use crate::metrics::Standing;
use crate::shared::Shared;

/// The format that Prometheus asks for first; the older text format reads the same lines.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) async fn metrics(State(shared): State<Arc<Shared>>) -> Result<Response, Failure> {
    let text = shared.metrics.encode(&Standing {
        term: shared.term().as_deref(),
        store: shared.store_health.trouble().map(|trouble| trouble.status),
        revision: shared.coordinators.rev().0,
        event_readers: shared.event_readers(),
    });
    let text = text.map_err(|error| Failure::broken(format!("the metrics: {error}")))?;
    let kind = (header::CONTENT_TYPE, OPEN_METRICS);
    Ok(([kind, (header::CACHE_CONTROL, "no-store")], text).into_response())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use steadfast_model::LossCause;

    use super::super::stage::Stage;

    /// Every name that a leader tells, as Prometheus stores it.
    fn told() -> BTreeSet<String> {
        let stage = Stage::leading();
        // A family without labels has no lines.
        stage.shared.metrics.member_lost(LossCause::Silence);
        let text = stage.get("/metrics", None).body;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect()
    }

    fn named(document: &str) -> BTreeSet<String> {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let text = std::fs::read_to_string(docs.join(document)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("steadfast_")).map(str::to_owned).collect()
    }

    /// Red where a metric gets another name: an alert over one that is not there never fires.
    #[test]
    fn every_metric_that_the_documents_name_is_told() {
        let told = told();
        for document in ["alerts.yml", "grafana.json", "http-api.md"] {
            let named = named(document);
            assert!(named.len() > 10, "{document}: {named:?}");
            for name in named {
                // The table names a histogram by its family.
                let family = document == "http-api.md" && told.contains(&format!("{name}_count"));
                assert!(told.contains(&name) || family, "{document} names {name}\n{told:#?}");
            }
        }
    }

    #[test]
    fn every_metric_that_is_told_is_in_the_table() {
        let named = named("http-api.md");
        for name in told() {
            let family =
                ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end));
            let known = named.contains(&name) || family.is_some_and(|name| named.contains(name));
            assert!(known, "docs/http-api.md does not name {name}");
        }
    }
}
