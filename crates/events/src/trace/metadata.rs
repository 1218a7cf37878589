use std::collections::BTreeMap;

/// Statements of a trace about itself: names and values, in a file a JSON object of strings.
///
/// The names below are those that pagelab itself writes; any other may stand beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(pub BTreeMap<String, String>);

impl Metadata {
    /// The program's path.
    pub const PROGRAM: &'static str = "program";
    /// The version of QEMU that ran the program.
    pub const QEMU: &'static str = "qemu";
    /// The processor that QEMU emulated, as its `-cpu` option names it.
    pub const CPU: &'static str = "cpu";
    /// Part of the run that was recorded.
    pub const WINDOW: &'static str = "window";
    /// Bytes of a page on the recorded machine.
    pub const PAGE_SIZE: &'static str = "page_size";
    /// The format of the trace that this one was converted from.
    pub const CONVERTED_FROM: &'static str = "converted_from";

    /// No metadata.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
