/// The counters of a design, each declared once: `NAME` is its field and, in `tlb_counters`, its
/// name.
macro_rules! counters {
    ($($(#[$about:meta])* $name:ident,)*) => {
        #[derive(Clone, Copy, Debug, Default)]
        struct Counts {
            $($(#[$about])* $name: u64,)*
        }

        impl Counts {
            fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}
pub(super) use counters;
