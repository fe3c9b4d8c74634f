//! Macro for validated strings: ids, topics and the like.

/// Defines types that hold a valid string. Clones share the text.
///
/// The check is a function from `&str` to `Result<(), Error>`. Its error must not repeat the string. The order is
/// derived by the caller, as it is not always that of the text. The caller depends on `serde`.
///
/// ```
/// use interzone_protocol::vocab::string_newtype;
///
/// #[derive(Debug, PartialEq)]
/// pub struct NotLowerCase;
///
/// impl std::fmt::Display for NotLowerCase {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         f.write_str("give lower-case letters")
///     }
/// }
///
/// fn check(text: &str) -> Result<(), NotLowerCase> {
///     text.bytes().all(|byte| byte.is_ascii_lowercase()).then_some(()).ok_or(NotLowerCase)
/// }
///
/// string_newtype! {
///     /// A tag.
///     #[derive(PartialOrd, Ord)]
///     Tag: NotLowerCase = check;
/// }
///
/// let tag = Tag::new("red")?;
/// assert_eq!(tag.as_str(), "red");
/// assert_eq!(Tag::new("Red"), Err(NotLowerCase));
/// # Ok::<(), NotLowerCase>(())
/// ```
#[macro_export]
macro_rules! string_newtype {
    ($($(#[$attr:meta])* $name:ident: $error:ty = $check:expr;)*) => {$(
        $(#[$attr])*
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub struct $name(::std::sync::Arc<str>);

        impl $name {
            /// Validates a string.
            ///
            /// # Errors
            /// The string breaks a rule of this type.
            pub fn new(text: impl AsRef<str>) -> Result<Self, $error> {
                let text = text.as_ref();
                $check(text)?;
                Ok(Self(text.into()))
            }

            /// Validates a shared string and shares it instead of copying.
            ///
            /// # Errors
            /// As [`new`](Self::new).
            pub fn from_arc(text: &::std::sync::Arc<str>) -> Result<Self, $error> {
                $check(text)?;
                Ok(Self(::std::sync::Arc::clone(text)))
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&&*self.0).finish()
            }
        }

        impl ::std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = $error;

            fn try_from(text: &str) -> Result<Self, $error> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                Self::new(text)
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = ::std::borrow::Cow::<str>::deserialize(deserializer)?;
                Self::new(text).map_err(<D::Error as ::serde::de::Error>::custom)
            }
        }
    )*};
}
