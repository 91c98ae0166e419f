//! What the decisions of all controllers have in common: effects and their outcomes, conclusions, patches, Events, and when to
//! try again. Decides about no object, and sends nothing.

pub mod conclusion;
pub mod effect;
pub mod event;
pub mod own_write;
pub mod patch;
pub mod retry;
pub(crate) mod write_refusal;
