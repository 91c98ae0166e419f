//! Decides which node gets which pod CIDRs.
