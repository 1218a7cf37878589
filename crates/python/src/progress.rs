//! Calls Python back now and then from a long run.

use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(100);
/// Between two results of a run that goes on.
const LOOK: Duration = Duration::from_secs(1);

/// A Python callable `(done, total or None, (read, of how many) if there are words) -> bool`, called
/// about ten times a second and never more. It ends the run by returning false or by raising.
pub(crate) struct Callback {
    function: Py<PyAny>,
    next: Instant,
    raised: Option<PyErr>,
    so_far: Option<Py<PyAny>>,
    next_look: Instant,
}

impl Callback {
    pub(crate) fn new(function: Py<PyAny>) -> Self {
        Callback {
            function,
            next: Instant::now() + INTERVAL,
            raised: None,
            so_far: None,
            next_look: Instant::now() + LOOK,
        }
    }

    /// Calls this, too, with what is known so far: about once a second.
    pub(crate) fn and_look(mut self, so_far: Option<Py<PyAny>>) -> Self {
        self.so_far = so_far;
        self
    }

    /// To be called often, too; `text` makes what is known so far.
    pub(crate) fn look(&mut self, text: impl FnOnce() -> String) -> ControlFlow<()> {
        let Some(function) = &self.so_far else {
            return ControlFlow::Continue(());
        };
        if Instant::now() < self.next_look {
            return ControlFlow::Continue(());
        }
        let text = text();
        let called = Python::attach(|py| function.call1(py, (text,)).map(drop));
        // A look takes its time, from the run's.
        self.next_look = Instant::now() + LOOK;
        if let Err(error) = called {
            self.raised = Some(error);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// To be called often.
    pub(crate) fn report(&mut self, done: u64, remaining: Option<u64>) -> ControlFlow<()> {
        self.report_with(done, remaining, None)
    }

    /// Report with the bytes of words read, of how many, while a trace is made of them. Takes the
    /// interpreter lock only when a report is due.
    pub(crate) fn report_with(
        &mut self,
        done: u64,
        remaining: Option<u64>,
        making: Option<(u64, u64)>,
    ) -> ControlFlow<()> {
        let now = Instant::now();
        if now < self.next {
            return ControlFlow::Continue(());
        }
        self.next = now + INTERVAL;
        let total = remaining.map(|rest| done + rest);
        let answer = Python::attach(|py| {
            py.check_signals()?;
            let answer = match making {
                None => self.function.call1(py, (done, total)),
                Some(making) => self.function.call1(py, (done, total, making)),
            };
            answer?.extract::<bool>(py)
        });
        match answer {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                self.raised = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Raises what the callable raised, if it did.
    pub(crate) fn finish(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }
}
