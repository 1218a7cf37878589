use crate::error::RunError;

/// Reason for which a run ended before its source did.
#[derive(Clone, Debug)]
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

    /// The reason of one program among several.
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
