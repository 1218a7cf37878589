use crate::error::RunError;
use serde::{Deserialize, Serialize};

/// Reason for which a run ended before its source did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stopped {
    pub(crate) why: String,
    pub(crate) out_of_memory: bool,
}

impl Stopped {
    pub(crate) fn interrupted() -> Self {
        Stopped {
            why: "interrupted".to_owned(),
            out_of_memory: false,
        }
    }

    /// A defect of this program, the only thing that leads here.
    pub(crate) fn inexact(piece: u64) -> Self {
        Stopped {
            why: format!(
                "piece {piece} begins with other memory than the piece before it ends with: this is a \
                 defect of pagelab; simulate without pieces"
            ),
            out_of_memory: false,
        }
    }

    /// The same, of a program of several.
    pub(crate) fn of_program(self, program: usize) -> Self {
        Stopped {
            why: format!("program {program}: {}", self.why),
            ..self
        }
    }
}

impl From<RunError> for Stopped {
    fn from(error: RunError) -> Self {
        Stopped {
            why: error.to_string(),
            out_of_memory: error.is_out_of_memory(),
        }
    }
}
