//! Decides which routes a provider's cloud has to have so that pods reach each other, and what nodes say of it.
