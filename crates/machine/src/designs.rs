//! The designs: every page table with every TLB that makes sense with it, each pair compiled for
//! itself. `registered.rs` lists them.

use crate::config::{MachineConfig, suggestion};
use crate::error::BuildError;
use crate::mmu::{AROUND, ConfiguredMmu, Conventional};
use crate::registered::registered;
use crate::simulate::{Drive, Ran, SimulateError, run};
use pagelab_os::{Os, Placement};
use pagelab_translation::{
    Clustered, ConventionalTlb, Dpt, Ecpt, Flattened, Ideal, MeHpt, MosaicTlb, Nested, PageTable,
    PerfectTlb, Radix, RangeTlb, Ranged, Tlb,
};
use serde_json::{Value, json};

/// A page table that a configuration describes.
pub(crate) trait ConfiguredTable: PageTable + Sized + Clone + Send {
    fn build(config: &MachineConfig) -> Result<Self, BuildError>;

    /// Physical memory of a machine with it.
    fn physical_bytes(config: &MachineConfig) -> u64 {
        config.memory.memory_bytes
    }

    /// The design's own counters.
    fn statistics(&self) -> serde_json::Result<Value>;
}

/// A TLB that a configuration describes.
pub(crate) trait ConfiguredTlb: Tlb + Sized {
    /// What it makes of a page table.
    type Table<P: ConfiguredTable>: ConfiguredTable;

    /// How the operating system of a machine with this TLB places pages.
    fn placement(_: &MachineConfig) -> Placement {
        Placement::Buddy
    }

    fn build(config: &MachineConfig, os: &Os) -> Result<Self, BuildError>;

    /// Whether translations can be prefetched for it.
    fn prefetches(_: &MachineConfig) -> bool {
        false
    }
}

pub(crate) type Run = fn(&MachineConfig, &mut Drive) -> Result<Ran, BuildError>;

/// What is built around the conventional TLB and some page tables, as its folder says.
#[derive(Debug)]
pub(crate) struct Around {
    /// One line about it.
    pub(crate) description: &'static str,
    /// By the name of the page table.
    pub(crate) with: &'static [(&'static str, Compiled)],
}

/// A design as it is compiled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled {
    run: Run,
    looks_into_caches: bool,
}

pub(crate) const fn compiled<M: ConfiguredMmu>() -> Compiled {
    Compiled {
        run: run::<M>,
        looks_into_caches: M::LOOKS_INTO_CACHES,
    }
}

/// A name on the command line, and one line about what it stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
}

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

registered!(page_tables);
registered!(tlbs);

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
    page_table: &'static PageTableDesign,
    tlb: &'static Named,
    compiled: Compiled,
}

impl Design {
    /// Every design, a page table's alone before those with other TLBs.
    pub fn all() -> impl Iterator<Item = Design> {
        let with_tlbs = |page_table: &'static PageTableDesign| {
            let runs = page_table.runs.iter().zip(TLBS);
            runs.map(move |(&compiled, tlb)| Design {
                page_table,
                tlb,
                compiled,
            })
        };
        let with_others = |page_table: &'static PageTableDesign| {
            AROUND.iter().filter_map(move |(tlb, with)| {
                let mut with = with.iter();
                let &(_, compiled) = with.find(|(name, _)| *name == page_table.named.name)?;
                Some(Design {
                    page_table,
                    tlb,
                    compiled,
                })
            })
        };
        (PAGE_TABLES.iter().chain(NESTED).chain([&IDEAL]))
            .flat_map(move |table| with_tlbs(table).chain(with_others(table)))
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
        self.page_table.named.name
    }

    /// The name of its TLB, or of what is around the conventional one.
    pub fn tlb(self) -> &'static str {
        self.tlb.name
    }

    /// The tables of a machine's keys that are its own, the page table's first.
    pub fn tables(self) -> Vec<&'static str> {
        let tlb = (!self.is_page_table_alone()).then_some(self.tlb.name);
        self.page_table.tables.iter().copied().chain(tlb).collect()
    }

    /// Whether it is among those that are compared unless others are asked for: a page table, not in
    /// a virtual machine, with the TLB that processors have.
    pub fn is_usual(self) -> bool {
        let nested = NESTED
            .iter()
            .any(|table| std::ptr::eq(table, self.page_table));
        self.is_page_table_alone() && !nested
    }

    pub(crate) fn run(self) -> Run {
        self.compiled.run
    }

    /// Whether its translations depend on what caches hold: it then goes neither in pieces nor with
    /// `caches.coherence` among several cores.
    pub fn looks_into_caches(self) -> bool {
        self.compiled.looks_into_caches
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        let Named { name, .. } = self.page_table.named;
        if self.is_page_table_alone() {
            name.to_owned()
        } else {
            format!("{name}+{}", self.tlb.name)
        }
    }

    /// One line about it.
    pub fn description(self) -> String {
        let Named { description, .. } = self.page_table.named;
        if self.is_page_table_alone() {
            description.to_owned()
        } else {
            format!(
                "{} with {}",
                self.page_table.named.name, self.tlb.description
            )
        }
    }

    /// Whether its TLB is the one that a page table has when none is named.
    fn is_page_table_alone(self) -> bool {
        self.tlb.name == TLBS[0].name
    }
}
