//! Looking into traces.

use pagelab_events::TraceReader;

/// What a trace holds.
pub(crate) fn info(path: &str) -> Result<serde_json::Value, String> {
    let reader = TraceReader::open(path).map_err(|error| error.to_string())?;
    let bytes = std::fs::metadata(path)
        .map_err(|error| format!("{path}: {error}"))?
        .len();
    let accesses = reader.accesses();
    Ok(serde_json::json!({
        "format": "pagelab",
        "complete": reader.is_complete(),
        "accesses": accesses,
        "chunks": reader.chunks(),
        "bytes": bytes,
        "bytes_per_access": bytes as f64 / accesses.max(1) as f64,
        "metadata": reader.metadata().0,
    }))
}
