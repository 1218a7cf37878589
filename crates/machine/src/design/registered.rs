//! Every design, a line each. Its keys, what it counts and its description are where what a line names
//! is.

/// Gives a macro every design.
///
/// - `page_tables`: `NAME: TABLE, KEYS`, each with every TLB.
/// - `tlbs`: `NAME: TLB, KEYS`, of which the conventional one has no keys of its own.
/// - `around`: `FOLDER: KEYS`, what is built around the conventional TLB and some page tables, which
///   the folder's `DESIGN` names (`mmu/FOLDER/mod.rs`).
///
/// The name is that of the design, and of its keys in a machine's description.
macro_rules! registered {
    ($then:ident) => {
        $then! {
            page_tables {
                radix: Radix, RadixConfig;
                flattened: Flattened, FlattenedConfig;
                clustered: Clustered, ClusteredConfig;
                ecpt: Ecpt, EcptConfig;
                me_hpt: MeHpt, MeHptConfig;
                dpt: Dpt, DptConfig;
            }
            tlbs {
                conventional: ConventionalTlb;
                mosaic: MosaicTlb, MosaicConfig;
                range: RangeTlb, RangeConfig;
            }
            around {
                victima: VictimaConfig;
                revelator: RevelatorConfig;
                pom_tlb: PomTlbConfig;
                utopia: UtopiaConfig;
            }
        }
    };
}
pub(crate) use registered;
