//! Methods that set the fields of options.

/// Defines a method of its name for each of these fields, which sets it, or sets it to `Some`:
///
/// ```
/// #[derive(Default)]
/// struct Options {
///     repeats: u32,
///     limit: Option<u64>,
/// }
/// millstream_types::setters! { Options: repeats: u32, limit = Some: u64, }
/// let options = Options::default().repeats(3).limit(5);
/// assert_eq!((options.repeats, options.limit), (3, Some(5)));
/// ```
#[macro_export]
macro_rules! setters {
    ($owner:ident: $($(#[$example:meta])* $field:ident $(= $some:ident)?: $type:ty,)*) => {
        impl $owner {
            $(
                #[doc = concat!("Sets [`", stringify!($owner), "::", stringify!($field), "`].")]
                $(#[$example])*
                #[must_use]
                pub fn $field(mut self, $field: $type) -> $owner {
                    self.$field = $($some)?($field);
                    self
                }
            )*
        }
    };
}
