use std::io;

/// Why bytes say nothing of a stream.
#[derive(Debug, thiserror::Error)]
pub enum BadSurvey {
    /// They cannot be decompressed.
    #[error("not what was seen of a stream, or damaged: {0}")]
    Compression(#[from] io::Error),
    /// They are something else.
    #[error("not what was seen of a stream by this version of pagelab")]
    Other,
    /// What they say cannot be.
    #[error("damaged: what was seen of a stream cannot be so")]
    Impossible,
}
