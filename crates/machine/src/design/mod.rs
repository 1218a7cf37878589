//! The designs: every page table with every TLB that makes sense with it, each pair compiled for
//! itself. `registered.rs` lists them.

pub(crate) mod compiled;
pub(crate) mod name;
pub(crate) mod registered;

use crate::config::{MachineConfig, suggestion};
use crate::count::result::RunResult;
use crate::design::compiled::{Compiled, compiled};
use crate::design::name::{DesignName, Named};
use crate::design::registered::registered;
use crate::error::{BuildError, SimulateError};
use crate::mmu::{ConfiguredTable, ConfiguredTlb, Conventional};
use crate::run::drive::{Drive, Sources};
use crate::run::progress::Progress;
use pagelab_os::{Os, Placement};
use pagelab_translation::{
    Clustered, ConventionalTlb, Dpt, Ecpt, Flattened, Ideal, MeHpt, MosaicTlb, Nested, PerfectTlb,
    Radix, RangeTlb, Ranged,
};
use serde_json::{Value, json};
use std::ops::ControlFlow;

#[derive(Debug)]
struct PageTableDesign {
    named: Named,
    /// The tables of a machine's keys that are its own.
    tables: &'static [&'static str],
    /// With each of `TLBS`, the conventional one first; without the others where translation is
    /// free.
    runs: &'static [Compiled],
}

macro_rules! page_tables {
    (
        page_tables { $($name:ident: $table:ident, $keys:ident;)* }
        $($others:tt)*
    ) => {
        $(impl ConfiguredTable for $table {
            fn build(config: &MachineConfig) -> Result<Self, BuildError> {
                Ok(<$table>::new(&config.$name, config.cores as usize)?)
            }

            fn statistics(&self) -> serde_json::Result<Value> {
                serde_json::to_value(self.counters())
            }
        })*

        const PAGE_TABLES: &[PageTableDesign] = &[
            $(PageTableDesign {
                named: Named { name: stringify!($name), description: $table::DESCRIPTION },
                tables: &[stringify!($name)],
                runs: &with_each_tlb::<$table>(),
            },)*
        ];
    };
}

macro_rules! tlbs {
    (
        page_tables { $($skipped:tt)* }
        tlbs { $($name:ident: $tlb:ident $(, $keys:ident)?;)* }
        $($others:tt)*
    ) => {
        const TLBS: &[Named] = &[
            $(Named { name: stringify!($name), description: $tlb::DESCRIPTION }),*
        ];

        const fn with_each_tlb<P: ConfiguredTable>() -> [Compiled; TLBS.len()] {
            [$(compiled::<Conventional<<$tlb as ConfiguredTlb>::Table<P>, $tlb>>()),*]
        }
    };
}

macro_rules! around {
    (
        page_tables { $($skipped:tt)* }
        tlbs { $($skipped_tlbs:tt)* }
        around { $($name:ident: $keys:ident;)* }
    ) => {
        /// Designs around the conventional TLB, with the page tables that they go with.
        const AROUND: &[(Named, &[(&str, Compiled)])] = &[
            $((
                Named { name: stringify!($name), description: crate::mmu::$name::DESIGN.description },
                crate::mmu::$name::DESIGN.with,
            ),)*
        ];
    };
}

registered!(page_tables);
registered!(tlbs);
registered!(around);

impl ConfiguredTlb for ConventionalTlb {
    type Table<P: ConfiguredTable> = P;

    fn build(config: &MachineConfig, _: &Os) -> Result<Self, BuildError> {
        Ok(ConventionalTlb::new(&config.tlb)?.seeded(config.seed))
    }

    fn prefetches(config: &MachineConfig) -> bool {
        config.tlb.l1_4k.coalesce.max(config.tlb.l2_4k.coalesce) == 1
    }
}

impl ConfiguredTlb for MosaicTlb {
    type Table<P: ConfiguredTable> = P;

    fn placement(_: &MachineConfig) -> Placement {
        Placement::Hashed
    }

    fn build(config: &MachineConfig, os: &Os) -> Result<Self, BuildError> {
        let Some(iceberg) = os.frames().iceberg() else {
            unreachable!("pages are placed as `placement` says");
        };
        Ok(MosaicTlb::new(&config.tlb, config.mosaic, iceberg)?)
    }
}

impl ConfiguredTlb for RangeTlb {
    type Table<P: ConfiguredTable> = Ranged<P>;

    fn placement(_: &MachineConfig) -> Placement {
        Placement::Eager
    }

    fn build(config: &MachineConfig, _: &Os) -> Result<Self, BuildError> {
        Ok(RangeTlb::new(&config.tlb, config.range)?)
    }
}

impl<P: ConfiguredTable> ConfiguredTable for Ranged<P> {
    fn build(config: &MachineConfig) -> Result<Self, BuildError> {
        Ok(Ranged::new(P::build(config)?))
    }

    fn statistics(&self) -> serde_json::Result<Value> {
        Ok(json!({
            "range_table": self.counters(),
            "page_table": self.pages().statistics()?,
        }))
    }
}

/// `NAME: TYPE`: a guest with this page table on a host with the same.
macro_rules! nested {
    ($($name:ident: $table:ty;)*) => {
        const NESTED: &[PageTableDesign] = &[
            $(PageTableDesign {
                named: Named {
                    name: concat!("nested-", stringify!($name)),
                    description: concat!(
                        stringify!($name), " in a virtual machine, on a host with ", stringify!($name)
                    ),
                },
                tables: &[stringify!($name), "nested"],
                runs: &[compiled::<Conventional<Nested<$table, $table>, ConventionalTlb>>()],
            },)*
        ];
    };
}

nested! {
    radix: Radix;
    ecpt: Ecpt;
    dpt: Dpt;
}

static IDEAL: PageTableDesign = PageTableDesign {
    named: Named {
        name: "ideal",
        description: "every translation free: the bound that no design can pass",
    },
    tables: &[],
    runs: &[compiled::<Conventional<Ideal, PerfectTlb>>()],
};

impl ConfiguredTable for Ideal {
    fn build(_: &MachineConfig) -> Result<Self, BuildError> {
        Ok(Ideal::new())
    }

    fn statistics(&self) -> serde_json::Result<Value> {
        Ok(Value::Null)
    }
}

impl ConfiguredTlb for PerfectTlb {
    type Table<P: ConfiguredTable> = P;

    fn build(_: &MachineConfig, _: &Os) -> Result<Self, BuildError> {
        Ok(PerfectTlb)
    }
}

/// A design that can be simulated: a page table and a TLB.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    called: DesignName,
    compiled: Compiled,
    usual: bool,
}

impl Design {
    /// Every design, a page table's alone before those with other TLBs.
    pub fn all() -> impl Iterator<Item = Design> {
        let nested = NESTED.iter().map(|table| (table, true));
        let others = PAGE_TABLES.iter().map(|table| (table, false));
        let ideal = [(&IDEAL, false)];
        (others.chain(nested).chain(ideal)).flat_map(|(table, nested)| {
            let with = move |tlb: &Named, compiled: Compiled| {
                let alone = tlb.name == TLBS[0].name;
                Design {
                    called: DesignName {
                        page_table: table.named,
                        tlb: *tlb,
                        tables: table.tables,
                        alone,
                    },
                    compiled,
                    usual: alone && !nested,
                }
            };
            let with_tlbs = table.runs.iter().zip(TLBS);
            let with_tlbs = with_tlbs.map(move |(&compiled, tlb)| with(tlb, compiled));
            let with_others = AROUND.iter().filter_map(move |(tlb, tables)| {
                let mut tables = tables.iter();
                let &(_, compiled) = tables.find(|(name, _)| *name == table.named.name)?;
                Some(with(tlb, compiled))
            });
            with_tlbs.chain(with_others)
        })
    }

    /// The design of a name: `PAGETABLE`, which has the conventional TLB, `PAGETABLE+TLB`, or
    /// `TLB`, which has `radix`.
    ///
    /// # Errors
    /// [`SimulateError::UnknownDesign`].
    pub fn find(name: &str) -> Result<Design, SimulateError> {
        let named = |d: &Design| {
            let own = d.name();
            own == name || own.strip_prefix("radix+") == Some(name)
        };
        Design::all().find(named).ok_or_else(|| {
            let names: Vec<String> = Design::all().map(Design::name).collect();
            SimulateError::UnknownDesign {
                name: name.to_owned(),
                hint: suggestion(name, names.iter().map(String::as_str)),
                known: names,
            }
        })
    }

    /// The name of its page table, or of that in a virtual machine (`nested-radix`).
    pub fn page_table(self) -> &'static str {
        self.called.page_table.name
    }

    /// The name of its TLB, or of what is around the conventional one.
    pub fn tlb(self) -> &'static str {
        self.called.tlb.name
    }

    /// The tables of a machine's keys that are its own, the page table's first.
    pub fn tables(self) -> Vec<&'static str> {
        self.called.tables()
    }

    /// True for designs that are compared unless others are asked for: a page table, not in a virtual machine, with
    /// the TLB that processors have.
    pub fn is_usual(self) -> bool {
        self.usual
    }

    /// True if translations depend on what caches hold: such a design does not go with
    /// `caches.coherence` among several cores.
    pub fn looks_into_caches(self) -> bool {
        self.compiled.looks_into_caches
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        self.called.name()
    }

    /// One line about it.
    pub fn description(self) -> String {
        self.called.description()
    }
}

/// Takes sources through the machine of the design of a name.
pub(crate) fn carry_out<'a>(
    config: &MachineConfig,
    design: &str,
    sources: Sources<'a, '_>,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<RunResult, SimulateError> {
    let design = Design::find(design)?;
    let mut drive = Drive {
        design: design.called,
        sources,
        progress,
    };
    Ok((design.compiled.run)(config, &mut drive)?)
}
