//! Enums whose variants have fixed names: for people, and for programs that match on them.

/// Defines an enum from its variants with their names, and for it `ALL`, `as_str` and `parse`: none can lack a variant.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$about:meta])*
        $vis:vis enum $enum:ident {
            $($(#[$meta:meta])* $variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        $vis enum $enum {
            $($(#[$meta])* $variant,)+
        }

        impl $enum {
            /// All variants, in their order.
            $vis const ALL: [$enum; [$($name),+].len()] = [$($enum::$variant),+];

            /// The variant's fixed name.
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $($enum::$variant => $name,)+
                }
            }

            /// The variant with this name; `None` if there is none.
            $vis fn parse(name: &str) -> Option<$enum> {
                match name {
                    $($name => Some($enum::$variant),)+
                    _ => None,
                }
            }
        }
    };
}
