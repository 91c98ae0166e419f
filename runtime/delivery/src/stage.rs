//! Performs what `core::rollout` decides for one provider. Decides nothing itself.
