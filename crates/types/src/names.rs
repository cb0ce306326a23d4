//! Names of enumerations.

/// Gives an enumeration `ALL`, `name` and `Display`; and `FromStr` if its errors are told what the
/// name is of.
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Direction {
///     Up,
///     Down,
/// }
/// millstream_types::names! { Direction, "direction": Up "up", Down "down" }
/// assert_eq!(Direction::ALL.map(Direction::name), ["up", "down"]);
/// assert_eq!("up".parse(), Ok(Direction::Up));
/// let error = "uq".parse::<Direction>().unwrap_err();
/// assert_eq!(error.to_string(), "unknown direction 'uq'; did you mean 'up'?");
/// ```
#[macro_export]
macro_rules! names {
    ($(#[$example:meta])* $type:ident, $what:literal: $($value:ident $name:literal),+) => {
        $crate::names! { $(#[$example])* $type: $($value $name),+ }

        impl std::str::FromStr for $type {
            type Err = $crate::Error;

            fn from_str(text: &str) -> $crate::Result<$type> {
                let found = $type::ALL.into_iter().find(|value| value.name() == text);
                found.ok_or_else(|| $crate::Error::Unknown {
                    what: $what,
                    name: text.to_owned(),
                    help: $crate::nearest::did_you_mean(text, $type::ALL.map($type::name)),
                })
            }
        }
    };
    ($(#[$example:meta])* $type:ident: $($value:ident $name:literal),+) => {
        impl $type {
            /// Every value, in the order of the definition.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$value),+];

            /// Returns the name used in text forms, files and on command lines.
            $(#[$example])*
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$value => $name),+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
