//! Modules on this machine: the last good ones, so that a restart needs no source.
