//! Methods that set the fields of options.

/// Defines a method of its name for each of these fields, which sets it:
///
/// ```
/// #[derive(Default)]
/// struct Options {
///     repeats: u32,
/// }
/// millstream_types::setters! { Options: repeats: u32, }
/// assert_eq!(Options::default().repeats(3).repeats, 3);
/// ```
#[macro_export]
macro_rules! setters {
    ($owner:ident: $($(#[$example:meta])* $field:ident: $type:ty,)*) => {
        impl $owner {
            $(
                #[doc = concat!("Sets [`", stringify!($owner), "::", stringify!($field), "`].")]
                $(#[$example])*
                #[must_use]
                pub fn $field(mut self, $field: $type) -> $owner {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
