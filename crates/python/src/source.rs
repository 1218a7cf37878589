//! Sources of events by their JSON description.

use pagelab_events::{Following, Selection, Source, Unit, WarmUp, WarmedUp, Window, open_any};
use pagelab_workloads::Workload;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A trace or a workload, and which part of it.
#[derive(Deserialize)]
pub(crate) struct SourceSpec {
    #[serde(flatten)]
    origin: Origin,
    window: WindowSpec,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Origin {
    Trace {
        path: String,
        /// It is still being written, and read to what will be its end.
        #[serde(default)]
        follow: bool,
    },
    Workload {
        name: String,
        parameters: BTreeMap<String, String>,
    },
}

/// One program, or several at once with a core each.
pub(crate) enum Programs {
    One(SourceSpec),
    PerCore(Vec<SourceSpec>),
}

impl Programs {
    pub(crate) fn from_json(text: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Several {
            programs: Vec<SourceSpec>,
        }
        let value: serde_json::Value = serde_json::from_str(text)?;
        if value.get("programs").is_some() {
            let Several { programs } = serde_json::from_value(value)?;
            return Ok(Programs::PerCore(programs));
        }
        serde_json::from_value(value).map(Programs::One)
    }

    /// Refuses parameters that the workloads among them have not; nothing of a trace is looked at.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Programs::One(spec) => spec.check(),
            Programs::PerCore(specs) => specs.iter().try_for_each(SourceSpec::check),
        }
    }
}

pub(crate) fn workload(name: &str) -> Result<&'static Workload, String> {
    Workload::find(name).ok_or_else(|| format!("unknown workload {name:?}"))
}

/// A part of a stream, or of a program's execution.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowSpec {
    pub(crate) skip: u64,
    pub(crate) limit: Option<u64>,
    /// Sample: the first so many (the first number) of every so many (the second).
    pub(crate) sample: Option<(u64, u64)>,
    /// Periods grow: each is at least one part in so many of the way so far; 0 if they do not.
    pub(crate) thinning: u64,
    pub(crate) in_instructions: bool,
    /// Part of each piece that is not measured.
    pub(crate) warm_up: u64,
}

impl SourceSpec {
    /// The workload with its parameters, or the trace's path.
    pub(crate) fn name(&self) -> String {
        match &self.origin {
            Origin::Trace { path, .. } => path.clone(),
            Origin::Workload { name, parameters } => {
                let given: Vec<_> = parameters.iter().map(|(k, v)| format!("{k}={v}")).collect();
                format!("{name}:{}", given.join(","))
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        let Origin::Workload { name, parameters } = &self.origin else {
            return Ok(());
        };
        let given: Vec<_> = parameters.clone().into_iter().collect();
        workload(name)?
            .check(&given)
            .map_err(|error| format!("workload {name}: {error}"))
    }

    pub(crate) fn open(&self) -> Result<Box<dyn Source + Send>, String> {
        let source = match &self.origin {
            Origin::Trace { path, follow: true } => {
                Box::new(Following::open(path).map_err(|error| error.to_string())?)
            }
            Origin::Trace { path, .. } => open_any(path).map_err(|error| error.to_string())?,
            Origin::Workload { name, parameters } => {
                let given: Vec<_> = parameters.clone().into_iter().collect();
                workload(name)?
                    .start(&given)
                    .map_err(|error| format!("workload {name}: {error}"))?
            }
        };
        let selection = self.window.selection();
        let everything = Selection {
            unit: selection.unit,
            ..Selection::default()
        };
        let source = if selection == everything {
            // Looking at each access to keep it costs as much as simulating a third of it.
            source
        } else {
            Box::new(Window::new(source, selection))
        };
        let warm_up = WarmUp {
            length: self.window.warm_up,
            unit: selection.unit,
        };
        if warm_up.length == 0 {
            return Ok(source);
        }
        Ok(Box::new(WarmedUp::new(source, warm_up)))
    }
}

impl WindowSpec {
    pub(crate) fn selection(self) -> Selection {
        let (sample, period) = self.sample.unwrap_or_default();
        Selection {
            unit: if self.in_instructions {
                Unit::Instructions
            } else {
                Unit::Accesses
            },
            skip: self.skip,
            period,
            sample,
            thinning: self.thinning,
            limit: self.limit,
        }
    }
}
