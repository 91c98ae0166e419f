//! Writes lines to the operator's log. The host keeps at most 100 lines per call and 4 KiB per line, and shows the
//! last ones with the error when the guest crashes.
//!
//! The macros [`debug!`], [`info!`], [`warn!`] and [`error!`] take a text as [`format!`] does, and before it fields in
//! the form of the crate `log`: keep the text constant, and put variable data into fields.
//!
//! ```
//! use ccm_guest::log;
//!
//! # let (name, size) = ("web", 7);
//! log::warn!("the machine {name} has no address");
//! log::info!(name, size = size + 1; "creating a load balancer");
//! ```
//!
//! With the feature `log`, records that libraries write through the crate `log` appear here, too. `tracing` needs no
//! bridge of its own: its feature `log` writes to that crate.

use crate::host;

#[cfg(feature = "log")]
mod bridge;

pub use crate::bindings::host::ccm::provider::log::Level;
#[doc(inline)]
pub use crate::{
    __log_debug as debug, __log_error as error, __log_info as info, __log_warn as warn,
};
#[cfg(feature = "log")]
pub use bridge::bridge;

/// Writes one line. Put variable data into `fields`, so that the message text stays constant.
pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
    let fields: Vec<(String, String)> = fields
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    host::log::log(level, message, &fields);
}

/// Logs details for the provider's author.
pub fn debug(message: &str, fields: &[(&str, &str)]) {
    write(Level::Debug, message, fields);
}

/// Logs a normal step of the work.
pub fn info(message: &str, fields: &[(&str, &str)]) {
    write(Level::Info, message, fields);
}

/// Logs a condition that the operator should look at.
pub fn warn(message: &str, fields: &[(&str, &str)]) {
    write(Level::Warn, message, fields);
}

/// Logs that something failed.
pub fn error(message: &str, fields: &[(&str, &str)]) {
    write(Level::Error, message, fields);
}

/// Logs details for the provider's author. See [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __log_debug { ($($line:tt)+) => { $crate::__log!(Debug, $($line)+) }; }

/// Logs normal operation. See [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __log_info { ($($line:tt)+) => { $crate::__log!(Info, $($line)+) }; }

/// Logs a condition that the operator should look at. See [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __log_warn { ($($line:tt)+) => { $crate::__log!(Warn, $($line)+) }; }

/// Logs a failure. See [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __log_error { ($($line:tt)+) => { $crate::__log!(Error, $($line)+) }; }

#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    ($level:ident, $($key:ident $(= $value:expr)?),+; $($text:tt)+) => {
        $crate::log::write(
            $crate::log::Level::$level,
            &::std::format!($($text)+),
            &[$((
                ::core::stringify!($key),
                ::std::string::ToString::to_string(&$crate::__log!(@value $key $(= $value)?)).as_str(),
            )),+],
        )
    };
    ($level:ident, $($text:tt)+) => {
        $crate::log::write($crate::log::Level::$level, &::std::format!($($text)+), &[])
    };
    (@value $key:ident) => { $key };
    (@value $key:ident = $value:expr) => { $value };
}
