use std::io;

/// Reason for which bytes say nothing of a stream.
#[derive(Debug, thiserror::Error)]
pub enum BadSurvey {
    /// They cannot be decompressed.
    #[error("not what was seen of a stream, or damaged: {0}")]
    Compression(#[from] io::Error),
    /// They are something else.
    #[error("not what was seen of a stream by this version of pagelab")]
    Other,
    /// Contents that cannot be.
    #[error("damaged: what was seen of a stream cannot be so")]
    Impossible,
}
