//! The generations of one provider: the one that serves, and the one that is tried.
